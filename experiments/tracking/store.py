"""Where MLflow keeps runs: the URI, what is refused before any work, one process at a time."""

import os
import re
import shlex
import socket
import sqlite3
import sys
import urllib.request
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from retriever import InputError

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient
    from sqlalchemy.engine import URL

__all__ = [
    "check_tracking",
    "default_tracking_uri",
    "deleted_experiment",
    "load_line",
    "one_process",
    "open_client",
    "quiet_mlflow",
    "shown_uri",
    "sqlite_path",
    "unusable",
]


# MLflow's own limits; beyond them it cuts in silence or refuses.
_LONGEST_EXPERIMENT = 500

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
    database = sqlite_path(uri)
    if database is not None:
        _check_sqlite(uri, database, experiment)
    elif url.host:
        _check_reachable(uri, url.host, url.port or _PORTS[scheme])


def _refuse_file_store(uri: str) -> None:
    if uri.startswith("file:") or ("://" not in uri and not uri.startswith("databricks")):
        raise InputError(
            f"tracking URI {shown_uri(uri)!r} means MLflow's file store, "
            "which MLflow no longer keeps",
            fix="set MLFLOW_TRACKING_URI=sqlite:////absolute/path/mlflow.db or a server's URL",
        )


def shown_uri(uri: str) -> str:
    """Return the URI without user and password; the path of a SQLite file stays whole."""
    if uri.startswith("sqlite"):
        return uri
    return _without_passwords(re.sub(r"(?s)://.*@", "://***@", uri))


def load_line(uri: str, address: str, store: Path) -> str:
    """Return the shell line that loads a model of this store and searches, from any folder.

    Else MLflow would look into, and make, a database of its own in the current folder, and what
    is known of the models' files would be kept there. A URI with a password is left to the
    environment, which it came from.
    """
    database = sqlite_path(uri)
    where = uri if database is None else _sqlite_uri(database.absolute())
    code = (
        f"import mlflow, pandas as pd; model = mlflow.pyfunc.load_model({address!r}); "
        "hits = model.predict(pd.DataFrame({'query': ['your question']})); "
        "print(hits[['rank', 'document_id', 'score']])"
    )
    variables = {"ASSAY_STORE": str(store.absolute()), "MLFLOW_TRACKING_URI": where}
    if shown_uri(where) != where:
        del variables["MLFLOW_TRACKING_URI"]
    said = " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())
    return f'{said} {shlex.quote(sys.executable)} -c "{code}"'


def _without_passwords(text: str) -> str:
    bare = re.sub(r"://\S*@", "://***@", text)
    return re.sub(r"(?i)(passw(?:or)?d=)[^&\s]*", r"\1***", bare)


def unusable(uri: str, error: object, fix: str = "") -> InputError:
    """Return the one line that says why a store cannot be used."""
    reason = str(error).strip().partition("\n")[0].replace(uri, shown_uri(uri))
    if not uri.startswith("sqlite"):
        reason = _without_passwords(reason)
    if not fix and "already exists" in reason and "table" in reason:
        fix = "an interrupted run left the database half made: move it away"
    return InputError(
        f"MLflow cannot log to {shown_uri(uri)}: {reason}", fix=fix or _USE_ANOTHER_STORE
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
        raise unusable(
            uri, f"unknown scheme {scheme!r}", f"set MLFLOW_TRACKING_URI to one of {expected}"
        )
    return scheme


def _database_url(uri: str) -> "URL":
    """Parse a database's URI and import its driver; raise InputError where either fails."""
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import SQLAlchemyError

    account = re.match(r"[^:]+://[^:/]*(?::[^@]*)?@", uri)
    if account and "@" in uri[account.end() :].partition("?")[0]:
        raise unusable(uri, "more than one @", "write the @ of a user or password as %40")
    try:
        url = make_url(uri)
        url.get_dialect().import_dbapi()
    except ImportError as error:
        reason = f"its driver is not installed: {error}"
        raise unusable(uri, reason, "install it, or name another store") from error
    except (SQLAlchemyError, ValueError) as error:
        raise unusable(uri, error) from error
    return url


def _check_server(uri: str) -> None:
    try:
        parts = urlsplit(uri)
        host, port = parts.hostname, parts.port or _PORTS[parts.scheme]
    except ValueError as error:
        raise unusable(uri, error) from error
    if not host:
        raise unusable(uri, "no host")
    proxied = parts.scheme in urllib.request.getproxies()
    if not proxied or urllib.request.proxy_bypass(host):
        _check_reachable(uri, host, port)


def _check_reachable(uri: str, host: str, port: int) -> None:
    try:
        socket.create_connection((host, port), timeout=_PROBE_SECONDS).close()
    except (OSError, OverflowError, UnicodeError) as error:
        fix = "start the server, or set MLFLOW_TRACKING_URI to another store"
        raise unusable(uri, f"no answer from {host}:{port}: {error}", fix) from error


def _check_sqlite(uri: str, database: Path, experiment: str) -> None:
    """Raise InputError where a SQLite store cannot be written, without writing anything."""
    folder = database.absolute().parent
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        if not folder.is_dir():
            raise unusable(uri, f"{folder} is not a folder")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise unusable(uri, f"the folder {folder} cannot be written")
        if not database.exists():
            return
        if database.is_dir():
            raise unusable(uri, f"{database} is a folder")
        if not os.access(database, os.R_OK | os.W_OK):
            raise unusable(uri, f"the file {database} cannot be written")
        with database.open("rb") as stream:
            start = stream.read(len(_SQLITE_HEADER))
    except OSError as error:
        raise unusable(uri, error) from error
    if start not in {b"", _SQLITE_HEADER}:
        raise unusable(uri, "file is not a database")
    _check_not_deleted(database, experiment)


def _check_not_deleted(database: Path, experiment: str) -> None:
    query = "select experiment_id from experiments where name = ? and lifecycle_stage = 'deleted'"
    # A store without this table, or locked by another process, is looked at when logging.
    with suppress(sqlite3.Error), closing(sqlite3.connect(database, timeout=1)) as connection:
        found = connection.execute(query, (experiment,)).fetchone()
        if found is not None:
            raise deleted_experiment(experiment, str(found[0]))


def deleted_experiment(experiment: str, experiment_id: str) -> InputError:
    """Return the error of an experiment that is deleted, with the command that restores it."""
    return InputError(
        f"the MLflow experiment {experiment!r} is deleted",
        fix=f"name another, or mlflow experiments restore --experiment-id {experiment_id}",
    )


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


def sqlite_path(uri: str) -> Path | None:
    """Return the file of a SQLite URI, None for other stores; refuse one that keeps nothing."""
    if not uri.startswith("sqlite"):
        return None
    from sqlalchemy.engine import make_url

    url = make_url(uri)
    path = url.database or ":memory:"
    if url.host or path == ":memory:" or "uri" in url.query:
        lost = path == ":memory:" and not url.host
        reason = "in memory the run would be lost" if lost else "no plain path"
        raise unusable(uri, reason, "set MLFLOW_TRACKING_URI=sqlite:////absolute/path/mlflow.db")
    return Path(path)


@contextmanager
def one_process(uri: str) -> Iterator[None]:
    """Let one process at a time use a SQLite store; another kind of store is left to itself.

    Two processes that make MLflow's tables at once fail on "table already exists". The lock is a
    transaction on an empty database beside the store: the system drops it when a process dies.
    """
    database = sqlite_path(uri)
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
