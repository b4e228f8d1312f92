"""The folder of a sweep: which files are its own, and which study they are of."""

import json
from pathlib import Path

from experiments.run import refuse_foreign
from experiments.sweep.storage import file_names, shown_url
from retriever.files import InputError

__all__ = ["refuse_other_sweep"]

RECORD = "sweep.json"
# What a sweep leaves, a stopped one included, beside its study.
FILES = ("sweep.html", RECORD, "best.yaml", "trials.parquet", ".trials.parquet")

_ANOTHER = "name a new folder with -o"


def refuse_other_sweep(folder: Path, study: str, storage: str) -> None:
    """Refuse a folder whose files are not those of this study. Raises InputError.

    Where sweep.json says that the study ended here, other files may have joined it. Without it the
    folder may hold the study's storage, and beside that what a stopped sweep leaves.
    """
    file = folder / RECORD
    if not file.exists():
        _refuse_results(folder, storage)
        return
    try:
        record = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(
            f"no record of a sweep: {error}", path=file, fix=f"{_ANOTHER}, or move the file away"
        ) from error
    if not isinstance(record, dict) or record.get("kind") != "sweep":
        raise InputError("no record of a sweep", path=file, fix=_ANOTHER)
    kept, place = record.get("study"), record.get("storage")
    # A folder that was moved still holds its storage, whatever path the record names.
    same_place = place == shown_url(storage) or bool(_held(folder) & file_names(storage))
    if kept != study or not same_place:
        raise InputError(
            f"holds another sweep, the study {kept} in {place}; this is {study} in "
            f"{shown_url(storage)}",
            path=folder,
            fix=_ANOTHER,
        )


def _refuse_results(folder: Path, storage: str) -> None:
    refuse_foreign(folder, {*FILES, *file_names(storage)})
    results = sorted(_held(folder) & set(FILES))
    if results and not _held(folder) & file_names(storage):
        raise InputError(
            f"holds {results[0]} and neither {RECORD} nor the study it would be of",
            path=folder,
            fix=f"{_ANOTHER}, or move the file away",
        )


def _held(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} if folder.is_dir() else set()
