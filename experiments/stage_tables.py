"""What the stages did, as tables of a run directory: a row a query, a row a candidate."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.rankings import Block
from experiments.run import write_table
from gold import GoldQuery, GoldSet
from retriever.index.store import Index
from retriever.pipeline import Trace

__all__ = ["StageTables"]

Booleans = npt.NDArray[np.bool_]

CHARACTERS_SHOWN = 1000


class StageTables:
    """Collects the stage tables of a run, block by block, and writes them at the end."""

    def __init__(self, index: Index, gold: GoldSet, relevant_from: int, texts_shown: int) -> None:
        self._index = index
        self._gold = gold
        self._relevant_from = relevant_from
        self._texts_shown = texts_shown
        names = index.chunks.document_ids if gold.level == "document" else index.chunks.chunk_ids
        self._unit_row = {name: row for row, name in enumerate(names)}
        self._workflow: list[str] = []
        self._gold_ranks: dict[str, list[npt.NDArray[np.int32]]] = {}
        self._parts: list[dict[str, npt.NDArray[Any]]] = []
        self._queries = 0
        self._shown: list[npt.NDArray[np.int32]] = []

    def add(self, queries: Sequence[GoldQuery], block: Block) -> None:
        """Take in the tables of one block."""
        trace, lists = block.trace, block.trace.lists
        self._workflow += trace.intents.workflow
        is_gold = self._is_gold(queries, trace)
        place = _places(trace)
        stages = {f"rank:{item}": lists.rank[i] for i, item in enumerate(lists.lists)}
        stages["rank:merged"] = place
        stages["rank:final"] = np.zeros_like(place)
        query, at = np.nonzero(place > 0)
        unit = np.zeros_like(place)
        np.put_along_axis(unit, trace.merged.order.astype(np.int64), block.ranked.place, axis=1)
        stages["rank:final"] = unit
        for name, rank in stages.items():
            best = np.where(is_gold & (rank > 0), rank, np.iinfo(np.int32).max)
            best = best.min(axis=1, initial=np.iinfo(np.int32).max)
            self._gold_ranks.setdefault(name, []).append(best.astype(np.int32))
        part: dict[str, npt.NDArray[Any]] = {
            "query": (query + self._queries).astype(np.int32),
            "chunk": lists.chunk[query, at],
            "node": np.array([*trace.collections, ""])[trace.merged.node[query, at]],
            "score:merged": trace.merged.score[query, at],
            "gold": is_gold[query, at],
        }
        part |= {name: rank[query, at].astype(np.int32) for name, rank in stages.items()}
        for i, item in enumerate(lists.lists):
            part[f"score:{item}"] = lists.score[i][query, at]
        order = np.lexsort((part["rank:merged"], part["query"]))
        part = {name: column[order] for name, column in part.items()}
        self._parts.append(part)
        shown = (part["rank:final"] > 0) & (part["rank:final"] <= self._texts_shown)
        self._shown.append(np.unique(part["chunk"][shown | part["gold"]]))
        self._queries += len(queries)

    def texts_by_rank(self, block: Block, row: int, deepest: int) -> list[list[str]]:
        """Full text of one query's retrieved chunks, grouped by the rank of their unit."""
        order, place = block.trace.merged.order[row], block.ranked.place[row]
        ranks = int(min(deepest, place.max(initial=0)))
        texts: list[list[str]] = [[] for _ in range(ranks)]
        kept = np.flatnonzero((place > 0) & (place <= ranks))
        chunks = block.trace.lists.chunk[row, order[kept]]
        for rank, text in zip(place[kept], self._index.chunks.values("text", chunks), strict=True):
            texts[rank - 1].append(text)
        return texts

    def query_columns(self) -> dict[str, Any]:
        """Columns by query: the workflow and the best rank of a relevant unit after each stage."""
        columns: dict[str, Any] = {"workflow": self._workflow}
        for name, blocks in self._gold_ranks.items():
            best = np.concatenate(blocks)
            unfound = np.iinfo(np.int32).max
            columns[f"gold_{name}"] = [None if r == unfound else int(r) for r in best]
        return columns

    def write(self, folder: Path) -> None:
        """Write candidates.parquet and texts.parquet."""
        import pyarrow as pa

        chunks = self._index.chunks
        names = list(dict.fromkeys(name for part in self._parts for name in part))
        columns: dict[str, npt.NDArray[Any]] = {}
        for name in names:
            columns[name] = np.concatenate([_column(part, name) for part in self._parts])

        def coded(codes: npt.NDArray[Any], values: Sequence[str]) -> Any:
            used, compact = np.unique(codes, return_inverse=True)
            kept = pa.array([values[int(i)] for i in used], type=pa.utf8())
            return pa.DictionaryArray.from_arrays(pa.array(compact.astype(np.int32)), kept)

        rows = columns.pop("chunk")
        query = columns.pop("query")
        table: dict[str, Any] = {
            "query_id": coded(query, list(self._gold.queries)),
            "chunk_id": coded(rows, chunks.chunk_ids),
            "document_id": coded(chunks.document_of[rows], chunks.document_ids),
            "collection": pa.array(columns.pop("node")).dictionary_encode(),
        }
        for name, column in sorted(columns.items()):
            if name.startswith("rank:"):
                table[name] = pa.array(column, mask=column == 0)
            else:
                table[name] = pa.array(column, from_pandas=True)
        write_table(folder / "candidates.parquet", table)
        shown = np.unique(np.concatenate(self._shown))
        texts = chunks.values("text", shown)
        write_table(
            folder / "texts.parquet",
            {
                "chunk_id": [chunks.chunk_ids[row] for row in shown],
                "document_id": chunks.values("document_id", shown),
                "section": chunks.values("section", shown),
                "text": [text[:CHARACTERS_SHOWN] for text in texts],
                "characters": [len(text) for text in texts],
            },
        )

    def _is_gold(self, queries: Sequence[GoldQuery], trace: Trace) -> Booleans:
        """Mark the slots that belong to a relevant unit, (queries, slots)."""
        chunk = trace.lists.chunk
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


def _places(trace: Trace) -> npt.NDArray[np.int32]:
    """Rank of every slot in the merged order, from 1; 0 where it was not retrieved."""
    order, count = trace.merged.order, trace.merged.count
    rank = np.broadcast_to(np.arange(1, order.shape[1] + 1, dtype=np.int32), order.shape)
    rank = np.where(rank <= count[:, None], rank, 0)
    place = np.zeros(order.shape, dtype=np.int32)
    np.put_along_axis(place, order.astype(np.int64), rank, axis=1)
    return place


def _column(part: dict[str, npt.NDArray[Any]], name: str) -> npt.NDArray[Any]:
    if name in part:
        return part[name]
    rows = len(part["query"])
    return np.zeros(rows, dtype=np.int32) if name.startswith("rank:") else np.full(rows, np.nan)
