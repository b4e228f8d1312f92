"""What a reader is given, and what it gives: documents, and remarks on what it left out."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from retriever.ingest.chunk import Document
from retriever.ingest.record import document_of

__all__ = [
    "MAX_CHARACTERS",
    "RefusedFileError",
    "Remark",
    "Source",
    "Text",
    "clean",
    "decode",
    "listed",
]

# The most of one document that is read, in characters: some 1,500 pages.
MAX_CHARACTERS = 5_000_000

_UNUSABLE = re.compile(r"[\0-\x08\x0b\x0e-\x1f\x7f\ud800-\udfff]")
_BLANKS = re.compile(r"[\s\x00-\x1f\x7f\x85\ufeff]")
_MANY_BLANKS = re.compile(r"[^\S\n]+")
_MANY_LINES = re.compile(r"\n{3,}")
_BYTE_ORDER_MARKS = (
    (b"\xef\xbb\xbf", "utf-8-sig"),
    (b"\xff\xfe\0\0", "utf-32"),
    (b"\0\0\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)


@dataclass(frozen=True)
class Remark:
    """Something of a file that is not in the index as it stands in the file.

    `skipped`: not indexed at all, `cut`: only a part is, `repaired`: read in another way than its
    form says. `path` is the file's path below the folder; `reason` one of few, to count by;
    `count` how many rows, pages or documents it holds for.
    """

    kind: Literal["skipped", "cut", "repaired"]
    path: str
    reason: str
    detail: str = ""
    count: int = 1

    def __post_init__(self) -> None:
        # A name may hold bytes that are no text, or command a terminal.
        plain = self.path.encode("utf-8", "backslashreplace").decode()
        shown = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in plain)
        object.__setattr__(self, "path", shown)


class RefusedFileError(Exception):
    """A file that gives no document: the reason, one of few, and the detail."""

    def __init__(self, reason: str, detail: str = "") -> None:
        self.reason, self.detail = reason, detail
        super().__init__(f"{reason}: {detail}" if detail else reason)


class Text(NamedTuple):
    """Decoded text, and the remark where it was not what it says it is."""

    text: str
    remarks: tuple[Remark, ...] = ()


@dataclass(frozen=True)
class Source:
    """One file below the folder that is read; `place` is its path there, with `/`."""

    path: Path
    place: str

    def document(
        self,
        title: str,
        text: str,
        metadata: Mapping[str, Any] | None = None,
        *,
        row: str = "",
        document_id: str | None = None,
    ) -> Document:
        """Make a document of the file or, with `row`, of a part of it.

        Raises InputError for metadata that no document can have.
        """
        record = {
            "_id": document_id,
            "title": " ".join(clean(title).split()),
            "text": clean(text),
            "metadata": dict(metadata or {}),
        }
        return self.document_of(record, row=row)

    def document_of(
        self, record: Mapping[str, Any], *, row: str = "", line: int | None = None
    ) -> Document:
        """Make a document of a record in the form of a corpus line.

        Without an id of its own it is named by path, and by row in a file of several; the file's
        name is that of a file of one document alone. A blank in a path is written as in a URL,
        `%20`: run files know no ids with blanks.
        """
        place = f"{self.place}#{row}" if row else self.place
        return document_of(
            record,
            self.path,
            line,
            place=_BLANKS.sub(lambda blank: _in_url(blank[0]), place),
            path=self.place,
            file_name="" if row else self.path.name,
        )

    def remark(
        self,
        kind: Literal["skipped", "cut", "repaired"],
        reason: str,
        detail: str = "",
        count: int = 1,
    ) -> Remark:
        """Return a remark on this file."""
        return Remark(kind, self.place, reason, detail, count)


def listed(name: str, numbers: Iterable[int], at_most: int = 5) -> str:
    """Name the first few of some numbered parts: "rows 3, 7 and 12 more"."""
    every = list(numbers)
    shown = ", ".join(map(str, every[:at_most]))
    more = f" and {len(every) - at_most} more" if len(every) > at_most else ""
    return f"{name} {shown}{more}"


def clean(text: str) -> str:
    """Return text that an index can hold and sentences can be found in.

    Control characters and lone surrogates go, line ends become line feeds, runs of
    blanks one blank, and runs of empty lines one empty line.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\x0c", "\n")
    text = _MANY_BLANKS.sub(" ", _UNUSABLE.sub("", text).replace("\u00ad", ""))
    return _MANY_LINES.sub("\n\n", text.replace(" \n", "\n").replace("\n ", "\n")).strip()


def decode(source: Source, content: bytes) -> Text:
    """Decode a text file: by its byte-order mark, else UTF-8, else Windows-1252 with a remark.

    Raises RefusedFileError for an empty file and for one that is no text.
    """
    if not content.strip():
        raise RefusedFileError("empty")
    for mark, encoding in _BYTE_ORDER_MARKS:
        if content.startswith(mark):
            try:
                return Text(content.decode(encoding))
            except UnicodeDecodeError as error:
                raise RefusedFileError("broken", f"not {encoding.upper()}: {error.reason}") from (
                    error
                )
    if b"\0" in content:
        raise RefusedFileError("broken", "it holds NUL bytes, so it is no text")
    try:
        return Text(content.decode("utf-8"))
    except UnicodeDecodeError:
        remark = source.remark("repaired", "not UTF-8", "read as Windows-1252")
        return Text(content.decode("cp1252", "replace"), (remark,))


def _in_url(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode())
