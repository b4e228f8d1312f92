"""One trial: a configuration through the retriever, its final orders scored.

There is no second code path: a trial is `Retriever.with_config(...).trace(...)` over a memo that
earlier trials have filled, and the scores are proven equal to ranx's where `prove` is asked.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from experiments.metrics import Measure, per_query
from experiments.sweep.allocation import keep_freed_memory
from experiments.sweep.scoring import Scorer, scorable
from gold import GoldSet
from retriever import InputError, Query, Retriever, RetrieverConfig
from retriever.pipeline import Trace
from retriever.retriever import QUERIES_AT_ONCE, batch_of
from retriever.stages.understand import intent_of
from retriever.types import Batch, Floats, Integers, Scope

__all__ = ["MOST_DIFFERENCE", "Objective", "ScorerDifferenceError"]

# How far a trial's figures may be from ranx's: what another order of summing leaves.
MOST_DIFFERENCE = 1e-12
LOOKED_A_UNIT = 3


class ScorerDifferenceError(RuntimeError):
    """The sweep's scorer and ranx disagree: a fault of ours, which ends the sweep."""


@dataclass(frozen=True, eq=False)
class _Block:
    batch: Batch
    scorer: Scorer


class Objective:
    """Scores configurations on some queries of a gold set.

    `query_ids` are those that count, in the order of every array returned; the first measure is
    what a study optimises. Raises InputError when none of the queries can be scored.
    """

    def __init__(
        self,
        retriever: Retriever,
        gold: GoldSet,
        measures: Sequence[Measure],
        query_ids: Sequence[str] | None = None,
    ) -> None:
        keep_freed_memory()
        settings = retriever.config.evaluation
        self.retriever = retriever
        self.gold = gold
        self.measures = tuple(measures)
        self.relevant_from = settings.relevant_from or gold.relevant_from
        self.depth = settings.depth
        wanted = set(gold.queries if query_ids is None else query_ids)
        self.query_ids = tuple(
            query_id for query_id in scorable(gold.qrels, self.relevant_from) if query_id in wanted
        )
        if not self.query_ids:
            raise InputError("no query has a relevant document", path=gold.path)
        # Laid out whatever a configuration searches, so that all of them share the slots.
        self.also = retriever.every_list
        chunks = retriever.index.chunks
        document = gold.level == "document"
        unit_ids = chunks.document_ids if document else chunks.chunk_ids
        self._blocks = [
            _Block(
                batch_of([_asked(gold, query_id) for query_id in some]),
                Scorer(
                    some,
                    gold.qrels,
                    self.measures,
                    (lambda rows: chunks.document_of[rows]) if document else (lambda rows: rows),
                    unit_ids,
                    depth=self.depth,
                    relevant_from=self.relevant_from,
                ),
            )
            for some in _blocks(self.query_ids)
        ]

    @property
    def batches(self) -> tuple[Batch, ...]:
        """The queries as the retriever is given them."""
        return tuple(block.batch for block in self._blocks)

    def score(self, config: RetrieverConfig) -> dict[str, Floats]:
        """Return the values of each measure by query, (queries,), under one configuration."""
        return self.score_with(self.retriever.with_config(config))

    def score_with(self, retriever: Retriever) -> dict[str, Floats]:
        """Return the same from a retriever of one's own, such as one without a memo."""
        found = []
        for block in self._blocks:
            trace = retriever.trace(block.batch, self.also)
            found.append(block.scorer.score(trace.slots, trace.final))
        if len(found) == 1:
            return found[0]
        return {str(m): np.concatenate([one[str(m)] for one in found]) for m in self.measures}

    def prove(self, config: RetrieverConfig, scores: Mapping[str, Floats]) -> None:
        """Compare a trial's figures with ranx's on its rankings, as deep as the measures read.

        Raises ScorerDifferenceError where one differs by more than 1e-12.
        """
        rankings = self.rankings(config, max(m.cutoff or self.depth for m in self.measures))
        judged = {query_id: self.gold.qrels[query_id] for query_id in self.query_ids}
        expected = per_query(rankings, judged, self.measures, relevant_from=self.relevant_from)
        for measure in self.measures:
            difference = np.abs(expected.values[str(measure)] - scores[str(measure)])
            worst = int(difference.argmax())
            if difference[worst] > MOST_DIFFERENCE:
                raise ScorerDifferenceError(
                    f"{measure} of query {self.query_ids[worst]}: "
                    f"{float(scores[str(measure)][worst])!r} here, "
                    f"{float(expected.values[str(measure)][worst])!r} by ranx"
                )

    def rankings(self, config: RetrieverConfig, depth: int | None = None) -> dict[str, list[str]]:
        """Return the ranked units of every query, to `depth` or that of the evaluation."""
        retriever = self.retriever.with_config(config)
        chunks = retriever.index.chunks
        unit_ids = chunks.document_ids if self.gold.level == "document" else chunks.chunk_ids
        found: dict[str, list[str]] = {}
        for block in self._blocks:
            trace = retriever.trace(block.batch, self.also)
            unit_of = chunks.document_of if self.gold.level == "document" else None
            ranked = _first_units(trace, unit_of, depth or self.depth)
            for query_id, units in zip(block.scorer.query_ids, ranked, strict=True):
                found[query_id] = [unit_ids[unit] for unit in units]
        return found

    def orders(self, config: RetrieverConfig) -> list[Integers]:
        """Return the first chunks of every query by block, (queries, depth), -1 padded."""
        retriever, found = self.retriever.with_config(config), []
        for block in self._blocks:
            trace = retriever.trace(block.batch, self.also)
            order = trace.final.order[:, : self.depth]
            rows = np.take_along_axis(trace.slots.chunk, order, axis=1)
            rows = np.where(np.arange(order.shape[1]) < trace.final.count[:, None], rows, -1)
            padding = ((0, 0), (0, self.depth - rows.shape[1]))
            found.append(np.pad(rows, padding, constant_values=-1).astype(np.int32))
        return found

    def workflows(self, config: RetrieverConfig) -> tuple[str, ...]:
        """Return the workflow of each query, as the retriever understands its text."""
        retriever = self.retriever.with_config(config)
        return tuple(
            intent_of(assembly).workflow
            for block in self._blocks
            for assembly in retriever.trace(block.batch, self.also).assemblies
        )

    @property
    def types(self) -> tuple[str, ...]:
        """The type of each query, for reports and constraints alone."""
        return tuple(self.gold.queries[q].type or "untyped" for q in self.query_ids)


def _first_units(trace: Trace, unit_of: Integers | None, depth: int) -> list[list[int]]:
    """Return the first distinct units of each query, in plain Python: the scorer is held to it.

    As many chunks are looked at as fill most rankings; where that is too few, all of the query's.
    """
    order, count, chunk = trace.final.order, trace.final.count, trace.slots.chunk
    rows = np.take_along_axis(chunk, order[:, : LOOKED_A_UNIT * depth], axis=1)
    units = rows if unit_of is None else unit_of[rows]
    found = []
    for query, (first, many) in enumerate(zip(units.tolist(), count.tolist(), strict=True)):
        distinct = list(dict.fromkeys(first[:many]))
        if len(distinct) < depth and many > len(first):
            row = chunk[query, order[query, :many]]
            distinct = list(dict.fromkeys((row if unit_of is None else unit_of[row]).tolist()))
        found.append(distinct[:depth])
    return found


def _asked(gold: GoldSet, query_id: str) -> Query:
    query = gold.queries[query_id]
    kinds = ("kb_names", "document_ids", "tags")
    scope = Scope(**{kind: tuple(query.scope.get(kind, ())) for kind in kinds})
    return Query(query.text, query_id, scope)


def _blocks(query_ids: Sequence[str]) -> list[tuple[str, ...]]:
    return [
        tuple(query_ids[start : start + QUERIES_AT_ONCE])
        for start in range(0, len(query_ids), QUERIES_AT_ONCE)
    ]
