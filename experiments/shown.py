"""Text of a file as rich shows it."""

from rich.text import Text

from reports.visible import visible

__all__ = ["shown_text"]


def shown_text(text: str) -> Text:
    """Return a text without markup, control characters or direction marks."""
    return Text(visible(text))
