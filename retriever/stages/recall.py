"""recall: the deep lists cut to their depth, and their candidates laid out in slots."""

from collections.abc import Sequence

import numpy as np

from retriever.types import Found, ListId, RankedList, Routing, Slots

__all__ = ["cut", "lay_out"]


def cut(routing: Routing, item: ListId, found: Found) -> RankedList:
    """Keep of a list what its query searches and its depth admits.

    Every list is searched once, as deep as any configuration asks, so depth costs no new search.
    """
    if item not in routing.lists:
        return RankedList(item, np.zeros_like(found.rows), found.score)
    at = routing.lists.index(item)
    rank = np.arange(1, found.rows.shape[1] + 1, dtype=np.int32)
    kept = (found.rows >= 0) & routing.active[at][:, None] & (rank <= routing.depth[at])
    return RankedList(item, np.where(kept, rank, 0).astype(np.int32), found.score)


def lay_out(ids: Sequence[ListId], found: Sequence[Found], queries: int) -> Slots:
    """Give every chunk that any list brought for a query one slot, in order of its row."""
    if not ids:
        return Slots((), np.zeros((queries, 0), dtype=np.int32), ())
    rows = np.concatenate([one.rows for one in found], axis=1).astype(np.int64)
    span = int(rows.max(initial=-1)) + 2
    keys = np.arange(queries)[:, None] * span + rows + 1
    union = np.unique(keys[rows >= 0])
    starts = np.searchsorted(union, np.arange(queries + 1) * span)
    width = int(np.diff(starts).max(initial=0))
    of_query = union // span
    chunk = np.full((queries, width), -1, dtype=np.int32)
    chunk[of_query, np.arange(len(union)) - starts[of_query]] = union % span - 1
    slot = np.searchsorted(union, keys) - starts[:-1, None]
    slot = np.where(rows >= 0, slot, width).astype(np.int32)
    ends = np.cumsum([one.rows.shape[1] for one in found])[:-1]
    return Slots(tuple(ids), chunk, tuple(np.split(slot, ends, axis=1)))
