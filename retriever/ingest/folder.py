"""A folder of files: which files it holds, and the documents in them."""

import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib import metadata
from pathlib import Path

from retriever.files import InputError
from retriever.index.damage import GENERATION
from retriever.ingest.chunk import Document
from retriever.ingest.images import image_fault
from retriever.ingest.readers import LIBRARIES, READERS, reader_of
from retriever.ingest.readers.source import MAX_CHARACTERS, RefusedFileError, Remark, Source

__all__ = ["digest_of_folder", "files_of", "read_folder"]

Progress = Callable[[str, int, int], object]


def files_of(folder: Path) -> list[Source]:
    """Return the files of a folder and of those below it, in order of their paths.

    Hidden files and folders are left out, and so is a folder that holds an index; links to folders
    are not followed. A single file is a folder of one.
    """
    if folder.is_file():
        return [Source(folder, folder.name)]
    found: list[Source] = []

    def fail(error: OSError) -> None:
        raise InputError(
            f"cannot be read: {error.strerror}", path=error.filename, fix="check its permissions"
        ) from error

    for place, folders, names in os.walk(folder, onerror=fail):
        here = Path(place)
        if _holds_index(folders, names):
            folders.clear()
            continue
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [
            Source(here / name, (here / name).relative_to(folder).as_posix())
            for name in (*names, *(f for f in folders if (here / f).is_symlink()))
            if not name.startswith((".", "~$"))
        ]
    return sorted(found, key=lambda source: source.place)


def digest_of_folder(folder: Path) -> str:
    """SHA-256 over all paths and contents, and the versions of the libraries that read them.

    Of a file that no reader takes, only the size counts.
    """
    digest = hashlib.sha256()
    for name in LIBRARIES:
        digest.update(f"{name} {_version(name)}\0".encode())
    for source in files_of(folder):
        digest.update(os.fsencode(source.place) + b"\0")
        try:
            digest.update(_content_digest(source))
        except OSError:
            digest.update(b"unreadable")
    return digest.hexdigest()


def read_folder(folder: Path, progress: Progress) -> Iterator[Document | Remark]:
    """Yield the documents of all files in order, and a remark for whatever is not read.

    A file that breaks in the middle gives nothing. A document whose id was there before, that has
    no text, or whose image cannot be read, is skipped; one of over 5 million characters is cut.
    """
    files = files_of(folder)
    first_place: dict[str, str] = {}
    progress("read", len(files), 0)
    for source in files:
        for item in _read(source):
            if isinstance(item, Remark):
                yield item
                continue
            if item.document_id in first_place:
                detail = f"{item.document_id!r} is in {first_place[item.document_id]} already"
                yield source.remark("skipped", "repeated id", detail)
                continue
            first_place[item.document_id] = source.place
            if fault := image_fault(item, folder):
                yield source.remark("skipped", "broken", fault)
                continue
            if len(item.text) > MAX_CHARACTERS:
                left = len(item.text) - MAX_CHARACTERS
                yield source.remark("cut", "too long", f"{left} characters not read", left)
                item = replace(item, text=item.text[:MAX_CHARACTERS])
            yield item
        progress("read", len(files), 1)


def _read(source: Source) -> list[Document | Remark]:
    """Return what one file gives; a remark where it cannot be read."""
    try:
        reader = _check(source)
        return list(reader(source))
    except RefusedFileError as error:
        return [source.remark("skipped", error.reason, error.detail)]
    except InputError as error:
        said = str(error).removeprefix(f"{error.path}: ")
        return [source.remark("skipped", "broken", said)]
    except OSError as error:
        return [source.remark("skipped", "unreadable", error.strerror or str(error))]
    except Exception as error:  # noqa: BLE001 - a damaged file may break its parser anywhere
        said = next(iter(str(error).splitlines()), "")[:200]
        return [source.remark("skipped", "broken", f"{type(error).__name__}: {said}")]


def _check(source: Source) -> Callable[[Source], Iterator[Document | Remark]]:
    """Return the reader of a file. Raises RefusedFileError where it is not to be opened."""
    try:
        source.place.encode()
    except UnicodeEncodeError:
        raise RefusedFileError("unreadable", "its name is not UTF-8") from None
    if source.path.is_symlink() and not source.path.exists():
        raise RefusedFileError("unreadable", "a link to nothing")
    if source.path.is_dir():
        raise RefusedFileError("not followed", "a link to a folder")
    status = source.path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise RefusedFileError("unreadable", "no regular file")
    reader = reader_of(source.path)
    if reader is None:
        kind = source.path.suffix.lower() or "files without a suffix"
        raise RefusedFileError("no reader", f"none for {kind}")
    if status.st_size > reader.max_mb * 1_000_000:
        size = f"{status.st_size / 1e6:.0f} MB, at most {reader.max_mb}"
        raise RefusedFileError("too large", size)
    return reader.load()


def _holds_index(folders: Sequence[str], names: Sequence[str]) -> bool:
    """Whether these are the entries of an index, one that is being built included."""
    built = "manifest.json" in names or ".lock" in names
    return built and any(GENERATION.fullmatch(name) for name in folders)


def _content_digest(source: Source) -> bytes:
    status = source.path.stat()
    reader = READERS.get(source.path.suffix.lower())
    size = f"{status.st_size}".encode()
    if reader is None or status.st_size > reader.max_mb * 1_000_000:
        return size
    if not stat.S_ISREG(status.st_mode):
        return b"special"
    with source.path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").digest()


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "absent"
