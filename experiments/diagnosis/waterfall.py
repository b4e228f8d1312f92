"""The waterfall: where each relevant unit stood after every stage, and how far it got.

A place is a (query, slot) of a batch; a pair is a relevant (query, unit). A unit's rank after a
stage is the best rank of its chunks there, from 1; 0 where none of them is in it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from experiments.diagnosis.units import Units
from experiments.failures import Pairs, Reach
from experiments.rankings import Block, Ranked
from gold import GoldQuery
from retriever.pipeline import Trace
from retriever.stages.inject import Injected
from retriever.types import Booleans, Floats, Integers, Ranking, Reranked

__all__ = ["Waterfall", "contributions", "searched_collections", "stage_ranks", "waterfall"]

UNFOUND = np.iinfo(np.int32).max
NONE = np.int32(-1)


@dataclass(frozen=True, slots=True, eq=False)
class Waterfall:
    """The pairs of a batch and their ranks.

    `ranks` maps a stage (a list's name, `supplement`, `merged`, `injected`, `reranked`, `final`) to
    ranks (pairs,), 0 for none. `slot` (pairs,) is the place of the unit's best chunk in the final
    order, -1 where none was retrieved.
    """

    pairs: Pairs
    ranks: Mapping[str, Integers]
    slot: Integers


def stage_ranks(trace: Trace, ranked: Ranked) -> dict[str, Integers]:
    """Return the rank of every place after every stage, (queries, slots) each, 0 for none.

    `final` is the rank of the unit a place belongs to, up to the depth of the run.
    """
    place = _places(trace.final)
    unit = np.zeros_like(place)
    np.put_along_axis(unit, trace.final.order.astype(np.int64), ranked.place, axis=1)
    found = {str(item): trace.by_slot(i)[0] for i, item in enumerate(trace.slots.lists)}
    return found | {
        "supplement": _supplement_ranks(trace),
        "merged": _places(trace.merged),
        "injected": _places(trace.injected),
        "reranked": place,
        "final": unit,
    }


def waterfall(
    units: Units,
    queries: Sequence[GoldQuery],
    relevant: Sequence[Sequence[str]],
    cutoffs: Integers,
    block: Block,
    ranks: Mapping[str, Integers],
) -> Waterfall:
    """Follow the relevant units of each query of a block through the stages.

    `relevant` are their ids, `cutoffs` (queries,) the k of each query; `ranks` as `stage_ranks`
    gives them.
    """
    trace = block.trace
    rows = np.arange(len(queries), dtype=np.int32)
    query: Integers = np.repeat(rows, [len(of_query) for of_query in relevant])
    names = [name for of_query in relevant for name in of_query]
    unit = np.array([units.row.get(name, -1) for name in names], dtype=np.int32)

    # Every place of a relevant unit, and the pair it belongs to.
    span = len(units.ids) + 1
    keys = query.astype(np.int64) * span + unit + 1
    by_key = np.argsort(keys, kind="stable")
    of_place = units.of_chunks(trace.slots.chunk)
    wanted = np.arange(len(queries), dtype=np.int64)[:, None] * span + of_place + 1
    known = np.append(keys[by_key], -1)  # a key that no place has
    at = np.searchsorted(known[:-1], wanted)
    row, slot = np.nonzero((of_place >= 0) & (known[at] == wanted))
    pair = by_key[at[row, slot]].astype(np.int32)

    best = {name: _best(rank[row, slot], pair, len(unit)) for name, rank in ranks.items()}
    rank = _rank_of_units(block.ranked, query, unit)
    in_top = (rank > 0) & (rank <= cutoffs[query])
    best["final"] = rank
    place = ranks["reranked"][row, slot]
    chosen = np.full(len(unit), NONE, dtype=np.int32)
    first = (place > 0) & (place == best["reranked"][pair])
    chosen[pair[first]] = slot[first]

    searched = searched_collections(units, trace)
    lives = units.held[:, np.maximum(unit, 0)] & (unit >= 0)
    routed = np.any(lives & searched[:, query], axis=0)
    reach = np.where(routed, Reach.NOT_RECALLED, Reach.UNROUTED)
    reach = np.where(routed & ~_in_scope(units, trace, query, unit), Reach.OUT_OF_SCOPE, reach)
    np.maximum.at(reach, pair, _levels(trace, ranks)[row, slot])
    reach = np.where(
        (reach == Reach.IN_POOL) & _passed_through(trace)[query],
        np.where(
            (best["merged"] > 0) & (best["merged"] <= cutoffs[query]),
            Reach.DISPLACED,
            Reach.OUT_RANKED,
        ),
        reach,
    )
    # A list that others of the batch search has places for every query.
    reach = np.where(routed, reach, Reach.UNROUTED)
    substance = np.zeros(len(unit), dtype=np.bool_)
    if units.level == "chunk":
        substance = _in_substance(units, block.ranked, cutoffs, query, unit, in_top)
    pairs = Pairs(query, unit, in_top, substance, routed, reach.astype(np.int32))
    return Waterfall(pairs, best, chosen)


def searched_collections(units: Units, trace: Trace) -> Booleans:
    """Which collections a plan or the supplement of each query searched, (collections, queries)."""
    names = list(units.index.collections)
    found = np.zeros((len(names), len(trace.queries)), dtype=np.bool_)
    for item, active in zip(trace.routing.lists, trace.routing.active, strict=True):
        found[names.index(item.collection)] |= active
    for name, active in zip(trace.supplement.collections, trace.supplement.searched, strict=True):
        found[names.index(name)] |= active
    return found


def contributions(final: Reranked) -> dict[str, Floats]:
    """Return what each term added to the final score, (queries, slots) each; empty without tier 2.

    weight * term; `structure_floor` is what a structure lifted the score by beyond that. They add
    up to the final score inside the pool and are NaN outside.
    """
    parts = {}
    for name, weight in final.weights.items():
        term = f"{name}_norm" if name in ("ce", "rank") else name
        parts[term] = weight[:, None] * final.terms[term]
    if "structure" in final.terms:
        lifted = final.terms["final"] - np.sum(list(parts.values()), axis=0)
        held = ~np.isnan(final.terms["structure"])
        parts["structure_floor"] = np.where(held, np.maximum(np.round(lifted, 9), 0.0), 0.0)
    return parts


def _best(rank: Integers, pair: Integers, pairs: int) -> Integers:
    found = np.full(pairs, UNFOUND, dtype=np.int32)
    there = rank > 0
    np.minimum.at(found, pair[there], rank[there])
    return np.where(found == UNFOUND, 0, found).astype(np.int32)


def _rank_of_units(ranked: Ranked, query: Integers, unit: Integers) -> Integers:
    """Rank of each pair's unit in the run, from 1; 0 where it is not in it."""
    rank = np.zeros(len(unit), dtype=np.int32)
    for start in range(0, len(unit), 65_536):
        part = slice(start, start + 65_536)
        same = ranked.units[query[part]] == unit[part, None]
        same &= unit[part, None] >= 0
        if same.shape[1]:
            rank[part] = np.where(same.any(axis=1), same.argmax(axis=1) + 1, 0)
    return rank


def _levels(trace: Trace, ranks: Mapping[str, Integers]) -> Integers:
    """How far the chunk at each place got, as `Reach`, (queries, slots)."""
    queries, width = trace.slots.chunk.shape
    level = np.full((queries, width + 1), Reach.NOT_RECALLED, dtype=np.int32)
    row = np.arange(queries)[:, None]
    for one, pointer in zip(trace.lists, trace.slots.pointer, strict=False):
        if one.filtered is not None:
            far = np.where(one.filtered > 0, Reach.FILTERED_BY_TIER_1, Reach.NOT_RECALLED)
            level[row, pointer] = np.maximum(level[row, pointer], far)
        far = np.where(one.rank > 0, Reach.CUT_BY_MERGE, Reach.NOT_RECALLED)
        level[row, pointer] = np.maximum(level[row, pointer], far)
    found = level[:, :width]
    found = np.where(ranks["supplement"] > 0, np.maximum(found, Reach.NOT_INJECTED), found)
    found = np.where(ranks["reranked"] > 0, Reach.OUTSIDE_POOL, found)
    return np.where(trace.final.pool, Reach.IN_POOL, found).astype(np.int32)


def _passed_through(trace: Trace) -> Booleans:
    """Which queries tier 2 left in the order that the injection gave them, (queries,)."""
    found = np.zeros(len(trace.queries), dtype=np.bool_)
    for event in trace.final.audit:
        if event.event == "rerank_t2_passthrough":
            found |= event.where
    return found


def _in_scope(units: Units, trace: Trace, query: Integers, unit: Integers) -> Booleans:
    """Tell for each pair whether its query's scope admits its unit."""
    admitted = np.ones(len(unit), dtype=np.bool_)
    if all(rows is None for rows in trace.allowed):
        return admitted
    for at, (q, u) in enumerate(zip(query, unit, strict=True)):
        rows = trace.allowed[q]
        if rows is not None and u >= 0:
            admitted[at] = bool(np.isin(units.chunks_of(int(u)), rows).any())
    return admitted


def _in_substance(
    units: Units,
    ranked: Ranked,
    cutoffs: Integers,
    query: Integers,
    unit: Integers,
    in_top: Booleans,
) -> Booleans:
    """Tell for each chunk whether another of its document, or one of its text, is in the top k."""
    chunks = units.index.chunks
    found = np.zeros(len(unit), dtype=np.bool_)
    for at in np.flatnonzero(~in_top & (unit >= 0)):
        top = ranked.units[query[at]][: cutoffs[query[at]]]
        top = top[top >= 0]
        if (chunks.document_of[top] == chunks.document_of[unit[at]]).any():
            found[at] = True
        elif len(top):
            found[at] = chunks.value("text", int(unit[at])) in chunks.values("text", top)
    return found


def _supplement_ranks(trace: Trace) -> Integers:
    """Place of every slot in the supplement, from 1; 0 where it is not in it."""
    queries, width = trace.slots.chunk.shape
    ranks = np.zeros((queries, width + 1), dtype=np.int32)
    places = np.arange(1, trace.supplement.rows.shape[1] + 1, dtype=np.int32)
    held = np.where(trace.supplement.rows >= 0, places, 0)
    ranks[np.arange(queries)[:, None], trace.slots.pointer[-1]] = held
    return ranks[:, :width]


def _places(ranking: Ranking | Injected | Reranked) -> Integers:
    """Rank of every slot in an order, from 1; 0 where it was not retrieved."""
    order, count = ranking.order, ranking.count
    rank = np.broadcast_to(np.arange(1, order.shape[1] + 1, dtype=np.int32), order.shape)
    rank = np.where(rank <= count[:, None], rank, 0).astype(np.int32)
    place = np.zeros(order.shape, dtype=np.int32)
    np.put_along_axis(place, order.astype(np.int64), rank, axis=1)
    return place
