"""Run directories: what an evaluation leaves behind, read by reports and comparisons.

    run.json            figures with intervals, digests, versions, counts, timings
    config.yaml         the whole configuration (absent for an imported run)
    run.trec            the ranking, with strictly falling scores
    qrels.trec          the judgements it was scored with
    queries.parquet     a row a query
    candidates.parquet  a row a candidate: its rank and score after every stage
    texts.parquet       what a drill-down shows of the chunks, cut to 1,000 characters

Timings stand in run.json alone, so that two runs of one configuration give the same bytes
everywhere else.
"""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from retriever.files import InputError

__all__ = ["FORMAT", "git_commit", "new_run_folder", "write_json", "write_table"]

FORMAT = 1


@contextmanager
def new_run_folder(path: Path) -> Iterator[Path]:
    """Offer an empty folder that becomes `path` in one step when the block ends well.

    An earlier run at `path` is replaced; anything else there is refused.
    """
    if path.exists() and not (path / "run.json").is_file() and not _is_empty(path):
        raise InputError("exists and is no run", path=path, fix="name a new folder with -o")
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    try:
        folder.chmod(0o755)
        yield folder
        if path.exists():
            old = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}.old."))
            path.replace(old / "run")
            folder.replace(path)
            shutil.rmtree(old)
        else:
            folder.replace(path)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write one JSON object; NaN and infinity are refused, being no JSON."""
    text = json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False)
    path.write_text(text + "\n", "utf-8")


def write_table(path: Path, columns: Mapping[str, Any]) -> None:
    """Write columns as Parquet, byte for byte the same for the same content."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table(dict(columns)), path, compression="zstd")


def git_commit() -> str | None:
    """Return the commit of the repository in the current folder, with `+` when it has changes."""
    git = shutil.which("git")
    if git is None:
        return None
    try:
        ask = {"capture_output": True, "text": True, "timeout": 10, "check": True}
        head = subprocess.run([git, "rev-parse", "HEAD"], **ask).stdout.strip()  # type: ignore[call-overload]  # noqa: S603
        changes = subprocess.run([git, "status", "--porcelain", "-uno"], **ask).stdout.strip()  # type: ignore[call-overload]  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return None
    return f"{head}+" if changes else str(head)


def _is_empty(path: Path) -> bool:
    return path.is_dir() and not os.listdir(path)  # noqa: PTH208 - closed at once
