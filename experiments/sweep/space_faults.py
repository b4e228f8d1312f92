"""Faults of a space's file: what is wrong, where, and who hears of it.

A reader hands each fault to the sink it was given. Two exist: `refuse`, which raises the first one
(a sweep), and a list's `append` (`assay space validate`, which wants them all). So both see a file
through the same code.
"""

from collections.abc import Callable
from dataclasses import dataclass

from retriever import InputError

__all__ = ["Sink", "SpaceFault", "fault_of", "refuse"]


@dataclass(frozen=True)
class SpaceFault:
    """One fault; `line` counts from 1, None where the whole file is meant, `fix` may be empty."""

    file: str
    line: int | None
    message: str
    fix: str = ""

    def as_error(self) -> InputError:
        """Return the fault as the error that is printed, `file:line: message (fix)`."""
        return InputError(self.message, path=self.file, line=self.line, fix=self.fix)


Sink = Callable[[SpaceFault], object]


def refuse(fault: SpaceFault) -> None:
    """Raise the fault as an InputError."""
    raise fault.as_error()


def fault_of(error: InputError, source: object, line: int | None) -> SpaceFault:
    """Return an error that names no place, such as a configuration's, as a fault of a line."""
    message = str(error)
    if error.fix:
        message = message.removesuffix(f" ({error.fix})")
    return SpaceFault(str(source), line, message, error.fix)
