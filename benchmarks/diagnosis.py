"""Seconds to classify 5,000 queries with evidence and hypotheses, half of them failing.

    python benchmarks/diagnosis.py

Queries are titles of SciFact's documents; half are judged by the document itself, half by another.
Words alone are searched, so that no query is embedded.
"""

import os
import tempfile
import time
from pathlib import Path

from experiments.commands.opening import vector_cache
from experiments.diagnosis.findings import count_classes, find_all, finding_columns
from experiments.diagnosis.judging import Judge
from experiments.rankings import asked, run_blocks
from gold import GoldQuery, load, read_corpus
from retriever import Retriever, RetrieverConfig, build_index

DATA = Path(os.environ.get("ASSAY_DATA", "../shared/data"))
QUERIES = 5000


def main() -> None:
    """Print the seconds and the classes."""
    config = RetrieverConfig().with_overrides({"route.dense_search": False})
    documents = list(read_corpus(DATA / "scifact"))[:QUERIES]
    queries = [GoldQuery(f"q{i}", document.title) for i, document in enumerate(documents)]
    own = [document.document_id for document in documents]
    qrels = {query.query_id: {own[i if i % 2 else i - 1]: 1} for i, query in enumerate(queries)}
    gold = load(DATA / "scifact", "test")
    gold = type(gold)(
        **{
            **{name: getattr(gold, name) for name in gold.__dataclass_fields__},
            "queries": {query.query_id: query for query in queries},
            "qrels": qrels,
        }
    )
    with tempfile.TemporaryDirectory() as folder:
        index = build_index(
            DATA / "scifact", Path(folder) / "i", config, cache=vector_cache()
        ).index
        retriever = Retriever.open(index, config, cache=vector_cache())
        judge = Judge(index, gold, config.evaluation)
        findings, spent = [], 0.0
        for block in run_blocks(
            retriever, [asked(query, gold.path) for query in queries], gold.level, 100
        ):
            of_block = queries[block.start : block.start + len(block.trace.queries)]
            begin = time.perf_counter()
            judged = judge.judge(of_block, block)
            findings += find_all(judge, retriever, of_block, block, judged)
            spent += time.perf_counter() - begin
        begin = time.perf_counter()
        finding_columns(findings)
        spent += time.perf_counter() - begin
    print(f"{len(queries)} queries in {spent:.2f} s: {count_classes(findings)}")


if __name__ == "__main__":
    main()
