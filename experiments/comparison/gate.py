"""Gates: rules over a comparison, each with its verdict and the numbers it rests on.

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

A significance rule asks one question, "did it drop", so it tests one side. All rules of that kind
in a file share `alpha` by Holm: a gate of any size lets a harmless change pass with probability
1 - alpha or more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError, field_validator

from experiments.comparison.pairing import Pairing
from experiments.comparison.power import ALPHA, smallest_detectable
from experiments.comparison.significance import TIE, holm, p_words
from experiments.metrics import parse_measure
from retriever.config import Record
from retriever.files import InputError
from retriever.strict_yaml import read_yaml
from retriever.types import FALLBACKS

__all__ = ["Gate", "GateResult", "Verdict", "judge", "load_gate"]

EVENTS = (*FALLBACKS, "run_cut_to_depth", "run_document_without_text", "run_repaired")
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class _OfMetric(Record):
    metric: str

    @field_validator("metric")
    @classmethod
    def _is_known(cls, metric: str) -> str:
        return str(parse_measure(metric))


class NoSignificantDrop(_OfMetric):
    """The metric must not be significantly lower: one-sided, Holm over the rules of this kind."""

    rule: Literal["no_significant_drop"]


class MaxDrop(_OfMetric):
    """The mean must not be lower by more than `at_most`, whatever its significance."""

    rule: Literal["max_drop"]
    at_most: Share


class MaxDropByType(_OfMetric):
    """No query type of at least `min_queries` may lose more than `at_most`."""

    rule: Literal["max_drop_by_type"]
    at_most: Share
    min_queries: Annotated[int, Field(ge=1)] = 1


class CriticalStayOk(Record):
    """No query tagged critical may leave the class ok."""

    rule: Literal["critical_stay_ok"]


class AtLeast(_OfMetric):
    """The candidate's mean must reach `value`."""

    rule: Literal["at_least"]
    value: Share


class NoFallbacks(Record):
    """None of the events may have happened in the candidate's run; without a list, none at all."""

    rule: Literal["no_fallbacks"]
    events: Annotated[tuple[str, ...], Field(min_length=1)] | None = None

    @field_validator("events")
    @classmethod
    def _events_exist(cls, events: tuple[str, ...] | None) -> tuple[str, ...] | None:
        unknown = [event for event in events or () if event not in EVENTS]
        if unknown:
            raise ValueError(f"no event {unknown[0]!r}; known: {', '.join(EVENTS)}")
        return events


Rule = Annotated[
    NoSignificantDrop | MaxDrop | MaxDropByType | CriticalStayOk | AtLeast | NoFallbacks,
    Field(discriminator="rule"),
]


class Gate(Record):
    """What gate.yaml says."""

    alpha: Annotated[float, Field(gt=0, lt=1)] = ALPHA
    rules: Annotated[tuple[Rule, ...], Field(min_length=1)]


@dataclass(frozen=True)
class Verdict:
    """One rule's outcome: its name as shown, whether it holds, and its numbers in words.

    `passed` is None where the rule had nothing to judge.
    """

    rule: str
    passed: bool | None
    detail: str
    numbers: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Return the verdict as JSON."""
        return {
            "rule": self.rule,
            "passed": self.passed,
            "detail": self.detail,
            "numbers": dict(self.numbers),
        }


@dataclass(frozen=True)
class GateResult:
    """The verdicts of all rules, in the order of the file."""

    source: str
    alpha: float
    rules: tuple[Verdict, ...]

    @property
    def passed(self) -> bool:
        """Whether no rule is broken; one that had nothing to judge is not."""
        return all(verdict.passed is not False for verdict in self.rules)

    def to_json(self) -> dict[str, Any]:
        """Return the result as it stands in comparison.json."""
        return {
            "passed": self.passed,
            "source": self.source,
            "alpha": self.alpha,
            "rules": [verdict.to_json() for verdict in self.rules],
        }


def load_gate(path: Path) -> Gate:
    """Read gate.yaml. Raises InputError naming the file, the rule and the key at fault."""
    try:
        text = path.read_text("utf-8-sig")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=path) from error
    except UnicodeDecodeError as error:
        raise InputError("not UTF-8", path=path, fix="re-save as UTF-8") from error
    try:
        return TypeAdapter(Gate).validate_python(read_yaml(text, path))
    except ValidationError as error:
        raise _fault(error, path) from error


def _fault(error: ValidationError, path: Path) -> InputError:
    first = error.errors(include_url=False)[0]
    # After the number of a rule stands the name of its kind; "rules" and the kind say nothing new.
    parts = [
        part for i, part in enumerate(first["loc"]) if i not in (0, 2) or len(first["loc"]) < 3
    ]
    names = [f"rule {part + 1}" if isinstance(part, int) else str(part) for part in parts]
    message = str(first["msg"]).removeprefix("Value error, ")
    return InputError(
        f"{', '.join(names)}: {message}" if names else message,
        path=path,
        fix="rules: [{rule: no_significant_drop, metric: ndcg@10}]",
    )


def judge(gate: Gate, pairing: Pairing, found: Mapping[str, Any], source: str) -> GateResult:
    """Judge one comparison of comparison.json, `found`, by the rules.

    Raises InputError for a rule that these runs cannot answer: a metric they lack, classes that
    were not made. A rule is never passed for want of data: without critical queries theirs is
    not judged. A run without fallbacks has none to complain of.
    """
    drops = [rule for rule in gate.rules if isinstance(rule, NoSignificantDrop)]
    one_sided = [_drop_p(_figure(found, rule.metric, pairing)) for rule in drops]
    adjusted = iter(holm(one_sided))
    verdicts = []
    for rule in gate.rules:
        if isinstance(rule, NoSignificantDrop):
            verdicts.append(_no_drop(rule, gate, pairing, found, next(adjusted), len(drops)))
        else:
            verdicts.append(_judged(rule, pairing, found))
    return GateResult(source, gate.alpha, tuple(verdicts))


def _judged(rule: Any, pairing: Pairing, found: Mapping[str, Any]) -> Verdict:
    if isinstance(rule, MaxDrop):
        return _max_drop(rule, pairing, found)
    if isinstance(rule, MaxDropByType):
        return _max_drop_by_type(rule, pairing, found)
    if isinstance(rule, AtLeast):
        return _at_least(rule, pairing, found)
    if isinstance(rule, NoFallbacks):
        return _no_fallbacks(rule, found)
    return _critical(pairing)


def _drop_p(figure: Mapping[str, Any]) -> float | None:
    """One-sided p-value of a drop: half the two-sided one, by symmetry; 1 where nothing dropped."""
    p, difference = figure["p_value"], figure["difference"]
    if p is None:
        return None
    return float(p) / 2 if difference < 0 else 1.0


def _no_drop(
    rule: NoSignificantDrop,
    gate: Gate,
    pairing: Pairing,
    found: Mapping[str, Any],
    p: float | None,
    tests: int,
) -> Verdict:
    figure = _figure(found, rule.metric, pairing)
    if p is None:
        raise InputError(
            f"the test says nothing of {rule.metric}: too few queries, or no spread",
            path=pairing.candidate.path,
            fix="compare with --test randomisation",
        )
    spread, measure = found["resolution"][rule.metric], parse_measure(rule.metric)
    detectable = smallest_detectable(
        spread["deviation"],
        figure["queries"],
        measure.is_rate,
        alpha=gate.alpha / tests,
        one_sided=True,
    )
    told = "no drop" if detectable is None else f"a true drop of {detectable:.4f}"
    passed = p > gate.alpha
    return Verdict(
        f"no significant drop of {rule.metric}",
        passed,
        f"{_moved(figure)}, one-sided {p_words(p)}"
        + (f" after Holm over {tests} rules" if tests > 1 else "")
        + f", level {gate.alpha:g}; {told} would be caught in four of five such sets",
        {
            "metric": rule.metric,
            "difference": figure["difference"],
            "p_one_sided": p,
            "alpha": gate.alpha,
            "smallest_detectable_drop": detectable,
        },
    )


def _max_drop(rule: MaxDrop, pairing: Pairing, found: Mapping[str, Any]) -> Verdict:
    figure = _figure(found, rule.metric, pairing)
    return Verdict(
        f"{rule.metric} loses at most {rule.at_most:g}",
        figure["difference"] >= -rule.at_most - TIE,
        _moved(figure),
        {"metric": rule.metric, "difference": figure["difference"], "at_most": rule.at_most},
    )


def _max_drop_by_type(rule: MaxDropByType, pairing: Pairing, found: Mapping[str, Any]) -> Verdict:
    _figure(found, rule.metric, pairing)
    judged, small = {}, []
    for name, group in found["by_type"].items():
        figure = group["metrics"][rule.metric]
        if figure["difference"] is None or figure["queries"] < rule.min_queries:
            small.append(name)
        else:
            judged[name] = figure
    broken = {n: f for n, f in judged.items() if f["difference"] < -rule.at_most - TIE}
    shown = broken or dict(sorted(judged.items(), key=lambda item: item[1]["difference"])[:1])
    detail = "; ".join(f"{n} ({f['queries']}): {_moved(f)}" for n, f in shown.items())
    if not judged:
        raise InputError(
            f"no query type has {rule.min_queries} queries",
            path=pairing.candidate.path,
            fix="lower min_queries",
        )
    if not broken:
        detail = f"largest loss of {len(judged)} types: {detail}"
    if small:
        detail += f"; not judged, under {rule.min_queries} queries: {', '.join(small)}"
    return Verdict(
        f"no type loses more than {rule.at_most:g} of {rule.metric}",
        not broken,
        detail,
        {
            "metric": rule.metric,
            "at_most": rule.at_most,
            "types": {name: figure["difference"] for name, figure in judged.items()},
            "not_judged": small,
        },
    )


def _at_least(rule: AtLeast, pairing: Pairing, found: Mapping[str, Any]) -> Verdict:
    figure = _figure(found, rule.metric, pairing)
    return Verdict(
        f"{rule.metric} at least {rule.value:g}",
        figure["candidate"] >= rule.value,
        f"{figure['candidate']:.4f} over {figure['queries']} queries",
        {"metric": rule.metric, "value": figure["candidate"], "at_least": rule.value},
    )


def _no_fallbacks(rule: NoFallbacks, found: Mapping[str, Any]) -> Verdict:
    fallbacks = found["candidate"]["fallbacks"]
    happened = {
        event: count
        for event, count in fallbacks.items()
        if count and (rule.events is None or event in rule.events)
    }
    named = "no fallbacks" if rule.events is None else f"no {', '.join(rule.events)}"
    detail = ", ".join(f"{event}: {count}" for event, count in happened.items()) or "none"
    return Verdict(named, not happened, detail, {"events": happened})


def _critical(pairing: Pairing) -> Verdict:
    tables = (pairing.baseline.queries, pairing.candidate.queries)
    if any("class" not in table or table["class"].isna().all() for table in tables):
        raise InputError(
            "critical_stay_ok needs failure classes, and a run has none",
            path=pairing.candidate.path,
            fix="evaluate both runs anew with this version",
        )
    critical = tables[0]["critical"].to_numpy(bool)[pairing.baseline_rows]
    before = tables[0]["class"].to_numpy()[pairing.baseline_rows]
    after = tables[1]["class"].to_numpy()[pairing.candidate_rows]
    ids = pairing.query_ids
    left = [
        f"{ids[i]} ({after[i]})"
        for i in range(len(ids))
        if critical[i] and before[i] == "ok" and after[i] != "ok"
    ]
    watched = int((critical & (before == "ok")).sum())
    detail = f"{len(left)} of {watched} left: {_few(left)}" if left else f"all {watched} stayed"
    if not critical.any():
        detail = "no query is tagged critical: nothing was watched"
    elif not watched:
        detail = "no critical query was ok before: nothing was watched"
    return Verdict(
        "no critical query leaves ok",
        not left if watched else None,
        detail,
        {"critical": int(critical.sum()), "ok_before": watched, "left": len(left)},
    )


def _figure(found: Mapping[str, Any], metric: str, pairing: Pairing) -> Mapping[str, Any]:
    figure = found["metrics"].get(metric)
    if figure is None or figure["difference"] is None:
        held = ", ".join(found["metrics"])
        raise InputError(
            f"the gate asks for {metric}, which the runs do not share (they share {held})",
            path=pairing.candidate.path,
            fix=f"evaluate both with {metric} in evaluation.metrics",
        )
    return dict(figure)


def _moved(figure: Mapping[str, Any]) -> str:
    return f"{figure['baseline']:.4f} to {figure['candidate']:.4f} ({figure['difference']:+.4f})"


def _few(names: Sequence[str], most: int = 10) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")
