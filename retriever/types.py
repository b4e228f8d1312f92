"""The nouns: what enters a search, what leaves it, and the table of candidates between stages."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

__all__ = [
    "AuditEvent",
    "Booleans",
    "Floats",
    "Hit",
    "Integers",
    "Intents",
    "ListId",
    "Lists",
    "Query",
    "Ranking",
    "Routing",
    "SearchResult",
]

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int32]
Booleans = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Query:
    """One question. `query_id` names it in reports and never reaches a stage."""

    text: str
    query_id: str = ""


@dataclass(frozen=True, slots=True, order=True)
class ListId:
    """One ranked list: a collection searched in one way. Written `eagle_text:dense`."""

    collection: str
    search: Literal["dense", "bm25"]

    def __str__(self) -> str:
        return f"{self.collection}:{self.search}"


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """Something a stage did that a reader of the results must know; counted over the batch."""

    stage: str
    event: str
    count: int
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Intents:
    """What a batch of queries asks for, a row each."""

    workflow: tuple[str, ...]
    suppress_collections: tuple[tuple[str, ...], ...]
    section_cues: tuple[tuple[str, ...], ...]
    require_entity_match: Booleans


@dataclass(frozen=True, slots=True)
class Routing:
    """Which lists each query searches.

    `active` has shape (lists, queries); `depth` says how many hits of each list count.
    """

    lists: tuple[ListId, ...]
    active: Booleans
    depth: Integers
    audit: tuple[AuditEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class Lists:
    """The slot table: each query's candidates laid out once, and every list aligned to them.

    `chunk` (queries, slots) holds rows of the chunk table in rising order, -1 where a query has
    fewer candidates than the widest. `rank` and `score`, both (lists, queries, slots), hold each
    list's own order from 1 (0: not in the list) and its own scores (NaN: not in the list).
    Chunk rows follow chunk ids, so a tie broken by slot is a tie broken by id.
    """

    lists: tuple[ListId, ...]
    chunk: Integers
    rank: Integers
    score: Floats


@dataclass(frozen=True, slots=True)
class Ranking:
    """One total order over each query's slots.

    `order` (queries, slots) lists slots from the best; only the first `count` of a query are
    retrieved. `score` (queries, slots) is by slot, -inf where not retrieved; `node` (queries,
    slots) is the collection that represents the slot's chunk, counted in the order of names, -1
    for none. `weight` (lists, queries) is what each list counted for, 0 where it was left out.
    """

    order: Integers
    count: Integers
    score: Floats
    node: Integers
    weight: Floats
    audit: tuple[AuditEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class Hit:
    """One result of a search, best first from rank 1; `score` is that of the last scoring stage."""

    rank: int
    chunk_id: str
    document_id: str
    collection: str
    score: float
    text: str


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The hits of one query with what the stages had to say about it."""

    query: Query
    hits: tuple[Hit, ...]
    audit: tuple[AuditEvent, ...]
    timings_ms: Mapping[str, float]
