"""Bad input and atomic writes: the manners every file of the retriever keeps."""

import errno
import json
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

__all__ = ["InputError", "read_json_lines", "write_atomically", "writing"]

BOM = b"\xef\xbb\xbf"
# Disk, quota or limit of a file's size used up, or a disk that takes nothing.
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}


class InputError(ValueError):
    """Something the user gave is wrong; the message names the place and the remedy.

    Printed as one line, `path:line: message (fix)`, and never with a traceback.
    """

    def __init__(
        self, message: str, *, path: object = None, line: int | None = None, fix: str = ""
    ) -> None:
        self.path, self.line, self.fix = path, line, fix
        place = "" if path is None else f"{path}:{line}: " if line is not None else f"{path}: "
        super().__init__(f"{place}{message}" + (f" ({fix})" if fix else ""))


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what a full or read-only disk says within the block into an InputError on `path`.

    Where the error names the file itself, that file is named.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        raise _unwritable(Path(error.filename) if error.filename else path, error) from error


def write_atomically(path: Path, content: bytes) -> None:
    """Replace `path` by `content` so that a reader sees the old file or the new one.

    Raises InputError where there is no room or no permission.
    """
    try:
        _replace(path, content)
    except OSError as error:
        raise _unwritable(path, error) from error


def _unwritable(path: Path, error: OSError) -> InputError:
    return InputError(
        f"cannot be written: {error.strerror}",
        path=path,
        fix="make room there, or name a folder that can be written",
    )


def _replace(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def read_json_lines(file: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield (line number, object) of a JSON-lines file; blank lines are passed over.

    A byte-order mark and CRLF endings are accepted. Raises InputError with the line of the first
    fault: not UTF-8, not JSON, not an object, or a key twice in one object.
    """
    try:
        stream = file.open("rb")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=file) from error
    with stream:
        for line, raw in enumerate(stream, start=1):
            record = _record(raw.removeprefix(BOM) if line == 1 else raw, file, line)
            if record is not None:
                yield line, record


def _record(raw: bytes, file: Path, line: int) -> Mapping[str, Any] | None:
    """Return the object of a line, None for a blank one."""
    try:
        text = raw.decode("utf-8").strip()
        value = _DECODER.decode(text) if text else None
    except UnicodeDecodeError as error:
        raise InputError("not UTF-8", path=file, line=line, fix="re-save as UTF-8") from error
    except _RepeatedKeyError as error:
        raise InputError(str(error), path=file, line=line, fix="keep one of them") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON: {error}", path=file, line=line) from error
    if text and not isinstance(value, dict):
        raise InputError("expected a JSON object", path=file, line=line, fix="one object a line")
    return value


class _RepeatedKeyError(ValueError):
    pass


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) != len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for i, name in enumerate(names) if name in names[:i])
        raise _RepeatedKeyError(f"the key {repeated!r} stands twice in one object")
    return record


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_refuse_constant)
