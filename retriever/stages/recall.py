"""recall: search every list deep once, lay the candidates out in slots, cut the lists to depth."""

from collections.abc import Sequence

import numpy as np

from retriever.types import Floats, Integers, ListId, Lists, Routing

__all__ = ["cut", "lay_out"]


def lay_out(ids: Sequence[ListId], found: Sequence[tuple[Integers, Floats]], queries: int) -> Lists:
    """Give every chunk that any list brought for a query one slot, in order of its row.

    `found` holds per list the rows and scores of a search, each (queries, depth), best first,
    padded with row -1.
    """
    if not ids:
        nothing = np.zeros((queries, 0), dtype=np.int32)
        return Lists((), nothing, np.zeros((0, queries, 0), np.int32), np.zeros((0, queries, 0)))
    rows = np.concatenate([rows for rows, _ in found], axis=1).astype(np.int64)
    span = int(rows.max(initial=-1)) + 2
    owner = np.arange(queries)[:, None]
    keys = owner * span + rows + 1
    union = np.unique(keys[rows >= 0])
    starts = np.searchsorted(union, np.arange(queries + 1) * span)
    width = int(np.diff(starts).max(initial=0))
    of_query = union // span
    slot = np.arange(len(union)) - starts[of_query]
    chunk = np.full((queries, width), -1, dtype=np.int32)
    chunk[of_query, slot] = union % span - 1
    rank = np.zeros((len(ids), queries, width), dtype=np.int32)
    score = np.full((len(ids), queries, width), np.nan)
    for i, (list_rows, list_scores) in enumerate(found):
        query, place = np.nonzero(list_rows >= 0)
        key = query * span + list_rows[query, place].astype(np.int64) + 1
        at = np.searchsorted(union, key) - starts[query]
        rank[i, query, at] = place + 1
        score[i, query, at] = list_scores[query, place]
    return Lists(tuple(ids), chunk, rank, score)


def cut(routing: Routing, lists: Lists) -> Lists:
    """Keep of each list what its query searches and its depth admits; slots stay where they are."""
    if lists.lists == routing.lists:
        active, depth = routing.active, routing.depth
    else:
        at = {item: i for i, item in enumerate(routing.lists)}
        active = np.zeros(lists.rank.shape[:2], dtype=np.bool_)
        depth = np.zeros(len(lists.lists), dtype=np.int32)
        for i, item in enumerate(lists.lists):
            if item in at:
                active[i], depth[i] = routing.active[at[item]], routing.depth[at[item]]
    kept = active[:, :, None] & (lists.rank <= depth[:, None, None]) & (lists.rank > 0)
    return Lists(
        lists.lists,
        lists.chunk,
        np.where(kept, lists.rank, 0),
        np.where(kept, lists.score, np.nan),
    )
