"""Evaluate a retriever, or anyone's run, on a gold set, and write the run directory."""

import os
import platform
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.diagnosis.findings import (
    Finding,
    count_classes,
    find_all,
    finding_columns,
    weight_columns,
)
from experiments.diagnosis.imported import judge_ranking, read_gold_corpus
from experiments.diagnosis.judging import Judge, cutoff_of
from experiments.identity import identity_of, identity_of_file
from experiments.metrics import (
    LINKING,
    Measure,
    Scores,
    Summary,
    by_metric,
    coverage_by_rank,
    parse_measure,
    per_query,
    summarise,
)
from experiments.rankings import asked, run_blocks
from experiments.run import FORMAT, git_commit, new_run_folder, write_json, write_table
from experiments.stage_tables import StageTables
from gold import GoldSet, Run, write_qrels, write_run
from retriever import Retriever
from retriever.config import EvaluationConfig, RetrieverConfig
from retriever.files import InputError
from retriever.plugins import Subscribers
from retriever.types import FALLBACKS

__all__ = ["Evaluation", "evaluate", "evaluate_run", "measures_of"]

Progress = Callable[[int, int], object]

# What a drill-down of one query shows without being asked for more.
TEXTS_SHOWN = 10


@dataclass(frozen=True)
class Evaluation:
    """One scored run: its record (what run.json holds), its scores, and where it was written."""

    path: Path
    record: Mapping[str, Any]
    scores: Scores
    summaries: Sequence[Summary]


@dataclass
class _Answers:
    """What a system returned, by query: units best first, and the coverage of expected terms."""

    rankings: dict[str, list[str]]
    coverage: dict[str, Sequence[float] | None] = field(default_factory=dict)
    columns: dict[str, Sequence[Any] | npt.NDArray[Any]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    fallbacks: Counter[str] = field(default_factory=Counter)
    audit: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)


def measures_of(settings: EvaluationConfig) -> list[Measure]:
    """Return the measures of the configuration. Raises InputError naming an unknown one."""
    measures = [parse_measure(text) for text in settings.metrics]
    for measure in measures:
        if measure.name in LINKING:
            raise InputError(
                f"{measure} is a measure of entity linking alone", fix="leave it out of the metrics"
            )
        if measure.cutoff is not None and measure.cutoff > settings.depth:
            raise InputError(
                f"{measure} looks deeper than evaluation.depth {settings.depth}",
                fix=f"--set evaluation.depth={measure.cutoff}",
            )
    return list(dict.fromkeys(measures))


def evaluate(
    gold: GoldSet,
    retriever: Retriever,
    out: Path,
    *,
    latency: int = 0,
    progress: Progress = lambda total, done: None,
) -> Evaluation:
    """Run every judged query, score the rankings, write the run directory `out`.

    Only the text of a query reaches the retriever. `latency` takes that many queries once more,
    one by one with memo and caches off, and notes their times by stage.
    """
    settings = retriever.config.evaluation
    measures = measures_of(settings)
    _refuse_foreign_gold(gold, retriever)
    manifest = retriever.index.manifest
    about = {
        "kind": "retriever",
        "system": {"name": "assay", "namespace": retriever.config.namespace},
        "index": {
            "path": str(retriever.index.path.resolve()),
            "fingerprint": manifest.fingerprint,
            "documents": manifest.documents,
            "sample": None if manifest.sample is None else manifest.sample.model_dump(),
            "skipped": dict(manifest.skipped),
            "altered": dict(manifest.altered),
            "chunks": manifest.chunks,
            "collections": {n: r.encoder for n, r in sorted(manifest.collections.items())},
        },
        "config": {"fingerprint": retriever.config.fingerprint},
        # What the plugins know (a lexicon with its overlays), whatever the files are called.
        "knowledge": _knowledge(retriever.config),
        "identity": identity_of(gold, retriever),
        "latency_ms": _latency(retriever, gold, latency) if latency else None,
    }

    with new_run_folder(out) as folder:
        (folder / "config.yaml").write_text(retriever.config.to_yaml(), "utf-8")
        answers = _search(gold, retriever, folder, measures, progress)
        record, scores, summaries = _score(gold, answers, settings, measures, about)
        _write(folder, gold, answers, scores, record)
    return Evaluation(out, record, scores, summaries)


def _search(
    gold: GoldSet,
    retriever: Retriever,
    folder: Path,
    measures: Sequence[Measure],
    progress: Progress,
) -> _Answers:
    """Take every judged query through the retriever; the stage tables go to `folder`."""
    settings, chunks = retriever.config.evaluation, retriever.index.chunks
    judge = Judge(retriever.index, gold, settings, _deepest_coverage(measures))
    queries = list(gold.queries.values())
    ask = [asked(query, gold.path) for query in queries]
    unit_ids = chunks.document_ids if gold.level == "document" else chunks.chunk_ids
    answers = _Answers({})
    weights: list[dict[str, npt.NDArray[np.float64]]] = []
    with StageTables(folder, retriever.index, gold, judge.relevant_from, TEXTS_SHOWN) as tables:
        for block in run_blocks(retriever, ask, gold.level, settings.depth):
            of_block = queries[block.start : block.start + len(block.trace.queries)]
            begin = time.perf_counter()
            judged = judge.judge(of_block, block)
            answers.findings += find_all(judge, retriever, of_block, block, judged)
            answers.seconds["classify"] = (
                answers.seconds.get("classify", 0.0) + time.perf_counter() - begin
            )
            tables.add(of_block, block, judged.ranks)
            answers.coverage |= judged.coverage
            weights.append(weight_columns(block.trace.final.weights))
            for query, units in zip(of_block, block.ranked.units, strict=True):
                answers.rankings[query.query_id] = [unit_ids[unit] for unit in units[units >= 0]]
            for name, ms in block.trace.timings_ms.items():
                answers.seconds[name] = answers.seconds.get(name, 0.0) + ms / 1000
            for event in block.trace.audit:
                answers.audit[event.event] += int(event.where.sum())
                if event.event in FALLBACKS:
                    answers.fallbacks[event.event] += int(event.where.sum())
            progress(len(queries), len(of_block))
    answers.columns = tables.query_columns() | {
        name: np.concatenate([of_block[name] for of_block in weights])
        for name in (weights[0] if weights else ())
    }
    return answers


def _deepest_coverage(measures: Sequence[Measure]) -> int:
    return max((m.cutoff or 0 for m in measures if m.name == "coverage"), default=0)


def evaluate_run(
    gold: GoldSet, run: Run, settings: EvaluationConfig, out: Path, source: str
) -> Evaluation:
    """Score a run that any system made; no index, no model. Writes the run directory `out`.

    `coverage` reads the whole text of the ranked documents, where the gold set has a corpus.
    """
    measures = measures_of(settings)
    rankings = {query_id: run.rankings.get(query_id, []) for query_id in gold.queries}
    answers = _Answers({q: ranking[: settings.depth] for q, ranking in rankings.items()})
    deepest = _deepest_coverage(measures)
    ranked: set[str] = set()
    relevant: set[str] = set()
    for query in gold.queries.values():
        if query.expected_terms:
            k = max(deepest, cutoff_of(query, settings))
            ranked.update(answers.rankings[query.query_id][:k])
            relevant.update(gold.qrels[query.query_id])
    corpus = read_gold_corpus(gold, ranked | relevant)
    texts = None if corpus.ids is None else corpus.texts
    missing = 0 if texts is None else len(ranked - texts.keys())
    for query in gold.queries.values():
        if query.expected_terms and texts is not None:
            first = answers.rankings[query.query_id][:deepest]
            answers.coverage[query.query_id] = coverage_by_rank(
                query.expected_terms, [[texts.get(document_id, "")] for document_id in first]
            )
    if missing:
        answers.fallbacks["run_document_without_text"] = missing
    cut = sum(len(ranking) > settings.depth for ranking in rankings.values())
    if cut:
        answers.fallbacks["run_cut_to_depth"] = cut
    if run.repaired:
        answers.fallbacks["run_repaired"] = run.repaired
    about = {
        "kind": "imported",
        "system": {
            "name": run.name,
            "format": run.format,
            "repaired": run.repaired,
            "source": source,
            "ignored_queries": sorted(set(run.rankings) - set(gold.queries)),
        },
        "index": None,
        "config": None,
        "identity": identity_of_file(gold, run, settings),
        "latency_ms": None,
    }
    answers.findings = judge_ranking(gold, answers.rankings, corpus, settings)
    record, scores, summaries = _score(gold, answers, settings, measures, about)
    with new_run_folder(out) as folder:
        _write(folder, gold, answers, scores, record)
    return Evaluation(out, record, scores, summaries)


def _score(
    gold: GoldSet,
    answers: _Answers,
    settings: EvaluationConfig,
    measures: Sequence[Measure],
    about: Mapping[str, Any],
) -> tuple[dict[str, Any], Scores, list[Summary]]:
    begin = time.perf_counter()
    relevant_from = settings.relevant_from or gold.relevant_from
    scores = per_query(
        answers.rankings,
        gold.qrels,
        measures,
        relevant_from=relevant_from,
        coverage=answers.coverage,
    )
    interval = {"resamples": settings.resamples, "seed": settings.seed}
    types = {q: gold.queries[q].type or "untyped" for q in gold.queries}
    summaries = summarise(scores, types, **interval)
    workflows = answers.columns.get("workflow")
    by_workflow: list[Summary] = []
    if workflows is not None:
        known = dict(zip(gold.queries, map(str, workflows), strict=True))
        by_workflow = [s for s in summarise(scores, known, **interval) if s.group is not None]
    seconds = {**answers.seconds, "score": time.perf_counter() - begin}
    record = {
        "format": FORMAT,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        **about,
        "gold": {
            "name": gold.name,
            "path": str(gold.path.resolve()),
            "version": gold.version,
            "split": gold.split,
            "level": gold.level,
            "digest": gold.digest,
            "relevant_from": relevant_from,
        },
        "depth": settings.depth,
        "queries": len(scores.query_ids),
        "unanswered": len(scores.unanswered),
        "unscorable": len(scores.unscorable),
        "unjudged": gold.unjudged,
        "metrics": by_metric(s for s in summaries if s.group is None),
        "by_type": _by_group(s for s in summaries if s.group is not None),
        "by_workflow": _by_group(by_workflow),
        "classes": count_classes(answers.findings),
        "fallbacks": dict(sorted(answers.fallbacks.items())),
        "audit": dict(sorted(answers.audit.items())),
        "versions": _versions(),
        "git_commit": git_commit(),
        "seconds": {name: round(value, 6) for name, value in seconds.items()},
    }
    return record, scores, summaries


def _write(
    folder: Path, gold: GoldSet, answers: _Answers, scores: Scores, record: Mapping[str, Any]
) -> None:
    write_run(folder / "run.trec", answers.rankings, record["depth"], "assay")
    write_qrels(folder / "qrels.trec", gold.qrels)
    relevant_from = record["gold"]["relevant_from"]
    write_table(folder / "queries.parquet", _query_table(gold, answers, scores, relevant_from))
    write_json(folder / "run.json", record)


def _query_table(
    gold: GoldSet, answers: _Answers, scores: Scores, relevant_from: int
) -> dict[str, Any]:
    queries = list(gold.queries.values())
    at = {query_id: row for row, query_id in enumerate(scores.query_ids)}
    rows = np.array([at.get(query.query_id, -1) for query in queries])

    def first_relevant(query_id: str) -> int | None:
        grades = gold.qrels[query_id]
        ranks = (
            rank
            for rank, unit in enumerate(answers.rankings[query_id], start=1)
            if grades.get(unit, 0) >= relevant_from
        )
        return next(ranks, None)

    columns: dict[str, Any] = {
        "query_id": [query.query_id for query in queries],
        "text": [query.text for query in queries],
        "type": [query.type for query in queries],
        "role": [query.role for query in queries],
        "critical": [query.critical for query in queries],
        "scorable": [query.query_id in at for query in queries],
        "relevant": [
            sum(grade >= relevant_from for grade in gold.qrels[query.query_id].values())
            for query in queries
        ],
        "retrieved": [len(answers.rankings[query.query_id]) for query in queries],
        "first_relevant_rank": [first_relevant(query.query_id) for query in queries],
    }
    for name, values in scores.values.items():
        column = np.where(rows >= 0, values[rows], np.nan) if len(values) else np.nan * rows
        columns[name] = [None if np.isnan(value) else float(value) for value in column]
    return {**columns, **finding_columns(answers.findings), **answers.columns}


def _by_group(summaries: Iterable[Summary]) -> dict[str, dict[str, Any]]:
    groups: dict[str, list[Summary]] = {}
    for summary in summaries:
        groups.setdefault(str(summary.group), []).append(summary)
    return {
        group: {
            "queries": max(s.n + s.undefined for s in of_group),
            "metrics": by_metric(of_group),
        }
        for group, of_group in groups.items()
    }


def _knowledge(config: RetrieverConfig) -> dict[str, str]:
    subscribers = Subscribers.of(config.namespace, dict(config.plugins))
    return {p.name: p.knowledge(subscribers.settings[p.name]) for p in subscribers.plugins}


def _refuse_foreign_gold(gold: GoldSet, retriever: Retriever) -> None:
    """Refuse an index of another corpus: it would score 0 and look like a bad retriever."""
    known = set(retriever.index.chunks.document_ids)
    if gold.level == "chunk":
        known = set(retriever.index.chunks.chunk_ids)
    judged = {unit for grades in gold.qrels.values() for unit in grades}
    if judged and not judged & known:
        raise InputError(
            f"the index holds none of the {len(judged)} judged {gold.level}s of {gold.name}",
            path=retriever.index.path,
            fix="evaluate with an index of this gold set's corpus, or without --index",
        )


def _latency(retriever: Retriever, gold: GoldSet, count: int) -> dict[str, Any]:
    """Milliseconds by stage of queries taken one by one, models warm, memo and caches off."""
    bare = retriever.without_memory()
    texts = [query.text for query in gold.queries.values()]
    for text in texts[:3]:
        bare.trace([text])
    spent: dict[str, list[float]] = {}
    for i in range(count):
        begin = time.perf_counter()
        trace = bare.trace([texts[i % len(texts)]])
        total = 1000 * (time.perf_counter() - begin)
        for name, ms in {**trace.timings_ms, "total": total}.items():
            spent.setdefault(name, []).append(ms)
    percentiles = {"p50": 50, "p95": 95, "p99": 99}
    stages = {
        name: {p: float(np.percentile(values, at)) for p, at in percentiles.items()}
        for name, values in spent.items()
    }
    return {"queries": count, "stages": stages}


def _versions() -> dict[str, str]:
    names = ("retrieval-assay", "ranx", "numpy", "faiss-cpu", "bm25s", "torch", "transformers")
    versions = {"python": platform.python_version(), "cpus": str(os.cpu_count())}
    for name in names:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "absent"
    return versions
