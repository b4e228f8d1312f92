"""How a term is looked for in a text: in any case, on token boundaries, blanks alike."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

__all__ = ["comparable", "stands_in", "term_pattern", "tokens"]


def comparable(text: str) -> str:
    """Return a text as terms are compared: NFC, case folded, every run of blanks one space."""
    folded = unicodedata.normalize("NFC", text).casefold()
    return " ".join(unicodedata.normalize("NFC", folded).split())


@lru_cache(maxsize=4096)
def term_pattern(term: str) -> re.Pattern[str]:
    """Match a comparable term, not empty, in a comparable text where no token runs on.

    A term that ends in a sign (`5%`) has its boundary there.
    """
    # [^\W_] is a letter or digit.
    before = r"(?<![^\W_])" if term[0].isalnum() else ""
    after = r"(?![^\W_])" if term[-1].isalnum() else ""
    return re.compile(before + re.escape(term) + after)


def stands_in(term: str, text: str) -> bool:
    """Tell whether a term stands in a text. A blank term stands in none."""
    wanted = comparable(term)
    return bool(wanted) and term_pattern(wanted).search(comparable(text)) is not None


def tokens(text: str) -> tuple[str, ...]:
    """Return the runs of letters and digits of a text in order, folded: `label_E6` is label, e6."""
    return tuple(re.findall(r"[^\W_]+", comparable(text)))
