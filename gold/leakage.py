"""What two splits share: relevant documents, and queries that say the same.

A method tuned on one split and reported on another looks better than it is where they share
either.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gold.model import Qrels

NEAR: Final = 0.8
_MEETINGS: Final = 5  # fewest comparisons in least time on 20,000 questions
_WORD: Final = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class SharedRelevance:
    """The queries of two splits that share a relevant document, and those documents.

    Each tuple is in the order of its judgements; `documents` in the order of the left ones.
    """

    left: tuple[str, ...]
    right: tuple[str, ...]
    documents: tuple[str, ...]


def relevant_documents(qrels: Qrels, relevant_from: int) -> dict[str, list[str]]:
    """Return query_id -> the documents graded `relevant_from` or above, in the file's order."""
    return {
        query_id: [document_id for document_id, grade in judged.items() if grade >= relevant_from]
        for query_id, judged in qrels.items()
    }


def shared_relevance(left: Qrels, right: Qrels, relevant_from: int = 1) -> SharedRelevance:
    """Return what two splits share in relevant documents."""
    ours = relevant_documents(left, relevant_from)
    theirs = relevant_documents(right, relevant_from)
    known = {document_id for documents in theirs.values() for document_id in documents}
    ordered = dict.fromkeys(d for documents in ours.values() for d in documents if d in known)
    return SharedRelevance(
        tuple(query_id for query_id, documents in ours.items() if not known.isdisjoint(documents)),
        tuple(q for q, documents in theirs.items() if not ordered.keys().isdisjoint(documents)),
        tuple(ordered),
    )


def near_duplicates(
    texts: Mapping[str, str], splits_of: Mapping[str, frozenset[str]], threshold: float = NEAR
) -> list[tuple[str, str, float]]:
    """Return (query_id, query_id, similarity) for queries of different splits that say the same.

    Similarity is the Jaccard index of the texts' character trigrams, taken over case-folded words
    with one blank between. Pairs at `threshold` or above are found exactly: the rarest trigrams of
    two such texts must meet `_MEETINGS` times (prefix filtering; Wang, Li and Feng 2012, "Can we
    beat the prefix filtering?"), and only those that do are compared. Each pair has its queries
    in the order of `texts` and comes at its second one.
    """
    grams = {query_id: _trigrams(texts[query_id]) for query_id in texts if query_id in splits_of}
    frequency = Counter(gram for found in grams.values() for gram in found)
    index: dict[frozenset[str], defaultdict[str, list[str]]] = {
        names: defaultdict(list) for names in splits_of.values()
    }
    pairs: list[tuple[str, str, float]] = []
    for query_id, found in grams.items():
        own = splits_of[query_id]
        others = [index[names] for names in index if len(names | own) > 1]
        rarest = sorted(found, key=lambda gram: (frequency[gram], gram))
        needed = int(threshold * len(found))  # rounded down: a longer prefix misses nothing
        meetings: Counter[str] = Counter()
        for gram in rarest[: len(found) - needed + _MEETINGS]:
            for of_others in others:
                meetings.update(of_others.get(gram, ()))
            index[own][gram].append(query_id)
        for other, count in meetings.items():
            if count < min(_MEETINGS, needed):
                continue
            shared = len(found & grams[other])
            similarity = shared / (len(found) + len(grams[other]) - shared)
            if similarity >= threshold:
                pairs.append((other, query_id, similarity))
    return pairs


def _trigrams(text: str) -> frozenset[str]:
    words = _WORD.findall(unicodedata.normalize("NFKC", text).casefold())
    padded = f" {' '.join(words)} "
    return frozenset(padded[i : i + 3] for i in range(len(padded) - 2)) if words else frozenset()
