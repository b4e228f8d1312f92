"""The chunk table: every chunk of an index, a row each, in order of chunk id."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from retriever.index.damage import reading
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
    "image",
)


class ChunkTable:
    """Columns of chunks, mapped from an Arrow file; a text is read when it is asked for.

    Whatever is read raises InputError where the file is damaged. `to_numpy`, `pa.array` and
    `take` of a list are left alone: each imports pandas, which takes longer than a search.
    """

    def __init__(self, table: Any, file: Path) -> None:
        self._table = table
        self._file = file
        self._checked: dict[str, Any] = {}

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
        """Map a file that `write` wrote. Raises InputError for a damaged one."""
        import pyarrow as pa

        with reading(path):
            table = pa.ipc.open_file(pa.memory_map(str(path))).read_all()
            table.validate()
            text = pa.large_utf8()
            missing = [name for name in COLUMNS if table.schema.field(name).type != text]
            if missing:
                raise ValueError(f"the column {missing[0]} is no text")
        return cls(table, path)

    @cached_property
    def chunk_ids(self) -> list[str]:
        """Id of every row."""
        with reading(self._file):
            return list(self._column("chunk_id").to_pylist())

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
        with reading(self._file):
            lists = self._column(column).combine_chunks()
            codes = lists.values.dictionary_encode()
            offsets = np.from_dlpack(lists.offsets)
            owner = np.repeat(np.arange(len(lists)), np.diff(offsets))
            of_value = np.from_dlpack(codes.indices)[offsets[0] : offsets[-1]]
            values = codes.dictionary.to_pylist()
        order = np.lexsort((owner, of_value))
        starts = np.searchsorted(of_value[order], np.arange(len(values) + 1))
        return {
            value: np.unique(owner[order[starts[i] : starts[i + 1]]]).astype(np.int32)
            for i, value in enumerate(values)
        }

    def rows_of_documents(self, document_ids: Iterable[str]) -> Integers:
        """Return the rows of all chunks of some documents, rising; unknown ids have none."""
        place, rows, starts = self._rows_by_document
        wanted = {place[name] for name in document_ids if name in place}
        parts = [rows[starts[i] : starts[i + 1]] for i in wanted]
        return np.sort(np.concatenate([*parts, rows[:0]]))

    def value(self, column: str, row: int) -> str:
        """Return one cell."""
        with reading(self._file):
            return str(self._column(column)[int(row)].as_py())

    def values(self, column: str, rows: Sequence[int] | Integers) -> list[str]:
        """Return one column at some rows."""
        import pyarrow as pa

        wanted = np.ascontiguousarray(rows, dtype=np.int64)
        places = pa.Array.from_buffers(pa.int64(), len(wanted), [None, pa.py_buffer(wanted)])
        with reading(self._file):
            return list(self._column(column).take(places).to_pylist())

    def with_rows(
        self, columns: Mapping[str, Sequence[str]], lists: Mapping[str, Sequence[Sequence[str]]]
    ) -> "tuple[ChunkTable, Integers]":
        """Return a table in memory with more rows, and the row there of each old and new one."""
        import pyarrow as pa
        import pyarrow.compute as pc

        text, many = pa.large_utf8(), pa.large_list(pa.utf8())
        more = {name: pa.array(columns[name], type=text) for name in COLUMNS}
        more |= {name: pa.array(lists[name], type=many) for name in self.list_columns}
        with reading(self._file):
            for name in self._table.column_names:
                self._column(name)
            both = pa.concat_tables([self._table, pa.table(more)]).combine_chunks()
            order = pc.sort_indices(both["chunk_id"])
            table = both.take(order).combine_chunks()
        place = np.empty(len(order), dtype=np.int32)
        place[np.from_dlpack(order)] = np.arange(len(order), dtype=np.int32)
        return ChunkTable(table, self._file), place

    def with_values(self, column: str, values: Mapping[int, str]) -> "ChunkTable":
        """Return a table in memory with other texts in one column, by row."""
        import pyarrow as pa

        with reading(self._file):
            held = self._column(column).to_pylist()
        for row, value in values.items():
            held[row] = value
        at = self._table.column_names.index(column)
        changed = pa.array(held, type=pa.large_utf8())
        return ChunkTable(self._table.set_column(at, column, changed), self._file)

    @cached_property
    def _rows_by_document(self) -> tuple[dict[str, int], Integers, npt.NDArray[np.int64]]:
        """Return the place of each document's name, its rows and where they start."""
        place = {name: i for i, name in enumerate(self.document_ids)}
        rows = np.argsort(self.document_of, kind="stable").astype(np.int32)
        return place, rows, np.searchsorted(self.document_of[rows], np.arange(len(place) + 1))

    @cached_property
    def _documents(self) -> tuple[list[str], Integers]:
        with reading(self._file):
            encoded = self._column("document_id").combine_chunks().dictionary_encode()
            names = encoded.dictionary.to_pylist()
            codes = np.from_dlpack(encoded.indices)
        order = sorted(range(len(names)), key=names.__getitem__)
        place = np.empty(len(names), dtype=np.int32)
        place[order] = np.arange(len(names), dtype=np.int32)
        return [names[i] for i in order], place[codes]

    def _column(self, name: str) -> Any:
        """Return a column, checked when first used: Arrow follows a wrong offset anywhere."""
        found = self._checked.get(name)
        if found is None:
            found = self._table[name]
            for part in found.chunks:
                if name in COLUMNS:
                    _check_text(part)
                else:
                    part.validate(full=True)
            self._checked[name] = found
        return found


def _check_text(array: Any) -> None:
    """Raise ValueError unless the offsets of a text array rise within its data."""
    array.validate()
    if not len(array):
        return
    _, places, data = array.buffers()
    offsets: npt.NDArray[np.int64] = np.frombuffer(places, dtype=np.int64)
    offsets = offsets[array.offset : array.offset + len(array) + 1]
    size = 0 if data is None else data.size
    if array.null_count or offsets[0] < 0 or offsets[-1] > size or np.any(np.diff(offsets) < 0):
        raise ValueError("the texts' places do not rise")
