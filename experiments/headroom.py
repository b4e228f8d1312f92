"""Headroom: the best that could still be reached after each stage, whatever came later.

The ceiling of a measure after a stage is its value with every relevant unit that the stage let
through at the very top. After the last stage it is the measure itself. For tier 2 each failing
query is asked whether any weights within bounds bring a relevant unit into the top k
(`experiments.weight_search`). Queries of one workflow share their weights, so what a sweep can
reach is at most that: an upper bound.

`headroom.json`:

    format, gold, k, stages[], measures{name: {stage: mean}},
    tier_2 null or {k, bounds{weight: [low, high]}, hit_now, hit_upper_bound, failing, feasible,
                    undecided, label},
    queries[{query_id, type, workflow, ceilings{measure: [a value a stage]}, tier_2 null or
             {verdict, weights{}, change{}, distance, rank}}]
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments.diagnosis.judging import Judge, cutoff_of
from experiments.diagnosis.waterfall import Waterfall, stage_ranks, waterfall
from experiments.evaluate import measures_of
from experiments.failures import Reach
from experiments.metrics import Measure
from experiments.rankings import Block, asked, run_blocks
from experiments.recorded import RecordedRun
from experiments.weight_search import Answer, Bounds, search_weights, tier_2_pool
from gold import GoldQuery, GoldSet
from retriever import Retriever
from retriever.files import InputError, write_atomically
from retriever.stages.understand import intent_of
from retriever.types import Floats

__all__ = ["DEFAULT_BOUND", "HEADROOM", "LAST", "STAGES", "Headroom", "headroom", "write_headroom"]

HEADROOM = "headroom.json"
FORMAT = 1
DEFAULT_BOUND = (0.0, 5.0)
LABEL = "upper bound: each query has weights of its own here; in a sweep a workflow shares them"

# How far a unit must have got to be at hand after a stage. What the pool leaves out keeps its rank.
STAGES: Mapping[str, Reach] = {
    "corpus": Reach.UNROUTED,
    "route": Reach.NOT_RECALLED,
    "recall": Reach.FILTERED_BY_TIER_1,
    "rerank_plan": Reach.CUT_BY_MERGE,
    "merge": Reach.NOT_INJECTED,
    "inject": Reach.IN_POOL,
}
LAST = "rerank_merged"


@dataclass(frozen=True)
class Headroom:
    """What `headroom.json` holds."""

    gold: str
    k: int
    measures: Mapping[str, Mapping[str, float]]
    queries: Sequence[Mapping[str, Any]]
    tier_2: Mapping[str, Any] | None

    def to_json(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "format": FORMAT,
            "gold": self.gold,
            "k": self.k,
            "stages": [*STAGES, LAST],
            "measures": {name: dict(by_stage) for name, by_stage in self.measures.items()},
            "tier_2": self.tier_2,
            "queries": list(self.queries),
        }


def headroom(gold: GoldSet, retriever: Retriever, bounds: Bounds | None = None) -> Headroom:
    """Return the ceilings of every scorable query and of the set.

    `bounds` replace `DEFAULT_BOUND` for the weights they name; a weight in force outside its
    bounds widens them.
    """
    settings = retriever.config.evaluation
    measures = [m for m in measures_of(settings) if m.name in ("hit", "ndcg")]
    judge = Judge(retriever.index, gold, settings)
    scorable = [q for q in gold.queries.values() if judge.relevant(q.query_id)]
    rows: list[dict[str, Any]] = []
    used: dict[str, tuple[float, float]] = {}
    ask = [asked(query, gold.path) for query in scorable]
    for block in run_blocks(retriever, ask, gold.level, settings.depth):
        queries = scorable[block.start : block.start + len(block.trace.queries)]
        grades = [_positive(gold, query) for query in queries]
        cutoffs = np.array([cutoff_of(query, settings) for query in queries], dtype=np.int32)
        ranks = stage_ranks(block.trace, block.ranked)
        found = waterfall(judge.units, queries, [list(g) for g in grades], cutoffs, block, ranks)
        grade = np.array([g for of_query in grades for g in of_query.values()], dtype=np.float64)
        ceilings = {str(m): _ceilings(m, found, grade, judge, len(queries)) for m in measures}
        within = _bounds(block, bounds or {})
        used |= {name: _wider(used.get(name), bound) for name, bound in within.items()}
        for row, query in enumerate(queries):
            answer = _tier_2(judge, found, grade, block, row, int(cutoffs[row]), within)
            rows.append(
                {
                    "query_id": query.query_id,
                    "type": query.type or None,
                    "workflow": intent_of(block.trace.assemblies[row]).workflow,
                    "ceilings": {
                        name: [round(float(v), 6) for v in of[:, row]]
                        for name, of in ceilings.items()
                    },
                    "tier_2": answer and _answer(answer, block, row),
                }
            )
    unknown = sorted((bounds or {}).keys() - used.keys())
    if unknown and rows:
        raise InputError(
            f"no weight {unknown[0]!r} in this run", fix=f"known: {', '.join(used) or 'none'}"
        )
    stages = [*STAGES, LAST]
    means = {
        str(m): {
            stage: round(float(np.mean([r["ceilings"][str(m)][i] for r in rows])), 6)
            for i, stage in enumerate(stages)
        }
        for m in measures
        if rows
    }
    return Headroom(gold.name, settings.cutoff, means, rows, _summary(rows, used, settings.cutoff))


def write_headroom(run: RecordedRun, found: Headroom) -> Path:
    """Write `headroom.json` into the run directory, atomically; return its path."""
    path = run.path / HEADROOM
    text = json.dumps(found.to_json(), ensure_ascii=False, indent=1, allow_nan=False)
    write_atomically(path, (text + "\n").encode())
    return path


def _positive(gold: GoldSet, query: GoldQuery) -> dict[str, int]:
    """Return units with a gain, relevant or not, and their grades: what nDCG is made of."""
    return {unit: grade for unit, grade in gold.qrels[query.query_id].items() if grade > 0}


def _ceilings(
    measure: Measure, found: Waterfall, grade: Floats, judge: Judge, queries: int
) -> Floats:
    """Return the ceiling of a measure after every stage, (stages, queries)."""
    pairs, final = found.pairs, found.ranks["final"]
    cutoff = measure.cutoff or np.iinfo(np.int32).max
    kept = (final > 0) & (final <= cutoff)
    relevant = grade >= judge.relevant_from
    at_hand = [(pairs.unit >= 0) & ((pairs.reach >= least) | kept) for least in STAGES.values()]
    if measure.name == "hit":
        there = [*(a & relevant for a in at_hand), kept & relevant]
        counts = [np.bincount(pairs.query, weights=t, minlength=queries) for t in there]
        return np.minimum(np.array(counts), 1.0)
    ideal = _best_gain(pairs.query, grade, np.ones(len(grade), np.bool_), cutoff, queries)
    gains = [_best_gain(pairs.query, grade, a, cutoff, queries) for a in at_hand]
    actual = np.where(kept, grade / np.log2(np.maximum(final, 1) + 1.0), 0.0)
    gains.append(np.bincount(pairs.query, weights=actual, minlength=queries).astype(np.float64))
    return np.minimum(np.array(gains) / ideal, 1.0)


def _best_gain(query: Any, grade: Floats, at_hand: Any, cutoff: int, queries: int) -> Floats:
    """Return the discounted gain with the units at hand on top, by falling grade, (queries,)."""
    kept = np.flatnonzero(at_hand)
    order = kept[np.lexsort((-grade[kept], query[kept]))]
    starts = np.searchsorted(query[order], np.arange(queries))
    rank = np.arange(len(order)) - starts[query[order]] + 1
    gain = np.where(rank <= cutoff, grade[order] / np.log2(rank + 1.0), 0.0)
    return np.bincount(query[order], weights=gain, minlength=queries).astype(np.float64)


# ------------------------------------------------------------------------------------- tier 2


def _bounds(block: Block, given: Bounds) -> dict[str, tuple[float, float]]:
    """Return the bounds of each weight, wide enough for those in force.

    Without a cross-encoder its weight counts as 0, whatever it is.
    """
    final = block.trace.final
    found = {}
    for name, values in final.weights.items():
        spelt = "w_xdrug_penalty" if name == "xdrug" else f"w_{name}"
        own = -values if name == "xdrug" else values
        silent = (
            name == "ce" and not values.any() and not np.nan_to_num(final.terms["ce_norm"]).any()
        )
        low, high = (0.0, 0.0) if silent else given.get(spelt, DEFAULT_BOUND)
        found[spelt] = (min(low, float(own.min())), max(high, float(own.max())))
    return found


def _wider(one: tuple[float, float] | None, other: tuple[float, float]) -> tuple[float, float]:
    return other if one is None else (min(one[0], other[0]), max(one[1], other[1]))


def _tier_2(
    judge: Judge,
    found: Waterfall,
    grade: Floats,
    block: Block,
    row: int,
    k: int,
    bounds: Bounds,
) -> Answer | None:
    """Ask one query for weights; None where it needs none or tier 2 has none."""
    trace, pairs = block.trace, found.pairs
    first, last = np.searchsorted(pairs.query, [row, row + 1])
    wanted = pairs.unit[first:last][grade[first:last] >= judge.relevant_from]
    ranks = found.ranks["final"][first:last][grade[first:last] >= judge.relevant_from]
    if not trace.final.weights or ((ranks > 0) & (ranks <= k)).any():
        return None
    unit = judge.units.of_chunks(trace.slots.chunk[row])
    relevant = np.isin(unit, wanted[wanted >= 0])
    before = trace.injected.order[row, : trace.injected.count[row]]
    pool = tier_2_pool(trace.final, row, before, unit, relevant)
    return search_weights(pool, k, bounds)


def _answer(answer: Answer, block: Block, row: int) -> dict[str, Any]:
    weights = answer.weights
    change = {}
    for name, value in (weights or {}).items():
        if name == "w_xdrug_penalty":
            now = -float(block.trace.final.weights["xdrug"][row])
        else:
            now = float(block.trace.final.weights[name.removeprefix("w_")][row])
        if abs(value - now) > 1e-9:
            change[name] = round(value - now, 9)
    return {
        "verdict": answer.verdict,
        "weights": dict(weights) if weights else None,
        "change": change if weights else None,
        "distance": answer.distance,
        "rank": answer.rank,
    }


def _summary(rows: Sequence[Mapping[str, Any]], bounds: Bounds, k: int) -> dict[str, Any] | None:
    """Return what weights could reach over the set; None where tier 2 has no weights."""
    if not bounds:
        return None
    asked_for = [row["tier_2"]["verdict"] for row in rows if row["tier_2"]]
    feasible, undecided = asked_for.count("feasible"), asked_for.count("undecided")
    now = len(rows) - len(asked_for)
    return {
        "k": k,
        "bounds": {name: list(bound) for name, bound in bounds.items()},
        "hit_now": round(now / len(rows), 6),
        "hit_upper_bound": round((now + feasible + undecided) / len(rows), 6),
        "failing": len(asked_for),
        "feasible": feasible,
        "undecided": undecided,
        "label": LABEL,
    }
