"""recall: the deep lists cut to their depth, and their candidates laid out in slots."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from retriever.encoders.base import Vectors
from retriever.encoders.cache import CachedEncoder
from retriever.images import ImageFile
from retriever.types import Found, Integers, ListId, RankedList, Routing, Slots

__all__ = ["Encoded", "asked_of", "cut", "encode", "find_slots", "lay_out", "point_at"]


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
    ids: Sequence[ListId],
    rows: Sequence[Integers],
    supplement: Integers,
    queries: int,
    neighbours: Sequence[Integers] = (),
) -> Slots:
    """Give every chunk that a list or the supplement brings for a query one slot, by its row.

    `rows` of each list and of the supplement have shape (queries, places), -1 for none. The
    supplement's pointer is the last. `neighbours` of each list, if any, are what its parents may
    bring under whatever order: so that no order lays the slots out anew.
    """
    parts = [*rows, supplement, *neighbours]
    every = np.concatenate(parts, axis=1)
    places = every.shape[1]
    bits = int(places).bit_length()
    # Chunk and place in one integer: sorted, equal chunks stand side by side and know their places.
    key = (every.astype(np.int64) + 1) << bits | np.arange(places)
    key.sort(axis=1)
    ordered = key >> bits
    new = ordered > 0
    new[:, 1:] &= ordered[:, 1:] != ordered[:, :-1]
    number = np.cumsum(new, axis=1)
    width = int(number.max(initial=0))
    chunk = np.full((queries, width), -1, dtype=np.int32)
    of_query, at = np.nonzero(new)
    chunk[of_query, number[of_query, at] - 1] = ordered[of_query, at] - 1
    slot = np.empty(every.shape, dtype=np.int32)
    row = np.arange(queries, dtype=np.int64)[:, None] * places
    slot.ravel()[row + (key & ((1 << bits) - 1))] = np.where(ordered > 0, number - 1, width)
    pointer = np.split(slot, np.cumsum([one.shape[1] for one in parts])[:-1], axis=1)
    lists = len(rows) + 1
    return Slots(tuple(ids), chunk, tuple(pointer[:lists]), tuple(pointer[lists:]))


def point_at(slots: Slots, place: int, chosen: Integers) -> Integers:
    """Return the pointer of a list whose `chosen` neighbours (queries, places) stand behind it."""
    near = slots.neighbours[place]
    width = slots.chunk.shape[1]
    slot = np.full(chosen.shape, width, dtype=np.int32)
    if near.shape[1]:
        found = np.take_along_axis(near, np.maximum(chosen, 0).astype(np.int64), axis=1)
        slot = np.where(chosen >= 0, found, width).astype(np.int32)
    return np.concatenate([slots.pointer[place], slot], axis=1)


def find_slots(slots: Slots, rows: Integers) -> Integers:
    """Return in which slot each chunk is, (queries, places); past the last for -1 or none."""
    queries, width = slots.chunk.shape
    span = int(max(slots.chunk.max(initial=-1), rows.max(initial=-1))) + 3
    lines = np.arange(queries, dtype=np.int64)[:, None] * span
    # What pads a line stands after its last chunk, and the lines after one another.
    held = lines + np.where(slots.chunk < 0, span - 2, slots.chunk) + 1
    wanted = lines + rows + 1
    at = np.searchsorted(held.ravel(), wanted.ravel()).reshape(rows.shape)
    at = at - np.arange(queries, dtype=np.int64)[:, None] * width
    found = np.minimum(np.maximum(at, 0), max(width - 1, 0))
    there = (rows >= 0) & (width > 0)
    if width:
        there &= np.take_along_axis(slots.chunk, found, axis=1) == rows
    slot: Integers = np.where(there, found, width).astype(np.int32)
    return slot
