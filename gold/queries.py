"""The queries file: one query a line, its known metadata fields read into typed ones."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from gold.corpus import metadata_field, text_field
from gold.faults import Fault, Sink
from gold.files import json_lines
from gold.ids import read_id
from gold.model import GoldQuery


def read_queries(path: Path, sink: Sink) -> dict[str, tuple[GoldQuery, int]]:
    """Read a queries file: query_id -> (query, line), in the file's order.

    Each fault is told to `sink`; a line without a usable id, or with one that stood before, is
    left out, and a field of the wrong type keeps its default.
    """
    found: dict[str, tuple[GoldQuery, int]] = {}
    for line, record in json_lines(path, sink):
        query_id = read_id(record, path, line, sink)
        if query_id is None:
            continue
        if query_id in found:
            message = f"the id {query_id!r} stands in line {found[query_id][1]} already"
            sink(Fault("duplicate-id", path, line, message, "every query needs its own id"))
            continue
        found[query_id] = (_query(query_id, record, path, line, sink), line)
    return found


def as_record(query: GoldQuery) -> dict[str, Any]:
    """Return the `queries.jsonl` object of a query: what `read_queries` reads back as it."""
    metadata: dict[str, Any] = {}
    for name, (default, _, _) in _FIELDS.items():
        value = getattr(query, name)
        if value != default:
            metadata[name] = list(value) if isinstance(value, tuple) else value
    if query.scope:
        metadata["scope"] = {kind: list(values) for kind, values in query.scope.items()}
    return {
        "_id": query.query_id,
        "text": query.text,
        "metadata": metadata | dict(query.metadata),
    }


def _query(query_id: str, record: dict[str, Any], path: Path, line: int, sink: Sink) -> GoldQuery:
    text = text_field(record, "text", path, line, sink)
    if "text" not in record:
        message = f'query {query_id!r} has no "text"'
        sink(Fault("bad-field", path, line, message, "give the query's text"))
    for name in (name for name in _FIELDS if name in record):
        message = f'"{name}" stands outside "metadata", where it is not read'
        sink(Fault("misplaced-field", path, line, message, 'move it into "metadata"'))
    metadata = dict(metadata_field(record, path, line, sink))
    typed: dict[str, Any] = {}
    for name, (_, read, expected) in _FIELDS.items():
        value = metadata.pop(name, None)
        if value is None:
            continue
        try:
            typed[name] = read(value)
        except TypeError:
            message = f'"{name}" is {value!r:.60}'
            sink(Fault("bad-field", path, line, message, f"expected {expected}"))
    return GoldQuery(query_id, text, **typed, metadata=metadata)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(v, str) and v.strip() for v in value):
        raise TypeError
    return tuple(value)


def _scope(value: object) -> dict[str, tuple[str, ...]]:
    if not isinstance(value, dict):
        raise TypeError
    return {kind: _texts(values) for kind, values in value.items()}


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _cutoff(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise TypeError
    return value


_FIELDS: Final[dict[str, tuple[object, Callable[[object], Any], str]]] = {
    "type": ("", _text, "a text"),
    "role": ("", _text, "a text"),
    "workflow": ("", _text, "a text"),
    "expected_terms": ((), _texts, "a list of texts, none empty"),
    "scope": ({}, _scope, 'lists of texts by kind, as {"tags": ["label"]}'),
    "image": (None, _text, "a text"),
    "smiles": (None, _text, "a text"),
    "critical": (False, _flag, "true or false"),
    "k": (None, _cutoff, "an integer of 1 or more"),
}
"""Metadata field -> (default, reader raising TypeError, what it expects in words)."""
