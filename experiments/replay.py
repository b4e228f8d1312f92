"""Ask some queries of a gold set again, under another configuration, for one figure each."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from experiments.metrics import Measure, per_query
from experiments.rankings import asked, run_blocks
from gold import GoldSet
from retriever import Retriever

__all__ = ["replay"]

Floats = npt.NDArray[np.float64]


def replay(
    gold: GoldSet,
    retriever: Retriever,
    measure: Measure,
    query_ids: Sequence[str],
    *,
    depth: int,
    relevant_from: int,
) -> Floats:
    """Return the figure of every query, in the order given, as an evaluation would score it.

    What the retriever's memo already holds is not computed again. `measure` is any but coverage.
    """
    ask = [asked(gold.queries[query_id], gold.path) for query_id in query_ids]
    chunks = retriever.index.chunks
    unit_ids = chunks.document_ids if gold.level == "document" else chunks.chunk_ids
    rankings: dict[str, list[str]] = {}
    for block in run_blocks(retriever, ask, gold.level, depth):
        for row, units in enumerate(block.ranked.units):
            rankings[query_ids[block.start + row]] = [unit_ids[unit] for unit in units[units >= 0]]
    qrels = {query_id: gold.qrels[query_id] for query_id in query_ids}
    scores = per_query(rankings, qrels, [measure], relevant_from=relevant_from)
    at = {query_id: row for row, query_id in enumerate(scores.query_ids)}
    return scores.values[str(measure)][[at[query_id] for query_id in query_ids]]
