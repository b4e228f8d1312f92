"""The index directory: generations of files and the manifest that names the current one.

    INDEX/manifest.json      written last, replaced in one step
    INDEX/<generation>/...   every other file

A build writes a new generation beside the current one and then replaces the manifest: a crash at
any moment leaves the old index, or none, and never half of one. Writers hold a lock.
"""

import fcntl
import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from retriever.config import IndexConfig, Record
from retriever.files import InputError, write_atomically

__all__ = ["CollectionRecord", "Manifest", "building", "index_fingerprint", "read_manifest"]

FORMAT = 2


class CollectionRecord(Record):
    """One collection of an index."""

    encoder: str
    fingerprint: str
    dimension: int
    chunks: int
    text: bool


class FileRecord(Record):
    """Size in bytes and SHA-256 of one file."""

    size: int
    sha256: str


class Manifest(Record):
    """What an index holds and what it was made from."""

    format: int
    fingerprint: str
    generation: str
    namespace: str
    models: str
    index: IndexConfig
    plugins: Mapping[str, str]
    corpus: str
    documents: int
    skipped: Mapping[str, int]
    chunks: int
    collections: Mapping[str, CollectionRecord]
    versions: Mapping[str, str]
    files: Mapping[str, FileRecord]


def index_fingerprint(
    corpus: str,
    namespace: str,
    config: IndexConfig,
    encoders: Mapping[str, str],
    plugins: Mapping[str, str],
) -> str:
    """Return what identifies an index by its inputs: the same inputs make the same index.

    The code that makes an index is one of them: after a change to it an index is built anew, from
    the vectors that are there.
    """
    parts = [
        FORMAT,
        _code_digest(),
        corpus,
        namespace,
        config.fingerprint,
        dict(sorted(encoders.items())),
        dict(sorted(plugins.items())),
    ]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def read_manifest(path: Path) -> Manifest:
    """Read the manifest of an index directory and check its files' presence and sizes.

    Raises InputError when there is no index, when another version made it, or when a file is
    missing or has another size than noted.
    """
    file = path / "manifest.json"
    try:
        values = json.loads(file.read_text("utf-8"))
    except FileNotFoundError as error:
        raise InputError(
            "no index here", path=path, fix="make one: assay index CORPUS -o INDEX"
        ) from error
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read: {error}", path=file, fix="build the index anew") from (
            error
        )
    found = values.get("format") if isinstance(values, dict) else None
    if found != FORMAT:
        raise InputError(
            f"format {found}, this version reads {FORMAT}", path=file, fix="build the index anew"
        )
    try:
        manifest = Manifest.model_validate(values)
    except ValidationError as error:
        raise InputError("damaged", path=file, fix="build the index anew") from error
    for name, record in manifest.files.items():
        place = path / manifest.generation / name
        size = place.stat().st_size if place.is_file() else None
        if size != record.size:
            state = "missing" if size is None else f"{size} bytes, expected {record.size}"
            raise InputError(f"damaged: {state}", path=place, fix="build the index anew")
    return manifest


def verify_files(path: Path, manifest: Manifest) -> None:
    """Compare every file's SHA-256 with the manifest. Raises InputError naming the first fault."""
    for name, record in manifest.files.items():
        place = path / manifest.generation / name
        if _file_record(place).sha256 != record.sha256:
            raise InputError("damaged: its content has changed", path=place, fix="build it anew")


@cache
def _code_digest() -> str:
    """SHA-256 of the source of everything that decides what an index holds."""
    package = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for folder in ("index", "ingest"):
        for file in sorted((package / folder).glob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()


class Generation:
    """A new set of files, not yet the current one."""

    def __init__(self, path: Path, folder: Path) -> None:
        self.path = path
        self.folder = folder

    def publish(self, **values: Any) -> Manifest:
        """Make these files the index: write the manifest, then drop the other generations."""
        files = {
            str(file.relative_to(self.folder)): _file_record(file)
            for file in sorted(self.folder.rglob("*"))
            if file.is_file()
        }
        manifest = Manifest(format=FORMAT, generation=self.folder.name, files=files, **values)
        text = manifest.model_dump_json(indent=1)
        write_atomically(self.path / "manifest.json", text.encode())
        _drop_generations(self.path, keep=manifest.generation)
        return manifest


@contextmanager
def building(path: Path) -> Iterator[Generation]:
    """Hold the index's lock and offer a folder for a new generation; dropped on failure."""
    path.mkdir(parents=True, exist_ok=True)
    strangers = [item.name for item in path.iterdir() if not _is_ours(item)]
    if strangers and not (path / "manifest.json").exists():
        raise InputError(
            f"the folder holds other files ({strangers[0]}) and no index",
            path=path,
            fix="name a new folder",
        )
    with (path / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        current = _current_generation(path)
        _drop_generations(path, keep=current)
        number = int(current.rpartition("-")[2]) + 1 if current else 1
        folder = path / f"generation-{number}"
        folder.mkdir()
        try:
            yield Generation(path, folder)
        except BaseException:
            if _current_generation(path) != folder.name:
                shutil.rmtree(folder, ignore_errors=True)
            raise


def _is_ours(item: Path) -> bool:
    return item.name.startswith(("generation-", ".manifest.json.", ".lock")) or (
        item.name == "manifest.json"
    )


def _current_generation(path: Path) -> str | None:
    try:
        values = json.loads((path / "manifest.json").read_text("utf-8"))
        return str(values["generation"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _drop_generations(path: Path, keep: str | None) -> None:
    for item in [*path.glob("generation-*"), *path.glob(".manifest.json.*")]:
        if item.name != keep:
            shutil.rmtree(item) if item.is_dir() else item.unlink()


def _file_record(path: Path) -> FileRecord:
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return FileRecord(size=path.stat().st_size, sha256=digest)
