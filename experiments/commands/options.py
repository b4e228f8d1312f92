"""Options that several commands take, and the exit codes of all."""

from typing import Annotated

import typer

__all__ = ["BAD_INPUT", "FAULT", "INTERRUPTED", "NEGATIVE", "Config", "Json", "Sets"]

# A fault of ours is no verdict: 70 is what sysexits.h calls EX_SOFTWARE.
NEGATIVE, BAD_INPUT, FAULT, INTERRUPTED = 1, 2, 70, 130

Config = Annotated[
    str | None, typer.Option("--config", "-c", help="A YAML file or a preset's name.")
]
Sets = Annotated[
    list[str] | None, typer.Option("--set", help="One parameter, merge.rrf_k=20; may repeat.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
