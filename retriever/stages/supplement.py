"""supplement: chunks of documents that a query names, found whatever the lists brought.

Within a collection by `2 * entity + lexical + 0.1 * dense`; the collections then take turns. The
supplement is no list of the merge.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from retriever.hooks import SupplementPlan
from retriever.index.store import Index
from retriever.stages.fuse import overlap_of
from retriever.stages.recall import Encoded
from retriever.stages.scope import Allowed
from retriever.types import Booleans, Floats, Integers, Supplement

__all__ = ["supplement"]

DECIMALS = 12
COLUMNS = ("entity", "lexical", "dense", "score")


def supplement(
    index: Index,
    texts: Sequence[str],
    plans: Sequence[SupplementPlan | None],
    encoded: Mapping[str, Encoded],
    allowed: Allowed,
    recall_top_k: int,
) -> Supplement:
    """Search the named documents of each query.

    Each collection gives at most min(recall_top_k, max(4 * documents, 8)) chunks.
    """
    names = tuple(index.collections)
    found: list[list[tuple[int, int, tuple[float, ...]]]] = []
    searched = np.zeros((len(names), len(plans)), dtype=np.bool_)
    for q, plan in enumerate(plans):
        if plan is None or not plan.document_ids:
            found.append([])
            continue
        limit = min(recall_top_k, max(4 * len(plan.document_ids), 8))
        rows = index.chunks.rows_of_documents(plan.document_ids)
        inside = allowed.rows[q]
        if inside is not None:
            rows = rows[np.isin(rows, inside)]
        lanes = []
        for name in plan.collections:
            if name not in names:
                continue
            collection = index.collections[name]
            searched[names.index(name), q] = True
            own = rows[collection.places_of(rows) >= 0]
            dense = _dense(index, name, encoded.get(name), q, own)
            entity = plan.entity(own)
            lexical = overlap_of(collection, index, texts[q], plan.terms, own)
            score = np.round(2 * entity + lexical + 0.1 * dense, DECIMALS)
            order = np.lexsort((own, -score))[:limit]
            at = names.index(name)
            lanes.append(
                [(int(own[i]), at, (entity[i], lexical[i], dense[i], score[i])) for i in order]
            )
        found.append(_take_turns(lanes))
    return _columns(names, found, searched)


def _dense(index: Index, name: str, encoded: Encoded | None, query: int, rows: Integers) -> Floats:
    """(1 + cosine) / 2 of the plan's dense text with some chunks, 0 without a vector."""
    if encoded is None or not len(rows):
        return np.zeros(len(rows))
    own = np.asarray(encoded.vectors[encoded.owner == query])
    if not len(own):
        return np.zeros(len(rows))
    collection = index.collections[name]
    places = np.tile(collection.places_of(rows), (len(own), 1))
    best: Floats = collection.dense.cosines(own, places).max(axis=0)
    return (1 + best) / 2


def _take_turns(
    lanes: Sequence[Sequence[tuple[int, int, tuple[float, ...]]]],
) -> list[tuple[int, int, tuple[float, ...]]]:
    """Return the first of every lane, then the second; a chunk at its first place only."""
    longest = max(map(len, lanes), default=0)
    turns = [lane[i] for i in range(longest) for lane in lanes if i < len(lane)]
    first: dict[int, tuple[int, int, tuple[float, ...]]] = {}
    for hit in turns:
        first.setdefault(hit[0], hit)
    return list(first.values())


def _columns(
    names: tuple[str, ...],
    found: Sequence[Sequence[tuple[int, int, tuple[float, ...]]]],
    searched: Booleans,
) -> Supplement:
    width = max(map(len, found), default=0)
    rows = np.full((len(found), width), -1, dtype=np.int32)
    collection = np.full((len(found), width), -1, dtype=np.int32)
    values = np.full((len(COLUMNS), len(found), width), np.nan)
    for q, hits in enumerate(found):
        for place, (row, at, numbers) in enumerate(hits):
            rows[q, place], collection[q, place] = row, at
            values[:, q, place] = numbers
    entity, lexical, dense, score = values
    return Supplement(names, rows, collection, entity, lexical, dense, score, searched)
