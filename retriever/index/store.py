"""An index, opened: chunks and collections, read-only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from retriever.config import BM25Config
from retriever.encoders.base import Vectors
from retriever.index.bm25 import BM25Index
from retriever.index.chunks import ChunkTable
from retriever.index.dense import DenseIndex
from retriever.index.manifest import Manifest, read_manifest, verify_files
from retriever.types import Floats, Integers

__all__ = ["Collection", "Index"]


@dataclass(frozen=True)
class Collection:
    """One collection: some rows of the chunk table, searched by meaning or by words.

    The two indexes are read when first searched.
    """

    name: str
    folder: Path

    @cached_property
    def rows(self) -> Integers:
        """Chunk rows of the collection, rising, so that ties by place are ties by chunk id."""
        rows: Integers = np.load(self.folder / "rows.npy")
        return rows

    @cached_property
    def dense(self) -> DenseIndex:
        """Vectors, place i for chunk `rows[i]`."""
        return DenseIndex.load(self.folder / "dense")

    @cached_property
    def bm25(self) -> BM25Index:
        """Terms, place i for chunk `rows[i]`."""
        return BM25Index.load(self.folder / "bm25")

    def search_dense(self, vectors: Vectors, depth: int) -> tuple[Integers, Floats]:
        """Return chunk rows and `dense = (1 + cosine) / 2`, (queries, depth), best first."""
        places, cosines = self.dense.search(vectors, depth)
        return self._chunk_rows(places), (1 + cosines) / 2

    def search_bm25(self, texts: Sequence[str], depth: int) -> tuple[Integers, Floats]:
        """Return chunk rows and BM25 scores, (queries, depth), best first."""
        places, scores = self.bm25.search(texts, depth)
        return self._chunk_rows(places), scores

    def _chunk_rows(self, places: Integers) -> Integers:
        if not len(self.rows):
            return places
        return np.where(places >= 0, self.rows[places], -1).astype(np.int32)

    @classmethod
    def write(
        cls,
        folder: Path,
        rows: Integers,
        texts: Sequence[str],
        vectors: Vectors,
        config: BM25Config,
    ) -> None:
        """Write a collection of the chunks at `rows` with their texts and vectors."""
        folder.mkdir(parents=True)
        np.save(folder / "rows.npy", np.asarray(rows, dtype=np.int32))
        DenseIndex.build(vectors).save(folder / "dense")
        BM25Index.build(texts, config).save(folder / "bm25")


@dataclass(frozen=True)
class Index:
    """A directory that `assay index` made."""

    path: Path
    manifest: Manifest

    @classmethod
    def open(cls, path: Path | str) -> "Index":
        """Open an index. Raises InputError when it is absent or damaged."""
        return cls(Path(path), read_manifest(Path(path)))

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
        names = sorted(self.manifest.collections)
        return {name: Collection(name, self.folder / "collections" / name) for name in names}

    @property
    def registry_url(self) -> str:
        """Where the documents registry is."""
        return f"sqlite:///{(self.folder / 'registry.sqlite').resolve()}"
