"""Judged queries from a table: CSV, TSV or the first sheet of an XLSX workbook.

A row is a query with its documents (ids or names), terms and type in columns that the header line
names; rows of one query add up. A cell that holds several names or terms parts them by `;`, `|` or
line ends.
"""

from __future__ import annotations

import csv
import io
import re
import zipfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gold.faults import InputError
from gold.files import read_bytes
from gold.model import GoldQuery
from gold.sources import SourceQuery

__all__ = ["Columns", "Table", "read_spreadsheet"]

_USUAL: Final = {"terms": ("expected_terms", "terms"), "type": ("type",)}

_PARTS: Final = re.compile(r"[;|\r\n]+")
# What a workbook may unpack to: more is no table of queries.
_LARGEST: Final = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Columns:
    """Names of the columns; None for one of the usual name, if the table has it.

    Terms are usually in `expected_terms` or `terms`, the type in `type`.
    """

    query: str = "query"
    documents: str = "documents"
    terms: str | None = None
    type: str | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """The queries of a table, and the columns that were not read: by name, else by number."""

    queries: list[SourceQuery]
    unused: tuple[str, ...]


@dataclass(slots=True)
class _Row:
    text: str
    line: int
    type: str
    names: dict[str, int]
    terms: dict[str, None]


def read_spreadsheet(path: Path, columns: Columns) -> Table:
    """Read a table of judged queries; each named document gets grade 1.

    Queries are numbered `q1`, `q2`, ... in the table's order; rows whose query text is the same
    are one query. Raises `InputError` naming the row (its line in a CSV, its number in a sheet)
    for a missing or repeated column, a row with more cells than the header, documents without a
    query, two types of one query, and a cell that shows an error; naming the file for what is no
    table.
    """
    rows = _cells(path)
    line, header = next(rows, (0, []))
    if not header:
        raise InputError("the table is empty", path, fix="the first row names the columns")
    names = [cell.strip() for cell in header]
    at = {
        what: _column(names, column, path, line)
        for what, column in (
            ("query", columns.query),
            ("documents", columns.documents),
            ("terms", columns.terms),
            ("type", columns.type),
        )
        if column is not None
    }
    for what, usual in _USUAL.items():
        free = [name for name in usual if _is_free(name, names, at.values())]
        if what not in at and free:
            at[what] = _column(names, free[0], path, line)
    filled: set[int] = set()
    found: dict[str, _Row] = {}
    for line, cells in rows:
        _refuse_ragged(cells, len(names), path, line)
        filled |= {i for i, text in enumerate(cells) if text.strip()}
        cell = {what: cells[i].strip() if i < len(cells) else "" for what, i in at.items()}
        if not any(cell.values()):
            continue
        if not cell["query"]:
            raise InputError("documents or terms without a query", path, line, "fill the cell")
        kind = cell.get("type", "")
        row = found.setdefault(cell["query"], _Row(cell["query"], line, kind, {}, {}))
        if kind and row.type and kind != row.type:
            message = f"the query of row {row.line} has type {row.type!r} there, {kind!r} here"
            raise InputError(message, path, line, "give one query one type")
        row.type = row.type or kind
        row.names |= dict.fromkeys(_parts(cell["documents"]), 1)
        row.terms |= dict.fromkeys(_parts(cell.get("terms", "")))
    if not found:
        raise InputError("no query", path, fix="a row a query, below the header")
    queries = [
        SourceQuery(
            GoldQuery(f"q{number}", row.text, type=row.type, expected_terms=tuple(row.terms)),
            row.names,
            row.line,
        )
        for number, row in enumerate(found.values(), start=1)
    ]
    named = {i for i, name in enumerate(names) if name}
    unused = [
        names[i] if i in named else f"column {i + 1}"
        for i in sorted((named | filled) - set(at.values()))
    ]
    return Table(queries, tuple(unused))


def _refuse_ragged(cells: Sequence[str], width: int, path: Path, line: int) -> None:
    """Refuse a row that goes on beyond the header: all its cells may have moved by one."""
    if any(cell.strip() for cell in cells[width:]):
        last = next(cell.strip() for cell in reversed(cells) if cell.strip())
        message = f"{len(cells)} cells below a header of {width}, the last is {last!r:.60}"
        fix = "put a cell that holds the separator in quotes, or name every column"
        raise InputError(message, path, line, fix)


def _is_free(name: str, names: Sequence[str], taken: Collection[int]) -> bool:
    """Whether a table has a column of this name that is not read as something else."""
    places = {i for i, given in enumerate(names) if given.casefold() == name}
    return bool(places) and not places & set(taken)


def _column(names: Sequence[str], wanted: str, path: Path, line: int) -> int:
    places = [i for i, name in enumerate(names) if name.casefold() == wanted.strip().casefold()]
    if len(places) == 1:
        return places[0]
    if places:
        raise InputError(f"the column {wanted!r} stands twice", path, line, "rename one of them")
    shown = ", ".join(name for name in names if name)
    raise InputError(f"no column {wanted!r}", path, line, f"columns: {shown}")


def _parts(cell: str) -> list[str]:
    return [part for part in map(str.strip, _PARTS.split(cell)) if part]


def _cells(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield (row, cells as text) of each row that is not blank."""
    data = read_bytes(path)
    rows = _workbook(path, data) if data.startswith(b"PK\x03\x04") else _text_table(path, data)
    for line, cells in rows:
        if any(cell.strip() for cell in cells):
            yield line, cells


def _text_table(path: Path, data: bytes) -> Iterator[tuple[int, list[str]]]:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError("not UTF-8", path, line, "save it as CSV UTF-8") from error
    header = text.partition("\n")[0]
    # Spreadsheets of some countries part columns by semicolons and still call it CSV.
    delimiter = max(",\t;", key=lambda sign: (header.count(sign), sign == ","))
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    line = 1
    try:
        for cells in rows:
            yield line, cells
            line = rows.line_num + 1
    except csv.Error as error:
        raise InputError(f"not CSV: {error}", path, rows.line_num) from error


def _workbook(path: Path, data: bytes) -> Iterator[tuple[int, list[str]]]:
    try:
        unpacked = sum(item.file_size for item in zipfile.ZipFile(io.BytesIO(data)).infolist())
    except zipfile.BadZipFile as error:
        raise InputError("a broken workbook", path, fix="save it anew") from error
    if unpacked > _LARGEST:
        message = f"the workbook unpacks to {unpacked >> 20} MB"
        raise InputError(message, path, fix=f"at most {_LARGEST >> 20} MB; save the sheet as CSV")
    import openpyxl

    try:
        book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
        sheet = book.worksheets[0]
        for line, cells in enumerate(sheet.iter_rows(values_only=True), start=1):
            yield line, [_text(value, path, line) for value in cells]
        book.close()
    except InputError:
        raise
    except Exception as error:  # openpyxl raises whatever its parsers do
        raise InputError(
            f"no workbook that can be read: {error}", path, fix="save it anew"
        ) from error


def _text(value: Any, path: Path, line: int) -> str:
    if value is None:
        return ""
    if isinstance(value, str) and value.startswith("#") and value.endswith(("!", "?", "/A")):
        raise InputError(f"a cell shows the error {value}", path, line, "mend the formula")
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
