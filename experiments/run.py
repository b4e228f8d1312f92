"""Run directories: what an evaluation leaves behind, read by reports and comparisons.

    run.json            figures with intervals, digests, versions, counts, timings
    config.yaml         the whole configuration (absent for an imported run)
    run.trec            the ranking, with strictly falling scores
    qrels.trec          the judgements it was scored with
    queries.parquet     a row a query
    candidates.parquet  a row a candidate: its rank and score after every stage
    texts.parquet       what a drill-down shows of the chunks, cut to 1,000 characters

Written later, by a look at the run:

    failures.json       causes, each tried by a replay (assay diagnose RUN --verify)
    headroom.json       what later stages and other weights could reach (assay headroom RUN)

Timings stand in run.json alone, so that two runs of one configuration give the same bytes
everywhere else.
"""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from reports.run_schema import FORMAT
from retriever.files import InputError, writing

__all__ = [
    "FORMAT",
    "git_commit",
    "new_run_folder",
    "refuse_foreign",
    "reserve",
    "write_json",
    "write_table",
]

# In the order in which they are put in place.
FILES = (
    "config.yaml",
    "run.trec",
    "qrels.trec",
    "queries.parquet",
    "candidates.parquet",
    "texts.parquet",
    "failures.json",
    "headroom.json",
    "run.json",
)


@contextmanager
def new_run_folder(path: Path) -> Iterator[Path]:
    """Offer an empty folder whose files become the run at `path` when the block ends well.

    An earlier run at `path` is replaced, file by file with run.json last: a kill in between leaves
    a folder without run.json, which is no run, and never a mixture that looks like one. Anything
    else there is refused.
    """
    refuse_foreign(path)
    target = path.resolve()
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name[:100]}."))
    try:
        folder.chmod(0o755)
        with writing(target):
            yield folder
        if not target.exists():
            folder.replace(target)
            return
        (target / "run.json").unlink(missing_ok=True)
        for name in FILES:
            if (folder / name).exists():
                (folder / name).replace(target / name)
            else:
                (target / name).unlink(missing_ok=True)
    except BaseException:
        with suppress(OSError):
            target.rmdir()  # only if it is empty: reserved, and not to be
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def refuse_foreign(path: Path, ours: Collection[str] = FILES) -> None:
    """Refuse a place that holds anything but files of ours, a run's. Raises InputError."""
    if not path.exists():
        if path.is_symlink():
            raise InputError("a link to nothing", path=path, fix="name a new folder with -o")
        above = next(parent for parent in path.absolute().parents if parent.exists())
        if not above.is_dir():
            raise InputError("a file, which can hold no folder", path=above, fix="name another -o")
        return
    if not path.is_dir():
        raise InputError("a file", path=path, fix="name a new folder with -o")
    strangers = sorted(set(os.listdir(path)) - set(ours))  # noqa: PTH208 - closed at once
    if strangers:
        raise InputError(
            f"holds other files ({strangers[0]})", path=path, fix="name a new folder with -o"
        )


def reserve(path: Path) -> Path:
    """Make a new, empty folder at `path`, or at `path-2`, `path-3` where others have come first."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    number = 1
    while True:
        place = path if number == 1 else path.with_name(f"{path.name}-{number}")
        try:
            place.mkdir()
        except FileExistsError:
            number += 1
        else:
            return place


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write one JSON object; NaN and infinity are refused, being no JSON."""
    text = json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False)
    with writing(path):
        path.write_text(text + "\n", "utf-8")


def write_table(path: Path, columns: Mapping[str, Any]) -> None:
    """Write columns as Parquet, byte for byte the same for the same content."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    # An open file: a bare path could be read as the address of a file system.
    with writing(path), path.open("wb") as stream:
        pq.write_table(pa.table(dict(columns)), stream, compression="zstd")


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
