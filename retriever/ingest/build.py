"""Build an index: read, chunk, embed, write; resumable through the vector cache."""

import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from retriever.config import RetrieverConfig
from retriever.encoders.base import TextEncoder
from retriever.encoders.cache import CachedEncoder
from retriever.files import InputError
from retriever.index.chunks import ChunkTable
from retriever.index.manifest import Manifest, building, index_fingerprint, read_manifest
from retriever.index.store import Collection, Index
from retriever.ingest.chunk import Chunk, Document, chunk_documents
from retriever.ingest.read import corpus_digest, read_documents
from retriever.retriever import open_encoders
from retriever.stages.route import DEFAULT_COLLECTION

__all__ = ["BuildReport", "build_index", "fingerprint_of"]

# One index a database here; a shared database holds many.
INDEX_ID = "index"

# Told what is being done, how much of it, and how much of that is done: ("embed", 812, 64).
Progress = Callable[[str, int, int], object]


@dataclass(frozen=True)
class BuildReport:
    """What a build did. `built` is False where the index was up to date already."""

    index: Index
    built: bool
    computed: int
    reused: int


def fingerprint_of(
    corpus: Path,
    config: RetrieverConfig,
    encoders: Mapping[str, TextEncoder] | None = None,
) -> str:
    """Return the fingerprint that an index of `corpus` under `config` has or would have."""
    served = open_encoders(config.models) if encoders is None else encoders
    return index_fingerprint(
        corpus_digest(corpus),
        config.namespace,
        config.index,
        {name: encoder.fingerprint for name, encoder in served.items()},
    )


def build_index(
    corpus: Path,
    out: Path,
    config: RetrieverConfig | None = None,
    *,
    encoders: Mapping[str, TextEncoder] | None = None,
    cache: Path | None = None,
    progress: Progress = lambda stage, total, done: None,
) -> BuildReport:
    """Build an index of a BEIR corpus in the folder `out`, replacing an older one in one step.

    `cache` keeps vectors between builds. Raises InputError for a bad corpus, a corpus without
    text, or a folder that holds something else; the old index, if any, then stays.
    """
    config = config or RetrieverConfig()
    served = open_encoders(config.models) if encoders is None else encoders
    encoder = served.get(DEFAULT_COLLECTION)
    if encoder is None:
        raise InputError(
            f"the model set {config.models} has no encoder for {DEFAULT_COLLECTION}",
            fix="name one under collections:",
        )
    digest = corpus_digest(corpus)
    fingerprint = fingerprint_of(corpus, config, served)
    if _is_current(out, fingerprint):
        return BuildReport(Index.open(out), built=False, computed=0, reused=0)
    with building(out) as generation:
        # Another process may have built it while this one waited for the lock.
        if _is_current(out, fingerprint):
            return BuildReport(Index.open(out), built=False, computed=0, reused=0)
        documents, empty = _read(corpus, progress)
        cached = CachedEncoder(encoder, cache)
        progress("chunk", len(documents), 0)
        chunks = sorted(
            chunk_documents(
                documents,
                cached.token_spans,
                max_tokens=config.index.chunk.max_tokens,
                overlap=config.index.chunk.overlap,
            ),
            key=lambda chunk: chunk.chunk_id,
        )
        progress("chunk", len(documents), len(documents))
        texts = [chunk.text for chunk in chunks]
        _write_chunks(generation.folder / "chunks.arrow", chunks)
        _write_registry(generation.folder / "registry.sqlite", documents, config)
        vectors = cached.encode(texts, "document", lambda done: progress("embed", len(texts), done))
        Collection.write(
            generation.folder / "collections" / DEFAULT_COLLECTION,
            np.arange(len(chunks), dtype=np.int32),
            texts,
            vectors,
            config.index.bm25,
        )
        record = {
            "encoder": encoder.name,
            "fingerprint": encoder.fingerprint,
            "dimension": vectors.shape[1],
            "chunks": len(chunks),
        }
        manifest = generation.publish(
            fingerprint=fingerprint,
            namespace=config.namespace,
            models=config.models,
            index=config.index,
            corpus=digest,
            documents=len(documents),
            skipped={"empty": empty} if empty else {},
            chunks=len(chunks),
            collections={DEFAULT_COLLECTION: record},
            versions=_versions(),
        )
    return BuildReport(Index(out, manifest), True, cached.computed, cached.reused)


def _is_current(out: Path, fingerprint: str) -> bool:
    manifest: Manifest | None
    try:
        manifest = read_manifest(out)
    except InputError:
        return False  # absent, damaged or of another version: it is built anew
    return manifest.fingerprint == fingerprint


def _read(corpus: Path, progress: Progress) -> tuple[list[Document], int]:
    documents, empty = [], 0
    for document in read_documents(corpus):
        if document.title.strip() or document.text.strip():
            documents.append(document)
        else:
            empty += 1
        if not len(documents) % 1000:
            progress("read", 0, 1000)
    if not documents:
        raise InputError("no document has any text", path=corpus, fix="check title and text")
    return documents, empty


def _write_chunks(path: Path, chunks: list[Chunk]) -> None:
    ids = [chunk.chunk_id for chunk in chunks]
    for one, other in pairwise(ids):
        if one == other:
            raise InputError(f"two chunks have the id {one!r}", fix="rename a document")
    ChunkTable.write(
        path,
        {
            "chunk_id": ids,
            "document_id": [chunk.document_id for chunk in chunks],
            "section": [chunk.section for chunk in chunks],
            "content_summary": [chunk.content_summary for chunk in chunks],
            "text": [chunk.text for chunk in chunks],
        },
    )


def _write_registry(path: Path, documents: list[Document], config: RetrieverConfig) -> None:
    from retriever.registry import DocumentRecord, Registry

    records = [
        DocumentRecord(
            document_id=document.document_id,
            name=document.name,
            file_name=document.file_name,
            title=document.title,
            path=document.path,
            kb_name=document.kb_name,
            tags=document.tags,
            collections=(DEFAULT_COLLECTION,),
            namespace=config.namespace,
        )
        for document in documents
    ]
    with Registry.open(f"sqlite:///{path}") as registry:
        registry.replace(INDEX_ID, records)


def _versions() -> dict[str, Any]:
    names = ("retrieval-assay", "bm25s", "faiss-cpu", "numpy", "torch", "transformers")
    versions = {"python": platform.python_version()}
    for name in names:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "absent"
    return versions
