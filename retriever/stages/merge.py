"""merge: several lists become one order.

Reciprocal rank fusion (Cormack, Clarke and Büttcher, 2009) adds up w / (k + rank); min-max fusion
adds up each list's own scores brought to [0, 1], with weights that sum to 1.
"""

from collections.abc import Sequence

import numpy as np

from retriever.config import MergeConfig
from retriever.types import (
    AuditEvent,
    Booleans,
    Floats,
    Integers,
    RankedList,
    Ranking,
    Slots,
)

__all__ = ["merge", "minmax", "total_order"]

DECIMALS = 12
FAR = np.iinfo(np.int32).max


def merge(
    section: MergeConfig,
    slots: Slots,
    lists: Sequence[RankedList],
    names: Sequence[str],
    models: Sequence[str],
) -> Ranking:
    """Fuse the lists of every query into one total order over its slots.

    Order: score descending, then the best rank in any list, then node id. A slot is a source
    chunk. Where several collections hold it, `rrf_key` decides: keyed by source chunk their parts
    add up, keyed by node the better node stands for the chunk and the others are dropped. `names`
    are the collections that `node` counts, in order; `models` says whose scores each list holds.
    """
    queries, width = slots.chunk.shape
    groups = _groups(section, lists, models)
    member = [one.rank > 0 for one in lists]
    weight = _weights(section, lists, member, groups, queries)
    member = [m & (w > 0)[:, None] for m, w in zip(member, weight, strict=True)]
    for group in groups:
        for i, inside in zip(group, _as_one(slots, lists, member, group), strict=True):
            member[i] = inside
    alone = np.array([m.any(axis=1) for m in member], dtype=np.int32).sum(axis=0) == 1

    row = np.arange(queries)[:, None]
    # By collection, so that the nodes of one chunk stay apart; the last column takes the padding.
    shape = (len(names), queries, width + 1)
    by_node, best = np.zeros(shape), np.full(shape, FAR, dtype=np.int32)
    by_chunk = np.zeros(shape[1:])
    for group in groups:
        if section.method == "minmax":
            parts = _scaled([lists[i].score for i in group], [member[i] for i in group])
        else:
            (only,) = group
            parts = [1.0 / (section.rrf_k + np.maximum(lists[only].rank, 1))]
        held = np.zeros(shape)
        for i, part in zip(group, parts, strict=True):
            at, pointer = names.index(lists[i].item.collection), slots.pointer[i]
            part = weight[i][:, None] * part
            if section.method == "rrf":
                part = np.where(alone[:, None], lists[i].score, part)
            # A list holds a chunk once, so no slot is written twice here.
            held[at, row, pointer] = np.where(member[i], part, 0.0)
            rank = np.where(member[i], lists[i].rank, FAR)
            best[at, row, pointer] = np.minimum(best[at, row, pointer], rank)
        by_node += held
        # What one model says of a chunk counts once, however many of its collections hold it.
        by_chunk += held.max(axis=0) if len(group) > 1 else held.sum(axis=0)
    keyed = by_node if section.rrf_key == "node_id" and len(names) > 1 else None
    kept = None if keyed is None else keyed[..., :width]
    return _ranking(by_chunk[:, :width], kept, best[..., :width], weight)


def _groups(
    section: MergeConfig, lists: Sequence[RankedList], models: Sequence[str]
) -> list[list[int]]:
    """Return which lists are read as one: those of one model, but for lists weighted by name."""
    joint = section.method == "minmax" and section.minmax_over == "model"
    groups: dict[str, list[int]] = {}
    for i, (one, model) in enumerate(zip(lists, models, strict=True)):
        own = not joint or str(one.item) in section.weights
        groups.setdefault(str(one.item) if own else f"model {model}", []).append(i)
    return list(groups.values())


def _as_one(
    slots: Slots, lists: Sequence[RankedList], member: Sequence[Booleans], group: Sequence[int]
) -> list[Booleans]:
    """Cut lists that are read as one to the length of the longest of them, by score.

    That is what one list over all their chunks would hold: else the tail of a small collection
    would set the scale for all. A chunk that several of them hold counts once.
    """
    if len(group) == 1:
        return [member[group[0]]]
    queries, width = slots.chunk.shape
    row = np.arange(queries)[:, None]
    joint = np.full((queries, width + 1), -np.inf)
    for i in group:
        own = np.where(member[i], lists[i].score, -np.inf)
        joint[row, slots.pointer[i]] = np.maximum(joint[row, slots.pointer[i]], own)
    rising = np.sort(-joint[:, :width], axis=1)
    longest = np.max([member[i].sum(axis=1) for i in group], axis=0)
    last = np.clip(longest - 1, 0, max(width - 1, 0))[:, None]
    least = -np.take_along_axis(rising, last, axis=1) if width else np.zeros((queries, 1))
    return [member[i] & (lists[i].score >= least) for i in group]


def _scaled(scores: Sequence[Floats], member: Sequence[Booleans]) -> list[Floats]:
    """Bring the lists of one group to [0, 1] together."""
    scaled = minmax(np.concatenate(scores, axis=1), np.concatenate(member, axis=1))
    return np.split(scaled, np.cumsum([score.shape[1] for score in scores])[:-1], axis=1)


def _ranking(by_chunk: Floats, by_node: Floats | None, best: Integers, weight: Floats) -> Ranking:
    """Order the chunks; `best` and `by_node` have a layer a collection."""
    holds = best < FAR
    if not len(best):
        node, rank = np.full(by_chunk.shape, -1, np.int32), np.full(by_chunk.shape, FAR)
        total = by_chunk
    elif by_node is None:
        node, rank, total = best.argmin(axis=0), best.min(axis=0), by_chunk
    else:
        rounded = np.where(holds, np.round(by_node, DECIMALS), -np.inf)
        top = rounded == rounded.max(axis=0)
        node = np.where(top & holds, best, FAR).argmin(axis=0)
        total = np.take_along_axis(by_node, node[None], axis=0)[0]
        rank = np.take_along_axis(best, node[None], axis=0)[0]
    retrieved: Booleans = np.any(holds, axis=0)
    node = np.where(retrieved, node, -1).astype(np.int32)
    total = np.where(retrieved, np.round(total, DECIMALS), -np.inf)
    several = (holds.sum(axis=0) > 1).any(axis=1)
    audit = (AuditEvent("merge", "rrf_dedupe", several),) if several.any() else ()
    return Ranking(
        order=total_order(total, rank.astype(np.int32), node if len(best) > 1 else None),
        count=retrieved.sum(axis=1).astype(np.int32),
        score=total,
        node=node,
        weight=weight,
        audit=audit,
    )


def minmax(score: Floats, member: Booleans, equal: float = 1.0) -> Floats:
    """Bring each row of scores to [0, 1] over its members; outside 0.

    Members that all score the same get `equal`: 1 in the merge, 0 in tier 2.
    """
    low = np.where(member, score, np.inf).min(axis=1, keepdims=True, initial=np.inf)
    high = np.where(member, score, -np.inf).max(axis=1, keepdims=True, initial=-np.inf)
    with np.errstate(invalid="ignore"):
        span = high - low
        scaled = np.divide(score - low, span, out=np.full(score.shape, equal), where=span > 0)
    return np.where(member, scaled, 0.0)


def total_order(score: Floats, best_rank: Integers, node: Integers | None) -> Integers:
    """Return slots from the best: score descending, best rank, node id; -inf scores come last.

    Slots follow chunk ids already, so the last key is the collection where there are several.
    """
    if node is None:
        order = np.argsort(best_rank, axis=1, kind="stable")
    else:
        by_node = np.argsort(node, axis=1, kind="stable")
        ranks = np.take_along_axis(best_rank, by_node, axis=1)
        order = np.take_along_axis(by_node, np.argsort(ranks, axis=1, kind="stable"), axis=1)
    falling = -np.take_along_axis(score, order, axis=1)
    best = np.argsort(falling, axis=1, kind="stable")
    return np.take_along_axis(order, best, axis=1).astype(np.int32)


def _weights(
    section: MergeConfig,
    lists: Sequence[RankedList],
    member: Sequence[Booleans],
    groups: Sequence[Sequence[int]],
    queries: int,
) -> Floats:
    """Weight of each list for each query, (lists, queries); 0 where the list is empty.

    Under min-max the weights of the groups sum to 1, and a weight given by search (`dense`) is the
    search's as a whole, shared equally by those of its groups that have no weight of their own.
    """
    if not lists:
        return np.zeros((0, queries))
    filled = np.array([m.any(axis=1) for m in member], dtype=np.bool_).reshape(-1, queries)
    there = np.array([filled[group].any(axis=0) for group in map(list, groups)], dtype=np.bool_)
    there = there.reshape(len(groups), queries)
    weight = np.zeros(there.shape)
    given = section.weights
    first = [lists[group[0]].item for group in groups]
    for search in ("dense", "bm25"):
        unnamed = [item.search == search and str(item) not in given for item in first]
        shared = there & np.array(unnamed, dtype=np.bool_)[:, None]
        sharing = shared.sum(axis=0) if section.method == "minmax" else np.ones(queries)
        weight = np.where(shared, given.get(search, 1.0) / np.maximum(sharing, 1), weight)
    for g, item in enumerate(first):
        if str(item) in given:
            weight[g] = np.where(there[g], given[str(item)], 0.0)
    if section.method == "minmax":
        total = weight.sum(axis=0)
        weight = np.divide(weight, total, out=np.zeros_like(weight), where=total > 0)
    by_list = np.zeros(filled.shape)
    for g, group in enumerate(groups):
        by_list[list(group)] = np.where(filled[list(group)], weight[g], 0.0)
    return by_list
