"""Text of a file, made safe to show: nothing in it commands a terminal or turns the reading order.

A query's text may set a terminal's title, clear its screen, or show words in another order than
they stand in.
"""

import re

__all__ = ["visible", "visible_json"]

# Controls but tab and line feed, of C0 and C1, the marks that turn the direction of writing, the
# separators that end a line, and halves of a surrogate pair, which no encoding can write.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069"
    "\ud800-\udfff]"
)


def visible(text: str) -> str:
    r"""Return a text with every control and direction mark as its escape: `\x1b`, `\u202e`."""
    return _UNSEEN.sub(lambda found: ascii(found[0])[1:-1], text)


def visible_json(text: str) -> str:
    r"""Return JSON with the same characters as escapes of JSON, so that it says the same."""
    return _UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
