"""inject: supplement chunks that the pool lacks go to the top of the merged list."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

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
    row = np.arange(queries)[:, None]
    pool = _pool(section, merged.order, merged.count, images)
    pointer = slots.pointer[-1]
    new = (supplement.rows >= 0) & wanted[:, None]
    new &= ~pool[row, pointer]
    new &= np.cumsum(new, axis=1) <= section.min_new
    query, place = np.nonzero(new)
    slot = pointer[query, place]

    injected = np.zeros((queries, width), dtype=np.bool_)
    injected[query, slot] = True
    order = merged.order
    node, count = merged.node, merged.count
    changed = np.unique(query)
    if len(changed):
        order = order.copy()
        order[changed] = _in_front(merged.order[changed], new[changed], pointer[changed])
        fresh = merged.node[query, slot] < 0
        known = np.array([collections.index(c) for c in supplement.collections], dtype=np.int32)
        node = merged.node.copy()
        node[query[fresh], slot[fresh]] = known[supplement.collection[query, place][fresh]]
        count = count + np.bincount(query[fresh], minlength=queries).astype(np.int32)
        of_changed = None if images is None else images[changed]
        pool[changed] = _pool(section, order[changed], count[changed], of_changed)
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


def _in_front(order: Integers, new: Booleans, pointer: Integers) -> Integers:
    """Bring the new slots of some queries to the front of their orders, in supplement order."""
    queries, width = order.shape
    query, place = np.nonzero(new)
    turn = np.zeros((queries, width), dtype=np.int64)
    turn[query, pointer[query, place]] = np.cumsum(new, axis=1)[query, place]
    turn = turn.ravel().take(np.arange(queries)[:, None] * width + order)
    # Place and slot in one integer: one sort of numbers puts the slots into their places.
    bits = int(width).bit_length()
    key: npt.NDArray[np.int64]
    key = np.where(turn > 0, turn, width + 1 + np.arange(width)) << bits | order
    key.sort(axis=1)
    key &= (1 << bits) - 1
    return key.astype(np.int32)
