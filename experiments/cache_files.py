"""The files that keep what models computed: how large they are, and which may go."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from retriever import InputError

__all__ = ["cache_stats", "prune_cache"]

# What SQLite keeps beside a file that is written.
BESIDE = ("", "-wal", "-shm")


def cache_stats(folder: Path) -> dict[str, Any]:
    """Return files, entries and bytes of a cache folder; an absent folder holds nothing.

    `entries` is None where a file cannot be read.
    """
    models = [
        {"file": file.name, "entries": _entries(file), "bytes": _size(file)}
        for file in sorted(folder.glob("*.sqlite"))
    ]
    return {
        "folder": str(folder),
        "models": models,
        "bytes": sum(int(str(one["bytes"])) for one in models),
    }


def prune_cache(folder: Path, keep: int) -> list[Mapping[str, Any]]:
    """Remove files, those written longest ago first, until at most `keep` bytes are left.

    A file goes as a whole: its content is computed anew when it is asked for. Raises InputError
    for a file that cannot be removed.
    """
    files = sorted(folder.glob("*.sqlite"), key=lambda file: (file.stat().st_mtime_ns, file.name))
    left = sum(map(_size, files))
    removed: list[Mapping[str, Any]] = []
    for file in files:
        if left <= keep:
            break
        size = _size(file)
        try:
            for ending in BESIDE:
                file.with_name(file.name + ending).unlink(missing_ok=True)
        except OSError as error:
            raise InputError(f"cannot be removed: {error.strerror}", path=file) from error
        left -= size
        removed.append({"file": file.name, "bytes": size})
    return removed


def _size(file: Path) -> int:
    total = 0
    for ending in BESIDE:
        with suppress(OSError):
            total += file.with_name(file.name + ending).stat().st_size
    return total


def _entries(file: Path) -> int | None:
    try:
        base = sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)
    except sqlite3.Error:
        return None
    with closing(base), suppress(sqlite3.Error):
        tables = base.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        counts = (base.execute(f'SELECT count(*) FROM "{name}"') for (name,) in tables)
        return sum(int(found.fetchone()[0]) for found in counts)
    return None
