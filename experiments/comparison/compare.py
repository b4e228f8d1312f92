"""Compare runs: one object of plain data, comparison.json, that every report renders."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import combinations
from typing import Any

from experiments.comparison.differences import about, what_differs
from experiments.comparison.figures import Figure, Settings, adjusted, figures, resolutions
from experiments.comparison.movers import class_flow, movers
from experiments.comparison.pairing import Pairing, pair
from experiments.comparison.power import POWER
from experiments.comparison.significance import p_words
from experiments.metrics import Measure, parse_measure
from experiments.recorded import RecordedRun
from retriever.files import InputError

__all__ = ["FORMAT", "Comparison", "compare_runs", "primary_of"]

FORMAT = 1
PRIMARY = ("ndcg@10", "mrr@10", "map@100", "hit@5")
MOVERS = 20

Comparison = dict[str, Any]


def compare_runs(
    baseline: RecordedRun,
    candidates: Sequence[RecordedRun],
    *,
    labels: Sequence[str] | None = None,
    sources: Sequence[str] | None = None,
    settings: Settings | None = None,
    metric: str | None = None,
    shared_queries: bool = False,
    most_movers: int = MOVERS,
) -> Comparison:
    """Compare each candidate with the baseline and, where there are several, all with each other.

    Returns what comparison.json holds (docs/commands.md); causes, gates and ranx's table are added
    by others and None here. Two families of tests are adjusted by Holm, each over all candidates:
    measures over all queries, and measures by type. `metric` is what movers and the verdict are
    about. `labels` and `sources` (given, evaluated or reused) name the runs, the baseline first.
    Raises InputError as `pair` does.
    """
    chosen = settings or Settings()
    names = list(labels or [str(run.path) for run in (baseline, *candidates)])
    come_from = list(sources or ["given"] * len(names))
    pairings = [pair(baseline, run, shared_queries=shared_queries) for run in candidates]
    tables = [figures(pairing, chosen) for pairing in pairings]
    overall, overall_tests = adjusted([table for table, _ in tables])
    groups = [(i, name) for i, (_, by_type) in enumerate(tables) for name in by_type]
    flat, type_tests = adjusted([tables[i][1][name] for i, name in groups])
    by_type: list[dict[str, dict[str, Figure]]] = [{} for _ in candidates]
    for (i, name), table in zip(groups, flat, strict=True):
        by_type[i][name] = table
    return {
        "format": FORMAT,
        "kind": "comparison",
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "settings": chosen.to_json(),
        "families": {"overall": overall_tests, "by_type": type_tests},
        "baseline": about(baseline, names[0], come_from[0]),
        "comparisons": [
            {
                "candidate": about(pairing.candidate, names[i], come_from[i]),
                **_one(pairing, overall[i - 1], by_type[i - 1], chosen, metric, most_movers),
            }
            for i, pairing in enumerate(pairings, start=1)
        ],
        "systems": _systems(baseline, candidates, names, chosen, shared_queries)
        if len(candidates) > 1
        else None,
        "ranx": None,
    }


def primary_of(measures: Sequence[Measure], asked: str | None) -> Measure:
    """Return the measure a verdict is about: the one asked for, or the first usual one there is.

    Raises InputError where the runs do not hold the one asked for.
    """
    if asked is not None:
        wanted = parse_measure(asked)
        if wanted not in measures:
            held = ", ".join(map(str, measures))
            raise InputError(f"the runs hold no {wanted}", fix=f"they share {held}")
        return wanted
    by_name = {str(measure): measure for measure in measures}
    return next((by_name[name] for name in PRIMARY if name in by_name), measures[0])


def _one(
    pairing: Pairing,
    overall: Mapping[str, Figure],
    by_type: Mapping[str, Mapping[str, Figure]],
    settings: Settings,
    metric: str | None,
    most_movers: int,
) -> dict[str, Any]:
    primary = primary_of(pairing.measures, metric)
    found = resolutions(pairing, settings)
    return {
        "metric": str(primary),
        "headline": _headline(pairing, overall, str(primary), settings, found),
        "queries": len(pairing.baseline_rows),
        "same_gold": pairing.same_gold,
        "left_out": dict(pairing.left_out),
        "missing_metrics": list(pairing.missing),
        "metrics": {key: figure.to_json() for key, figure in overall.items()},
        "by_type": {
            name: {
                "queries": max((f.queries + f.undefined for f in table.values()), default=0),
                "metrics": {key: figure.to_json() for key, figure in table.items()},
            }
            for name, table in by_type.items()
        },
        "smallest_detectable": {key: made.smallest_detectable for key, (made, _) in found.items()},
        "resolution": {
            key: {
                "queries": made.queries,
                "deviation": made.deviation,
                "basis": basis,
                "power": POWER,
                "smallest_p": made.smallest_p,
            }
            for key, (made, basis) in found.items()
        },
        "flow": class_flow(pairing),
        "movers": movers(pairing, primary, most_movers),
        "differences": what_differs(pairing.baseline, pairing.candidate),
        "causes": None,
        "gate": None,
    }


def _headline(
    pairing: Pairing,
    overall: Mapping[str, Figure],
    primary: str,
    settings: Settings,
    resolved: Mapping[str, Any],
) -> list[str]:
    """Say first whether anything could have been found, then what was."""
    figure, n = overall[primary], len(pairing.baseline_rows)
    lines = []
    moved = max(f.wins + f.losses for f in overall.values())
    least = min(f.smallest_p for f in overall.values())
    if not moved:
        lines.append(f"Nothing moved: all {n} queries have the same figures in both runs.")
    elif least > settings.alpha:
        lines.append(
            f"This comparison could never have been significant: at most {moved} of {n} queries "
            f"differ in any metric, and the smallest p such an outcome can have is {least:.3g}."
        )
    if not pairing.same_gold:
        gone = ", ".join(f"{count} {reason}" for reason, count in pairing.left_out.items())
        lines.append(
            f"The gold sets differ; only the {n} queries that both share are compared"
            + (f" ({gone})." if gone else ".")
        )
    if figure.difference is None:
        lines.append(
            f"{primary}: undefined for every query of one of the runs; no verdict can be given."
        )
    elif moved:
        lines.append(_verdict(figure, primary, settings, resolved[primary][0].smallest_detectable))
    return lines


def _tested(figure: Figure) -> str:
    if figure.p_value is None or figure.p_adjusted is None:
        return "no test"
    adjusted_p = p_words(figure.p_adjusted).removeprefix("p ")
    return f"{p_words(figure.p_value)}, {adjusted_p} after Holm"


def _verdict(figure: Figure, primary: str, settings: Settings, detectable: float | None) -> str:
    assert figure.difference is not None  # noqa: S101 - the caller has looked
    interval = (
        ""
        if figure.low is None
        else f", {100 * settings.level:.0f} % interval {figure.low:+.4f} to {figure.high:+.4f}"
    )
    p = figure.p_adjusted
    told = _tested(figure)
    if p is not None and p <= settings.alpha:
        verdict = "better" if figure.difference > 0 else "worse"
    else:
        verdict = "not distinguishable from the baseline"
    could = (
        "no difference would be detected"
        if detectable is None
        else f"a true difference of {detectable:.4f} would be detected in four of five such sets"
    )
    return (
        f"{primary}: {figure.baseline:.4f} to {figure.candidate:.4f}, {figure.difference:+.4f}"
        f"{interval}; {figure.wins} queries better, {figure.losses} worse ({told}): {verdict}. "
        f"On {figure.queries} queries {could}."
    )


def _systems(
    baseline: RecordedRun,
    candidates: Sequence[RecordedRun],
    names: Sequence[str],
    settings: Settings,
    shared_queries: bool,
) -> dict[str, Any]:
    """Compare every pair of runs; all their tests are one family.

    `better_than` lists for a run and a measure the letters of the runs that it beats.
    """
    runs = [baseline, *candidates]
    letters = [_letter(i) for i in range(len(runs))]
    pairs = list(combinations(range(len(runs)), 2))
    pairings = [pair(runs[i], runs[j], shared_queries=shared_queries) for i, j in pairs]
    tables, tests = adjusted([figures(pairing, settings)[0] for pairing in pairings])
    beats: dict[tuple[int, str], list[str]] = {}
    values: dict[tuple[int, str], float | None] = {}
    for (i, j), table in zip(pairs, tables, strict=True):
        for key, figure in table.items():
            values.setdefault((i, key), figure.baseline)
            values.setdefault((j, key), figure.candidate)
            p, difference = figure.p_adjusted, figure.difference
            if p is not None and difference is not None and p <= settings.alpha:
                winner, loser = (j, i) if difference > 0 else (i, j)
                beats.setdefault((winner, key), []).append(letters[loser])
    keys = list(tables[0])
    return {
        "tests": tests,
        "alpha": settings.alpha,
        "rows": [
            {
                "letter": letters[i],
                "label": names[i],
                "metrics": {
                    key: {"value": values.get((i, key)), "better_than": beats.get((i, key), [])}
                    for key in keys
                },
            }
            for i in range(len(runs))
        ],
        "pairs": [
            {
                "one": letters[i],
                "other": letters[j],
                "metrics": {
                    key: {
                        "difference": figure.difference,
                        "p_value": figure.p_value,
                        "p_adjusted": figure.p_adjusted,
                    }
                    for key, figure in table.items()
                },
            }
            for (i, j), table in zip(pairs, tables, strict=True)
        ],
    }


def _letter(number: int) -> str:
    """Return a, b, ..., z, aa, ab, ..."""
    head, last = divmod(number, 26)
    return (_letter(head - 1) if head else "") + chr(ord("a") + last)
