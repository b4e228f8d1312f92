"""BM25 over chunks: Robertson and Zaragoza's formula, exact in float64.

    score(q, D) = sum over terms t of q of  idf(t) * tf (k1 + 1) / (tf + k1 (1 - b + b |D| / avgdl))
    idf (lucene)    = ln((N - n + 0.5) / (n + 0.5) + 1)
    idf (robertson) = ln((N - n + 0.5) / (n + 0.5)),  negative where n > N / 2

bm25s computes the term-document scores when the index is built (it leaves out the constant k1 + 1
and floors Robertson's idf; both are put right here). A search adds up columns of that matrix and
orders by score, then by row; a chunk that shares no term with the query is no result.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from retriever.config import BM25Config
from retriever.files import InputError
from retriever.index.damage import read_array, reading
from retriever.index.tokens import KINDS, TOKENS_VERSION, Tokenizer
from retriever.types import Booleans, Floats, Integers

__all__ = ["BM25Index"]

DECIMALS = 6


@dataclass(frozen=True)
class BM25Index:
    """A term-document matrix of BM25 scores, by column: term t owns indptr[t]:indptr[t + 1].

    `rows` and `shares` hold the chunks of each term in rising order and what the term gives them.
    `folder` is where they were read.
    """

    tokenizer: Tokenizer
    vocabulary: tuple[str, ...]
    indptr: npt.NDArray[np.int64]
    rows: Integers
    shares: Floats
    count: int
    folder: Path | None = None

    @classmethod
    def build(cls, texts: Sequence[str], config: BM25Config) -> "BM25Index":
        """Index `texts`, row i being texts[i]."""
        import bm25s

        tokenizer = Tokenizer.make(config.tokenizer)
        tokens = tokenizer.tokenize(texts)
        if not any(tokens):
            empty = np.zeros(0, dtype=np.int32)
            start = np.zeros(1, dtype=np.int64)
            return cls(tokenizer, (), start, empty, np.zeros(0), len(texts))
        model = bm25s.BM25(method="lucene", k1=config.k1, b=config.b, dtype="float64")
        model.index(tokens, show_progress=False)
        terms = sorted(
            (term for term in model.vocab_dict if term), key=model.vocab_dict.__getitem__
        )
        indptr = np.asarray(model.scores["indptr"], dtype=np.int64)
        rows = np.asarray(model.scores["indices"], dtype=np.int32)
        shares = np.asarray(model.scores["data"], dtype=np.float64) * (config.k1 + 1)
        document_frequency = np.diff(indptr)
        if config.idf == "robertson":
            n, total = document_frequency, len(texts)
            odds = (total - n + 0.5) / (n + 0.5)
            shares = shares * np.repeat(np.log(odds) / np.log1p(odds), n)
        owner = np.repeat(np.arange(len(document_frequency)), document_frequency)
        by_term_then_row = np.lexsort((rows, owner))
        return cls(
            tokenizer,
            tuple(terms),
            indptr[: len(terms) + 1],
            rows[by_term_then_row],
            shares[by_term_then_row],
            len(texts),
        )

    @cached_property
    def _term_ids(self) -> dict[str, int]:
        return {term: i for i, term in enumerate(self.vocabulary)}

    def search(
        self,
        queries: Sequence[str],
        depth: int,
        allowed: Sequence[Integers | None] | None = None,
    ) -> tuple[Integers, Floats]:
        """Return the best `depth` rows of each query and their scores, rounded to 6 decimals.

        Both have shape (queries, depth), padded with -1 and NaN. Ties are broken by row. A query
        with `allowed` rows finds only those.
        """
        depth = min(depth, self.count) if self.count else 0
        found_rows = np.full((len(queries), depth), -1, dtype=np.int32)
        found_scores = np.full((len(queries), depth), np.nan)
        for q, tokens in enumerate(self.tokenizer.tokenize(queries)):
            rows, scores = self._score(tokens)
            inside = None if allowed is None else allowed[q]
            if inside is not None:
                kept = np.isin(rows, inside)
                rows, scores = rows[kept], scores[kept]
            if len(rows) > depth:
                floor = np.partition(scores, len(scores) - depth)[len(scores) - depth]
                rows, scores = rows[scores >= floor], scores[scores >= floor]
            best = np.lexsort((rows, -scores))[:depth]
            found_rows[q, : len(best)] = rows[best]
            found_scores[q, : len(best)] = scores[best]
        return found_rows, found_scores

    def scores_of(self, query: str, rows: Integers) -> Floats:
        """Return the score of some rows for one query, 0 where no term is shared."""
        matched, scores = self._score(self.tokenizer.tokenize([query])[0])
        total = np.zeros(self.count)
        total[matched] = scores
        return total[rows]

    def terms_of(self, query: str) -> tuple[str, ...]:
        """Return the distinct terms of a query in order, those no chunk holds included."""
        return tuple(dict.fromkeys(self.tokenizer.tokenize([query])[0]))

    def idf(self, term: str) -> float:
        """Return `ln((N - n + 0.5) / (n + 0.5) + 1)` of a term, n being 0 for an unknown one."""
        at = self._term_ids.get(term)
        n = 0 if at is None else int(self.indptr[at + 1] - self.indptr[at])
        return math.log((self.count - n + 0.5) / (n + 0.5) + 1)

    def holds(self, term: str, rows: Integers) -> Booleans:
        """Tell which of some rows hold a term."""
        at = self._term_ids.get(term)
        if at is None:
            return np.zeros(rows.shape, dtype=np.bool_)
        held = np.asarray(self.rows[self.indptr[at] : self.indptr[at + 1]])
        if not len(held):
            return np.zeros(rows.shape, dtype=np.bool_)
        found: Booleans = held.take(np.searchsorted(held, rows), mode="clip") == rows
        return found

    def explain(self, query: str, row: int) -> dict[str, float]:
        """Return what each distinct term of the query adds to the score of `row`."""
        given: dict[str, float] = {}
        for token in self.tokenizer.tokenize([query])[0]:
            term = self._term_ids.get(token)
            if term is None:
                continue
            start, stop = self.indptr[term], self.indptr[term + 1]
            at = start + np.searchsorted(self.rows[start:stop], row)
            if at < stop and self.rows[at] == row:
                given[token] = given.get(token, 0.0) + float(self.shares[at])
        return given

    def _score(self, tokens: Sequence[str]) -> tuple[Integers, Floats]:
        """Rows that share a term with the query, rising, and the sum of their shares."""
        known = [self._term_ids[token] for token in tokens if token in self._term_ids]
        if not known:
            return np.zeros(0, dtype=np.int32), np.zeros(0)
        spans = [slice(self.indptr[term], self.indptr[term + 1]) for term in known]
        rows = np.concatenate([self.rows[span] for span in spans])
        shares = np.concatenate([self.shares[span] for span in spans])
        # The mapped rows are checked as they are used: checking all would read all.
        if self.folder and len(rows) and (rows.min() < 0 or rows.max() >= self.count):
            with reading(self.folder / "rows.npy"):
                raise ValueError("a row that the collection does not have")
        totals = np.bincount(rows, weights=shares, minlength=self.count)
        matched = (
            np.unique(rows)
            if len(rows) < self.count
            else np.flatnonzero(np.bincount(rows, minlength=self.count))
        )
        return matched.astype(np.int32, copy=False), np.round(totals[matched], DECIMALS)

    def save(self, folder: Path) -> None:
        """Write the index as files of its own under `folder`."""
        folder.mkdir(parents=True, exist_ok=True)
        np.save(folder / "indptr.npy", self.indptr)
        np.save(folder / "rows.npy", self.rows)
        np.save(folder / "shares.npy", self.shares)
        record = {
            "tokenizer": self.tokenizer.kind,
            "tokens_version": TOKENS_VERSION,
            "stop_words": sorted(self.tokenizer.stop_words),
            "count": self.count,
            "vocabulary": self.vocabulary,
        }
        (folder / "terms.json").write_text(json.dumps(record, ensure_ascii=False), "utf-8")

    @classmethod
    def load(cls, folder: Path) -> "BM25Index":
        """Read what `save` wrote; the large arrays are mapped, not read.

        Raises InputError for a damaged file, or terms that another version made.
        """
        file = folder / "terms.json"
        with reading(file):
            record = json.loads(file.read_text("utf-8"))
            version = record["tokens_version"]
        if version != TOKENS_VERSION:
            raise InputError(
                f"its terms are of version {version}, this program's of {TOKENS_VERSION}",
                path=folder,
                fix="build the index anew",
            )
        with reading(file):
            tokenizer, vocabulary, count = _terms_of(record)
        indptr = read_array(folder / "indptr.npy", np.int64)
        rows = read_array(folder / "rows.npy", np.int32, mapped=True)
        shares = read_array(folder / "shares.npy", np.float64, mapped=True)
        with reading(folder / "indptr.npy"):
            _check_spans(indptr, len(vocabulary), len(rows), len(shares))
        return cls(tokenizer, vocabulary, indptr, rows, shares, count, folder)


def _terms_of(record: Mapping[str, Any]) -> tuple[Tokenizer, tuple[str, ...], int]:
    """Tokeniser, vocabulary and number of rows; ValueError for what `save` never wrote."""
    kind, count = record["tokenizer"], record["count"]
    vocabulary, stop_words = tuple(record["vocabulary"]), frozenset(record["stop_words"])
    if kind not in KINDS:
        raise ValueError(f"no tokenizer {kind!r}")
    if type(count) is not int or count < 0:
        raise ValueError(f"count is {count!r}")
    if not all(isinstance(term, str) for term in (*vocabulary, *stop_words)):
        raise ValueError("a term is no text")
    return Tokenizer(kind, stop_words), vocabulary, count


def _check_spans(indptr: npt.NDArray[np.int64], terms: int, rows: int, shares: int) -> None:
    if len(indptr) != terms + 1 or rows != shares:
        raise ValueError(f"{len(indptr) - 1} of {terms} terms, {rows} rows, {shares} shares")
    if indptr[0] != 0 or indptr[-1] > rows or np.any(np.diff(indptr) < 0):
        raise ValueError("the terms' places do not rise")
