"""From the retriever's order over chunks to what a run ranks: documents, or chunks themselves."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from gold import GoldQuery
from retriever import Query, Retriever
from retriever.pipeline import Trace
from retriever.retriever import QUERIES_AT_ONCE
from retriever.types import Scope

__all__ = ["Block", "Ranked", "asked", "rank_units", "run_blocks"]

Integers = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Ranked:
    """The units of a run, best first: rows of documents or of chunks, (queries, depth), -1 padded.

    `place` (queries, slots) gives for every place of the chunk order the rank, from 1, of the unit
    the chunk belongs to, or 0 beyond the depth.
    """

    units: Integers
    place: Integers


@dataclass(frozen=True)
class Block:
    """Some consecutive queries with their stage tables and their ranked units."""

    start: int
    trace: Trace
    ranked: Ranked


def asked(query: GoldQuery, folder: Path, scoped: bool = True) -> Query:
    """Return what a query of the gold set in `folder` asks: text, scope and image, no label."""
    kinds = ("kb_names", "document_ids", "tags") if scoped else ()
    scope = Scope(**{kind: tuple(query.scope.get(kind, ())) for kind in kinds})
    image = folder / query.image if query.image else None
    return Query(query.text, query.query_id, scope, image)


def run_blocks(
    retriever: Retriever, queries: Sequence[Query], level: Literal["document", "chunk"], depth: int
) -> Iterator[Block]:
    """Take the queries through the retriever some thousands at a time, to bound its memory."""
    for start in range(0, len(queries), QUERIES_AT_ONCE):
        trace = retriever.trace(queries[start : start + QUERIES_AT_ONCE])
        yield Block(start, trace, rank_units(retriever, trace, level, depth))


def rank_units(
    retriever: Retriever, trace: Trace, level: Literal["document", "chunk"], depth: int
) -> Ranked:
    """Return the ranked units of a batch.

    With document-level judgements a document stands where its first chunk stands, before any cut;
    with chunk-level ones every chunk is a unit.
    """
    order, count = trace.final.order, trace.final.count
    rows = np.take_along_axis(trace.slots.chunk, order, axis=1)
    retrieved = np.arange(order.shape[1]) < count[:, None]
    unit = rows
    if level == "document" and rows.size:
        unit = np.where(rows >= 0, retriever.index.chunks.document_of[rows], -1)
    unit = np.where(retrieved, unit, -1)
    queries, width = unit.shape
    span = int(unit.max(initial=-1)) + 2
    keys = (np.arange(queries)[:, None] * span + unit + 1).ravel()
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    is_first = np.zeros(keys.shape, dtype=np.bool_)
    is_first[first] = True
    is_first = is_first.reshape(unit.shape) & retrieved
    rank_of_first = np.cumsum(is_first, axis=1)
    place = rank_of_first.ravel()[first][inverse].reshape(unit.shape)
    place = np.where(retrieved & (place <= depth), place, 0)
    units = np.full((queries, min(depth, width)), -1, dtype=np.int32)
    query, at = np.nonzero(is_first & (rank_of_first <= depth))
    units[query, rank_of_first[query, at] - 1] = unit[query, at]
    return Ranked(units, place.astype(np.int32))
