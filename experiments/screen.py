"""Tables and lines on the terminal by rich, which shows strangers' text as text."""

from typing import Any

from rich.console import Console
from rich.text import Text

from reports.visible import visible

__all__ = ["Screen", "screen"]

WIDTH_OFF_TERMINAL = 160


class Screen(Console):
    """A console that reads no markup and no control character in any string it is given.

    rich turns each string (a line, a cell, a title) into text by `render_str`, so one rule there
    holds for all of them.
    """

    def render_str(self, text: str, **given: Any) -> Text:
        """Return a string as text, control characters as their escapes."""
        plain = {"markup": False, "emoji": False, "highlight": False, "highlighter": None}
        return super().render_str(visible(text), **{**given, **plain})


def screen(*, stderr: bool = False) -> Screen:
    """Return the terminal, or off one a page of a fixed width."""
    found = Screen(stderr=stderr)
    return found if found.is_terminal else Screen(stderr=stderr, width=WIDTH_OFF_TERMINAL)
