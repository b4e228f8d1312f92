"""An index with some data mended in memory: structures given, sections named.

What a document would give if its source were mended, without a build: nothing that the change
does not name is embedded, tokenised or stamped again.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property

import numpy as np

from retriever.encoders.base import Vectors
from retriever.files import InputError
from retriever.hooks import StructureChunk
from retriever.index.bm25 import BM25Index
from retriever.index.chunks import COLUMNS, ChunkTable
from retriever.index.dense import DenseIndex
from retriever.index.manifest import CollectionRecord
from retriever.index.store import Collection, Index
from retriever.types import Integers

__all__ = ["Encode", "overlaid"]

# Vectors of some structures for a collection, with its encoder's name and fingerprint.
Encode = Callable[[str, Sequence[str]], tuple[Vectors, str, str]]


def overlaid(
    index: Index,
    structures: Mapping[str, StructureChunk],
    sections: Mapping[str, str],
    encode: Encode,
) -> Index:
    """Return the index with a structure for some documents and a section for some chunks.

    `structures` maps a document id to the chunk that it gives, as ingest would have made it;
    `sections` a chunk id to its section. The registry stays the index's own, so a query whose
    scope alone decides does not learn that a document has entered one more collection.

    Raises InputError for an unknown document or chunk, or a document that has such a chunk.
    """
    content = {
        "structures": {name: asdict(part) for name, part in structures.items()},
        "sections": dict(sections),
    }
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    chunks, place = _with_structures(index.chunks, structures)
    rows = {chunk_id: row for row, chunk_id in enumerate(chunks.chunk_ids)}
    unknown = sorted(sections.keys() - rows.keys())
    if unknown:
        raise InputError(f"the index holds no chunk {unknown[0]!r}", path=index.path)
    if sections:
        chunks = chunks.with_values("section", {rows[c]: s for c, s in sections.items()})
    old, new = place[: len(index.chunks)], place[len(index.chunks) :]
    collections: dict[str, Collection] = {
        name: _Moved(name, one.folder, one.record, len(chunks), one, old)
        for name, one in index.collections.items()
    }
    for name in sorted({part.collection for part in structures.values()}):
        inside = [i for i, part in enumerate(structures.values()) if part.collection == name]
        texts = [part.structure for part in structures.values() if part.collection == name]
        collections[name] = _extended(
            index, name, collections.get(name), new[inside], encode(name, texts), len(chunks)
        )
    manifest = index.manifest.model_copy(
        update={
            "fingerprint": hashlib.sha256(
                f"{index.manifest.fingerprint} {digest}".encode()
            ).hexdigest(),
            "chunks": len(chunks),
            "collections": {name: one.record for name, one in sorted(collections.items())},
        }
    )
    return _Overlaid(index.path, manifest, chunks, dict(sorted(collections.items())))


@dataclass(frozen=True)
class _Overlaid(Index):
    """An index whose chunks and collections are at hand."""

    _chunks: ChunkTable
    _collections: Mapping[str, Collection]

    @cached_property
    def chunks(self) -> ChunkTable:
        return self._chunks

    @cached_property
    def collections(self) -> Mapping[str, Collection]:
        return self._collections


@dataclass(frozen=True)
class _Moved(Collection):
    """A collection as it was, its chunks at other rows of the table."""

    base: Collection
    place: Integers

    @cached_property
    def rows(self) -> Integers:
        return self.place[self.base.rows]

    @cached_property
    def dense(self) -> DenseIndex:
        return self.base.dense

    @cached_property
    def bm25(self) -> BM25Index:
        return self.base.bm25


@dataclass(frozen=True)
class _Given(Collection):
    """A collection of structures whose rows and vectors are at hand."""

    _rows: Integers
    _dense: DenseIndex

    @cached_property
    def rows(self) -> Integers:
        return self._rows

    @cached_property
    def dense(self) -> DenseIndex:
        return self._dense


def _extended(
    index: Index,
    name: str,
    base: Collection | None,
    rows: Integers,
    encoded: tuple[Vectors, str, str],
    total: int,
) -> Collection:
    """Return a collection of structures with some more of them."""
    vectors, encoder, fingerprint = encoded
    held = np.zeros(0, dtype=np.int32) if base is None else base.rows
    every = np.concatenate([held, rows]).astype(np.int32)
    order = np.argsort(every).astype(np.int32)
    dense = (
        DenseIndex.build(vectors[order])
        if base is None
        else base.dense.with_vectors(vectors, order)
    )
    record = CollectionRecord(
        encoder=encoder,
        fingerprint=fingerprint,
        dimension=vectors.shape[1],
        chunks=len(every),
        text=False,
        images=False,
    )
    folder = index.folder / "collections" / name
    return _Given(name, folder, record, total, every[order], dense)


def _with_structures(
    chunks: ChunkTable, structures: Mapping[str, StructureChunk]
) -> tuple[ChunkTable, Integers]:
    """Add a chunk for each structure: the document's whole text, stamped as its first chunk is."""
    if not structures:
        return chunks, np.arange(len(chunks), dtype=np.int32)
    stamps = {name: chunks.rows_by_value(name) for name in chunks.list_columns}
    columns: dict[str, list[str]] = {name: [] for name in COLUMNS}
    lists: dict[str, list[list[str]]] = {name: [] for name in stamps}
    for document_id, part in structures.items():
        rows = chunks.rows_of_documents([document_id])
        if not len(rows):
            raise InputError(f"the index holds no document {document_id!r}")
        chunk_id = f"{document_id}#{part.section}"
        if chunk_id in chunks.values("chunk_id", rows):
            raise InputError(f"the document {document_id!r} has a structure already")
        first = int(rows[0])
        values = {name: chunks.value(name, first) for name in COLUMNS}
        values |= {
            "chunk_id": chunk_id,
            "section": part.section,
            "structure": part.structure,
            "text": "\n".join(chunks.values("text", rows)),
        }
        for name in COLUMNS:
            columns[name].append(values[name])
        for name, by_value in stamps.items():
            lists[name].append([value for value, held in by_value.items() if first in held])
    return chunks.with_rows(columns, lists)
