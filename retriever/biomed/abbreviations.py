"""Abbreviations that a document introduces: "long form (ABBR)" and "ABBR (long form)".

The rule is that of Schwartz and Hearst, A simple algorithm for identifying abbreviation
definitions in biomedical text (PSB 2003): read from the right, every letter and digit of the short
form is found in the long form in order, its first one at the beginning of a word.

One thing is stricter than in the paper: a short form holds a capital letter, since "(in)" would
otherwise be defined by any phrase before it that begins with i and holds an n.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

__all__ = ["Definition", "definitions"]

LONGEST_SHORT_FORM: Final = 10
_PARENTHESIS: Final = re.compile(r"\(([^()]{2,200})\)")
_SENTENCE_END: Final = re.compile(r"[.!?;:]\s")
_WORD: Final = re.compile(r"\S+")
_FURTHER: Final = re.compile(r"[,;] ")


@dataclass(frozen=True, slots=True)
class Definition:
    """`short` stands for `text[start:end]` in the document that says so."""

    short: str
    start: int
    end: int


def definitions(text: str) -> tuple[Definition, ...]:
    """Return the abbreviations that a text defines, in order of place.

    A short form has 2 to 10 characters, two words at most, a letter or digit first and a capital
    letter. A long form has at most min(n + 5, 2 n) words for n characters of the short form, stands
    within one sentence, and is longer than the short form. A short form that is defined twice has
    two entries.
    """
    return tuple(_definitions(text))


def _definitions(text: str) -> Iterator[Definition]:
    for parenthesis in _PARENTHESIS.finditer(text):
        before = _sentence_before(text, parenthesis.start())
        inner = _FURTHER.split(parenthesis.group(1))[0].strip()
        if _is_short(inner):
            found = _long_form(inner, text, *before)
            if found is not None:
                yield Definition(inner, *found)
            continue
        words = text[slice(*before)].split()
        short = words[-1] if words else ""
        if _is_short(short):
            start = parenthesis.start() + 1
            found = _long_form(short, text, start, start + len(parenthesis.group(1).rstrip()))
            if found is not None:
                yield Definition(short, *found)


def _is_short(text: str) -> bool:
    return (
        2 <= len(text) <= LONGEST_SHORT_FORM
        and len(text.split()) <= 2
        and text[0].isalnum()
        and any(character.isupper() for character in text)
    )


def _sentence_before(text: str, end: int) -> tuple[int, int]:
    """Return where the words before a parenthesis lie, back to the beginning of the sentence."""
    begin = max(0, end - 200)
    for match in _SENTENCE_END.finditer(text, begin, end):
        begin = match.end()
    return begin, begin + len(text[begin:end].rstrip())


def _long_form(short: str, text: str, begin: int, end: int) -> tuple[int, int] | None:
    """Return the span of the long form that ends at `end`, or None where there is none."""
    words = list(_WORD.finditer(text, begin, end))
    most = min(len(short) + 5, 2 * len(short))
    if not words:
        return None
    start = _aligned(short, text, words[-most:][0].start(), end)
    if start is None or end - start <= len(short) or short in text[start:end].split():
        return None
    return start, end


def _aligned(short: str, text: str, begin: int, end: int) -> int | None:
    """Find the letters and digits of `short` in `text[begin:end]` from the right.

    Returns the place of the first one, which begins a word; None where they are not all there.
    """
    place = end
    for i in range(len(short) - 1, -1, -1):
        wanted = short[i].lower()
        if not wanted.isalnum():
            continue
        place -= 1
        while place >= begin and (
            text[place].lower() != wanted
            or (i == 0 and place > begin and text[place - 1].isalnum())
        ):
            place -= 1
        if place < begin:
            return None
    return place
