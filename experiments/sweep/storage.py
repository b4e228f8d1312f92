"""Where a study is kept: a journal file by default, a database or Optuna's gRPC proxy by URL."""

import fcntl
import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from retriever import InputError

if TYPE_CHECKING:
    from optuna.storages import BaseStorage

__all__ = ["file_names", "journal_url", "open_storage", "quiet_optuna", "shown_url"]

JOURNAL = "journal:"
# How every line of a journal begins.
_FIRST = b'{"op_code":'


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
    if "://" not in url:
        return url
    try:
        password = urlsplit(url).password
    except ValueError:
        return f"{url.partition('://')[0]}://***"
    bare = url.replace(f":{password}@", ":***@") if password else url
    return re.sub(r"(?i)([?&]passw(?:or)?d=)[^&]*", r"\1***", bare)


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
            yield
    finally:
        optuna.logging.set_verbosity(before)


def open_storage(url: str) -> "BaseStorage":
    """Open a study's storage, made where it is absent.

    `journal:PATH` is a file, written by any number of processes of one machine; `sqlite:///PATH`
    and `postgresql://...` are databases; `grpc://HOST:PORT` is a proxy that `optuna.storages.
    run_grpc_proxy_server` serves. Raises InputError for another scheme or a store that cannot be
    opened.
    """
    if url.startswith(JOURNAL):
        return _open_journal(Path(url.removeprefix(JOURNAL)))
    scheme = url.partition("://")[0].partition("+")[0]
    try:
        if scheme == "grpc":
            return _open_proxy(url)
        if scheme in ("postgresql", "postgres", "sqlite", "mysql"):
            return _open_database(url, scheme)
    except InputError:
        raise
    except Exception as error:
        reason = str(error).strip().partition("\n")[0]
        raise InputError(
            f"the storage {shown_url(url)} cannot be opened: {reason}", fix="check --storage"
        ) from error
    raise InputError(
        f"--storage {shown_url(url)!r} is no storage",
        fix="journal:PATH, sqlite:///PATH, postgresql://USER@HOST/NAME or grpc://HOST:PORT",
    )


def _open_journal(path: Path) -> "BaseStorage":
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        backend = JournalFileBackend(str(path), lock_obj=cast("Any", SystemLock(path)))
        return JournalStorage(backend)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", path=path) from error
    except (ValueError, KeyError, AssertionError) as error:
        raise InputError(
            f"no journal of a study: {error}", path=path, fix="name another with -o"
        ) from error


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
    from optuna.storages import RDBStorage, get_storage

    if scheme in ("postgresql", "postgres"):
        url = "postgresql+psycopg://" + url.partition("://")[2]
        return get_storage(RDBStorage(url, engine_kwargs={"pool_pre_ping": True}))
    if scheme == "sqlite":
        Path(url.removeprefix("sqlite:///")).parent.mkdir(parents=True, exist_ok=True)
        return get_storage(RDBStorage(url, engine_kwargs={"connect_args": {"timeout": 120}}))
    return get_storage(RDBStorage(url))


def _open_proxy(url: str) -> "BaseStorage":
    import importlib.util

    if importlib.util.find_spec("grpc") is None:
        raise InputError("grpc:// needs the package grpcio", fix="pip install grpcio")
    from optuna.storages import GrpcStorageProxy

    parts = urlsplit(url)
    with quiet_optuna():
        proxy = GrpcStorageProxy(host=parts.hostname or "localhost", port=parts.port or 13000)
        proxy.wait_server_ready(timeout=30)
        return proxy
