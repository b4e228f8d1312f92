"""Corpora in JSON lines in BEIR's form: a file or the directory that holds `corpus.jsonl`."""

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from retriever.files import BOM, InputError, read_json_lines
from retriever.ingest.chunk import Document
from retriever.ingest.record import document_of

__all__ = ["corpus_digest", "corpus_file", "read_documents"]


def corpus_file(corpus: Path) -> Path:
    """Return the JSON-lines file of a corpus. Raises InputError where there is none."""
    file = corpus / "corpus.jsonl" if corpus.is_dir() else corpus
    if not file.is_file():
        raise InputError(
            "no such corpus", path=file, fix="give a corpus.jsonl or the folder that holds one"
        )
    return file


def corpus_digest(corpus: Path) -> str:
    """SHA-256 of the corpus file's bytes, and of the images that its lines name."""
    file = corpus_file(corpus)
    digest = hashlib.sha256()
    images = []
    with file.open("rb") as stream:
        for line in stream:
            digest.update(line)
            if b'"image"' in line:
                images.append(_image_of(line))
    for name in filter(None, images):
        # One that is not there is named when the document is read.
        with suppress(OSError, ValueError), (file.parent / name).open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()


def _image_of(line: bytes) -> str:
    """Return the image that a line of a corpus names, "" for none or a line that is broken."""
    try:
        name = json.loads(line.removeprefix(BOM))["metadata"]["image"]
    except (ValueError, LookupError, TypeError, RecursionError):
        return ""
    return name if isinstance(name, str) else ""


def read_documents(
    corpus: Path, fault_of: Callable[[Document], str] = lambda document: ""
) -> Iterator[Document]:
    """Yield the documents of a corpus in file order, ids as text.

    `fault_of` says what else is wrong with a document, "" for nothing. Raises InputError with file
    and line for that, a missing or repeated id, a field of another type, a key twice in one object,
    or text that no index can hold.
    """
    file = corpus_file(corpus)
    first_line: dict[str, int] = {}
    for line, record in read_json_lines(file):
        document = document_of(record, file, line)
        document_id = document.document_id
        if document_id in first_line:
            raise InputError(
                f"document {document_id!r} stands in line {first_line[document_id]} already",
                path=file,
                line=line,
                fix="give every document an id of its own",
            )
        first_line[document_id] = line
        if fault := fault_of(document):
            raise InputError(fault, path=file, line=line)
        yield document
