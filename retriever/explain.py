"""One query's trace as plain data, from which anyone can recompute every number."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import numpy as np

from retriever.pipeline import Trace
from retriever.retriever import Retriever
from retriever.types import AuditEvent, SearchResult

__all__ = ["explain", "shown"]


def shown(result: SearchResult) -> dict[str, Any]:
    """Return a search's results as plain data: query, results, audit, timings_ms."""
    return {
        "query": result.query.text,
        "results": [asdict(hit) for hit in result.hits],
        "audit": _events(result.audit),
        "timings_ms": {name: round(ms, 3) for name, ms in result.timings_ms.items()},
    }


def explain(retriever: Retriever, trace: Trace, row: int = 0) -> dict[str, Any]:
    """Return what every stage did for query `row` of a batch, JSON-ready.

    Keys: query, intent, entities, drugs, plans, supplement, merged, weights, reranked, results,
    audit, timings_ms. Scores are as the stages saw them.
    """
    text = trace.queries[row].text
    chunks = retriever.index.chunks
    ids = [
        chunks.value("chunk_id", chunk) if chunk >= 0 else "" for chunk in trace.slots.chunk[row]
    ]
    order = trace.merged.order[row, : trace.merged.count[row]]
    merged = [
        {
            "chunk_id": ids[slot],
            "collection": trace.collections[trace.merged.node[row, slot]],
            "rank": rank,
            "score": float(trace.merged.score[row, slot]),
            "injected": False,
        }
        for rank, slot in enumerate(order, start=1)
    ]
    rows = trace.shown[row]
    results = [
        {
            "rank": hit["rank"],
            "chunk_id": hit["chunk_id"],
            "document_id": chunks.value("document_id", chunk),
            "collection": hit["collection"],
            "score": hit["score"],
            "text": chunks.value("text", chunk),
        }
        for hit, chunk in zip(merged, rows[rows >= 0], strict=False)
    ]
    return {
        "query": text,
        "intent": {
            "workflow": trace.intents.workflow[row],
            "suppress_collections": list(trace.intents.suppress_collections[row]),
            "section_cues": list(trace.intents.section_cues[row]),
            "require_entity_match": bool(trace.intents.require_entity_match[row]),
        },
        "entities": [],
        "drugs": [],
        "plans": [
            _plan(retriever, trace, row, place, ids)
            for place, item in enumerate(trace.slots.lists)
            if item in trace.routing.lists
            and trace.routing.active[trace.routing.lists.index(item), row]
        ],
        "supplement": [],
        "merged": merged,
        "weights": None,
        "reranked": [],
        "results": results,
        "audit": _events(trace.audit_of(row)),
        "timings_ms": {name: round(ms, 3) for name, ms in trace.timings_ms.items()},
    }


def _events(audit: Iterable[AuditEvent]) -> list[dict[str, Any]]:
    return [{"stage": e.stage, "event": e.event, "detail": dict(e.detail)} for e in audit]


def _plan(
    retriever: Retriever, trace: Trace, row: int, place: int, ids: list[str]
) -> dict[str, Any]:
    item, text = trace.slots.lists[place], trace.queries[row].text
    rank, score = (column[row] for column in trace.by_slot(place))
    collection = retriever.index.collections[item.collection]
    hits = []
    for slot in np.argsort(np.where(rank > 0, rank, np.iinfo(np.int32).max), kind="stable"):
        if rank[slot] == 0:
            break
        value = float(score[slot])
        chunk = int(trace.slots.chunk[row, slot])
        hit = {
            "chunk_id": f"{item.collection}:{ids[slot]}",
            "source_chunk_id": ids[slot],
            "rank": int(rank[slot]),
            "dense": value if item.search == "dense" else None,
            "bm25": value if item.search == "bm25" else None,
            "bm25_terms": None,
        }
        if item.search == "bm25":
            at = int(np.searchsorted(collection.rows, chunk))
            hit["bm25_terms"] = collection.bm25.explain(text, at)
        hits.append(hit)
    weight = trace.merged.weight[place, row]
    return {
        "collection": item.collection,
        "search": item.search,
        "encoder": retriever.encoder_name(item.collection) if item.search == "dense" else None,
        "weight": float(weight),
        "dense_query": text if item.search == "dense" else None,
        "sparse_terms": [],
        "hits": hits,
    }
