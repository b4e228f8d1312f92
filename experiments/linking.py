"""Evaluate entity linking on a linking gold set, and write the run directory.

    accuracy           the concept, or NIL, is right: over all mentions
    accuracy_linkable  the same over mentions that mean a concept
    accuracy_nil       the same over mentions that mean none
    recall@k, mrr      the concept is among the first k candidates, its reciprocal rank: over
                       mentions that mean a concept, whatever was decided about NIL

Every figure but mrr is 0 or 1 for a mention and has Wilson's interval.
"""

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from experiments.evaluate import Evaluation
from experiments.intervals import Interval, bootstrap_mean, wilson
from experiments.metrics import Floats, Measure, Scores, Summary, by_metric, per_query
from experiments.run import FORMAT, git_commit, new_run_folder, write_json, write_table
from gold import LinkingSet, write_qrels, write_run
from retriever import InputError, RetrieverConfig

if TYPE_CHECKING:
    from retriever.biomed.linking import Linked, Linker

__all__ = ["CUTOFFS", "NIL", "evaluate_linking", "open_linker", "score_links"]

# What stands for "no such concept" in rankings; no record can have it as id.
NIL: Final = "name:NIL"
CUTOFFS: Final = (1, 5, 10, 50)


def open_linker(config: RetrieverConfig) -> "Linker":
    """Return the linker of a configuration: its lexicon, its cross-encoder where one is named.

    Raises InputError where the model set has no cross-encoder for the policy that is named.
    """
    from retriever.biomed.config import BiomedConfig
    from retriever.biomed.lexicon import load_lexicon
    from retriever.biomed.linking import Linker

    settings = config.plugins["biomed"]
    if not isinstance(settings, BiomedConfig):
        raise TypeError("plugins.biomed is no BiomedConfig")
    part = settings.linking
    cross = None
    if part.cross_encoder is not None:
        from retriever.retriever import open_rerankers

        rerankers = open_rerankers(config.models)
        if part.cross_encoder not in rerankers:
            raise InputError(
                f"the model set {config.models} has no cross-encoder for {part.cross_encoder}",
                fix=f"it has: {', '.join(sorted(rerankers)) or 'none'}",
            )
        cross = rerankers[part.cross_encoder]
    return Linker(
        load_lexicon(settings.lexicon.path, settings.lexicon.overlays),
        candidates=part.candidates,
        nil_below=part.nil_below,
        cross_encoder=cross,
    )


def evaluate_linking(
    gold: LinkingSet, linker: "Linker", config: RetrieverConfig, out: Path
) -> Evaluation:
    """Link every mention, score, and write the run directory `out`.

    Only a mention's text and context reach the linker. `run.trec` has the candidates of each
    mention, NIL first where that was the decision. A gold concept that the lexicon lacks cannot be
    found; such mentions count as wrong and are counted in `fallbacks`.
    """
    from retriever.biomed.linking import Mention

    begin = time.perf_counter()
    linked = {i: linker.link(Mention(m.text, m.context)) for i, m in gold.mentions.items()}
    seconds = time.perf_counter() - begin
    scores = score_links({i: m.entity_id for i, m in gold.mentions.items()}, linked)
    types = {i: m.type or "untyped" for i, m in gold.mentions.items()}
    summaries = _summaries(scores, types)
    depth = max(len(answer.candidates) for answer in linked.values()) or 1
    lost = sum(m.entity_id not in linker.lexicon for m in gold.mentions.values() if m.entity_id)
    record = {
        "format": FORMAT,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "kind": "linking",
        "system": {
            "name": "assay",
            "lexicon": linker.lexicon.fingerprint,
            "entities": len(linker.lexicon),
        },
        "index": None,
        "config": {"fingerprint": config.fingerprint},
        "latency_ms": None,
        "gold": {
            "name": gold.name,
            "path": str(gold.path.resolve()),
            "version": gold.version,
            "split": gold.split,
            "level": "mention",
            "digest": gold.digest,
            "relevant_from": 1,
        },
        "depth": depth,
        "queries": len(scores.query_ids),
        "unanswered": len(scores.unanswered),
        "unscorable": 0,
        "unjudged": 0,
        "metrics": by_metric(s for s in summaries if s.group is None),
        "by_type": _by_type(summaries),
        "by_workflow": {},
        "classes": None,
        "fallbacks": {"gold_entity_not_in_lexicon": lost} if lost else {},
        "audit": {},
        "versions": {name: metadata.version(name) for name in ("retrieval-assay", "bm25s", "ranx")},
        "git_commit": git_commit(),
        "seconds": {"link": round(seconds, 6)},
    }
    with new_run_folder(out) as folder:
        (folder / "config.yaml").write_text(config.to_yaml(), "utf-8")
        qrels = {i: {m.entity_id or NIL: 1} for i, m in gold.mentions.items()}
        rankings = {i: _ranking(answer) for i, answer in linked.items()}
        write_run(folder / "run.trec", rankings, 1 + depth, "assay")
        write_qrels(folder / "qrels.trec", qrels)
        write_table(folder / "queries.parquet", _table(gold, linked, scores))
        write_json(folder / "run.json", record)
    return Evaluation(out, record, scores, summaries)


def score_links(gold: Mapping[str, str | None], linked: Mapping[str, "Linked"]) -> Scores:
    """Score each mention: gold concepts (None: NIL) against what it was linked to.

    The columns are those named at the head of this module; NaN where a figure is not defined for a
    mention. `unanswered` are the mentions that mean a concept and have no candidate.
    """
    decided = {i: [linked[i].entity_id or NIL] for i in gold}
    right = per_query(decided, {i: {e or NIL: 1} for i, e in gold.items()}, [Measure("hit", 1)])
    candidates = {i: [c.entity_id for c in linked[i].candidates] for i, e in gold.items() if e}
    measures = [*(Measure("recall", k) for k in CUTOFFS), Measure("mrr")]
    found = per_query(candidates, {i: {e: 1} for i, e in gold.items() if e}, measures)
    linkable = np.array([gold[i] is not None for i in right.query_ids], dtype=np.bool_)
    accuracy = right.values["hit@1"]
    values: dict[str, Floats] = {
        "accuracy": accuracy,
        "accuracy_linkable": np.where(linkable, accuracy, np.nan),
        "accuracy_nil": np.where(linkable, np.nan, accuracy),
    }
    for name, column in found.values.items():
        values[name] = np.full(len(accuracy), np.nan)
        values[name][linkable] = column
    return Scores(right.query_ids, values, found.unanswered, (), ())


def _summaries(scores: Scores, types: Mapping[str, str]) -> list[Summary]:
    """Means over all mentions, then by type."""
    rows: dict[str | None, list[int]] = {None: list(range(len(scores.query_ids)))}
    for kind in sorted(set(types.values())):
        rows[kind] = [i for i, q in enumerate(scores.query_ids) if types[q] == kind]
    return [
        _summary(group, name, column[of_group])
        for group, of_group in rows.items()
        for name, column in scores.values.items()
    ]


def _summary(group: str | None, name: str, column: Floats) -> Summary:
    defined = column[~np.isnan(column)]
    interval: Interval
    if name == "mrr":
        interval = bootstrap_mean(defined)
    else:
        interval = wilson(int(defined.sum()), len(defined))
    undefined = len(column) - len(defined)
    return Summary(group, name, interval.value, interval.low, interval.high, interval.n, undefined)


def _by_type(summaries: Sequence[Summary]) -> dict[str, dict[str, Any]]:
    groups = dict.fromkeys(s.group for s in summaries if s.group is not None)
    found = {}
    for group in groups:
        own = [s for s in summaries if s.group == group]
        found[group] = {"queries": own[0].n + own[0].undefined, "metrics": by_metric(own)}
    return found


def _ranking(answer: "Linked") -> list[str]:
    ids = [candidate.entity_id for candidate in answer.candidates]
    return ids if answer.entity_id is not None else [NIL, *ids]


def _table(
    gold: LinkingSet, linked: Mapping[str, "Linked"], scores: Scores
) -> dict[str, list[Any]]:
    at = {mention_id: row for row, mention_id in enumerate(scores.query_ids)}
    mentions = list(gold.mentions.values())
    answers = [linked[mention.mention_id] for mention in mentions]
    first = [answer.candidates[0] if answer.candidates else None for answer in answers]

    def rank(entity_id: str | None, answer: "Linked") -> int | None:
        ids = [candidate.entity_id for candidate in answer.candidates]
        return ids.index(entity_id) + 1 if entity_id in ids else None

    columns: dict[str, list[Any]] = {
        "query_id": [mention.mention_id for mention in mentions],
        "text": [mention.text for mention in mentions],
        "context": [mention.context for mention in mentions],
        "type": [mention.type for mention in mentions],
        "role": [""] * len(mentions),
        "critical": [False] * len(mentions),
        "scorable": [True] * len(mentions),
        "relevant": [1] * len(mentions),
        "entity": [mention.entity_id for mention in mentions],
        "linked": [answer.entity_id for answer in answers],
        "way": [candidate.way if candidate else None for candidate in first],
        "similarity": [candidate.similarity if candidate else None for candidate in first],
        "retrieved": [len(answer.candidates) for answer in answers],
        "first_relevant_rank": [
            rank(mention.entity_id, answer)
            for mention, answer in zip(mentions, answers, strict=True)
        ],
    }
    for name, values in scores.values.items():
        column = values[[at[mention.mention_id] for mention in mentions]]
        columns[name] = [None if np.isnan(value) else float(value) for value in column]
    return columns
