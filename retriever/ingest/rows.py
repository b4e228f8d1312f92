"""Documents to rows of the chunk table: cut, placed in collections, and in order of chunk id."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path

from retriever.config import RetrieverConfig
from retriever.encoders.cache import CachedEncoder
from retriever.files import InputError
from retriever.hooks import ImageProfile, Profile
from retriever.images import ImageFile
from retriever.ingest.chunk import Chunk, Document, chunk_documents
from retriever.ingest.images import image_file, image_name, profile_images
from retriever.ingest.readers.source import Remark
from retriever.plugins import Subscribers
from retriever.stages.route import DEFAULT_COLLECTION

__all__ = ["Layout", "Row", "rows_of"]

# Told what is being done, how much of it, and how much of that is done: ("chunk", 812, 64).
Progress = Callable[[str, int, int], object]


@dataclass(frozen=True)
class Row:
    """One row of the chunk table on its way in: what it holds, and the collections it enters."""

    chunk: Chunk
    document: int
    collections: tuple[str, ...]
    structure: str = ""
    image: ImageFile | None = None


@dataclass(frozen=True)
class Layout:
    """Rows in order of chunk id; a profile a document, and where its image belongs, if it has one.

    `skipped` says what of which document entered no collection: its place, and the reason.
    """

    rows: Sequence[Row]
    profiles: Sequence[Profile]
    images: Sequence[ImageProfile | None]
    skipped: Sequence[tuple[int, str]]

    def remarks(self, documents: Sequence[Document]) -> list[Remark]:
        """Return a remark on everything in `skipped`, by the document's path, else its id."""
        return [
            Remark("skipped", documents[i].path or documents[i].document_id, reason)
            for i, reason in self.skipped
        ]


def rows_of(
    documents: Sequence[Document],
    config: RetrieverConfig,
    encoders: Mapping[str, CachedEncoder],
    subscribers: Subscribers,
    progress: Progress,
    corpus: Path,
) -> Layout:
    """Cut documents, decide where each belongs, and lay their chunks out as rows.

    `corpus` is where they come from: images are named by their paths from there. Raises InputError
    for an image that cannot be read, or for two chunks of one id.
    """
    general = encoders[DEFAULT_COLLECTION]
    chunks = _chunk(documents, config, general, progress)
    profiles = _profile(documents, chunks, subscribers, general, progress)
    images = profile_images(documents, subscribers)
    skipped: list[tuple[int, str]] = []
    rows = _rows(documents, chunks, profiles, encoders, config.models, skipped)
    rows += _image_rows(documents, images, encoders, config, corpus, skipped)
    return Layout(_ordered(rows), profiles, images, skipped)


def _chunk(
    documents: Sequence[Document],
    config: RetrieverConfig,
    encoder: CachedEncoder,
    progress: Progress,
) -> list[list[Chunk]]:
    """Chunks by document."""
    progress("chunk", len(documents), 0)
    found = chunk_documents(
        documents,
        encoder.token_spans,
        max_tokens=config.index.chunk.max_tokens,
        overlap=config.index.chunk.overlap,
    )
    by_document = {key: list(group) for key, group in groupby(found, lambda c: c.document_id)}
    progress("chunk", len(documents), len(documents))
    # An image without a caption has no chunk of text.
    return [by_document.get(document.document_id, []) for document in documents]


def _profile(
    documents: Sequence[Document],
    chunks: Sequence[Sequence[Chunk]],
    subscribers: Subscribers,
    encoder: CachedEncoder,
    progress: Progress,
) -> list[Profile]:
    """Where each document belongs; without a plugin in the general text collection."""
    progress("profile", len(documents), 0)
    found = subscribers.first(
        "profile_document",
        len(documents),
        "ingest",
        documents=documents,
        chunks=chunks,
        encode=lambda texts: encoder.encode(texts, "document"),
    )
    progress("profile", len(documents), len(documents))
    return [profile or Profile((DEFAULT_COLLECTION,)) for profile in found]


def _rows(
    documents: Sequence[Document],
    chunks: Sequence[Sequence[Chunk]],
    profiles: Sequence[Profile],
    encoders: Mapping[str, CachedEncoder],
    models: str,
    skipped: list[tuple[int, str]],
) -> list[Row]:
    """Rows of texts and structures; what is left out of where is noted in `skipped`."""
    rows: list[Row] = []
    for i, (document, of_document, profile) in enumerate(
        zip(documents, chunks, profiles, strict=True)
    ):
        wanted = [*profile.collections, *(part.collection for part in profile.structures)]
        faults = {name: _fault(name, encoders, models, images=False) for name in wanted}
        skipped += [(i, reason) for reason in (*faults.values(), *profile.skipped) if reason]
        held = tuple(name for name in profile.collections if not faults[name])
        rows += [Row(chunk, i, held) for chunk in of_document if held]
        for part in profile.structures:
            if not faults[part.collection]:
                chunk = _whole(document, part.section, len(of_document))
                rows.append(Row(chunk, i, (part.collection,), part.structure))
    return rows


def _image_rows(
    documents: Sequence[Document],
    images: Sequence[ImageProfile | None],
    encoders: Mapping[str, CachedEncoder],
    config: RetrieverConfig,
    corpus: Path,
    skipped: list[tuple[int, str]],
) -> list[Row]:
    """Rows of images, each with its document's text as its caption; others are noted."""
    rows: list[Row] = []
    for i, (document, profile) in enumerate(zip(documents, images, strict=True)):
        if not image_name(document):
            continue
        file = image_file(document, corpus)
        if profile is None:
            skipped.append((i, f"no plugin of the namespace {config.namespace} places an image"))
            continue
        fault = _fault(profile.collection, encoders, config.models, images=True)
        if fault:
            skipped.append((i, fault))
            continue
        chunk = _whole(document, "image", 0)
        rows.append(Row(chunk, i, (profile.collection,), image=file))
    return rows


def _fault(
    collection: str, encoders: Mapping[str, CachedEncoder], models: str, *, images: bool
) -> str:
    """Say why a collection cannot take texts (or images), "" where it can."""
    encoder = encoders.get(collection)
    if encoder is None:
        return f"no encoder for {collection} in the model set {models}"
    if encoder.reads_images != images:
        reads = "no images" if images else "images alone"
        return f"the encoder of {collection} in the model set {models} reads {reads}"
    return ""


def _whole(document: Document, section: str, position: int) -> Chunk:
    """Return a chunk beside a document's prose: its structure or its image."""
    return Chunk(
        chunk_id=f"{document.document_id}#{section}",
        document_id=document.document_id,
        position=position,
        section=section,
        text=f"{document.title}\n{document.text}".strip(),
        content_summary=document.text[:200],
    )


def _ordered(rows: Sequence[Row]) -> list[Row]:
    """Return the rows in order of chunk id. Raises InputError for an id that comes twice."""
    found = sorted(rows, key=lambda row: row.chunk.chunk_id)
    for one, other in pairwise(found):
        if one.chunk.chunk_id == other.chunk.chunk_id:
            raise InputError(
                f"two chunks have the id {one.chunk.chunk_id!r}", fix="rename a document"
            )
    return found
