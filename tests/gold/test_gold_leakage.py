"""Near-duplicate queries: the similarity by hand, and the index against every pair."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gold.leakage import near_duplicates, shared_relevance

A, B = frozenset({"a"}), frozenset({"b"})


def test_similarity_is_the_share_of_trigrams_when_worked_out_by_hand() -> None:
    # " il 2 " gives " il", "il ", "l 2", " 2 "; " il 21 " gives " il", "il ", "l 2", " 21", "21 ":
    # 3 shared of 6 distinct.
    texts, splits = {"x": "IL-2", "y": "il 21!"}, {"x": A, "y": B}
    assert near_duplicates(texts, splits, 0.5) == [("x", "y", 0.5)]
    assert near_duplicates(texts, splits, 0.51) == []


@pytest.mark.parametrize(("left", "right"), [("", ""), ("?!", "..."), ("aspirin", "?")])
def test_texts_without_words_are_no_pair_when_compared(left: str, right: str) -> None:
    assert near_duplicates({"x": left, "y": right}, {"x": A, "y": B}) == []


def test_queries_of_one_split_are_no_pair_when_equal() -> None:
    texts = {"x": "same words", "y": "same words", "z": "same words"}
    pairs = near_duplicates(texts, {"x": A, "y": A, "z": A | B})
    assert [pair[:2] for pair in pairs] == [("x", "z"), ("y", "z")]


@given(
    st.lists(st.text("abc ", min_size=1, max_size=14), min_size=2, max_size=12),
    st.sampled_from([0.5, 0.8, 1.0]),
)
def test_index_misses_no_pair_when_checked_against_all(texts: list[str], threshold: float) -> None:
    named = {str(i): text for i, text in enumerate(texts)}
    splits = {name: A if int(name) % 2 else B for name in named}
    found = {pair[:2] for pair in near_duplicates(named, splits, threshold)}
    alone = set()
    for i in range(len(texts)):
        for j in range(i + 1, len(texts)):
            pair = {str(i): texts[i], str(j): texts[j]}
            if (i + j) % 2 and near_duplicates(pair, splits, threshold):
                alone.add((str(i), str(j)))
    assert found == alone


def test_grades_below_the_bar_are_not_shared_when_counted() -> None:
    left = {"q1": {"d1": 2, "d2": 1}, "q2": {"d2": 2}}
    right = {"q3": {"d1": 1, "d2": 2}, "q4": {"d9": 2}}
    assert shared_relevance(left, right, 2).left == ("q2",)
    shared = shared_relevance(left, right, 1)
    assert (shared.left, shared.right, shared.documents) == (("q1", "q2"), ("q3",), ("d1", "d2"))
