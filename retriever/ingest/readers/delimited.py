"""CSV and TSV tables, a document a row."""

import csv
import io
from collections.abc import Iterator, Sequence

from retriever.ingest.chunk import Document
from retriever.ingest.readers.source import RefusedFileError, Remark, Source, decode
from retriever.ingest.readers.tables import documents_of

__all__ = ["read"]

_DELIMITERS = ",;\t|"
_LONGEST_CELL = 10_000_000


def read(source: Source) -> Iterator[Document | Remark]:
    """Yield the documents of a table with a header; the delimiter is the header's own.

    Raises RefusedFileError for a file without a header or with an open quote.
    """
    text, remarks = decode(source, source.path.read_bytes())
    yield from remarks
    by_tabs = source.path.suffix.lower() in (".tsv", ".tab")
    yield from documents_of(source, _rows(text, "\t" if by_tabs else _delimiter(text)))


def _rows(text: str, delimiter: str) -> Iterator[Sequence[str]]:
    before = csv.field_size_limit(_LONGEST_CELL)
    try:
        yield from csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    except csv.Error as error:
        raise RefusedFileError("broken", f"no table: {error}") from error
    finally:
        csv.field_size_limit(before)


def _delimiter(text: str) -> str:
    """Return the delimiter that the first line which is not blank has most of, a comma for none.

    What stands in quotes does not count.
    """
    header = next((line for line in text.splitlines() if line.strip()), "")
    bare = "".join(header.split('"')[::2])
    return max(_DELIMITERS, key=lambda delimiter: (bare.count(delimiter), delimiter == ","))
