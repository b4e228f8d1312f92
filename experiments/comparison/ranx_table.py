"""The table of `ranx.compare` over the same runs, beside our own: what readers of papers know.

Its p-values are not corrected for their number and its level is ranx's own, .01; our table of all
runs is the one to decide by.
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from importlib import metadata
from itertools import combinations
from pathlib import Path
from typing import Any

from experiments.comparison.pairing import pair
from experiments.metrics import Measure
from experiments.recorded import RecordedRun
from gold import read_qrels, read_run
from retriever.files import InputError

__all__ = ["MOST_RUNS", "ranx_table"]

# ranx marks its runs by the letters of the alphabet.
MOST_RUNS = 26
# Student's, its default: the other one draws 1,000 permutations, and p changes with the seed.
TEST = "student"
LEVEL = 0.01
# A document that no judgement names, for a query without results: ranx takes no empty list.
_NOTHING = "nothing!"

# Measures that ranx computes, by its names.
_NAMES = {
    "hit": "hit_rate",
    "map": "map",
    "mrr": "mrr",
    "ndcg": "ndcg",
    "ndcg_burges": "ndcg_burges",
    "precision": "precision",
    "recall": "recall",
}


def ranx_table(
    runs: Sequence[RecordedRun], labels: Sequence[str], *, shared_queries: bool = False
) -> dict[str, Any]:
    """Return what `ranx.compare` says of two runs or more, the baseline first, as plain data.

    `rows` have a run each with its value by measure and the letters of the runs it beats; `pairs`
    the p-value (None where ranx has none: equal runs) and wins, ties and losses; `table` is ranx's
    own print. Only measures that ranx computes and queries that all runs score take part. Values
    come from `run.trec`. Raises InputError for more than 26 runs, or a run without its ranking.
    """
    if len(runs) > MOST_RUNS:
        raise InputError(f"ranx compares {MOST_RUNS} runs at most, and there are {len(runs)}")
    pairings = [pair(runs[0], run, shared_queries=shared_queries) for run in runs[1:]]
    shared = set.intersection(*(set(pairing.query_ids) for pairing in pairings))
    query_ids = [query_id for query_id in pairings[0].query_ids if query_id in shared]
    if not query_ids:
        raise InputError("the runs share no query that all of them score", path=runs[0].path)
    common = set.intersection(*(set(pairing.measures) for pairing in pairings))
    asked = [m for m in pairings[0].measures if m in common and m.name in _NAMES]
    if not asked:
        raise InputError("ranx computes none of the metrics that the runs share")
    level = int(runs[0].record["gold"]["relevant_from"])
    names = {_ranx_name(measure, level): str(measure) for measure in asked}
    report = _compare(runs, query_ids, list(names), _distinct(labels))
    return {
        "version": metadata.version("ranx"),
        "test": report.get_stat_test_label(TEST),
        "level": LEVEL,
        "corrected": False,
        "queries": len(query_ids),
        "left_out": [str(m) for m in pairings[0].measures if m not in asked],
        **_plain(report, names, labels),
        "table": report.to_table(),
    }


def _compare(
    runs: Sequence[RecordedRun], query_ids: Sequence[str], names: list[str], labels: Sequence[str]
) -> Any:
    """Call ranx on dictionaries made for it: every query in every run, scores strictly falling."""
    qrels, rankings = {}, []
    judged = read_qrels(runs[0].path / "qrels.trec")
    ids: dict[str, str] = {}
    for query_id in query_ids:
        # Grades of 0 and below are no gain; ranx would count a negative one.
        qrels[query_id] = {_short(ids, d): g for d, g in judged[query_id].items() if g > 0}
    for run in runs:
        ranked = _rankings(run.path / "run.trec")
        rankings.append(
            {
                query_id: {
                    _short(ids, document_id): -float(rank)
                    for rank, document_id in enumerate(ranked.get(query_id, ()), start=1)
                }
                or {_NOTHING: 0.0}
                for query_id in query_ids
            }
        )
    with warnings.catch_warnings():
        # Escapes in ranx's LaTeX strings, and SciPy's remark that equal runs have no t.
        warnings.simplefilter("ignore")
        from ranx import Qrels, Run, compare

        return compare(
            Qrels(qrels),
            [Run(one, name=label) for one, label in zip(rankings, labels, strict=True)],
            metrics=names,
            stat_test=TEST,
            max_p=LEVEL,
            rounding_digits=4,
        )


def _rankings(file: Path) -> Mapping[str, Sequence[str]]:
    if not file.is_file():
        raise InputError("the run holds no run.trec", path=file.parent, fix="evaluate anew")
    return read_run(file).rankings if file.stat().st_size else {}


def _short(ids: dict[str, str], document_id: str) -> str:
    """Return an id of eight characters: ranx compiles anew, for half a minute, for each length."""
    return ids.setdefault(document_id, f"{len(ids):08}")


def _ranx_name(measure: Measure, level: int) -> str:
    """Return `hit_rate@5`, or `hit_rate@5-l2` where relevance begins at grade 2.

    nDCG takes every grade as its gain, whatever the level.
    """
    name = _NAMES[measure.name]
    name += "" if measure.cutoff is None else f"@{measure.cutoff}"
    return name if level == 1 or measure.name.startswith("ndcg") else f"{name}-l{level}"


def _distinct(labels: Sequence[str]) -> list[str]:
    """Return labels of which no two are equal, since ranx keeps its figures by them."""
    found: list[str] = []
    for label in labels:
        number, name = 2, label
        while name in found:
            name, number = f"{label} ({number})", number + 1
        found.append(name)
    return found


def _plain(report: Any, names: Mapping[str, str], labels: Sequence[str]) -> dict[str, Any]:
    """Return rows and pairs of a report of ranx under our names of the measures."""
    said = report.to_dict()
    models = said["model_names"]
    letters = [chr(ord("a") + place) for place in range(len(models))]

    def beats(one: str, other: str, name: str) -> bool:
        significant = report.comparisons[{one, other}][name]["significant"]
        return bool(significant) and said[one]["scores"][name] > said[other]["scores"][name]

    return {
        "rows": [
            {
                "letter": letter,
                "label": label,
                "metrics": {
                    ours: {
                        "value": float(said[model]["scores"][name]),
                        "better_than": [
                            mark
                            for mark, other in zip(letters, models, strict=True)
                            if other != model and beats(model, other, name)
                        ],
                    }
                    for name, ours in names.items()
                },
            }
            for letter, label, model in zip(letters, labels, models, strict=True)
        ],
        "pairs": [
            {
                "one": letters[i],
                "other": letters[j],
                "metrics": {
                    ours: {
                        "p_value": _finite(said[models[i]]["comparisons"][models[j]][name]),
                        **_wins(said[models[j]]["win_tie_loss"][models[i]][name]),
                    }
                    for name, ours in names.items()
                },
            }
            for i, j in combinations(range(len(models)), 2)
        ],
    }


def _finite(p: float) -> float | None:
    return float(p) if math.isfinite(p) else None


def _wins(counts: Mapping[str, int]) -> dict[str, int]:
    """Return wins, ties and losses of the second run of a pair, as everywhere else."""
    return {"wins": counts["W"], "ties": counts["T"], "losses": counts["L"]}
