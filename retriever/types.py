"""The nouns: what enters a search, what leaves it, and the table of candidates between stages."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from retriever.images import ImageFile
from retriever.memo import key_of

__all__ = [
    "FALLBACKS",
    "AuditEvent",
    "Batch",
    "Booleans",
    "FinalScores",
    "Floats",
    "Found",
    "Hit",
    "Integers",
    "Intent",
    "ListId",
    "Named",
    "Query",
    "RankedList",
    "Ranking",
    "Reranked",
    "Routing",
    "Scope",
    "SearchResult",
    "Slots",
    "Supplement",
]

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int32]

# Events of the audit that say something was not done as configured.
FALLBACKS = (
    "cross_encoder_fallback",
    "query_image_unused",
    "route_added_text",
    "route_skipped_collection",
    "scope_empty",
)
Booleans = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Scope:
    """Documents to search in: OR within a kind, AND across kinds; an empty kind does not bind."""

    kb_names: tuple[str, ...] = ()
    document_ids: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is restricted."""
        return not (self.kb_names or self.document_ids or self.tags)


@dataclass(frozen=True, slots=True)
class Query:
    """One question. `query_id` names it in reports and never reaches a stage.

    `image` is the path of an image to look for others like it; the text may then be empty.
    """

    text: str
    query_id: str = ""
    scope: Scope = Scope()
    image: Path | str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Queries to be searched together, and the key of all that a stage may read of them.

    Made once for queries that are searched again and again, under other configurations.
    """

    queries: tuple[Query, ...]
    texts: tuple[str, ...]
    images: tuple[ImageFile | None, ...]
    key: str

    @classmethod
    def of(cls, queries: Sequence[Query]) -> "Batch":
        """Return the batch of some queries."""
        texts = tuple(query.text for query in queries)
        scopes = (repr(query.scope) for query in queries)
        images = tuple(ImageFile.of(query.image) if query.image else None for query in queries)
        digests = (image.digest if image else "" for image in images)
        return cls(tuple(queries), texts, images, key_of(*texts, *scopes, *digests))


@dataclass(frozen=True, slots=True)
class Named:
    """An entity by id and name."""

    id: str
    name: str


@dataclass(frozen=True, slots=True)
class Intent:
    """What one query asks for. `workflow` chooses a row of weights."""

    workflow: str = "general"
    suppress_collections: tuple[str, ...] = ()
    section_cues: tuple[str, ...] = ()
    require_entity_match: bool = False


@dataclass(frozen=True, slots=True, order=True)
class ListId:
    """One ranked list: a collection searched in one way. Written `eagle_text:dense`."""

    collection: str
    search: Literal["dense", "bm25"]

    def __str__(self) -> str:
        return f"{self.collection}:{self.search}"


@dataclass(frozen=True, slots=True, eq=False)
class AuditEvent:
    """Something a stage did that a reader of the results must know.

    `where` (queries,) marks the queries of the batch it happened to.
    """

    stage: str
    event: str
    where: Booleans
    detail: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Routing:
    """Which lists each query searches.

    `active` has shape (lists, queries); `depth` says how many hits of each list count. `visual`
    (queries,) marks those that look for images: where they find some, the merged order stands.
    None marks none.
    """

    lists: tuple[ListId, ...]
    active: Booleans
    depth: Integers
    audit: tuple[AuditEvent, ...] = ()
    visual: Booleans | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """What one list brings for every query, searched deep.

    `rows` (queries, depth) are rows of the chunk table, best first, -1 where there are no more;
    `score`, of the same shape, is the list's own: `dense` = (1 + cosine) / 2, or `bm25`.
    """

    rows: Integers
    score: Floats


@dataclass(frozen=True, slots=True, eq=False)
class RankedList:
    """One list as it enters the merge; its places are those of its `Found`.

    `rank` (queries, depth) counts from 1 and is 0 where a place is not in the list; `score` is
    what the list is ordered by. `parts` are the columns the score was made from: `sparse`,
    `combined`, `tier1`. `filtered`, of the same shape, is the rank that a place had before a
    filter took it out of the list, 0 for all others; None where nothing was filtered.
    """

    item: ListId
    rank: Integers
    score: Floats
    parts: Mapping[str, Floats] = field(default_factory=dict)
    filtered: Integers | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Slots:
    """A batch's candidates, laid out once: each source chunk of a query has one slot.

    `chunk` (queries, slots) holds rows of the chunk table in rising order, -1 where a query has
    fewer candidates than the widest. Rows follow chunk ids, so a tie broken by slot is a tie
    broken by id. `pointer[i]` (queries, depth) says in which slot each place of list i is; a place
    without a chunk points past the last slot. `neighbours[i]` does the same for what stands beside
    the places of list i; it has no columns where parents are not asked for.
    """

    lists: tuple[ListId, ...]
    chunk: Integers
    pointer: tuple[Integers, ...]
    neighbours: tuple[Integers, ...] = ()


@dataclass(frozen=True, eq=False)
class Ranking:
    """One total order over each query's slots.

    `order` (queries, slots) lists slots from the best; only the first `count` of a query are
    retrieved. `ranked` (queries, places) are the scores of the order's first places, -inf where
    not retrieved. `node` (queries, slots) is the collection that represents the slot's chunk,
    counted in the order of names, -1 for none. `weight` (lists, queries) is what each list counted
    for, 0 where it was left out.
    """

    order: Integers
    count: Integers
    ranked: Floats
    node: Integers
    weight: Floats
    audit: tuple[AuditEvent, ...] = ()

    @cached_property
    def score(self) -> Floats:
        """Scores by slot, (queries, slots), -inf where not retrieved; laid out when first read."""
        score = np.full(self.order.shape, -np.inf)
        first = self.order[:, : self.ranked.shape[1]].astype(np.int64)
        np.put_along_axis(score, first, self.ranked, axis=1)
        score.flags.writeable = False
        return score


@dataclass(frozen=True, slots=True, eq=False)
class Supplement:
    """Chunks found for a query by the names of its documents, whatever the lists brought.

    `rows` (queries, places) are rows of the chunk table in supplement order, -1 where there are
    no more. `collection` names where each was found, by place in `collections`. `searched`
    (collections, queries) says where it looked. The other columns are what the order was made
    from.
    """

    collections: tuple[str, ...]
    rows: Integers
    collection: Integers
    entity: Floats
    lexical: Floats
    dense: Floats
    score: Floats
    searched: Booleans


@dataclass(frozen=True, slots=True, eq=False)
class FinalScores:
    """What the final scores are laid out from: the merged ones, and in the pool those of tier 2.

    `pool` (queries, places) are slots, with tier 2's scores of them in `score`, NaN where the
    merged one stands. `injected` (queries, slots) marks what the supplement brought: where it has
    no merged score, that counts 0.
    """

    merged: Ranking
    injected: Booleans
    pool: Integers
    score: Floats

    def by_slot(self) -> Floats:
        """Return the scores (queries, slots), -inf where not retrieved."""
        laid: Floats = self.merged.score.copy()
        laid[self.injected & ~np.isfinite(laid)] = 0.0
        query, place = np.nonzero(~np.isnan(self.score))
        laid[query, self.pool[query, place]] = self.score[query, place]
        return laid


@dataclass(frozen=True, eq=False)
class Reranked:
    """The final order, and every term of the formula that made it.

    As `Ranking`, with the scores after tier 2. `injected` (queries, slots) marks chunks that the
    supplement brought to the top; `terms` are the named matrices (queries, slots), NaN outside the
    pool; `weights` the row of each query, by name. A chunk with a `structure` term scores at least
    that times the sum of the weights `floor_weights` (times 1 where none are named).
    """

    order: Integers
    count: Integers
    scores: FinalScores
    node: Integers
    injected: Booleans
    pool: Booleans
    terms: Mapping[str, Floats]
    weights: Mapping[str, Floats]
    audit: tuple[AuditEvent, ...] = ()
    floor_weights: tuple[str, ...] = ()

    @cached_property
    def score(self) -> Floats:
        """Scores by slot, (queries, slots), -inf where not retrieved; laid out when first read."""
        laid = self.scores.by_slot()
        laid.flags.writeable = False
        return laid


@dataclass(frozen=True, slots=True)
class Hit:
    """One result of a search, best first from rank 1; `score` is that of the last scoring stage.

    `image` is the path of the image, as the corpus names it, where the hit is one; `text` is then
    its caption.
    """

    rank: int
    chunk_id: str
    document_id: str
    collection: str
    score: float
    text: str
    image: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class SearchResult:
    """The hits of one query, what the stages had to note about it, and the time of its batch."""

    query: Query
    hits: tuple[Hit, ...]
    audit: tuple[AuditEvent, ...]
    timings_ms: Mapping[str, float]
