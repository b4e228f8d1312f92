"""Run directories for tests of reports: written by the contract, made of nothing."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

CLASSES = (
    ("ok", None),
    ("ranking_gap", "lost_in_rerank"),
    ("ranking_gap", "not_recalled"),
    ("query_route_gap", None),
    ("gold_corpus_gap", None),
    ("gold_over_specified", "impossible_terms"),
    ("term_metric_strict", None),
)
TYPES = ("regulatory", "mechanism", "compound_match", "clinical_trial")
WORKFLOWS = ("general", "drug_entity", "regulatory")
LISTS = ("eagle_text:bm25", "eagle_text_biomed:bm25", "eagle_text_biomed:dense")
STAGES = (*LISTS, "supplement", "merged", "injected", "reranked", "final")
WEIGHTS = {"w_ce": 0.0, "w_rank": 3.0, "w_entity": 0.35, "w_section": 0.1, "w_xdrug_penalty": 3.0}
TERMS = ("ce_norm", "rank_norm", "entity", "section", "xdrug")
ADVICE = {
    "entity_not_in_lexicon": "Add the drug to the lexicon.",
    "cross_drug_penalty": "Check which drugs the document is stamped with.",
}
WORDS = (
    *("dose", "renal", "impairment", "inhibitor", "kinase", "warning", "trial", "survival"),
    *("placebo", "label", "patient", "cohort", "response", "resistance", "mutation", "receptor"),
)

LONG = " ".join(np.random.default_rng(7).choice(WORDS, size=4000).tolist())


def write_run(
    folder: Path,
    queries: int = 12,
    candidates: int = 20,
    *,
    created: str = "2026-01-01T00:00:00+00:00",
    seed: int = 0,
    texts: Mapping[int, str] | None = None,
    characters: int = 400,
    chunks: int | None = None,
    classified: bool = True,
    record: Mapping[str, Any] | None = None,
) -> Path:
    """Write a run of `queries` with `candidates` each; `texts` replaces the text of some queries.

    Query i has the class (i + seed) modulo 7. Its gold is one document: at rank 1 for `ok`, below
    the first six otherwise, and nowhere for the two classes whose gold is not searched.
    """
    folder.mkdir(parents=True)
    random = np.random.default_rng(seed)
    ids = [f"q{i:04d}" for i in range(queries)]
    kinds = [CLASSES[(i + seed) % len(CLASSES)] for i in range(queries)]
    found = [name not in ("query_route_gap", "gold_corpus_gap") for name, _ in kinds]
    final = [
        1 if k == "ok" else 7 + i % 6 if f else 0
        for i, ((k, _), f) in enumerate(zip(kinds, found, strict=True))
    ]
    total = chunks or queries * candidates
    query = np.repeat(np.arange(queries), candidates)
    place = np.tile(np.arange(1, candidates + 1), queries)
    chunk = (query * candidates + place - 1) % total
    gold = place == np.array(final)[query]
    terms = {name: np.round(random.random(len(query)), 6) for name in TERMS}
    terms["xdrug"] = (terms["xdrug"] > 0.9).astype(float)
    signed = {"ce_norm": 0.0, "rank_norm": 3.0, "entity": 0.35, "section": 0.1, "xdrug": -3.0}
    score = np.sum([signed[name] * term for name, term in terms.items()], axis=0)
    _write(
        folder / "candidates.parquet",
        {
            "query_id": pa.array(np.array(ids)[query]).dictionary_encode(),
            "chunk_id": pa.array([f"d{c:06d}#0000" for c in chunk]).dictionary_encode(),
            "document_id": pa.array([f"d{c:06d}" for c in chunk]).dictionary_encode(),
            "collection": pa.array(["eagle_text_biomed"] * len(query)).dictionary_encode(),
            "gold": gold,
            **{f"rank:{stage}": pa.array(place.astype(np.int32)) for stage in STAGES},
            **{f"term:{name}": term for name, term in terms.items()},
            "term:final": score,
            "score:final": score,
            "score:merged": terms["rank_norm"],
        },
    )
    shown = sorted(set(chunk[(place <= 10) | gold].tolist()))
    _write(
        folder / "texts.parquet",
        {
            "chunk_id": [f"d{c:06d}#0000" for c in shown],
            "document_id": [f"d{c:06d}" for c in shown],
            "section": ["warnings" if c % 3 else "" for c in shown],
            "text": [_prose(random, characters) for _ in shown],
            "characters": [characters * 2] * len(shown),
        },
    )
    metric = np.array([1.0 if rank == 1 else 0.0 for rank in final])
    given = texts or {}
    _write(
        folder / "queries.parquet",
        {
            "query_id": ids,
            "text": [given.get(i, f"{_prose(random, 60)} {i}") for i in range(queries)],
            "type": [TYPES[i % len(TYPES)] for i in range(queries)],
            "role": pa.array([None] * queries, pa.utf8()),
            "critical": [i % 5 == 0 for i in range(queries)],
            "scorable": [True] * queries,
            "relevant": [1] * queries,
            "retrieved": [candidates] * queries,
            "first_relevant_rank": [rank or None for rank in final],
            "hit@5": metric,
            "ndcg@10": metric * 0.8 + 0.1,
            "workflow": [WORKFLOWS[i % len(WORKFLOWS)] for i in range(queries)],
            **{f"gold_rank:{stage}": [rank or None for rank in final] for stage in STAGES},
            **(_verdicts(kinds, final) if classified else {}),
            **{f"weight:{name}": [value] * queries for name, value in WEIGHTS.items()},
        },
    )
    first = [i * candidates + rank - 1 for i, rank in enumerate(final)]
    judged = [f"d{c % total:06d}" if final[i] else f"gone{i}" for i, c in enumerate(first)]
    qrels = [f"{ids[i]} 0 {unit} {1 + i % 2}" for i, unit in enumerate(judged)]
    (folder / "qrels.trec").write_text("\n".join(qrels) + "\n", "utf-8")
    run = [
        f"{ids[q]} Q0 d{c:06d} {p} {200 - p} assay"
        for q, c, p in zip(query, chunk, place, strict=True)
    ]
    (folder / "run.trec").write_text("\n".join(run) + "\n", "utf-8")
    (folder / "config.yaml").write_text("inject: {min_new: 2, rerank_pool: 100}\n", "utf-8")
    (folder / "run.json").write_text(
        json.dumps(_record(created, metric, kinds) | (record or {})), "utf-8"
    )
    return folder


def write_imported(
    folder: Path, rankings: Mapping[str, Sequence[str]], relevant: Mapping[str, str]
) -> Path:
    """Write a run as `assay evaluate --run` does: rankings, judgements, figures, no stages."""
    folder.mkdir(parents=True)
    ids = list(rankings)
    ranks = [
        list(rankings[q]).index(relevant[q]) + 1 if relevant[q] in rankings[q] else None
        for q in ids
    ]
    _write(
        folder / "queries.parquet",
        {
            "query_id": ids,
            "text": [f"text of {q}" for q in ids],
            "type": pa.array([None] * len(ids), pa.utf8()),
            "critical": [False] * len(ids),
            "scorable": [True] * len(ids),
            "relevant": [1] * len(ids),
            "first_relevant_rank": pa.array(ranks, pa.int64()),
            "hit@5": [float(bool(r) and r <= 5) for r in ranks],
        },
    )
    (folder / "qrels.trec").write_text("".join(f"{q} 0 {d} 1\n" for q, d in relevant.items()))
    lines = [f"{q} Q0 {d} {n} {100 - n} x\n" for q in ids for n, d in enumerate(rankings[q], 1)]
    (folder / "run.trec").write_text("".join(lines))
    metric = np.array([float(bool(r) and r <= 5) for r in ranks])
    record = _record("2026-01-01T00:00:00+00:00", metric, [("ok", None)] * len(ids))
    record["metrics"] = {"hit@5": record["metrics"]["hit@5"]}
    record |= {"kind": "imported", "system": {"name": "theirs"}, "index": None, "config": None}
    (folder / "run.json").write_text(json.dumps(record | {"classes": None, "latency_ms": None}))
    return folder


def _write(path: Path, columns: Mapping[str, Any]) -> None:
    pq.write_table(pa.table(dict(columns)), path, compression="zstd")


def _prose(random: np.random.Generator, characters: int) -> str:
    """Return text of just that length, which begins somewhere in one long text."""
    begin = int(random.integers(0, len(LONG) - characters))
    return LONG[begin : begin + characters]


def _verdicts(kinds: Sequence[tuple[str, str | None]], final: Sequence[int]) -> dict[str, Any]:
    causes = [
        [
            {
                "cause": "entity_not_in_lexicon",
                "status": "hypothesis",
                "evidence": {"mention": "gefitinib"},
                "advice": ADVICE["entity_not_in_lexicon"],
            },
            {
                "cause": "cross_drug_penalty",
                "status": "verified" if i % 2 else "refuted",
                "evidence": {"rank": 1},
                "advice": ADVICE["cross_drug_penalty"],
            },
        ]
        if name in ("ranking_gap", "query_route_gap")
        else []
        for i, (name, _) in enumerate(kinds)
    ]
    evidence = [
        {"gold": [{"document_id": "d0", "ranks": {}}], "above": [], "missing_terms": ["renal"]}
        if name == "term_metric_strict"
        else {}
        for name, _ in kinds
    ]
    return {
        "class": [name for name, _ in kinds],
        "subclass": pa.array([sub for _, sub in kinds], pa.utf8()),
        "lost_at": pa.array([None if rank == 1 else "rerank_merged" for rank in final], pa.utf8()),
        "causes": [json.dumps(one) for one in causes],
        "evidence": [json.dumps(one) for one in evidence],
    }


def _record(created: str, metric: Any, kinds: Sequence[tuple[str, str | None]]) -> dict[str, Any]:
    value = float(metric.mean()) if len(metric) else None
    figure = {
        "value": value,
        "low": max(0.0, (value or 0) - 0.1),
        "high": min(1.0, (value or 0) + 0.1),
        "queries": len(metric),
        "undefined": 0,
    }
    metrics = {"hit@5": figure, "ndcg@10": figure}
    names = [name for name, _ in kinds]
    return {
        "format": 1,
        "created": created,
        "kind": "retriever",
        "system": {"name": "assay", "namespace": "biomed"},
        "index": {"path": "nowhere", "fingerprint": "f" * 64, "documents": 9, "chunks": 9},
        "config": {"fingerprint": "c" * 64},
        "latency_ms": {
            "queries": 5,
            "stages": {n: {"p50": 1.5, "p95": 3.0, "p99": 4.0} for n in ("total", "encode")},
        },
        "gold": {
            "name": "made",
            "path": "/nowhere",
            "version": "1",
            "split": "test",
            "level": "document",
            "digest": "d" * 64,
            "relevant_from": 1,
        },
        "depth": 100,
        "queries": len(metric),
        "unanswered": 0,
        "unscorable": 0,
        "metrics": metrics,
        "by_type": {t: {"queries": 1, "metrics": metrics} for t in TYPES},
        "by_workflow": {w: {"queries": 1, "metrics": metrics} for w in WORKFLOWS},
        "classes": {name: names.count(name) for name in sorted(set(names))},
        "fallbacks": {"cross_encoder_fallback": 2},
        "audit": {"rerank_t2_domain": len(metric)},
        "versions": {},
        "git_commit": None,
        "seconds": {},
    }
