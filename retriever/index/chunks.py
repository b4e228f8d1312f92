"""The chunk table: every chunk of an index, a row each, in order of chunk id."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from retriever.types import Integers

__all__ = ["ChunkTable"]

COLUMNS = ("chunk_id", "document_id", "section", "content_summary", "text")


class ChunkTable:
    """Columns of chunks, mapped from an Arrow file; a text is read when it is asked for."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __len__(self) -> int:
        return int(self._table.num_rows)

    @staticmethod
    def write(path: Path, columns: dict[str, Sequence[str]]) -> None:
        """Write the columns, rows already in order of chunk id."""
        import pyarrow as pa

        table = pa.table({name: pa.array(columns[name], type=pa.large_utf8()) for name in COLUMNS})
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)

    @classmethod
    def read(cls, path: Path) -> "ChunkTable":
        """Map a file that `write` wrote."""
        import pyarrow as pa

        return cls(pa.ipc.open_file(pa.memory_map(str(path))).read_all())

    @cached_property
    def chunk_ids(self) -> list[str]:
        """Id of every row."""
        return list(self._table["chunk_id"].to_pylist())

    @cached_property
    def document_ids(self) -> list[str]:
        """Every document that has a chunk, in order of id."""
        return self._documents[0]

    @cached_property
    def document_of(self) -> Integers:
        """Row of `document_ids` for every chunk row."""
        return self._documents[1]

    def value(self, column: str, row: int) -> str:
        """Return one cell."""
        return str(self._table[column][int(row)].as_py())

    def values(self, column: str, rows: Sequence[int] | Integers) -> list[str]:
        """Return one column at some rows."""
        import pyarrow as pa

        taken = self._table[column].take(pa.array(np.asarray(rows, dtype=np.int64)))
        return list(taken.to_pylist())

    @cached_property
    def _documents(self) -> tuple[list[str], Integers]:
        encoded = self._table["document_id"].combine_chunks().dictionary_encode()
        names = encoded.dictionary.to_pylist()
        order = sorted(range(len(names)), key=names.__getitem__)
        place = np.empty(len(names), dtype=np.int32)
        place[order] = np.arange(len(names), dtype=np.int32)
        codes = place[encoded.indices.to_numpy(zero_copy_only=False)]
        return [names[i] for i in order], codes
