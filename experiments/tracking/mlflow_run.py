"""Log one run to MLflow: parameters, metrics, the data set by digest, the run directory.

Everything goes through an explicit client and explicit ids. MLflow's fluent interface keeps one
active run a process and obeys MLFLOW_RUN_ID, so that a run could land in another one.
"""

import hashlib
import json
import math
import re
import shutil
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

from experiments.tracking.store import (
    check_tracking,
    deleted_experiment,
    one_process,
    open_client,
    quiet_mlflow,
    shown_uri,
    sqlite_path,
    unusable,
)

__all__ = ["ChildRun", "DatasetRecord", "TrackedRun", "add_to_run", "log_run"]

FULL_PARAMETERS = "parameters_in_full.json"

# MLflow's own limits; beyond them it cuts in silence or refuses.
_LONGEST_PARAMETER = 6_000
_LONGEST_TAG = 8_000
_LONGEST_DATASET_DIGEST = 36
_PARAMETERS_A_BATCH = 100
_METRICS_A_BATCH = 1_000
_LEGAL_NAME = re.compile(r"[\w\- ][\w\-. ]{0,249}")


_DATABASES = {"mssql", "mysql", "postgresql", "sqlite"}
_SERVERS = {"databricks", "databricks-uc", "http", "https", "uc"}
_PORTS = {"http": 80, "https": 443, "mssql": 1433, "mysql": 3306, "postgresql": 5432}


@dataclass(frozen=True)
class DatasetRecord:
    """The gold set of a run: its name, the digest of its content, and where it was read."""

    name: str
    digest: str
    source: str


@dataclass(frozen=True)
class ChildRun:
    """A run below another, such as one trial of a sweep: values and tags, and no files."""

    name: str
    parameters: Mapping[str, object]
    metrics: Mapping[str, float | None]
    tags: Mapping[str, str]


@dataclass(frozen=True)
class TrackedRun:
    """Where a run was logged, and what of it MLflow could not take as it was.

    `uri` shows no password. `skipped` maps a reason to names: `undefined_metrics` (None, NaN or
    infinite: not logged) and `parameters_in_full` (too long, or a name that MLflow refuses: kept
    in the artifact of that name, the long ones with digest and length in their place).
    """

    run_id: str
    experiment_id: str
    uri: str
    skipped: Mapping[str, tuple[str, ...]]


def log_run(
    *,
    uri: str,
    experiment: str,
    name: str,
    parameters: Mapping[str, object],
    metrics: Mapping[str, float | None],
    dataset: DatasetRecord,
    artifacts: Path,
    tags: Mapping[str, str],
    artifact_root: Path | None = None,
    pages: Mapping[str, str] | None = None,
    steps: Mapping[str, Sequence[tuple[int, float]]] | None = None,
    children: Sequence[ChildRun] = (),
) -> TrackedRun:
    """Log one finished run and return where it went.

    `parameters` may be nested: names are joined by dots, texts stay, all else becomes JSON.
    `metrics` are keyed by our names; MLflow gets `hit_at_5` for `hit@5`. `artifacts` is a folder,
    copied whole; `pages` are files that go beside them, text by name. `artifact_root` is where a
    new experiment in a database keeps its files (a SQLite database by default beside itself); a
    tracking server decides for itself. `steps` are metrics with a value a step, (step, value), in
    batches of a thousand; `children` are logged as runs below this one.

    The experiment is created when missing, and so is a SQLite database, by one process at a time.
    A run that cannot be logged to its end is marked FAILED. Unless their variables are set
    otherwise, MLflow's log lines, run links and telemetry are switched off for this process.

    Raises InputError when the store is a file store, cannot be opened or refuses the run, and
    ValueError for what no caller should hand over: no such folder, a tag that MLflow would cut, a
    metric's name that it refuses.
    """
    check_tracking(uri, experiment)
    logged_metrics, undefined = _metrics(metrics)
    logged_parameters, in_full = _parameters(parameters)
    if not artifacts.is_dir():
        raise ValueError(f"{artifacts} is no folder: MLflow would log nothing of it in silence")
    too_long = [key for key, value in tags.items() if len(value) > _LONGEST_TAG]
    if too_long:
        raise ValueError(f"tag {too_long[0]!r} is longer than the {_LONGEST_TAG} of MLflow")
    quiet_mlflow()
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    try:
        with one_process(uri):
            client = open_client(uri)
            experiment_id = _experiment_id(client, experiment, _artifact_uri(uri, artifact_root))
            with _new_run(client, experiment_id, name, tags) as run_id:
                _log_values(client, run_id, logged_parameters, logged_metrics, steps or {})
                _log_dataset(client, run_id, dataset)
                client.log_artifacts(run_id, str(artifacts))
                for page, text in (pages or {}).items():
                    client.log_text(run_id, text, page)
                _log_in_full(client, run_id, in_full)
                for child in children:
                    _log_child(client, experiment_id, run_id, child)
    except (MlflowException, SQLAlchemyError, ImportError, OSError, sqlite3.Error) as error:
        raise unusable(uri, error) from error
    skipped = {"undefined_metrics": undefined, "parameters_in_full": tuple(in_full)}
    skipped = {reason: names for reason, names in skipped.items() if names}
    return TrackedRun(run_id, experiment_id, shown_uri(uri), skipped)


def add_to_run(uri: str, run_id: str, file: Path, pages: Mapping[str, str]) -> None:
    """Add a file and pages, text by name, to the artifacts of a run; those there are replaced.

    A run's artifacts may be the very folder that the file is in. Raises InputError where MLflow
    refuses.
    """
    quiet_mlflow()
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    try:
        with one_process(uri):
            client = open_client(uri)
            with suppress(shutil.SameFileError):
                client.log_artifact(run_id, str(file))
            for page, text in pages.items():
                client.log_text(run_id, text, page)
    except (MlflowException, SQLAlchemyError, ImportError, OSError, sqlite3.Error) as error:
        raise unusable(uri, error) from error


def _metrics(metrics: Mapping[str, float | None]) -> tuple[dict[str, float], tuple[str, ...]]:
    """Return what is logged, under MLflow's names, and the names of what has no finite value."""
    defined = {
        name: float(value)
        for name, value in metrics.items()
        if value is not None and math.isfinite(value)
    }
    logged = {name.replace("@", "_at_"): value for name, value in defined.items()}
    illegal = [name for name in logged if not _LEGAL_NAME.fullmatch(name)]
    if illegal:
        raise ValueError(f"metric {illegal[0]!r} has a name that MLflow refuses")
    return logged, tuple(name for name in metrics if name not in defined)


def _parameters(parameters: Mapping[str, object]) -> tuple[dict[str, str], dict[str, str]]:
    """Return what is logged as parameters, and what needs the artifact to be whole."""
    flat = dict(_flattened(parameters))
    logged, in_full = {}, {}
    for name, text in flat.items():
        legal, fits = _LEGAL_NAME.fullmatch(name), len(text) <= _LONGEST_PARAMETER
        if not (legal and fits):
            in_full[name] = text
        if legal:
            digest = "" if fits else hashlib.sha256(text.encode()).hexdigest()
            note = f"sha256:{digest} ({len(text)} characters, see {FULL_PARAMETERS})"
            logged[name] = text if fits else note
    return logged, in_full


def _flattened(tree: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from _flattened(value, f"{prefix}{key}.")
        else:
            text = (
                value
                if isinstance(value, str)
                else json.dumps(value, ensure_ascii=False, default=str)
            )
            yield f"{prefix}{key}", text


def _artifact_uri(uri: str, root: Path | None) -> str | None:
    if uri.startswith(("http:", "https:", "databricks")):
        return None
    database = sqlite_path(uri)
    if root is None and database is not None:
        root = database.parent / "artifacts"
    return None if root is None else root.absolute().as_uri()


def _experiment_id(client: "MlflowClient", name: str, artifact_uri: str | None) -> str:
    from mlflow.exceptions import MlflowException

    found = client.get_experiment_by_name(name)
    if found is None:
        try:
            return str(client.create_experiment(name, artifact_location=artifact_uri))
        except MlflowException:
            # On a store without our lock another process may have been first.
            found = client.get_experiment_by_name(name)
            if found is None:
                raise
    if found.lifecycle_stage == "deleted":
        raise deleted_experiment(name, found.experiment_id)
    return str(found.experiment_id)


@contextmanager
def _new_run(
    client: "MlflowClient", experiment_id: str, name: str, tags: Mapping[str, str]
) -> Iterator[str]:
    """Offer the id of a new run, which ends as FINISHED, or as FAILED on any exception."""
    run_id = str(client.create_run(experiment_id, run_name=name, tags=dict(tags)).info.run_id)
    try:
        yield run_id
        client.set_terminated(run_id)
    except BaseException:
        client.set_terminated(run_id, "FAILED")
        raise


def _log_child(client: "MlflowClient", experiment_id: str, parent_id: str, child: ChildRun) -> None:
    parameters, in_full = _parameters(child.parameters)
    metrics, _ = _metrics(child.metrics)
    tags = {**child.tags, "mlflow.parentRunId": parent_id}
    with _new_run(client, experiment_id, child.name, tags) as run_id:
        _log_values(client, run_id, parameters, metrics, {})
        _log_in_full(client, run_id, in_full)


def _log_in_full(client: "MlflowClient", run_id: str, in_full: Mapping[str, str]) -> None:
    if in_full:
        text = json.dumps(in_full, indent=1, ensure_ascii=False)
        client.log_text(run_id, text, FULL_PARAMETERS)


def _log_values(
    client: "MlflowClient",
    run_id: str,
    parameters: Mapping[str, str],
    metrics: Mapping[str, float],
    steps: Mapping[str, Sequence[tuple[int, float]]],
) -> None:
    from mlflow.entities import Metric, Param

    now = int(time.time() * 1000)
    values = [Metric(key, value, now, 0) for key, value in metrics.items()]
    values += [
        Metric(key.replace("@", "_at_"), value, now, step)
        for key, series in steps.items()
        for step, value in series
    ]
    texts = [Param(key, text) for key, text in parameters.items()]
    for start in range(0, len(texts), _PARAMETERS_A_BATCH):
        client.log_batch(run_id, params=texts[start : start + _PARAMETERS_A_BATCH])
    for start in range(0, len(values), _METRICS_A_BATCH):
        client.log_batch(run_id, metrics=values[start : start + _METRICS_A_BATCH])


def _log_dataset(client: "MlflowClient", run_id: str, dataset: DatasetRecord) -> None:
    from mlflow.entities import Dataset, DatasetInput, InputTag

    logged = Dataset(
        name=dataset.name,
        digest=dataset.digest[:_LONGEST_DATASET_DIGEST],
        source_type="local",
        source=json.dumps({"uri": dataset.source}),
    )
    tags = [InputTag("mlflow.data.context", "evaluation"), InputTag("digest", dataset.digest)]
    client.log_inputs(run_id, datasets=[DatasetInput(logged, tags)])
