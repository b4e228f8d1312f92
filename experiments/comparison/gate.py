"""Gates: rules over a comparison, each with its verdict and the numbers it rests on.

A significance rule asks one question, "did it drop", so it tests one side. All rules of that kind
in a file share `alpha` by Holm: a gate of any size lets a harmless change pass with probability
1 - alpha or more.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.comparison.gate_file import (
    AtLeast,
    Gate,
    MaxDrop,
    MaxDropByType,
    NoFallbacks,
    NoSignificantDrop,
    Rule,
)
from experiments.comparison.pairing import Pairing
from experiments.comparison.power import smallest_detectable
from experiments.comparison.significance import TIE, holm, p_words
from experiments.metrics import parse_measure
from retriever.files import InputError

__all__ = ["GateResult", "Verdict", "judge"]


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


def _judged(rule: Rule, pairing: Pairing, found: Mapping[str, Any]) -> Verdict:
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
    if figure is not None and figure["difference"] is None:
        raise InputError(
            f"the gate asks for {metric}, which is undefined for every query of one of the runs",
            path=pairing.candidate.path,
            fix=f"leave the rule out, or judge queries that {metric} can be counted for",
        )
    if figure is None:
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
