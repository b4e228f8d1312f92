"""What the stages did, as tables of a run directory: a row a query, a row a candidate."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from experiments.rankings import Block
from experiments.run import write_table
from gold import GoldQuery, GoldSet
from retriever.index.store import Index
from retriever.pipeline import Trace
from retriever.stages.understand import intent_of
from retriever.types import Booleans, Integers

__all__ = ["StageTables"]

CHARACTERS_SHOWN = 1000
UNFOUND = np.iinfo(np.int32).max


class StageTables:
    """Writes candidates.parquet block by block, so that memory is that of one block.

    A context: on leaving it the tables are complete, texts.parquet included.
    """

    def __init__(
        self, folder: Path, index: Index, gold: GoldSet, relevant_from: int, texts_shown: int
    ) -> None:
        self._folder = folder
        self._index = index
        self._gold = gold
        self._relevant_from = relevant_from
        self._texts_shown = texts_shown
        names = index.chunks.document_ids if gold.level == "document" else index.chunks.chunk_ids
        self._unit_row = {name: row for row, name in enumerate(names)}
        self._query_ids = list(gold.queries)
        self._workflow: list[str] = []
        self._gold_ranks: dict[str, Integers] = {}
        self._shown: list[Integers] = []
        self._writer: Any = None
        self._stream: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._writer is not None:
            self._writer.close()
            self._stream.close()
        if kind is None:
            self._write_texts()

    def add(
        self, queries: Sequence[GoldQuery], block: Block, stages: Mapping[str, Integers]
    ) -> None:
        """Take in the tables of one block; `stages` are its ranks, as `stage_ranks` gives them."""
        trace = block.trace
        self._workflow += [intent_of(assembly).workflow for assembly in trace.assemblies]
        is_gold = self._is_gold(queries, trace)
        spread = {str(item): trace.by_slot(i)[1] for i, item in enumerate(trace.slots.lists)}
        ranks = {f"rank:{name}": rank for name, rank in stages.items()}
        place, unit = stages["reranked"], stages["final"]
        for name, rank in ranks.items():
            best = np.where(is_gold & (rank > 0), rank, UNFOUND).min(axis=1, initial=UNFOUND)
            column = self._gold_ranks.setdefault(
                name, np.full(len(self._query_ids), UNFOUND, dtype=np.int32)
            )
            column[block.start : block.start + len(queries)] = best

        query, slot = np.nonzero(place > 0)
        order = np.lexsort((place[query, slot], query))
        query, slot = query[order], slot[order]
        chunk, gold = trace.slots.chunk[query, slot], is_gold[query, slot]
        final = unit[query, slot]
        self._shown.append(
            np.unique(chunk[gold | ((final > 0) & (final <= self._texts_shown))]).astype(np.int32)
        )
        merged = trace.merged.score[query, slot]
        scores = {"score:merged": np.where(np.isfinite(merged), merged, np.nan)}
        scores["score:final"] = trace.final.score[query, slot]
        scores |= {f"term:{n}": term[query, slot] for n, term in trace.final.terms.items()}
        scores |= {f"score:{name}": score[query, slot] for name, score in spread.items()}
        self._write_candidates(
            query + block.start,
            chunk,
            [trace.collections[i] for i in trace.final.node[query, slot]],
            {name: rank[query, slot] for name, rank in ranks.items()},
            scores,
            gold,
        )

    def query_columns(self) -> dict[str, Any]:
        """Columns by query: the workflow and the best rank of a relevant unit after each stage."""
        columns: dict[str, Any] = {"workflow": self._workflow}
        for name, best in self._gold_ranks.items():
            columns[f"gold_{name}"] = [None if r == UNFOUND else int(r) for r in best]
        return columns

    def _write_candidates(
        self,
        query: npt.NDArray[np.int64],
        chunk: Integers,
        collection: Sequence[str],
        ranks: Mapping[str, Integers],
        scores: Mapping[str, npt.NDArray[np.float64]],
        gold: Booleans,
    ) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        chunks = self._index.chunks
        document = chunks.document_of[chunk] if len(chunk) else chunk
        table = pa.table(
            {
                "query_id": _coded(query, self._query_ids),
                "chunk_id": _coded(chunk, chunks.chunk_ids),
                "document_id": _coded(document, chunks.document_ids),
                "collection": pa.array(collection, type=pa.utf8()).dictionary_encode(),
                "gold": pa.array(gold),
                **{name: pa.array(rank, mask=rank == 0) for name, rank in sorted(ranks.items())},
                **{name: pa.array(s, from_pandas=True) for name, s in sorted(scores.items())},
            }
        )
        if self._writer is None:
            self._stream = (self._folder / "candidates.parquet").open("wb")
            self._writer = pq.ParquetWriter(self._stream, table.schema, compression="zstd")
        self._writer.write_table(table.cast(self._writer.schema))

    def _write_texts(self) -> None:
        chunks = self._index.chunks
        shown = np.unique(np.concatenate(self._shown)) if self._shown else np.zeros(0, np.int32)
        texts = chunks.values("text", shown)
        write_table(
            self._folder / "texts.parquet",
            {
                "chunk_id": chunks.values("chunk_id", shown),
                "document_id": chunks.values("document_id", shown),
                "section": chunks.values("section", shown),
                "text": [text[:CHARACTERS_SHOWN] for text in texts],
                "characters": [len(text) for text in texts],
            },
        )

    def _is_gold(self, queries: Sequence[GoldQuery], trace: Trace) -> Booleans:
        """Mark the slots that belong to a relevant unit, (queries, slots)."""
        chunk = trace.slots.chunk
        unit = chunk
        if self._gold.level == "document" and chunk.size:
            unit = np.where(chunk >= 0, self._index.chunks.document_of[chunk], -1)
        span = len(self._unit_row) + 1
        relevant = [
            row * span + self._unit_row[name] + 1
            for row, query in enumerate(queries)
            for name, grade in self._gold.qrels[query.query_id].items()
            if grade >= self._relevant_from and name in self._unit_row
        ]
        keys = np.arange(len(queries), dtype=np.int64)[:, None] * span + unit + 1
        marked: Booleans = np.isin(keys, np.array(relevant, dtype=np.int64)) & (chunk >= 0)
        return marked


def _coded(codes: npt.NDArray[Any], values: Sequence[str]) -> Any:
    """Dictionary-encode rows of `values`, keeping only those that occur."""
    import pyarrow as pa

    used, compact = np.unique(codes, return_inverse=True)
    kept = pa.array([values[int(i)] for i in used], type=pa.utf8())
    return pa.DictionaryArray.from_arrays(pa.array(compact.astype(np.int32)), kept)
