"""The retriever as a user holds it: an index, a configuration, and what is loaded for both."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from retriever.config import RetrieverConfig
from retriever.encoders.base import Encoder, TextEncoder, Vectors
from retriever.encoders.cache import CachedCrossEncoder, CachedEncoder, CrossEncoder
from retriever.encoders.cross import TransformersCrossEncoder
from retriever.encoders.late_interaction import LateInteraction
from retriever.encoders.models import load_model_set, resolved
from retriever.encoders.molecule import MorganStructures
from retriever.encoders.text import TransformersEncoder
from retriever.files import InputError
from retriever.hooks import StructureChunk
from retriever.index.store import Index
from retriever.memo import Memo
from retriever.pipeline import Pipeline, Trace
from retriever.plugins import GENERAL
from retriever.stages.route import DEFAULT_COLLECTION
from retriever.store import store_folder
from retriever.types import Batch, Hit, ListId, Query, SearchResult

__all__ = ["QUERIES_AT_ONCE", "Retriever", "batch_of", "open_encoders", "open_rerankers"]

QUERIES_AT_ONCE = 4096


class Retriever:
    """Search an index under one configuration.

    `with_config` returns another retriever over everything that is loaded already, and over the
    same memo: what the two configurations share is computed once. `config` is the one in force:
    what was left to the model set is filled in.
    """

    def __init__(self, pipeline: Pipeline, config: RetrieverConfig) -> None:
        _check_match(pipeline.index, pipeline.encoders, config)
        self._pipeline = pipeline
        self.config = resolved(config)

    @classmethod
    def open(
        cls,
        index: str | Path | Index,
        config: RetrieverConfig | None = None,
        *,
        encoders: Mapping[str, Encoder] | None = None,
        rerankers: Mapping[str, CrossEncoder] | None = None,
        cache: Path | None = None,
        memo: Memo | None = None,
    ) -> "Retriever":
        """Open an index.

        Without `config`, the defaults with what the index was built with. `encoders` (collection ->
        encoder) and `rerankers` (policy -> cross-encoder) replace the model set. `cache` keeps
        query vectors on disk between processes. Raises InputError when there is no index, or when
        it was built otherwise than `config` says.
        """
        opened = index if isinstance(index, Index) else Index.open(index)
        manifest = opened.manifest
        if config is None:
            config = RetrieverConfig().with_overrides(
                {
                    "index": manifest.index.model_dump(mode="json"),
                    "models": manifest.models,
                    "namespace": manifest.namespace,
                }
            )
        served: Mapping[str, Encoder] = (
            open_encoders(config.models) if encoders is None else encoders
        )
        cached = {name: CachedEncoder(encoder, cache) for name, encoder in served.items()}
        crosses = open_rerankers(config.models, cache) if rerankers is None else rerankers
        read = {policy: CachedCrossEncoder(cross, cache) for policy, cross in crosses.items()}
        return cls(Pipeline(opened, cached, read, memo or Memo()), config)

    @property
    def index(self) -> Index:
        """The opened index."""
        return self._pipeline.index

    @property
    def memo(self) -> Memo:
        """What the stages remember."""
        return self._pipeline.memo

    @property
    def reranks(self) -> bool:
        """Whether a cross-encoder is configured."""
        return bool(self._pipeline.rerankers)

    @property
    def every_list(self) -> tuple[ListId, ...]:
        """Every list that some configuration could search in this index."""
        return tuple(
            ListId(name, search)
            for name, collection in sorted(self.index.collections.items())
            if name in self._pipeline.encoders
            for search in (("bm25", "dense") if collection.text else ("dense",))
        )

    def model_fingerprints(self) -> dict[str, str]:
        """Return what each model is, by the collection or `rerank POLICY` that it serves.

        A cross-encoder of a policy that the configuration does not choose is told by its name
        alone: to read its files might mean to download them.
        """
        pipeline, asked = self._pipeline, self.config.rerank_merged.rerank_policy
        policy = asked or ("general" if self.config.namespace == GENERAL else "domain")
        found = {
            name: encoder.fingerprint
            for name, encoder in sorted(pipeline.encoders.items())
            if name in self.index.collections
        }
        for name, cross in sorted(pipeline.rerankers.items()):
            found[f"rerank {name}"] = cross.fingerprint if name == policy else cross.name
        return found

    def encoder_name(self, collection: str) -> str:
        """Name of the model that serves a collection."""
        return self._pipeline.encoders[collection].name

    def reads_queries(self, collection: str) -> bool:
        """Whether a query's text can be compared with a collection: not without a text tower."""
        return self._pipeline.encoders[collection].reads_queries

    def with_config(self, config: RetrieverConfig) -> "Retriever":
        """Return a retriever under another configuration, sharing all that is loaded."""
        if config.models != self.config.models:
            raise InputError(
                f"the models {self.config.models} are loaded, the configuration asks for "
                f"{config.models}",
                fix="open the index anew",
            )
        return Retriever(self._pipeline, config)

    def with_mended(
        self,
        structures: Mapping[str, StructureChunk] | None = None,
        sections: Mapping[str, str] | None = None,
    ) -> "Retriever":
        """Return a retriever over the same index with some data mended in memory.

        `structures` gives a document, by id, the structure it lacks; `sections` a chunk, by id,
        its section. See `retriever.index.overlay`.
        """
        from retriever.index.overlay import overlaid

        pipeline = self._pipeline

        def encode(name: str, texts: Sequence[str]) -> tuple[Vectors, str, str]:
            encoder = pipeline.encoders.get(name)
            if encoder is None:
                raise InputError(f"no encoder serves the collection {name}")
            return encoder.encode(texts, "document"), encoder.name, encoder.fingerprint

        index = overlaid(self.index, structures or {}, sections or {}, encode)
        mended = Pipeline(index, pipeline.encoders, pipeline.rerankers, self.memo)
        return Retriever(mended, self.config)

    def without_memory(self) -> "Retriever":
        """Return the same retriever with memo and vector cache off, for measuring."""
        pipeline = self._pipeline
        bare = {name: encoder.without_cache() for name, encoder in pipeline.encoders.items()}
        read = {policy: cross.without_cache() for policy, cross in pipeline.rerankers.items()}
        return Retriever(Pipeline(pipeline.index, bare, read, Memo(budget=0)), self.config)

    def without_memo(self) -> "Retriever":
        """Return the same retriever with nothing remembered but what models computed."""
        pipeline = self._pipeline
        return Retriever(
            Pipeline(pipeline.index, pipeline.encoders, pipeline.rerankers, Memo(budget=0)),
            self.config,
        )

    def search(self, query: Query | str) -> SearchResult:
        """Return the first `trim.final_top_k` hits of one query."""
        return self.search_many([query])[0]

    def search_many(self, queries: Sequence[Query | str]) -> list[SearchResult]:
        """Return the hits of every query, in the order given."""
        results: list[SearchResult] = []
        for start in range(0, len(queries), QUERIES_AT_ONCE):
            results += self._results(self.trace(queries[start : start + QUERIES_AT_ONCE]))
        return results

    def trace(self, queries: Sequence[Query | str] | Batch, also: Sequence[ListId] = ()) -> Trace:
        """Return every stage's table for a batch of queries; `also` as in `Pipeline.run`.

        Raises InputError for an empty batch or a query that is no text.
        """
        batch = queries if isinstance(queries, Batch) else batch_of(queries)
        return self._pipeline.run(batch, self.config, also)

    def _results(self, trace: Trace) -> Iterator[SearchResult]:
        chunks, collections, images = self.index.chunks, trace.collections, self.index.is_image
        for q, query in enumerate(trace.queries):
            slots = trace.final.order[q, : trace.shown.shape[1]]
            hits = []
            for place, (slot, row) in enumerate(zip(slots, trace.shown[q], strict=True), start=1):
                if row < 0:
                    break
                hits.append(
                    Hit(
                        rank=place,
                        chunk_id=chunks.value("chunk_id", row),
                        document_id=chunks.value("document_id", row),
                        collection=collections[trace.final.node[q, slot]],
                        score=float(trace.final.score[q, slot]),
                        text=chunks.value("text", row),
                        image=chunks.value("image", row)
                        if images is not None and images[row]
                        else "",
                    )
                )
            yield SearchResult(query, tuple(hits), trace.audit_of(q), trace.timings_ms)


def batch_of(queries: Sequence[Query | str]) -> Batch:
    """Return queries as a batch. Raises InputError for none, or for a query that is no text."""
    if not queries:
        raise InputError("no query to search for")
    return Batch.of([_asked(query) for query in queries])


def open_encoders(models: str) -> dict[str, TextEncoder]:
    """Return the encoder of every collection of a model set; one model serving two is one."""
    model_set = load_model_set(models)
    digests = store_folder() / "cache" / "digests.json"
    made: dict[Any, TextEncoder] = {}
    encoders = {}
    for collection, record in model_set.collections.items():
        encoder = made.get(record.fingerprint)
        if encoder is None:
            if record.kind == "morgan":
                encoder = MorganStructures()
            else:
                encoder = TransformersEncoder(record, model_set=model_set.name, digests=digests)
            made[record.fingerprint] = encoder
        encoders[collection] = encoder
    return encoders


def open_rerankers(models: str, cache: Path | None = None) -> dict[str, CrossEncoder]:
    """Return the cross-encoders of a model set by policy.

    `cache` keeps token vectors on disk for what compares token by token.
    """
    model_set = load_model_set(models)
    digests = store_folder() / "cache" / "digests.json"
    name, made, opened = model_set.name, dict[str, CrossEncoder](), dict[str, CrossEncoder]()
    for policy, record in model_set.rerankers.items():
        cross = made.get(record.fingerprint)
        if cross is None and record.kind == "late_interaction":
            cross = LateInteraction(record, model_set=name, digests=digests, folder=cache)
        elif cross is None:
            cross = TransformersCrossEncoder(record, model_set=name, digests=digests)
        opened[policy] = made[record.fingerprint] = cross
    return opened


def _asked(query: object) -> Query:
    """Return what is asked as a query. Raises InputError for what is no text."""
    asked = query if isinstance(query, Query) else Query(query)  # type: ignore[arg-type]
    if not isinstance(asked.text, str):
        raise InputError(
            f"a query is {type(asked.text).__name__}, not text", fix='search("EGFR T790M")'
        )
    try:
        asked.text.encode()
    except UnicodeEncodeError as error:
        raise InputError("a query holds a lone surrogate, which is no text") from error
    return asked


def serves_namespace(index: Index, config: RetrieverConfig) -> bool:
    """Tell whether an index has a collection that the configuration's namespace searches."""
    return config.namespace != GENERAL or DEFAULT_COLLECTION in index.manifest.collections


def _check_match(
    index: Index, encoders: Mapping[str, CachedEncoder], config: RetrieverConfig
) -> None:
    """Refuse a configuration that the index cannot serve."""
    manifest = index.manifest
    if not serves_namespace(index, config):
        raise InputError(
            f"the index was built for the namespace {manifest.namespace}; {GENERAL} searches "
            f"{DEFAULT_COLLECTION} alone and finds none of its collections: "
            f"{', '.join(sorted(manifest.collections))}",
            path=index.path,
            fix=f"--set namespace={manifest.namespace}",
        )
    if config.index != manifest.index:
        built = manifest.index.model_dump(mode="json")
        asked = config.index.model_dump(mode="json")
        parts = [
            f"index.{part}.{key}: {built[part][key]}, not {asked[part][key]}"
            for part in built
            for key in built[part]
            if built[part][key] != asked[part][key]
        ]
        raise InputError(
            f"the index was built with {'; '.join(parts)}",
            path=index.path,
            fix="build an index with this configuration",
        )
    for name, record in manifest.collections.items():
        encoder = encoders.get(name)
        if encoder is not None and encoder.fingerprint != record.fingerprint:
            raise InputError(
                f"the collection {name} was built with another model than {encoder.name} as it is "
                f"installed ({record.encoder})",
                path=index.path,
                fix="build the index anew",
            )
    known = {*manifest.collections, *encoders}
    named = [key.rpartition(":")[0] for key in config.merge.weights]
    for name in [*config.route.recall_top_k_by_collection, *filter(None, named)]:
        if name not in known:
            raise InputError(
                f"the configuration names the collection {name}, which neither the index nor the "
                "model set knows",
                fix=f"known: {', '.join(sorted(known))}",
            )
