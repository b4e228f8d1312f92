"""Terms within one edit of a mention: what BM25, which compares whole words, cannot forgive."""

from collections.abc import Iterable, Iterator
from typing import Final

__all__ = ["LEAST_CHARACTERS", "OneEdit", "is_one_edit"]

# In a shorter term one edit is another term (IL-2, IL-6; TNF, TNM).
LEAST_CHARACTERS: Final = 5

LEAST_IN_WORD: Final = 4

_Half = tuple[int, str]


def is_one_edit(one: str, other: str) -> bool:
    """Tell whether one letter inserted, deleted or replaced, or two neighbours swapped, is all.

    An edit that adds, drops or changes a digit, or is in a word of up to three characters, makes
    another term of it and does not count: CYP2C9 is no misspelling of CYP2C8, hepatitis B none of
    hepatitis C. Equal texts are no edit apart.
    """
    if one == other or abs(len(one) - len(other)) > 1:
        return False
    start = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        start += 1
    left, right = one[start:], other[start:]
    if len(left) == len(right):
        swapped = left[:2] == right[1::-1] and left[2:] == right[2:]
        if not (swapped or left[1:] == right[1:]):
            return False
        changed = left[:2] + right[:2] if swapped and left[1:] != right[1:] else left[0] + right[0]
    else:
        longer, shorter = (left, right) if len(left) > len(right) else (right, left)
        if longer[1:] != shorter:
            return False
        changed = longer[0]
    return not any(character.isdigit() for character in changed) and _in_long_word(one, other)


def _in_long_word(one: str, other: str) -> bool:
    """Tell whether two texts differ in a word of four characters or more, or in a space."""
    words, others = one.replace("-", " ").split(), other.replace("-", " ").split()
    if len(words) != len(others):
        return True
    pairs = zip(words, others, strict=True)
    return all(a == b or min(len(a), len(b)) >= LEAST_IN_WORD for a, b in pairs)


class OneEdit:
    """Look-up of terms by a mention with one slip in it.

    One edit leaves the first half of a term whole, or the second; a swap across the middle is
    undone and looked up itself. So two entries a term do, and few terms are compared.
    """

    def __init__(self, terms: Iterable[str]) -> None:
        self._first: dict[_Half, list[str]] = {}
        self._last: dict[_Half, list[str]] = {}
        self._whole: set[str] = set()
        for term in terms:
            if len(term) < LEAST_CHARACTERS or term in self._whole:
                continue
            self._whole.add(term)
            middle = len(term) // 2
            self._first.setdefault((len(term), term[:middle]), []).append(term)
            self._last.setdefault((len(term), term[middle:]), []).append(term)

    def near(self, mention: str) -> tuple[str, ...]:
        """Return the terms one edit away, in alphabetical order; none for a short mention."""
        if len(mention) < LEAST_CHARACTERS:
            return ()
        proposed = {term for term in self._proposed(mention) if is_one_edit(term, mention)}
        return tuple(sorted(proposed))

    def _proposed(self, mention: str) -> Iterator[str]:
        for length in (len(mention) - 1, len(mention), len(mention) + 1):
            middle = length // 2
            yield from self._first.get((length, mention[:middle]), ())
            yield from self._last.get((length, mention[len(mention) - (length - middle) :]), ())
        at = len(mention) // 2 - 1
        swapped = mention[:at] + mention[at + 1] + mention[at] + mention[at + 2 :]
        if swapped in self._whole:
            yield swapped
