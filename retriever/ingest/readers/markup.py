"""Marked-up text as blocks: one walk for HTML, for Markdown by way of HTML, and for SPL.

The walk takes events rather than a tree, so that it runs on any parser's tree and on a tree of
any depth.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from retriever.ingest.readers.blocks import Block

__all__ = ["Event", "blocks_of"]


class Event(NamedTuple):
    """The start or the end of an element, whose local name is `value`, or a piece of text."""

    kind: Literal["start", "end", "text"]
    value: str


_LEVELS = {f"h{level}": level for level in range(1, 7)}
# Elements that begin and end a block; HTML's and SPL's.
_BLOCKS = {
    *("address", "article", "aside", "blockquote", "body", "caption", "center", "dd", "details"),
    *("div", "dl", "dt", "fieldset", "figcaption", "figure", "footer", "form", "header", "hr"),
    *("html", "item", "li", "list", "main", "ol", "p", "paragraph", "pre", "section", "summary"),
    *("table", "tbody", "tfoot", "thead", "tr", "ul"),
}
# What within a list item or a table cell goes on with its line.
_PARAGRAPHS = {"p", "paragraph", "div", "center"}
_ITEMS = {"li", "item"}
_GROUPS: dict[str, Literal["items", "rows"]] = {
    **dict.fromkeys((*_ITEMS, "dt", "dd"), "items"),
    "tr": "rows",
}
_CELLS = {"td", "th"}
_CELL_BORDER = " | "


@dataclass
class _Writer:
    """The block that is being written, and those that are done."""

    parts: list[str] = field(default_factory=list)
    level: int = 0
    group: Literal["", "items", "rows"] = ""
    cells: int = 0
    raised: bool = False
    verbatim: int = 0

    def close(self) -> Iterator[Block]:
        """End the block."""
        text = "".join(self.parts).strip()
        # A row whose cells are all empty says nothing, nor does a bare bullet.
        if text.strip("|- \n"):
            yield Block(text, self.level, self.group)
        self.parts, self.level, self.group, self.cells = [], 0, "", 0

    def write(self, text: str) -> None:
        """Write text as a browser shows it: blanks and line ends are one blank."""
        if self.verbatim:
            self.parts.append(text)
            return
        words = " ".join(text.split())
        # "10<sup>6</sup>" is no 106; a trade mark or a footnote after a word needs no sign.
        if self.raised and words[:1] in "-−0123456789" and words and self._last().isdigit():
            self.parts.append("^")
        if text[:1].isspace() and self._last() not in ("", " ", "\n"):
            self.parts.append(" ")
        self.parts.append(words)
        if words and text[-1:].isspace():
            self.parts.append(" ")

    def _last(self) -> str:
        return next((part[-1] for part in reversed(self.parts) if part), "")


def blocks_of(events: Iterable[Event]) -> Iterator[Block]:
    """Yield the blocks of marked-up text: headings, paragraphs, list items, rows of tables.

    Cells of a row stand on one line with ` | ` between them, `br` ends a line, and `sup` after a
    digit is written `10^6`.
    """
    writer = _Writer()
    for kind, value in events:
        if kind == "text":
            writer.write(value)
            continue
        begins = kind == "start"
        if value in _LEVELS:
            yield from writer.close()
            writer.level = _LEVELS[value] if begins else 0
        elif value in _BLOCKS:
            if value in _PARAGRAPHS and (writer.cells or writer.group):
                writer.write(" ")
                continue
            yield from writer.close()
            if value == "pre":
                writer.verbatim += 1 if begins else -1
            if begins:
                writer.group = _GROUPS.get(value, "")
            if begins and value in _ITEMS:
                writer.parts.append("- ")
        elif value in _CELLS and begins:
            if writer.cells:
                writer.parts.append(_CELL_BORDER)
            writer.cells += 1
        elif value == "br" and begins:
            writer.parts.append(" " if writer.cells or writer.level else "\n")
        elif value in ("sup", "sub"):
            writer.raised = begins and value == "sup"
    yield from writer.close()
