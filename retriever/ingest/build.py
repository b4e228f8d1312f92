"""Build an index: read, lay out rows, embed, write; resumable through the vector cache."""

import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import numpy as np

from retriever.config import RetrieverConfig
from retriever.encoders.base import Encoder, Vectors
from retriever.encoders.cache import CachedEncoder
from retriever.files import InputError
from retriever.index.chunks import ChunkTable
from retriever.index.manifest import (
    Generation,
    Manifest,
    building,
    index_fingerprint,
    read_manifest,
    verify_files,
)
from retriever.index.store import Collection, Index
from retriever.ingest.chunk import Document
from retriever.ingest.corpus import REMARKS, Corpus, counts, read_remarks, write_remarks
from retriever.ingest.images import image_name
from retriever.ingest.readers.source import Remark
from retriever.ingest.rows import Layout, Row, rows_of
from retriever.plugins import Subscribers
from retriever.retriever import open_encoders
from retriever.stages.route import DEFAULT_COLLECTION
from retriever.store import shared_registry

__all__ = ["BuildReport", "build_index", "fingerprint_of", "plugin_prints"]

# As in `rows_of`: ("embed", 812, 64).
Progress = Callable[[str, int, int], object]


@dataclass(frozen=True)
class BuildReport:
    """What a build did. `built` is False where the index was up to date already."""

    index: Index
    built: bool
    computed: int
    reused: int

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """What was skipped, cut or repaired, file by file."""
        return read_remarks(self.index.folder / REMARKS)


def plugin_prints(config: RetrieverConfig) -> dict[str, str]:
    """Return what of each plugin an index depends on: its code, knowledge and settings."""
    subscribers = Subscribers.of(config.namespace, dict(config.plugins))
    found = {}
    for plugin in subscribers.plugins:
        settings = subscribers.settings[plugin.name]
        part = getattr(settings, "ingest", None)
        own = "" if part is None else part.fingerprint
        found[plugin.name] = f"{plugin.version} {plugin.knowledge(settings)} {own}"
    return found


def fingerprint_of(
    corpus: Corpus | Path | str,
    config: RetrieverConfig,
    encoders: Mapping[str, Encoder] | None = None,
) -> str:
    """Return the fingerprint that an index of `corpus` under `config` has or would have."""
    source = corpus if isinstance(corpus, Corpus) else Corpus(Path(corpus))
    served = open_encoders(config.models) if encoders is None else encoders
    return index_fingerprint(
        source.digest,
        config.namespace,
        config.index,
        {name: encoder.fingerprint for name, encoder in served.items()},
        plugin_prints(config),
    )


def build_index(
    corpus: Path | str,
    out: Path | str,
    config: RetrieverConfig | None = None,
    *,
    encoders: Mapping[str, Encoder] | None = None,
    cache: Path | str | None = None,
    sample: int | None = None,
    restamp: bool = False,
    progress: Progress = lambda stage, total, done: None,
) -> BuildReport:
    """Build an index of a corpus in the folder `out`, replacing an older one in one step.

    The corpus is a BEIR corpus or a folder of files (`retriever.ingest.corpus`); with `sample`
    that many of its documents, chosen by the hash of their ids, are indexed. The documents
    registry goes where ASSAY_REGISTRY says, else into a file of the index. `cache` keeps vectors
    between builds. Raises InputError for a bad corpus, a corpus without text, or a folder that
    holds something else; the old index, if any, then stays. An index is up to date when every
    file of it is as it was written; a damaged one is built anew.

    With `restamp` no vector is computed: the index at `out` is made anew by what the plugins know
    now (a changed lexicon), as a fresh build would, from the vectors in `cache`. It must be there
    and of the same corpus, and every vector in the cache; else InputError, and the index stays.
    """
    out, cache = Path(out), None if cache is None else Path(cache)
    source = Corpus(Path(corpus), sample)
    config = config or RetrieverConfig()
    served = open_encoders(config.models) if encoders is None else encoders
    if DEFAULT_COLLECTION not in served:
        raise InputError(
            f"the model set {config.models} has no encoder for {DEFAULT_COLLECTION}",
            fix="name one under collections:",
        )
    if restamp and read_manifest(out).corpus != source.digest:
        raise InputError(
            "the index was built from another corpus or another sample of it",
            path=out,
            fix="index without --restamp",
        )
    fingerprint = fingerprint_of(source, config, served)
    if _is_current(out, fingerprint):
        return BuildReport(Index.open(out), built=False, computed=0, reused=0)
    with building(out) as generation:
        # Another process may have built it while this one waited for the lock.
        if _is_current(out, fingerprint):
            return BuildReport(Index.open(out), built=False, computed=0, reused=0)
        cached = {
            name: CachedEncoder(encoder, cache, may_compute=not restamp)
            for name, encoder in served.items()
        }
        manifest = _build(source, generation, config, cached, fingerprint, progress)
    computed, reused = (
        sum(getattr(encoder, name) for encoder in cached.values())
        for name in ("computed", "reused")
    )
    return BuildReport(Index(out.resolve(), manifest), True, computed, reused)


def _build(
    corpus: Corpus,
    generation: Generation,
    config: RetrieverConfig,
    encoders: Mapping[str, CachedEncoder],
    fingerprint: str,
    progress: Progress,
) -> Manifest:
    reading = corpus.read(progress)
    documents = reading.documents
    subscribers = Subscribers.of(config.namespace, dict(config.plugins))
    found = rows_of(documents, config, encoders, subscribers, progress, corpus.path)
    rows = found.rows
    remarks = [*reading.remarks, *found.remarks(documents)]
    skipped = counts(remarks, "skipped")
    if not rows:
        reasons = "; ".join(f"{reason}: {count}" for reason, count in skipped.items())
        raise InputError(f"nothing to index ({reasons})", path=corpus.path, fix="another model set")
    write_remarks(generation.folder / REMARKS, remarks)
    _write_chunks(generation.folder / "chunks.arrow", rows, documents, subscribers)
    registry = _write_registry(generation.folder, fingerprint, documents, found, config)
    records = {}
    for name in sorted({name for row in rows for name in row.collections}):
        records[name] = _write_collection(name, generation, config, encoders[name], rows, progress)
    return generation.publish(
        fingerprint=fingerprint,
        namespace=config.namespace,
        models=config.models,
        index=config.index,
        plugins=plugin_prints(config),
        corpus=corpus.digest,
        sample=None if reading.sample is None else asdict(reading.sample),
        documents=len(documents),
        skipped=skipped,
        altered=counts(remarks, "cut", "repaired"),
        chunks=len(rows),
        collections=records,
        registry=registry,
        versions=_versions(),
    )


def _is_current(out: Path, fingerprint: str) -> bool:
    try:
        manifest = read_manifest(out)
        wanted = "file" if shared_registry() is None else "shared"
        if (manifest.fingerprint, manifest.registry) != (fingerprint, wanted):
            return False
        verify_files(out, manifest)
        if manifest.registry == "shared":
            _ = Index(out, manifest).registry
    except InputError:
        return False  # absent, damaged or of another version: it is built anew
    return True


def _write_chunks(
    path: Path, rows: Sequence[Row], documents: Sequence[Document], subscribers: Subscribers
) -> None:
    columns = {
        "chunk_id": [row.chunk.chunk_id for row in rows],
        "document_id": [row.chunk.document_id for row in rows],
        "section": [row.chunk.section for row in rows],
        "content_summary": [row.chunk.content_summary for row in rows],
        "text": [row.chunk.text for row in rows],
        "structure": [row.structure for row in rows],
        "path": [documents[row.document].path for row in rows],
        "file_name": [documents[row.document].file_name for row in rows],
        "document_name": [documents[row.document].name for row in rows],
        "source_uri": [documents[row.document].source_uri for row in rows],
        "image": [image_name(documents[row.document]) if row.image else "" for row in rows],
    }
    lists: dict[str, Sequence[Sequence[str]]] = {}
    for name, answer in subscribers.every(
        "enrich_chunks",
        documents=[documents[row.document] for row in rows],
        chunks=[row.chunk for row in rows],
    ):
        for column, values in answer.items():
            if len(values) != len(rows):
                raise ValueError(
                    f"plugin {name}: enrich_chunks gave {len(values)} answers in the column "
                    f"{column}, expected {len(rows)}"
                )
            lists[f"{name}:{column}"] = values
    ChunkTable.write(path, columns, lists)


def _write_registry(
    folder: Path,
    fingerprint: str,
    documents: Sequence[Document],
    found: Layout,
    config: RetrieverConfig,
) -> Literal["file", "shared"]:
    """Write the documents to the shared registry, if there is one, else to a file; say which.

    In a shared one the rows of an older index stay: a crash leaves what that index needs.
    """
    from retriever.registry import DocumentRecord, Registry, sqlite_url

    held: dict[int, set[str]] = {}
    for row in found.rows:
        held.setdefault(row.document, set()).update(row.collections)
    records = [
        DocumentRecord(
            document_id=document.document_id,
            name=document.name,
            file_name=document.file_name,
            title=document.title,
            path=document.path,
            source_uri=document.source_uri,
            kb_name=document.kb_name,
            modality="text" if image is None else image.modality,
            tags=document.tags,
            collections=tuple(sorted(held.get(i, ()))),
            namespace=config.namespace,
            domain=profile.domain,
            tier=profile.tier,
            rule=profile.rule,
            confidence=profile.confidence,
            signals=profile.signals,
        )
        for i, (document, profile, image) in enumerate(
            zip(documents, found.profiles, found.images, strict=True)
        )
    ]
    shared = shared_registry()
    with Registry.open(shared or sqlite_url(folder / "registry.sqlite")) as registry:
        registry.replace(fingerprint if shared else "index", records)
    return "shared" if shared else "file"


def _write_collection(
    name: str,
    generation: Generation,
    config: RetrieverConfig,
    encoder: CachedEncoder,
    rows: Sequence[Row],
    progress: Progress,
) -> dict[str, Any]:
    inside = [i for i, row in enumerate(rows) if name in row.collections]
    texts = [rows[i].structure or rows[i].chunk.text for i in inside]
    images = [image for i in inside if (image := rows[i].image)]
    by_words = not images and not any(rows[i].structure for i in inside)
    stage = f"embed {name}"
    progress(stage, len(texts), 0)

    def done(count: int) -> object:
        return progress(stage, len(texts), count)

    vectors: Vectors
    if images:
        vectors = encoder.encode_images(images, done)
    else:
        vectors = encoder.encode(texts, "document", done)
    Collection.write(
        generation.folder / "collections" / name,
        np.array(inside, dtype=np.int32),
        texts if by_words else None,
        vectors,
        config.index.bm25,
    )
    return {
        "encoder": encoder.name,
        "fingerprint": encoder.fingerprint,
        "dimension": vectors.shape[1],
        "chunks": len(inside),
        "text": by_words,
        "images": bool(images),
    }


def _versions() -> dict[str, Any]:
    names = ("retrieval-assay", "bm25s", "faiss-cpu", "numpy", "torch", "transformers")
    versions = {"python": platform.python_version()}
    for name in names:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "absent"
    return versions
