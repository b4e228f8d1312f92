"""nDCG@10 with its 95 % interval on public sets: the reference arms and the defaults.

    python benchmarks/public_sets.py [--sets scifact,medlars] [--arms bm25,defaults]

Prints a Markdown table. Each cell is what `assay evaluate SET [-c docs/reference.yaml] [--set ...]`
prints; the arms and their settings stand in ARMS. Sets are BEIR folders under ASSAY_DATA.
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
    "defaults": ("default", ()),
}
SETS = ("scifact", "medicationqa", "spl_ddi", "pubmedqa_l", "medlars")


def main() -> None:
    """Evaluate and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--arms", default=",".join(ARMS))
    options = parser.parse_args()
    arms = options.arms.split(",")
    print("| set | queries | " + " | ".join(arms) + " |")
    print("| --- | ---: | " + " | ".join("---" for _ in arms) + " |", flush=True)
    cache = store_folder() / "cache" / "vectors"
    for name in options.sets.split(","):
        if not (DATA / name).is_dir():
            print(f"{DATA / name} is absent, left out", file=sys.stderr)
            continue
        gold, cells = load(DATA / name), []
        for arm in arms:
            source, sets = ARMS[arm]
            config = load_config(source, sets)
            folder = store_folder() / "indexes" / fingerprint_of(gold.path, config)[:16]
            index = build_index(gold.path, folder, config, cache=cache).index
            with tempfile.TemporaryDirectory() as scratch:
                retriever = Retriever.open(index, config, cache=cache)
                done = evaluate(gold, retriever, Path(scratch) / "run")
            figure = done.record["metrics"]["ndcg@10"]
            cells.append(f"{figure['value']:.4f} ({figure['low']:.3f} to {figure['high']:.3f})")
        print(f"| {name} | {len(gold.queries)} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
