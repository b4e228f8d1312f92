"""recall: the deep lists cut to their depth, and their candidates laid out in slots."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from retriever.encoders.base import Vectors
from retriever.encoders.cache import CachedEncoder
from retriever.types import Found, Integers, ListId, RankedList, Routing, Slots

__all__ = ["Encoded", "cut", "encode", "lay_out"]


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """Vectors of a batch and whose each is, rising; a query may have none, one or several."""

    vectors: Vectors
    owner: Integers


def encode(
    encoder: CachedEncoder, texts: Sequence[Sequence[str]], known: dict[str, Vectors]
) -> Encoded:
    """Encode what each query asks a collection for.

    `known` has the vectors that this batch has asked the same model for, and is filled.
    """
    flat = [text for of_query in texts for text in of_query]
    new = [text for text in dict.fromkeys(flat) if text not in known]
    known.update(zip(new, encoder.encode(new, "query"), strict=True))
    owner = np.repeat(np.arange(len(texts)), [len(of_query) for of_query in texts])
    vectors = np.stack([known[text] for text in flat]) if flat else np.zeros((0, 0), np.float32)
    return Encoded(vectors, owner.astype(np.int32))


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


def lay_out(
    ids: Sequence[ListId], rows: Sequence[Integers], supplement: Integers, queries: int
) -> Slots:
    """Give every chunk that a list or the supplement brought for a query one slot, by its row.

    `rows` of each list and of the supplement have shape (queries, places), -1 for none. The
    supplement's pointer is the last.
    """
    every = np.concatenate([*rows, supplement], axis=1).astype(np.int64)
    span = int(every.max(initial=-1)) + 2
    keys = np.arange(queries)[:, None] * span + every + 1
    union = np.unique(keys[every >= 0])
    starts = np.searchsorted(union, np.arange(queries + 1) * span)
    width = int(np.diff(starts).max(initial=0))
    of_query = union // span
    chunk = np.full((queries, width), -1, dtype=np.int32)
    chunk[of_query, np.arange(len(union)) - starts[of_query]] = union % span - 1
    slot = np.searchsorted(union, keys) - starts[:-1, None]
    slot = np.where(every >= 0, slot, width).astype(np.int32)
    ends = np.cumsum([one.shape[1] for one in rows])
    return Slots(tuple(ids), chunk, tuple(np.split(slot, ends, axis=1)))
