"""JSON: corpora as JSON lines, and openFDA's labels; what a file holds decides."""

import json
from collections.abc import Iterator
from typing import Any

from retriever.files import InputError, read_json_lines
from retriever.ingest.chunk import Document
from retriever.ingest.readers.openfda import is_label, labels_in, read_labels
from retriever.ingest.readers.source import RefusedFileError, Remark, Source

__all__ = ["read", "read_lines"]


def read(source: Source) -> Iterator[Document | Remark]:
    """Yield the documents of a JSON file: openFDA's labels, else a corpus in JSON lines.

    Raises RefusedFileError for any other JSON.
    """
    first = _first_line(source)
    if isinstance(first, dict) and not is_label(first) and labels_in(first) is None:
        yield from read_lines(source)
        return
    try:
        value = json.loads(source.path.read_bytes())
    except (ValueError, RecursionError) as error:
        if isinstance(first, dict):  # many labels, a line each
            yield from read_labels(source, [record for _, record in _lines(source)])
            return
        raise RefusedFileError("broken", f"no JSON: {error}") from error
    labels = labels_in(value)
    if labels is None:
        raise RefusedFileError("no reader", "JSON that is neither openFDA labels nor JSON lines")
    yield from read_labels(source, labels)


def read_lines(source: Source) -> Iterator[Document | Remark]:
    """Yield the documents of JSON lines in BEIR's form, named by `_id`, else by path and line.

    Raises RefusedFileError with the line of the first fault.
    """
    for line, record in _lines(source):
        try:
            yield source.document_of(record, row=str(line), line=line)
        except InputError as error:
            raise _refused(error) from error


def _lines(source: Source) -> Iterator[tuple[int, Any]]:
    if not source.path.stat().st_size:
        raise RefusedFileError("empty")
    try:
        yield from read_json_lines(source.path)
    except InputError as error:
        raise _refused(error) from error


def _refused(error: InputError) -> RefusedFileError:
    """Say what is wrong in a file that is named beside it."""
    said = str(error).removeprefix(f"{error.path}:").strip()
    return RefusedFileError("broken", f"line {said}" if said[:1].isdigit() else said)


def _first_line(source: Source) -> object:
    """Return the value of the first line that is not blank, None where it is no JSON."""
    with source.path.open("rb") as stream:
        line = next((line for line in stream if line.strip(b"\xef\xbb\xbf \t\r\n")), b"")
    if not line:
        raise RefusedFileError("empty")
    try:
        return json.loads(line.removeprefix(b"\xef\xbb\xbf"))
    except (ValueError, RecursionError):
        return None
