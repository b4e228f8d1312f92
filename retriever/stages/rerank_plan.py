"""rerank_plan, tier 1: one list ordered anew by the cosine of the raw query, and filtered."""

from collections.abc import Sequence

import numpy as np

from retriever.config import RerankPlanConfig
from retriever.encoders.cache import CachedEncoder
from retriever.encoders.cross import CHARACTERS_READ
from retriever.index.store import Collection, Index
from retriever.stages.fuse import order_list
from retriever.stages.recall import Encoded
from retriever.types import Booleans, Floats, Integers, RankedList

__all__ = ["compare", "rerank_plan"]

DECIMALS = 12


def compare(
    index: Index,
    collection: Collection,
    encoder: CachedEncoder,
    asked: Encoded,
    rows: Integers,
) -> Floats:
    """Return the cosine of each query's vectors, the best counting, with chunks (queries, places).

    A chunk is read up to its first 2,048 characters. NaN where either side has no vector: a query
    without one, or a chunk that the collection does not hold.
    """
    cosine = np.full(rows.shape, np.nan)
    places = collection.places_of(rows)
    places = np.where(rows >= 0, places, -1)
    longer = _cut_vectors(index, collection, encoder, places)
    if not len(asked.owner) or not places.size:
        return cosine
    wanted = places[asked.owner]
    found = collection.dense.cosines(np.asarray(asked.vectors), np.maximum(wanted, 0))
    if longer:
        for vector, at in zip(*np.nonzero(np.isin(wanted, list(longer))), strict=True):
            own = asked.vectors[vector].astype(np.float64)
            found[vector, at] = np.round(own @ longer[int(wanted[vector, at])], 6)
    # Owners rise, so the vectors of one query stand together.
    first = np.flatnonzero(np.diff(asked.owner, prepend=-1))
    best = np.maximum.reduceat(found, first, axis=0)
    query = asked.owner[first]
    cosine[query] = np.where(places[query] >= 0, best, np.nan)
    return cosine


def _cut_vectors(
    index: Index, collection: Collection, encoder: CachedEncoder, places: Integers
) -> dict[int, Floats]:
    """Vectors of the chunks that are longer than what tier 1 reads, by place."""
    if not collection.text:
        return {}
    used = np.unique(places[places >= 0])
    texts: Sequence[str] = index.chunks.values("text", collection.rows[used])
    long = [(int(p), t) for p, t in zip(used, texts, strict=True) if len(t) > CHARACTERS_READ]
    if not long:
        return {}
    vectors = encoder.encode([text[:CHARACTERS_READ] for _, text in long], "document")
    return {place: vectors[i].astype(np.float64) for i, (place, _) in enumerate(long)}


def rerank_plan(
    section: RerankPlanConfig, one: RankedList, cosine: Floats | None, keep: Booleans | None
) -> RankedList:
    """Filter a list, then order it by its mode: `replace`, `blend` or as it is (`off`).

    `cosine` None means that the list is not compared. A filter that would leave nothing is not
    applied. Chunks without a cosine come last.
    """
    kept = filtered = None
    if keep is not None:
        some_left = np.any((one.rank > 0) & keep, axis=1, keepdims=True)
        kept = keep | ~some_left
        filtered = np.where(kept, 0, one.rank).astype(np.int32)
    if cosine is None or section.mode == "off":
        rank = order_list(_by_rank(one), one.rank, kept)
        return RankedList(one.item, rank, one.score, one.parts, filtered)
    dense = (1 + cosine) / 2
    if section.mode == "replace":
        score = dense
    else:
        score = np.round(section.w * dense + (1 - section.w) * one.score, DECIMALS)
    parts = {**one.parts, "tier1": np.where(one.rank > 0, dense, np.nan)}
    return RankedList(one.item, order_list(score, one.rank, kept), score, parts, filtered)


def _by_rank(one: RankedList) -> Floats:
    """Return scores that repeat the order a list has already."""
    return -one.rank.astype(np.float64)
