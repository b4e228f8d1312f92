"""Log one run to MLflow: parameters, metrics, the data set by digest, the run directory.

Everything goes through an explicit client and explicit ids. MLflow's fluent interface keeps one
active run a process and obeys MLFLOW_RUN_ID, so that a run could land in another one.
"""

import hashlib
import json
import math
import os
import re
import sqlite3
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from retriever import InputError

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

__all__ = ["DatasetRecord", "TrackedRun", "default_tracking_uri", "log_run"]

FULL_PARAMETERS = "parameters_in_full.json"

# MLflow's own limits; beyond them it cuts in silence or refuses.
_LONGEST_PARAMETER = 6_000
_LONGEST_TAG = 8_000
_LONGEST_DATASET_DIGEST = 36
_PARAMETERS_A_BATCH = 100
_METRICS_A_BATCH = 1_000
_LEGAL_NAME = re.compile(r"[\w\- ][\w\-. ]{0,249}")

_QUIET = {
    "MLFLOW_DISABLE_AGENT_HINT": "true",
    "MLFLOW_DISABLE_TELEMETRY": "true",  # a report home would also delay the exit by 0.4 s
    "MLFLOW_LOGGING_LEVEL": "WARNING",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}


@dataclass(frozen=True)
class DatasetRecord:
    """The gold set of a run: its name, the digest of its content, and where it was read."""

    name: str
    digest: str
    source: str


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


def default_tracking_uri(store: Path) -> str:
    """Return MLFLOW_TRACKING_URI where it is set, else a SQLite database in the folder `store`.

    Raises InputError when the variable names MLflow's file store, which MLflow has given up.
    """
    uri = os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{store.absolute()}/mlflow.db"
    _refuse_file_store(uri)
    return uri


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
) -> TrackedRun:
    """Log one finished run and return where it went.

    `parameters` may be nested: names are joined by dots, texts stay, all else becomes JSON.
    `metrics` are keyed by our names; MLflow gets `hit_at_5` for `hit@5`. `artifacts` is a folder,
    copied whole. `artifact_root` is where a new experiment in a database keeps its files (a SQLite
    database by default beside itself); a tracking server decides for itself.

    The experiment is created when missing, and so is a SQLite database, by one process at a time.
    A run that cannot be logged to its end is marked FAILED. Unless their variables are set
    otherwise, MLflow's log lines, run links and telemetry are switched off for this process.

    Raises InputError when the store is a file store, cannot be opened or refuses the run, and
    ValueError for what no caller should hand over: no such folder, a tag that MLflow would cut, a
    metric's name that it refuses.
    """
    _refuse_file_store(uri)
    logged_metrics, undefined = _metrics(metrics)
    logged_parameters, in_full = _parameters(parameters)
    if not artifacts.is_dir():
        raise ValueError(f"{artifacts} is no folder: MLflow would log nothing of it in silence")
    too_long = [key for key, value in tags.items() if len(value) > _LONGEST_TAG]
    if too_long:
        raise ValueError(f"tag {too_long[0]!r} is longer than the {_LONGEST_TAG} of MLflow")
    for variable, value in _QUIET.items():
        os.environ.setdefault(variable, value)
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    try:
        with _one_process(uri):
            client = _client(uri)
            experiment_id = _experiment_id(client, experiment, _artifact_uri(uri, artifact_root))
            run_id = client.create_run(experiment_id, run_name=name, tags=dict(tags)).info.run_id
            try:
                _log_values(client, run_id, logged_parameters, logged_metrics)
                _log_dataset(client, run_id, dataset)
                client.log_artifacts(run_id, str(artifacts))
                if in_full:
                    text = json.dumps(in_full, indent=1, ensure_ascii=False)
                    client.log_text(run_id, text, FULL_PARAMETERS)
                client.set_terminated(run_id)
            except BaseException:
                client.set_terminated(run_id, "FAILED")
                raise
    except (MlflowException, SQLAlchemyError, OSError, sqlite3.Error) as error:
        reason = str(error).strip().partition("\n")[0]
        raise InputError(
            _without_password(f"MLflow cannot log to {uri}: {reason}"),
            fix="set MLFLOW_TRACKING_URI to a usable store",
        ) from error
    skipped = {"undefined_metrics": undefined, "parameters_in_full": tuple(in_full)}
    skipped = {reason: names for reason, names in skipped.items() if names}
    return TrackedRun(run_id, experiment_id, _without_password(uri), skipped)


def _refuse_file_store(uri: str) -> None:
    if uri.startswith("file:") or ("://" not in uri and not uri.startswith("databricks")):
        raise InputError(
            f"tracking URI {uri!r} means MLflow's file store, which MLflow no longer keeps",
            fix="set MLFLOW_TRACKING_URI=sqlite:////absolute/path/mlflow.db or a server's URL",
        )


def _without_password(text: str) -> str:
    return re.sub(r"(://[^/:@]*:)[^/@]*@", r"\1***@", text)


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
    database = _sqlite_path(uri)
    if root is None and database is not None:
        root = database.parent / "artifacts"
    return None if root is None else root.absolute().as_uri()


def _sqlite_path(uri: str) -> Path | None:
    path = uri.removeprefix("sqlite:///").partition("?")[0]
    return None if not uri.startswith("sqlite:///") or path in {"", ":memory:"} else Path(path)


@contextmanager
def _one_process(uri: str) -> Iterator[None]:
    """Let one process at a time use a SQLite store; another kind of store is left to itself.

    Two processes that make MLflow's tables at once fail on "table already exists". The lock is a
    transaction on an empty database beside the store: the system drops it when a process dies.
    """
    database = _sqlite_path(uri)
    if database is None:
        yield
        return
    database.parent.mkdir(parents=True, exist_ok=True)
    guard = sqlite3.connect(f"{database}.lock", timeout=600, isolation_level=None)
    try:
        guard.execute("BEGIN EXCLUSIVE")
        # MLflow would try for two minutes to open a file that is no database.
        with closing(sqlite3.connect(database)) as connection:
            connection.execute("PRAGMA schema_version")
        yield
    finally:
        guard.close()


def _client(uri: str) -> "MlflowClient":
    from mlflow.tracking import MlflowClient

    with warnings.catch_warnings():
        # MLflow's own tables use what SQLAlchemy 2.1 deprecates.
        warnings.filterwarnings("ignore", "The ``noload`` loader strategy", DeprecationWarning)
        return MlflowClient(tracking_uri=uri, registry_uri=uri)


def _experiment_id(client: "MlflowClient", name: str, artifact_uri: str | None) -> str:
    from mlflow.exceptions import MlflowException

    found = client.get_experiment_by_name(name)
    if found is None:
        try:
            return client.create_experiment(name, artifact_location=artifact_uri)
        except MlflowException:
            # On a store without our lock another process may have been first.
            found = client.get_experiment_by_name(name)
            if found is None:
                raise
    return found.experiment_id


def _log_values(
    client: "MlflowClient", run_id: str, parameters: Mapping[str, str], metrics: Mapping[str, float]
) -> None:
    from mlflow.entities import Metric, Param

    now = int(time.time() * 1000)
    values = [Metric(key, value, now, 0) for key, value in metrics.items()]
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
