"""Small worlds for tests: corpora on disk, and an encoder that needs no model."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt


class HashedWords:
    """A stand-in encoder: a text's vector is the sum of one random unit vector a word.

    Exact in float64 and then cast, so a text has one vector whatever its batch. Says in its name
    what it is.
    """

    def __init__(self, dimension: int = 16, seed: int = 0) -> None:
        self.dimension = dimension
        self.seed = seed
        self.name = f"stand-in-hashed-words-{dimension}-{seed}"
        self.fingerprint = hashlib.sha256(self.name.encode()).hexdigest()
        self.calls = 0

    def token_spans(self, texts: Sequence[str]) -> Sequence[Sequence[tuple[int, int]]]:
        return [[m.span() for m in re.finditer(r"\w+|[^\w\s]", text)] for text in texts]

    def encode_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        self.calls += len(texts)
        return np.stack([self._vector(text) for text in texts]).astype(np.float32)

    encode_queries = encode_documents

    def _vector(self, text: str) -> npt.NDArray[np.float64]:
        total = np.full(self.dimension, 1e-3)
        for word in text.lower().split():
            digest = hashlib.sha256(f"{self.seed} {word}".encode()).digest()
            total += np.random.default_rng(list(digest)).normal(size=self.dimension)
        return total / np.linalg.norm(total)


def write_corpus(folder: Path, texts: Mapping[str, str]) -> Path:
    """Write `corpus.jsonl` with a document a text, titles empty."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        json.dumps({"_id": document_id, "title": "", "text": text}, ensure_ascii=False)
        for document_id, text in texts.items()
    ]
    (folder / "corpus.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
    return folder


def write_gold(
    folder: Path,
    texts: Mapping[str, str],
    queries: Mapping[str, str],
    qrels: Mapping[str, Mapping[str, int]],
    split: str = "test",
    metadata: Mapping[str, Mapping[str, object]] | None = None,
) -> Path:
    """Write a BEIR directory."""
    write_corpus(folder, texts)
    rows = [
        json.dumps({"_id": q, "text": text, "metadata": (metadata or {}).get(q, {})})
        for q, text in queries.items()
    ]
    (folder / "queries.jsonl").write_text("\n".join(rows) + "\n", "utf-8")
    (folder / "qrels").mkdir(exist_ok=True)
    judged = [f"{q}\t{d}\t{g}" for q, grades in qrels.items() for d, g in grades.items()]
    text = "\n".join(["query-id\tcorpus-id\tscore", *judged]) + "\n"
    (folder / "qrels" / f"{split}.tsv").write_text(text, "utf-8")
    return folder


SMALL_TEXTS = {
    "d0": "gefitinib blocks egfr in lung cancer",
    "d1": "capmatinib is a met inhibitor",
    "d2": "aldesleukin is il-2",
    "d3": "tocilizumab binds the receptor of il-6",
    "d4": "travel must be approved by a manager",
    "d5": "egfr is a receptor",
    "d6": "lung function tests",
}
SMALL_QUERIES = {
    "q1": "which drug blocks egfr",
    "q2": "il-6 receptor antibody",
    "q3": "who approves travel",
    "q4": "egfr receptor lung",
}


def write_small_gold(folder: Path) -> Path:
    """Write a gold set of four queries on seven documents of one sentence."""
    qrels = {"q1": {"d0": 1}, "q2": {"d3": 1}, "q3": {"d4": 1}, "q4": {"d6": 1}}
    return write_gold(folder, SMALL_TEXTS, SMALL_QUERIES, qrels)
