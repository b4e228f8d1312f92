"""The pictures of a sweep: its history, a slice for each parameter, the front."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reports.plots import Scale, Tick, dots, steps

__all__ = ["Picture", "Trials", "chosen_on_front", "front", "history", "slices", "track"]

# Trials below this share of all lie on the lower edge of a picture, so that a few bad ones do not
# press the others into one line.
LOWEST = 0.05
# Of a choice's column, the share over which its trials are spread, by number.
SPREAD = 0.6
MARGIN = 0.03


@dataclass(frozen=True)
class Trials:
    """Finished trials in columns; a parameter that a trial did not read is None."""

    number: Sequence[int]
    keeps: Sequence[bool]
    objectives: Mapping[str, Sequence[float]]
    parameters: Mapping[str, Sequence[Any]]


@dataclass(frozen=True)
class Picture:
    """A picture in pixels: paths of dots, lines and marks, and what its axes say.

    `default` and `chosen` are places of the two configurations on the axis that tells them apart,
    None where they have none there; `ring` is the place of the chosen configuration: its own figure
    over the number of the trial that it is or was made from.
    """

    width: int
    height: int
    dots: str
    others: str
    line: str
    default: float | None
    chosen: float | None
    x_ticks: Sequence[Tick]
    y_ticks: Sequence[Tick]
    ring: tuple[float, float] | None = None
    marks: Sequence[float] = ()
    clipped: int = 0


def track(
    value: float, low: float | None, high: float | None, least: float, most: float
) -> dict[str, float]:
    """Return a figure and its interval in percent of a scale with a little room at its ends."""
    scale = Scale(least, most, 4.0, 96.0)
    at = scale.at(value)
    begin, end = (scale.at(value if end is None else end) for end in (low, high))
    return {"at": at, "begin": begin, "width": round(end - begin, 1)}


def history(trials: Trials, record: Mapping[str, Any]) -> Picture | None:
    """Return the first objective of each trial by its number, with the best so far.

    Trials outside the constraints are `others`; failed ones are `marks` along the lower edge.
    """
    if not trials.number:
        return None
    width, height = 720, 240
    values = next(iter(trials.objectives.values()))
    failed = [number for one in record["failures"] for number in one["trials"]]
    last = max([*trials.number, *failed])
    x = Scale(0, max(last, 1), 52, width - 14)
    y, clipped = _value_scale(values, height - 30, 12)
    best, best_so_far = float("-inf"), []
    for number, value, keeps in zip(trials.number, values, trials.keeps, strict=True):
        if keeps and value > best:
            best = value
            best_so_far.append((x.at(number), y.at(value)))
    if best_so_far:
        best_so_far.append((x.at(last), best_so_far[-1][1]))
    ring = None
    if record["best"]["trial"] in trials.number:
        ring = (x.at(record["best"]["trial"]), y.at(record["train"]["chosen"]))
    return Picture(
        width,
        height,
        dots=_points(trials.number, values, trials.keeps, x, y),
        others=_points(trials.number, values, [not kept for kept in trials.keeps], x, y),
        line=steps(best_so_far),
        default=y.at(record["train"]["default"]),
        chosen=None,
        ring=ring,
        x_ticks=[t for t in x.ticks(8) if "." not in t.text],
        y_ticks=y.ticks(5),
        marks=[x.at(number) for number in failed],
        clipped=clipped,
    )


def slices(trials: Trials, record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a picture for every parameter: the first objective over its values.

    The most important come first. None without variation, where they would show a line.
    """
    values = next(iter(trials.objectives.values()))
    if len(set(values)) < 2:
        return []
    importance = record["importance"]["values"] or {}
    space = record["space"]["parameters"]
    order = sorted(space, key=lambda path: -importance.get(path, 0.0))
    return [
        {
            "path": path,
            "head": path.rpartition(".")[0],
            "name": path.rpartition(".")[2],
            "share": importance.get(path),
            "read": sum(value is not None for value in trials.parameters[path]),
            "picture": _slice(space[path], trials.parameters[path], trials, values),
        }
        for path in order
    ]


def _slice(
    parameter: Mapping[str, Any],
    column: Sequence[Any],
    trials: Trials,
    values: Sequence[float],
) -> Picture:
    width, height = 240, 150
    y, clipped = _value_scale(values, height - 26, 8)
    if parameter["kind"] == "choice":
        place, ticks = _columns(parameter["choices"], 44, width - 8)
    else:
        log = parameter["log"]
        scale = Scale(parameter["low"], parameter["high"], 48, width - 12, log)
        place, ticks = None, scale.ticks(3)
    read = [i for i, value in enumerate(column) if value is not None]
    spread = 0.0
    if place is not None:
        spread = SPREAD * (width - 52) / max(1, len(place))
    points: list[tuple[float, float]] = []
    others: list[tuple[float, float]] = []
    last = max(trials.number, default=0) or 1
    for i in read:
        if place is None:
            across = scale.at(column[i])
        else:
            across = place[column[i]] + spread * (trials.number[i] / last - 0.5)
        (points if trials.keeps[i] else others).append((across, y.at(values[i])))

    def at(value: Any) -> float | None:
        if value is None:
            return None
        return scale.at(value) if place is None else place.get(value)

    return Picture(
        width,
        height,
        dots=dots(points),
        others=dots(others),
        line="",
        default=at(parameter["default"]),
        chosen=at(parameter["chosen"]),
        x_ticks=ticks,
        y_ticks=y.ticks(4),
        clipped=clipped,
    )


def _columns(
    choices: Sequence[str], start: float, end: float
) -> tuple[dict[str, float], list[Tick]]:
    """Return the middle of each choice's column, and its text."""
    step = (end - start) / len(choices)
    place = {one: round(start + (i + 0.5) * step, 1) for i, one in enumerate(choices)}
    room = max(3, int(step / 6.5))
    return place, [Tick(at, _cut(_said(one), room)) for one, at in place.items()]


def _said(choice: str) -> str:
    """Return a choice as a configuration file says it: its JSON, without quotation marks."""
    value = json.loads(choice)
    if value is None:
        return "null"
    return value if isinstance(value, str) else choice


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def chosen_on_front(record: Mapping[str, Any]) -> bool:
    """Tell whether the chosen configuration is a trial of the front, not one made from a trial."""
    best = record["best"]
    return best["is_trial"] and best["trial"] in {one["trial"] for one in record["pareto"]}


def front(trials: Trials, record: Mapping[str, Any]) -> Picture | None:
    """Return the first two objectives of every trial, the front's joined; None with one."""
    if len(record["objective"]) < 2 or not trials.number:
        return None
    width, height = 480, 300
    names = record["objective"][:2]
    x_values, y_values = (trials.objectives[name] for name in names)
    x = Scale(*_room(min(x_values), max(x_values)), 52, width - 14)
    y = Scale(*_room(min(y_values), max(y_values)), height - 44, 12)
    best = {one["trial"] for one in record["pareto"]}
    on = [number in best for number in trials.number]
    joined = sorted((one["values"][0], one["values"][1]) for one in record["pareto"])
    ring = None
    if chosen_on_front(record):
        at = trials.number.index(record["best"]["trial"])
        ring = (x.at(x_values[at]), y.at(y_values[at]))
    return Picture(
        width,
        height,
        dots=_points(x_values, y_values, on, x, y),
        others=_points(x_values, y_values, [not one for one in on], x, y),
        line="M" + "L".join(f"{x.at(a):g} {y.at(b):g}" for a, b in joined) if joined else "",
        default=None,
        chosen=None,
        ring=ring,
        x_ticks=x.ticks(5),
        y_ticks=y.ticks(5),
    )


def _points(
    xs: Sequence[float],
    ys: Sequence[float],
    wanted: Sequence[bool],
    x: Scale,
    y: Scale,
) -> str:
    return dots((x.at(a), y.at(b)) for a, b, take in zip(xs, ys, wanted, strict=True) if take)


def _value_scale(values: Sequence[float], bottom: float, top: float) -> tuple[Scale, int]:
    """Return the scale of an objective, and how many values lie below it."""
    ordered = sorted(values)
    low = ordered[int(LOWEST * len(ordered))]
    scale = Scale(*_room(low, ordered[-1]), bottom, top)
    return scale, sum(value < scale.low for value in ordered)


def _room(low: float, high: float) -> tuple[float, float]:
    room = MARGIN * (high - low)
    return low - room, high + room
