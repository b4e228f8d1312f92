"""Blocks of a page, headings and prose, laid out as the text of a document.

A heading becomes a line of its own behind `#` to `######`, by its depth: that is what
`retriever.ingest.sections` finds, whatever the format was. All formats with headings meet here, so
that one paper gives the same sections as PDF, HTML, Markdown or XML.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from retriever.ingest.readers.source import clean

__all__ = ["DEEPEST", "Block", "Page", "lay_out"]

DEEPEST = 6

# A line of prose that would read as a heading.
_FALSE_HEADING = re.compile(r"^(?= {0,3}#{1,6}[ \t])", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A paragraph, a list item or a table row; a heading where `level` is 1 (highest) to 6.

    Neighbours of one `group`, items of a list or rows of a table, stand without an empty line
    between them.
    """

    text: str
    level: int = 0
    group: Literal["", "items", "rows"] = ""


@dataclass(frozen=True)
class Page:
    """Title and text of a document."""

    title: str
    text: str


def lay_out(blocks: Iterable[Block], title: str = "", *, declared: str = "") -> Page:
    """Lay blocks out as a text.

    A heading that opens the page and is the only one of its level or above is the title, and
    leaves the text. `declared` is a title that stands whatever the headings say; `title` is one to
    fall back on.
    """
    cleaned = [Block(clean(b.text), b.level, b.group) for b in blocks]
    kept = [block for block in cleaned if block.text]
    opening = _opening_heading(kept)
    if opening and (not declared or _same(declared, opening)):
        kept, title = kept[1:], opening
    return Page(declared or title, _text(kept))


def _opening_heading(blocks: Sequence[Block]) -> str:
    if not blocks or not blocks[0].level:
        return ""
    first, *rest = blocks
    if any(0 < block.level <= first.level for block in rest):
        return ""
    return " ".join(first.text.split())


def _same(one: str, other: str) -> bool:
    return one.casefold().split() == other.casefold().split()


def _text(blocks: Sequence[Block]) -> str:
    parts: list[str] = []
    for before, block in zip([None, *blocks], blocks, strict=False):
        if before is not None:
            parts.append("\n" if block.group and block.group == before.group else "\n\n")
        if block.level:
            parts.append(f"{'#' * min(block.level, DEEPEST)} {' '.join(block.text.split())}")
        else:
            parts.append(_FALSE_HEADING.sub(r"\\", block.text))
    return "".join(parts)
