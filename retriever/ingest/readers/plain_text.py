"""Plain text. Lines that read as headings are found when the text is cut."""

from collections.abc import Iterator

from retriever.ingest.chunk import Document
from retriever.ingest.readers.source import Remark, Source, decode

__all__ = ["read"]


def read(source: Source) -> Iterator[Document | Remark]:
    """Yield the one document of a text file; it has no title. Raises RefusedFileError."""
    text, remarks = decode(source, source.path.read_bytes())
    yield from remarks
    yield source.document("", text)
