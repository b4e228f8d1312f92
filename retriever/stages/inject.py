"""inject: supplement chunks that the pool lacks go to the top of the merged list."""

from dataclasses import dataclass

import numpy as np

from retriever.config import InjectConfig
from retriever.types import AuditEvent, Booleans, Integers, Ranking, Slots, Supplement

__all__ = ["Injected", "inject"]

# The position of what was not retrieved.
FAR = np.iinfo(np.int32).max


@dataclass(frozen=True, slots=True, eq=False)
class Injected:
    """The merged order with the supplement's chunks in front.

    `order`, `count` and `node` as in `Ranking`; `injected` and `pool` (queries, slots) mark what
    was put in front and what tier 2 scores. The bonus of an injected chunk is this column and no
    number, so that it cannot swamp a min-max later.

    `images` (queries, slots) marks images; None where the index has none. `stands` (queries,)
    marks queries that look for images and have found some: tier 2 leaves their order alone.
    """

    order: Integers
    count: Integers
    node: Integers
    injected: Booleans
    pool: Booleans
    audit: tuple[AuditEvent, ...] = ()
    images: Booleans | None = None
    stands: Booleans | None = None


def inject(
    section: InjectConfig,
    slots: Slots,
    merged: Ranking,
    supplement: Supplement,
    collections: tuple[str, ...],
    wanted: Booleans,
    images: Booleans | None = None,
    visual: Booleans | None = None,
) -> Injected:
    """Put the first `min_new` supplement chunks that are not in the pool in front of it.

    `wanted` says for which queries; `collections` are the names that `merged.node` counts. Never
    drops a chunk and never repeats one. `images` (queries, slots) take no place in the pool, and
    neither does anything of a `visual` query that has found some.
    """
    queries, width = slots.chunk.shape
    position = np.full((queries, width + 1), FAR, dtype=np.int32)
    places = np.broadcast_to(np.arange(width, dtype=np.int32), (queries, width))
    retrieved = places < merged.count[:, None]
    ordered = np.where(retrieved, places, FAR)
    np.put_along_axis(position, merged.order.astype(np.int64), ordered.astype(np.int32), axis=1)
    text_position = position
    if images is not None:
        text_position = np.full_like(position, FAR)
        text = retrieved & ~np.take_along_axis(images, merged.order.astype(np.int64), axis=1)
        counted = np.where(text, np.cumsum(text, axis=1) - 1, FAR).astype(np.int32)
        np.put_along_axis(text_position, merged.order.astype(np.int64), counted, axis=1)

    pointer = slots.pointer[-1]
    row = np.arange(queries)[:, None]
    new = (supplement.rows >= 0) & wanted[:, None]
    new &= text_position[row, pointer] >= section.rerank_pool
    new &= np.cumsum(new, axis=1) <= section.min_new
    turn = np.cumsum(new, axis=1)
    query, place = np.nonzero(new)
    slot = pointer[query, place]

    injected = np.zeros((queries, width), dtype=np.bool_)
    injected[query, slot] = True
    key = position[:, :width].astype(np.int64)
    key[query, slot] = turn[query, place] - section.min_new - 1
    order = np.argsort(key, axis=1, kind="stable").astype(np.int32)
    fresh = merged.node[query, slot] < 0
    node = merged.node.copy()
    if query.size:
        known = np.array([collections.index(c) for c in supplement.collections], dtype=np.int32)
        node[query[fresh], slot[fresh]] = known[supplement.collection[query, place][fresh]]
    count = merged.count + np.bincount(query[fresh], minlength=queries).astype(np.int32)
    pool = np.zeros((queries, width), dtype=np.bool_)
    stands: Booleans | None = None
    if images is None:
        inside = places < np.minimum(count, section.rerank_pool)[:, None]
    else:
        of_place = np.take_along_axis(images, order.astype(np.int64), axis=1)
        retrieved = places < count[:, None]
        looks_for_images = np.zeros(queries, dtype=np.bool_) if visual is None else visual
        stands = np.any(retrieved & of_place, axis=1) & looks_for_images
        text = retrieved & ~of_place
        inside = text & (np.cumsum(text, axis=1) <= section.rerank_pool) & ~stands[:, None]
    np.put_along_axis(pool, order.astype(np.int64), inside, axis=1)
    where = np.any(injected, axis=1)
    audit = (AuditEvent("inject", "supplement_injected", where),) if where.any() else ()
    counts = count.astype(np.int32)
    return Injected(order, counts, node, injected, pool, audit, images, stands)
