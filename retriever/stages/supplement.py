"""supplement: chunks of documents that a query names, found whatever the lists brought.

Within a collection by `2 * entity + lexical + 0.1 * dense`; the collections then take turns. The
supplement is no list of the merge.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from retriever.hooks import SupplementPlan
from retriever.index.store import Index
from retriever.stages.fuse import overlap_of
from retriever.stages.recall import Encoded
from retriever.stages.scope import Allowed
from retriever.types import Booleans, Floats, Integers, Supplement

__all__ = ["DeepSupplement", "cut_supplement", "deep_supplement", "supplement"]

DECIMALS = 12
COLUMNS = ("entity", "lexical", "dense", "score")


@dataclass(frozen=True, slots=True, eq=False)
class DeepSupplement:
    """A supplement before `recall_top_k` cuts it; `turn` (queries, places) counts from 0.

    A chunk's turn is its place in its own collection, which is what the cut goes by.
    """

    found: Supplement
    turn: Integers


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
    return cut_supplement(deep_supplement(index, texts, plans, encoded, allowed), recall_top_k)


def cut_supplement(deep: DeepSupplement, recall_top_k: int) -> Supplement:
    """Keep of each collection its first `recall_top_k` chunks; the order stays."""
    found = deep.found
    kept = (found.rows >= 0) & (deep.turn < recall_top_k)
    if kept.sum() == (found.rows >= 0).sum():
        return found
    order = np.argsort(~kept, axis=1, kind="stable")[:, : int(kept.sum(axis=1).max(initial=0))]
    kept = np.take_along_axis(kept, order, axis=1)

    def moved(column: Floats | Integers, empty: float) -> Any:
        taken = np.take_along_axis(column, order, axis=1)
        return np.where(kept, taken, np.asarray(empty, dtype=column.dtype))

    return Supplement(
        found.collections,
        rows=moved(found.rows, -1),
        collection=moved(found.collection, -1),
        searched=found.searched,
        **{name: moved(getattr(found, name), np.nan) for name in COLUMNS},
    )


def deep_supplement(
    index: Index,
    texts: Sequence[str],
    plans: Sequence[SupplementPlan | None],
    encoded: Mapping[str, Encoded],
    allowed: Allowed,
) -> DeepSupplement:
    """Search the named documents of each query, as deep as their number allows."""
    names = tuple(index.collections)
    found: list[list[tuple[int, int, tuple[float, ...]]]] = []
    turns: list[list[int]] = []
    searched = np.zeros((len(names), len(plans)), dtype=np.bool_)
    words: dict[str, dict[int, frozenset[str]]] = {name: {} for name in names}
    for q, plan in enumerate(plans):
        if plan is None or not plan.document_ids:
            found.append([])
            turns.append([])
            continue
        limit = max(4 * len(plan.document_ids), 8)
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
            lexical = overlap_of(collection, index, texts[q], plan.terms, own, words[name])
            score = np.round(2 * entity + lexical + 0.1 * dense, DECIMALS)
            order = np.lexsort((own, -score))[:limit]
            at = names.index(name)
            lanes.append(
                [(int(own[i]), at, (entity[i], lexical[i], dense[i], score[i])) for i in order]
            )
        hits, turn = _take_turns(lanes)
        found.append(hits)
        turns.append(turn)
    return _columns(names, found, turns, searched)


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
) -> tuple[list[tuple[int, int, tuple[float, ...]]], list[int]]:
    """Return the first of every lane, then the second, and which turn each had.

    A chunk stands at its first place only.
    """
    longest = max(map(len, lanes), default=0)
    turns = [(lane[i], i) for i in range(longest) for lane in lanes if i < len(lane)]
    first: dict[int, tuple[tuple[int, int, tuple[float, ...]], int]] = {}
    for hit, turn in turns:
        first.setdefault(hit[0], (hit, turn))
    return [hit for hit, _ in first.values()], [turn for _, turn in first.values()]


def _columns(
    names: tuple[str, ...],
    found: Sequence[Sequence[tuple[int, int, tuple[float, ...]]]],
    turns: Sequence[Sequence[int]],
    searched: Booleans,
) -> DeepSupplement:
    width = max(map(len, found), default=0)
    rows = np.full((len(found), width), -1, dtype=np.int32)
    collection = np.full((len(found), width), -1, dtype=np.int32)
    turn = np.zeros((len(found), width), dtype=np.int32)
    values = np.full((len(COLUMNS), len(found), width), np.nan)
    for q, hits in enumerate(found):
        turn[q, : len(hits)] = turns[q]
        for place, (row, at, numbers) in enumerate(hits):
            rows[q, place], collection[q, place] = row, at
            values[:, q, place] = numbers
    entity, lexical, dense, score = values
    found_all = Supplement(names, rows, collection, entity, lexical, dense, score, searched)
    return DeepSupplement(found_all, turn)
