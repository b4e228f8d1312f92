"""An index, opened: chunks and collections, read-only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from retriever.config import BM25Config
from retriever.encoders.base import Vectors
from retriever.files import InputError
from retriever.index.bm25 import BM25Index
from retriever.index.chunks import ChunkTable
from retriever.index.damage import read_array, reading
from retriever.index.dense import DenseIndex
from retriever.index.manifest import CollectionRecord, Manifest, read_manifest, verify_files
from retriever.store import shared_registry
from retriever.types import Booleans, Floats, Found, Integers

if TYPE_CHECKING:
    from sqlalchemy import URL

    from retriever.registry import Registry

__all__ = ["Collection", "Index"]


@dataclass(frozen=True)
class Collection:
    """One collection: some rows of the chunk table, searched by meaning or by words.

    The two indexes are read when first searched. `total` is how many rows the chunk table has.
    """

    name: str
    folder: Path
    record: CollectionRecord
    total: int

    @property
    def text(self) -> bool:
        """Whether it is searched by words too."""
        return self.record.text

    @property
    def images(self) -> bool:
        """Whether it holds images."""
        return self.record.images

    @cached_property
    def rows(self) -> Integers:
        """Chunk rows of the collection, rising, so that ties by place are ties by chunk id."""
        file = self.folder / "rows.npy"
        rows: Integers = read_array(file, np.int32)
        with reading(file):
            if len(rows) != self.record.chunks or np.any(np.diff(rows) <= 0):
                raise ValueError(f"{len(rows)} rows of {self.record.chunks}, or they do not rise")
            if len(rows) and (rows[0] < 0 or rows[-1] >= self.total):
                raise ValueError("a row that the chunk table does not have")
        return rows

    @cached_property
    def dense(self) -> DenseIndex:
        """Vectors, place i for chunk `rows[i]`."""
        found = DenseIndex.load(self.folder / "dense")
        shape = (found.flat.ntotal, found.dimension)
        with reading(self.folder / "dense" / "vectors.faiss"):
            if shape != (self.record.chunks, self.record.dimension):
                raise ValueError(f"vectors of shape {shape}")
        return found

    @cached_property
    def bm25(self) -> BM25Index:
        """Terms, place i for chunk `rows[i]`."""
        found = BM25Index.load(self.folder / "bm25")
        with reading(self.folder / "bm25" / "terms.json"):
            if found.count != self.record.chunks:
                raise ValueError(f"terms of {found.count} chunks")
        return found

    def search_dense(
        self,
        vectors: Vectors,
        owner: Integers,
        queries: int,
        depth: int,
        allowed: Sequence[Integers | None],
    ) -> Found:
        """Search every query's vectors deep, the best of them counting for each chunk.

        `owner` (vectors,) says whose each vector is, rising; a query without one finds nothing.
        Scores are `dense = (1 + cosine) / 2`. A query with `allowed` rows finds only those.
        """
        plain = np.array_equal(owner, np.arange(queries))
        if plain and all(rows is None for rows in allowed):
            places, cosines = self.dense.search(vectors, depth)
            return Found(self._chunk_rows(places), (1 + cosines) / 2)
        depth = min(depth, len(self.rows))
        rows = np.full((queries, depth), -1, dtype=np.int32)
        scores = np.full((queries, depth), np.nan)
        for query in np.unique(owner):
            own, inside = vectors[owner == query], allowed[query]
            if inside is None:
                places, cosines = self.dense.search(own, depth)
            else:
                held = np.flatnonzero(np.isin(self.rows, inside))
                places = np.tile(held, (len(own), 1))
                cosines = self.dense.cosines(own, places)
            found, best = best_of(places, cosines)
            found, best = found[:depth], best[:depth]
            rows[query, : len(found)] = self.rows[found]
            scores[query, : len(found)] = (1 + best) / 2
        return Found(rows, scores)

    def search_bm25(
        self, texts: Sequence[str], depth: int, allowed: Sequence[Integers | None]
    ) -> Found:
        """Search every text deep; a query with `allowed` rows finds only those."""
        inside = [
            None if rows is None else np.flatnonzero(np.isin(self.rows, rows)).astype(np.int32)
            for rows in allowed
        ]
        places, scores = self.bm25.search(texts, depth, inside)
        return Found(self._chunk_rows(places), scores)

    def places_of(self, rows: Integers) -> Integers:
        """Return the places of chunk rows that the collection holds, -1 for any other."""
        if not len(self.rows):
            return np.full(rows.shape, -1, dtype=np.int32)
        at = np.minimum(np.searchsorted(self.rows, rows), len(self.rows) - 1)
        return np.where(self.rows[at] == rows, at, -1).astype(np.int32)

    def _chunk_rows(self, places: Integers) -> Integers:
        if not len(self.rows):
            return places
        return np.where(places >= 0, self.rows[places], -1).astype(np.int32)

    @classmethod
    def write(
        cls,
        folder: Path,
        rows: Integers,
        texts: Sequence[str] | None,
        vectors: Vectors,
        config: BM25Config,
    ) -> None:
        """Write a collection of the chunks at `rows` with their vectors.

        `texts` are what BM25 reads; None for a collection that is not searched by words.
        """
        folder.mkdir(parents=True)
        np.save(folder / "rows.npy", np.asarray(rows, dtype=np.int32))
        DenseIndex.build(vectors).save(folder / "dense")
        if texts is not None:
            BM25Index.build(texts, config).save(folder / "bm25")


@dataclass(frozen=True)
class Index:
    """A directory that `assay index` made."""

    path: Path
    manifest: Manifest

    @classmethod
    def open(cls, path: Path | str) -> "Index":
        """Open an index. Raises InputError when it is absent or damaged.

        Raises it, too, where the documents registry is shared and ASSAY_REGISTRY does not say
        where. Files are read when first needed, so the path is made absolute. Once another
        process has rebuilt the index, what was not read yet raises InputError.
        """
        opened = cls(Path(path).resolve(), read_manifest(Path(path)))
        _ = opened.registry_url
        return opened

    def verify(self) -> None:
        """Compare every file with its noted SHA-256; raises InputError naming the first fault."""
        verify_files(self.path, self.manifest)

    @property
    def folder(self) -> Path:
        """Where the current generation's files are."""
        return self.path / self.manifest.generation

    @cached_property
    def chunks(self) -> ChunkTable:
        """The chunk table."""
        return ChunkTable.read(self.folder / "chunks.arrow")

    @cached_property
    def collections(self) -> Mapping[str, Collection]:
        """Collections by name."""
        folder = self.folder / "collections"
        held = sorted(self.manifest.collections.items())
        total = self.manifest.chunks
        return {name: Collection(name, folder / name, record, total) for name, record in held}

    @cached_property
    def is_image(self) -> Booleans | None:
        """Which rows of the chunk table are images, (chunks,); None where there are none."""
        held = [one.rows for one in self.collections.values() if one.images]
        if not held:
            return None
        found = np.zeros(self.manifest.chunks, dtype=np.bool_)
        found[np.concatenate(held)] = True
        return found

    @property
    def registry_id(self) -> str:
        """Under which id the registry keeps this index: its fingerprint where it is shared."""
        return self.manifest.fingerprint if self.manifest.registry == "shared" else "index"

    @cached_property
    def registry(self) -> "Registry":
        """The documents registry, opened when first asked.

        Raises InputError where a shared one does not hold this index: it would find nothing, and
        say nothing.
        """
        from retriever.registry import Registry

        if self.manifest.registry == "file":
            missing = "the index was rebuilt or removed: open it again"
            return Registry.open(self.registry_url, missing=missing)
        found = Registry.open(self.registry_url)
        held = found.count(self.registry_id)
        if held != self.manifest.documents:
            raise InputError(
                f"the shared registry holds {held} documents of this index, expected "
                f"{self.manifest.documents}",
                path=self.path,
                fix="set ASSAY_REGISTRY to the one it was built with, or build it anew",
            )
        return found

    @property
    def registry_url(self) -> "URL | str":
        """Where the documents registry is."""
        if self.manifest.registry == "file":
            from retriever.registry import sqlite_url

            return sqlite_url(self.folder / "registry.sqlite")
        url = shared_registry()
        if url is None:
            raise InputError(
                "the documents of this index are in a shared registry, and ASSAY_REGISTRY does "
                "not say where",
                path=self.path,
                fix="export ASSAY_REGISTRY=postgresql://USER@HOST/DATABASE",
            )
        return url


def best_of(places: Integers, cosines: Floats) -> tuple[Integers, Floats]:
    """Join what several vectors found: each place once, at its best cosine, best first."""
    flat, values = places.ravel(), cosines.ravel()
    order = np.lexsort((flat, -values))
    _, first = np.unique(flat[order], return_index=True)
    best = order[np.sort(first)]
    return flat[best], values[best]
