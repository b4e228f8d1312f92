"""Lines of a PDF as paragraphs and headings.

A PDF says where glyphs stand, not what they are. Headings are told by larger or bold type,
paragraphs by the gap above them, running heads by their return on page after page.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from statistics import mean, median
from typing import TYPE_CHECKING, Any, NamedTuple

from retriever.ingest.readers.blocks import DEEPEST, Block
from retriever.ingest.sections import known_section

if TYPE_CHECKING:
    from pypdf import PageObject

__all__ = ["Line", "blocks_of", "lines_of"]


@dataclass(frozen=True)
class Line:
    """One line of a page: size of its type in points, and its height on the page if known."""

    text: str
    size: float = 10.0
    bold: bool = False
    y: float | None = None


# A heading's type is this much larger than that of most of the text.
_LARGER = 1.12
_LONGEST_HEADING = 200
# Lines of one heading: on average, and of a title.
_LONGEST_RUN = 2.5
_LONGEST_TITLE = 5
_LONGEST_BOLD_HEADING = 80
# A gap between paragraphs is this much larger than the one between lines.
_GAP = 1.25
# How many lines at the top and the foot of a page may be running heads.
_RUNNING = 3
_NUMBER = re.compile(r"\d+")
_LEADERS = re.compile(r"(?: ?\.){4,}")
_BULLET = re.compile(r"[•·▪◦‣\uf0b7]\s?")
# A dash or a number may also begin a line by chance: an item follows the end of something.
_ITEM = re.compile(r"(?:[–-]|\(?[0-9a-z]{1,2}[.)])\s")
_ITEM_MAY_FOLLOW = re.compile(r"[.!?:;,][\"'”’)\]]*$")
_SENTENCE_END = re.compile(r"[.!?:;][\"'”’)\]]*$")
_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*")
_BOLD = re.compile(r"bold|black|heavy|semibold|demi", re.IGNORECASE)


def lines_of(page: "PageObject") -> list[Line]:
    """Return the lines of a page in the order in which they were drawn, blank ones left out."""
    pieces: list[_Piece] = []

    def visit(text: str, cm: list[float], tm: list[float], font: Any, font_size: float) -> None:
        if text:
            height = abs(tm[3] * cm[3]) or abs(tm[1] * cm[3]) or 1.0
            bold = font is not None and bool(_BOLD.search(str(font.get("/BaseFont", ""))))
            y = tm[5] * cm[3] + cm[5]
            pieces.append(_Piece(text, round(abs(font_size) * height, 1), bold, y))

    page.extract_text(visitor_text=visit)
    lines: list[Line] = []
    line: list[_Piece] = []
    for piece in pieces:
        first, *others = piece.text.split("\n")
        line.append(piece._replace(text=first))
        for other in others:
            lines += _line(line)
            # Only the first line of a piece stands where the piece does.
            line = [piece._replace(text=other, y=None)]
    return [*lines, *_line(line)]


class _Piece(NamedTuple):
    """What is drawn at one time."""

    text: str
    size: float
    bold: bool
    y: float | None


def _line(pieces: Sequence[_Piece]) -> Iterator[Line]:
    """Yield the line that pieces make, if it says anything: its type is that of most of it."""
    text = _LEADERS.sub(" ", "".join(piece.text for piece in pieces)).strip()
    if not text.strip(" ."):
        return
    sizes: Counter[float] = Counter()
    for piece in pieces:
        sizes[piece.size] += len(piece.text.strip())
    bold = sum(len(piece.text.strip()) for piece in pieces if piece.bold)
    y = next((piece.y for piece in pieces if piece.text.strip()), None)
    yield Line(text, sizes.most_common(1)[0][0], 2 * bold > sizes.total(), y)


def blocks_of(pages: Sequence[Sequence[Line]]) -> Iterator[Block]:
    """Yield paragraphs and headings of all pages, running heads and page numbers left out.

    A paragraph goes on over the end of a page where its sentence does. Words parted at the end of
    a line are joined.
    """
    kept = _without_running(pages)
    lines = [line for page in kept for line in page]
    if not lines:
        return
    levels = _levels(lines)
    spacing = _spacing(kept)
    join = _joiner([line.text for line in lines])
    text, level, before = "", 0, lines[0]
    for i, line in enumerate(lines):
        of_line = levels[i]
        goes_on = i > 0 and of_line == level and _goes_on(before, line, of_line, spacing)
        if text and goes_on:
            text = join(text, line.text)
        else:
            if text:
                yield Block(text, level)
            text, level = line.text, of_line
        before = line
    yield Block(text, level)


def _goes_on(before: Line, line: Line, level: int, spacing: float) -> bool:
    """Whether a line goes on with the paragraph, or the heading, of the line before."""
    gap = None if before.y is None or line.y is None else before.y - line.y
    if level:
        # A second heading of one size starts with its own number.
        numbered = re.match(r"\d+(?:\.\d+)*\.?\s", line.text)
        return not numbered and (gap is None or 0 <= gap <= 1.6 * max(line.size, before.size))
    if _BULLET.match(line.text):
        return False
    if _ITEM.match(line.text) and _ITEM_MAY_FOLLOW.search(before.text):
        return False
    if gap is not None and 0 <= gap <= _GAP * spacing:
        return True
    if gap is None:
        return True
    # Another page or column: the sentence says whether it is the same paragraph.
    ended = _SENTENCE_END.search(before.text)
    return gap < 0 and not ended


def _without_running(pages: Sequence[Sequence[Line]]) -> list[list[Line]]:
    """Drop from the top and the foot of pages what stands there on half of them, digits aside."""

    def edges(page: Sequence[Line]) -> list[int]:
        count = len(page)
        return sorted({*range(min(_RUNNING, count)), *range(max(count - _RUNNING, 0), count)})

    def normal(line: Line) -> str:
        return _NUMBER.sub("#", " ".join(line.text.casefold().split()))

    seen = Counter(text for page in pages for text in {normal(page[i]) for i in edges(page)})
    often = max(3, len(pages) / 2)
    return [
        [
            line
            for i, line in enumerate(page)
            if i not in set(edges(page)) or seen[normal(line)] < often
        ]
        for page in pages
    ]


def _spacing(pages: Sequence[Sequence[Line]]) -> float:
    """Return the usual distance between two lines, in points."""
    gaps = [
        one.y - other.y
        for page in pages
        for one, other in pairwise(page)
        if one.y is not None and other.y is not None and one.size == other.size
    ]
    usual = [gap for gap in gaps if 0 < gap < 60]
    return median(usual) if usual else 12.0


def _levels(lines: Sequence[Line]) -> list[int]:
    """Return the level of each line as a heading, 0 for prose.

    Sizes above the text's, largest first, are the levels from 1; bold lines of its own size come
    below them, those that name a known section above the others.
    """
    sizes: Counter[float] = Counter()
    bold = 0
    for line in lines:
        sizes[line.size] += len(line.text)
        bold += len(line.text) if line.bold else 0
    body = sizes.most_common(1)[0][0]
    mostly_bold = 2 * bold > sizes.total()
    runs: dict[float, list[int]] = {}
    for size, run in groupby(lines, key=lambda line: line.size):
        if size >= _LARGER * body:
            runs.setdefault(size, []).append(sum(1 for _ in run))
    # Type that fills paragraphs is no heading's, though most of a page be notes in smaller type.
    larger = [
        size
        for size, found in runs.items()
        if mean(found) <= _LONGEST_RUN or sum(found) <= _LONGEST_TITLE
    ]
    rank = {size: i for i, size in enumerate(sorted(larger, reverse=True), start=1)}
    below = len(rank) + 1
    levels = []
    for line in lines:
        level = 0
        if line.size in rank and _reads_as_heading(line.text, _LONGEST_HEADING):
            level = rank[line.size]
        elif (
            line.bold
            and not mostly_bold
            and line.size >= body
            and _reads_as_heading(line.text, _LONGEST_BOLD_HEADING)
            and not line.text.endswith((".", ",", ";"))
        ):
            level = below if known_section(line.text) else below + 1
        levels.append(min(level, DEEPEST))
    return levels


def _reads_as_heading(text: str, longest: int) -> bool:
    return len(text) <= longest and any(character.isalpha() for character in text)


class _joiner:  # noqa: N801 - called like the function that it is
    """Joins two lines of a paragraph; the document's own words say what a hyphen at the end is."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._words = Counter(
            word.casefold() for line in lines for word in _WORD.findall(line.rstrip("-"))
        )
        parted = kept = 0
        for one, other in pairwise(lines):
            if pair := self._pair(one, other):
                parted += self._words[pair[0]] > 0
                kept += self._words[pair[1]] > 0
        self._usually_parted = parted > kept

    def __call__(self, text: str, line: str) -> str:
        if not re.search(r"\w-$", text):
            return f"{text} {line}"
        pair = self._pair(text, line)
        if pair is None:  # "IL-" and "2": the hyphen is the word's own
            return f"{text}{line}"
        joined, hyphenated = self._words[pair[0]], self._words[pair[1]]
        parted = joined > hyphenated if joined or hyphenated else self._usually_parted
        return f"{text[:-1]}{line}" if parted else f"{text}{line}"

    @staticmethod
    def _pair(one: str, other: str) -> tuple[str, str] | None:
        """Return a word parted at the end of a line, joined and with its hyphen."""
        left = re.search(r"([^\W\d_]+(?:-[^\W\d_]+)*)-$", one[-60:])
        right = re.match(r"[^\W\d_]+", other)
        if not left or not right or not right[0][0].islower():
            return None
        head, tail = left[1].casefold(), right[0].casefold()
        return f"{head}{tail}", f"{head}-{tail}"
