"""The index directory: generations of files and the manifest that names the current one.

    INDEX/manifest.json      written last, replaced in one step
    INDEX/<generation>/...   every other file

A build writes a new generation beside the current one and then replaces the manifest: a crash at
any moment leaves the old index, or none, and never half of one. Writers hold a lock.
"""

import fcntl
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError

from retriever.config import IndexConfig, Record
from retriever.files import InputError, write_atomically, writing
from retriever.index.damage import GENERATION, current_generation, reading

__all__ = ["CollectionRecord", "Manifest", "building", "index_fingerprint", "read_manifest"]

FORMAT = 3
# How write_atomically names what becomes the manifest.
TEMPORARY = re.compile(r"\.manifest\.json\.\w+")


class CollectionRecord(Record):
    """One collection of an index: searched by words too (`text`), or holding images (`images`)."""

    encoder: str
    fingerprint: str
    dimension: int
    chunks: int
    text: bool
    images: bool


class FileRecord(Record):
    """Size in bytes and SHA-256 of one file."""

    size: int
    sha256: str


class SampleRecord(Record):
    """An index of a part of its corpus: `documents` of so many, those whose ids hash lowest."""

    documents: int
    of: int


class Manifest(Record):
    """What an index holds and what it was made from.

    `skipped` counts what is not in it and `altered` what is cut or was read in another way than
    its form says, both by reason.
    `registry` says where its documents registry is: a file of the index, or a database that is
    shared. Which one stands nowhere here, lest a password did.
    """

    format: int
    fingerprint: str
    generation: Annotated[str, Field(pattern=f"^{GENERATION.pattern}$")]
    namespace: str
    models: str
    index: IndexConfig
    plugins: Mapping[str, str]
    corpus: str
    sample: SampleRecord | None = None
    documents: int
    skipped: Mapping[str, int]
    altered: Mapping[str, int] = {}
    chunks: int
    collections: Mapping[str, CollectionRecord]
    registry: Literal["file", "shared"]
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
    except (OSError, ValueError, RecursionError) as error:
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
            if current_generation(path) not in (None, manifest.generation):
                return read_manifest(path)  # rebuilt between the two looks
            state = "missing" if size is None else f"{size} bytes, expected {record.size}"
            raise InputError(f"damaged: {state}", path=place, fix="build the index anew")
    return manifest


def verify_files(path: Path, manifest: Manifest) -> None:
    """Compare every file's SHA-256 with the manifest. Raises InputError naming the first fault."""
    for name, record in manifest.files.items():
        place = path / manifest.generation / name
        with reading(place):
            found = _file_record(place)
        if found.sha256 != record.sha256:
            raise InputError(
                "damaged: its content has changed", path=place, fix="build the index anew"
            )


@cache
def _code_digest() -> str:
    """SHA-256 of the source of everything that decides what an index holds."""
    package = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for folder in ("index", "ingest"):
        for file in sorted((package / folder).rglob("*.py")):
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
    """Hold the index's lock and offer a folder for a new generation.

    What is not published is dropped, and so are the folders that were made for it. Raises
    InputError, and touches nothing, where the folder holds anything but an index.
    """
    _check_ours(path)
    made = [folder for folder in (path, *path.parents) if not folder.exists()]
    with _locked(path):
        try:
            _check_ours(path)
            current = current_generation(path)
            _drop_generations(path, keep=current)
            number = int(current.rpartition("-")[2]) + 1 if current else 1
            folder = path / f"generation-{number}"
            folder.mkdir()
            try:
                with writing(path):
                    yield Generation(path, folder)
            finally:
                if current_generation(path) != folder.name:
                    shutil.rmtree(folder, ignore_errors=True)
        finally:
            if not (path / "manifest.json").exists():
                _remove_folders(path, made)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock of an index directory, making the directory where it is missing."""
    file = path / ".lock"
    while True:
        try:
            path.mkdir(parents=True, exist_ok=True)
            lock = file.open("a")
        except FileNotFoundError:
            continue  # a build that failed removed the folder in this moment
        except OSError as error:
            raise InputError(
                f"cannot be written: {error.strerror}", path=path, fix="name another folder"
            ) from error
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            # The build that held it before may have failed and removed the file.
            if _is_open_file(lock.fileno(), file):
                yield
                return


def _is_open_file(handle: int, file: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), file.stat())
    except FileNotFoundError:
        return False


def _check_ours(path: Path) -> None:
    """Refuse a folder that holds anything and is no index of ours."""
    if not path.exists():
        return
    if not path.is_dir():
        raise InputError("this is a file, not a folder", path=path, fix="name a new folder")
    manifest = path / "manifest.json"
    if manifest.exists():
        strangers = [] if _is_manifest(manifest) else [manifest.name]
    else:
        strangers = sorted(item.name for item in path.iterdir() if not _is_ours(item))
    if strangers:
        raise InputError(
            f"the folder holds other files ({strangers[0]}) and no index",
            path=path,
            fix="name a new folder, or delete this one",
        )


def _is_manifest(file: Path) -> bool:
    """Tell whether a file is a manifest of this format or of an older one."""
    try:
        values = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return (
        isinstance(values, dict)
        and isinstance(values.get("format"), int)
        and isinstance(values.get("files"), dict)
        and current_generation(file.parent) is not None
    )


def _is_ours(item: Path) -> bool:
    return item.name == ".lock" or _is_temporary(item) or _is_generation(item)


def _is_generation(item: Path) -> bool:
    named = GENERATION.fullmatch(item.name) is not None
    return named and item.is_dir() and not item.is_symlink()


def _is_temporary(item: Path) -> bool:
    return TEMPORARY.fullmatch(item.name) is not None and item.is_file()


def _drop_generations(path: Path, keep: str | None) -> None:
    for item in list(path.iterdir()):
        if _is_generation(item) and item.name != keep:
            shutil.rmtree(item)
        elif _is_temporary(item):
            item.unlink()


def _remove_folders(path: Path, made: Sequence[Path]) -> None:
    """Leave no trace of a failed first build: the lock goes, and the folders made for it."""
    (path / ".lock").unlink(missing_ok=True)
    with suppress(OSError):  # another build waits in one of them already
        for folder in made:
            folder.rmdir()


def _file_record(path: Path) -> FileRecord:
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return FileRecord(size=path.stat().st_size, sha256=digest)
