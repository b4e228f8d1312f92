"""A retriever whose searches are recorded: synthetic lists, and the whole pipeline after them.

The index holds a small synthetic corpus; each search of a collection answers with lists drawn from
what is asked. Stages, memo and scoring are the product's own.
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gold import GoldSet, load
from retriever import Index, Retriever, RetrieverConfig, build_index
from retriever.encoders.molecule import MorganStructures
from retriever.index.store import Collection
from retriever.memo import Memo
from retriever.types import Found

DRUGS = ("gefitinib", "osimertinib", "imatinib", "metformin", "warfarin")
CUES = ("", "dosage", "warnings", "indications")


class HashedText:
    """Stands in for a text encoder: one random unit vector a text."""

    name = "stand-in-hashed-text"
    fingerprint = hashlib.sha256(name.encode()).hexdigest()

    def token_spans(self, texts: Sequence[str]) -> Sequence[Sequence[tuple[int, int]]]:
        """Take a whole text for one token."""
        return [[(0, len(text))] if text else [] for text in texts]

    def encode_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return unit vectors (n, 8)."""
        seeds = [list(hashlib.sha256(text.encode()).digest()) for text in texts]
        drawn = np.stack([np.random.default_rng(seed).normal(size=8) for seed in seeds])
        return (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)

    encode_queries = encode_documents


class Recorded:
    """A collection that answers a search with lists drawn for what is asked, always the same."""

    def __init__(self, real: Collection, name: str, depth: int, text: bool) -> None:
        self._real = real
        self._name = name
        self._depth = depth
        self.text = text

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def search_dense(self, vectors: Any, owner: Any, queries: int, *_: Any) -> Found:
        """Return the dense lists of some queries."""
        return self._draw("dense", np.asarray(vectors).tobytes(), queries)

    def search_bm25(self, texts: Sequence[str], *_: Any) -> Found:
        """Return the BM25 lists of some queries."""
        return self._draw("bm25", "\n".join(texts).encode(), len(texts))

    def _draw(self, search: str, asked: bytes, queries: int) -> Found:
        digest = hashlib.sha256(f"{self._name} {search} ".encode() + asked).digest()
        rng, rows = np.random.default_rng(list(digest)), self._real.rows
        held = np.argsort(rng.random((queries, len(rows)), dtype=np.float32), axis=1)
        held = held[:, : self._depth]
        scores = -np.sort(-rng.random((queries, held.shape[1])), axis=1)
        scores = 0.5 + scores / 2 if search == "dense" else 30 * scores
        return Found(rows[held].astype(np.int32), np.round(scores, 6))


def recorded_world(
    folder: Path, queries: int, depth: int, *, documents: int = 1000, memory: int = 2**30
) -> tuple[GoldSet, Retriever]:
    """Write and open a synthetic gold set with three lists a query: two dense ones and one BM25."""
    rng = np.random.default_rng(0)
    _write_corpus(folder, documents, queries, rng)
    config = RetrieverConfig().with_overrides(
        {
            "route.recall_top_k": depth,
            "recall.search_depth": max(depth, 200),
            "fuse.fuse_with_bm25_plan": True,
            "fuse.hybrid_text_collections": ["eagle_text_biomed", "eagle_text"],
        }
    )
    encoder = HashedText()
    encoders: dict[str, Any] = {
        "eagle_text": encoder,
        "eagle_text_biomed": encoder,
        "eagle_chemical": MorganStructures(),
    }
    build_index(folder, folder / "index", config, encoders=encoders)
    index = Index.open(folder / "index")
    recorded = {
        name: Recorded(collection, name, depth, text=name == "eagle_text_biomed")
        for name, collection in index.collections.items()
    }
    index.__dict__["collections"] = recorded
    retriever = Retriever.open(index, config, encoders=encoders, rerankers={}, memo=Memo(memory))
    return load(folder), retriever


def _write_corpus(folder: Path, documents: int, queries: int, rng: np.random.Generator) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "corpus.jsonl").open("w", encoding="utf-8") as stream:
        for i in range(documents):
            domain = "general" if i % 3 == 0 else "biomedical"
            drug = DRUGS[i % len(DRUGS)]
            words = " ".join(f"w{j}" for j in rng.integers(0, 500, 12))
            metadata = {"domain": domain, "name": f"{drug} {i}"}
            record = {"_id": f"d{i:06}", "title": "", "text": words, "metadata": metadata}
            stream.write(json.dumps(record) + "\n")
    with (folder / "queries.jsonl").open("w", encoding="utf-8") as stream:
        for i in range(queries):
            drug = DRUGS[i % len(DRUGS)] if i % 2 else ""
            words = " ".join(f"w{j}" for j in rng.integers(0, 500, 4))
            text = f"{drug} {CUES[i % len(CUES)]} {words} {i}".strip()
            stream.write(json.dumps({"_id": f"q{i:06}", "text": text}) + "\n")
    (folder / "qrels").mkdir(exist_ok=True)
    with (folder / "qrels" / "test.tsv").open("w", encoding="utf-8") as stream:
        stream.write("query-id\tcorpus-id\tscore\n")
        for i in range(queries):
            for document in rng.choice(documents, 3, replace=False):
                stream.write(f"q{i:06}\td{document:06}\t{int(rng.integers(1, 3))}\n")
