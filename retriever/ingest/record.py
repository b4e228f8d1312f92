"""One record of a source, checked, as a document.

The record has the form of a line of BEIR's corpus: `_id`, `title`, `text`, `metadata`. Every
reader makes its documents here, so that ids and names follow one rule.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from retriever.files import InputError
from retriever.ingest.chunk import Document

__all__ = ["document_of"]


def document_of(
    record: Mapping[str, Any],
    file: Path,
    line: int | None,
    *,
    place: str = "",
    path: str = "",
    file_name: str = "",
) -> Document:
    """Return the document that a record describes; `file` and `line` are where it stands.

    Its id is the record's `_id` or `id`, else `place`. Its name is `metadata.name`, else the file
    name (`metadata.file_name`, else `file_name`), else the title, else the id. Raises InputError
    for a missing id, a field of another type, or text that no index can hold.
    """
    document_id = _id(record, place, file, line)
    title = _text(record, "title", file, line)
    metadata = record.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise InputError("metadata is not an object", path=file, line=line)
    file_name = _text(metadata, "file_name", file, line) or file_name
    return Document(
        document_id=document_id,
        title=title,
        text=_text(record, "text", file, line),
        metadata=metadata,
        name=_text(metadata, "name", file, line) or file_name or title or document_id,
        path=_text(metadata, "path", file, line) or path,
        file_name=file_name,
        tags=_tags(metadata, file, line),
        kb_name=_text(metadata, "kb_name", file, line),
        source_uri=_text(metadata, "source_uri", file, line),
    )


def _id(record: Mapping[str, Any], place: str, file: Path, line: int | None) -> str:
    value = record.get("_id", record.get("id"))
    if value is None and place:
        value = place
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not value.strip():
        raise InputError(
            f"_id is {value!r}", path=file, line=line, fix='expected text, like "_id": "d1"'
        )
    _check_encodes(value, "_id", file, line)
    _check_no_nul(value, "_id", file, line)
    return value


def _text(record: Mapping[str, Any], key: str, file: Path, line: int | None) -> str:
    value = record.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InputError(f"{key} is {type(value).__name__}, not text", path=file, line=line)
    _check_encodes(value, key, file, line)
    if key != "text":  # all others go into the registry, and no database keeps a NUL
        _check_no_nul(value, key, file, line)
    return value


def _tags(metadata: Mapping[str, Any], file: Path, line: int | None) -> tuple[str, ...]:
    tags = metadata.get("tags") or ()
    if not isinstance(tags, list | tuple) or not all(isinstance(tag, str) for tag in tags):
        raise InputError("tags is no list of texts", path=file, line=line)
    for tag in tags:
        _check_encodes(tag, "tags", file, line)
        _check_no_nul(tag, "tags", file, line)
    return tuple(tags)


def _check_encodes(value: str, key: str, file: Path, line: int | None) -> None:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"{key} holds a lone surrogate", path=file, line=line, fix="write the character itself"
        ) from error


def _check_no_nul(value: str, key: str, file: Path, line: int | None) -> None:
    if "\0" in value:
        raise InputError(f"{key} holds a NUL character", path=file, line=line, fix="remove it")
