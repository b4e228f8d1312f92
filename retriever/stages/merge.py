"""merge: several lists become one order.

Reciprocal rank fusion (Cormack, Clarke and Büttcher, 2009) adds up w / (k + rank); min-max fusion
adds up each list's own scores brought to [0, 1], with weights that sum to 1.
"""

from collections.abc import Mapping

import numpy as np

from retriever.config import MergeConfig
from retriever.types import AuditEvent, Booleans, Floats, Integers, ListId, Lists, Ranking

__all__ = ["merge", "total_order"]

DECIMALS = 12
FAR = np.iinfo(np.int32).max


def merge(section: MergeConfig, lists: Lists) -> Ranking:
    """Fuse the lists of every query into one total order over its slots.

    Order: score descending, then the best rank in any list, then node id. A slot is a source
    chunk; where two collections hold it, it stands for the better placed of its nodes.
    """
    member: Booleans = lists.rank > 0
    weight = _weights(section, lists.lists, np.any(member, axis=2))
    member = member & (weight > 0)[:, :, None]
    filled = member.any(axis=2)
    if section.method == "rrf":
        part = weight[:, :, None] / (section.rrf_k + np.maximum(lists.rank, 1))
    else:
        total = weight.sum(axis=0)
        weight = np.divide(weight, total, out=np.zeros_like(weight), where=total > 0)
        part = weight[:, :, None] * minmax(lists.score, member)
    part = np.where(member, part, 0.0)

    names = sorted({item.collection for item in lists.lists})
    collection = np.array([names.index(item.collection) for item in lists.lists], dtype=np.int32)
    if section.rrf_key == "source_chunk_id" or len(names) < 2:
        score = part.sum(axis=0)
        node = _best_placed(member, lists.rank, collection)
    else:
        by_collection = np.stack([part[collection == c].sum(axis=0) for c in range(len(names))])
        holds = np.stack([member[collection == c].any(axis=0) for c in range(len(names))])
        by_collection = np.where(holds, by_collection, -np.inf)
        score = by_collection.max(axis=0)
        node = np.where(holds.any(axis=0), by_collection.argmax(axis=0), -1).astype(np.int32)
    if section.method == "rrf":
        alone = filled.sum(axis=0) == 1
        own = np.where(member, lists.score, 0.0).sum(axis=0)
        score = np.where(alone[:, None], own, score)

    retrieved = member.any(axis=0)
    score = np.where(retrieved, np.round(score, DECIMALS), -np.inf)
    best_rank = np.where(member, lists.rank, FAR).min(axis=0, initial=FAR)
    twice = (member.sum(axis=0) > 1).sum(axis=1)
    audit: tuple[AuditEvent, ...] = ()
    if len(names) > 1 and twice.any():
        queries, merged_chunks = int((twice > 0).sum()), int(twice.sum())
        audit = (AuditEvent("merge", "rrf_dedupe", queries, {"chunks": merged_chunks}),)
    return Ranking(
        order=total_order(score, best_rank, node if len(names) > 1 else None),
        count=retrieved.sum(axis=1).astype(np.int32),
        score=score,
        node=node,
        weight=weight,
        audit=audit,
    )


def minmax(score: Floats, member: Booleans) -> Floats:
    """Bring each list's scores to [0, 1] over its members; a list of equal scores gives 1s."""
    low = np.where(member, score, np.inf).min(axis=2, keepdims=True, initial=np.inf)
    high = np.where(member, score, -np.inf).max(axis=2, keepdims=True, initial=-np.inf)
    with np.errstate(invalid="ignore"):
        span = high - low
        scaled = np.divide(score - low, span, out=np.ones_like(score), where=span > 0)
    return np.where(member, scaled, 0.0)


def total_order(score: Floats, best_rank: Integers, node: Integers | None) -> Integers:
    """Return slots from the best: score descending, best rank, node id; -inf scores come last.

    Slots follow chunk ids already, so the last key is the collection where there are several.
    """
    order = np.argsort(best_rank, axis=1, kind="stable")
    if node is not None:
        by_node = np.argsort(node, axis=1, kind="stable")
        ranks = np.take_along_axis(best_rank, by_node, axis=1)
        order = np.take_along_axis(by_node, np.argsort(ranks, axis=1, kind="stable"), axis=1)
    falling = -np.take_along_axis(score, order, axis=1)
    best = np.argsort(falling, axis=1, kind="stable")
    return np.take_along_axis(order, best, axis=1).astype(np.int32)


def _weights(section: MergeConfig, lists: tuple[ListId, ...], filled: Booleans) -> Floats:
    """Weight of each list for each query, (lists, queries); 0 where the list is empty.

    Under min-max a weight given by search (`dense`) is the search's as a whole, shared by those of
    its lists that have no weight of their own.
    """
    weight = np.zeros(filled.shape)
    given: Mapping[str, float] = section.weights
    for search in ("dense", "bm25"):
        of_search = np.array([item.search == search for item in lists], dtype=np.bool_)
        own = np.array([str(item) in given for item in lists], dtype=np.bool_)
        shared = filled & (of_search & ~own)[:, None]
        sharing = shared.sum(axis=0) if section.method == "minmax" else 1
        each = np.divide(given.get(search, 1.0), np.maximum(sharing, 1))
        weight = np.where(shared, each, weight)
    for i, item in enumerate(lists):
        if str(item) in given:
            weight[i] = np.where(filled[i], given[str(item)], 0.0)
    return weight


def _best_placed(member: Booleans, rank: Integers, collection: Integers) -> Integers:
    """Return the collection of the list where the slot stands best; the first by name on ties."""
    if not len(collection):
        return np.full(member.shape[1:], -1, dtype=np.int32)
    placed = np.where(member, rank, FAR)
    by_name = np.argsort(collection, kind="stable")
    first = by_name[placed[by_name].argmin(axis=0)]
    return np.where(member.any(axis=0), collection[first], -1).astype(np.int32)
