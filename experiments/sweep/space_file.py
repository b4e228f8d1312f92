"""The YAML of a space, read parameter by parameter with the line of each.

Every fault is handed to a sink (`experiments.sweep.space_faults`); what has one is left out.
"""

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import yaml

from experiments.sweep.parameter import Condition, Kind, Parameter
from experiments.sweep.space_faults import Sink, SpaceFault, refuse
from retriever.strict_yaml import places_of, read_yaml

__all__ = ["SpaceFile", "read_parameters"]

KEYS = ("low", "high", "log", "step", "choices", "switch", "when", "complement")

# Braces multiply; a key that stands for more paths than this is a slip.
MOST_PATHS = 1000
# A float holds every whole number up to here, and a sum of two is never infinite.
LARGEST = 2**53

# What a trial cannot move: an index and its models are opened once, and figures mean the same in
# all trials. A star stands for the name of a plugin.
FIXED = {
    "models": "the models are loaded once: sweep once for each model set",
    "namespace": "an index is built for one: sweep once for each",
    "index": "it builds another index: sweep once for each index",
    "evaluation": "it says how trials are scored: --set it for the whole sweep",
    "plugins.*.ingest": "it builds another index: sweep once for each index",
}


@dataclass(frozen=True)
class SpaceFile:
    """What a file says: its name, the path of rows by workflow with its line, its parameters."""

    name: str
    per_workflow: str | None
    per_workflow_line: int | None
    parameters: tuple[Parameter, ...]


@dataclass
class _Line:
    """One line of the file, and whether a fault of it was told."""

    source: object
    number: int | None
    sink: Sink
    faulty: bool = False

    def wrong(self, message: str, fix: str = "") -> None:
        self.faulty = True
        self.sink(SpaceFault(str(self.source), self.number, message, fix))


def read_parameters(text: str, source: object, sink: Sink = refuse) -> SpaceFile:
    """Read the file of a space.

    Raises InputError for what is no YAML; all other faults, each with file, line and remedy, go to
    `sink`.
    """
    values = read_yaml(text, source)
    places = places_of(text)

    def at(key: str) -> _Line:
        return _Line(source, places.get((key,)), sink)

    for key in sorted(values.keys() - {"name", "per_workflow", "parameters"}, key=str):
        at(key).wrong(f"{key!r} is no part of a space", "it has name, per_workflow and parameters")
    given = values.get("parameters")
    if not isinstance(given, dict) or not given:
        at("parameters").wrong("no parameters", "parameters: {fuse.alpha: {low: 0.0, high: 1.0}}")
        given = {}
    name = values.get("name", Path(str(source)).stem)
    per_workflow = values.get("per_workflow")
    for key, value in (("name", name), ("per_workflow", per_workflow)):
        if not isinstance(value, str) and (key == "name" or value is not None):
            at(key).wrong(f"{key} is no text: {value!r}", "write text, or leave it out")
    return SpaceFile(
        str(name),
        per_workflow if isinstance(per_workflow, str) else None,
        places.get(("per_workflow",)),
        tuple(_parameters(given, _lines(text), source, sink)),
    )


def _parameters(
    given: Mapping[str, Any], lines: Mapping[str, int], source: object, sink: Sink
) -> Iterator[Parameter]:
    moved: dict[str, int | None] = {}
    for key, said in given.items():
        line = _Line(source, lines.get(key), sink)
        paths = list(_expanded(key, line))
        # What is said of several paths is said, and told to be wrong, once.
        parameter = _parameter(paths[0], said, line) if paths else None
        for path in paths:
            for one in (path, parameter.complement if parameter else None):
                if one is None:
                    continue
                _refuse_fixed(one, line)
                if one in moved:
                    line.wrong(
                        f"{one} stands twice: line {moved[one]} moves it already", "keep one"
                    )
                moved.setdefault(one, line.number)
        if parameter and not line.faulty:
            yield from (replace(parameter, path=path) for path in paths)


def _refuse_fixed(path: str, line: _Line) -> None:
    keys = path.split(".")
    for fixed, reason in FIXED.items():
        above = fixed.split(".")
        if len(keys) >= len(above) and all(
            one in ("*", key) for one, key in zip(above, keys, strict=False)
        ):
            line.wrong(f"no sweep moves {path}", reason)


def _lines(text: str) -> dict[str, int]:
    """Return the line of every key below `parameters`, from 1."""
    tree = yaml.compose(text, Loader=yaml.SafeLoader)
    if not isinstance(tree, yaml.MappingNode):  # nothing but comments, say
        return {}
    for key, value in tree.value:
        if key.value == "parameters" and isinstance(value, yaml.MappingNode):
            return {str(inner.value): inner.start_mark.line + 1 for inner, _ in value.value}
    return {}


def _expanded(path: str, line: _Line) -> Iterator[str]:
    """Yield the paths that braces stand for, `a.{b,c}` being a.b and a.c."""
    parts = re.split(r"\{([^{}]*)\}", path)
    options = [part.split(",") if i % 2 else [part] for i, part in enumerate(parts)]
    many = math.prod(map(len, options))
    if many > MOST_PATHS:
        line.wrong(
            f"the braces of {path[:60]!r} stand for {many} paths",
            f"at most {MOST_PATHS} a key: name fewer",
        )
        return
    for chosen in itertools.product(*options):
        yield "".join(part.strip() for part in chosen)


def _parameter(path: str, said: Any, line: _Line) -> Parameter | None:
    """Return a parameter, None where something of it is wrong."""

    def wrong(message: str, fix: str = "") -> None:
        line.wrong(f"{path}: {message}", fix)

    if said == "switch":
        said = {"switch": True}
    if not isinstance(said, dict):
        wrong(f"expected a range, not {said!r}", "{low: 0.0, high: 1.0}, {choices: [...]}")
        return None
    unknown = sorted(said.keys() - set(KEYS))
    for key in unknown:
        wrong(f"{key!r} is unknown", f"known: {', '.join(KEYS)}")
    for key in ("log", "switch"):
        value = said.get(key, False)
        if not isinstance(value, bool):
            wrong(f"{key} is {value!r}, not true or false", f"{key}: true, without quotes")
    if said.get("switch") is False:
        wrong("a switch that is false moves nothing", "switch: true, or leave it out")
    complement = said.get("complement")
    if complement is not None and not isinstance(complement, str):
        wrong(f"complement {complement!r} is no path")
        complement = None
    when = _conditions(said.get("when"), wrong)
    kinds = [key for key in ("choices", "switch", "low") if key in said]
    if unknown:  # one of them may be what would be missed below
        return None
    if len(kinds) != 1:
        wrong("expected a range, choices or a switch", "{low: 0.0, high: 1.0}")
        return None
    choices: tuple[Any, ...] = ()
    found = _Range(0.0, 0.0, None, "choice")
    if kinds[0] == "low":
        measured = _range(said, wrong)
        found = measured or found
        if complement and measured and not 0 <= found.low <= found.high <= 1:
            wrong("a complement needs a range within 0 and 1", "low: 0.0, high: 1.0")
    else:
        choices = (True, False) if kinds[0] == "switch" else _choices(said["choices"], wrong)
        for key in ("high", "log", "step", "complement"):
            if said.get(key) is not None:
                wrong(f"only a range has {key}", "leave it out, or give low and high")
    if line.faulty:
        return None
    return Parameter(
        path,
        found.kind,
        found.low,
        found.high,
        said.get("log", False),
        found.step,
        choices,
        when,
        complement,
        line.number,
    )


class _Wrong(Protocol):
    """Tells a fault of a parameter: what is wrong, and the remedy."""

    def __call__(self, message: str, fix: str = "") -> None: ...


def _choices(given: Any, wrong: _Wrong) -> tuple[Any, ...]:
    if not isinstance(given, list) or len(given) < 2:
        wrong("choices need at least two values", "choices: [minmax, rrf]")
        return ()
    for i, other in enumerate(given):
        if other in given[:i]:  # 1, 1.0 and true are one choice to a study
            wrong(f"the choice {other!r} stands twice", "keep one")
    return tuple(given)


class _Range(NamedTuple):
    low: float
    high: float
    step: float | None
    kind: Kind


def _range(said: Mapping[str, Any], wrong: _Wrong) -> _Range | None:
    low, high, step = said["low"], said.get("high"), said.get("step")
    numbers = True
    for name, value in (("low", low), ("high", high), ("step", step)):
        if name == "step" and value is None:
            continue
        if value is None or not _is_number(value):
            wrong(f"{name} is no number: {value!r}", "low: 0.0, high: 1.0")
            numbers = False
        elif abs(value) > LARGEST:
            wrong(f"{name} is out of range", f"at most {LARGEST:g}")
            numbers = False
    if not numbers:
        return None
    log = said.get("log") is True
    if log and low <= 0:
        wrong(f"a log range starts above 0, not at {low}", "raise low, or leave log out")
    if log and step is not None:
        wrong("a log range has no step", "leave log or step out")
    if not low < high:
        wrong(f"low {low} is not below high {high}", "low: 0.0, high: 1.0")
    elif step is not None and not 0 < step <= high - low:
        wrong(f"step {step} does not fit the range", f"at most {high - low:g}")
    elif step is not None and not math.isclose((high - low) / step, round((high - low) / step)):
        last = low + step * math.floor((high - low) / step)
        wrong(f"steps of {step} from {low} do not end at {high}", f"high: {last:g}")
    whole = all(isinstance(value, int) for value in (low, high, step or 0))
    return _Range(float(low), float(said["high"]), step, "int" if whole else "float")


def _is_number(value: Any) -> bool:
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    return plain and abs(value) < float("inf")


def _conditions(when: Any, wrong: _Wrong) -> tuple[Condition, ...]:
    if when is None:
        return ()
    alternatives = when if isinstance(when, list) else [when]
    if not alternatives or not all(isinstance(one, dict) and one for one in alternatives):
        wrong("when is no condition", "when: {merge.method: rrf}")
        return ()
    for path in [path for one in alternatives for path, allowed in one.items() if allowed == []]:
        wrong(f"when: {path} has no value", "when: {merge.method: rrf}")
    return tuple(
        {
            path: tuple(allowed) if isinstance(allowed, list) else (allowed,)
            for path, allowed in one.items()
        }
        for one in alternatives
    )
