"""Log one run to MLflow: parameters, metrics, the data set by digest, the run directory.

Everything goes through an explicit client and explicit ids. MLflow's fluent interface keeps one
active run a process and obeys MLFLOW_RUN_ID, so that a run could land in another one.
"""

import hashlib
import json
import math
import os
import re
import shutil
import socket
import sqlite3
import time
import urllib.request
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from retriever import InputError

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient
    from sqlalchemy.engine import URL

__all__ = [
    "ChildRun",
    "DatasetRecord",
    "TrackedRun",
    "add_to_run",
    "check_tracking",
    "default_tracking_uri",
    "log_run",
    "open_client",
    "quiet_mlflow",
]

FULL_PARAMETERS = "parameters_in_full.json"

# MLflow's own limits; beyond them it cuts in silence or refuses.
_LONGEST_PARAMETER = 6_000
_LONGEST_TAG = 8_000
_LONGEST_DATASET_DIGEST = 36
_LONGEST_EXPERIMENT = 500
_PARAMETERS_A_BATCH = 100
_METRICS_A_BATCH = 1_000
_LEGAL_NAME = re.compile(r"[\w\- ][\w\-. ]{0,249}")

_QUIET = {
    "MLFLOW_DISABLE_AGENT_HINT": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",  # a report home would also delay the exit by 0.4 s
    # What it logs at lower levels is raised as well, here told in one line.
    "MLFLOW_LOGGING_LEVEL": "CRITICAL",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}

_DATABASES = {"mssql", "mysql", "postgresql", "sqlite"}
_SERVERS = {"databricks", "databricks-uc", "http", "https", "uc"}
_PORTS = {"http": 80, "https": 443, "mssql": 1433, "mysql": 3306, "postgresql": 5432}
_PROBE_SECONDS = 5.0
_SQLITE_HEADER = b"SQLite format 3\0"
_USE_ANOTHER_STORE = "set MLFLOW_TRACKING_URI to a usable store"


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


def default_tracking_uri(store: Path) -> str:
    """Return MLFLOW_TRACKING_URI where it is set, else a SQLite database in the folder `store`.

    Raises InputError when the variable names MLflow's file store, which MLflow has given up.
    """
    uri = os.environ.get("MLFLOW_TRACKING_URI") or _sqlite_uri(store.absolute() / "mlflow.db")
    _refuse_file_store(uri)
    return uri


def check_tracking(uri: str, experiment: str = "assay") -> None:
    """Refuse what a run could not be logged to, before any work is done. Nothing is written.

    Looks at the experiment's name, the scheme, the driver of a database, whether its server takes
    connections (five seconds at most), and whether a SQLite file and its folder can be written and
    hold the experiment as deleted. Raises InputError, which shows no password.
    """
    _check_experiment_name(experiment)
    _refuse_file_store(uri)
    scheme = _scheme(uri)
    if scheme not in _DATABASES:
        if scheme in {"http", "https"}:
            _check_server(uri)
        return
    url = _database_url(uri)
    database = _sqlite_path(uri)
    if database is not None:
        _check_sqlite(uri, database, experiment)
    elif url.host:
        _check_reachable(uri, url.host, url.port or _PORTS[scheme])


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
        with _one_process(uri):
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
        raise _unusable(uri, error) from error
    skipped = {"undefined_metrics": undefined, "parameters_in_full": tuple(in_full)}
    skipped = {reason: names for reason, names in skipped.items() if names}
    return TrackedRun(run_id, experiment_id, _shown(uri), skipped)


def add_to_run(uri: str, run_id: str, file: Path, pages: Mapping[str, str]) -> None:
    """Add a file and pages, text by name, to the artifacts of a run; those there are replaced.

    A run's artifacts may be the very folder that the file is in. Raises InputError where MLflow
    refuses.
    """
    quiet_mlflow()
    from mlflow.exceptions import MlflowException
    from sqlalchemy.exc import SQLAlchemyError

    try:
        with _one_process(uri):
            client = open_client(uri)
            with suppress(shutil.SameFileError):
                client.log_artifact(run_id, str(file))
            for page, text in pages.items():
                client.log_text(run_id, text, page)
    except (MlflowException, SQLAlchemyError, ImportError, OSError, sqlite3.Error) as error:
        raise _unusable(uri, error) from error


def _refuse_file_store(uri: str) -> None:
    if uri.startswith("file:") or ("://" not in uri and not uri.startswith("databricks")):
        raise InputError(
            f"tracking URI {_shown(uri)!r} means MLflow's file store, which MLflow no longer keeps",
            fix="set MLFLOW_TRACKING_URI=sqlite:////absolute/path/mlflow.db or a server's URL",
        )


def _shown(uri: str) -> str:
    """Return the URI without user and password; the path of a SQLite file stays whole."""
    if uri.startswith("sqlite"):
        return uri
    return _without_passwords(re.sub(r"(?s)://.*@", "://***@", uri))


def _without_passwords(text: str) -> str:
    bare = re.sub(r"://\S*@", "://***@", text)
    return re.sub(r"(?i)(passw(?:or)?d=)[^&\s]*", r"\1***", bare)


def _unusable(uri: str, error: object, fix: str = "") -> InputError:
    """Return the one line that says why a store cannot be used."""
    reason = str(error).strip().partition("\n")[0].replace(uri, _shown(uri))
    if not uri.startswith("sqlite"):
        reason = _without_passwords(reason)
    if not fix and "already exists" in reason and "table" in reason:
        fix = "an interrupted run left the database half made: move it away"
    return InputError(
        f"MLflow cannot log to {_shown(uri)}: {reason}", fix=fix or _USE_ANOTHER_STORE
    )


def _check_experiment_name(name: str) -> None:
    if not name.strip():
        raise InputError("the name of the MLflow experiment is empty", fix="name it")
    if len(name) > _LONGEST_EXPERIMENT:
        raise InputError(
            f"the name of the MLflow experiment has {len(name)} characters: {name[:40]!r}...",
            fix=f"take at most {_LONGEST_EXPERIMENT}",
        )
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InputError(
            f"the name of the MLflow experiment {name!a} is no UTF-8", fix="take another"
        ) from None


def _scheme(uri: str) -> str:
    """Return the scheme without a driver; raise InputError for one that MLflow does not know."""
    scheme = uri.partition(":")[0].lower().partition("+")[0]
    plugins = {entry.name for entry in entry_points(group="mlflow.tracking_store")}
    if scheme not in _DATABASES | _SERVERS | plugins:
        expected = ", ".join(sorted(_DATABASES | {"http", "https"}))
        raise _unusable(
            uri, f"unknown scheme {scheme!r}", f"set MLFLOW_TRACKING_URI to one of {expected}"
        )
    return scheme


def _database_url(uri: str) -> "URL":
    """Parse a database's URI and import its driver; raise InputError where either fails."""
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import SQLAlchemyError

    account = re.match(r"[^:]+://[^:/]*(?::[^@]*)?@", uri)
    if account and "@" in uri[account.end() :].partition("?")[0]:
        raise _unusable(uri, "more than one @", "write the @ of a user or password as %40")
    try:
        url = make_url(uri)
        url.get_dialect().import_dbapi()
    except ImportError as error:
        reason = f"its driver is not installed: {error}"
        raise _unusable(uri, reason, "install it, or name another store") from error
    except (SQLAlchemyError, ValueError) as error:
        raise _unusable(uri, error) from error
    return url


def _check_server(uri: str) -> None:
    try:
        parts = urlsplit(uri)
        host, port = parts.hostname, parts.port or _PORTS[parts.scheme]
    except ValueError as error:
        raise _unusable(uri, error) from error
    if not host:
        raise _unusable(uri, "no host")
    proxied = parts.scheme in urllib.request.getproxies()
    if not proxied or urllib.request.proxy_bypass(host):
        _check_reachable(uri, host, port)


def _check_reachable(uri: str, host: str, port: int) -> None:
    try:
        socket.create_connection((host, port), timeout=_PROBE_SECONDS).close()
    except (OSError, OverflowError, UnicodeError) as error:
        fix = "start the server, or set MLFLOW_TRACKING_URI to another store"
        raise _unusable(uri, f"no answer from {host}:{port}: {error}", fix) from error


def _check_sqlite(uri: str, database: Path, experiment: str) -> None:
    """Raise InputError where a SQLite store cannot be written, without writing anything."""
    folder = database.absolute().parent
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        if not folder.is_dir():
            raise _unusable(uri, f"{folder} is not a folder")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise _unusable(uri, f"the folder {folder} cannot be written")
        if not database.exists():
            return
        if database.is_dir():
            raise _unusable(uri, f"{database} is a folder")
        if not os.access(database, os.R_OK | os.W_OK):
            raise _unusable(uri, f"the file {database} cannot be written")
        with database.open("rb") as stream:
            start = stream.read(len(_SQLITE_HEADER))
    except OSError as error:
        raise _unusable(uri, error) from error
    if start not in {b"", _SQLITE_HEADER}:
        raise _unusable(uri, "file is not a database")
    _check_not_deleted(database, experiment)


def _check_not_deleted(database: Path, experiment: str) -> None:
    query = "select experiment_id from experiments where name = ? and lifecycle_stage = 'deleted'"
    # A store without this table, or locked by another process, is looked at when logging.
    with suppress(sqlite3.Error), closing(sqlite3.connect(database, timeout=1)) as connection:
        found = connection.execute(query, (experiment,)).fetchone()
        if found is not None:
            raise _deleted(experiment, str(found[0]))


def _deleted(experiment: str, experiment_id: str) -> InputError:
    return InputError(
        f"the MLflow experiment {experiment!r} is deleted",
        fix=f"name another, or mlflow experiments restore --experiment-id {experiment_id}",
    )


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


def _sqlite_uri(database: Path) -> str:
    """Return the URI of a SQLite file, quoting no more of its path than must be.

    MLflow makes the folder of the path as the URI spells it, so that each needless quotation
    would leave a wrong folder behind. SQLAlchemy before 2.1 unquotes nothing.
    """
    from sqlalchemy.engine import make_url

    plain = str(database)
    quoted = re.sub(r"%(?=[0-9a-fA-F]{2})|\?", lambda sign: f"%{ord(sign[0]):02X}", plain)
    for path in (plain, quoted):
        uri = f"sqlite:///{path}"
        if make_url(uri).database == plain:
            return uri
    raise InputError(
        f"{plain!r} cannot be the path of a SQLite database", fix="keep runs in another folder"
    )


def _sqlite_path(uri: str) -> Path | None:
    """Return the file of a SQLite URI, None for other stores; refuse one that keeps nothing."""
    if not uri.startswith("sqlite"):
        return None
    from sqlalchemy.engine import make_url

    url = make_url(uri)
    path = url.database or ":memory:"
    if url.host or path == ":memory:" or "uri" in url.query:
        lost = path == ":memory:" and not url.host
        reason = "in memory the run would be lost" if lost else "no plain path"
        raise _unusable(uri, reason, "set MLFLOW_TRACKING_URI=sqlite:////absolute/path/mlflow.db")
    return Path(path)


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
        with _without_misspelt_folders(uri, database):
            if _is_empty(database):
                _make_database(database)
            yield
    finally:
        guard.close()


def _is_empty(database: Path) -> bool:
    """Tell whether a database is absent or has no table; raise sqlite3.Error where it is none."""
    if not database.exists():
        return True
    # MLflow would try for two minutes to open a file that is no database.
    with closing(sqlite3.connect(database)) as connection:
        tables = connection.execute("select count(*) from sqlite_master").fetchone()[0]
    return int(tables) == 0


def _make_database(database: Path) -> None:
    """Make MLflow's tables in a file beside the database and rename it into place.

    MLflow makes them in many steps and cannot go on from one of them, so that a killed process
    would leave a database that is of no use. Called with the lock held.
    """
    with _quiet_tables():
        from mlflow.store.tracking import DEFAULT_LOCAL_FILE_AND_ARTIFACT_PATH
        from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

    prefix = f".{database.name}.new-"
    for left in [path for path in database.parent.iterdir() if path.name.startswith(prefix)]:
        left.unlink()
    temporary = database.with_name(f"{prefix}{uuid.uuid4().hex}")
    try:
        uri = _sqlite_uri(temporary)
        with _without_misspelt_folders(uri, temporary):
            make_store: Callable[[str, str], Any] = SqlAlchemyStore
            store = make_store(uri, DEFAULT_LOCAL_FILE_AND_ARTIFACT_PATH)
        store.engine.dispose()
        temporary.replace(database)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def _without_misspelt_folders(uri: str, database: Path) -> Iterator[None]:
    """Remove the empty folders that MLflow makes for a quoted path, which it does not unquote."""
    folder = Path(uri.removeprefix("sqlite:///")).parent
    misspelt = [] if folder == database.parent else [folder, *folder.parents]
    absent = [path for path in misspelt if not path.exists()]
    try:
        yield
    finally:
        for path in absent:
            with suppress(OSError):
                path.rmdir()


@contextmanager
def _quiet_tables() -> Iterator[None]:
    with warnings.catch_warnings():
        # MLflow's own tables use what SQLAlchemy 2.1 deprecates.
        warnings.filterwarnings("ignore", "The ``noload`` loader strategy", DeprecationWarning)
        yield


def quiet_mlflow() -> None:
    """Switch off MLflow's log lines, links, bars and telemetry, unless their variables are set."""
    for variable, value in _QUIET.items():
        os.environ.setdefault(variable, value)


def open_client(uri: str) -> "MlflowClient":
    """Return a client of a store, with MLflow's own log lines, links and telemetry off."""
    quiet_mlflow()
    from mlflow.tracking import MlflowClient

    with _quiet_tables():
        return MlflowClient(tracking_uri=uri, registry_uri=uri)


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
        raise _deleted(name, found.experiment_id)
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
