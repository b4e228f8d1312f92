"""gate.yaml: the rules of a gate, each fault named with its line, its rule and the remedy.

    alpha: 0.05
    rules:
      - rule: no_significant_drop
        metric: ndcg@10
      - rule: max_drop_by_type
        metric: ndcg@10
        at_most: 0.03
      - rule: critical_stay_ok
      - rule: at_least
        metric: hit@5
        value: 0.8
      - rule: no_fallbacks
        events: [cross_encoder_fallback]

A gate decides whether something is released. What it says is therefore taken as it stands or
refused: no text is read as a number, no key is passed over.
"""

import difflib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, NoReturn

from experiments.comparison.power import ALPHA
from experiments.metrics import parse_measure
from retriever.files import InputError
from retriever.strict_yaml import Places, Way, load_yaml, places_of
from retriever.types import FALLBACKS

__all__ = [
    "EVENTS",
    "AtLeast",
    "CriticalStayOk",
    "Gate",
    "MaxDrop",
    "MaxDropByType",
    "NoFallbacks",
    "NoSignificantDrop",
    "Rule",
    "load_gate",
    "refuse_unheld",
]

EVENTS = (*FALLBACKS, "run_cut_to_depth", "run_document_without_text", "run_repaired")
MOST_QUERIES = 1_000_000_000
_EXAMPLE = "rules: [{rule: max_drop, metric: ndcg@10, at_most: 0.02}]"


@dataclass(frozen=True)
class NoSignificantDrop:
    """The metric must not be significantly lower: one-sided, Holm over the rules of this kind."""

    metric: str


@dataclass(frozen=True)
class MaxDrop:
    """The mean must not be lower by more than `at_most`, whatever its significance."""

    metric: str
    at_most: float


@dataclass(frozen=True)
class MaxDropByType:
    """No query type of at least `min_queries` may lose more than `at_most`."""

    metric: str
    at_most: float
    min_queries: int = 1


@dataclass(frozen=True)
class CriticalStayOk:
    """No query tagged critical may leave the class ok."""


@dataclass(frozen=True)
class AtLeast:
    """The candidate's mean must reach `value`."""

    metric: str
    value: float


@dataclass(frozen=True)
class NoFallbacks:
    """None of the events may have happened in the candidate's run; without a list, none at all."""

    events: tuple[str, ...] | None = None


Rule = NoSignificantDrop | MaxDrop | MaxDropByType | CriticalStayOk | AtLeast | NoFallbacks

RULES: Mapping[str, type[Rule]] = {
    "no_significant_drop": NoSignificantDrop,
    "max_drop": MaxDrop,
    "max_drop_by_type": MaxDropByType,
    "critical_stay_ok": CriticalStayOk,
    "at_least": AtLeast,
    "no_fallbacks": NoFallbacks,
}


@dataclass(frozen=True)
class Gate:
    """What gate.yaml says; where it says it (`path`, a line for each rule) serves error lines."""

    rules: tuple[Rule, ...]
    alpha: float = ALPHA
    path: Path | None = field(default=None, compare=False)
    lines: tuple[int | None, ...] = field(default=(), compare=False)


class _WrongError(ValueError):
    """A value is not what was asked for."""

    def __init__(self, message: str, fix: str) -> None:
        super().__init__(message)
        self.fix = fix


def load_gate(path: Path) -> Gate:
    """Read gate.yaml. Raises InputError naming file, line, rule and remedy of the first fault."""
    try:
        text = path.read_text("utf-8-sig")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=path) from error
    except UnicodeDecodeError as error:
        raise InputError("not UTF-8", path=path, fix="re-save as UTF-8") from error
    said = load_yaml(text, path)
    return _Reader(path, places_of(text)).gate(said)


def refuse_unheld(gate: Gate, held: Iterable[str], who: str) -> None:
    """Refuse a rule on a metric that a run lacks, or will lack; `who` names the run.

    Raises InputError with the gate's file, the line, the rule and the remedy.
    """
    names = {str(parse_measure(name)): None for name in held}
    kinds = {record: name for name, record in RULES.items()}
    for number, rule in enumerate(gate.rules):
        metric = getattr(rule, "metric", None)
        if metric is not None and metric not in names:
            raise InputError(
                f"rule {number + 1} ({kinds[type(rule)]}) asks for {metric}, which {who} lacks "
                f"(it has {', '.join(names)})",
                path=gate.path,
                line=gate.lines[number] if gate.lines else None,
                fix=f"evaluate it with {metric} in evaluation.metrics, or change the rule",
            )


@dataclass(frozen=True)
class _Reader:
    """Turns what was read into a gate; knows where everything stands."""

    path: Path
    places: Places

    def gate(self, said: object) -> Gate:
        if said is None:
            self.refuse((), "the file says nothing", _EXAMPLE)
        if not isinstance(said, dict):
            self.refuse((), f"expected the keys alpha and rules, found {_shown(said)}", _EXAMPLE)
        self.refuse_unknown((), "", said, ("alpha", "rules"))
        alpha = ALPHA
        if "alpha" in said:
            alpha = self.value(("alpha",), "alpha", _level, said["alpha"])
        rules = said.get("rules")
        if not isinstance(rules, list) or not rules:
            found = "nothing" if rules in (None, []) else _shown(rules)
            self.refuse(("rules",), f"rules: expected a list of rules, found {found}", _EXAMPLE)
        made: list[Rule] = []
        for number, rule in enumerate(rules):
            one = self.rule(number, rule)
            earlier = next((i for i, other in enumerate(made) if _about_the_same(one, other)), None)
            if earlier is not None:
                of = f" for {one.metric}" if hasattr(one, "metric") else ""
                said_twice = f"rule {number + 1}: {rule['rule']}{of} is given twice"
                self.refuse(
                    ("rules", number), f"{said_twice}, first as rule {earlier + 1}", "keep one"
                )
            made.append(one)
        lines = tuple(
            self.line(("rules", number, *(("metric",) if "metric" in rule else ())))
            for number, rule in enumerate(rules)
        )
        return Gate(tuple(made), alpha, self.path, lines)

    def rule(self, number: int, said: object) -> Rule:
        way, name = ("rules", number), f"rule {number + 1}"
        known = ", ".join(RULES)
        if not isinstance(said, dict):
            shown = f"{name}: expected keys and values, found {_shown(said)}"
            meant = said if isinstance(said, str) and said in RULES else "no_fallbacks"
            self.refuse(way, shown, f"- rule: {meant}")
        if "rule" not in said:
            self.refuse(way, f"{name} does not say which rule it is", f"rule: one of {known}")
        kind = said["rule"]
        if not isinstance(kind, str) or kind not in RULES:
            near = _nearest(kind, RULES)
            self.refuse(
                (*way, "rule"), f"{name}: {_unknown('rule', kind)}{near}", f"known: {known}"
            )
        name, record = f"{name} ({kind})", RULES[kind]
        takes = {one.name: one for one in fields(record)}
        self.refuse_unknown(way, f"{name}: ", said, ("rule", *takes))
        for key, one in takes.items():
            if key not in said and one.default is MISSING:
                self.refuse(way, f"{name} needs {key}", f"add {key}: {_READERS[key][1]}")
        values = {
            key: self.value((*way, key), f"{name}: {key}", _READERS[key][0], value)
            for key, value in said.items()
            if key != "rule"
        }
        return record(**values)

    def value(self, way: Way, name: str, read: Callable[[object], Any], said: object) -> Any:
        try:
            return read(said)
        except _WrongError as error:
            self.refuse(way, f"{name}: {error}", error.fix)

    def refuse_unknown(
        self, way: Way, name: str, said: Mapping[str, Any], known: Iterable[str]
    ) -> None:
        for key in said:
            if key not in known:
                near = _nearest(key, known)
                takes = f"it takes {', '.join(known)}"
                self.refuse((*way, key), f"{name}unknown key {key!r}{near}", takes)

    def refuse(self, way: Way, message: str, fix: str) -> NoReturn:
        raise InputError(message, path=self.path, line=self.line(way), fix=fix)

    def line(self, way: Way) -> int | None:
        # What is absent stands nowhere: the line is that of what it is missing from.
        while way and way not in self.places:
            way = way[:-1]
        return self.places.get(way)


def _about_the_same(one: Rule, other: Rule) -> bool:
    """Whether two rules are of one kind and one metric, whatever their bounds."""
    if isinstance(one, NoFallbacks) and isinstance(other, NoFallbacks):
        return one.events == other.events
    return type(one) is type(other) and getattr(one, "metric", "") == getattr(other, "metric", "")


def _nearest(name: object, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(str(name), list(known), n=1)
    return f", perhaps {near[0]}" if near else ""


def _shown(value: object) -> str:
    """Say what was found: `the text '0.1'`, `a list`, `true`."""
    if value is None:
        return "nothing"
    if isinstance(value, str):
        return f"the text {value[:40]!r}"
    if isinstance(value, dict):
        return "keys and values"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, int) and abs(value) >= 10**40:  # Python writes none of over 4300 digits
        return "a number of over 40 digits"
    return json.dumps(value, default=str)[:40]


def _unknown(what: str, value: object) -> str:
    if isinstance(value, str):
        return f"there is no {what} {value[:40]!r}"
    return f"expected the name of one {what}, found {_shown(value)}"


def _number(value: object, expected: str, example: str, holds: Callable[[float], bool]) -> float:
    # A bool is an int to Python, and NaN compares as false with everything.
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:  # a whole number of more than 308 digits
            number = math.inf
        if math.isfinite(number) and holds(number):
            return number
        raise _WrongError(f"expected {expected}, found {_shown(value)}", f"such as {example}")
    if isinstance(value, str) and _is_number(value):
        example = f"{float(value):g}, without quotes"
    raise _WrongError(f"expected {expected}, found {_shown(value)}", f"such as {example}")


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _share(value: object) -> float:
    return _number(value, "a number from 0 to 1", "0.02", lambda x: 0 <= x <= 1)


def _level(value: object) -> float:
    return _number(value, "a number between 0 and 1", "0.05", lambda x: 0 < x < 1)


def _count(value: object) -> int:
    expected = f"a whole number from 1 to {MOST_QUERIES}"
    return int(_number(value, expected, "5", lambda x: 1 <= x <= MOST_QUERIES and x.is_integer()))


def _metric(value: object) -> str:
    if not isinstance(value, str):
        raise _WrongError(f"expected a metric, found {_shown(value)}", "such as ndcg@10")
    try:
        return str(parse_measure(value))
    except InputError as error:
        message = str(error).removesuffix(f" ({error.fix})")
        raise _WrongError(message, error.fix or "such as ndcg@10") from error


def _events(value: object) -> tuple[str, ...]:
    known = f"known: {', '.join(EVENTS)}"
    if not isinstance(value, list) or not value:
        shown = "an empty list" if value == [] else _shown(value)
        raise _WrongError(f"expected a list of events, found {shown}", known)
    for event in value:
        if event not in EVENTS:
            raise _WrongError(f"{_unknown('event', event)}{_nearest(event, EVENTS)}", known)
        if value.count(event) > 1:
            raise _WrongError(f"{event} stands twice", "keep one")
    return tuple(value)


# By key: how its value is read, and what it may look like.
_READERS: Mapping[str, tuple[Callable[[object], Any], str]] = {
    "metric": (_metric, "ndcg@10"),
    "at_most": (_share, "0.02"),
    "value": (_share, "0.8"),
    "min_queries": (_count, "5"),
    "events": (_events, "[cross_encoder_fallback]"),
}
