"""Readers of files, one module a format, chosen by suffix.

A reader takes a `Source` and yields documents and remarks. It raises RefusedFileError where the
file gives none; any other error that a damaged file provokes in a library is turned into one by
`retriever.ingest.folder`. Nothing here is imported before a file needs it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import cast

from retriever.ingest.chunk import Document
from retriever.ingest.readers.source import Remark, Source

__all__ = ["LIBRARIES", "READERS", "Reader", "reader_of"]

Read = Callable[[Source], Iterator[Document | Remark]]

# What decides, beside our own code, which text a file gives.
LIBRARIES = ("beautifulsoup4", "lxml", "markdown-it-py", "openpyxl", "pypdf", "rdkit")


@dataclass(frozen=True)
class Reader:
    """A function of a module of this package, and the largest file that it takes, in MB."""

    module: str
    function: str = "read"
    max_mb: int = 200

    def load(self) -> Read:
        """Import the reader."""
        module = import_module(f"retriever.ingest.readers.{self.module}")
        return cast(Read, getattr(module, self.function))


_HTML, _MARKDOWN, _TEXT = Reader("html_page"), Reader("markdown"), Reader("plain_text")
_TABLE, _WORKBOOK = Reader("delimited", max_mb=2_000), Reader("workbook")
_LINES = Reader("json_files", "read_lines", max_mb=20_000)
_IMAGE = Reader("image")

READERS = {
    ".pdf": Reader("pdf", max_mb=500),
    **dict.fromkeys((".html", ".htm", ".xhtml"), _HTML),
    **dict.fromkeys((".md", ".markdown"), _MARKDOWN),
    **dict.fromkeys((".txt", ".text"), _TEXT),
    **dict.fromkeys((".csv", ".tsv", ".tab"), _TABLE),
    **dict.fromkeys((".xlsx", ".xlsm"), _WORKBOOK),
    ".sdf": Reader("structures", "read_sdf", max_mb=20_000),
    **dict.fromkeys((".smi", ".smiles"), Reader("structures", "read_smiles", max_mb=2_000)),
    ".xml": Reader("spl"),
    ".json": Reader("json_files", max_mb=2_000),
    **dict.fromkeys((".jsonl", ".ndjson"), _LINES),
    **dict.fromkeys((".png", ".jpg", ".jpeg", ".tif", ".tiff", ".gif", ".bmp", ".webp"), _IMAGE),
}


def reader_of(path: Path) -> Reader | None:
    """Return the reader of a file by its suffix, in any case; None where there is none."""
    return READERS.get(path.suffix.lower())
