"""Corpora in: JSON lines in BEIR's form, a file or the directory that holds `corpus.jsonl`."""

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from retriever.files import BOM, InputError, read_json_lines
from retriever.ingest.chunk import Document

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


def read_documents(corpus: Path) -> Iterator[Document]:
    """Yield the documents of a corpus in file order, ids as text.

    Raises InputError with file and line for a missing or repeated id, a field of another type, a
    key twice in one object, or text that no index can hold.
    """
    file = corpus_file(corpus)
    first_line: dict[str, int] = {}
    for line, record in read_json_lines(file):
        document_id = _id(record, file, line)
        if document_id in first_line:
            raise InputError(
                f"document {document_id!r} stands in line {first_line[document_id]} already",
                path=file,
                line=line,
                fix="give every document an id of its own",
            )
        first_line[document_id] = line
        title = _text(record, "title", file, line)
        metadata = record.get("metadata") or {}
        if not isinstance(metadata, dict):
            raise InputError("metadata is not an object", path=file, line=line)
        file_name = _text(metadata, "file_name", file, line)
        yield Document(
            document_id=document_id,
            title=title,
            text=_text(record, "text", file, line),
            metadata=metadata,
            name=_text(metadata, "name", file, line) or file_name or title or document_id,
            path=_text(metadata, "path", file, line),
            file_name=file_name,
            tags=_tags(metadata, file, line),
            kb_name=_text(metadata, "kb_name", file, line),
            source_uri=_text(metadata, "source_uri", file, line),
        )


def _id(record: Mapping[str, Any], file: Path, line: int) -> str:
    value = record.get("_id", record.get("id"))
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not value.strip():
        raise InputError(
            f"_id is {value!r}", path=file, line=line, fix='expected text, like "_id": "d1"'
        )
    _check_encodes(value, "_id", file, line)
    _check_no_nul(value, "_id", file, line)
    return value


def _text(record: Mapping[str, Any], key: str, file: Path, line: int) -> str:
    value = record.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InputError(f"{key} is {type(value).__name__}, not text", path=file, line=line)
    _check_encodes(value, key, file, line)
    if key != "text":  # all others go into the registry, and no database keeps a NUL
        _check_no_nul(value, key, file, line)
    return value


def _tags(metadata: Mapping[str, Any], file: Path, line: int) -> tuple[str, ...]:
    tags = metadata.get("tags") or ()
    if not isinstance(tags, list | tuple) or not all(isinstance(tag, str) for tag in tags):
        raise InputError("tags is no list of texts", path=file, line=line)
    for tag in tags:
        _check_encodes(tag, "tags", file, line)
        _check_no_nul(tag, "tags", file, line)
    return tuple(tags)


def _check_encodes(value: str, key: str, file: Path, line: int) -> None:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{key} holds a lone surrogate", path=file, line=line, fix="write the character itself"
        ) from error


def _check_no_nul(value: str, key: str, file: Path, line: int) -> None:
    if "\0" in value:
        raise InputError(f"{key} holds a NUL character", path=file, line=line, fix="remove it")
