"""What a command shows: one JSON object, remarks on stderr, progress on a terminal."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

__all__ = ["print_json", "progress_bars", "say", "warm_up"]


def print_json(value: object) -> None:
    """Print one JSON object; NaN and infinity are refused, being no JSON."""
    typer.echo(json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False))


def say(text: str) -> None:
    """Print a remark on stderr."""
    typer.echo(text, err=True)


def warm_up(quiet: bool) -> None:
    """Load ranx; on a fresh machine it compiles for up to two minutes, so say what is going on."""
    from experiments.metrics import warm_up

    if quiet or not sys.stderr.isatty():
        warm_up()
        return
    from rich.console import Console

    with Console(stderr=True).status("loading ranx (the first time it compiles: 1 to 2 minutes)"):
        warm_up()


@contextmanager
def progress_bars(quiet: bool) -> Iterator[Any]:
    """Offer `progress(stage, total, done)`: bars on a terminal, nothing when quiet."""
    if quiet or not sys.stderr.isatty():
        yield lambda stage, total, done: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    bars = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    tasks: dict[str, Any] = {}
    with bars:

        def progress(stage: str, total: int, done: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total)
            bars.update(tasks[stage], advance=done, total=total)

        yield progress
