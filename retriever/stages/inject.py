"""inject: supplement chunks that the pool lacks go to the top of the merged list."""

from dataclasses import dataclass

import numpy as np

from retriever.config import InjectConfig
from retriever.types import AuditEvent, Booleans, Integers, Ranking, Slots, Supplement

__all__ = ["Injected", "inject"]


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
    row = np.arange(queries, dtype=np.int64)[:, None]
    pool = _pool(section, merged.order, merged.count, images)
    pointer = slots.pointer[-1]
    new = (supplement.rows >= 0) & wanted[:, None]
    new &= ~pool.ravel().take(row * (width + 1) + pointer)
    turn = np.cumsum(new, axis=1, dtype=np.int32)
    new &= turn <= section.min_new
    found = np.flatnonzero(new)
    query, slot = found // max(new.shape[1], 1), pointer.ravel()[found]

    injected = np.zeros((queries, width), dtype=np.bool_)
    injected[query, slot] = True
    order = merged.order
    node, count = merged.node, merged.count
    changed = np.flatnonzero(new.any(axis=1))
    if len(changed):
        order = order.copy()
        of_changed = np.searchsorted(changed, query)
        front = np.zeros((len(changed), width), dtype=np.bool_)
        front[of_changed, slot] = True
        rest = _without(merged.order[changed], front)
        rest[of_changed, turn.ravel()[found] - 1] = slot
        order[changed] = rest
        fresh = merged.node[query, slot] < 0
        if fresh.any():
            known = np.array([collections.index(c) for c in supplement.collections], dtype=np.int32)
            node = merged.node.copy()
            node[query[fresh], slot[fresh]] = known[supplement.collection.ravel()[found[fresh]]]
            count = count + np.bincount(query[fresh], minlength=queries).astype(np.int32)
        some = None if images is None else images[changed]
        pool[changed] = _pool(section, order[changed], count[changed], some)
    stands: Booleans | None = None
    if images is not None:
        looks_for_images = np.zeros(queries, dtype=np.bool_) if visual is None else visual
        of_place = np.take_along_axis(images, order.astype(np.int64), axis=1)
        found = np.any(of_place & (np.arange(width) < count[:, None]), axis=1)
        stands = found & looks_for_images
        pool[stands] = False
    where = np.any(injected, axis=1)
    audit = (AuditEvent("inject", "supplement_injected", where),) if len(changed) else ()
    return Injected(order, count, node, injected, pool[:, :width], audit, images, stands)


def _pool(
    section: InjectConfig, order: Integers, count: Integers, images: Booleans | None
) -> Booleans:
    """Mark the first `rerank_pool` text hits of an order, (queries, slots + 1).

    One column more than there are slots takes the places without a chunk.
    """
    queries, width = order.shape
    first = min(section.rerank_pool, width) if images is None else width
    head = order[:, :first]
    inside: Booleans = np.arange(first) < count[:, None]
    if images is not None:
        inside = inside & ~np.take_along_axis(images, head.astype(np.int64), axis=1)
        inside &= np.cumsum(inside, axis=1) <= section.rerank_pool
    pool = np.zeros((queries, width + 1), dtype=np.bool_)
    pool.ravel()[np.arange(queries)[:, None] * (width + 1) + head] = inside
    return pool


def _without(order: Integers, marked: Booleans) -> Integers:
    """Take slots out of some orders, (queries, slots), and leave as many places free in front.

    `marked` (queries, slots), by slot, says which.
    """
    queries, width = order.shape
    row = np.arange(queries, dtype=np.int64)[:, None] * width
    gone = marked.ravel().take(row + order)
    behind = np.arange(width) >= np.count_nonzero(gone, axis=1)[:, None]
    left = np.empty_like(order)
    left[behind] = order[~gone]
    return left
