"""Choose tier 2's weight of the merged rank on several sets, and judge each by the others' choice.

    python benchmarks/rank_weight.py [--sets smoke,spl_ddi,medicationqa]

Prints nDCG@10 of every weight on every set, and for each set the figure of the weight that is best
on the mean of the others. `smoke` is the bundled set, the others BEIR folders under ASSAY_DATA.
"""

import argparse
import os
import tempfile
from pathlib import Path

from experiments.evaluate import evaluate
from gold import load
from retriever import Retriever, RetrieverConfig, build_index
from retriever.ingest.build import fingerprint_of
from retriever.store import store_folder

DATA = Path(os.environ.get("ASSAY_DATA", "../shared/data"))
WEIGHTS = (0.3, 1, 2, 3, 5, 10, 30)
PROFILES = ("default", "regulatory", "drug_entity", "chemical", "combination")
PATH = "plugins.biomed.rerank_merged.profiles.{}.w_rank"


def figures(name: str) -> dict[float, float]:
    """Return nDCG@10 by weight on one set."""
    path = Path("gold/smoke") if name == "smoke" else DATA / name
    gold, config = load(path), RetrieverConfig()
    cache = store_folder() / "cache" / "vectors"
    folder = store_folder() / "indexes" / fingerprint_of(path, config)[:16]
    index = build_index(path, folder, config, cache=cache).index
    retriever, found = Retriever.open(index, config, cache=cache), {}
    for weight in WEIGHTS:
        changed = config.with_overrides({PATH.format(p): weight for p in PROFILES})
        with tempfile.TemporaryDirectory() as scratch:
            done = evaluate(gold, retriever.with_config(changed), Path(scratch) / "run")
        found[weight] = done.record["metrics"]["ndcg@10"]["value"]
    return found


def main() -> None:
    """Measure and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", default="smoke,spl_ddi,medicationqa")
    names = parser.parse_args().sets.split(",")
    by_set = {name: figures(name) for name in names}
    print("| set | " + " | ".join(f"{w:g}" for w in WEIGHTS) + " | chosen on the others |")
    print("| --- | " + " | ".join("---" for _ in WEIGHTS) + " | --- |")
    for name, own in by_set.items():
        others = [found for other, found in by_set.items() if other != name]
        choice = max(WEIGHTS, key=lambda w: sum(found[w] for found in others))
        cells = " | ".join(f"{own[w]:.4f}" for w in WEIGHTS)
        print(f"| {name} | {cells} | {choice:g}: {own[choice]:.4f} |")


if __name__ == "__main__":
    main()
