"""Where a domain's knowledge enters: the hook specifications and the records they pass.

Core calls every hook with a whole batch; a subscriber answers with an item a query, None where it
abstains. *first*: the first subscriber that does not abstain wins, query by query. *all*: every
subscriber contributes. A plugin belongs to one namespace and is called under no other.

A plugin is an object with the attributes of `Plugin` and any of the hook methods below, marked
with `hookimpl`. It is found by the entry point group `assay.plugins`, or registered by
`retriever.plugins.register`. `part` is the plugin's own section of the configuration for that
stage: all of its settings that a hook may read, so that results can be remembered by them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pluggy

from retriever.types import Booleans, Floats, Integers, Intent, ListId, Named

if TYPE_CHECKING:
    from retriever.config import Section
    from retriever.images import ImageFile
    from retriever.index.store import Index
    from retriever.ingest.chunk import Chunk, Document

__all__ = [
    "Assembly",
    "Candidates",
    "Catalog",
    "Classification",
    "Expansion",
    "ImageProfile",
    "MergedFeatures",
    "PlanRerank",
    "Plugin",
    "Profile",
    "StructureChunk",
    "SupplementPlan",
    "hookimpl",
    "hookspec",
]

hookspec = pluggy.HookspecMarker("assay")
hookimpl = pluggy.HookimplMarker("assay")


class Plugin(Protocol):
    """What Core asks of a plugin beside its hooks.

    `config_model` is mounted at `plugins.<name>` in the configuration; its fields are the parts,
    named after the stages. `knowledge` fingerprints what the plugin knows beyond its code (a
    lexicon, lists of words), under its settings.
    """

    name: str
    version: str
    namespace: str
    config_model: "type[Section]"

    def knowledge(self, settings: Any) -> str: ...  # noqa: D102


@dataclass(frozen=True, slots=True, eq=False)
class Assembly:
    """What is known of one query, from its text alone.

    `suffix` are the terms that expansion may append to what a dense model reads. `facts` belong to
    the plugin: Core keeps them by plugin name and hands them back to its later hooks.
    """

    intent: Intent | None = None
    entities: tuple[Named, ...] = ()
    drugs: tuple[Named, ...] = ()
    suffix: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Expansion:
    """What one collection's models are asked for one query.

    `dense_texts` are the texts to encode, the best counting: one for a text encoder, any number of
    structures for a structure encoder, none where no vector can be made. `sparse_terms` are extra
    terms of the overlap, each with the names that stand for it in a text; `raw_texts` is what tier
    1 compares, before expansion.
    """

    dense_texts: tuple[str, ...]
    sparse_terms: Mapping[str, tuple[str, ...]]
    raw_texts: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Chunks of a batch: rows of the chunk table, (queries, places), -1 for none."""

    index: "Index"
    texts: tuple[str, ...]
    assemblies: tuple[Assembly, ...]
    rows: Integers


@dataclass(frozen=True, slots=True, eq=False)
class PlanRerank:
    """What tier 1 does to one list: compare anew (`cosine`), and keep only some (`keep`).

    `keep` (queries, places) is all True for a query that is not filtered; None filters none.
    """

    rerank: bool
    keep: Booleans | None = None


@dataclass(frozen=True, slots=True, eq=False)
class SupplementPlan:
    """Documents to search for one query whatever the lists brought, and where.

    `terms` are the extra terms of the overlap, as in `Expansion`; `entity` gives the entity boost
    of chunk rows.
    """

    document_ids: tuple[str, ...]
    collections: tuple[str, ...]
    terms: Mapping[str, tuple[str, ...]]
    entity: Callable[[Integers], Floats]


@dataclass(frozen=True, slots=True, eq=False)
class MergedFeatures:
    """The plugin's part of tier 2, a linear scorer: final = sum of weight times feature.

    `features` computes named matrices (queries, places) and may read nothing but the candidates,
    since they are remembered apart from the weights. `weights` has a row (queries,) for each of
    them and for Core's own `ce` and `rank`; what shall lower a score has a negative weight.

    Where `floor` (queries, places), among the features, is above 0, a chunk never scores less than
    the cosine of its structure in `floor_collection` times the sum of the weights `floor_weights`
    (empty: times 1).
    """

    features: Callable[[], Mapping[str, Floats]]
    weights: Mapping[str, Floats]
    floor_collection: str | None = None
    floor_weights: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Classification:
    """Collections to search for one query, in order, and events to note in the audit.

    `visual` says that the query looks for images: where it finds some, the merged order stands.
    """

    collections: tuple[str, ...]
    events: tuple[str, ...] = ()
    visual: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Catalog:
    """What an index holds, as far as routing may know: its collections and their documents."""

    index: "Index"

    @property
    def collections(self) -> tuple[str, ...]:
        """Names of the collections, in order."""
        return tuple(self.index.collections)

    def holds_alone(self, collection: str, others: Sequence[str]) -> bool:
        """Tell whether a collection has a document that none of some others has."""
        if collection not in self.index.collections:
            return False
        held = self._documents(collection)
        rest = [self._documents(name) for name in others if name in self.index.collections]
        return bool(len(np.setdiff1d(held, np.concatenate([np.zeros(0, np.int32), *rest]))))

    def _documents(self, collection: str) -> Integers:
        return self.index.chunks.document_of[self.index.collections[collection].rows]


@dataclass(frozen=True, slots=True)
class StructureChunk:
    """A chunk that a document gives to a collection of structures, beside its prose."""

    collection: str
    section: str
    structure: str


@dataclass(frozen=True, slots=True)
class Profile:
    """Where a document belongs: the text collections its chunks enter, its structures, and why.

    `skipped` names what of the document was left out; each is counted in the manifest and shown.
    """

    collections: tuple[str, ...]
    structures: tuple[StructureChunk, ...] = ()
    domain: str = ""
    tier: int = 0
    rule: str = ""
    confidence: float = 0.0
    signals: Mapping[str, float] = field(default_factory=dict, hash=False)
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ImageProfile:
    """Where an image belongs: its collection, and the modality that the registry keeps."""

    collection: str
    modality: str


class Specification:
    """Seven hooks of a search and three of ingest."""

    @hookspec
    def query_assemble(self, texts: Sequence[str], settings: Any) -> Any:
        """*all*: return an `Assembly` or None for each query."""

    @hookspec
    def classify_query(
        self,
        texts: Sequence[str],
        images: "Sequence[ImageFile | None]",
        assemblies: Sequence[Assembly],
        catalog: Any,
        part: Any,
    ) -> Any:
        """*first*: return a `Classification` or None for each query."""

    @hookspec
    def query_dense_expand(
        self, texts: Sequence[str], assemblies: Sequence[Assembly], collection: str, part: Any
    ) -> Any:
        """*first*: return an `Expansion` or None for each query."""

    @hookspec
    def rerank(self, item: ListId, candidates: Candidates, part: Any) -> Any:
        """*first*: return a `PlanRerank` for a list, or None to leave it as it is."""

    @hookspec
    def retrieve_supplement(
        self, texts: Sequence[str], assemblies: Sequence[Assembly], index: Any, part: Any
    ) -> Any:
        """*all*: return a `SupplementPlan` or None for each query."""

    @hookspec
    def rrf_post_merge(self, assemblies: Sequence[Assembly], supplemented: Booleans) -> Any:
        """*first*: return for each query whether to inject its supplement, or None."""

    @hookspec
    def rerank_merged(self, candidates: Candidates, part: Any) -> Any:
        """*first*: return the `MergedFeatures` of the pool, or None."""

    @hookspec
    def profile_document(
        self,
        documents: "Sequence[Document]",
        chunks: "Sequence[Sequence[Chunk]]",
        encode: Callable[[Sequence[str]], Any],
        part: Any,
        settings: Any,
    ) -> Any:
        """*first*: return a `Profile` or None for each document."""

    @hookspec
    def enrich_chunks(
        self,
        documents: "Sequence[Document]",
        chunks: "Sequence[Chunk]",
        settings: Any,
    ) -> Any:
        """*all*: return columns by name, a list of texts for each chunk.

        `documents` has the document of each chunk.
        """

    @hookspec
    def classify_image(self, documents: "Sequence[Document]", part: Any, settings: Any) -> Any:
        """*first*: return an `ImageProfile` or None for each document; each has an image."""
