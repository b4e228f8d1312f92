"""recall: the deep lists cut to their depth, and their candidates laid out in slots."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from retriever.encoders.base import Vectors
from retriever.encoders.cache import CachedEncoder
from retriever.images import ImageFile
from retriever.types import Found, Integers, ListId, RankedList, Routing, Slots

__all__ = ["Encoded", "asked_of", "cut", "encode", "lay_out"]


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """Vectors of a batch and whose each is, rising; a query may have none, one or several."""

    vectors: Vectors
    owner: Integers


def asked_of(
    encoder: CachedEncoder, texts: Sequence[Sequence[str]], images: Sequence[ImageFile | None]
) -> list[tuple[str | ImageFile, ...]]:
    """Return what each query asks a model: its texts, or its image where the model reads images.

    An image takes the place of the text: the cosines of a model's two towers lie on two scales. A
    model without a text tower is asked nothing by a query without an image.
    """
    if not encoder.reads_images:
        return [tuple(of_query) for of_query in texts]
    return [
        (image,) if image else tuple(of_query) if encoder.reads_queries else ()
        for of_query, image in zip(texts, images, strict=True)
    ]


def encode(
    encoder: CachedEncoder,
    asked: Sequence[Sequence[str | ImageFile]],
    known: dict[str | ImageFile, Vectors],
) -> Encoded:
    """Encode what each query asks a collection for.

    `known` has the vectors that this batch has asked the same model for, and is filled.
    """
    flat = [item for of_query in asked for item in of_query]
    new = [item for item in dict.fromkeys(flat) if item not in known]
    texts = [item for item in new if isinstance(item, str)]
    known.update(zip(texts, encoder.encode(texts, "query") if texts else (), strict=True))
    images = [item for item in new if isinstance(item, ImageFile)]
    known.update(zip(images, encoder.encode_images(images) if images else (), strict=True))
    owner = np.repeat(np.arange(len(asked)), [len(of_query) for of_query in asked])
    vectors = np.stack([known[item] for item in flat]) if flat else np.zeros((0, 0), np.float32)
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
