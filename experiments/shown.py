"""The one way from a command to the terminal.

Corpora, gold sets, configurations and runs hold strangers' text, and an escape sequence in it
would command the terminal. What is shown goes through `print_text` and `say`, or as tables through
`experiments.screen`; a test allows no other way.
"""

import json
import sys

from reports.visible import visible, visible_json

__all__ = ["print_json", "print_text", "say"]


def print_text(text: str) -> None:
    """Print a result on stdout."""
    print(visible(text), flush=True)


def say(text: str) -> None:
    """Print a remark on stderr."""
    print(visible(text), file=sys.stderr, flush=True)


def print_json(value: object) -> None:
    """Print one JSON object; NaN and infinity are refused with ValueError, being no JSON."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    # Where the stream cannot write a letter, JSON has an escape for it.
    plain = not encoding.lower().startswith("utf")
    text = json.dumps(value, ensure_ascii=plain, indent=1, allow_nan=False)
    print(visible_json(text), flush=True)
