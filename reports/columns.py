"""Columns of a run's tables, held to the kind that they should be of.

A table that was written by something else, or changed, is one error that names file and column.
"""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from reports.faults import InputError

__all__ = ["ANEW", "check_kind", "check_names", "numbers_of", "ranks_of", "read_table"]

ANEW = "evaluate anew"
_EXPECTED = {"text": "text", "flag": "true or false", "number": "numbers"}


def check_names(names: Collection[str], needed: Collection[str], file: Path) -> None:
    """Refuse a table that lacks a column or holds one twice. Raises InputError."""
    absent = [name for name in needed if name not in names]
    if absent:
        raise InputError(f"lacks the columns {', '.join(absent)}", path=file, fix=ANEW)
    if len(set(names)) < len(names):
        raise InputError("a column stands twice", path=file, fix=ANEW)


def check_kind(column: Any, name: str, kind: str, file: Path, *, whole: bool = False) -> None:
    """Refuse an Arrow column that is not of a kind: text, flag or number.

    `whole` asks for a value in every row; without it a column may be null throughout. Raises
    InputError.
    """
    import pyarrow.types as types

    of = column.type.value_type if types.is_dictionary(column.type) else column.type
    fits = {
        "text": types.is_string(of) or types.is_large_string(of) or types.is_string_view(of),
        "flag": types.is_boolean(of),
        "number": types.is_integer(of) or types.is_floating(of),
    }[kind]
    empty = column.null_count == len(column)
    if not (fits or (empty and (not whole or not len(column)))) or (whole and column.null_count):
        expected = f"{_EXPECTED[kind]}{' in every row' if whole else ''}"
        raise InputError(f"the column {name} holds no {expected}", path=file, fix=ANEW)


def read_table(file: BinaryIO, columns: Sequence[str] | None = None) -> Any:
    """Return an open Parquet file as an Arrow table, read by this thread alone.

    pyarrow's pool of threads sometimes ends a process that ends soon after with an abort (exit
    code 134 in place of ours, once in 60).
    """
    import pyarrow.parquet as pq

    return pq.read_table(file, columns=None if columns is None else [*columns], use_threads=False)


def numbers_of(column: Any, name: str, file: Path) -> npt.NDArray[np.float64]:
    """Return an Arrow column as numbers, (rows); NaN where there is none. Raises InputError."""
    check_kind(column, name, "number", file)
    # Whole numbers past 2^53 are rounded: no figure of ours is one, and each check refuses them.
    values: npt.NDArray[np.float64] = column.cast("float64", safe=False).to_numpy()
    return values


def ranks_of(column: Any, name: str, file: Path) -> npt.NDArray[np.int64]:
    """Return an Arrow column of ranks from 1, (rows); 0 where there is none. Raises InputError."""
    values = numbers_of(column, name, file)
    there = values[~np.isnan(values)]
    if not np.all((there >= 1) & (there == np.floor(there)) & (there < 2**53)):
        raise InputError(f"the column {name} holds no ranks from 1", path=file, fix=ANEW)
    return np.nan_to_num(values).astype(np.int64)
