"""Read a run directory: the only source a report has.

Tables come as Arrow tables, read when asked for and column by column where a table is large. What
a run does not hold (an imported ranking has no candidates, an older run no classes) is None or
absent, never made up; what it holds and cannot be read is an InputError.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from reports.columns import ANEW, check_kind, check_names, numbers_of, ranks_of, read_table
from reports.faults import InputError
from reports.run_schema import check_queries, read_record

__all__ = ["RunDirectory"]

_TEXT_COLUMNS = {"chunk_id": "text", "section": "text", "text": "text", "characters": "number"}


@dataclass(frozen=True)
class RunDirectory:
    """One run: `record` is run.json, `name` the folder's name."""

    path: Path
    record: Mapping[str, Any]

    @classmethod
    def open(cls, path: Path) -> "RunDirectory":
        """Read run.json. Raises InputError where there is none, or it is not what a run has."""
        try:
            return cls(path, read_record(path / "run.json"))
        except (FileNotFoundError, NotADirectoryError) as error:
            raise InputError(
                "no run directory (it has no run.json)",
                path=path,
                fix="give the folder that assay evaluate wrote",
            ) from error

    @property
    def name(self) -> str:
        """Name of the folder."""
        return self.path.resolve().name

    @cached_property
    def queries(self) -> Any:
        """queries.parquet, a row a query, as an Arrow table that agrees with run.json."""
        with self._reading("queries.parquet") as file:
            table = read_table(file)
        check_queries(table, self.record, self.path / "queries.parquet")
        return table

    def check_retrieved(self, held: npt.NDArray[np.int64], file: Path) -> None:
        """Hold how many units a file has of each query, (queries), against the query table.

        Raises InputError naming the first query that lacks some.
        """
        if "retrieved" not in self.queries.column_names:
            return
        told = numbers_of(self.queries.column("retrieved"), "retrieved", self.path)
        wanted = np.minimum(np.nan_to_num(told), self.record["depth"])
        short = np.flatnonzero(held < wanted)
        if short.size:
            row = int(short[0])
            query_id = self.queries.column("query_id")[row].as_py()
            raise InputError(
                f"holds {held[row]} units of query {query_id!r:.80}; queries.parquet says "
                f"{wanted[row]:.0f}",
                path=file,
                fix=ANEW,
            )

    @cached_property
    def failures(self) -> Mapping[str, Any] | None:
        """failures.json, the verdicts with causes that were tried; None where there is none."""
        return _read_json(self.path / "failures.json")

    @cached_property
    def headroom(self) -> Mapping[str, Any] | None:
        """headroom.json, what tuning could still reach; None where there is none."""
        return _read_json(self.path / "headroom.json")

    @property
    def has_candidates(self) -> bool:
        """Whether the stages of this run are known: an imported ranking has none."""
        return (self.path / "candidates.parquet").is_file()

    @contextmanager
    def candidate_columns(self) -> "Iterator[CandidateColumns]":
        """Offer candidates.parquet, to be read column by column."""
        import pyarrow.parquet as pq

        path = self.path / "candidates.parquet"
        with self._reading(path.name) as file, pq.ParquetFile(file) as parquet:
            yield CandidateColumns(parquet, tuple(parquet.schema_arrow.names), path)

    def texts(self, chunk_ids: Sequence[str]) -> tuple[list[str | None], list[str], list[int]]:
        """Return text, section and full length in characters of chunks; None, "" and 0 if unkept.

        texts.parquet keeps what a drill-down shows, already cut by the run.
        """
        import pyarrow as pa
        import pyarrow.compute as pc

        if not (self.path / "texts.parquet").is_file():
            return [None] * len(chunk_ids), [""] * len(chunk_ids), [0] * len(chunk_ids)
        path = self.path / "texts.parquet"
        with self._reading(path.name) as file:
            table = read_table(file)
        check_names(table.column_names, list(_TEXT_COLUMNS), path)
        for name, kind in _TEXT_COLUMNS.items():
            check_kind(table.column(name), name, kind, path)
        rows = pc.index_in(pa.array(chunk_ids, pa.utf8()), table.column("chunk_id"))
        found = table.take(rows)
        return (
            found.column("text").to_pylist(),
            [section or "" for section in found.column("section").to_pylist()],
            [length or 0 for length in found.column("characters").to_pylist()],
        )

    @cached_property
    def judgements(self) -> Mapping[str, Mapping[str, int]]:
        """Grades by query and unit, from qrels.trec; empty where the run holds none."""
        grades: dict[str, dict[str, int]] = {}
        for line, (query_id, unit, grade) in self._trec("qrels.trec", 4, (0, 2, 3)):
            try:
                grades.setdefault(query_id, {})[unit] = int(grade)
            except ValueError as error:
                path = self.path / "qrels.trec"
                raise InputError(
                    f"{grade!r:.80} is no grade", path=path, line=line, fix=ANEW
                ) from error
        return grades

    @cached_property
    def ranking(self) -> Mapping[str, Sequence[str]]:
        """Units by query, best first, from run.trec; empty where the run holds none."""
        units: dict[str, list[str]] = {}
        for _, (query_id, unit) in self._trec("run.trec", 6, (0, 2)):
            units.setdefault(query_id, []).append(unit)
        return units

    @cached_property
    def rerank_pool(self) -> int | None:
        """How many merged candidates reach tier 2; None for an imported ranking."""
        import yaml

        file = self.path / "config.yaml"
        if not file.is_file():
            return None
        try:
            return int(yaml.safe_load(file.read_text("utf-8"))["inject"]["rerank_pool"])
        except (OSError, yaml.YAMLError, LookupError, TypeError, ValueError) as error:
            raise InputError(
                f"names no inject.rerank_pool: {error!r}", path=file, fix=ANEW
            ) from error

    @property
    def stamp(self) -> tuple[tuple[str, int, int], ...]:
        """Name, time and size of each file: another stamp, another content."""
        files = sorted(path for path in self.path.iterdir() if path.is_file())
        states = [(path.name, path.stat()) for path in files]
        return tuple((name, state.st_mtime_ns, state.st_size) for name, state in states)

    def _trec(
        self, name: str, width: int, wanted: Sequence[int]
    ) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Yield line number and wanted fields; nothing where the run holds no such file."""
        path = self.path / name
        if not path.is_file():
            return
        with path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                try:
                    fields = line.decode("utf-8").split()
                except UnicodeDecodeError as error:
                    raise InputError("not UTF-8", path=path, line=number, fix=ANEW) from error
                if len(fields) != width:
                    raise InputError(
                        f"expected {width} columns, got {len(fields)}",
                        path=path,
                        line=number,
                        fix=ANEW,
                    )
                yield number, tuple(fields[place] for place in wanted)

    @contextmanager
    def _reading(self, name: str) -> Iterator[Any]:
        """Offer a file of the run, open; what Arrow says of its content becomes an InputError."""
        from pyarrow import ArrowException

        path = self.path / name
        if not path.is_file():
            raise InputError(f"the run holds no {name}", path=self.path, fix=ANEW)
        try:
            # An open file: a bare path could be read as the address of a file system.
            with path.open("rb") as file:
                yield file
        except (OSError, ArrowException) as error:
            raise InputError(f"cannot be read: {error}", path=path, fix=ANEW) from error


@dataclass(frozen=True)
class CandidateColumns:
    """candidates.parquet, open; a row a candidate of a query."""

    _parquet: Any
    names: tuple[str, ...]
    path: Path

    def coded(self, name: str) -> tuple[npt.NDArray[np.int64], list[str]]:
        """Return a text column as codes (rows) and the values they count."""
        column = self._column(name)
        check_kind(column, name, "text", self.path, whole=True)
        if not hasattr(column.type, "index_type"):
            column = column.dictionary_encode()
        whole = column.unify_dictionaries().combine_chunks()
        chunks = whole.chunks if hasattr(whole, "chunks") else [whole]
        codes = [np.asarray(chunk.indices, dtype=np.int64) for chunk in chunks]
        values: list[str] = chunks[0].dictionary.to_pylist() if chunks else []
        return np.concatenate(codes) if codes else np.zeros(0, np.int64), values

    def ranks(self, name: str) -> npt.NDArray[np.int64]:
        """Return a column of ranks from 1, (rows); 0 where the candidate is not in that list."""
        return ranks_of(self._column(name), name, self.path)

    def numbers(self, name: str) -> npt.NDArray[np.float64]:
        """Return a column of scores or terms, (rows); NaN where there is none."""
        return numbers_of(self._column(name), name, self.path)

    def flags(self, name: str) -> npt.NDArray[np.bool_]:
        """Return a column of yes and no, (rows)."""
        column = self._column(name)
        check_kind(column, name, "flag", self.path, whole=True)
        return column.to_numpy().astype(np.bool_)  # type: ignore[no-any-return]

    def _column(self, name: str) -> Any:
        check_names(self.names, [name], self.path)
        return self._parquet.read(columns=[name], use_threads=False).column(name)


def _read_json(path: Path) -> Mapping[str, Any] | None:
    """Return the object of a JSON file, None where there is no file."""
    try:
        value = json.loads(path.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except ValueError as error:
        raise InputError(f"no JSON: {error}", path=path, fix=ANEW) from error
    if not isinstance(value, dict):
        raise InputError("expected a JSON object", path=path, fix=ANEW)
    return value
