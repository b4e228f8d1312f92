"""Documents to chunks: cut at sentences, never across a section, within a budget of tokens."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from retriever.ingest.sections import split_sections

__all__ = [
    "Chunk",
    "Document",
    "chunk_document",
    "chunk_documents",
    "sentence_starts",
    "word_spans",
]

# (start, end) of each token of a text, in characters.
Spans = Sequence[tuple[int, int]]

_SUMMARY_CHARACTERS = 200
# Documents tokenised in one call: many enough for the tokenizer's threads, few enough for memory.
_BLOCK = 256


@dataclass(frozen=True)
class Document:
    """One document as read from its source; `name` is what people call it."""

    document_id: str
    title: str
    text: str
    metadata: Mapping[str, Any] = field(hash=False)
    name: str
    path: str = ""
    file_name: str = ""
    tags: tuple[str, ...] = ()
    kb_name: str = ""
    source_uri: str = ""


@dataclass(frozen=True)
class Chunk:
    """One retrieval unit: `text` is the document's title, a line break and a part of its text.

    `section` is the part's section; where one chunk holds a whole document, the names of all its
    sections with spaces between. `content_summary` is the beginning of the section (of the text,
    in a whole document), the same for all its chunks. `chunk_id` is the document id and the
    position in four digits, so that ids sort by position up to the 10,000th chunk of a document.
    """

    chunk_id: str
    document_id: str
    position: int
    section: str
    text: str
    content_summary: str


def word_spans(text: str) -> list[tuple[int, int]]:
    """Return words and single punctuation marks as spans: tokens where no tokenizer is at hand."""
    return [match.span() for match in re.finditer(r"\w+|[^\w\s]", text)]


def chunk_document(
    document: Document,
    tokens: Callable[[str], Spans],
    *,
    max_tokens: int | None = 256,
    overlap: int = 32,
) -> list[Chunk]:
    """Cut one document; see `chunk_documents`. `tokens` takes one text and gives its spans."""

    def batch(texts: Sequence[str]) -> Sequence[Spans]:
        return [tokens(text) for text in texts]

    return list(chunk_documents([document], batch, max_tokens=max_tokens, overlap=overlap))


def chunk_documents(
    documents: Iterable[Document],
    tokens: Callable[[Sequence[str]], Sequence[Spans]],
    *,
    max_tokens: int | None = 256,
    overlap: int = 32,
) -> Iterator[Chunk]:
    """Yield the chunks of each document in turn.

    `tokens` gives the tokens of several texts at once, without special tokens and uncut. A
    document of up to `max_tokens`, its title included, is one chunk; `max_tokens` None makes every
    document one chunk, and `tokens` is not called. A longer one is cut inside its sections, after
    as many whole sentences as fit; a sentence that does not fit is cut between words, and a word
    that does not fit between tokens. A chunk repeats from the one before, in the same section, as
    many whole sentences as `overlap` tokens hold (after a cut inside a sentence: words).

    Every chunk begins with the title, which counts: whole in the first one, and cut to half of
    `max_tokens` in those that follow. Every character of the text but the white space around a
    chunk is in some chunk. A document without text is one chunk of its title, one without either
    gives none.

    No chunk has more than `max_tokens` when tokenised alone, provided that the tokenizer works
    word by word (WordPiece does) and gives no single character more tokens than there is room.

    Raises ValueError for `max_tokens` under 2 or an `overlap` that is not below it.
    """
    if max_tokens is None:
        return (chunk for doc in documents for chunk in _whole(doc, _head(doc.title)))
    if max_tokens < 2 or not 0 <= overlap < max_tokens:
        raise ValueError(
            f"max_tokens {max_tokens} and overlap {overlap}: 0 <= overlap < max_tokens"
        )
    return _chunks(documents, tokens, max_tokens, overlap)


def sentence_starts(text: str) -> list[int]:
    """Return where each sentence of `text` begins, in characters; the first is at 0.

    A sentence ends at `.`, `!` or `?` with white space after it, where the next one begins with a
    capital, a digit or a mixed name such as p53 or mTOR; at a mark that stands alone, as in
    tokenised text; at an empty line; and before the item of a list. It does not end after an
    abbreviation ("et al.", "e.g.", "i.v.", "Fig. 2", "No. 5"), after an initial or the genus of a
    species ("J. Smith", "S. Typhimurium", but "vitamin D. We"), or after the number of an item.
    """
    starts = [0]
    for match in _SENTENCE_END.finditer(text):
        if match.end() < len(text) and (
            match["mark"] is None or _ends_sentence(text, starts[-1], match)
        ):
            starts.append(match.end())
    return starts


_ITEM = r"(?=[ \t]*(?:[-*\u2022]|\d{1,2}[.)])[ \t])"
_SENTENCE_END = re.compile(
    rf"(?<![.!?])(?P<mark>[.!?]+[\"'\u201d\u2019)\]]*)\s+|\n[^\S\n]*\n\s*|\n{_ITEM}"
)
_BREAK = re.compile(rf"\s*\n(?:[^\S\n]*\n|{_ITEM})")
_NEXT = re.compile(r"[\"'\u201c\u2018(\[]*(?:[^\W_a-z]|[a-z]{1,4}[A-Z0-9])")
_ABBREVIATIONS = re.compile(
    r"al|approx|ca|cf|co|corp|dr|eqs?|figs?|inc|ltd|mrs?|ms|prof|refs?|st|viz|vs|"
    r"(?:[^\W\d_]{1,2}\.)+[^\W\d_]{1,2}",
    re.IGNORECASE,
)
_BEFORE_NUMBERS = re.compile(r"ch|nos?|pp?|sec|tab|vol", re.IGNORECASE)
# After one of these a single capital is a value that may end its sentence, no initial.
_LABELLED = re.compile(
    r"\b(?:arm|class|cohort|factor|grade|group|hepatitis|influenza|panel|phase|stage|type|vitamin)s?"
    r"\s+[A-Z]$",
    re.IGNORECASE,
)


def _ends_sentence(text: str, begin: int, match: re.Match[str]) -> bool:
    """Whether a sentence that began at `begin` ends with the mark of `match`."""
    if _BREAK.match(text, match.end("mark")):
        return True
    # The last words decide; a text without ends must not be looked through again and again.
    words = text[max(begin, match.start() - 80) : match.start()]
    if words[-1:].isspace() and len(match["mark"]) == 1:
        return True
    if not _NEXT.match(text, match.end()):
        return False
    if match["mark"] != "." or not words:
        return True
    word = words.split()[-1].lstrip("([\"'")
    if word == words and word.isdigit() and len(word) <= 2:
        return False
    if len(word) == 1 and word.isupper():
        return _LABELLED.search(words) is not None
    if _BEFORE_NUMBERS.fullmatch(word):
        return not text[match.end()].isdigit()
    return _ABBREVIATIONS.fullmatch(word) is None


@dataclass(frozen=True)
class _Layout:
    """Where a text may be cut.

    Border i lies at character `at[i]` with `before[i]` tokens before it. `words` and `sentences`
    are the borders, in rising order and from 0, that white space or the end of a sentence precedes;
    the tokens between two of `words` are those that their text alone would have.
    """

    text: str
    at: list[int]
    before: list[int]
    words: list[int]
    sentences: list[int]
    count: Callable[[str], int]

    @classmethod
    def of(
        cls, text: str, spans: Spans, count: Callable[[str], int], starts: Iterable[int]
    ) -> "_Layout":
        """Lay out `text` with the tokens `spans` and sentences that begin at `starts`."""
        at, before, end = [0], [0], 0
        for tokens, (start, stop) in enumerate(spans):
            # Tokens that share characters, as the letters of a Hangul syllable do, stay together.
            if tokens and start >= end and start > at[-1]:
                at.append(start)
                before.append(tokens)
            end = max(end, stop)
        at.append(len(text))
        before.append(len(spans))
        last = len(at) - 1
        inner = [i for i in range(1, last) if text[at[i] - 1] in " \t\r\n"]
        sentences = sorted({0, last, *(bisect_left(at, start) for start in starts)})
        return cls(text, at, before, [0, *inner, last], sentences, count)

    def piece(self, begin: int, done: int, last: int, room: int) -> tuple[int, int]:
        """Return the borders of the next piece of at most `room` tokens.

        It starts at `begin`, to repeat what lies up to `done`, or at `done`, and holds something
        new: as many sentences as fit, else words, else tokens; at least one token.
        """
        for borders in (self.sentences, self.words):
            for start in (begin, done):
                end = borders[bisect_right(borders, self._limit(start, last, room)) - 1]
                if end > done and self._fits(start, end, room):
                    return start, end
        end = max(self._limit(done, last, room), done + 1)
        while end > done + 1 and not self._fits(done, end, room):
            end -= 1
        return done, end

    def repeated(self, start: int, end: int, overlap: int) -> int:
        """Return from where the piece after (start, end) repeats it: whole sentences or words."""
        lowest = max(start + 1, bisect_left(self.before, self.before[end] - overlap))
        for borders in (self.sentences, self.words):
            if _holds(borders, end):
                return borders[bisect_left(borders, lowest)]
        return end

    def _limit(self, start: int, last: int, room: int) -> int:
        return min(last, bisect_right(self.before, self.before[start] + room) - 1)

    def _fits(self, start: int, end: int, room: int) -> bool:
        """Whether the piece still fits when tokenised alone: a part of a word may not."""
        if _holds(self.words, start) and _holds(self.words, end):
            return True
        return self.count(self.text[self.at[start] : self.at[end]]) <= room


def _holds(borders: Sequence[int], border: int) -> bool:
    """Whether sorted `borders`, of which none is beyond the text's last, hold `border`."""
    return borders[bisect_left(borders, border)] == border


def _chunks(
    documents: Iterable[Document],
    tokens: Callable[[Sequence[str]], Sequence[Spans]],
    max_tokens: int,
    overlap: int,
) -> Iterator[Chunk]:
    def count(text: str) -> int:
        return len(tokens([text])[0])

    stream = iter(documents)
    while block := list(islice(stream, _BLOCK)):
        heads = [_head(document.title) for document in block]
        spans = tokens([*heads, *(document.text for document in block)])
        for document, head, of_head, of_text in zip(
            block, heads, spans[: len(block)], spans[len(block) :], strict=True
        ):
            if len(of_head) + len(of_text) <= max_tokens:
                yield from _whole(document, head)
                continue
            # The first chunk has the whole title, and room for a token of the text at least.
            budgets = (max_tokens - 1, max_tokens // 2)
            cut = [_cut(head, of_head, budget, count) for budget in budgets]
            if document.text.strip():
                rooms = [(part, max_tokens - tokens_of) for part, tokens_of in cut]
                yield from _parts(document, of_text, count, rooms, overlap)
            else:
                yield from _whole(document, cut[0][0])


def _head(title: str) -> str:
    return f"{title.strip()}\n" if title.strip() else ""


def _cut(head: str, spans: Spans, budget: int, count: Callable[[str], int]) -> tuple[str, int]:
    """Return as much of the line `head` as `budget` tokens hold, and the number of its tokens."""
    if len(spans) <= budget:
        return head, len(spans)
    layout = _Layout.of(head, spans, count, starts=())
    _, end = layout.piece(0, 0, len(layout.at) - 1, budget)
    part = _head(head[: layout.at[end]])
    return part, count(part)


def _parts(
    document: Document,
    spans: Spans,
    count: Callable[[str], int],
    rooms: Iterable[tuple[str, int]],
    overlap: int,
) -> Iterator[Chunk]:
    """Yield the chunks of a document that does not fit into one.

    `rooms` has the head of the first chunk and of all others, each with the tokens it leaves.
    """
    (head, room), later = rooms
    sections = split_sections(document.text)
    starts = [*sentence_starts(document.text), *(section.start for section in sections)]
    layout = _Layout.of(document.text, spans, count, starts)
    position = 0
    for section in sections:
        summary = document.text[section.start : section.end]
        begin = done = bisect_left(layout.at, section.start)
        last = bisect_left(layout.at, section.end)
        while done < last:
            start, end = layout.piece(begin, done, last, room)
            body = document.text[layout.at[start] : layout.at[end]].strip()
            begin, done = layout.repeated(start, end, overlap), end
            if body:
                yield _chunk(document, position, section.name, head + body, summary)
                position += 1
                head, room = later


def _whole(document: Document, head: str) -> Iterator[Chunk]:
    """Yield the one chunk of a document that is not cut; none where there is nothing to show."""
    text = (head + document.text.strip()).strip()
    if text:
        names = " ".join(section.name for section in split_sections(document.text)).split()
        yield _chunk(document, 0, " ".join(dict.fromkeys(names)), text, document.text)


def _chunk(document: Document, position: int, section: str, text: str, summary: str) -> Chunk:
    return Chunk(
        chunk_id=f"{document.document_id}#{position:04d}",
        document_id=document.document_id,
        position=position,
        section=section,
        text=text,
        content_summary=summary.strip()[:_SUMMARY_CHARACTERS],
    )
