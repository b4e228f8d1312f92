"""Judge a batch: which queries pass, and the class of those that do not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from experiments.diagnosis.units import Units
from experiments.diagnosis.waterfall import Waterfall, stage_ranks, waterfall
from experiments.failures import Verdict, classify
from experiments.metrics import coverage_by_rank, term_coverage
from experiments.rankings import Block
from gold import GoldQuery, GoldSet
from retriever import InputError
from retriever.config import EvaluationConfig
from retriever.index.store import Index
from retriever.types import Booleans, Integers

__all__ = [
    "ROUNDING",
    "Judge",
    "Judged",
    "Terms",
    "cutoff_of",
    "possible_share",
    "possible_terms",
    "texts_by_rank",
]

# What a share of terms may miss of the threshold by rounding.
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Terms:
    """Expected terms that the top k does not cover; `impossible`: in no indexed relevant unit."""

    missing: tuple[str, ...]
    impossible: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """A batch with a verdict a query.

    `ranks` are those of every place after every stage; `coverage` maps a query id to the coverage
    of its expected terms by rank, None without any; `terms` a row to what is not covered.
    """

    verdicts: Sequence[Verdict]
    waterfall: Waterfall
    ranks: Mapping[str, Integers]
    cutoffs: Integers
    coverage: Mapping[str, Sequence[float] | None]
    terms: Mapping[int, Terms]


def cutoff_of(query: GoldQuery, settings: EvaluationConfig) -> int:
    """Return the k of a query: its own, else the configuration's. InputError beyond the depth."""
    k = query.k or settings.cutoff
    if k > settings.depth:
        raise InputError(
            f"query {query.query_id!r} is judged by its first {k} results, deeper than "
            f"evaluation.depth {settings.depth}",
            fix=f"--set evaluation.depth={k}",
        )
    return k


@dataclass(frozen=True)
class Judge:
    """A gold set with the index that is asked; `coverage_depth` is how deep texts are read."""

    index: Index
    gold: GoldSet
    settings: EvaluationConfig
    coverage_depth: int = 0

    @cached_property
    def units(self) -> Units:
        """The units of the index."""
        return Units(self.index, self.gold.level)

    @property
    def relevant_from(self) -> int:
        """The grade from which on a unit counts as relevant."""
        return self.settings.relevant_from or self.gold.relevant_from

    def relevant(self, query_id: str) -> list[str]:
        """Return the ids of a query's relevant units."""
        grades = self.gold.qrels[query_id]
        return [name for name, grade in grades.items() if grade >= self.relevant_from]

    def judge(self, queries: Sequence[GoldQuery], block: Block) -> Judged:
        """Return the verdict of each query of a block, `queries` being those of the block."""
        ranks = stage_ranks(block.trace, block.ranked)
        cutoffs = np.array([cutoff_of(q, self.settings) for q in queries], dtype=np.int32)
        relevant = [self.relevant(query.query_id) for query in queries]
        found = waterfall(self.units, queries, relevant, cutoffs, block, ranks)
        covered = np.ones(len(queries), dtype=np.bool_)
        possible_covered = covered.copy()
        coverage: dict[str, Sequence[float] | None] = {}
        terms: dict[int, Terms] = {}
        least = self.gold.coverage_threshold - ROUNDING
        for row, query in enumerate(queries):
            if not query.expected_terms:
                continue
            k = int(cutoffs[row])
            texts = texts_by_rank(self.index, block, row, max(self.coverage_depth, k))
            by_rank = coverage_by_rank(query.expected_terms, texts)
            coverage[query.query_id] = by_rank
            top = (by_rank or [])[:k]
            covered[row] = (top[-1] if top else 0.0) >= least
            if not covered[row]:
                seen = [text for of_rank in texts[:k] for text in of_rank]
                terms[row] = self._terms(query, relevant[row], seen)
                possible_covered[row] = possible_share(query.expected_terms, terms[row]) >= least
        verdicts = classify(len(queries), found.pairs, self.gold.success, covered, possible_covered)
        return Judged(verdicts, found, ranks, cutoffs, coverage, terms)

    def passes(self, queries: Sequence[GoldQuery], block: Block) -> Booleans:
        """Tell which queries pass."""
        return np.array([v.failure == "ok" for v in self.judge(queries, block).verdicts])

    def _terms(self, query: GoldQuery, relevant: Sequence[str], seen: Sequence[str]) -> Terms:
        rows = [self.units.row[name] for name in relevant if name in self.units.row]
        chunks = [row for unit in rows for row in self.units.chunks_of(unit)]
        held = self.index.chunks.values("text", np.array(chunks, dtype=np.int32))
        return possible_terms(query.expected_terms, seen, held)


def possible_terms(wanted: Sequence[str], seen: Sequence[str], relevant: Sequence[str]) -> Terms:
    """Return the terms that the texts seen do not hold, and of all those no relevant text holds."""
    return Terms(
        tuple(term for term in wanted if not term_coverage([term], seen)),
        tuple(term for term in wanted if not term_coverage([term], relevant)),
    )


def possible_share(wanted: Sequence[str], terms: Terms) -> float:
    """Return the covered share of the terms that are possible, 1 where none is."""
    possible = [term for term in wanted if term not in terms.impossible]
    if not possible:
        return 1.0
    return sum(term not in terms.missing for term in possible) / len(possible)


def texts_by_rank(index: Index, block: Block, row: int, deepest: int) -> list[list[str]]:
    """Full text of one query's retrieved chunks, grouped by the rank of their unit."""
    order, place = block.trace.final.order[row], block.ranked.place[row]
    ranks = int(min(deepest, place.max(initial=0)))
    texts: list[list[str]] = [[] for _ in range(ranks)]
    kept = np.flatnonzero((place > 0) & (place <= ranks))
    chunks = block.trace.slots.chunk[row, order[kept]]
    for rank, text in zip(place[kept], index.chunks.values("text", chunks), strict=True):
        texts[rank - 1].append(text)
    return texts
