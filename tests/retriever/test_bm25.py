"""BM25 against figures worked out by hand and a scalar reading of the formula."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retriever.config import BM25Config
from retriever.index.bm25 import BM25Index

QUERY = "crispr off-target effects in human ipscs"
# Lengths of eight sentences and how often each word of the query stands in them. What else a
# sentence says does not matter to BM25, so the rest is filled up with words of its own.
LENGTHS = [21, 26, 21, 19, 17, 19, 19, 18]
COUNTS = [
    {"crispr": 1, "in": 1},
    {"crispr": 1, "effects": 1, "in": 1, "human": 1, "ipscs": 1},
    {"in": 1},
    {},
    {"in": 1},
    {"in": 1, "human": 1},
    {"in": 1},
    {},
]


def eight_sentences() -> list[str]:
    return [
        " ".join([*counts, *(f"w{i}x{j}" for j in range(length - len(counts)))])
        for i, (length, counts) in enumerate(zip(LENGTHS, COUNTS, strict=True))
    ]


@pytest.mark.parametrize(
    ("idf", "rows", "scores"),
    [
        ("lucene", [1, 5, 0, 4, 6, 2], [5.7012, 1.6433, 1.5710, 0.3490, 0.3329, 0.3183]),
        ("robertson", [1, 0, 5, 2, 6, 4], [3.6779, 0.0, 0.0, -0.9345, -0.9775, -1.0247]),
    ],
)
def test_scores_are_the_known_figures_when_eight_sentences_are_indexed(
    idf: str, rows: list[int], scores: list[float]
) -> None:
    index = BM25Index.build(eight_sentences(), BM25Config(tokenizer="whitespace", idf=idf))
    found, values = index.search([QUERY], 8)
    assert found[0].tolist() == [*rows, -1, -1]
    assert np.round(values[0, :6], 4) == pytest.approx(scores, abs=1e-12)
    assert np.isnan(values[0, 6:]).all()


def test_one_score_when_worked_out_by_hand() -> None:
    # N = 2, "a" in 1: idf = ln(1.5/1.5 + 1) = ln 2. |D| = 3, avgdl = 2, tf = 2, k1 1.5, b .75:
    # 2 * 2.5 / (2 + 1.5 * (.25 + .75 * 1.5)) = 5 / 4.0625; times ln 2 = .853104
    index = BM25Index.build(["a a b", "c"], BM25Config(tokenizer="whitespace"))
    rows, scores = index.search(["a"], 2)
    assert rows[0, 0] == 0
    assert scores[0, 0] == pytest.approx(round(math.log(2) * 5 / 4.0625, 6), abs=1e-12)


@pytest.mark.parametrize("query", ["", "zzzz", "the of and", "   "])
def test_nothing_is_found_when_no_term_is_shared(query: str) -> None:
    index = BM25Index.build(["aspirin dose", "warfarin dose"], BM25Config())
    rows, scores = index.search([query], 10)
    assert (rows == -1).all()
    assert np.isnan(scores).all()


def test_depth_beyond_the_corpus_is_capped() -> None:
    rows, _ = BM25Index.build(["a", "a b"], BM25Config(tokenizer="whitespace")).search(["a"], 50)
    assert rows.shape == (1, 2)


def test_nothing_fails_when_no_document_has_a_term() -> None:
    index = BM25Index.build(["the", "of"], BM25Config())
    assert (index.search(["aspirin"], 3)[0] == -1).all()


def test_equal_scores_are_ordered_by_row() -> None:
    index = BM25Index.build(["a x"] * 50 + ["b y"] * 3, BM25Config(tokenizer="whitespace"))
    assert index.search(["a"], 10)[0][0].tolist() == list(range(10))


def test_explained_shares_add_up_to_the_score() -> None:
    index = BM25Index.build(eight_sentences(), BM25Config(tokenizer="whitespace"))
    shares = index.explain(QUERY, 1)
    assert set(shares) == {"crispr", "effects", "in", "human", "ipscs"}
    assert sum(shares.values()) == pytest.approx(index.search([QUERY], 1)[1][0, 0], abs=1e-6)


def test_saved_index_answers_alike(tmp_path: object) -> None:
    index = BM25Index.build(eight_sentences(), BM25Config(tokenizer="whitespace"))
    index.save(tmp_path / "bm25")  # type: ignore[operator]
    again = BM25Index.load(tmp_path / "bm25")  # type: ignore[operator]
    for one, other in zip(index.search([QUERY], 8), again.search([QUERY], 8), strict=True):
        assert np.array_equal(one, other, equal_nan=True)


words = st.lists(st.sampled_from("abcdef"), max_size=6)


@settings(max_examples=60, deadline=None)
@given(
    documents=st.lists(words, min_size=1, max_size=8),
    query=words,
    k1=st.sampled_from([0.0, 0.9, 1.5]),
    b=st.sampled_from([0.0, 0.75, 1.0]),
    idf=st.sampled_from(["lucene", "robertson"]),
)
def test_scores_equal_the_formula_term_by_term(
    documents: list[list[str]], query: list[str], k1: float, b: float, idf: str
) -> None:
    texts = [" ".join(document) for document in documents]
    config = BM25Config(tokenizer="whitespace", k1=k1, b=b, idf=idf)  # type: ignore[arg-type]
    rows, scores = BM25Index.build(texts, config).search([" ".join(query)], len(texts))
    found = {int(r): float(s) for r, s in zip(rows[0], scores[0], strict=True) if r >= 0}
    average = sum(map(len, documents)) / len(documents)
    for row, document in enumerate(documents):
        shared = [term for term in query if term in document]
        assert (row in found) == bool(shared)
        expected = 0.0
        for term in shared:
            n, tf = sum(term in other for other in documents), Counter(document)[term]
            odds = (len(documents) - n + 0.5) / (n + 0.5)
            weight = math.log(odds + 1) if idf == "lucene" else math.log(odds)
            norm = 1 - b + b * len(document) / average
            expected += weight * tf * (k1 + 1) / (tf + k1 * norm)
        if shared:
            assert found[row] == pytest.approx(expected, abs=1.1e-6)
