"""The calls an evaluation cannot do without, bare: FAISS, BM25 and ranx over one gold set.

    python benchmarks/bare_evaluate.py VECTORS.npz GOLD

Reads vectors made before, indexes the texts with bm25s, searches both, mixes by min-max and
scores with ranx. The yardstick of `benchmarks/evaluate.py`; not part of Assay.
"""

import json
import sys
from pathlib import Path

import bm25s
import faiss
import numpy as np
import Stemmer
from ranx import Qrels, Run, evaluate

QUIET = {"show_progress": False}
METRICS = ["hit_rate@5", "mrr@10", "ndcg@10", "recall@100", "map@100"]


def main() -> None:
    """Evaluate."""
    gold = Path(sys.argv[2])
    vectors = np.load(sys.argv[1])
    ids, texts = vectors["chunk_ids"].tolist(), vectors["texts"].tolist()
    queries = {
        record["_id"]: record["text"] for record in map(json.loads, (gold / "queries.jsonl").open())
    }
    judged: dict[str, dict[str, int]] = {}
    for line in (gold / "qrels" / "test.tsv").read_text().splitlines()[1:]:
        query_id, document_id, grade = line.split("\t")
        judged.setdefault(query_id, {})[document_id] = int(grade)
    asked = [queries[query_id] for query_id in judged]

    flat = faiss.IndexFlatIP(vectors["documents"].shape[1])
    flat.add(vectors["documents"])
    stemmer = Stemmer.Stemmer("english")
    lexical = bm25s.BM25()
    lexical.index(bm25s.tokenize(texts, stopwords="en", stemmer=stemmer, **QUIET), **QUIET)
    depth = min(200, len(texts))
    cosines, rows = flat.search(vectors["queries"], depth)
    tokens = bm25s.tokenize(asked, stopwords="en", stemmer=stemmer, **QUIET)
    lexical_rows, scores = lexical.retrieve(tokens, k=depth, **QUIET)
    run: dict[str, dict[str, float]] = {}
    for q, query_id in enumerate(judged):
        mixed: dict[str, float] = {}
        for found, values in ((rows[q], cosines[q]), (lexical_rows[q], scores[q])):
            low, high = float(values.min()), float(values.max())
            for row, value in zip(found[:100], values[:100], strict=True):
                document_id = ids[row].rpartition("#")[0]
                scaled = (float(value) - low) / (high - low or 1.0)
                mixed[document_id] = mixed.get(document_id, 0.0) + scaled / 2
        run[query_id] = mixed
    print(evaluate(Qrels(judged), Run(run), METRICS))


if __name__ == "__main__":
    main()
