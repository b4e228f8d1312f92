"""One figure with its 95 % interval on public sets: the reference arms and the defaults.

    python benchmarks/public_sets.py [--sets scifact,medlars] [--arms bm25,defaults]
                                     [--metric ndcg@10]

Prints a Markdown table. Each cell is what `assay evaluate SET [-c docs/reference.yaml] [--set ...]`
prints; the arms and their settings stand in ARMS. Sets are BEIR folders under ASSAY_DATA, and
`smoke` is the bundled one.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

from experiments.evaluate import evaluate
from gold import load
from retriever import Retriever, build_index, load_config
from retriever.ingest.build import fingerprint_of
from retriever.store import store_folder

DATA = Path(os.environ.get("ASSAY_DATA", "../shared/data"))
REFERENCE = "docs/reference.yaml"
ARMS: dict[str, tuple[str, tuple[str, ...]]] = {
    "bm25": (REFERENCE, ("route.dense_search=false",)),
    "dense": (REFERENCE, ("route.bm25_search=false",)),
    "rrf": (REFERENCE, ("merge.method=rrf",)),
    "minmax": (REFERENCE, ()),
    "hybrid": ("default", ("namespace=general",)),
    "defaults": ("default", ()),
    "no tier 2": ("default", ("rerank_merged.rerank_policy=none",)),
    "seed": ("seed", ("models=embedded",)),
}
SETS = ("scifact", "medicationqa", "spl_ddi", "pubmedqa_l", "medlars")


def main() -> None:
    """Evaluate and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--arms", default="bm25,dense,rrf,minmax,hybrid,defaults")
    parser.add_argument("--metric", default="ndcg@10")
    options = parser.parse_args()
    arms = options.arms.split(",")
    print("| set | queries | " + " | ".join(arms) + " |")
    print("| --- | ---: | " + " | ".join("---" for _ in arms) + " |", flush=True)
    cache = store_folder() / "cache" / "vectors"
    for name in options.sets.split(","):
        path = Path("gold/smoke") if name == "smoke" else DATA / name
        if not path.is_dir():
            print(f"{path} is absent, left out", file=sys.stderr)
            continue
        gold, cells = load(path), []
        for arm in arms:
            source, sets = ARMS[arm]
            config = load_config(source, sets)
            folder = store_folder() / "indexes" / fingerprint_of(gold.path, config)[:16]
            index = build_index(gold.path, folder, config, cache=cache).index
            with tempfile.TemporaryDirectory() as scratch:
                retriever = Retriever.open(index, config, cache=cache)
                done = evaluate(gold, retriever, Path(scratch) / "run")
            figure = done.record["metrics"][options.metric]
            cells.append(f"{figure['value']:.4f} ({figure['low']:.3f} to {figure['high']:.3f})")
        print(f"| {name} | {len(gold.queries)} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
