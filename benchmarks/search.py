"""What a search costs over the bare calls it cannot do without.

cold: the process `assay search INDEX TEXT` over `bare_search.py`, in turn, medians.
warm: `Retriever.search` of one query over encode + FAISS + BM25 of the same query, bare, in turn.

    python benchmarks/search.py [--corpus DIR] [--namespace general] [--runs 5] [--json]

`--corpus` is a BEIR folder; default medlars under ASSAY_DATA. `--namespace` is the one to build and
search in: `general` is the plain hybrid search, `biomed` (the default) the whole retriever.
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
from retriever import Index, Retriever, RetrieverConfig, build_index
from retriever.store import store_folder

# The text collection that a query of each namespace searches.
COLLECTIONS = {"biomed": "eagle_text_biomed", "general": "eagle_text"}
DATA = Path(os.environ.get("ASSAY_DATA", "../shared/data"))


def cold(index: Index, text: str, runs: int, scratch: Path) -> dict[str, float]:
    """Median seconds of both processes and their ratio."""
    collection = index.collections[COLLECTIONS[index.manifest.namespace]]
    np.save(scratch / "vectors.npy", collection.dense.vectors)
    bare = [sys.executable, "benchmarks/bare_search.py", str(scratch / "vectors.npy"), text]
    own = [str(Path(sys.executable).with_name("assay")), "search", str(index.path), text]
    seconds: dict[str, list[float]] = {"own": [], "bare": []}
    for _ in range(runs + 1):
        for name, command in (("own", own), ("bare", bare)):
            begin = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            seconds[name].append(time.perf_counter() - begin)
    medians = {name: float(np.median(times[1:])) for name, times in seconds.items()}
    return {**medians, "ratio": medians["own"] / medians["bare"]}


def warm(index: Index, texts: list[str]) -> dict[str, float]:
    """Median milliseconds of one warm query both ways, and the median of their ratios."""
    import bm25s
    import faiss
    import Stemmer
    import torch

    retriever = Retriever.open(index)
    name = COLLECTIONS[index.manifest.namespace]
    encoder = retriever._pipeline.encoders[name]._encoder
    collection = index.collections[name]
    flat = faiss.IndexFlatIP(collection.dense.dimension)
    flat.add(collection.dense.vectors)
    stemmer = Stemmer.Stemmer("english")
    chunks = index.chunks.values("text", collection.rows)
    lexical = bm25s.BM25()
    quiet = {"show_progress": False}
    lexical.index(bm25s.tokenize(chunks, stopwords="en", stemmer=stemmer, **quiet), **quiet)
    model, tokenizer = encoder._model, encoder._tokenizer
    depth = min(200, len(chunks))

    def bare(text: str) -> None:
        with torch.inference_mode():
            inputs = tokenizer([text], return_tensors="pt", truncation=True, max_length=256)
            states = model(**inputs).last_hidden_state
            mask = inputs["attention_mask"][..., None]
            query = torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1), dim=1)
        flat.search(query.numpy(), depth)
        tokens = bm25s.tokenize([text], stopwords="en", stemmer=stemmer, **quiet)
        lexical.retrieve(tokens, k=depth, **quiet)

    for text in texts[:3]:
        bare(text)
        retriever.search(text)
    times: dict[str, list[float]] = {"own": [], "bare": []}
    for number, text in enumerate(texts):
        # A text of its own each time, so that no memo answers.
        asked = f"{text} {number}"
        both = [("own", retriever.search), ("bare", bare)]
        # By turns first: whoever comes second finds the caches warm.
        for name, search in both if number % 2 else both[::-1]:
            begin = time.perf_counter()
            search(asked)
            times[name].append(1000 * (time.perf_counter() - begin))
    ratios = np.array(times["own"]) / np.array(times["bare"])
    medians = {f"{name}_ms": float(np.median(values)) for name, values in times.items()}
    return {**medians, "ratio": float(np.median(ratios))}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", type=Path, default=DATA / "medlars")
    parser.add_argument("--namespace", choices=sorted(COLLECTIONS), default="biomed")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not options.corpus.is_dir():
        sys.exit(f"{options.corpus} is absent: point ASSAY_DATA at BEIR folders")
    texts = [query.text for query in load(options.corpus).queries.values()]
    with tempfile.TemporaryDirectory() as scratch:
        cache = store_folder() / "cache" / "vectors"
        config = RetrieverConfig(namespace=options.namespace)
        build_index(options.corpus, Path(scratch) / "index", config, cache=cache)
        index = Index.open(Path(scratch) / "index")
        found = {
            "cold": cold(index, texts[0], options.runs, Path(scratch)),
            "warm": warm(index, texts * (100 // len(texts) + 1)),
        }
    if options.json:
        print(json.dumps(found, indent=1))
        return
    for name, figures in found.items():
        shown = ", ".join(f"{key} {value:.3f}" for key, value in figures.items())
        print(f"{name}: {shown}")


if __name__ == "__main__":
    main()
