"""What a command shows: one JSON object, remarks on stderr, progress.

On a terminal progress is bars; off one, in a log, it is plain lines: one when a phase begins, and
for a long one what is done every half minute.
"""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from experiments.shown import print_json, print_text, say

__all__ = [
    "Lines",
    "phase",
    "print_json",
    "print_text",
    "progress_bars",
    "say",
    "waiting",
    "warm_up",
]


def phase(text: str, quiet: bool) -> None:
    """Say what begins now, off a terminal."""
    if not quiet and not sys.stderr.isatty():
        say(text)


class Lines:
    """Progress as plain lines: how much there is, and every half minute how much is done."""

    EVERY_SECONDS = 30.0

    def __init__(self) -> None:
        self._done: dict[str, int] = {}
        self._due: dict[str, float] = {}

    def __call__(self, stage: str, total: int, done: int) -> None:
        """Note that `done` more of a stage's `total` are done."""
        begins, now = stage not in self._due, time.monotonic()
        self._done[stage] = self._done.get(stage, 0) + done
        if begins or (now >= self._due[stage] and self._done[stage] < total):
            self._due[stage] = now + self.EVERY_SECONDS
            say(f"{stage}: {total}" if begins else f"{stage}: {self._done[stage]} of {total}")


def warm_up(quiet: bool) -> None:
    """Load ranx; on a fresh machine it compiles for up to two minutes, so say what is going on."""
    from experiments.metrics import warm_up

    with waiting("loading ranx (the first time it compiles: 1 to 2 minutes)", quiet):
        warm_up()


@contextmanager
def waiting(text: str, quiet: bool) -> Iterator[None]:
    """Show what a block of work is waiting for; nothing when quiet."""
    if quiet or not sys.stderr.isatty():
        phase(text, quiet)
        yield
        return
    from experiments.screen import screen

    with screen(stderr=True).status(text):
        yield


@contextmanager
def progress_bars(quiet: bool) -> Iterator[Any]:
    """Offer `progress(stage, total, done)`: bars on a terminal, else lines; nothing when quiet."""
    if quiet or not sys.stderr.isatty():
        yield (lambda stage, total, done: None) if quiet else Lines()
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    from experiments.screen import screen

    bars = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=screen(stderr=True),
        transient=True,
    )
    tasks: dict[str, Any] = {}
    with bars:

        def progress(stage: str, total: int, done: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total)
            bars.update(tasks[stage], advance=done, total=total)

        yield progress
