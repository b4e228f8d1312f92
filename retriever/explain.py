"""One query's trace as plain data, from which anyone can recompute every later number."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from retriever.pipeline import Trace
from retriever.plugins import Subscribers
from retriever.retriever import Retriever
from retriever.stages.understand import intent_of
from retriever.types import AuditEvent, Floats, Integers, ListId, SearchResult

__all__ = ["explain", "shown"]

# Parts of the configuration from which the numbers after the searches follow.
NUMBERS_FROM = ("fuse", "rerank_plan", "merge", "inject", "rerank_merged", "trim")
FINAL_TERMS = ("ce_raw", "ce_norm", "rank_norm", "entity", "section", "xdrug", "structure", "final")


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

    Keys: query, image, parameters, intent, entities, drugs, plans, supplement, merged, weights,
    reranked, results, audit, timings_ms. Scores are as the stages saw them; null where there is
    none.
    """
    chunks, assembly = retriever.index.chunks, trace.assemblies[row]
    known = {-1: ""}
    for rows in (trace.slots.chunk[row], trace.supplement.rows[row]):
        known |= {int(r): chunks.value("chunk_id", r) for r in rows if r >= 0 and r not in known}
    ids = [known[int(chunk)] for chunk in trace.slots.chunk[row]]
    reranked = _reranked(trace, row, ids)
    rows = trace.shown[row]
    return {
        "query": trace.queries[row].text,
        "image": None if (image := trace.queries[row].image) is None else str(image),
        "parameters": _parameters(retriever),
        "intent": {key: _plain(value) for key, value in asdict(intent_of(assembly)).items()},
        "entities": [asdict(entity) for entity in assembly.entities],
        "drugs": [asdict(drug) for drug in assembly.drugs],
        "plans": [
            _plan(retriever, trace, row, place, known)
            for place, item in enumerate(trace.slots.lists)
            if item in trace.routing.lists
            and trace.routing.active[trace.routing.lists.index(item), row]
        ],
        "supplement": _supplement(trace, row, known),
        "merged": _merged(trace, row, ids),
        "weights": _weights(trace.final.weights, row),
        "reranked": reranked,
        "results": [
            {
                "rank": hit["rank"],
                "chunk_id": hit["chunk_id"],
                "document_id": chunks.value("document_id", chunk),
                "collection": hit["collection"],
                "score": hit["score"],
                "text": chunks.value("text", chunk),
                "image": chunks.value("image", chunk),
            }
            for hit, chunk in zip(reranked, rows[rows >= 0], strict=False)
        ],
        "audit": _events(trace.audit_of(row)),
        "timings_ms": {name: round(ms, 3) for name, ms in trace.timings_ms.items()},
    }


def _parameters(retriever: Retriever) -> dict[str, Any]:
    """Return by dotted path what the numbers depend on beside the scores of the searches."""
    config = retriever.config
    plugins = Subscribers.of(config.namespace, dict(config.plugins)).plugins
    wanted = [*NUMBERS_FROM, *(f"plugins.{plugin.name}.rerank_merged" for plugin in plugins)]
    return {
        path: value
        for path, value in config.flattened().items()
        if any(path.startswith(f"{part}.") for part in wanted)
    }


def _plan(
    retriever: Retriever, trace: Trace, row: int, place: int, known: Mapping[int, str]
) -> dict[str, Any]:
    item, one = trace.slots.lists[place], trace.lists[place]
    expansion = trace.expansions[item.collection][row]
    filtered = np.zeros_like(one.rank[row]) if one.filtered is None else one.filtered[row]
    dense = item.search == "dense"
    return {
        "collection": item.collection,
        "search": item.search,
        "encoder": retriever.encoder_name(item.collection) if dense else None,
        "weight": float(trace.merged.weight[place, row]),
        "dense_query": _dense_query(retriever, trace, row, item) if dense else None,
        "sparse_terms": list(expansion.sparse_terms),
        "hits": _list_hits(retriever, trace, row, place, one.rank[row], known),
        "filtered": _list_hits(retriever, trace, row, place, filtered, known),
    }


def _dense_query(retriever: Retriever, trace: Trace, row: int, item: ListId) -> str | None:
    """Return what one list's encoder read of the query: texts, or the path of its image."""
    if retriever.index.collections[item.collection].images:
        if (image := trace.queries[row].image) is not None:
            return str(image)
        if not retriever.reads_queries(item.collection):
            return None
    return " ".join(trace.expansions[item.collection][row].dense_texts)


def _list_hits(
    retriever: Retriever,
    trace: Trace,
    row: int,
    place: int,
    rank: Integers,
    known: Mapping[int, str],
) -> list[dict[str, Any]]:
    """Return the places of one list that have a rank, in its order."""
    item, one, found = trace.slots.lists[place], trace.lists[place], trace.found[place]
    collection, text = retriever.index.collections[item.collection], trace.queries[row].text
    member = np.flatnonzero(rank > 0)
    hits = []
    for at in member[np.argsort(rank[member])]:
        chunk = int(found.rows[row, at])
        own = _number(found.score[row, at])
        combined = _part(one.parts, "combined", row, at)
        if combined is None and item.search == "dense":
            combined = own  # a list that takes no words into account
        hit: dict[str, Any] = {
            "chunk_id": f"{item.collection}:{known[chunk]}",
            "source_chunk_id": known[chunk],
            "rank": int(rank[at]),
            "dense": own if item.search == "dense" else None,
            "bm25": own if item.search == "bm25" else None,
            "bm25_terms": None,
            "sparse": _part(one.parts, "sparse", row, at),
            "combined": combined,
            "tier1": _part(one.parts, "tier1", row, at),
            "score": _number(one.score[row, at]),
            "structure": retriever.index.chunks.value("structure", chunk) or None,
        }
        if item.search == "bm25":
            where = int(np.searchsorted(collection.rows, chunk))
            hit["bm25_terms"] = collection.bm25.explain(text, where)
        hits.append(hit)
    return hits


def _supplement(trace: Trace, row: int, known: Mapping[int, str]) -> list[dict[str, Any]]:
    found = trace.supplement
    return [
        {
            "chunk_id": known[int(chunk)],
            "collection": found.collections[found.collection[row, place]],
            "entity": _number(found.entity[row, place]),
            "lexical": _number(found.lexical[row, place]),
            "dense": _number(found.dense[row, place]),
            "score": _number(found.score[row, place]),
        }
        for place, chunk in enumerate(found.rows[row])
        if chunk >= 0
    ]


def _merged(trace: Trace, row: int, ids: Sequence[str]) -> list[dict[str, Any]]:
    """List the merged order with the injected chunks in front."""
    injected = trace.injected
    return [
        {
            "chunk_id": ids[slot],
            "collection": trace.collections[injected.node[row, slot]],
            "rank": rank,
            "score": _number(trace.merged.score[row, slot]),
            "injected": bool(injected.injected[row, slot]),
            "pool": bool(injected.pool[row, slot]),
        }
        for rank, slot in enumerate(injected.order[row, : injected.count[row]], start=1)
    ]


def _reranked(trace: Trace, row: int, ids: Sequence[str]) -> list[dict[str, Any]]:
    final = trace.final
    names = tuple(dict.fromkeys((*FINAL_TERMS, *final.terms)))
    # A term is laid over all slots of the batch when it is read: once each, not once a candidate.
    terms = {name: by_slot[row] for name, by_slot in final.terms.items()}
    return [
        {
            "chunk_id": ids[slot],
            "collection": trace.collections[final.node[row, slot]],
            "rank": rank,
            "score": _number(final.score[row, slot]),
            **{name: _number(terms[name][slot]) if name in terms else None for name in names},
        }
        for rank, slot in enumerate(final.order[row, : final.count[row]], start=1)
    ]


def _weights(weights: Mapping[str, Floats], row: int) -> dict[str, float] | None:
    """Name each weight as the configuration does; a penalty is printed as what is subtracted."""
    if not weights:
        return None
    named = {f"w_{name}": float(values[row]) for name, values in weights.items()}
    penalty = named.pop("w_xdrug", None)
    return named if penalty is None else {**named, "w_xdrug_penalty": -penalty}


def _part(parts: Mapping[str, Floats], name: str, row: int, place: int) -> float | None:
    return _number(parts[name][row, place]) if name in parts else None


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def _events(audit: Iterable[AuditEvent]) -> list[dict[str, Any]]:
    return [{"stage": e.stage, "event": e.event, "detail": dict(e.detail)} for e in audit]
