"""Why a query fails: one class each, from the run's own trace and the gold set alone.

Relevant units of a query: R; those in the index: C; the first k of the ranking: L. A query passes
when R and L meet (`success: any`) or R lies in L (`all`), and its expected terms are covered by
the texts of L. Otherwise the first class that holds, the specification's table of failure classes:

    gold_corpus_gap      no unit of R is in C
    gold_over_specified  it would pass but for what the corpus cannot give, or passed in substance
    query_route_gap      no relevant unit lives in a collection that was searched
    ranking_gap          searched, and R within C does not meet L as success asks
    term_metric_strict   relevant units in L, terms that stand in relevant texts not covered

Columns in, columns out: `pairs` are the relevant (query, unit) pairs of a batch, one after
another, and everything known of a pair is an array over them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Literal

import numpy as np

from retriever.types import Booleans, Integers

__all__ = ["CLASSES", "SUBCLASSES", "Pairs", "Reach", "Verdict", "classify", "lost_words"]

CLASSES = (
    "ok",
    "gold_corpus_gap",
    "gold_over_specified",
    "query_route_gap",
    "ranking_gap",
    "term_metric_strict",
)
SUBCLASSES = {
    "gold_over_specified": ("absent_documents", "impossible_terms", "too_fine"),
    "ranking_gap": (
        "not_recalled",
        "filtered",
        "not_injected",
        "lost_in_merge",
        "lost_in_rerank",
    ),
}


class Reach(IntEnum):
    """How far a relevant unit of the index got that is not in the top k; in pipeline order."""

    UNKNOWN = -1  # an imported run has no stages
    UNROUTED = 0
    OUT_OF_SCOPE = 1
    NOT_RECALLED = 2
    FILTERED_BY_TIER_1 = 3
    CUT_BY_MERGE = 4
    NOT_INJECTED = 5
    OUTSIDE_POOL = 6
    # In the pool of a query that tier 2 left as it was: the stages before it gave the rank.
    OUT_RANKED = 7
    DISPLACED = 8
    # In the pool of a query that tier 2 ordered.
    IN_POOL = 9


# The sub-class of ranking_gap, and the stage that lost the unit.
_LOST: dict[Reach, tuple[str | None, str | None]] = {
    Reach.UNKNOWN: (None, None),
    Reach.UNROUTED: ("not_recalled", "route"),
    Reach.OUT_OF_SCOPE: ("filtered", "scope"),
    Reach.NOT_RECALLED: ("not_recalled", "recall"),
    Reach.FILTERED_BY_TIER_1: ("filtered", "rerank_plan"),
    Reach.CUT_BY_MERGE: ("filtered", "merge"),
    Reach.NOT_INJECTED: ("not_injected", "inject"),
    Reach.OUTSIDE_POOL: ("lost_in_merge", "merge"),
    Reach.OUT_RANKED: ("lost_in_rerank", "merge"),
    Reach.DISPLACED: ("lost_in_rerank", "inject"),
    Reach.IN_POOL: ("lost_in_rerank", "rerank_merged"),
}
PASSED_THROUGH = {
    "merge": "out-ranked in the merge; tier 2 passed through",
    "inject": "displaced by what was injected; tier 2 passed through",
}


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """The relevant units of a batch of queries, (pairs,) each.

    `query` is the row of the query, rising; `unit` the row of the unit, -1 where the index has no
    such unit. `in_top`: among the first k. `in_substance`: with judgements by chunk, another chunk
    of its document, or one of the same text, is. `searched`: it lives in a collection that a plan
    or the supplement of its query searched. `reach` holds `Reach` values.
    """

    query: Integers
    unit: Integers
    in_top: Booleans
    in_substance: Booleans
    searched: Booleans
    reach: Integers


@dataclass(frozen=True, slots=True)
class Verdict:
    """Class, sub-class and the stage that lost the gold; None where there is none to name.

    A query without a relevant unit is unscorable: `failure` is None. `ok` is a class, too.
    """

    failure: str | None
    subclass: str | None = None
    lost_at: str | None = None


def classify(
    queries: int,
    pairs: Pairs,
    success: Literal["any", "all"],
    covered: Booleans,
    possible_covered: Booleans,
) -> list[Verdict]:
    """Return the verdict of each query.

    `covered` (queries,): the texts of the top k hold enough of the expected terms (True without
    any); `possible_covered`: enough of those terms that stand in an indexed relevant unit.
    """

    def some(of_pair: Booleans) -> Booleans:
        return np.bincount(pairs.query, weights=of_pair, minlength=queries) > 0

    indexed = pairs.unit >= 0
    relevant = some(np.ones(len(indexed), dtype=np.bool_))
    in_corpus = some(indexed)
    complete = ~some(~indexed)
    if success == "any":
        found, given = some(pairs.in_top), some(pairs.in_top)
        in_substance = some(pairs.in_top | pairs.in_substance)
    else:
        found = ~some(~pairs.in_top)
        given = ~some(indexed & ~pairs.in_top)
        in_substance = ~some(indexed & ~pairs.in_top & ~pairs.in_substance)
    searched = some(indexed & pairs.searched)
    furthest = np.full(queries, Reach.UNKNOWN, dtype=np.int32)
    missing = indexed & ~pairs.in_top
    np.maximum.at(furthest, pairs.query[missing], pairs.reach[missing])

    # The first rule that holds decides; the last one holds whenever none before it does.
    rules: Sequence[tuple[Booleans, Verdict | None]] = (
        (~relevant, Verdict(None)),
        (found & covered, Verdict("ok")),
        (~in_corpus, Verdict("gold_corpus_gap")),
        (
            given & possible_covered & ~complete & (success == "all"),
            Verdict("gold_over_specified", "absent_documents"),
        ),
        (given & possible_covered, Verdict("gold_over_specified", "impossible_terms")),
        (in_substance & possible_covered, Verdict("gold_over_specified", "too_fine")),
        (~searched, Verdict("query_route_gap", None, "route")),
        (~given, None),
        (np.ones(queries, dtype=np.bool_), Verdict("term_metric_strict")),
    )
    first = np.argmax([rule for rule, _ in rules], axis=0)
    return [
        verdict or Verdict("ranking_gap", *_LOST[Reach(int(reach))])
        for verdict, reach in zip((rules[i][1] for i in first), furthest, strict=True)
    ]


def lost_words(subclass: str | None, lost_at: str | None) -> str:
    """Say where a unit was lost; empty where no stage is to blame."""
    if lost_at is None:
        return ""
    passed = PASSED_THROUGH.get(lost_at) if subclass == "lost_in_rerank" else None
    return passed or f"lost at {lost_at}"
