"""Where a study is kept: a journal file by default, a database or Optuna's gRPC proxy by URL."""

import fcntl
import json
import os
import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote, urlsplit

from retriever import InputError

if TYPE_CHECKING:
    from optuna.storages import BaseStorage

__all__ = [
    "check_storage",
    "close_storage",
    "file_names",
    "is_storage_fault",
    "journal_url",
    "open_storage",
    "opened_storage",
    "quiet_optuna",
    "shown_url",
]

JOURNAL = "journal:"
_DATABASES = ("mysql", "postgres", "postgresql", "sqlite")
# How every line of a journal begins.
_FIRST = b'{"op_code":'
# How long to wait for a proxy, or a database, that does not answer.
PATIENCE_SECONDS = 8.0


def journal_url(path: Path) -> str:
    """Return the URL of a journal file."""
    return f"{JOURNAL}{path.absolute()}"


def file_names(url: str) -> set[str]:
    """Return the names of the files that a storage makes: its own, locks and logs beside it."""
    if not url.startswith((JOURNAL, "sqlite")):
        return set()
    name = Path(url.removeprefix(JOURNAL).partition("?")[0]).name
    return {f"{name}{end}" for end in ("", ".lock", "-journal", "-wal", "-shm")}


def shown_url(url: str) -> str:
    """Return a URL without its password."""
    # Up to the last @: a password may hold what would end it, when it was not escaped.
    bare = re.sub(r"(://[^:@/]*):.*@", r"\1:***@", url)
    return re.sub(r"(?i)([?&][a-z]*passw(?:or)?d=)[^&]*", r"\1***", bare)


@contextmanager
def opened_storage(url: str) -> Iterator["BaseStorage"]:
    """Open a storage for as long as it is used, and close its connections after that.

    What it raises meanwhile, of whatever library, becomes an InputError that names it.
    """
    storage = open_storage(url)
    try:
        yield storage
    except Exception as error:
        if not is_storage_fault(error):
            raise
        raise InputError(
            f"the storage {shown_url(url)} failed: {_reason(error, url)}",
            fix="when it answers again, the same command goes on",
        ) from error
    finally:
        close_storage(storage)


def close_storage(storage: "BaseStorage") -> None:
    """Close the connections of a storage."""
    # Optuna wraps a database into its cache.
    engine = getattr(getattr(storage, "_backend", storage), "engine", None)
    if engine is not None:
        storage.remove_session()
        engine.dispose()
    elif callable(close := getattr(storage, "close", None)):
        close()


def is_storage_fault(error: Exception) -> bool:
    """Tell a fault of a database or a proxy from one of a trial."""
    from optuna.exceptions import StorageInternalError

    kinds: list[type[BaseException]] = [StorageInternalError]
    for module, name in (("sqlalchemy.exc", "SQLAlchemyError"), ("grpc", "RpcError")):
        if module in sys.modules:
            kinds.append(getattr(sys.modules[module], name))
    return isinstance(error, tuple(kinds))


def _reason(error: BaseException, url: str) -> str:
    """Return the first line of what was wrong in the first place, without the URL's password."""
    while error.__cause__ is not None:
        error = error.__cause__
    details = getattr(error, "details", None)  # of a call to a proxy
    text = str(details() if callable(details) else error).strip().partition("\n")[0]
    secrets = re.findall(r"://[^:@/]*:(.*)@", url) + re.findall(r"(?i)passw(?:or)?d=([^&]*)", url)
    for secret in (form for one in secrets if one for form in (one, unquote(one))):
        text = text.replace(secret, "***")
    return text or type(error).__name__


@contextmanager
def quiet_optuna() -> Iterator[None]:
    """Keep Optuna's log lines, and warnings about what is used here on purpose, off the terminal.

    TPE's `group` and the gRPC proxy are experimental by Optuna's word.
    """
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            # CMA-ES looks at no constraint; the choice does, and the documentation says so.
            warnings.filterwarnings("ignore", "Constraints have been set", UserWarning)
            yield
    finally:
        optuna.logging.set_verbosity(before)


def check_storage(url: str) -> None:
    """Refuse a URL that names no storage, or one that would be lost. Nothing is opened.

    Raises InputError.
    """
    scheme = url.partition("://")[0].partition("+")[0]
    if not url.startswith(JOURNAL) and scheme not in ("grpc", *_DATABASES):
        raise InputError(
            f"--storage {shown_url(url)!r} is no storage",
            fix="journal:PATH, sqlite:///PATH, postgresql://USER@HOST/NAME or grpc://HOST:PORT",
        )
    if url.startswith(JOURNAL):
        path, fix = url.removeprefix(JOURNAL), "--storage journal:PATH"
    elif scheme == "sqlite":
        # What is in memory alone is lost with the process.
        path = url.partition("://")[2].partition("?")[0].replace(":memory:", "").strip("/")
        fix = "--storage sqlite:///PATH"
    else:
        return
    if not path.strip():
        raise InputError(f"--storage {url!r} names no file", fix=fix)


def open_storage(url: str) -> "BaseStorage":
    """Open a study's storage, made where it is absent.

    `journal:PATH` is a file, written by any number of processes of one machine; `sqlite:///PATH`
    and `postgresql://...` are databases; `grpc://HOST:PORT` is a proxy that `optuna.storages.
    run_grpc_proxy_server` serves. Raises InputError for another scheme or a store that cannot be
    opened.
    """
    check_storage(url)
    if url.startswith(JOURNAL):
        return _open_journal(Path(url.removeprefix(JOURNAL)))
    scheme = url.partition("://")[0].partition("+")[0]
    try:
        if scheme == "grpc":
            return _open_proxy(url)
        return _open_database(url, scheme)
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            f"the storage {shown_url(url)} cannot be opened: {_reason(error, url)}",
            fix="check --storage",
        ) from error


def _open_journal(path: Path) -> "BaseStorage":
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _refuse_broken_end(path)
        backend = JournalFileBackend(str(path), lock_obj=cast("Any", SystemLock(path)))
        return JournalStorage(backend)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", path=path) from error
    except (ValueError, LookupError, TypeError, AssertionError) as error:
        raise InputError(
            f"no journal of a study: {error}", path=path, fix="name another with -o"
        ) from error


def _refuse_broken_end(path: Path) -> None:
    """Refuse a journal whose last whole line is none; Optuna sees that only once it has written."""
    if not path.is_file():
        return
    with path.open("rb") as stream:
        line = b""
        for one in stream:
            line = one if one.endswith(b"\n") else line
    if line:
        json.loads(line)["op_code"]


class SystemLock:
    """A lock for a journal that no death can leave behind, and that mends the journal's end.

    The system drops it with its process. A process killed while it wrote leaves half a line; the
    next writer cuts that off, or its own line would be spoilt with it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._guard: int | None = None

    def acquire(self) -> bool:
        """Wait for the lock."""
        guard = os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT, 0o644)
        fcntl.flock(guard, fcntl.LOCK_EX)
        self._guard = guard
        _cut_half_line(self._path)
        return True

    def release(self) -> None:
        """Let the next one in."""
        if self._guard is not None:
            os.close(self._guard)
            self._guard = None


def _cut_half_line(path: Path) -> None:
    with path.open("rb+") as stream:
        size = stream.seek(0, os.SEEK_END)
        if not size:
            return
        stream.seek(0)
        head = stream.read(len(_FIRST))
        if not _FIRST.startswith(head):
            raise InputError("no journal of a study", path=path, fix="name a new file")
        stream.seek(size - 1)
        if stream.read(1) == b"\n":
            return
        # A line of the journal is some hundred bytes; look back further only if need be.
        reach = 4096
        while True:
            start = max(0, size - reach)
            stream.seek(start)
            end = stream.read(size - start).rfind(b"\n")
            if end >= 0 or start == 0:
                stream.truncate(start + end + 1)
                return
            reach *= 4


def _open_database(url: str, scheme: str) -> "BaseStorage":
    from optuna.storages import get_storage

    engine: dict[str, Any] = {}
    if scheme in ("postgresql", "postgres"):
        url = "postgresql+psycopg://" + url.partition("://")[2]
        engine = {"pool_pre_ping": True}
    elif scheme == "sqlite":
        Path(url.removeprefix("sqlite:///")).parent.mkdir(parents=True, exist_ok=True)
        engine = {"connect_args": {"timeout": 120}}
    return get_storage(_database(url, engine))


def _database(url: str, engine: Mapping[str, Any]) -> Any:
    from optuna.distributions import distribution_to_json
    from optuna.storages import RDBStorage
    from optuna.storages._rdb.models import TrialParamModel

    class PlainParameters(RDBStorage):
        """Writes the parameters of a trial in one statement.

        Optuna asks twice for each whether an earlier trial had it with another range. The space of
        a study is fixed by its plan.
        """

        def _set_trial_param_without_commit(
            self,
            session: Any,
            trial_id: int,
            param_name: str,
            param_value_internal: float,
            distribution: Any,
            previous_distribution: Any = None,
        ) -> None:
            session.add(
                TrialParamModel(
                    trial_id=trial_id,
                    param_name=param_name,
                    param_value=param_value_internal,
                    distribution_json=distribution_to_json(distribution),
                )
            )

    return PlainParameters(url, engine_kwargs=dict(engine))


def _open_proxy(url: str) -> "BaseStorage":
    import importlib.util

    if importlib.util.find_spec("grpc") is None:
        raise InputError("grpc:// needs the package grpcio", fix="pip install grpcio")
    from optuna.storages import GrpcStorageProxy

    grpc: Any = importlib.import_module("grpc")

    parts = urlsplit(url)
    host, port = parts.hostname or "localhost", parts.port or 13000
    with quiet_optuna():
        proxy = GrpcStorageProxy(host=host, port=port)
        try:
            proxy.wait_server_ready(timeout=PATIENCE_SECONDS)
        except (grpc.FutureTimeoutError, ConnectionError) as error:
            proxy.close()
            raise InputError(
                f"the storage {shown_url(url)} cannot be opened: no answer from {host}:{port} in "
                f"{PATIENCE_SECONDS:g} s",
                fix="start its server, or check --storage",
            ) from error
        return proxy
