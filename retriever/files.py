"""Bad input and atomic writes: the manners every file of the retriever keeps."""

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

__all__ = ["InputError", "read_json_lines", "write_atomically"]


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


def write_atomically(path: Path, content: bytes) -> None:
    """Replace `path` by `content` so that a reader sees the old file or the new one."""
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


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def read_json_lines(path: Path) -> Iterator[tuple[int, Mapping[str, Any]]]:
    """Yield (line number, object) of a JSON-lines file; blank lines are passed over.

    A byte-order mark and CRLF endings are accepted. Raises InputError with the line of the first
    fault: not UTF-8, not JSON, or not an object.
    """
    try:
        stream = path.open("rb")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=path) from error
    with stream:
        for number, raw in enumerate(stream, start=1):
            try:
                text = raw.decode("utf-8-sig" if number == 1 else "utf-8").strip()
                if not text:
                    continue
                value = json.loads(text, parse_constant=_refuse_constant)
            except UnicodeDecodeError as error:
                raise InputError("not UTF-8", path=path, line=number, fix="re-save as UTF-8") from (
                    error
                )
            except (ValueError, RecursionError) as error:
                raise InputError(f"not JSON: {error}", path=path, line=number) from error
            if not isinstance(value, dict):
                raise InputError(
                    "expected a JSON object", path=path, line=number, fix="one object a line"
                )
            yield number, value
