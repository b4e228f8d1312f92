"""Words that say what an image shows, in a query or in a caption."""

import re
from functools import cache

__all__ = ["any_of"]


@cache
def any_of(phrases: tuple[str, ...]) -> re.Pattern[str]:
    """Match any of some phrases, in the singular or with an s; nothing where there are none."""
    each = (rf"(?<!\w){re.escape(phrase)}s?(?!\w)" for phrase in phrases)
    return re.compile("|".join(each) or r"(?!)", re.IGNORECASE)
