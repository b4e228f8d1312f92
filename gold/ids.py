"""Ids: always text, and what makes one unfit for a file or easy to mistake for another."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from gold.faults import Fault, InputError, Sink
from gold.files import encodes

_SKIPPED_FIRST: Final = ("#", "\ufeff")
_BREAKS_A_COLUMN: Final = re.compile(r"[\s\x00-\x1f\x7f-\x9f]")


def read_id(record: Mapping[str, Any], path: Path, line: int, sink: Sink) -> str | None:
    """Return a record's `_id` as text, or None after telling `sink` why it has none.

    An unquoted integer is taken as it is written (`7` is "7"); a fraction is refused, since `1.0`
    and `1` would be one number and two texts.
    """
    value = record.get("_id")
    if isinstance(value, str) and value:
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        message = f"the id {value} is a number; it is read as text"
        sink(Fault("numeric-id", path, line, message, f'write "{value}"'))
        return str(value)
    if value is None and "_id" not in record:
        fix = 'rename "id" to "_id"' if "id" in record else 'every line needs an "_id"'
        sink(Fault("bad-id", path, line, 'no "_id"', fix))
    else:
        shown = "an empty text" if value == "" else f"{value!r}"
        sink(Fault("bad-id", path, line, f'"_id" is {shown}', "an id is a text that is not empty"))
    return None


def broken_character(identifier: str) -> str | None:
    """Name the first character that ends a column or a line of a text file, or None."""
    match = _BREAKS_A_COLUMN.search(identifier)
    if match is None:
        return None
    character = match.group()
    names = {" ": "a space", "\t": "a tab", "\n": "a line feed", "\r": "a carriage return"}
    return names.get(character, f"U+{ord(character):04X}")


def check_column(value: str, what: str, path: Path, *, first: bool = False) -> None:
    """Refuse a value that cannot be one column of a TREC file.

    `first` marks the first column, where `#` would start a comment and U+FEFF the file. Raises
    `InputError`.
    """
    broken = broken_character(value)
    fix = f"rename the {what}"
    if not value:
        raise InputError(f"an empty {what} cannot be a column", path, fix=fix)
    if broken is not None:
        message = f"{what} {value!r} holds {broken}, which ends a column"
        raise InputError(message, path, fix=fix)
    if first and value.startswith(_SKIPPED_FIRST):
        message = f"{what} {value!r} starts with {value[0]!a}, which readers skip"
        raise InputError(message, path, fix=fix)
    if not encodes(value):
        raise InputError(f"{what} {value!r} cannot be written as UTF-8", path, fix=fix)


def check_written(
    lines: Mapping[str, int], path: Path, sink: Sink, *, queries: bool = False
) -> None:
    """Tell `sink` of ids that no TREC file can hold, so that no run could be written.

    `lines` maps each id to its line. A query's id stands first in its line, where `#` would start
    a comment and U+FEFF the file.
    """
    for identifier, line in lines.items():
        broken = broken_character(identifier)
        if broken is not None:
            message = f"the id {identifier!r} holds {broken}"
            sink(Fault("id-whitespace", path, line, message, "no TREC file can hold it; rename it"))
        elif queries and identifier.startswith(_SKIPPED_FIRST):
            message = f"the query id {identifier!a} starts with {identifier[0]!a}"
            fix = "readers of TREC files skip it; rename it"
            sink(Fault("bad-id", path, line, message, fix))


def check_ids(lines: Mapping[str, int], path: Path, sink: Sink, *, queries: bool = False) -> None:
    """Tell `sink` of ids that no TREC file holds, that hide a character, or are equal after NFC.

    `lines` maps each id to its line. NFC: Unicode Standard Annex 15.
    """
    check_written(lines, path, sink, queries=queries)
    by_nfc: dict[str, str] = {}
    for identifier, line in lines.items():
        if identifier.isascii() and identifier.isprintable() and " " not in identifier:
            continue
        hidden = any(unicodedata.category(character) == "Cf" for character in identifier)
        if hidden and broken_character(identifier) is None:
            message = f"the id {identifier!a} holds a character that cannot be seen"
            sink(Fault("id-invisible", path, line, message, "delete the character"))
        normal = unicodedata.normalize("NFC", identifier)
        other = by_nfc.setdefault(normal, identifier)
        if normal.isascii() and normal in lines:  # the loop above passes over plain ASCII ids
            other = normal
        if other != identifier:
            message = f"the id {identifier!a} equals that of line {lines[other]} after NFC"
            sink(Fault("id-nfc", path, line, message, "rename one of them"))


def look_alikes(identifiers: Iterable[str]) -> dict[str, str]:
    """Map each id's loose form (see `loose`) to the first id that has it."""
    found: dict[str, str] = {}
    for identifier in identifiers:
        found.setdefault(loose(identifier), identifier)
    return found


def loose(identifier: str) -> str:
    """Return an id without what spreadsheets and copying lose: case, blanks, zeros, quotes."""
    stripped = unicodedata.normalize("NFKC", identifier).strip(" \t\"'").casefold()
    return stripped.removesuffix(".0").lstrip("0")
