"""Judgements from a file: BEIR's three columns or TREC's four, with or without a header line.

One reader serves `qrels/<split>.tsv` and any TREC qrels file. BEIR's own reader drops the first
line whatever it holds; this one drops it only where it names columns.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gold.faults import Fault, Sink, refuse
from gold.files import numbered_lines

_QUERY_NAMES: Final = frozenset({"query-id", "queryid", "query", "qid", "q-id", "topic"})
_DOCUMENT_NAMES: Final = frozenset({"corpus-id", "doc-id", "docid", "docno", "document-id"})
_GRADE_NAMES: Final = frozenset(
    {"score", "relevance", "relevancy", "rel", "grade", "label", "judgement", "judgment"}
)
_BLANKS: Final = re.compile(r"[ \t\v\f\r]+")
LARGEST_GRADE: Final = 1000  # 2**1000 is near the end of what a float holds
_EXPECTED: Final = "expected query-id, corpus-id and score between tabs, or TREC's four columns"


@dataclass(slots=True)
class Judgements:
    """What one file judges: query_id -> document_id -> grade, and the lines of the same pairs."""

    grades: dict[str, dict[str, int]] = field(default_factory=dict)
    lines: dict[str, dict[str, int]] = field(default_factory=dict)


def read_qrels(path: Path | str) -> dict[str, dict[str, int]]:
    """Read a TREC or BEIR qrels file: query_id -> document_id -> grade, in the file's order.

    Negative grades are kept as read, identical repeats tolerated; in the TREC layout a line that
    starts with `#` is a comment, as in trec_eval. Raises `InputError` naming file and line for a
    wrong column count, a grade that is no integer (1.0 reads as 1) or beyond 1000 either way, and
    two grades for one pair.
    """
    return read_judgements(Path(path), refuse).grades


def read_judgements(path: Path, sink: Sink) -> Judgements:
    """Read a qrels file, telling `sink` of each fault and leaving the faulty lines out.

    The first of two conflicting judgements is kept, for a sink that goes on.
    """
    rows = list(numbered_lines(path, sink))
    header = rows.pop(0) if rows and _is_header(_by_tabs_or_blanks(rows[0][1])) else None
    layout = _layout(rows)
    if layout == 4:
        rows = [row for row in rows if not row[1].startswith("#")]
    if header is not None:
        _check_order(_by_tabs_or_blanks(header[1]), path, header[0], sink)
    _check_layout(rows, layout, header is not None, path, sink)
    found = Judgements()
    for line, text in rows:
        judgement = _judgement(text, layout, path, line, sink)
        if judgement is not None:
            _add(found, *judgement, path, line, sink)
    return found


def _layout(rows: list[tuple[int, str]]) -> int:
    """Return 4 for TREC's columns, 3 for BEIR's, by the first line that is no comment."""
    first = next((text for _, text in rows if not text.startswith("#")), rows[0][1] if rows else "")
    return 4 if first.count("\t") != 2 and len(_by_blanks(first)) == 4 else 3


def _judgement(
    text: str, layout: int, path: Path, line: int, sink: Sink
) -> tuple[str, str, int] | None:
    columns = _by_blanks(text) if layout == 4 else _by_tabs_or_blanks(text)
    if len(columns) != layout:
        message = f"expected {layout} columns, got {len(columns)}"
        sink(Fault("column-count", path, line, message, _EXPECTED))
        return None
    query_id, document_id, token = columns[0], columns[-2], columns[-1]
    if layout == 3:
        if query_id.startswith('"') or document_id.startswith('"'):
            message = "a column starts with a quotation mark, which CSV readers take away"
            sink(Fault("quoted-field", path, line, message, "write ids without quotation marks"))
        query_id, document_id, token = _unquote(query_id), _unquote(document_id), _unquote(token)
    if not query_id or not document_id:
        sink(Fault("bad-id", path, line, "an empty id", "an id is a text that is not empty"))
        return None
    grade = parse_grade(token)
    if grade is None:
        message = f"the grade {token!r:.60} is not an integer"
        sink(Fault("bad-grade", path, line, message, "grades are integers: 0, 1, 2, ..."))
        return None
    if abs(grade) > LARGEST_GRADE:
        message = f"query {query_id!r}: the grade {token!r:.60} is out of range"
        fix = f"grades are integers from -{LARGEST_GRADE} to {LARGEST_GRADE}"
        sink(Fault("bad-grade", path, line, message, fix))
        return None
    return query_id, document_id, grade


def parse_grade(token: str) -> int | None:
    """Return the integer that a grade's text stands for (`1.0` is 1), or None."""
    if not token.isascii() or "_" in token:  # Python would read both as digits
        return None
    try:
        return int(token)
    except ValueError:
        pass
    try:
        value = float(token)
    except ValueError:
        return None
    return int(value) if value.is_integer() else None


def quote(column: str) -> str:
    """Return a column as CSV readers, BEIR's among them, give it back: quoted if it starts so."""
    return '"' + column.replace('"', '""') + '"' if column.startswith('"') else column


def _unquote(column: str) -> str:
    # Only a well-formed CSV quotation is taken away: `5"-HT` and `"5"-HT` stay as they are.
    if len(column) >= 2 and column[0] == column[-1] == '"':
        inner = column[1:-1]
        if '"' not in inner.replace('""', ""):
            return inner.replace('""', '"')
    return column


def _by_blanks(text: str) -> list[str]:
    # ASCII blanks alone, as in trec_eval: an id may hold a no-break space.
    return _BLANKS.split(text.strip(" \t\v\f\r"))


def _by_tabs_or_blanks(text: str) -> list[str]:
    return text.split("\t") if "\t" in text else _by_blanks(text)


def _is_header(columns: list[str]) -> bool:
    first, last = _name(columns[0]), _name(columns[-1])
    named = first in _QUERY_NAMES | _DOCUMENT_NAMES or last in _GRADE_NAMES
    return len(columns) > 1 and named and parse_grade(_unquote(columns[-1])) is None


def _name(column: str) -> str:
    return _unquote(column.strip()).casefold().replace("_", "-")


def _check_order(header: list[str], path: Path, line: int, sink: Sink) -> None:
    names = [_name(column) for column in header]
    if names[0] in _DOCUMENT_NAMES or any(name in _QUERY_NAMES for name in names[1:]):
        message = f"the header names its columns {', '.join(header)}"
        sink(Fault("column-order", path, line, message, "put query-id, corpus-id, score"))


def _check_layout(
    rows: list[tuple[int, str]], layout: int, header: bool, path: Path, sink: Sink
) -> None:
    """Tell `sink` of what this reader takes and BEIR's own does not."""
    if layout == 4 and path.suffix == ".tsv" and rows:
        message = "TREC's four columns, which BEIR's own reader cannot read"
        sink(Fault("trec-layout", path, rows[0][0], message, "write three columns"))
    if layout == 4 or not rows:
        return
    if not header:
        message = "no header line: BEIR's own reader drops the first judgement"
        fix = "start the file with query-id, corpus-id, score"
        sink(Fault("missing-header", path, rows[0][0], message, fix))
    spaced = [line for line, text in rows if "\t" not in text]
    if spaced:
        message = f"lines parted by spaces: {len(spaced)}, this one first"
        sink(Fault("space-separated", path, spaced[0], message, "BEIR's own reader needs tabs"))


def _add(
    found: Judgements,
    query_id: str,
    document_id: str,
    grade: int,
    path: Path,
    line: int,
    sink: Sink,
) -> None:
    judged = found.grades.setdefault(query_id, {})
    lines = found.lines.setdefault(query_id, {})
    if document_id not in judged:
        judged[document_id] = grade
        lines[document_id] = line
        return
    pair = f"query {query_id!r}, document {document_id!r}"
    before, first = judged[document_id], lines[document_id]
    if before == grade:
        message = f"{pair} is judged {grade} in line {first} already"
        sink(Fault("duplicate-judgement", path, line, message, "delete one of the lines"))
    else:
        message = f"{pair} is judged {grade} here and {before} in line {first}"
        sink(Fault("conflicting-judgement", path, line, message, "keep the right one"))
