"""Exact dense search: FAISS proposes, cosines are then computed row by row in float64.

A flat FAISS index adds up products in an order that depends on the batch and on BLAS, so its
scores differ in the last digits from call to call. Here they only choose candidates. Each
candidate's cosine is computed from the stored vectors in one fixed order, rounded to 6 decimals,
and ordered by cosine, then by row. Where FAISS cut inside a run of equal scores, more is asked for
until nothing left out could belong to the result.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from retriever.files import InputError
from retriever.index.damage import reading
from retriever.types import Floats, Integers

__all__ = ["DenseIndex", "unit_vectors"]

Vectors = npt.NDArray[np.float32]

DECIMALS = 6
# FAISS adds float32 products; its error on unit vectors stays far below this.
PROPOSAL_ERROR = 1e-5
SPARE = 8
PAIRS_AT_ONCE = 1_024


@dataclass(frozen=True)
class DenseIndex:
    """Unit vectors inside a flat inner-product FAISS index."""

    flat: Any

    @classmethod
    def build(cls, vectors: Vectors) -> "DenseIndex":
        """Index `vectors` (n, d); they are brought to unit length here.

        Raises InputError for a vector that is not finite or has length zero.
        """
        import faiss

        unit = unit_vectors(vectors)
        flat = faiss.IndexFlatIP(unit.shape[1])
        flat.add(unit)
        return cls(flat)

    def with_vectors(self, vectors: Vectors, order: Integers) -> "DenseIndex":
        """Return an index in memory with more vectors; `order` lists old and new places as wanted.

        Stored vectors keep their bytes. Raises InputError as `build` does.
        """
        import faiss

        both = np.concatenate([self.vectors, unit_vectors(vectors)])
        flat = faiss.IndexFlatIP(self.dimension)
        flat.add(np.ascontiguousarray(both[order]))
        return DenseIndex(flat)

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return int(self.flat.d)

    @property
    def vectors(self) -> Vectors:
        """The stored unit vectors, (n, d), without a copy."""
        import faiss

        stored = faiss.rev_swig_ptr(self.flat.get_xb(), self.flat.ntotal * self.flat.d)
        view: Vectors = stored.reshape(self.flat.ntotal, self.flat.d)
        return view

    def search(self, queries: Vectors, depth: int) -> tuple[Integers, Floats]:
        """Return the `depth` nearest rows of each query and their cosines.

        `queries` has shape (q, d) and unit length. Both results have shape (q, min(depth, n)).
        Raises InputError for vectors of another dimension or with NaN.
        """
        queries = np.ascontiguousarray(queries, dtype=np.float32)
        if queries.ndim != 2 or queries.shape[1] != self.dimension:
            raise InputError(
                f"query vectors have shape {queries.shape}, the index holds dimension "
                f"{self.dimension}",
                fix="search with the encoder the index was built with",
            )
        if not np.isfinite(queries).all():
            raise InputError("a query vector is not finite")
        total = int(self.flat.ntotal)
        depth = min(depth, total)
        rows = np.full((len(queries), depth), -1, dtype=np.int32)
        cosines = np.full((len(queries), depth), np.nan)
        if depth == 0 or len(queries) == 0:
            return rows, cosines
        open_queries, proposals = np.arange(len(queries)), min(depth + SPARE, total)
        while len(open_queries):
            asked = queries[open_queries]
            inner, places = _propose(self.flat, asked, proposals)
            cosine = self.cosines(asked, places)
            order = np.lexsort((places, -cosine), axis=-1)[:, :depth]
            rows[open_queries] = np.take_along_axis(places, order, axis=1)
            cosines[open_queries] = kept = np.take_along_axis(cosine, order, axis=1)
            unseen_may_belong = inner[:, -1] >= kept[:, -1] - PROPOSAL_ERROR
            if proposals == total:
                break
            open_queries = open_queries[unseen_may_belong]
            proposals = min(4 * proposals, total)
        return rows, cosines

    def cosines(self, queries: Vectors, places: npt.NDArray[Any]) -> Floats:
        """Return the cosine of each query with each of its places, (q, p), each pair on its own."""
        vectors, width = self.vectors, places.shape[1]
        cosine = np.empty(places.shape)
        block = max(1, PAIRS_AT_ONCE // max(width, 1))
        for start in range(0, len(queries), block):
            at = slice(start, start + block)
            right = vectors[places[at]].astype(np.float64)
            # One inner loop a pair: the order of the additions is the dimension's own.
            cosine[at] = np.einsum("qd,qpd->qp", queries[at].astype(np.float64), right)
        return np.round(cosine, DECIMALS)

    def save(self, folder: Path) -> None:
        """Write the index as files of its own under `folder`."""
        import faiss

        folder.mkdir(parents=True, exist_ok=True)
        faiss.write_index(self.flat, str(folder / "vectors.faiss"))

    @classmethod
    def load(cls, folder: Path) -> "DenseIndex":
        """Read what `save` wrote; the vectors are mapped, not read. InputError where damaged."""
        import faiss

        file = folder / "vectors.faiss"
        with reading(file):
            flat = faiss.read_index(str(file), faiss.IO_FLAG_MMAP_IFC)
            if (
                not isinstance(flat, faiss.IndexFlat)
                or flat.metric_type != faiss.METRIC_INNER_PRODUCT
            ):
                raise ValueError("no flat inner-product index")
        return cls(flat)


def unit_vectors(vectors: Vectors) -> Vectors:
    """Return the rows brought to length 1, float32. Raises InputError where that is impossible."""
    vectors = np.ascontiguousarray(vectors, dtype=np.float32)
    if vectors.ndim != 2:
        raise InputError(f"vectors have shape {vectors.shape}, expected (n, d)")
    lengths = np.sqrt(np.einsum("nd,nd->n", *(vectors.astype(np.float64),) * 2))
    bad = np.flatnonzero(~np.isfinite(lengths) | (lengths == 0))
    if len(bad):
        raise InputError(f"vector {bad[0]} has length {lengths[bad[0]]}: nothing to normalise")
    unit: Vectors = (vectors / lengths[:, None]).astype(np.float32)
    return unit


def _propose(flat: Any, queries: Vectors, depth: int) -> tuple[Vectors, npt.NDArray[np.int64]]:
    """FAISS's own answer. Its threshold for using BLAS is far too high for short batches."""
    import faiss

    faiss.cvar.distance_compute_blas_threshold = 20
    inner, places = flat.search(queries, depth)
    return inner, places
