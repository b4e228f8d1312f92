"""The YAML of a space, read parameter by parameter with the line of each."""

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from experiments.sweep.parameter import Condition, Kind, Parameter
from retriever import InputError
from retriever.strict_yaml import places_of, read_yaml

__all__ = ["read_parameters"]

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


def read_parameters(
    text: str, source: object
) -> tuple[str, str | None, list[Parameter], int | None]:
    """Return a space's name, its path of rows by workflow, its parameters, and that path's line.

    Raises InputError naming file, line and remedy.
    """
    values = read_yaml(text, source)
    places = places_of(text)
    unknown = sorted(values.keys() - {"name", "per_workflow", "parameters"}, key=str)
    if unknown:
        raise InputError(
            f"{unknown[0]!r} is no part of a space",
            path=source,
            line=places.get((str(unknown[0]),)),
            fix="it has name, per_workflow and parameters",
        )
    given = values.get("parameters")
    if not isinstance(given, dict) or not given:
        raise InputError(
            "no parameters",
            path=source,
            line=places.get(("parameters",)),
            fix="parameters: {fuse.alpha: {low: 0.0, high: 1.0}}",
        )
    name, per_workflow = values.get("name", Path(str(source)).stem), values.get("per_workflow")
    for key, value in (
        ("name", name),
        ("per_workflow", "" if per_workflow is None else per_workflow),
    ):
        if not isinstance(value, str):
            raise InputError(
                f"{key} is no text: {value!r}",
                path=source,
                line=places.get((key,)),
                fix="write text, or leave it out",
            )
    lines = _lines(text)
    parameters: list[Parameter] = []
    moved: dict[str, int | None] = {}
    for key, said in given.items():
        line = lines.get(key)
        for path in _expanded(str(key), source, line):
            parameter = _parameter(path, said, source, line)
            for one in filter(None, (path, parameter.complement)):
                _refuse_fixed(one, source, line)
                if one in moved:
                    raise InputError(
                        f"{one} stands twice: line {moved[one]} moves it already",
                        path=source,
                        line=line,
                        fix="keep one",
                    )
                moved[one] = line
            parameters.append(parameter)
    return name, per_workflow, parameters, places.get(("per_workflow",))


def _refuse_fixed(path: str, source: object, line: int | None) -> None:
    keys = path.split(".")
    for fixed, reason in FIXED.items():
        above = fixed.split(".")
        if len(keys) >= len(above) and all(
            one in ("*", key) for one, key in zip(above, keys, strict=False)
        ):
            raise InputError(f"no sweep moves {path}", path=source, line=line, fix=reason)


def _lines(text: str) -> dict[str, int]:
    """Return the line of every key below `parameters`, from 1."""
    tree = yaml.compose(text, Loader=yaml.SafeLoader)
    assert isinstance(tree, yaml.MappingNode)  # noqa: S101 - read_yaml has read it
    for key, value in tree.value:
        if key.value == "parameters" and isinstance(value, yaml.MappingNode):
            return {str(inner.value): inner.start_mark.line + 1 for inner, _ in value.value}
    return {}


def _expanded(path: str, source: object, line: int | None) -> Iterator[str]:
    """Yield the paths that braces stand for, `a.{b,c}` being a.b and a.c."""
    parts = re.split(r"\{([^{}]*)\}", path)
    options = [part.split(",") if i % 2 else [part] for i, part in enumerate(parts)]
    many = math.prod(map(len, options))
    if many > MOST_PATHS:
        raise InputError(
            f"the braces of {path[:60]!r} stand for {many} paths",
            path=source,
            line=line,
            fix=f"at most {MOST_PATHS} a key: name fewer",
        )
    for chosen in itertools.product(*options):
        yield "".join(part.strip() for part in chosen)


def _parameter(path: str, said: Any, source: object, line: int | None) -> Parameter:
    def wrong(message: str, fix: str = "") -> InputError:
        return InputError(f"{path}: {message}", path=source, line=line, fix=fix)

    if said == "switch":
        said = {"switch": True}
    if not isinstance(said, dict):
        raise wrong(f"expected a range, not {said!r}", "{low: 0.0, high: 1.0}, {choices: [...]}")
    unknown = sorted(said.keys() - set(KEYS))
    if unknown:
        raise wrong(f"{unknown[0]!r} is unknown", f"known: {', '.join(KEYS)}")
    kinds = [key for key in ("choices", "switch", "low") if key in said]
    if len(kinds) != 1:
        raise wrong("expected a range, choices or a switch", "{low: 0.0, high: 1.0}")
    log = said.get("log", False)
    for key, value in (("log", log), ("switch", said.get("switch", True))):
        if not isinstance(value, bool):
            raise wrong(f"{key} is {value!r}, not true or false", f"{key}: true, without quotes")
    if not said.get("switch", True):
        raise wrong("a switch that is false moves nothing", "switch: true, or leave it out")
    when = tuple(_condition(one, wrong) for one in _alternatives(said.get("when"), wrong))
    complement = said.get("complement")
    if complement is not None and not isinstance(complement, str):
        raise wrong(f"complement {complement!r} is no path")
    choices: tuple[Any, ...] = ()
    low = high = 0.0
    kind: Kind = "choice"
    step = None
    if kinds[0] == "low":
        low, high, step, kind = _range(said, wrong)
    elif kinds[0] == "switch":
        choices = (True, False)
    else:
        if not isinstance(said["choices"], list) or len(said["choices"]) < 2:
            raise wrong("choices need at least two values", "choices: [minmax, rrf]")
        choices = tuple(said["choices"])
        for one, other in itertools.combinations(choices, 2):
            if one == other:  # 1, 1.0 and true are one choice to a study
                raise wrong(f"the choice {other!r} stands twice", "keep one")
    idle = [key for key in ("high", "log", "step", "complement") if said.get(key) is not None]
    if kind == "choice" and idle:
        raise wrong(f"only a range has {idle[0]}", "leave it out, or give low and high")
    if complement and not (0 <= low <= high <= 1):
        raise wrong("a complement needs a range within 0 and 1", "low: 0.0, high: 1.0")
    return Parameter(path, kind, low, high, log, step, choices, when, complement, line)


def _range(said: Mapping[str, Any], wrong: Any) -> tuple[float, float, float | None, Kind]:
    low, high, step = said["low"], said.get("high"), said.get("step")
    for name, value in (("low", low), ("high", high), ("step", step)):
        if name == "step" and value is None:
            continue
        if value is None or not _is_number(value):
            raise wrong(f"{name} is no number: {value!r}", "low: 0.0, high: 1.0")
        if abs(value) > LARGEST:
            raise wrong(f"{name} is out of range", f"at most {LARGEST:g}")
    if not low < high:
        raise wrong(f"low {low} is not below high {high}", "low: 0.0, high: 1.0")
    if said.get("log") and low <= 0:
        raise wrong(f"a log range starts above 0, not at {low}", "raise low, or leave log out")
    if said.get("log") and step is not None:
        raise wrong("a log range has no step", "leave log or step out")
    if step is not None and not 0 < step <= high - low:
        raise wrong(f"step {step} does not fit the range", f"at most {high - low:g}")
    if step is not None and not math.isclose((high - low) / step, round((high - low) / step)):
        last = low + step * math.floor((high - low) / step)
        raise wrong(f"steps of {step} from {low} do not end at {high}", f"high: {last:g}")
    whole = all(isinstance(value, int) for value in (low, high, step or 0))
    return float(low), float(said["high"]), step, "int" if whole else "float"


def _is_number(value: Any) -> bool:
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    return plain and abs(value) < float("inf")


def _alternatives(when: Any, wrong: Any) -> list[Any]:
    if when is None:
        return []
    found = when if isinstance(when, list) else [when]
    if not found or not all(isinstance(one, dict) and one for one in found):
        raise wrong("when is no condition", "when: {merge.method: rrf}")
    return found


def _condition(one: Mapping[str, Any], wrong: Any) -> Condition:
    empty = [path for path, allowed in one.items() if allowed == []]
    if empty:
        raise wrong(f"when: {empty[0]} has no value", "when: {merge.method: rrf}")
    return {
        path: tuple(allowed) if isinstance(allowed, list) else (allowed,)
        for path, allowed in one.items()
    }
