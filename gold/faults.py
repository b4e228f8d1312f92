"""Faults of a file: what they are called, how grave they are, and who hears of them.

A reader describes each fault once, as a `Fault`, and hands it to the sink it was given. Two sinks
exist: `refuse`, which turns the first error into an `InputError` (loading), and a list's `append`
(validation, which wants them all). So both see a file through the same code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

Severity = Literal["error", "warning"]

SEVERITY: Final[dict[str, Severity]] = {
    # the file as such
    "missing-file": "error",
    "unreadable-file": "error",
    "empty-file": "error",
    "not-utf8": "error",
    "byte-order-mark": "warning",
    "crlf": "warning",
    "blank-line": "warning",
    # JSON lines
    "invalid-json": "error",
    "duplicate-key": "error",
    "bad-field": "error",
    "misplaced-field": "warning",
    "bad-id": "error",
    "numeric-id": "warning",
    "duplicate-id": "error",
    "id-whitespace": "error",
    "id-invisible": "warning",
    "id-nfc": "error",
    "empty-query": "error",
    "empty-document": "error",
    "empty-text": "warning",
    "mention-not-in-context": "error",
    # judgements
    "column-count": "error",
    "column-order": "error",
    "missing-header": "warning",
    "trec-layout": "warning",
    "space-separated": "warning",
    "quoted-field": "warning",
    "bad-grade": "error",
    "negative-grade": "warning",
    "undeclared-grade": "warning",
    "duplicate-judgement": "warning",
    "conflicting-judgement": "error",
    "unknown-query": "error",
    "unknown-document": "warning",
    "no-relevant-document": "warning",
    "unjudged-query": "warning",
    # between splits
    "query-in-two-splits": "warning",
    "near-duplicate-query": "warning",
    "leakage": "warning",
    # gold.yaml
    "invalid-yaml": "error",
    "misnamed-file": "error",
    "unknown-setting": "error",
    "duplicate-setting": "error",
    "bad-setting": "error",
}
"""Severity by code. An error changes or breaks a score; a warning does not."""


class InputError(ValueError):
    """Bad input, said once: `path:line: message (fix)`.

    Attributes: `path` (or None), `line` (from 1, or None), `message` and `fix` (or "").
    """

    def __init__(
        self,
        message: str,
        path: Path | str | None = None,
        line: int | None = None,
        fix: str = "",
    ) -> None:
        # All four go to args, so that the error survives a trip between processes.
        super().__init__(message, path, line, fix)
        self.message = message
        self.path = None if path is None else Path(path)
        self.line = line
        self.fix = fix

    def __str__(self) -> str:
        place = "" if self.path is None else f"{self.path}: "
        if self.path is not None and self.line is not None:
            place = f"{self.path}:{self.line}: "
        return place + with_fix(self.message, self.fix)


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of one file; `line` counts from 1, None where the whole file is meant."""

    code: str
    path: Path
    line: int | None
    message: str
    fix: str = ""

    @property
    def severity(self) -> Severity:
        """`error` or `warning`, by the code alone."""
        return SEVERITY[self.code]


Sink = Callable[[Fault], None]


def refuse(fault: Fault) -> None:
    """Raise `InputError` for an error; let a warning pass, which validation reports."""
    if fault.severity == "error":
        raise InputError(fault.message, fault.path, fault.line, fault.fix)


def with_fix(message: str, fix: str) -> str:
    """Join a message and its remedy the way every error prints them."""
    return f"{message} ({fix})" if fix else message
