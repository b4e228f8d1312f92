"""XLSX workbooks, read by openpyxl: a document a row, on every sheet."""

import datetime
import warnings
import zipfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from retriever.ingest.chunk import Document
from retriever.ingest.readers.source import RefusedFileError, Remark, Source
from retriever.ingest.readers.tables import documents_of

__all__ = ["read"]

# A workbook is a zip archive of XML; one that unpacks to more than this is not read.
MAX_UNPACKED_MB = 512
_OLE = b"\xd0\xcf\x11\xe0"


def read(source: Source) -> Iterator[Document | Remark]:
    """Yield the documents of all sheets; each has a header in its first row that is not blank.

    A formula gives the value that was stored with it; those without one are counted. Raises
    RefusedFileError for a file that is no workbook, is encrypted, or unpacks to over 512 MB.
    """
    _check_archive(source.path)
    rows = 0
    with _quiet(), closing(_open(source.path, data_only=True)) as book:
        for sheet in book.worksheets:
            sheet.reset_dimensions()  # a sheet may claim a billion cells that it does not hold
            values = (tuple(map(_shown, row)) for row in sheet.iter_rows(values_only=True))
            for item in documents_of(source, values, sheet=sheet.title):
                rows += isinstance(item, Document)
                yield item
    if not rows:
        raise RefusedFileError("empty", "no row below a header")
    if missing := _formulas_without_value(source.path):
        detail = "no value is stored with them: open the file in a spreadsheet and save it"
        yield source.remark("cut", "formulas without a value", detail, missing)


def _check_archive(path: Path) -> None:
    with path.open("rb") as stream:
        head = stream.read(4)
    if not head:
        raise RefusedFileError("empty")
    if head == _OLE:
        raise RefusedFileError("encrypted", "a workbook with a password, or one of the old form")
    try:
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(item.file_size for item in archive.infolist())
    except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        raise RefusedFileError("broken", f"no workbook: {error}") from error
    if unpacked > MAX_UNPACKED_MB * 1_000_000:
        raise RefusedFileError(
            "too large", f"{unpacked / 1e6:.0f} MB unpacked, at most {MAX_UNPACKED_MB}"
        )


def _open(path: Path, *, data_only: bool) -> Any:
    from openpyxl import load_workbook

    return load_workbook(path, read_only=True, data_only=data_only, keep_links=False)


def _formulas_without_value(path: Path) -> int:
    """Count the cells that hold a formula and no value: read both ways, side by side."""
    count = 0
    with (
        _quiet(),
        closing(_open(path, data_only=True)) as values,
        closing(_open(path, data_only=False)) as formulas,
    ):
        for one, other in zip(values.worksheets, formulas.worksheets, strict=True):
            one.reset_dimensions()
            other.reset_dimensions()
            for row, written in zip(one.iter_rows(), other.iter_rows(), strict=True):
                count += sum(
                    cell.value is None and formula.data_type == "f"
                    for cell, formula in zip(row, written, strict=True)
                )
    return count


def _shown(value: object) -> str:
    """Return a cell as a reader sees it."""
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, datetime.datetime):
        midnight = value.time() == datetime.time()
        return value.date().isoformat() if midnight else value.isoformat(" ")
    return str(value)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep openpyxl's remarks on styles and validations off the terminal."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
