"""Splits and folds: groups stay whole, shares are kept by type, little moves."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gold import GoldQuery, InputError, Move, folds, make_splits, moved

SHARES = {"train": 0.6, "validation": 0.2, "test": 0.2}


def queries(*identifiers: str, kinds: tuple[str, ...] = ("",)) -> dict[str, GoldQuery]:
    return {q: GoldQuery(q, q, type=kinds[i % len(kinds)]) for i, q in enumerate(identifiers)}


def many(count: int, *kinds: str) -> dict[str, GoldQuery]:
    return queries(*(f"q{i:04}" for i in range(count)), kinds=kinds or ("",))


def own_document(asked: dict[str, GoldQuery]) -> dict[str, dict[str, int]]:
    return {query_id: {f"d-{query_id}": 1} for query_id in asked}


def test_queries_stay_together_when_a_chain_of_documents_links_them() -> None:
    asked = many(200)
    qrels = own_document(asked)
    qrels["q0000"], qrels["q0100"] = {"d1": 1}, {"d1": 1, "d2": 1}
    qrels["q0199"] = {"d2": 1}
    qrels["q0050"] = {"d1": 0}  # not relevant: no link
    splits = make_splits(asked, qrels, SHARES)
    assert (splits.groups, splits.largest_group) == (198, 3)
    assert len({splits.assignment[q] for q in ("q0000", "q0100", "q0199")}) == 1
    apart = make_splits(asked, qrels, SHARES, keep_together=False)
    assert (apart.groups, apart.largest_group) == (200, 1)


def test_grade_below_the_bar_links_nothing_when_the_bar_is_raised() -> None:
    asked = queries("a", "b")
    qrels = {"a": {"d": 1}, "b": {"d": 2}}
    assert make_splits(asked, qrels, SHARES).groups == 1
    assert make_splits(asked, qrels, SHARES, relevant_from=2).groups == 2


def test_each_type_keeps_the_shares_when_queries_stand_alone() -> None:
    # 100 queries of each type: 60, 20, 20. A border can cut through at most one query.
    asked = many(200, "regulatory", "mechanism")
    splits = make_splits(asked, own_document(asked), SHARES)
    for split, share in SHARES.items():
        for kind in ("regulatory", "mechanism"):
            assert abs(splits.by_type[split][kind] - 100 * share) <= 1
    assert splits.notes == ()


def test_types_of_one_query_spread_over_the_splits_when_many() -> None:
    asked = many(300, *(f"type{i}" for i in range(300)))
    found = Counter(make_splits(asked, own_document(asked), SHARES).assignment.values())
    # Binomial: 300 x .6 = 180 with a standard deviation of 8.5; four of them are 34.
    assert abs(found["train"] - 180) < 34


def test_cross_validation_is_advised_when_queries_are_under_150() -> None:
    asked = many(149)
    (note,) = make_splits(asked, own_document(asked), SHARES).notes
    assert "149 queries are too few" in note
    assert "cross-validation takes its place" in note
    assert make_splits(many(150), {}, SHARES).notes == ()


def test_empty_split_is_noted_when_one_group_holds_all() -> None:
    asked = many(150)
    splits = make_splits(asked, {q: {"d": 1} for q in asked}, SHARES)
    assert sorted(map(len, splits.by_type.values())) == [0, 0, 1]
    assert len(splits.notes) == 2


def test_seed_changes_the_splits_and_nothing_else_does() -> None:
    asked = many(200, "a", "b")
    qrels = own_document(asked)
    once = make_splits(asked, qrels, SHARES).assignment
    backwards = dict(reversed(asked.items()))
    assert make_splits(backwards, dict(reversed(qrels.items())), SHARES).assignment == once
    assert make_splits(asked, qrels, SHARES, seed="other").assignment != once


def test_assignment_is_this_one_when_made_on_any_machine() -> None:
    asked = many(8)
    splits = make_splits(asked, {}, {"train": 0.5, "test": 0.5})
    # Pinned: a change here moves the queries of every set that was split before.
    train = [query_id for query_id, split in splits.assignment.items() if split == "train"]
    assert train == ["q0000", "q0001", "q0003", "q0004"]


@settings(deadline=None, max_examples=50)
@given(st.integers(150, 250), st.integers(0, 10**6))
def test_few_queries_move_when_one_is_added(count: int, number: int) -> None:
    asked = many(count)
    grown = asked | queries(f"new{number}")
    before = make_splits(asked, {}, SHARES).assignment
    after = make_splits(grown, {}, SHARES).assignment
    # Each middle shifts by under one query's width: at each of 3 borders one query may cross.
    assert len(moved(before, after)) <= 3


def test_moves_are_listed_when_assignments_differ() -> None:
    before = {"a": "train", "b": "test", "gone": "test"}
    after = {"b": "train", "a": "train", "new": "test"}
    assert moved(before, after) == (Move("b", "test", "train"),)


@pytest.mark.parametrize(
    "shares", [{}, {"a": 0.5}, {"a": 1.2, "b": -0.2}, {"a": 1.0, "b": 0.0}, {"a": float("nan")}]
)
def test_shares_are_refused_when_they_do_not_divide(shares: dict[str, float]) -> None:
    with pytest.raises(InputError, match="share"):
        make_splits(many(2), {}, shares)


def test_splitting_is_refused_when_there_is_no_query() -> None:
    with pytest.raises(InputError, match="no query"):
        make_splits({}, {}, SHARES)


QRELS = st.dictionaries(
    st.sampled_from([f"q{i:04}" for i in range(12)]),
    st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 1), max_size=3),
)


@settings(deadline=None, max_examples=50)
@given(QRELS, st.integers(2, 6))
def test_folds_are_whole_disjoint_and_never_empty_when_they_can_be(
    qrels: dict[str, dict[str, int]], k: int
) -> None:
    asked = many(12, "x", "y", "z")
    groups = make_splits(asked, qrels, {"all": 1.0}).groups
    if groups < k:
        with pytest.raises(InputError, match=f"take 2 to {groups}"):
            folds(asked, qrels, k)
        return
    parts = folds(asked, qrels, k)
    assert sorted(q for part in parts for q in part) == sorted(asked)
    assert all(parts)
    relevant = [{d for q in part for d, g in qrels.get(q, {}).items() if g} for part in parts]
    assert sum(map(len, relevant)) == len(set().union(*relevant))


def test_folds_balance_types_when_queries_stand_alone() -> None:
    asked = many(60, "x", "x", "y")
    for fold in folds(asked, {}, 5):
        # 40 x and 20 y over five folds: 8 and 4 each.
        assert Counter(asked[q].type for q in fold) == {"x": 8, "y": 4}


@pytest.mark.parametrize("k", [1, 3])
def test_folds_are_refused_when_k_does_not_fit(k: int) -> None:
    with pytest.raises(InputError, match="folds of 2 queries"):
        folds(many(2), {}, k)
