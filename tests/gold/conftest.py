"""A tiny gold set to break: two documents, two queries, one split."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

CORPUS = [
    {"_id": "d1", "title": "Gefitinib", "text": "Gefitinib inhibits EGFR."},
    {"_id": "d2", "title": "", "text": "Metformin lowers glucose."},
]
QUERIES = [
    {"_id": "q1", "text": "which drug inhibits EGFR", "metadata": {"type": "mechanism"}},
    {"_id": "q2", "text": "lower blood sugar"},
]
HEADER = "query-id\tcorpus-id\tscore\n"


@pytest.fixture
def make_set(tmp_path: Path) -> Callable[..., Path]:
    """Write a gold set; a list becomes JSON lines, text and bytes are written as they are."""

    def make(
        corpus: object = CORPUS,
        queries: object = QUERIES,
        qrels: object = HEADER + "q1\td1\t1\nq2\td2\t1\n",
        settings: object = None,
        **more_splits: object,
    ) -> Path:
        directory = tmp_path / "set"
        (directory / "qrels").mkdir(parents=True)
        files = {
            "corpus.jsonl": corpus,
            "queries.jsonl": queries,
            "qrels/test.tsv": qrels,
            "gold.yaml": settings,
        } | {f"qrels/{name}.tsv": content for name, content in more_splits.items()}
        for name, content in files.items():
            if isinstance(content, list):
                content = "".join(json.dumps(record) + "\n" for record in content)
            if isinstance(content, str):
                content = content.encode()
            if isinstance(content, bytes):
                (directory / name).write_bytes(content)
        return directory

    return make
