"""What a reader says of a file that is damaged, or gone because the index was rebuilt."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
import numpy.typing as npt

from retriever.files import InputError

__all__ = ["GENERATION", "current_generation", "read_array", "reading"]

GENERATION = re.compile(r"generation-[0-9]+")

# All that the readers (json, NumPy, FAISS, Arrow) raise for bytes they cannot make sense of.
_FAULTS = (
    *(ValueError, TypeError, AttributeError, LookupError, ArithmeticError, RuntimeError),
    *(OSError, EOFError, MemoryError, SyntaxError, TokenError, Warning),
)


@contextmanager
def reading(file: Path) -> Iterator[None]:
    """Turn whatever a damaged or missing file makes its reader raise into one InputError."""
    try:
        yield
    except InputError:
        raise
    except _FAULTS as error:
        raise _fault(file, error) from error


def read_array(file: Path, dtype: npt.DTypeLike, *, mapped: bool = False) -> npt.NDArray[Any]:
    """Read a one-dimensional array that `np.save` wrote, of just that type."""
    with reading(file):
        found: npt.NDArray[Any] = np.load(file, mmap_mode="r" if mapped else None)
        if found.dtype != dtype or found.ndim != 1:
            raise ValueError(f"{found.dtype} of shape {found.shape}")
        return found


def current_generation(path: Path) -> str | None:
    """Return the generation that the manifest of an index directory names, None without one."""
    try:
        name = json.loads((path / "manifest.json").read_text("utf-8"))["generation"]
        return name if GENERATION.fullmatch(name) else None
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None


def _fault(file: Path, error: BaseException) -> InputError:
    if file.exists():
        said = (str(error).splitlines() or [""])[0] or type(error).__name__
        return InputError(f"damaged: {said}", path=file, fix="build the index anew")
    for folder in file.parents:
        if GENERATION.fullmatch(folder.name) and current_generation(folder.parent) != folder.name:
            return InputError(
                "the index was rebuilt or removed after it was opened",
                path=folder.parent,
                fix="open it again",
            )
    return InputError("damaged: missing", path=file, fix="build the index anew")
