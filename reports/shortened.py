"""Long ids and texts on a line: the middle goes, since ids of one source often begin alike."""

import re

__all__ = ["shorten_words", "shortened"]

# The longest id that is shown whole.
LONGEST = 60


def shortened(text: str, most: int = LONGEST) -> str:
    """Return a text on one line, its middle left out where it has more than `most` characters."""
    plain = " ".join(text.split())
    return plain if len(plain) <= most else _without_middle(plain, most)


def shorten_words(text: str, most: int = LONGEST) -> str:
    """Return a sentence with each word of more than `most` characters shortened, as an id is."""
    return re.sub(rf"\S{{{most + 1},}}", lambda found: _without_middle(found[0], most), text)


def _without_middle(text: str, most: int) -> str:
    tail = (most - 1) // 3
    return f"{text[: most - 1 - tail]}…{text[len(text) - tail :]}"
