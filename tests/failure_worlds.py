"""The smallest corpora and gold sets in which a query fails in a given way."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stage_worlds import open_world
from worlds import write_gold

from experiments.diagnosis.causes import Change
from experiments.diagnosis.counterfactuals import Bench
from experiments.diagnosis.findings import Finding, find_all
from experiments.diagnosis.judging import Judge
from experiments.failures import Verdict
from experiments.rankings import asked, run_blocks
from gold import GoldSet, load
from retriever import Retriever

# Words alone, so that what a list brings can be read off the texts.
BY_WORDS = {"route.dense_search": False, "plugins.biomed.supplement.enabled": False}


@dataclass(frozen=True)
class World:
    """A gold set, a retriever over its corpus, and what became of each query."""

    gold: GoldSet
    retriever: Retriever
    findings: Mapping[str, Finding]

    def verdict(self, query_id: str = "q") -> Verdict:
        return self.findings[query_id].verdict

    def named(self, query_id: str = "q") -> tuple[str | None, str | None, str | None]:
        found = self.verdict(query_id)
        return found.failure, found.subclass, found.lost_at

    def causes(self, query_id: str = "q") -> dict[str, Change | None]:
        return {cause.name: cause.change for cause in self.findings[query_id].causes}

    def passes_under(self, cause: str, query_id: str = "q") -> bool:
        change = self.causes(query_id)[cause]
        assert change is not None
        with Bench(self.gold, self.retriever, [query_id]) as bench:
            return bench.replay(change, [query_id])[query_id].passes


def world(
    folder: Path,
    documents: Sequence[Mapping[str, Any]],
    text: str = "alpha",
    relevant: Mapping[str, int] | None = None,
    overrides: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
    k: int = 1,
    own: Mapping[str, Any] | None = None,
    **metadata: Any,
) -> World:
    """Ask one query, `q`, of some documents (as `open_world` takes them).

    `own` and `metadata` are what its line says beside the text.
    """
    texts = {str(document["_id"]): str(document["text"]) for document in documents}
    path = write_gold(
        folder / "gold",
        texts,
        {"q": text},
        {"q": relevant or {"gold": 1}},
        metadata={"q": {**metadata, **(own or {})}},
    )
    (path / "gold.yaml").write_text(json.dumps({"name": "tiny", **(settings or {})}))
    gold = load(path, "test")
    retriever = open_world(
        folder / "world", documents, {"evaluation.cutoff": k, **BY_WORDS, **(overrides or {})}
    )
    judge = Judge(retriever.index, gold, retriever.config.evaluation)
    queries = list(gold.queries.values())
    (block,) = run_blocks(
        retriever, [asked(query, gold.path) for query in queries], gold.level, 100
    )
    judged = judge.judge(queries, block)
    findings = find_all(judge, retriever, queries, block, judged)
    return World(gold, retriever, {finding.query_id: finding for finding in findings})
