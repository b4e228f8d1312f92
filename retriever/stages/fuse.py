"""fuse: words into a dense list, and the neighbours of its first hits behind it.

    combined = alpha * dense + (1 - alpha) * sparse

`sparse` is the share of the query's distinct terms that a chunk holds (`overlap`), or its BM25 over
the plan's maximum (`bm25`), both in [0, 1].
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from retriever.config import FuseConfig
from retriever.hooks import Expansion
from retriever.index.store import Collection, Index
from retriever.index.tokens import Tokenizer
from retriever.order import STEPS, by_score, by_steps, in_steps
from retriever.types import Booleans, Floats, Found, Integers, RankedList

__all__ = [
    "Neighbours",
    "Parents",
    "append_parents",
    "bm25_of",
    "bm25_share",
    "fuse",
    "is_hybrid",
    "order_list",
    "overlap",
    "share_of_best",
]

PARENT_HITS, PARENT_NEIGHBOURS = 5, 2


def is_hybrid(
    section: FuseConfig, collection: str, has_bm25: Booleans, active: Booleans
) -> Booleans:
    """Tell for which queries a dense list takes words into account."""
    if collection not in section.hybrid_text_collections:
        return np.zeros_like(active)
    return active & (True if section.fuse_with_bm25_plan else ~has_bm25)


def fuse(section: FuseConfig, one: RankedList, hybrid: Booleans, sparse: Floats) -> RankedList:
    """Order a dense list by `combined` where it is hybrid; elsewhere it stays as it is."""
    steps = in_steps(section.alpha * one.score + (1 - section.alpha) * sparse)
    inside = one.rank > 0
    rank = _ranks(by_steps(steps, inside, one.rank), inside)
    combined = steps / STEPS
    if not hybrid.all():
        only = hybrid[:, None]
        combined = np.where(only, combined, one.score)
        rank = np.where(only, rank, one.rank)
        sparse = np.where(only, sparse, np.nan)
    return RankedList(one.item, rank, combined, {"sparse": sparse, "combined": combined})


def order_list(score: Floats, rank: Integers, keep: Booleans | None = None) -> Integers:
    """Return ranks by score, then by earlier rank; 0 where a place is not (or no longer) in it.

    A place whose score is NaN comes after all others.
    """
    inside = rank > 0 if keep is None else (rank > 0) & keep
    return _ranks(by_score(score, inside, rank), inside)


def _ranks(order: Integers, inside: Booleans) -> Integers:
    """Return the rank of each place of an order, from 1; 0 for what is not inside."""
    queries, width = order.shape
    places = np.arange(width, dtype=np.int32)
    count = np.count_nonzero(inside, axis=1)[:, None]
    rank = np.empty(order.shape, dtype=np.int32)
    row = np.arange(queries, dtype=np.int64)[:, None] * width
    rank.ravel()[row + order] = np.where(places < count, places + 1, 0)
    return rank


def overlap(
    collection: Collection,
    index: Index,
    texts: Sequence[str],
    expansions: Sequence[Expansion],
    rows: Integers,
) -> Floats:
    """Return hits / distinct terms for each chunk, (queries, places); 0 with no terms.

    Terms are the query's tokens by the BM25 tokeniser, without stop words, and the extra terms; a
    term given twice counts once. An extra term counts where any of its names stands at token
    boundaries, or where the query says it itself and the chunk holds that word.
    """
    share = np.zeros(rows.shape)
    words: dict[int, frozenset[str]] = {}
    for q, (text, expansion) in enumerate(zip(texts, expansions, strict=True)):
        inside = np.flatnonzero(rows[q] >= 0)
        share[q, inside] = overlap_of(
            collection, index, text, expansion.sparse_terms, rows[q, inside], words
        )
    return share


def overlap_of(
    collection: Collection,
    index: Index,
    text: str,
    extra: Mapping[str, tuple[str, ...]],
    rows: Integers,
    words_of: dict[int, frozenset[str]],
) -> Floats:
    """Return the overlap of one query with some chunks.

    `words_of` has the words of the chunks of a collection without BM25, and is filled.
    """
    tokenizer = _tokenizer(collection, index)
    terms: dict[str, tuple[str, ...]] = dict.fromkeys(tokenizer.tokenize([text])[0], ())
    words = tuple(terms)
    for term, names in extra.items():
        said = tokenizer.tokenize([term])[0]
        whole = len(said) == 1 or said[:1] == [term.casefold()]
        terms[said[0] if whole and said[0] in terms else term] = names
    if not len(rows) or not terms:
        return np.zeros(len(rows))
    hits = {term: np.zeros(len(rows), dtype=np.bool_) for term in terms}
    if collection.text:
        places = collection.places_of(rows)
        hits |= {word: collection.bm25.holds(word, places) for word in words}
    if not collection.text or extra:
        contents = index.chunks.values("text", rows)
        if not collection.text:
            new = [i for i, row in enumerate(rows.tolist()) if row not in words_of]
            tokens = tokenizer.tokenize([contents[i] for i in new])
            words_of.update(zip(rows[new].tolist(), map(frozenset, tokens), strict=True))
            held = [words_of[row] for row in rows.tolist()]
            hits |= {word: np.array([word in one for one in held]) for word in words}
        for term, names in terms.items():
            if names:
                pattern = _phrase(names)
                hits[term] |= np.array([bool(pattern.search(content)) for content in contents])
    return np.asarray(np.mean(list(hits.values()), axis=0))


def _tokenizer(collection: Collection, index: Index) -> Tokenizer:
    """Return the collection's tokeniser; a collection of structures borrows the index's."""
    for one in (collection, *index.collections.values()):
        if one.text:
            return one.bm25.tokenizer
    return Tokenizer.make(index.manifest.index.bm25.tokenizer)


def bm25_share(
    collection: Collection, texts: Sequence[str], rows: Integers, member: Booleans
) -> Floats:
    """Return BM25 over the plan's largest, (queries, places); 0 where no term matches."""
    return share_of_best(bm25_of(collection, texts, rows), member)


def bm25_of(collection: Collection, texts: Sequence[str], rows: Integers) -> Floats:
    """Return BM25 of each query with its chunks, (queries, places); 0 where there is none."""
    scores = np.zeros(rows.shape)
    places = collection.places_of(rows)
    for q, text in enumerate(texts):
        inside = np.flatnonzero(rows[q] >= 0)
        scores[q, inside] = collection.bm25.scores_of(text, places[q, inside])
    return scores


def share_of_best(bm25: Floats, member: Booleans) -> Floats:
    """Return scores over the largest of the list's members, within [0, 1]; 0 outside it."""
    top = np.where(member, bm25, 0.0).max(axis=1, keepdims=True, initial=0.0)
    share = np.clip(bm25 / np.where(top > 0, top, 1.0), 0.0, 1.0)
    return np.where(member & (top > 0), share, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Neighbours:
    """What stands just before and after each place of a list, in its document and collection.

    `rows` (queries, 2 * places) are chunk rows, -1 for none: before and after the first place,
    then of the second. `at`, of the same shape, is the place of that chunk in the list itself, -1
    where the list does not hold it.
    """

    rows: Integers
    at: Integers

    @classmethod
    def of(
        cls, index: Index, collection: Collection, found: Found, wanted: Booleans
    ) -> "Neighbours":
        """Return the neighbours of all that was searched; none for the queries not `wanted`."""
        queries, places = found.rows.shape
        document = index.chunks.document_of
        rows = (found.rows[:, :, None] + np.array([-1, 1], dtype=np.int32)).reshape(queries, -1)
        held = np.repeat(found.rows, 2, axis=1)
        inside = (held >= 0) & (rows >= 0) & (rows < len(document)) & wanted[:, None]
        inside &= document[np.where(inside, rows, 0)] == document[np.maximum(held, 0)]
        inside &= collection.places_of(np.where(inside, rows, -1)) >= 0
        rows = np.where(inside, rows, -1)
        line = np.arange(queries, dtype=np.int64)[:, None] * (len(document) + 1)
        keys = line + found.rows
        order = np.argsort(keys, axis=None)
        after = np.searchsorted(keys.ravel(), line + rows, sorter=order)
        match = order[np.minimum(after, max(len(order) - 1, 0))] if places else after
        same = inside & (keys.ravel()[match] == line + rows) if places else inside
        return cls(rows, np.where(same, match % max(places, 1), -1).astype(np.int32))


@dataclass(frozen=True, slots=True, eq=False)
class Parents:
    """A list with its parents behind it; `chosen` says which of its neighbours, -1 for none."""

    found: Found
    one: RankedList
    chosen: Integers


def append_parents(index: Index, found: Found, one: RankedList, neighbours: Neighbours) -> Parents:
    """Append to a list the neighbours of its first five hits, in hit order, at its least score.

    A hit's neighbours are the chunks of its document just before and after it, two a document at
    most; those that the list holds already are not repeated.
    """
    queries, places = one.rank.shape
    member = one.rank > 0
    hit = np.full((queries, PARENT_HITS), -1, dtype=np.int64)
    query, place = np.nonzero(member & (one.rank <= PARENT_HITS))
    hit[query, one.rank[query, place] - 1] = place
    near = (hit[:, :, None] * 2 + np.arange(2)).reshape(queries, -1)
    there = np.repeat(hit >= 0, 2, axis=1)
    near = np.where(there, near, 0)
    if not places:
        rows = at = np.full(near.shape, -1, dtype=np.int32)
    else:
        rows = np.take_along_axis(neighbours.rows, near, axis=1)
        at = np.take_along_axis(neighbours.at, near, axis=1)
        there &= (rows >= 0) & ~((at >= 0) & np.take_along_axis(member, np.maximum(at, 0), axis=1))
    taken = _two_a_document(rows, index.chunks.document_of[rows], there)
    turn = np.cumsum(taken, axis=1)
    extra = np.full((queries, PARENT_NEIGHBOURS * PARENT_HITS), -1, dtype=np.int32)
    chosen, added = extra.copy(), np.zeros_like(extra)
    query, place = np.nonzero(taken)
    behind = turn[query, place] - 1
    extra[query, behind] = rows[query, place]
    chosen[query, behind] = near[query, place]
    added[query, behind] = member.sum(axis=1)[query] + behind + 1
    numbers = member & ~np.isnan(one.score)
    least = np.where(numbers, one.score, np.inf).min(axis=1, initial=np.inf)
    least = np.where(numbers.any(axis=1), least, np.where(member.any(axis=1), np.nan, 0.0))
    score = np.concatenate([one.score, np.broadcast_to(least[:, None], extra.shape)], axis=1)
    filler = np.full(extra.shape, np.nan)
    return Parents(
        Found(
            np.concatenate([found.rows, extra], axis=1),
            np.concatenate([found.score, filler], axis=1),
        ),
        RankedList(
            one.item,
            np.concatenate([one.rank, added], axis=1),
            score,
            {name: np.concatenate([part, filler], axis=1) for name, part in one.parts.items()},
        ),
        chosen,
    )


def _two_a_document(rows: Integers, document: Integers, there: Booleans) -> Booleans:
    """Take of each row's candidates, in order, the first of each chunk and two a document."""
    taken = np.zeros_like(there)
    for i in range(there.shape[1]):
        repeated = taken[:, :i] & (rows[:, :i] == rows[:, i : i + 1])
        given = taken[:, :i] & (document[:, :i] == document[:, i : i + 1])
        fits = given.sum(axis=1) < PARENT_NEIGHBOURS
        taken[:, i] = there[:, i] & ~repeated.any(axis=1) & fits
    return taken


def _phrase(names: Sequence[str]) -> re.Pattern[str]:
    words = (r"\s+".join(map(re.escape, name.split())) for name in sorted(names, key=len)[::-1])
    return re.compile(rf"(?<![^\W_])(?:{'|'.join(words)})(?![^\W_])", re.IGNORECASE)
