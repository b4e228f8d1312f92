"""What an imported ranking tells of its failures: no stages, so no more than ranks and texts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.diagnosis.findings import ABOVE_SHOWN, GOLD_SHOWN, Finding
from experiments.diagnosis.gold_causes import gold_causes
from experiments.diagnosis.judging import ROUNDING, Terms, cutoff_of, possible_share, possible_terms
from experiments.failures import Pairs, Reach, classify
from experiments.metrics import term_coverage
from gold import GoldQuery, GoldSet, read_corpus
from retriever.config import EvaluationConfig

__all__ = ["GoldCorpus", "judge_ranking", "read_gold_corpus"]

NO_STAGES = (
    "an imported run has no stages: a query_route_gap counts as ranking_gap, without a sub-class"
)
NO_CORPUS = "without the texts that are judged, gold_corpus_gap and expected terms are not known"


@dataclass(frozen=True)
class GoldCorpus:
    """The ids of a gold set's corpus, and some of its texts by id; None where it has none."""

    ids: frozenset[str] | None
    texts: Mapping[str, str]


def read_gold_corpus(gold: GoldSet, wanted: set[str]) -> GoldCorpus:
    """Read all ids, and title and text of the wanted documents."""
    if not (gold.path / "corpus.jsonl").is_file():
        return GoldCorpus(None, {})
    ids, texts = [], {}
    for document in read_corpus(gold.path):
        ids.append(document.document_id)
        if document.document_id in wanted:
            texts[document.document_id] = f"{document.title}\n{document.text}"
    return GoldCorpus(frozenset(ids), texts)


def judge_ranking(
    gold: GoldSet,
    rankings: Mapping[str, Sequence[str]],
    corpus: GoldCorpus,
    settings: EvaluationConfig,
) -> list[Finding]:
    """Return the finding of each query, in the order of the gold set.

    `corpus` holds the texts of the ranked and the relevant documents of queries with expected
    terms. Judgements by chunk name no document of the corpus: what is indexed is then unknown.
    """
    least = settings.relevant_from or gold.relevant_from
    held = corpus.ids if gold.level == "document" else None
    queries = list(gold.queries.values())
    relevant = [
        [u for u, grade in gold.qrels[q.query_id].items() if grade >= least] for q in queries
    ]
    tops = [rankings[q.query_id][: cutoff_of(q, settings)] for q in queries]
    terms = [
        None if held is None else _terms(query, top, units, corpus.texts)
        for query, top, units in zip(queries, tops, relevant, strict=True)
    ]
    pairs = [(row, unit) for row, units in enumerate(relevant) for unit in units]
    indexed = [held is None or unit in held for _, unit in pairs]
    count = len(pairs)
    found = Pairs(
        query=np.array([row for row, _ in pairs], dtype=np.int32),
        unit=np.where(np.array(indexed, dtype=np.bool_), 0, -1).astype(np.int32),
        in_top=np.array([unit in tops[row] for row, unit in pairs], dtype=np.bool_),
        in_substance=np.zeros(count, dtype=np.bool_),
        searched=np.ones(count, dtype=np.bool_),
        reach=np.full(count, Reach.UNKNOWN, dtype=np.int32),
    )
    threshold = gold.coverage_threshold - ROUNDING
    covered, possible = np.ones((2, len(queries)), dtype=np.bool_)
    for row, (query, of_query) in enumerate(zip(queries, terms, strict=True)):
        if of_query is not None:
            held_terms = len(query.expected_terms) - len(of_query.missing)
            covered[row] = held_terms / len(query.expected_terms) >= threshold
            possible[row] = possible_share(query.expected_terms, of_query) >= threshold
    verdicts = classify(len(queries), found, gold.success, covered, possible)
    unknown = [NO_STAGES] + ([NO_CORPUS] if held is None else [])
    findings = []
    for row, (query, verdict) in enumerate(zip(queries, verdicts, strict=True)):
        absent = [unit for unit in relevant[row] if held is not None and unit not in held]
        evidence = _evidence(relevant[row], rankings[query.query_id], held)
        failed = verdict.failure not in (None, "ok")
        if failed:
            evidence["above"] = [
                {"chunk_id": None, "document_id": unit, "rank": rank, "score": None, "terms": {}}
                for rank, unit in enumerate(tops[row][:ABOVE_SHOWN], start=1)
            ]
        causes = tuple(gold_causes(verdict, absent, terms[row])) if failed else ()
        findings.append(Finding(query.query_id, verdict, {**evidence, "unknown": unknown}, causes))
    return findings


def _terms(
    query: GoldQuery, top: Sequence[str], relevant: Sequence[str], texts: Mapping[str, str]
) -> Terms | None:
    if not query.expected_terms:
        return None
    seen = [texts[unit] for unit in top if unit in texts]
    if term_coverage(query.expected_terms, seen) == 1.0:
        return Terms((), ())
    return possible_terms(
        query.expected_terms, seen, [texts[unit] for unit in relevant if unit in texts]
    )


def _evidence(
    relevant: Sequence[str], ranking: Sequence[str], held: frozenset[str] | None
) -> dict[str, Any]:
    ranks = {unit: rank for rank, unit in enumerate(ranking, start=1)}
    best = sorted(relevant, key=lambda unit: ranks.get(unit, len(ranks) + 1))
    evidence: dict[str, Any] = {
        "gold": [
            {
                "document_id": unit,
                "indexed": None if held is None else unit in held,
                "ranks": {"final": ranks.get(unit)},
            }
            for unit in best[:GOLD_SHOWN]
        ],
        "plans": [],
    }
    if len(best) > GOLD_SHOWN:
        evidence["more"] = len(best) - GOLD_SHOWN
    return evidence
