"""The corpus file: one document a line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gold.faults import Fault, Sink, refuse
from gold.files import is_gzip, json_lines
from gold.ids import read_id
from gold.model import CorpusDocument


def read_corpus(path: Path | str) -> Iterator[CorpusDocument]:
    """Yield the documents of a gold set (or of one `corpus.jsonl`), in the file's order.

    Streamed: only the ids are held. Raises `InputError` naming file and line for broken JSON, a
    missing or repeated id, a field of the wrong type and a gzip archive.
    """
    yield from documents(corpus_file(Path(path)), refuse)


def corpus_ids(path: Path | str) -> frozenset[str]:
    """Return the document ids of a gold set; see `read_corpus` for the errors."""
    return frozenset(document.document_id for document in read_corpus(path))


def corpus_file(path: Path) -> Path:
    """Return the corpus file of a gold directory, or the path itself where it is a file."""
    return path if path.is_file() else path / "corpus.jsonl"


def documents(path: Path, sink: Sink) -> Iterator[CorpusDocument]:
    """Yield the documents of a corpus file, telling `sink` of each fault.

    A line without a usable id, or with one that stood before, is left out.
    """
    if is_gzip(path):
        message = "a gzip archive, which no retriever indexes"
        sink(Fault("unreadable-file", path, None, message, "unpack it with gunzip"))
        return
    seen: dict[str, int] = {}
    for line, record in json_lines(path, sink):
        document_id = read_id(record, path, line, sink)
        if document_id is None:
            continue
        if document_id in seen:
            message = f"the id {document_id!r} stands in line {seen[document_id]} already"
            sink(Fault("duplicate-id", path, line, message, "every document needs its own id"))
            continue
        seen[document_id] = line
        title = text_field(record, "title", path, line, sink)
        text = text_field(record, "text", path, line, sink)
        if "text" not in record:
            message = f'document {document_id!r} has no "text"'
            sink(Fault("bad-field", path, line, message, 'give it, "" where there is none'))
        metadata = metadata_field(record, path, line, sink)
        yield CorpusDocument(document_id, title, text, metadata, line)


def text_field(record: dict[str, Any], name: str, path: Path, line: int, sink: Sink) -> str:
    """Return a text field; absent and null read as "", another type is told to `sink`."""
    value = record.get(name)
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    message = f'"{name}" is {value!r:.40}, not a text'
    sink(Fault("bad-field", path, line, message, "put it in quotation marks"))
    return ""


def metadata_field(record: dict[str, Any], path: Path, line: int, sink: Sink) -> dict[str, Any]:
    """Return the metadata object; absent and null read as empty, another type is told."""
    value = record.get("metadata")
    if isinstance(value, dict):
        return value
    if value is not None:
        message = f'"metadata" is {value!r:.40}, not an object'
        sink(Fault("bad-field", path, line, message, 'write {"key": value}'))
    return {}
