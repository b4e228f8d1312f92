"""Promotions take turns: one at a time for an alias, each in a scratch folder of its own."""

import fcntl
import hashlib
import os
import re
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from experiments.tracking.store import default_tracking_uri, sqlite_path

__all__ = ["one_promotion", "scratch_folder"]

# Process, machine, and what tells two folders of one process apart.
_SCRATCH = re.compile(r"\.promotion-(\d+)-(.+)\.[^.]+")


@contextmanager
def one_promotion(alias: str, store: Path, waits: Callable[[], object]) -> Iterator[None]:
    """Let one process at a time judge and move an alias; call `waits` if another one has it.

    The lock lies beside a SQLite store, else in the folder `store`, where it binds this machine
    alone. The system drops it when a process dies.
    """
    database = sqlite_path(default_tracking_uri(store))
    folder = store if database is None else database.absolute().parent
    folder.mkdir(parents=True, exist_ok=True)
    name = hashlib.sha256(alias.encode()).hexdigest()[:16]
    with (folder / f".promotion-{name}.lock").open("a") as guard:
        try:
            fcntl.flock(guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waits()
            fcntl.flock(guard, fcntl.LOCK_EX)
        yield


@contextmanager
def scratch_folder(store: Path) -> Iterator[Path]:
    """Make a folder in the store for as long as it is used; remove those of killed processes."""
    store.mkdir(parents=True, exist_ok=True)
    for path in store.iterdir():
        found = _SCRATCH.fullmatch(path.name)
        if found and found[2] == _machine() and not _is_alive(int(found[1])):
            shutil.rmtree(path, ignore_errors=True)
    prefix = f".promotion-{os.getpid()}-{_machine()}."
    with tempfile.TemporaryDirectory(dir=store, prefix=prefix) as folder:
        yield Path(folder)


def _machine() -> str:
    return re.sub(r"[^\w-]", "-", socket.gethostname())[:100]


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True
