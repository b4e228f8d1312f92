"""PDF files with a text layer, read by pypdf."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retriever.ingest.chunk import Document
from retriever.ingest.readers.blocks import lay_out
from retriever.ingest.readers.pdf_lines import Line, blocks_of, lines_of
from retriever.ingest.readers.source import (
    MAX_CHARACTERS,
    RefusedFileError,
    Remark,
    Source,
    listed,
)

if TYPE_CHECKING:
    from pypdf import PageObject, PdfReader

__all__ = ["MAX_PAGES", "read"]

MAX_PAGES = 3_000

# What programs write into a title when nobody gave one.
_NO_TITLES = (".doc", ".docx", ".indd", ".pdf", ".qxd", ".tex", ".dvi", ".ppt", ".pptx", ".xls")
_NO_TITLE_STARTS = ("microsoft word", "microsoft powerpoint", "untitled", "powerpoint presentation")


def read(source: Source) -> Iterator[Document | Remark]:
    """Yield the one document of a PDF file.

    Pages beyond 3,000, or beyond 5 million characters, are cut and counted; so are pages that
    cannot be read and those that are pictures without text. Raises RefusedFileError for a file
    that is broken, encrypted, or holds no text at all.
    """
    with _quiet(), source.path.open("rb") as stream:
        head = stream.read(1024)
        if not head.strip():
            raise RefusedFileError("empty")
        if b"%PDF-" not in head:
            raise RefusedFileError("broken", f"no PDF: it begins with {head[:16]!r}")
        reader = _open(source.path)
        pages, remarks = _pages(source, reader)
        title = _title(reader)
    if not any(line.text.strip() for page in pages for line in page):
        raise RefusedFileError("no text", "a scan, which needs text recognition (OCR) first")
    page = lay_out(blocks_of(pages), title)
    yield from remarks
    yield source.document(page.title, page.text)


def _open(path: Path) -> "PdfReader":
    from pypdf import PdfReader
    from pypdf.errors import PyPdfError

    try:
        reader = PdfReader(path, strict=False)
        # Many files are encrypted with an empty password, to forbid printing.
        if reader.is_encrypted and not reader.decrypt(""):
            raise RefusedFileError("encrypted", "it needs a password")
        if not len(reader.pages):
            raise RefusedFileError("broken", "it has no page")
    except RefusedFileError:
        raise
    except PyPdfError as error:
        raise RefusedFileError("broken", _first_line(error)) from error
    except Exception as error:
        raise RefusedFileError("broken", f"{type(error).__name__}: {_first_line(error)}") from error
    return reader


def _pages(source: Source, reader: "PdfReader") -> tuple[list[list[Line]], list[Remark]]:
    """Lines by page, and remarks on what is not read of the file."""
    pages: list[list[Line]] = []
    failed: list[int] = []
    pictures: list[int] = []
    characters, total = 0, len(reader.pages)
    for number in range(1, min(total, MAX_PAGES) + 1):
        try:
            page = reader.pages[number - 1]
            lines = lines_of(page)
            if not lines and _is_picture(page):
                pictures.append(number)
        except Exception:  # noqa: BLE001 - one damaged page is no reason to lose the others
            failed.append(number)
            continue
        pages.append(lines)
        characters += sum(len(line.text) for line in lines)
        if characters > MAX_CHARACTERS:
            break
    if failed and not characters:
        raise RefusedFileError("broken", f"{listed('pages', failed)} cannot be read")
    remarks = []
    left = total - len(pages) - len(failed)
    if left:
        remarks.append(source.remark("cut", "too many pages", f"{left} of {total} not read", left))
    if failed:
        detail = listed("pages", failed)
        remarks.append(source.remark("cut", "broken pages", detail, len(failed)))
    if pictures and characters:
        detail = listed("pages", pictures)
        remarks.append(source.remark("cut", "pages without text", detail, len(pictures)))
    return pages, remarks


def _is_picture(page: "PageObject") -> bool:
    """Whether a page without text shows an image."""
    resources: Any = page.get("/Resources", {})
    objects: Any = resources.get_object().get("/XObject", {})
    forms = objects.get_object().values()
    return any(form.get_object().get("/Subtype") in ("/Image", "/Form") for form in forms)


def _title(reader: "PdfReader") -> str:
    """Return the title in the file's properties, unless a program made it up."""
    try:
        title = str((reader.metadata and reader.metadata.title) or "").strip()
    except Exception:  # noqa: BLE001 - damaged properties are no reason to lose the text
        return ""
    folded = title.casefold()
    if folded.endswith(_NO_TITLES) or folded.startswith(_NO_TITLE_STARTS):
        return ""
    return title


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "") or type(error).__name__


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep pypdf's remarks on oddities off the terminal: what is lost is said by us."""
    logger = logging.getLogger("pypdf")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)
