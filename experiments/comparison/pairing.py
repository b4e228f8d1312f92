"""Two runs side by side: the queries and the measures in which they can be compared."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from experiments.metrics import Measure, parse_measure
from experiments.recorded import RecordedRun
from gold import read_qrels
from retriever.files import InputError

__all__ = ["Pairing", "pair"]

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Pairing:
    """Shared scorable queries of two runs, in the baseline's order, and their shared measures.

    `baseline_rows` and `candidate_rows` (queries,) point into the runs' `queries` tables.
    `left_out` counts by reason the queries that only one run has, or that the two gold sets judge
    otherwise; `missing` names measures that only one run has.
    """

    baseline: RecordedRun
    candidate: RecordedRun
    baseline_rows: Integers
    candidate_rows: Integers
    measures: tuple[Measure, ...]
    same_gold: bool
    left_out: Mapping[str, int]
    missing: tuple[str, ...]

    @cached_property
    def query_ids(self) -> list[str]:
        """Ids of the shared queries."""
        return [str(q) for q in self.baseline.queries["query_id"].to_numpy()[self.baseline_rows]]

    @cached_property
    def types(self) -> list[str]:
        """Type of every shared query, `untyped` where it has none."""
        found = self.baseline.queries["type"].to_numpy()[self.baseline_rows]
        return [str(t) if isinstance(t, str) and t else "untyped" for t in found]

    def values(self, measure: Measure) -> tuple[Floats, Floats]:
        """Figures of both runs by shared query; NaN is undefined."""
        key = str(measure)
        one = self.baseline.queries[key].to_numpy(np.float64)[self.baseline_rows]
        other = self.candidate.queries[key].to_numpy(np.float64)[self.candidate_rows]
        return one, other


def pair(baseline: RecordedRun, candidate: RecordedRun, *, shared_queries: bool = False) -> Pairing:
    """Lay two runs side by side.

    Runs of different gold sets are refused unless `shared_queries`; then the queries are kept that
    have one text and one set of judgements in both. Raises InputError for that, for gold sets that
    count otherwise (level, relevant_from, evaluation.cutoff), for runs of one gold set that lack
    a query of it, and where nothing is shared.
    """
    one, other = baseline.record["gold"], candidate.record["gold"]
    same_gold = bool(one["digest"] == other["digest"])
    if not same_gold and not shared_queries:
        raise InputError(
            f"the runs were scored on different gold sets: {_named(one)} and {_named(other)}",
            path=candidate.path,
            fix="evaluate both on one, or compare on the queries they share: --shared-queries",
        )
    for key in ("level", "relevant_from"):
        if one[key] != other[key]:
            raise InputError(
                f"the runs count relevance differently: {key} {one[key]} and {other[key]}",
                path=candidate.path,
                fix="evaluate both with the same",
            )
    passed_by = _cutoff(baseline), _cutoff(candidate)
    if None not in passed_by and passed_by[0] != passed_by[1]:
        raise InputError(
            f"the runs let a query pass by its first {passed_by[0]} and its first {passed_by[1]} "
            "results: evaluation.cutoff differs",
            path=candidate.path,
            fix="evaluate both with the same, or a change could loosen its own gate",
        )
    left_out: dict[str, int] = {}
    theirs = _scorable(candidate)
    ours = _scorable(baseline)
    shared = [query_id for query_id in ours if query_id in theirs]
    if same_gold and (len(shared) < len(ours) or len(shared) < len(theirs)):
        absent = next(q for q in (*ours, *theirs) if q not in ours or q not in theirs)
        raise InputError(
            f"the runs are of one gold set, and only one of them has query {absent!r:.80}",
            path=(candidate if absent in ours else baseline).path,
            fix="evaluate it anew",
        )
    if not same_gold:
        left_out["only in the baseline"] = len(ours) - len(shared)
        left_out["only in the candidate"] = len(theirs) - len(shared)
        kept = _judged_alike(baseline, candidate, shared, ours, theirs)
        left_out["judged or worded otherwise"] = len(shared) - len(kept)
        shared = kept
    if not shared:
        raise InputError(
            "the runs share no scorable query", path=candidate.path, fix="evaluate one gold set"
        )
    keys = [key for key in baseline.record["metrics"] if key in candidate.record["metrics"]]
    if not keys:
        raise InputError(
            "the runs share no metric", path=candidate.path, fix="evaluate both with the same"
        )
    everything = {**baseline.record["metrics"], **candidate.record["metrics"]}
    return Pairing(
        baseline=baseline,
        candidate=candidate,
        baseline_rows=np.array([ours[q] for q in shared], dtype=np.int64),
        candidate_rows=np.array([theirs[q] for q in shared], dtype=np.int64),
        measures=tuple(parse_measure(key) for key in keys),
        same_gold=same_gold,
        left_out={reason: count for reason, count in left_out.items() if count},
        missing=tuple(key for key in everything if key not in keys),
    )


def _cutoff(run: RecordedRun) -> int | None:
    """Return by how many results a query passes; None where the run keeps no configuration."""
    if run.is_imported or not (run.path / "config.yaml").is_file():
        return None
    return run.config.evaluation.cutoff


def _scorable(run: RecordedRun) -> dict[str, int]:
    """Row of every scorable query by its id."""
    ids, scorable = run.queries["query_id"], run.queries["scorable"]
    return {
        str(query_id): row
        for row, (query_id, counts) in enumerate(zip(ids, scorable, strict=True))
        if counts
    }


def _judged_alike(
    baseline: RecordedRun,
    candidate: RecordedRun,
    shared: list[str],
    ours: Mapping[str, int],
    theirs: Mapping[str, int],
) -> list[str]:
    qrels = [read_qrels(run.path / "qrels.trec") for run in (baseline, candidate)]
    texts = [run.queries["text"].to_numpy() for run in (baseline, candidate)]
    return [
        query_id
        for query_id in shared
        if texts[0][ours[query_id]] == texts[1][theirs[query_id]]
        and qrels[0].get(query_id) == qrels[1].get(query_id)
    ]


def _named(gold: Mapping[str, object]) -> str:
    return f"{gold['name']} {gold['version']} {gold['split']} ({str(gold['digest'])[:12]})"
