"""Findings: the verdict of each query with its evidence and its hypotheses, as a run keeps them."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from experiments.diagnosis.causes import Case, Cause, config_causes
from experiments.diagnosis.data_causes import data_causes
from experiments.diagnosis.gold_causes import gold_causes
from experiments.diagnosis.judging import Judge, Judged
from experiments.diagnosis.waterfall import contributions
from experiments.failures import CLASSES, Verdict
from experiments.rankings import Block
from gold import GoldQuery
from retriever.retriever import Retriever
from retriever.types import Floats

__all__ = [
    "Finding",
    "count_classes",
    "find_all",
    "find_causes",
    "finding_columns",
    "weight_columns",
]

# Relevant units that the evidence lists one by one, and chunks that stand above them.
GOLD_SHOWN, ABOVE_SHOWN = 20, 5
DECIMALS = 9


@dataclass(frozen=True)
class Finding:
    """One query: its verdict, the waterfall of its relevant units, and what may be the cause.

    `evidence` keys: `gold` [{document_id, chunk_id, ranks, rank, terms}], the best first; `more`
    relevant units that are not listed; `above` [{chunk_id, document_id, rank, terms}], the first
    units of the ranking when the query fails; `plans` [{list, depth, weight, hits}];
    `terms` {missing, impossible}, only where expected terms are not covered; `unknown`, what an
    imported run cannot tell.
    """

    query_id: str
    verdict: Verdict
    evidence: Mapping[str, Any] = field(default_factory=dict)
    causes: Sequence[Cause] = ()


def find_all(
    judge: Judge,
    retriever: Retriever,
    queries: Sequence[GoldQuery],
    block: Block,
    judged: Judged,
) -> Iterator[Finding]:
    """Yield the finding of each query of a block."""
    parts = contributions(block.trace.final)
    for row, (query, verdict) in enumerate(zip(queries, judged.verdicts, strict=True)):
        case = Case(query, row, verdict, judge, judged, block, retriever, parts)
        causes = () if verdict.failure in (None, "ok") else tuple(find_causes(case))
        yield Finding(query.query_id, verdict, _evidence(case), causes)


def find_causes(case: Case) -> Iterator[Cause]:
    """Yield every hypothesis: gold set and data first, then the configuration."""
    relevant, held = case.judge.relevant(case.query.query_id), case.judge.units.row
    absent = [name for name in relevant if name not in held]
    yield from gold_causes(case.verdict, absent, case.judged.terms.get(case.row))
    yield from data_causes(case)
    yield from config_causes(case)


def count_classes(findings: Sequence[Finding]) -> dict[str, int]:
    """Return how many queries are of each class, in the order of the table, zeros included."""
    counts = Counter(finding.verdict.failure for finding in findings)
    return {name: counts[name] for name in CLASSES}


def finding_columns(findings: Sequence[Finding]) -> dict[str, list[Any]]:
    """Return the columns of queries.parquet that hold findings."""
    return {
        "class": [finding.verdict.failure for finding in findings],
        "subclass": [finding.verdict.subclass for finding in findings],
        "lost_at": [finding.verdict.lost_at for finding in findings],
        "causes": [_json([cause.to_json() for cause in f.causes]) for f in findings],
        "evidence": [_json(finding.evidence) for finding in findings],
    }


def weight_columns(weights: Mapping[str, Floats]) -> dict[str, Floats]:
    """Return the weights of tier 2 by column, named and signed as the configuration does."""
    named = {f"weight:w_{name}": values for name, values in weights.items()}
    penalty = named.pop("weight:w_xdrug", None)
    return named if penalty is None else {**named, "weight:w_xdrug_penalty": -penalty}


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _evidence(case: Case) -> dict[str, Any]:
    evidence: dict[str, Any] = {"gold": _gold(case), "plans": _plans(case)}
    if len(case.pairs) > GOLD_SHOWN:
        evidence["more"] = len(case.pairs) - GOLD_SHOWN
    if case.verdict.failure not in (None, "ok"):
        evidence["above"] = [
            _chunk(case, int(slot), rank)
            for rank, slot in enumerate(case.top_slots[:ABOVE_SHOWN], start=1)
        ]
    terms = case.judged.terms.get(case.row)
    if terms is not None:
        evidence["terms"] = {"missing": list(terms.missing), "impossible": list(terms.impossible)}
    return evidence


def _gold(case: Case) -> list[dict[str, Any]]:
    """Return the relevant units, the best ranked first, with their ranks after each stage."""
    found, own, units = case.judged.waterfall, case.pairs, case.judge.units
    final = found.ranks["final"][own]
    order = np.lexsort((found.ranks["reranked"][own], np.where(final > 0, final, np.inf)))
    relevant = case.judge.relevant(case.query.query_id)
    listed = []
    for at in order[:GOLD_SHOWN]:
        pair, unit = int(own[at]), int(found.pairs.unit[own[at]])
        ranks = {name: int(rank[pair]) or None for name, rank in found.ranks.items()}
        known = unit >= 0
        entry: dict[str, Any] = {
            "document_id": units.document_of(unit) if known else relevant[at],
            "indexed": known,
            "ranks": ranks,
        }
        slot = int(found.slot[pair])
        if slot >= 0:
            entry |= _chunk(case, slot, ranks["final"])
        elif known and units.level == "chunk":
            entry["chunk_id"] = relevant[at]
        listed.append(entry)
    return listed


def _chunk(case: Case, slot: int, rank: int | None) -> dict[str, Any]:
    """Return a candidate with what each term added to its score."""
    chunks, row = case.judge.index.chunks, case.row
    chunk = int(case.block.trace.slots.chunk[row, slot])
    terms = {name: float(part[row, slot]) for name, part in case.parts.items()}
    score = float(case.block.trace.final.score[row, slot])
    return {
        "chunk_id": chunks.chunk_ids[chunk],
        "document_id": chunks.document_ids[chunks.document_of[chunk]],
        "rank": rank,
        "score": round(score, DECIMALS) if np.isfinite(score) else None,
        "terms": {n: round(v, DECIMALS) for n, v in terms.items() if np.isfinite(v)},
    }


def _plans(case: Case) -> list[dict[str, Any]]:
    """Return the lists that the query searched, and the supplement where there was one."""
    trace, row = case.block.trace, case.row
    plans: list[dict[str, Any]] = []
    for i, item in enumerate(trace.routing.lists):
        if not trace.routing.active[i, row]:
            continue
        place = trace.slots.lists.index(item)
        plans.append(
            {
                "list": str(item),
                "depth": int(trace.routing.depth[i]),
                "hits": int((trace.lists[place].rank[row] > 0).sum()),
                "weight": round(float(trace.merged.weight[place, row]), DECIMALS),
            }
        )
    if trace.supplement.searched[:, row].any():
        hits = int((trace.supplement.rows[row] >= 0).sum())
        plans.append({"list": "supplement", "depth": None, "hits": hits, "weight": None})
    return plans
