"""What a second look at the pool gains where no cross-encoder can be had.

    python benchmarks/offline_reranker.py [--sets smoke,medlars] [--metric ndcg@10]

Candidates, each in the place of the cross-encoder of the whole default retriever: none; late
interaction (model set embedded-late, trained on none of these sets); a logistic regression on nine
lexical and dense features of a pair, trained on SciFact's training queries. On SciFact only the
test queries that share no relevant document with those are judged. Sets are BEIR folders under
ASSAY_DATA; `smoke` is the bundled one. Prints a Markdown table, and what late interaction keeps on
disk and how long its pairs took.
"""

import argparse
import itertools
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from experiments.evaluate import evaluate
from experiments.intervals import bootstrap_mean
from gold import GoldSet, load
from retriever import Query, Retriever, RetrieverConfig, build_index, load_config
from retriever.encoders.cache import CachedEncoder, CrossEncoder
from retriever.index.store import Index
from retriever.index.tokens import Tokenizer
from retriever.ingest.build import fingerprint_of
from retriever.retriever import open_encoders, open_rerankers
from retriever.store import store_folder

DATA = Path(os.environ.get("ASSAY_DATA", "../shared/data"))
SETS = ("smoke", "medlars", "medicationqa", "spl_ddi", "scifact")
CACHE = store_folder() / "cache" / "vectors"
CHARACTERS_OF_HEAD = 120
Floats = npt.NDArray[np.float64]


class PairFeatures:
    """Nine numbers of a pair: cosine, and how a text holds the query's words."""

    def __init__(self, index: Index) -> None:
        self.encoder = CachedEncoder(open_encoders("embedded")["eagle_text"], CACHE)
        self.tokenizer = Tokenizer.make("biomedical")
        texts = index.chunks.values("text", np.arange(len(index.chunks.chunk_ids)))
        held: dict[str, int] = {}
        for tokens in self.tokenizer.tokenize(texts):
            for token in set(tokens):
                held[token] = held.get(token, 0) + 1
        self.held, self.count = held, len(texts)

    def of(self, query: str, texts: Sequence[str]) -> Floats:
        """Return (texts, 9)."""
        asked_vector = self.encoder.encode([query], "query")[0]
        cosine = self.encoder.encode(texts, "document") @ asked_vector
        (asked,) = self.tokenizer.tokenize([query])
        words = list(dict.fromkeys(asked))
        pairs = set(itertools.pairwise(asked))
        share = np.array([self._idf(word) for word in words])
        share = share / max(share.sum(), 1e-9)
        heads = self.tokenizer.tokenize([text[:CHARACTERS_OF_HEAD] for text in texts])
        rows = []
        for cos, tokens, head in zip(cosine, self.tokenizer.tokenize(texts), heads, strict=True):
            tf = np.array([tokens.count(word) for word in words], dtype=float)
            saturated = tf * 2.5 / (tf + 1.5)
            first = next((i for i, token in enumerate(tokens) if token in words), len(tokens))
            together = pairs & set(itertools.pairwise(tokens))
            rows.append(
                [
                    float(cos),
                    float(saturated @ share),
                    float((tf > 0).mean()) if words else 0.0,
                    float((tf > 0) @ share),
                    len(together) / max(len(pairs), 1),
                    len(set(words) & set(head)) / max(len(words), 1),
                    float(np.log1p(tf) @ share),
                    float(np.log1p(len(tokens))),
                    first / (len(tokens) + 1),
                ]
            )
        return np.array(rows).reshape(-1, 9)

    def _idf(self, word: str) -> float:
        n = self.held.get(word, 0)
        return float(np.log(1 + (self.count - n + 0.5) / (n + 0.5)))


class PairRegression:
    """A logistic regression on `PairFeatures`, in the place of a cross-encoder."""

    name = fingerprint = "logistic-regression-on-nine-features"

    def __init__(self, weights: Floats, features: PairFeatures) -> None:
        self.weights, self.features = weights, features

    def logits(self, query: str, texts: Sequence[str]) -> Floats:
        """Return one score a text."""
        logits: Floats = self.features.of(query, texts) @ self.weights
        return logits


def open_set(name: str, config: RetrieverConfig) -> tuple[GoldSet, Index]:
    """Load a set and build its index, vectors from the cache where they are."""
    path = Path("gold/smoke") if name == "smoke" else DATA / name
    gold = load(path, config.evaluation.split)
    folder = store_folder() / "indexes" / fingerprint_of(gold.path, config)[:16]
    return gold, build_index(gold.path, folder, config, cache=CACHE).index


def train() -> tuple[Floats, set[str]]:
    """Fit on the pools of SciFact's training queries; return weights and the documents used."""
    from sklearn.linear_model import LogisticRegression

    config = load_config("default", ["evaluation.split=train"])
    gold, index = open_set("scifact", config)
    retriever = Retriever.open(index, config, cache=CACHE)
    features, documents = PairFeatures(index), np.array(index.chunks.document_ids)
    rows: list[Floats] = []
    labels: list[npt.NDArray[np.bool_]] = []
    asked = list(gold.queries.values())
    trace = retriever.trace([Query(query.text) for query in asked])
    for q, query in enumerate(asked):
        chunks = trace.slots.chunk[q][trace.final.pool[q]]
        relevant = [d for d, grade in gold.qrels[query.query_id].items() if grade > 0]
        rows.append(features.of(query.text, index.chunks.values("text", chunks)))
        labels.append(np.isin(documents[index.chunks.document_of[chunks]], relevant))
    model = LogisticRegression(max_iter=1000, class_weight="balanced")
    model.fit(np.concatenate(rows), np.concatenate(labels))
    return model.coef_[0], {d for grades in gold.qrels.values() for d in grades}


def without(gold: GoldSet, seen: set[str]) -> GoldSet:
    """Leave out the queries that are judged by a document in `seen`."""
    kept = [q for q in gold.queries if not seen & gold.qrels[q].keys()]
    return replace(
        gold,
        queries={q: gold.queries[q] for q in kept},
        qrels={q: gold.qrels[q] for q in kept},
    )


def figure(
    gold: GoldSet,
    index: Index,
    rerankers: Mapping[str, CrossEncoder],
    policy: str,
    metric: str,
) -> str:
    """Evaluate one candidate."""
    config = load_config("default", [f"rerank_merged.rerank_policy={policy}"])
    retriever = Retriever.open(index, config, cache=CACHE, rerankers=rerankers)
    with tempfile.TemporaryDirectory() as scratch:
        scores = evaluate(gold, retriever, Path(scratch) / "run").scores
    found = bootstrap_mean(scores.values[metric], resamples=10_000, seed=0)
    return f"{found.value:.4f} ({found.low:.3f} to {found.high:.3f})"


def main() -> None:
    """Evaluate and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--metric", default="ndcg@10")
    options = parser.parse_args()
    weights, trained_on = train()
    print(
        "| set | queries | none | late interaction | regression | late alone | regression alone |"
    )
    print("| --- | ---: | --- | --- | --- | --- | --- |", flush=True)
    for name in options.sets.split(","):
        gold, index = open_set(name, load_config())
        if name == "scifact":
            gold = without(gold, trained_on)
        late = open_rerankers("embedded-late", CACHE)
        begin = time.perf_counter()
        regression = PairRegression(weights, PairFeatures(index))
        arms: list[tuple[Mapping[str, CrossEncoder], str]] = [
            ({}, "domain"),
            (late, "domain"),
            ({"domain": regression}, "domain"),
            (late, "general"),
            ({"general": regression}, "general"),
        ]
        cells = [figure(gold, index, r, policy, options.metric) for r, policy in arms]
        print(f"| {name} | {len(gold.queries)} | " + " | ".join(cells) + " |", flush=True)
        print(f"{name}: {time.perf_counter() - begin:.0f} s", file=sys.stderr)
    kept = CACHE / f"{late['domain'].fingerprint[:32]}.sqlite"
    print(f"token vectors kept: {kept.stat().st_size / 2**20:.0f} MB", file=sys.stderr)


if __name__ == "__main__":
    main()
