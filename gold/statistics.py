"""Describe a gold set in numbers, ready for JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set
from pathlib import Path
from typing import Any

from gold.corpus import read_corpus
from gold.faults import InputError, refuse
from gold.leakage import relevant_documents
from gold.loading import gold_directory, load, splits
from gold.mentions import is_linking, load_mentions
from gold.model import GoldSet
from gold.queries import read_queries


def stats(path: Path | str) -> dict[str, Any]:
    """Return counts, lengths and shares of a gold set as plain values.

    Keys: `documents` and `queries`, each with `count` and `words` (blank-separated words of title
    and text, or of the query: min, mean, max); `splits` by name with `judgements`, `queries`,
    `unscorable` (no relevant document), `relevant_per_query` (min, mean, max over the scorable
    ones), `grades` (judgements by grade), `types` (queries by type), `judged_documents` (distinct,
    in the corpus), `share_judged` (of the corpus, None where it is empty) and `unknown_documents`.
    A linking gold set has `mentions`, `nil`, `with_context` and `types` (mentions by type).
    Raises `InputError` as `load`, `read_corpus` and `load_mentions` do.
    """
    directory = gold_directory(path)
    if is_linking(directory):
        return _linking_stats(directory)
    names = splits(directory)
    if not names:
        raise InputError("no split", directory / "qrels", fix="add qrels/test.tsv")
    words: dict[str, int] = {}
    for document in read_corpus(directory):
        words[document.document_id] = len(document.title.split()) + len(document.text.split())
    queries = read_queries(directory / "queries.jsonl", refuse)
    query_words = [len(query.text.split()) for query, _ in queries.values()]
    return {
        "documents": {"count": len(words), "words": _spread(list(words.values()))},
        "queries": {"count": len(queries), "words": _spread(query_words)},
        "splits": {name: _split_stats(load(directory, name), words.keys()) for name in names},
    }


def _linking_stats(directory: Path) -> dict[str, Any]:
    mentions = load_mentions(directory).mentions.values()
    types = Counter(mention.type for mention in mentions)
    return {
        "mentions": len(mentions),
        "nil": sum(mention.entity_id is None for mention in mentions),
        "with_context": sum(bool(mention.context) for mention in mentions),
        "types": dict(sorted(types.items())),
    }


def _split_stats(gold: GoldSet, corpus: Set[str]) -> dict[str, Any]:
    relevant = relevant_documents(gold.qrels, gold.relevant_from)
    grades = Counter(grade for judged in gold.qrels.values() for grade in judged.values())
    judged = {document_id for of_query in gold.qrels.values() for document_id in of_query}
    known = len(judged & corpus)
    return {
        "judgements": grades.total(),
        "queries": len(gold.queries),
        "unscorable": sum(1 for documents in relevant.values() if not documents),
        "relevant_per_query": _spread([len(found) for found in relevant.values() if found]),
        "grades": {str(grade): grades[grade] for grade in sorted(grades)},
        "types": dict(sorted(Counter(query.type for query in gold.queries.values()).items())),
        "judged_documents": known,
        "share_judged": known / len(corpus) if corpus else None,
        "unknown_documents": len(judged) - known,
    }


def _spread(values: Sequence[int]) -> dict[str, float | None]:
    if not values:
        return {"min": None, "mean": None, "max": None}
    return {"min": min(values), "mean": sum(values) / len(values), "max": max(values)}
