"""Judged queries as other tools keep them, before their documents' names are resolved.

Four forms are told apart by content: a spreadsheet (CSV, TSV, XLSX), JSON lines with
`expected_doc_name_substrings`, judgements as one JSON object (ranx, BEIR), and TREC qrels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from gold.corpus import text_field
from gold.faults import InputError, refuse
from gold.files import UTF8_MARK, json_lines, read_bytes
from gold.ids import read_id
from gold.model import GoldQuery
from gold.qrels import LARGEST_GRADE, read_qrels
from gold.run_json import json_entries, json_places
from gold.topics import read_topics

__all__ = ["Form", "SourceQuery", "form_of", "read_judgements_with_topics", "read_named_queries"]

Form = Literal["named", "spreadsheet", "trec", "json"]

_ZIP: Final = b"PK\x03\x04"
_TABLES: Final = (".csv", ".tsv", ".xlsx")
_NAMES: Final = "expected_doc_name_substrings"
_KNOWN: Final = frozenset(
    {"id", "_id", "query", "workflow", "role", "k", "must_include_terms", _NAMES}
)


@dataclass(frozen=True, slots=True)
class SourceQuery:
    """A query with the names, or ids, of its documents and their grades, not yet resolved.

    `line` is where it stands in its file, from 1.
    """

    query: GoldQuery
    names: Mapping[str, int]
    line: int


def form_of(path: Path) -> Form:
    """Tell the form of a file. Raises `InputError` where it is none of the four."""
    data = read_bytes(path)
    if path.suffix.lower() in _TABLES or data.startswith(_ZIP):
        return "spreadsheet"
    head = data.removeprefix(UTF8_MARK).lstrip()
    if not head:
        raise InputError("the file is empty", path, fix="give judged queries")
    if head[:1] != b"{":
        return "trec"
    # One object a line, or one object in all: the first line alone decides.
    first = head.partition(b"\n")[0]
    return "named" if _NAMES.encode() in first or path.suffix.lower() == ".jsonl" else "json"


def read_named_queries(path: Path) -> list[SourceQuery]:
    """Read JSON lines that name each query's documents by parts of their names.

    Fields: `id`, `query`, `workflow`, `role`, `k`, `must_include_terms`,
    `expected_doc_name_substrings`; `workflow` becomes the type that figures are printed by, and
    any other field (`route_hint`) is kept in the query's metadata. Raises `InputError` naming the
    line.
    """
    found: dict[str, SourceQuery] = {}
    for line, record in json_lines(path, refuse):
        given = record.get("id", record.get("_id"))
        query_id = None if given is None else read_id({"_id": given}, path, line, refuse)
        if query_id is None:
            raise InputError('no "id"', path, line, "every query needs one")
        if query_id in found:
            message = f"the id {query_id!r} stands in line {found[query_id].line} already"
            raise InputError(message, path, line, "every query needs its own id")
        text = text_field(record, "query", path, line, refuse)
        if not text.strip():
            raise InputError('no "query"', path, line, "give the query's text")
        workflow = text_field(record, "workflow", path, line, refuse)
        query = GoldQuery(
            query_id,
            text,
            type=workflow,
            role=text_field(record, "role", path, line, refuse),
            workflow=workflow,
            expected_terms=_texts(record, "must_include_terms", path, line),
            k=_cutoff(record.get("k"), path, line),
            metadata={key: value for key, value in record.items() if key not in _KNOWN},
        )
        names = dict.fromkeys(_texts(record, _NAMES, path, line), 1)
        found[query_id] = SourceQuery(query, names, line)
    if not found:
        raise InputError("no query", path, fix="one JSON object a line")
    return list(found.values())


def read_judgements_with_topics(path: Path, form: Form, topics: Path | None) -> list[SourceQuery]:
    """Read judgements by id, TREC's or one JSON object, and the queries' texts beside them.

    Raises `InputError` where there are no topics, or a judged query is not among them. Topics that
    no line judges are left out.
    """
    if topics is None:
        message = "judgements name queries by id and hold no text"
        raise InputError(message, path, fix="give --topics FILE with the queries")
    texts = read_topics(topics)
    lines, judged = ({}, read_qrels(path)) if form == "trec" else _json_judgements(path)
    if not judged:
        raise InputError("no judgement", path, fix="judge at least one query")
    for query_id in judged:
        if query_id not in texts:
            message = f"query {query_id!r} is not in {topics}"
            raise InputError(message, path, lines.get(query_id), "add it or delete its judgements")
    return [
        SourceQuery(GoldQuery(query_id, texts[query_id]), grades, lines.get(query_id, 0))
        for query_id, grades in judged.items()
    ]


def _json_judgements(path: Path) -> tuple[dict[str, int], dict[str, dict[str, int]]]:
    """Return the line of each query, and its grades by document."""
    entries, text = json_entries(path, read_bytes(path))
    lines: dict[str, int] = {}
    for line, query_id, document_id in json_places(text):
        if document_id is None and lines.setdefault(query_id, line) != line:
            message = f"query {query_id!r} stands in line {lines[query_id]} already"
            raise InputError(message, path, line, "keep one of them")
    judged: dict[str, dict[str, int]] = {}
    for query_id, documents, grades in entries:
        own = judged.setdefault(query_id, {})
        for document_id, grade in zip(documents, grades, strict=True):
            if not float(grade).is_integer() or abs(grade) > LARGEST_GRADE:
                message = f"query {query_id!r}: the grade {grade!r} is no integer in range"
                raise InputError(message, path, lines[query_id], "grades are integers: 0, 1, 2")
            if own.setdefault(document_id, int(grade)) != int(grade):
                message = f"query {query_id!r} judges {document_id!r} twice"
                raise InputError(message, path, lines[query_id], "keep the right one")
    return lines, judged


def _texts(record: Mapping[str, Any], name: str, path: Path, line: int) -> tuple[str, ...]:
    value = record.get(name)
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(v, str) and v.strip() for v in value):
        message = f'"{name}" is {value!r:.60}'
        raise InputError(message, path, line, "expected a list of texts, none empty")
    return tuple(dict.fromkeys(value))


def _cutoff(value: object, path: Path, line: int) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(f'"k" is {value!r}', path, line, "expected an integer of 1 or more")
    return value
