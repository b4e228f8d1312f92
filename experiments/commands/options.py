"""Options that several commands take, and the exit codes of all."""

from typing import Annotated

import typer

__all__ = [
    "BAD_INPUT",
    "FAULT",
    "INTERRUPTED",
    "NEGATIVE",
    "Config",
    "Json",
    "Sets",
    "refuse_empty",
]

# A fault of ours is no verdict: 70 is what sysexits.h calls EX_SOFTWARE.
NEGATIVE, BAD_INPUT, FAULT, INTERRUPTED = 1, 2, 70, 130

Config = Annotated[
    str | None, typer.Option("--config", "-c", help="A YAML file or a preset's name.")
]
Sets = Annotated[
    list[str] | None, typer.Option("--set", help="One parameter, merge.rrf_k=20; may repeat.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


def refuse_empty(**given: str | None) -> None:
    """Refuse options that were given without a value, `test_split=""`; None is not given.

    An empty value, as of a variable that a script forgot to set, would be read as the default.
    Raises InputError naming the option.
    """
    from retriever.files import InputError

    for name, value in given.items():
        if value is not None and not value.strip():
            option = f"--{name.replace('_', '-')}"
            raise InputError(f"{option} is empty", fix=f"give {option} a value")
