"""Which candidates a drill-down shows, and what each term of the final formula gave them.

Candidates are ranked chunks; a *unit* is what is judged, a document or a chunk. A unit stands
where its first chunk stands, and that chunk is shown for it: the first ten units, the gold, and
the five above the gold that got furthest.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from reports.ceiling import stages_of
from reports.columns import ANEW
from reports.faults import InputError
from reports.run_directory import CandidateColumns, RunDirectory

__all__ = [
    "ABOVE",
    "GOLD",
    "TOP",
    "Candidates",
    "best_gold_ranks",
    "choose",
    "first_of_each",
    "read_candidates",
]

TOP, GOLD, ABOVE = 10, 5, 5

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Booleans = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Candidates:
    """The rows to show, by query and rank; every array is (rows) unless said otherwise.

    `place` is the rank of the unit. `score` is the final score; `in_pool` tells whether tier 2 gave
    it. `contributions` maps a term to weight times term; together they make the score. It is empty
    where the run tells no weights. `gold_query`, `gold_unit` and `gold_ranks` are the waterfall:
    a row for each relevant unit that any stage held, its best rank after each stage, 0 if absent.
    Those of a query stand together, best placed first.
    """

    query: Integers
    place: Integers
    chunk_ids: Sequence[str]
    document_ids: Sequence[str]
    collections: Sequence[str]
    gold: Booleans
    ranks: Mapping[str, Integers]
    score: Floats
    in_pool: Booleans
    contributions: Mapping[str, Floats]
    gold_query: Integers
    gold_unit: Sequence[str]
    gold_ranks: Mapping[str, Integers]


def read_candidates(run: RunDirectory) -> Candidates:
    """Return what a drill-down shows of a run's candidates."""
    query_ids: list[str] = run.queries.column("query_id").to_pylist()
    row_of = {query_id: row for row, query_id in enumerate(query_ids)}
    weights = _weights(run.queries)
    level = run.record["gold"].get("level", "document")
    with run.candidate_columns() as columns:
        codes, values = columns.coded("query_id")
        query = np.array([row_of.get(value, -1) for value in values], dtype=np.int64)[codes]
        if -1 in query:
            stranger = next(value for value in values if value not in row_of)
            raise InputError(
                f"query {stranger!r:.80} is not in queries.parquet", path=columns.path, fix=ANEW
            )
        stages = stages_of(columns.names, "rank:")
        order = columns.ranks("rank:reranked" if "reranked" in stages else "rank:merged")
        gold = columns.flags("gold")
        if "final" in stages:
            _refuse_cut_rows(run, query, columns.ranks("rank:final"), columns.path)
        unit, unit_names = columns.coded("document_id" if level == "document" else "chunk_id")
        rows, place = choose(query, unit, order, gold)

        ranks = {stage: columns.ranks(f"rank:{stage}") for stage in stages}
        gold_query, gold_unit, gold_ranks = best_gold_ranks(query, unit, order, gold, ranks)
        score = columns.numbers("score:final")[rows]
        in_pool, contributions = _contributions(columns, rows, query[rows], weights)
        return Candidates(
            query=query[rows],
            place=place,
            chunk_ids=_texts(columns, "chunk_id", rows),
            document_ids=_texts(columns, "document_id", rows),
            collections=_texts(columns, "collection", rows),
            gold=gold[rows],
            ranks={stage: rank[rows] for stage, rank in ranks.items()},
            score=score,
            in_pool=in_pool,
            contributions=contributions,
            gold_query=gold_query,
            gold_unit=[unit_names[code] for code in gold_unit],
            gold_ranks=gold_ranks,
        )


def _refuse_cut_rows(run: RunDirectory, query: Integers, final: Integers, file: Path) -> None:
    """Refuse a table with fewer units for a query than the query table says it retrieved."""
    span = int(final.max(initial=0)) + 1
    units = np.unique((query * span + final)[final > 0]) // span
    run.check_retrieved(np.bincount(units, minlength=len(run.queries)), file)


def choose(
    query: Integers, unit: Integers, order: Integers, gold: Booleans
) -> tuple[Integers, Integers]:
    """Return the rows to show and the rank of their unit, by query and rank.

    `query`, `unit`, `order` and `gold` are (candidates): whose, which unit, the place of the chunk
    from 1 (0: not ranked), whether it is relevant. Of each unit the first chunk is taken.
    """
    first = _first_chunks(query, unit, order)
    owner = query[first]
    place = _count_within(owner) + 1
    marked = gold[first]
    gold_seen = _count_within_marked(owner, marked)
    best = np.full(int(owner.max(initial=-1)) + 1, np.iinfo(np.int64).max)
    np.minimum.at(best, owner[marked], place[marked])
    gap = best[owner] - place
    kept = (place <= TOP) | (marked & (gold_seen <= GOLD)) | ((gap >= 1) & (gap <= ABOVE))
    return first[kept], place[kept]


def best_gold_ranks(
    query: Integers,
    unit: Integers,
    order: Integers,
    gold: Booleans,
    ranks: Mapping[str, Integers],
) -> tuple[Integers, Integers, dict[str, Integers]]:
    """Return query and unit of each relevant unit, best placed first, and its best rank by stage.

    A unit's rank after a stage is that of its best chunk there; 0 where none of them is there.
    """
    rows = np.flatnonzero(gold & (query >= 0))
    key = query[rows] * (int(unit.max(initial=0)) + 1) + unit[rows]
    _, group = np.unique(key, return_inverse=True)
    groups = int(group.max(initial=-1)) + 1
    far = np.iinfo(np.int64).max

    def least(values: Integers) -> Integers:
        found = np.full(groups, far)
        np.minimum.at(found, group, np.where(values > 0, values, far))
        return found

    owner, name = np.zeros(groups, np.int64), np.zeros(groups, np.int64)
    owner[group], name[group] = query[rows], unit[rows]
    placed = np.lexsort((least(order[rows]), owner))
    best = {stage: least(rank[rows])[placed] for stage, rank in ranks.items()}
    return owner[placed], name[placed], {s: np.where(r == far, 0, r) for s, r in best.items()}


def _first_chunks(query: Integers, unit: Integers, order: Integers) -> Integers:
    """Return the first chunk of each unit, by query and place."""
    ranked = np.flatnonzero(order > 0)
    by_place = ranked[np.lexsort((order[ranked], query[ranked]))]
    key = query[by_place] * (int(unit.max(initial=0)) + 1) + unit[by_place]
    _, first = np.unique(key, return_index=True)
    chunks: Integers = by_place[np.sort(first)]
    return chunks


def _count_within(owner: Integers) -> Integers:
    """Return the number of each row among its owner's, from 0; an owner's rows stand together."""
    starts = np.flatnonzero(np.diff(owner, prepend=-1))
    lengths = np.diff(starts, append=len(owner))
    return np.arange(len(owner)) - np.repeat(starts, lengths)


def _count_within_marked(owner: Integers, marked: Booleans) -> Integers:
    """Return the number of each marked row among its owner's, from 1; 0 for the others."""
    counted = np.zeros(len(owner), np.int64)
    counted[marked] = _count_within(owner[marked]) + 1
    return counted


def first_of_each(owner: Integers, count: int) -> Integers:
    """Return the first `count` rows of each owner; an owner's rows stand together."""
    return np.flatnonzero(_count_within(owner) < count)


def _texts(columns: CandidateColumns, name: str, rows: Integers) -> list[str]:
    codes, values = columns.coded(name)
    return [values[code] for code in codes[rows]]


def _weights(queries: Any) -> dict[str, Floats]:
    """Return the weights of tier 2 by name, (queries), NaN where tier 2 had none in force."""
    names = [name for name in queries.column_names if name.startswith("weight:")]
    columns = {name: queries.column(name).cast("float64").to_numpy() for name in names}
    return {
        name.removeprefix("weight:"): column
        for name, column in columns.items()
        if np.isfinite(column).any()
    }


def _contributions(
    columns: CandidateColumns, rows: Integers, query: Integers, weights: Mapping[str, Floats]
) -> tuple[Booleans, dict[str, Floats]]:
    """Return which rows tier 2 scored, and weight times term of each; a penalty is negative.

    What the final score has beyond the weighted sum is what a structure raised it by.
    """
    if "term:final" not in columns.names:
        return np.zeros(len(rows), dtype=np.bool_), {}
    final = columns.numbers("term:final")[rows]
    in_pool = np.isfinite(final)
    parts: dict[str, Floats] = {}
    for name, of_query in weights.items():
        bare = name.removeprefix("w_").removesuffix("_penalty")
        term = next((t for t in (f"term:{bare}_norm", f"term:{bare}") if t in columns.names), None)
        if term is None:
            continue
        sign = -1.0 if name.endswith("_penalty") else 1.0
        parts[bare] = np.nan_to_num(sign * of_query[query] * columns.numbers(term)[rows])
    if parts:
        raised = np.where(in_pool, final - np.sum(list(parts.values()), axis=0), 0.0)
        if (raised > 1e-9).any():
            parts["structure"] = np.where(raised > 1e-9, raised, 0.0)
    return in_pool, {name: part for name, part in parts.items() if part.any()}
