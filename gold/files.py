"""Files at the byte level: numbered UTF-8 lines, strict JSON lines, whole writes.

Lines end at LF alone (a CR before it is dropped): a JSON string or an id may hold any of the other
characters that Python's own `splitlines` would break at.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import math
import re
import uuid
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from gold.faults import Fault, InputError, Sink

_GZIP: Final = b"\x1f\x8b"
UTF8_MARK: Final = b"\xef\xbb\xbf"
UTF16_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")
_ESCAPED_SURROGATE: Final = re.compile(r"\\u[dD][89a-fA-F]")


def read_bytes(path: Path) -> bytes:
    """Return a file's bytes, unpacked where they are gzip (by content, not by name).

    Raises `InputError` for a file that is missing, unreadable or a broken archive.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise InputError("no such file", path, fix="check the path") from None
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path) from error
    if not data.startswith(_GZIP):
        return data
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"broken gzip archive: {error}", path, fix="make it anew") from error


def numbered_lines(path: Path, sink: Sink) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, text without its line end) for each line that is not blank.

    A BOM, CRLF ends and blank lines are dropped and told to `sink`, once a file; a line that is
    not UTF-8 is told and left out. Gzip is unpacked on the way.
    """
    if not path.is_file():
        sink(Fault("missing-file", path, None, "no such file", f"add {path.name}"))
        return
    crlf: list[int] = []
    blank: list[int] = []
    try:
        with _open(path) as handle:
            for line, raw in enumerate(handle, start=1):
                content = raw.removesuffix(b"\n")
                if line == 1:
                    if content.startswith(UTF16_MARKS):
                        sink(Fault("not-utf8", path, 1, "the file is UTF-16", "save it as UTF-8"))
                        return
                    if content.startswith(UTF8_MARK):
                        content = content.removeprefix(UTF8_MARK)
                        message = "the file starts with a byte order mark"
                        sink(Fault("byte-order-mark", path, 1, message, "save it without BOM"))
                if content.endswith(b"\r"):
                    crlf.append(line)
                    content = content.rstrip(b"\r")
                if not content.strip():
                    blank.append(line)
                    continue
                try:
                    text = content.decode("utf-8")
                except UnicodeDecodeError as error:
                    message = f"byte {error.start + 1} of the line is not UTF-8"
                    sink(Fault("not-utf8", path, line, message, "save the file as UTF-8"))
                    continue
                yield line, text
    except (OSError, EOFError, zlib.error) as error:
        sink(Fault("unreadable-file", path, None, f"cannot be read: {error}"))
    if crlf:
        message = f"lines that end in CRLF: {len(crlf)}, this one first"
        sink(Fault("crlf", path, crlf[0], message, "save the file with LF line ends"))
    if blank:
        message = f"blank lines, skipped: {len(blank)}, this one first"
        sink(Fault("blank-line", path, blank[0], message, "delete them"))


def is_gzip(path: Path) -> bool:
    """Tell whether a file is gzip by its content; False where it cannot be read."""
    try:
        with path.open("rb") as handle:
            return handle.read(len(_GZIP)) == _GZIP
    except OSError:
        return False


def _open(path: Path) -> BinaryIO:
    return cast(BinaryIO, gzip.open(path)) if is_gzip(path) else path.open("rb")


class _DuplicateKeyError(ValueError):
    pass


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise _DuplicateKeyError(f'the key "{key}" stands twice in one object')
            seen.add(key)
    return record


def _constant(token: str) -> float:
    raise ValueError(f"{token} is not JSON")


def _finite(token: str) -> float:
    value = float(token)
    if math.isinf(value):
        raise ValueError(f"{token} is too large for a number")
    return value


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_constant=_constant, parse_float=_finite
)


def json_lines(path: Path, sink: Sink) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number from 1, object) for each line of a JSON-lines file.

    What is not one JSON object a line is told to `sink` and left out: broken JSON, NaN and
    infinity, a key twice in one object, an escaped half of a surrogate pair.
    """
    for line, text in numbered_lines(path, sink):
        try:
            record = _DECODER.decode(text)
        except _DuplicateKeyError as error:
            sink(Fault("duplicate-key", path, line, str(error), "keep one of them"))
            continue
        except json.JSONDecodeError as error:
            message = f"invalid JSON: {error.msg} at column {error.colno}"
            sink(Fault("invalid-json", path, line, message, "one JSON object a line"))
            continue
        except RecursionError:
            sink(Fault("invalid-json", path, line, "invalid JSON: nested too deeply"))
            continue
        except ValueError as error:
            sink(Fault("invalid-json", path, line, f"invalid JSON: {error}", "use a finite number"))
            continue
        if not isinstance(record, dict):
            message = f"expected a JSON object, got {type(record).__name__}"
            sink(Fault("invalid-json", path, line, message, "one JSON object a line"))
        elif _ESCAPED_SURROGATE.search(text) and not encodes(
            json.dumps(record, ensure_ascii=False)
        ):
            message = "an escaped surrogate stands without its other half"
            sink(Fault("invalid-json", path, line, message, "write the character itself"))
        else:
            yield line, record


def encodes(text: str) -> bool:
    """Tell whether a text can be written as UTF-8, which half a surrogate pair cannot."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def write_whole(path: Path, data: bytes) -> None:
    """Write a file whole or not at all: a temporary file beside it, then a rename.

    Raises `InputError` where the folder is missing or cannot be written.
    """
    if path.is_dir() or not path.name:
        raise InputError("the path is a folder", path, fix="name a file in it")
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError as error:
        fix = "make room there, or name a folder that can be written"
        if isinstance(error, FileNotFoundError):
            fix = "make the folder first"
        raise InputError(f"cannot be written: {error.strerror}", path, fix=fix) from error
    finally:
        with contextlib.suppress(OSError):  # gone already where the rename succeeded
            temporary.unlink()
