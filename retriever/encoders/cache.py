"""What a model computed, kept by content: (model fingerprint, kind, input) -> vector or logit.

One SQLite file a model, shared by any number of processes. A vector is written as soon as its
batch is done, so a build that is killed picks up where it stopped.
"""

import hashlib
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from retriever.encoders.base import Encoder, Spans, Vectors
from retriever.files import InputError, writing
from retriever.images import ImageFile

__all__ = ["CachedCrossEncoder", "CachedEncoder", "CrossEncoder", "VectorCache"]

WRITE_AT_ONCE = 256
ASK_AT_ONCE = 512

Kind = Literal["query", "document", "image", "pair"]
Progress = Callable[[int], object]


class VectorCache:
    """Vectors of one model on disk. Processes may read and write it at the same time."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the stored values of those keys that are there."""
        if not self.path.exists():
            return {}
        found: dict[bytes, bytes] = {}
        with closing(self._connect()) as connection:
            for start in range(0, len(keys), ASK_AT_ONCE):
                part = keys[start : start + ASK_AT_ONCE]
                marks = ",".join("?" * len(part))
                rows = connection.execute(
                    f"SELECT key, value FROM vectors WHERE key IN ({marks})", part
                )
                found.update(rows)
        return found

    def write(self, items: Sequence[tuple[bytes, bytes]]) -> None:
        """Store all items in one transaction; a key that is there keeps its value."""
        with writing(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
        with closing(self._connect()) as connection:
            try:
                with connection:
                    connection.executemany("INSERT OR IGNORE INTO vectors VALUES (?, ?)", items)
            except sqlite3.OperationalError as error:
                raise InputError(
                    f"cannot be written: {error}",
                    path=self.path,
                    fix="make room there, or name another ASSAY_STORE",
                ) from error

    def _connect(self) -> sqlite3.Connection:
        try:
            connection = sqlite3.connect(self.path, timeout=120)
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
            connection.execute(
                "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, value BLOB NOT NULL)"
            )
        except sqlite3.DatabaseError as error:
            fix = "delete this file; its vectors are computed anew"
            if isinstance(error, sqlite3.OperationalError):  # the disk's, not the file's
                fix = "make room there, or name another ASSAY_STORE"
            raise InputError(
                f"the vector cache cannot be used: {error}", path=self.path, fix=fix
            ) from error
        return connection


class CachedEncoder:
    """An encoder that asks its cache first, and loads its model only for what is missing.

    With `may_compute` off, what is missing is an InputError.
    """

    def __init__(self, encoder: Encoder, folder: Path | None, *, may_compute: bool = True) -> None:
        # Which methods it has says what it reads.
        self._encoder: Any = encoder
        self._folder = folder
        self._may_compute = may_compute
        self.computed = 0
        self.reused = 0

    @property
    def name(self) -> str:
        """Name of the model."""
        return str(self._encoder.name)

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the model."""
        return str(self._encoder.fingerprint)

    @property
    def reads_images(self) -> bool:
        """Whether it is an image encoder: its documents are images, and only they."""
        return hasattr(self._encoder, "encode_images")

    @property
    def reads_queries(self) -> bool:
        """Whether a query's text gives a vector: always but for images without a text tower."""
        return hasattr(self._encoder, "encode_queries")

    def token_spans(self, texts: Sequence[str]) -> Sequence[Spans]:
        """Return the model's own tokens as character spans."""
        spans: Sequence[Spans] = self._encoder.token_spans(texts)
        return spans

    def encode(
        self,
        texts: Sequence[str],
        kind: Literal["query", "document"],
        progress: Progress = lambda done: None,
    ) -> Vectors:
        """Return unit vectors (n, d). `progress` is told how many more texts are done.

        The same text is computed once, whatever the batch.
        """
        encode = self._encoder.encode_queries if kind == "query" else self._encoder.encode_documents
        keys = [_key(self.fingerprint, kind, text) for text in texts]
        return self._vectors(keys, texts, encode, progress)

    def encode_images(
        self, images: Sequence[ImageFile], progress: Progress = lambda done: None
    ) -> Vectors:
        """Return unit vectors (n, d) of images; the same content is computed once."""
        keys = [_key(self.fingerprint, "image", image.digest) for image in images]
        paths = [image.path for image in images]
        return self._vectors(keys, paths, self._encoder.encode_images, progress)

    def _vectors(
        self,
        keys: Sequence[bytes],
        items: Sequence[Any],
        encode: Callable[[list[Any]], Vectors],
        progress: Progress,
    ) -> Vectors:
        """Return the vectors of items known by their keys, those of similar length together."""
        if not items:
            return np.zeros((0, 0), dtype=np.float32)
        distinct = dict(zip(keys, items, strict=True))
        cache = self._cache()
        known = cache.read(list(distinct)) if cache else {}
        missing = distinct.keys() - known.keys()
        ordered = sorted(missing, key=lambda key: (len(str(distinct[key])), key))
        if missing and not self._may_compute:
            raise InputError(
                f"{len(missing)} of {len(distinct)} vectors of {self.name} are not in the cache, "
                "and none may be computed",
                path=self._folder,
                fix="index without --restamp, which computes them",
            )
        self.computed += len(ordered)
        self.reused += len(known)
        progress(len(items) - len(ordered))
        for start in range(0, len(ordered), WRITE_AT_ONCE):
            part = ordered[start : start + WRITE_AT_ONCE]
            vectors = np.ascontiguousarray(encode([distinct[key] for key in part]), dtype="<f4")
            computed = [(key, row.tobytes()) for key, row in zip(part, vectors, strict=True)]
            if cache:
                cache.write(computed)
            known.update(computed)
            progress(len(part))
        lengths = {len(value) for value in known.values()}
        if len(lengths) != 1 or lengths.pop() % 4:
            raise InputError(
                "the vector cache holds vectors of different lengths for one model",
                path=cache.path if cache else None,
                fix="delete this file; its vectors are computed anew",
            )
        rows = [np.frombuffer(known[key], dtype="<f4") for key in keys]
        return np.ascontiguousarray(np.stack(rows), dtype=np.float32)

    def missing(self, items: Sequence[str | ImageFile]) -> list[str | ImageFile]:
        """Return the distinct documents whose vectors the cache does not hold, in their order."""
        keys = {
            _key(self.fingerprint, "document", item)
            if isinstance(item, str)
            else _key(self.fingerprint, "image", item.digest): item
            for item in items
        }
        cache = self._cache()
        known = cache.read(list(keys)) if cache else {}
        return [item for key, item in keys.items() if key not in known]

    def without_cache(self) -> "CachedEncoder":
        """Return the same encoder, computing everything."""
        return CachedEncoder(self._encoder, None)

    def _cache(self) -> VectorCache | None:
        if self._folder is None:
            return None
        return VectorCache(self._folder / f"{self.fingerprint[:32]}.sqlite")


class CrossEncoder(Protocol):
    """What reads a query and a text together."""

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def fingerprint(self) -> str: ...  # noqa: D102

    def logits(self, query: str, texts: Sequence[str]) -> npt.NDArray[np.float64]: ...  # noqa: D102


class CachedCrossEncoder:
    """A cross-encoder that asks its cache first, pair by pair.

    What is not one finite number a text is handed on as it is and never kept: the caller judges it.
    """

    def __init__(self, cross: CrossEncoder, folder: Path | None) -> None:
        self._cross = cross
        self._folder = folder
        self.computed = 0
        self.reused = 0

    @property
    def name(self) -> str:
        """Name of the model."""
        return self._cross.name

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the model."""
        return self._cross.fingerprint

    def logits(self, query: str, texts: Sequence[str]) -> npt.NDArray[np.float64]:
        """Return one raw logit a text, in the order given."""
        if self._folder is None:
            self.computed += len(texts)
            return self._cross.logits(query, texts)
        cache = VectorCache(self._folder / f"{self.fingerprint[:32]}.pairs.sqlite")
        keys = [_key(self.fingerprint, "pair", f"{query}\0{text}") for text in texts]
        known = cache.read(list(dict.fromkeys(keys)))
        wanted = {k: text for k, text in zip(keys, texts, strict=True) if k not in known}
        self.reused += len(texts) - len(wanted)
        self.computed += len(wanted)
        if wanted:
            found = np.asarray(self._cross.logits(query, list(wanted.values())), dtype="<f8")
            if found.shape != (len(wanted),) or not np.isfinite(found).all():
                return found
            made = [(key, logit.tobytes()) for key, logit in zip(wanted, found, strict=True)]
            cache.write(made)
            known.update(made)
        return np.array([np.frombuffer(known[key], dtype="<f8")[0] for key in keys])

    def without_cache(self) -> "CachedCrossEncoder":
        """Return the same cross-encoder, reading every pair."""
        return CachedCrossEncoder(self._cross, None)


def _key(fingerprint: str, kind: Kind, text: str) -> bytes:
    content = f"{fingerprint}\0{kind}\0{text}".encode("utf-8", "surrogatepass")
    return hashlib.sha256(content).digest()
