"""Image files: a document without text, whose metadata names the image."""

from collections.abc import Iterator

from retriever.ingest.chunk import Document
from retriever.ingest.readers.source import RefusedFileError, Remark, Source

__all__ = ["read"]


def read(source: Source) -> Iterator[Document | Remark]:
    """Yield the one document of an image file; the file is not opened here."""
    if not source.path.stat().st_size:
        raise RefusedFileError("empty")
    yield source.document("", "", {"image": source.place})
