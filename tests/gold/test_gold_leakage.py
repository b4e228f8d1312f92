"""Near-duplicate queries: the similarity by hand, and the index against every pair."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gold.leakage import near_duplicates, shared_relevance

A, B = frozenset({"a"}), frozenset({"b"})


def test_similarity_is_the_share_of_trigrams_when_worked_out_by_hand() -> None:
    # " il 2 " gives " il", "il ", "l 2", " 2 "; " il 21 " gives " il", "il ", "l 2", " 21", "21 ":
    # 3 shared of 6 distinct.
    texts, splits = {"x": "IL-2", "y": "il 21!"}, {"x": A, "y": B}
    assert near_duplicates(texts, splits, 0.5) == [("x", "y", 0.5)]
    assert near_duplicates(texts, splits, 0.51) == []


@pytest.mark.parametrize("swapped", [False, True])
def test_pair_is_found_when_its_similarity_is_the_threshold_itself(swapped: bool) -> None:
    # The short text has 28 + 2 - 2 = 28 trigrams, all in the long one, which has 35: 28/35 = 0.8.
    texts = {"x": "abcdefghijklmnopqrstuvwxyz01", "y": "abcdefghijklmnopqrstuvwxyz01 234567"}
    if swapped:
        texts = dict(reversed(texts.items()))
    assert len(near_duplicates(texts, {"x": A, "y": B}, 0.8)) == 1


@pytest.mark.parametrize(("left", "right"), [("", ""), ("?!", "..."), ("aspirin", "?")])
def test_texts_without_words_are_no_pair_when_compared(left: str, right: str) -> None:
    assert near_duplicates({"x": left, "y": right}, {"x": A, "y": B}) == []


def test_queries_of_one_split_are_no_pair_when_equal() -> None:
    texts = {"x": "same words", "y": "same words", "z": "same words"}
    pairs = near_duplicates(texts, {"x": A, "y": A, "z": A | B})
    assert [pair[:2] for pair in pairs] == [("x", "z"), ("y", "z")]


def by_hand(left: str, right: str) -> float:
    spaced = [f" {' '.join(text.split())} " if text.split() else "" for text in (left, right)]
    one, other = ({text[i : i + 3] for i in range(len(text) - 2)} for text in spaced)
    return len(one & other) / len(one | other) if one and other else 0.0


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.text("abc ", max_size=16), min_size=2, max_size=12),
    st.sampled_from([0.3, 0.5, 0.8, 1.0]),
)
def test_index_misses_no_pair_when_checked_against_all(texts: list[str], threshold: float) -> None:
    named = {str(i): text for i, text in enumerate(texts)}
    splits = {name: A if int(name) % 2 else B for name in named}
    found = {pair[:2] for pair in near_duplicates(named, splits, threshold)}
    assert found == {
        (left, right)
        for left, right in combinations(named, 2)
        if splits[left] != splits[right] and by_hand(named[left], named[right]) >= threshold
    }


def test_grades_below_the_bar_are_not_shared_when_counted() -> None:
    left = {"q1": {"d1": 2, "d2": 1}, "q2": {"d2": 2}}
    right = {"q3": {"d1": 1, "d2": 2}, "q4": {"d9": 2}}
    assert shared_relevance(left, right, 2).left == ("q2",)
    shared = shared_relevance(left, right, 1)
    assert (shared.left, shared.right, shared.documents) == (("q1", "q2"), ("q3",), ("d1", "d2"))
