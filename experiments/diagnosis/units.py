"""The units of an index: what judgements name, documents or chunks."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gold.model import Level
from retriever.index.store import Index
from retriever.types import Booleans, Integers

__all__ = ["Units"]


@dataclass(frozen=True)
class Units:
    """Rows of documents (`level: document`) or of chunks, and which collections hold them."""

    index: Index
    level: Level

    @cached_property
    def ids(self) -> Sequence[str]:
        """Id of every row."""
        chunks = self.index.chunks
        return chunks.document_ids if self.level == "document" else chunks.chunk_ids

    @cached_property
    def row(self) -> dict[str, int]:
        """Row of every id."""
        return {name: row for row, name in enumerate(self.ids)}

    def of_chunks(self, chunks: Integers) -> Integers:
        """Return the unit of each chunk row, -1 where that is -1."""
        if self.level == "chunk" or not chunks.size:
            return chunks
        return np.where(chunks >= 0, self.index.chunks.document_of[chunks], -1).astype(np.int32)

    def chunks_of(self, unit: int) -> Integers:
        """Return the chunk rows of a unit, rising."""
        if self.level == "chunk":
            return np.array([unit], dtype=np.int32)
        return self._by_document[0][self._by_document[1][unit] : self._by_document[1][unit + 1]]

    def document_of(self, unit: int) -> str:
        """Return the id of the document of a unit."""
        chunks = self.index.chunks
        return chunks.document_ids[unit if self.level == "document" else chunks.document_of[unit]]

    @cached_property
    def held(self) -> Booleans:
        """Which collection holds which unit, (collections, units), in order of name."""
        found = np.zeros((len(self.index.collections), len(self.ids)), dtype=np.bool_)
        for at, collection in enumerate(self.index.collections.values()):
            found[at, self.of_chunks(collection.rows)] = True
        return found

    @cached_property
    def _by_document(self) -> tuple[Integers, Integers]:
        document = self.index.chunks.document_of
        order = np.argsort(document, kind="stable").astype(np.int32)
        starts = np.searchsorted(document[order], np.arange(len(self.ids) + 1))
        return order, starts.astype(np.int32)
