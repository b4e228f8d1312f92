"""Headroom is an upper bound: no setting of later stages exceeds a ceiling of an earlier one."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from failure_worlds import BY_WORDS
from stage_worlds import open_world
from worlds import write_gold

from experiments.headroom import LAST, STAGES, headroom
from experiments.metrics import parse_measure, per_query
from experiments.rankings import asked, run_blocks
from gold import GoldSet, load
from retriever import Retriever

WORDS = ["alpha", "beta", "gamma", "delta", "gefitinib", "erlotinib", "warnings", "dose"]
NAMES = ("gefitinib label", "erlotinib label", "paper", "card")


def random_world(folder: Path, seed: int, overrides: dict[str, Any]) -> tuple[GoldSet, Retriever]:
    random = np.random.default_rng(seed)
    texts = {f"d{i}": " ".join(random.choice(WORDS, size=6)) for i in range(14)}
    queries = {f"q{i}": " ".join(random.choice(WORDS, size=3)) for i in range(8)}
    qrels = {
        q: {f"d{i}": int(random.integers(0, 3)) for i in random.choice(14, 4, replace=False)}
        for q in queries
    }
    path = write_gold(folder / "gold", texts, queries, qrels)
    documents = [
        {"_id": d, "text": text, "name": str(random.choice(NAMES))} for d, text in texts.items()
    ]
    for document in documents[:3]:
        document["domain"] = "general"
    return load(path, "test"), open_world(folder / "world", documents, overrides)


BASE = {
    "route.recall_top_k": 6,
    "inject.rerank_pool": 4,
    "evaluation.metrics": ["hit@2", "ndcg@3"],
    "evaluation.cutoff": 2,
    "plugins.biomed.route.default_dual_text_search": True,
    "plugins.biomed.rerank_plan.entity_filter": False,
}


def figures(gold: GoldSet, retriever: Retriever) -> dict[str, dict[str, float]]:
    """Score a configuration as an evaluation does, by measure and query."""
    queries = [asked(query, gold.path) for query in gold.queries.values()]
    (block,) = run_blocks(retriever, queries, "document", 100)
    ids = retriever.index.chunks.document_ids
    rankings = {
        q: [ids[unit] for unit in units[units >= 0]]
        for q, units in zip(gold.queries, block.ranked.units, strict=True)
    }
    scores = per_query(rankings, gold.qrels, [parse_measure(m) for m in BASE["evaluation.metrics"]])  # type: ignore[attr-defined]
    return {
        name: dict(zip(scores.query_ids, map(float, values), strict=True))
        for name, values in scores.values.items()
    }


def later_settings(random: np.random.Generator, tier_2_alone: bool) -> dict[str, Any]:
    """Draw settings of the stages after recall, or of tier 2 alone."""
    profiles = {
        f"plugins.biomed.rerank_merged.profiles.{profile}.{weight}": float(random.uniform(0, 5))
        for profile in ("default", "drug_entity", "regulatory", "combination")
        for weight in ("w_rank", "w_entity", "w_section", "w_xdrug_penalty")
    }
    if tier_2_alone:
        return profiles
    return profiles | {
        "merge.method": str(random.choice(["rrf", "minmax"])),
        "merge.minmax_over": str(random.choice(["list", "model"])),
        "merge.rrf_k": float(random.uniform(0, 100)),
        "merge.weights": {
            "dense": float(random.uniform(0, 1)),
            "bm25": float(random.uniform(0.1, 1)),
        },
        "inject.min_new": int(random.integers(0, 5)),
        "inject.rerank_pool": int(random.integers(1, 20)),
        "rerank_merged.rerank_policy": random.choice([None, "domain", "none"]),
    }


@pytest.mark.parametrize("seed", [0, 1])
def test_no_later_setting_exceeds_a_ceiling(tmp_path: Path, seed: int) -> None:
    gold, retriever = random_world(tmp_path, seed, BASE)
    found = headroom(gold, retriever).to_json()
    stages = found["stages"]
    ceilings = {q["query_id"]: q["ceilings"] for q in found["queries"]}
    random = np.random.default_rng(seed)
    for tier_2_alone, stage in ((False, "recall"), (True, "inject")):
        for _ in range(15):
            other = retriever.config.with_overrides(later_settings(random, tier_2_alone))
            for name, values in figures(gold, retriever.with_config(other)).items():
                for query_id, value in values.items():
                    least = ceilings[query_id][name][stages.index(stage)]
                    assert value <= least + 1e-6, (query_id, name, other.fingerprint)


def test_ceilings_fall_and_end_at_the_measure(tmp_path: Path) -> None:
    gold, retriever = random_world(tmp_path, 3, BASE)
    found = headroom(gold, retriever)
    scored = figures(gold, retriever)
    for query in found.queries:
        for name, values in query["ceilings"].items():
            assert values == sorted(values, reverse=True)
            assert values[-1] == pytest.approx(scored[name][query["query_id"]], abs=1e-6)
    assert found.to_json()["stages"] == [*STAGES, LAST]
    assert json.dumps(found.to_json(), allow_nan=False)


def test_ceilings_are_those_worked_out_by_hand(tmp_path: Path) -> None:
    # Relevant: a (grade 2) below, b (grade 1) never recalled, z not in the corpus.
    texts = {"a": "alpha beta gamma", "b": "nothing", "c": "alpha alpha"}
    path = write_gold(tmp_path / "g", texts, {"q": "alpha"}, {"q": {"a": 2, "b": 1, "z": 1}})
    documents = [{"_id": d, "text": text} for d, text in texts.items()]
    measures = {"evaluation.metrics": ["hit@1", "ndcg@2"], "evaluation.cutoff": 1}
    retriever = open_world(tmp_path / "w", documents, {**BY_WORDS, **measures})
    found = headroom(load(path, "test"), retriever)
    (query,) = found.queries
    # a stands second: no hit at 1. With everything after recall at its best it would be first.
    assert query["ceilings"]["hit@1"] == [1, 1, 1, 1, 1, 1, 0]
    # Ideal at 2: 2 + 1 / log2(3) = 2.6309. Corpus and route keep a and b: 1. After recall a alone,
    # at the top: 2 / 2.6309 = .760188. As it is, a second: 2 / log2(3) / 2.6309 = .479626.
    assert query["ceilings"]["ndcg@2"] == pytest.approx(
        [1, 1, 0.760188, 0.760188, 0.760188, 0.760188, 0.479626], abs=1e-6
    )


def test_feasible_weights_bring_the_gold_in_when_they_are_set(tmp_path: Path) -> None:
    tried = 0
    for seed in range(4):
        gold, retriever = random_world(
            tmp_path / str(seed), seed, {**BASE, "inject.rerank_pool": 20}
        )
        found = headroom(gold, retriever)
        assert found.tier_2 is not None
        passing = found.tier_2["hit_now"] * len(found.queries)
        reachable = passing + found.tier_2["feasible"] + found.tier_2["undecided"]
        assert found.tier_2["hit_upper_bound"] * len(found.queries) == pytest.approx(
            reachable, abs=1e-4
        )
        for query in found.queries:
            answer = query["tier_2"]
            if answer is None or answer["verdict"] != "feasible":
                continue
            profile = query["workflow"] if query["workflow"] != "general" else "default"
            weights = {
                f"plugins.biomed.rerank_merged.profiles.{profile}.{name}": value
                for name, value in answer["weights"].items()
                if name != "w_ce"
            }
            other = retriever.with_config(retriever.config.with_overrides(weights))
            assert figures(gold, other)["hit@2"][query["query_id"]] == 1.0
            tried += 1
    assert tried
