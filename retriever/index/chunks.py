"""The chunk table: every chunk of an index, a row each, in order of chunk id."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from retriever.types import Integers

__all__ = ["ChunkTable"]

COLUMNS = (
    "chunk_id",
    "document_id",
    "section",
    "content_summary",
    "text",
    "structure",
    "path",
    "file_name",
    "document_name",
    "source_uri",
)


class ChunkTable:
    """Columns of chunks, mapped from an Arrow file; a text is read when it is asked for."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __len__(self) -> int:
        return int(self._table.num_rows)

    @staticmethod
    def write(
        path: Path,
        columns: Mapping[str, Sequence[str]],
        lists: Mapping[str, Sequence[Sequence[str]]],
    ) -> None:
        """Write the columns and the plugins' columns of lists, rows in order of chunk id."""
        import pyarrow as pa

        text, many = pa.large_utf8(), pa.large_list(pa.utf8())
        table = pa.table(
            {name: pa.array(columns[name], type=text) for name in COLUMNS}
            | {name: pa.array(lists[name], type=many) for name in sorted(lists)}
        )
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

    @property
    def list_columns(self) -> tuple[str, ...]:
        """Names of the plugins' columns."""
        return tuple(name for name in self._table.column_names if name not in COLUMNS)

    def rows_by_value(self, column: str) -> dict[str, Integers]:
        """Return, for a column of lists, the rows that hold each value, rising."""
        lists = self._table[column].combine_chunks()
        codes = lists.values.dictionary_encode()
        offsets = lists.offsets.to_numpy()
        owner = np.repeat(np.arange(len(lists)), np.diff(offsets))
        of_value = codes.indices.to_numpy(zero_copy_only=False)[offsets[0] : offsets[-1]]
        order = np.lexsort((owner, of_value))
        values = codes.dictionary.to_pylist()
        starts = np.searchsorted(of_value[order], np.arange(len(values) + 1))
        return {
            value: np.unique(owner[order[starts[i] : starts[i + 1]]]).astype(np.int32)
            for i, value in enumerate(values)
        }

    def rows_of_documents(self, document_ids: Iterable[str]) -> Integers:
        """Return the rows of all chunks of some documents, rising; unknown ids have none."""
        place = {name: i for i, name in enumerate(self.document_ids)}
        wanted = np.array([place[d] for d in document_ids if d in place], dtype=np.int32)
        return np.flatnonzero(np.isin(self.document_of, wanted)).astype(np.int32)

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
