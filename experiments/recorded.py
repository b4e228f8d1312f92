"""Runs that were recorded: find one by path, MLflow run id or alias, read it, open it again."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from retriever.files import InputError

if TYPE_CHECKING:
    import pandas as pd

    from gold import GoldSet
    from retriever import Retriever, RetrieverConfig

__all__ = ["RecordedRun", "find_run", "refuse_absent", "reopen"]


@dataclass(frozen=True)
class RecordedRun:
    """A run directory, read when asked: `record` is run.json, the tables are data frames."""

    path: Path
    record: Mapping[str, Any]

    @classmethod
    def open(cls, path: Path) -> "RecordedRun":
        """Read run.json of a run directory. Raises InputError when it is none, or damaged."""
        from reports.run_schema import read_record

        try:
            with _refusing():
                record = read_record(path / "run.json")
        except (FileNotFoundError, NotADirectoryError) as error:
            raise InputError(
                "no run directory (it has no run.json)",
                path=path,
                fix="give the folder that assay evaluate wrote",
            ) from error
        return cls(path, record)

    @property
    def is_imported(self) -> bool:
        """Whether somebody else's ranking was scored: there is no retriever to ask again."""
        return bool(self.record["kind"] == "imported")

    @cached_property
    def queries(self) -> "pd.DataFrame":
        """A row a query: figures, class, evidence, rank of the gold after each stage.

        Raises InputError where it does not hold what run.json says.
        """
        from reports.columns import read_table
        from reports.run_schema import check_queries

        file = self.path / "queries.parquet"
        with self._reading(file.name) as stream, _refusing():
            check_queries(read_table(stream), self.record, file)
        return self._table(file.name)

    @cached_property
    def candidates(self) -> "pd.DataFrame":
        """A row a candidate: rank and score after every stage, each term of the final formula."""
        return self._table("candidates.parquet")

    @cached_property
    def texts(self) -> "pd.DataFrame":
        """What a drill-down shows of the chunks."""
        return self._table("texts.parquet")

    @cached_property
    def config(self) -> "RetrieverConfig":
        """The configuration of the run. Raises InputError for an imported run, which has none."""
        from retriever.config import load_config

        if self.is_imported:
            raise InputError(
                "an imported ranking has no configuration",
                path=self.path,
                fix="evaluate a configuration: assay evaluate GOLD --config FILE",
            )
        return load_config(self.path / "config.yaml")

    def _table(self, name: str) -> "pd.DataFrame":
        import pandas as pd

        with self._reading(name) as stream:
            return pd.read_parquet(stream, use_threads=False)  # see reports.columns.read_table

    @contextmanager
    def _reading(self, name: str) -> Iterator[BinaryIO]:
        """Offer a table of the run, open; what Arrow says of its content becomes an InputError."""
        from pyarrow import ArrowException

        path = self.path / name
        if not path.is_file():
            raise InputError(f"the run holds no {name}", path=self.path, fix="evaluate anew")
        try:
            with path.open("rb") as stream:
                yield stream
        except InputError:
            raise
        except (OSError, ValueError, ArrowException) as error:
            raise InputError(f"cannot be read: {error}", path=path, fix="evaluate anew") from error


@contextmanager
def _refusing() -> Iterator[None]:
    """Pass on what the rules of a run directory refuse, as bad input of a command."""
    from reports.faults import InputError as RefusedError

    try:
        yield
    except RefusedError as error:
        raise InputError(str(error)) from error


def find_run(name: str) -> RecordedRun:
    """Return a run by what a command was given: an existing path, an MLflow run id, an alias."""
    refuse_absent(name)
    path = Path(name)
    if path.exists():
        return RecordedRun.open(path)
    from experiments.tracking.registered import artifacts_of, run_of_alias

    run_id = run_of_alias(name) or name
    folder = artifacts_of(run_id)
    if folder is None:
        raise _unknown(name)
    return RecordedRun.open(folder)


def refuse_absent(name: str) -> None:
    """Refuse, quickly, a name that stands for nothing: a path without a file, no MLflow to ask.

    Aliases and run ids have neither a suffix nor a separator. Raises InputError.
    """
    if not name.strip():
        raise InputError("the name of a run is empty", fix="give a folder, a run id or an alias")
    path = Path(name)
    if path.exists():
        return
    if path.suffix or path.name != name:
        raise InputError(
            "no such file or folder", path=name, fix="give a folder that assay evaluate wrote"
        )
    from experiments.tracking.registered import has_store

    if not has_store():
        raise _unknown(name)


def _unknown(name: str) -> InputError:
    from experiments.tracking.registered import MODEL

    return InputError(
        f"{name!r} is no folder, no MLflow run with its artifacts, and no alias of the model "
        f"{MODEL}",
        fix="give a folder that assay evaluate wrote",
    )


def reopen(
    run: RecordedRun, *, gold: Path | None = None, index: Path | None = None
) -> "tuple[GoldSet, Retriever]":
    """Open the gold set, the index and the configuration of a run, to ask them again.

    `gold` and `index` say where they are now, if they have moved. Raises InputError when one has
    gone, or is no longer what the run was made with.
    """
    from gold import load
    from retriever import Index, Retriever
    from retriever.store import store_folder

    config = run.config
    recorded = run.record
    if recorded["kind"] == "linking":
        raise InputError("a run of entity linking has no retriever to open again", path=run.path)
    place = gold or Path(recorded["gold"]["path"])
    if not place.is_dir():
        raise InputError("the run's gold set is not there", path=place, fix="give --gold FOLDER")
    judged = load(place, recorded["gold"]["split"])
    if judged.digest != recorded["gold"]["digest"]:
        raise InputError(
            "the gold set has changed since the run was made", path=place, fix="evaluate anew"
        )
    folder = index or Path(recorded["index"]["path"])
    opened = Index.open(folder)
    if opened.manifest.fingerprint != recorded["index"]["fingerprint"]:
        raise InputError(
            "the index is not the one the run was made with", path=folder, fix="evaluate anew"
        )
    cache = store_folder() / "cache" / "vectors"
    return judged, Retriever.open(opened, config, cache=cache)
