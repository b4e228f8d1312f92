"""Try to exceed the headroom: random settings of the later stages against the reported ceilings.

    python benchmarks/headroom_bound.py [--set scifact] [--settings 200]

Half of the settings move everything after recall, half tier 2 alone. Prints how many (query,
setting) pairs stand above the ceiling of the stage before: none may.
"""

import argparse
import os
from pathlib import Path
from typing import Any

import numpy as np

from experiments.commands.opening import vector_cache
from experiments.headroom import LAST, STAGES, headroom
from experiments.metrics import parse_measure, per_query
from experiments.rankings import asked, run_blocks
from gold import load
from retriever import Retriever, RetrieverConfig, build_index
from retriever.ingest.build import fingerprint_of
from retriever.store import store_folder

DATA = Path(os.environ.get("ASSAY_DATA", "../shared/data"))
MEASURES = ("hit@5", "ndcg@10")
PROFILES = ("default", "regulatory", "drug_entity", "chemical", "combination")
WEIGHTS = ("w_ce", "w_rank", "w_entity", "w_section", "w_xdrug_penalty")


def draw(random: np.random.Generator, tier_2_alone: bool) -> dict[str, Any]:
    """Return overrides of the stages after recall, or of tier 2 alone."""
    chosen: dict[str, Any] = {
        f"plugins.biomed.rerank_merged.profiles.{profile}.{weight}": float(random.uniform(0, 5))
        for profile in PROFILES
        for weight in WEIGHTS
    }
    if tier_2_alone:
        return chosen
    dense, words = random.dirichlet((1, 1))
    return chosen | {
        "merge.method": str(random.choice(["rrf", "minmax"])),
        "merge.minmax_over": str(random.choice(["list", "model"])),
        "merge.rrf_k": float(random.uniform(0, 100)),
        "merge.weights": {"dense": float(dense), "bm25": float(words)},
        "inject.min_new": int(random.integers(0, 6)),
        "inject.rerank_pool": int(random.integers(5, 200)),
        "rerank_merged.rerank_policy": str(random.choice(["domain", "none"])),
    }


def main() -> None:
    """Print the ceilings and how often they were exceeded."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--set", default="scifact")
    parser.add_argument("--settings", type=int, default=200)
    given = parser.parse_args()
    path = DATA / given.set
    config = RetrieverConfig().with_overrides({"evaluation.metrics": list(MEASURES)})
    gold, cache = load(path), vector_cache()
    folder = store_folder() / "indexes" / fingerprint_of(path, config)[:16]
    index = build_index(path, folder, config, cache=cache).index
    retriever = Retriever.open(index, config, cache=cache)
    found = headroom(gold, retriever)
    print(f"{given.set}: {found.to_json()['measures']}")
    stages, random = [*STAGES, LAST], np.random.default_rng(0)
    ids = [query["query_id"] for query in found.queries]
    ceiling = {
        name: np.array([query["ceilings"][name] for query in found.queries]) for name in MEASURES
    }
    queries = [asked(query, gold.path) for query in gold.queries.values()]
    exceeded = compared = 0
    for number in range(given.settings):
        tier_2_alone = number % 2 == 1
        other = retriever.with_config(config.with_overrides(draw(random, tier_2_alone)))
        rankings: dict[str, list[str]] = {}
        for block in run_blocks(other, queries, gold.level, config.evaluation.depth):
            for query, units in zip(block.trace.queries, block.ranked.units, strict=True):
                names = index.chunks.document_ids
                rankings[query.query_id] = [names[unit] for unit in units[units >= 0]]
        scores = per_query(rankings, gold.qrels, [parse_measure(name) for name in MEASURES])
        at = [scores.query_ids.index(query_id) for query_id in ids]
        stage = stages.index("inject" if tier_2_alone else "recall")
        for name in MEASURES:
            above = scores.values[name][at] > ceiling[name][:, stage] + 1e-6
            exceeded += int(above.sum())
            compared += len(above)
    print(f"{given.settings} settings, {compared} figures of single queries: {exceeded} above")


if __name__ == "__main__":
    main()
