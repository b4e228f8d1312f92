"""What a second evaluation costs over its FAISS, BM25 and ranx calls made bare.

Both are whole processes over vectors that exist already, run in turn; medians and their ratio.
The evaluation writes its run directory and logs to MLflow; the bare script does neither.

    python benchmarks/evaluate.py [--gold DIR] [--runs 3] [--json]

`--gold` is a BEIR folder; default scifact under ASSAY_DATA.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from gold import load
from retriever import Index, Retriever
from retriever.store import store_folder

COLLECTION = "eagle_text_biomed"
DATA = Path(os.environ.get("ASSAY_DATA", "../shared/data"))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gold", type=Path, default=DATA / "scifact")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not options.gold.is_dir():
        sys.exit(f"{options.gold} is absent: point ASSAY_DATA at BEIR folders")
    assay = str(Path(sys.executable).with_name("assay"))
    with tempfile.TemporaryDirectory() as scratch:
        index_path, vectors = Path(scratch) / "index", Path(scratch) / "vectors.npz"
        subprocess.run([assay, "index", str(options.gold), "-o", str(index_path)], check=True)
        own = [assay, "evaluate", str(options.gold), "--index", str(index_path)]
        own += ["-o", str(Path(scratch) / "run"), "--json"]
        subprocess.run(own, check=True, capture_output=True)
        save_vectors(index_path, options.gold, vectors)
        bare = [sys.executable, "benchmarks/bare_evaluate.py", str(vectors), str(options.gold)]
        seconds: dict[str, list[float]] = {"own": [], "bare": []}
        for _ in range(options.runs + 1):
            for name, command in (("own", own), ("bare", bare)):
                begin = time.perf_counter()
                subprocess.run(command, check=True, capture_output=True)
                seconds[name].append(time.perf_counter() - begin)
    medians = {name: float(np.median(times[1:])) for name, times in seconds.items()}
    found = {**medians, "ratio": medians["own"] / medians["bare"]}
    if options.json:
        print(json.dumps(found, indent=1))
    else:
        print(", ".join(f"{key} {value:.2f}" for key, value in found.items()))


def save_vectors(index_path: Path, gold: Path, target: Path) -> None:
    """Save what the bare script searches: the same vectors and texts."""
    index = Index.open(index_path)
    retriever = Retriever.open(index, cache=store_folder() / "cache" / "vectors")
    texts = [query.text for query in load(gold).queries.values()]
    chunks, collection = index.chunks, index.collections[COLLECTION]
    np.savez(
        target,
        documents=collection.dense.vectors,
        queries=retriever._pipeline.encoders[COLLECTION].encode(texts, "query"),
        chunk_ids=np.array(chunks.values("chunk_id", collection.rows)),
        texts=np.array(chunks.values("text", collection.rows)),
    )


if __name__ == "__main__":
    main()
