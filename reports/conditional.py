"""How many parameters of a sweep are conditional, in words: the same on terminal and page."""

from collections import Counter
from collections.abc import Mapping

__all__ = ["conditional_in_words"]

# Where a condition comes from, in the order it is told.
ORIGINS = ("declared", "narrowed", "found")


def conditional_in_words(origins: Mapping[str, str]) -> str:
    """Return the count, and of which origin they are: `3 conditional (2 declared, 1 found)`."""
    if not origins:
        return "none conditional"
    many = Counter(origins.values())
    parts = ", ".join(f"{many[one]} {one}" for one in ORIGINS if many[one])
    return f"{len(origins)} conditional ({parts})"
