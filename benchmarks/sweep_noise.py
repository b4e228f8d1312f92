"""How often a sweep calls noise a gain: labels shuffled, many seeds.

The judgements of the bundled gold set are dealt to other queries at random, so that no
configuration can be better than another. A sweep is then run for each seed; at a level of 0.05,
two-sided, about one in forty should say "better".

    python benchmarks/sweep_noise.py [--seeds 100] [--trials 30] [--json]
"""

import argparse
import json
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from experiments.metrics import parse_measure, warm_up
from experiments.space import space_from
from experiments.sweep.procedure import SweepSettings, run_sweep
from experiments.sweep.storage import journal_url
from gold import GoldSet, load
from retriever import Retriever, build_index
from retriever.config import load_config
from retriever.ingest.build import fingerprint_of
from retriever.store import store_folder

SPACE = """name: noise
parameters:
  merge.method: {choices: [minmax, rrf]}
  merge.rrf_k: {low: 1.0, high: 200.0, log: true, when: {merge.method: rrf}}
  merge.weights.dense: {low: 0.0, high: 1.0, complement: merge.weights.bm25}
  inject.min_new: {low: 0, high: 10}
  plugins.biomed.rerank_merged.profiles.{default,drug_entity}.w_rank: {low: 0.0, high: 10.0}
"""
MOST = 0.1


def main() -> None:
    """Sweep over shuffled labels and count the verdicts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    warm_up()
    gold, config = load("gold/smoke"), load_config()
    cache = store_folder() / "cache" / "vectors"
    path = store_folder() / "indexes" / fingerprint_of(gold.path, config)[:16]
    index = build_index(gold.path, path, config, cache=cache).index
    retriever = Retriever.open(index, config, cache=cache)
    verdicts: dict[str, int] = {}
    begin = time.perf_counter()
    for seed in range(options.seeds):
        with tempfile.TemporaryDirectory() as scratch:
            settings = SweepSettings(
                space=space_from(SPACE, "noise"),
                measures=(parse_measure("ndcg@10"),),
                trials=options.trials,
                out=Path(scratch),
                storage=journal_url(Path(scratch) / "study.journal"),
                study=f"noise-{seed}",
                sampler="random",
                seed=seed,
                folds=3,
            )
            found = run_sweep(shuffled(gold, seed), retriever, settings)
        verdict = str(found.record["verdict"])
        verdicts[verdict] = verdicts.get(verdict, 0) + 1
        print(f"seed {seed}: {verdict}, {time.perf_counter() - begin:.0f} s", file=sys.stderr)
    print(json.dumps(verdicts, indent=1) if options.json else verdicts)
    if verdicts.get("better", 0) > MOST * options.seeds:
        sys.exit("noise is called a gain too often")


def shuffled(gold: GoldSet, seed: int) -> GoldSet:
    """Return the gold set with its judgements dealt to other queries."""
    names = list(gold.qrels)
    dealt = np.random.default_rng(seed).permutation(len(names))
    qrels = {name: gold.qrels[names[i]] for name, i in zip(names, dealt, strict=True)}
    return replace(gold, qrels=qrels, digest=f"{gold.digest[:32]}{seed:032d}")


if __name__ == "__main__":
    main()
