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
    ListId,
    RankedList,
    Ranking,
    Slots,
)

__all__ = ["merge", "minmax", "total_order"]

DECIMALS = 12
FAR = np.iinfo(np.int32).max


def merge(
    section: MergeConfig, slots: Slots, lists: Sequence[RankedList], names: Sequence[str]
) -> Ranking:
    """Fuse the lists of every query into one total order over its slots.

    Order: score descending, then the best rank in any list, then node id. A slot is a source
    chunk. Where several collections hold it, `rrf_key` decides: keyed by source chunk their parts
    add up, keyed by node the better node stands for the chunk and the others are dropped. `names`
    are the collections that `node` counts, in order.
    """
    queries, width = slots.chunk.shape
    member = [one.rank > 0 for one in lists]
    filled = np.array([m.any(axis=1) for m in member], dtype=np.bool_).reshape(len(lists), queries)
    weight = _weights(section, [one.item for one in lists], filled)
    member = [m & (w > 0)[:, None] for m, w in zip(member, weight, strict=True)]
    if section.method == "minmax":
        total = weight.sum(axis=0)
        weight = np.divide(weight, total, out=np.zeros_like(weight), where=total > 0)

    names = list(names)
    shape = (len(names), queries, width + 1)
    # By collection, so that the nodes of one chunk stay apart; the last column takes the padding.
    score, best = np.zeros(shape), np.full(shape, FAR, dtype=np.int32)
    alone = (weight > 0).sum(axis=0) == 1
    row = np.arange(queries)[:, None]
    for one, inside, w, pointer in zip(lists, member, weight, slots.pointer, strict=False):
        if section.method == "minmax":
            part = w[:, None] * minmax(one.score, inside)
        else:
            part = w[:, None] / (section.rrf_k + np.maximum(one.rank, 1))
            part = np.where(alone[:, None], one.score, part)
        at = names.index(one.item.collection)
        # A list holds a chunk once, so no slot is written twice here.
        score[at, row, pointer] += np.where(inside, part, 0.0)
        rank = np.where(inside, one.rank, FAR)
        best[at, row, pointer] = np.minimum(best[at, row, pointer], rank)
    return _ranking(section, score[..., :width], best[..., :width], weight)


def _ranking(section: MergeConfig, score: Floats, best: Integers, weight: Floats) -> Ranking:
    """Bring the nodes of every chunk together and order; `score`, `best` by collection."""
    holds = best < FAR
    if not len(score):
        shape = score.shape[1:]
        total, node, rank = np.zeros(shape), np.full(shape, -1, np.int32), np.full(shape, FAR)
    elif section.rrf_key == "source_chunk_id" or len(score) == 1:
        node = best.argmin(axis=0)
        total, rank = score.sum(axis=0), best.min(axis=0)
    else:
        by_node = np.where(holds, np.round(score, DECIMALS), -np.inf)
        top = by_node == by_node.max(axis=0)
        node = np.where(top & holds, best, FAR).argmin(axis=0)
        total = np.take_along_axis(score, node[None], axis=0)[0]
        rank = np.take_along_axis(best, node[None], axis=0)[0]
    retrieved: Booleans = np.any(holds, axis=0)
    node = np.where(retrieved, node, -1).astype(np.int32)
    total = np.where(retrieved, np.round(total, DECIMALS), -np.inf)
    several = (holds.sum(axis=0) > 1).any(axis=1)
    audit = (AuditEvent("merge", "rrf_dedupe", several),) if several.any() else ()
    return Ranking(
        order=total_order(total, rank.astype(np.int32), node if len(score) > 1 else None),
        count=retrieved.sum(axis=1).astype(np.int32),
        score=total,
        node=node,
        weight=weight,
        audit=audit,
    )


def minmax(score: Floats, member: Booleans) -> Floats:
    """Bring each row of scores to [0, 1] over its members; equal scores give 1s, others 0s."""
    low = np.where(member, score, np.inf).min(axis=1, keepdims=True, initial=np.inf)
    high = np.where(member, score, -np.inf).max(axis=1, keepdims=True, initial=-np.inf)
    with np.errstate(invalid="ignore"):
        span = high - low
        scaled = np.divide(score - low, span, out=np.ones(score.shape), where=span > 0)
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


def _weights(section: MergeConfig, lists: Sequence[ListId], filled: Booleans) -> Floats:
    """Weight of each list for each query, (lists, queries); 0 where the list is empty.

    Under min-max a weight given by search (`dense`) is the search's as a whole, shared by those of
    its lists that have no weight of their own.
    """
    weight = np.zeros(filled.shape)
    given = section.weights
    for search in ("dense", "bm25"):
        unnamed = [item.search == search and str(item) not in given for item in lists]
        shared = filled & np.array(unnamed, dtype=np.bool_)[:, None]
        sharing = shared.sum(axis=0) if section.method == "minmax" else np.ones(filled.shape[1])
        weight = np.where(shared, given.get(search, 1.0) / np.maximum(sharing, 1), weight)
    for i, item in enumerate(lists):
        if str(item) in given:
            weight[i] = np.where(filled[i], given[str(item)], 0.0)
    return weight
