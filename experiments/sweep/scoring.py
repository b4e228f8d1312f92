"""Scores of a trial: the same figures as `experiments.metrics`, as one gather over the slots.

A trial's ranking is an order over slots. Which grade each slot's unit has depends on the layout
alone and is worked out once; a trial then takes the first grades of its order. Every sweep proves
these figures equal to ranx's on some of its trials (`experiments.sweep.objective`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from experiments.metrics import Measure
from retriever.files import InputError
from retriever.types import Booleans, Floats, Integers, Reranked, Slots

__all__ = ["Scorer", "check_objectives", "scorable"]

Grades = Mapping[str, Mapping[str, int]]
Unit = npt.NDArray[np.int64]

# Chunks looked at for each unit wanted; more only where units repeat.
CHUNKS_A_UNIT = 2

# A switch that lays the slots out otherwise, such as parents, is turned on and off all the time.
LAYOUTS_KEPT = 16


def scorable(qrels: Grades, relevant_from: int) -> tuple[str, ...]:
    """Return the queries that have a relevant unit, sorted, as `metrics.per_query` does."""
    return tuple(
        query_id
        for query_id in sorted(qrels)
        if any(grade >= relevant_from for grade in qrels[query_id].values())
    )


def check_objectives(measures: Sequence[Measure]) -> None:
    """Refuse, by InputError, a measure twice, or one that reads more than grades."""
    names = [str(measure) for measure in measures]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"the objective {name} stands twice", fix="give each once")
    for measure in measures:
        if measure.name not in _KERNELS:
            raise InputError(
                f"{measure} cannot be an objective: it reads more than grades",
                fix=f"one of {', '.join(sorted(_KERNELS))}",
            )


@dataclass(frozen=True, eq=False)
class _Layout:
    """One slot table with the grades on it.

    `unit` (queries, slots) numbers the units of a query from 0, the number of slots for none;
    `grade` (queries, slots) is the grade of a slot's unit, 0 where not judged or negative;
    `repeats` says whether a query has two slots of one unit.
    """

    slots: Slots
    unit: Integers
    grade: Floats
    repeats: bool


class Scorer:
    """Scores final orders of one batch against judgements, with measures that need grades alone.

    `query_ids` are the queries of the batch, in its order; `unit_of` maps a chunk row to the row of
    its unit (its document, or itself) and `unit_ids` names those rows.
    Raises InputError for a measure that reads more than grades (judged, coverage).
    """

    def __init__(
        self,
        query_ids: Sequence[str],
        qrels: Grades,
        measures: Sequence[Measure],
        unit_of: Callable[[Integers], Integers],
        unit_ids: Sequence[str],
        *,
        depth: int,
        relevant_from: int,
    ) -> None:
        check_objectives(measures)
        self.query_ids = tuple(query_ids)
        self.measures = tuple(measures)
        self._unit_of = unit_of
        self._depth = max(measure.cutoff or depth for measure in measures)
        self._full_depth = depth
        self._judged = _Judged.of(self.query_ids, qrels, unit_ids, relevant_from)
        self._layouts: list[_Layout] = []

    def score(self, slots: Slots, final: Reranked) -> dict[str, Floats]:
        """Return each measure's values by query of the batch, (queries,)."""
        layout = self._laid_out(slots)
        gains = _first_grades(layout, final.order, final.count, self._depth)
        found = {}
        for measure in self.measures:
            top = gains[:, : measure.cutoff or self._full_depth]
            found[str(measure)] = _KERNELS[measure.name](top, measure.cutoff, self._judged)
        return found

    def _laid_out(self, slots: Slots) -> _Layout:
        for layout in self._layouts:
            if layout.slots.chunk is slots.chunk:
                return layout
        layout = _lay(slots, self._unit_of, self._judged)
        self._layouts = [layout, *self._layouts[: LAYOUTS_KEPT - 1]]
        return layout


@dataclass(frozen=True, eq=False)
class _Judged:
    """Judgements of a batch as columns.

    `keys` are row * span + unit of the positive grades, rising, with `grades` beside them;
    `relevant` (queries,) counts the relevant units; `ideal` (queries, most) holds each query's
    positive grades, falling, 0 padded. Units that the index lacks count in both.
    """

    span: int
    keys: Unit
    grades: Floats
    relevant: Floats
    ideal: Floats
    relevant_from: int

    @classmethod
    def of(
        cls,
        query_ids: Sequence[str],
        qrels: Grades,
        unit_ids: Sequence[str],
        relevant_from: int,
    ) -> "_Judged":
        row_of = {name: row for row, name in enumerate(unit_ids)}
        span = len(row_of) + 1
        positive = [
            sorted((g for g in qrels[query_id].values() if g > 0), reverse=True)
            for query_id in query_ids
        ]
        ideal = np.zeros((len(query_ids), max(map(len, positive), default=0)))
        for row, grades in enumerate(positive):
            ideal[row, : len(grades)] = grades
        known = sorted(
            (row * span + row_of[unit], grade)
            for row, query_id in enumerate(query_ids)
            for unit, grade in qrels[query_id].items()
            if grade > 0 and unit in row_of
        )
        return cls(
            span,
            np.array([key for key, _ in known], dtype=np.int64),
            np.array([grade for _, grade in known], dtype=np.float64),
            (ideal >= relevant_from).sum(axis=1).astype(np.float64),
            ideal,
            relevant_from,
        )


def _lay(slots: Slots, unit_of: Callable[[Integers], Integers], judged: _Judged) -> _Layout:
    chunk = slots.chunk
    queries, width = chunk.shape
    held = chunk >= 0
    unit = np.where(held, unit_of(np.maximum(chunk, 0)) if chunk.size else chunk, -1)
    keys = np.arange(queries, dtype=np.int64)[:, None] * judged.span + unit
    grade = np.zeros(chunk.shape)
    if len(judged.keys):
        at = np.minimum(np.searchsorted(judged.keys, keys), len(judged.keys) - 1)
        grade = np.where(held & (judged.keys[at] == keys), judged.grades[at], 0.0)
    # Numbered within the query by the first slot of the unit, so that few numbers are needed.
    _, first, number = np.unique(keys.ravel(), return_index=True, return_inverse=True)
    local = (first % max(width, 1))[number].reshape(chunk.shape)
    local = np.where(held, local, width).astype(np.int32)
    repeats = bool((held & (local != np.arange(width))).any())
    return _Layout(slots, local, grade, repeats)


def _first_grades(layout: _Layout, order: Integers, count: Integers, depth: int) -> Floats:
    """Return the grades of the first `depth` units of each order, (queries, depth), 0 padded.

    A unit stands where its first chunk stands.
    """
    queries, width = order.shape
    grades = np.zeros((queries, depth))
    looked = min(width, depth * CHUNKS_A_UNIT if layout.repeats else depth)
    row = np.arange(queries, dtype=np.int64)[:, None]
    while True:
        slot = row * width + order[:, :looked]
        retrieved = np.arange(looked) < count[:, None]
        grade = np.where(retrieved, layout.grade.ravel().take(slot), 0.0)
        if not layout.repeats:
            grades[:, :looked] = grade
            return grades
        is_first = _is_first(layout.unit.ravel().take(slot), width) & retrieved
        rank = np.cumsum(is_first, axis=1)
        if looked == width or not ((rank[:, -1] < depth) & (count > looked)).any():
            query, place = np.nonzero(is_first & (rank <= depth))
            grades[query, rank[query, place] - 1] = grade[query, place]
            return grades
        looked = min(width, 2 * looked)


def _is_first(unit: Integers, width: int) -> Booleans:
    """Mark the first occurrence of each unit in its row; units are numbers up to `width`."""
    queries, places = unit.shape
    first = np.zeros((queries, width + 1), dtype=np.int32)
    row = np.arange(queries)[:, None]
    # Of a place written several times the last value stays: go from the back.
    first[row, unit[:, ::-1]] = np.arange(places - 1, -1, -1, dtype=np.int32)
    found: Booleans = first[row, unit] == np.arange(places)
    return found


# --- measures: grades of the first units (queries, places) -> values (queries,) -----------------


def _hit(top: Floats, cutoff: int | None, judged: _Judged) -> Floats:
    hits: Booleans = np.any(top >= judged.relevant_from, axis=1)
    return hits.astype(np.float64)


def _precision(top: Floats, cutoff: int | None, judged: _Judged) -> Floats:
    hits: Floats = (top >= judged.relevant_from).sum(axis=1) / float(cutoff or 1)
    return hits


def _recall(top: Floats, cutoff: int | None, judged: _Judged) -> Floats:
    hits: Floats = (top >= judged.relevant_from).sum(axis=1) / judged.relevant
    return hits


def _mrr(top: Floats, cutoff: int | None, judged: _Judged) -> Floats:
    hits = top >= judged.relevant_from
    found: Floats = np.where(hits.any(axis=1), 1.0 / (hits.argmax(axis=1) + 1.0), 0.0)
    return found


def _map(top: Floats, cutoff: int | None, judged: _Judged) -> Floats:
    hits = top >= judged.relevant_from
    precision = np.cumsum(hits, axis=1) / np.arange(1.0, top.shape[1] + 1)
    found: Floats = np.where(hits, precision, 0.0).sum(axis=1) / judged.relevant
    return found


def _ndcg(top: Floats, cutoff: int | None, judged: _Judged) -> Floats:
    ideal = _dcg(judged.ideal[:, : cutoff or None])
    found: Floats = _dcg(top) / np.where(ideal > 0, ideal, 1.0)
    return found


def _ndcg_burges(top: Floats, cutoff: int | None, judged: _Judged) -> Floats:
    ideal = _dcg(2.0 ** judged.ideal[:, : cutoff or None] - 1)
    found: Floats = _dcg(2.0**top - 1) / np.where(ideal > 0, ideal, 1.0)
    return found


def _dcg(gains: Floats) -> Floats:
    """Sum of gain / log2(rank + 1) over the ranks (Järvelin and Kekäläinen 2002)."""
    discounted: Floats = (gains / np.log2(np.arange(2.0, gains.shape[1] + 2))).sum(axis=1)
    return discounted


_KERNELS: Mapping[str, Callable[[Floats, int | None, _Judged], Floats]] = {
    "hit": _hit,
    "map": _map,
    "mrr": _mrr,
    "ndcg": _ndcg,
    "ndcg_burges": _ndcg_burges,
    "precision": _precision,
    "recall": _recall,
}
