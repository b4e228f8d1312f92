"""Fusion: figures worked out by hand, invariants, and the total order."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retriever.config import MergeConfig
from retriever.stages.merge import merge
from retriever.stages.recall import lay_out
from retriever.types import ListId, Lists, Ranking

DENSE, BM25 = ListId("eagle_text", "dense"), ListId("eagle_text", "bm25")


def lists_of(
    *lists: Sequence[int], ids: Sequence[ListId] = (BM25, DENSE), scores: object = None
) -> Lists:
    """One query; each list gives chunk rows, best first; scores fall from 1 unless given."""
    found = []
    for i, rows in enumerate(lists):
        values = np.linspace(1, 0.1, len(rows)) if scores is None else np.array(scores[i])  # type: ignore[index]
        found.append((np.array([rows], dtype=np.int32).reshape(1, -1), values.reshape(1, -1)))
    return lay_out(ids[: len(lists)], found, 1)


def ranked(lists: Lists, ranking: Ranking) -> list[tuple[int, float]]:
    slots = ranking.order[0, : ranking.count[0]]
    return [(int(lists.chunk[0, s]), float(ranking.score[0, s])) for s in slots]


def test_rrf_gives_the_known_figures_when_two_lists_agree_in_part() -> None:
    # 1: 1/61 + 1/62, 5: 1/63 + 1/61, 0: 1/62 + 1/63, 7: 1/64 + 1/64, 6 and 4: 1/65
    lists = lists_of([1, 0, 5, 7, 6], [5, 1, 0, 7, 4])
    found = ranked(lists, merge(MergeConfig(method="rrf"), lists))
    assert [chunk for chunk, _ in found] == [1, 5, 0, 7, 4, 6]
    assert [score for _, score in found] == pytest.approx(
        [1 / 61 + 1 / 62, 1 / 63 + 1 / 61, 1 / 62 + 1 / 63, 2 / 64, 1 / 65, 1 / 65], abs=1e-12
    )
    shown = [round(score, 6) for _, score in found]
    assert shown == [0.032522, 0.032266, 0.032002, 0.03125, 0.015385, 0.015385]


def test_rrf_gives_the_known_figures_when_bm25_and_dense_are_cut_to_five() -> None:
    lists = lists_of([1, 5, 0, 4, 6], [1, 7, 5, 0, 3])
    found = ranked(lists, merge(MergeConfig(method="rrf"), lists))[:5]
    assert [(chunk, round(score, 5)) for chunk, score in found] == [
        (1, 0.03279),
        (5, 0.032),
        (0, 0.0315),
        (7, 0.01613),
        (4, 0.01562),
    ]


def test_rrf_weights_a_list_when_told_to() -> None:
    # bm25 weight 2: chunk 1 at rank 1 of bm25 gives 2/61; chunk 2 at rank 1 of dense 1/61
    lists = lists_of([1, 3], [2, 3])
    config = MergeConfig(method="rrf", weights={"bm25": 2.0})
    assert dict(ranked(lists, merge(config, lists))) == pytest.approx(
        {1: 2 / 61, 2: 1 / 61, 3: 2 / 62 + 1 / 62}, abs=1e-12
    )


def test_single_list_passes_through_with_its_scores_when_the_other_is_empty() -> None:
    lists = lists_of([7, 3], [], scores=[[8.5, 2.25], []])
    assert ranked(lists, merge(MergeConfig(method="rrf"), lists)) == [(7, 8.5), (3, 2.25)]


def test_minmax_is_the_weighted_sum_of_scaled_lists() -> None:
    # bm25 10, 6, 2 -> 1, .5, 0; dense .9, .7 -> 1, 0. At .25 / .75: chunk 1 .25*1 + .75*0,
    # chunk 2 .25*.5 + .75*1 = .875, chunk 3 0
    lists = lists_of([1, 2, 3], [2, 1], scores=[[10, 6, 2], [0.9, 0.7]])
    config = MergeConfig(weights={"bm25": 0.25, "dense": 0.75})
    assert ranked(lists, merge(config, lists)) == [(2, 0.875), (1, 0.25), (3, 0.0)]


def test_equal_weights_mean_half_to_each_search_when_dense_has_two_lists() -> None:
    other = ListId("eagle_more", "dense")
    lists = lists_of([1], [2], [3], ids=(other, BM25, DENSE))
    weight = merge(MergeConfig(), lists).weight[:, 0].tolist()
    assert weight == [0.25, 0.5, 0.25]


def test_weight_of_an_empty_list_goes_to_the_others() -> None:
    lists = lists_of([], [4, 5])
    assert merge(MergeConfig(), lists).weight[:, 0].tolist() == [0.0, 1.0]


def test_list_of_equal_scores_counts_as_one_throughout() -> None:
    lists = lists_of([1, 2], [3], scores=[[5.0, 5.0], [0.4]])
    assert ranked(lists, merge(MergeConfig(), lists)) == [(1, 0.5), (3, 0.5), (2, 0.5)]


@pytest.mark.parametrize("method", ["rrf", "minmax"])
@pytest.mark.parametrize(("weights", "arm"), [({"bm25": 0.0}, 1), ({"dense": 0.0}, 0)])
def test_weight_zero_equals_the_pure_arm(method: str, weights: dict[str, float], arm: int) -> None:
    both = ([1, 0, 5, 7, 6], [5, 1, 0, 9, 4])
    lists = lists_of(*both)
    found = ranked(lists, merge(MergeConfig(method=method, weights=weights), lists))  # type: ignore[arg-type]
    assert [chunk for chunk, _ in found] == both[arm]


def two_collections() -> Lists:
    """Chunk 3 stands first in two collections' lists, chunk 8 second in one."""
    other = ListId("eagle_other", "dense")
    return lists_of([3, 8], [3], ids=(other, DENSE))


def test_one_chunk_in_two_collections_adds_up_when_keyed_by_source() -> None:
    lists = two_collections()
    found = merge(MergeConfig(method="rrf"), lists)
    assert ranked(lists, found) == [
        (3, round(1 / 61 + 1 / 61, 12)),
        (8, round(1 / 62, 12)),
    ]
    assert [(e.event, e.count) for e in found.audit] == [("rrf_dedupe", 1)]


def test_one_chunk_in_two_collections_collapses_when_keyed_by_node() -> None:
    lists = two_collections()
    found = merge(MergeConfig(method="rrf", rrf_key="node_id"), lists)
    assert ranked(lists, found) == [(3, round(1 / 61, 12)), (8, round(1 / 62, 12))]


rows = st.lists(st.integers(0, 30), unique=True, max_size=12)


@settings(max_examples=80, deadline=None)
@given(
    first=rows,
    second=rows,
    third=rows,
    method=st.sampled_from(["rrf", "minmax"]),
    k=st.sampled_from([0.0, 1.0, 60.0]),
    order=st.permutations([0, 1, 2]),
)
def test_order_of_the_lists_changes_nothing(
    first: list[int], second: list[int], third: list[int], method: str, k: float, order: list[int]
) -> None:
    ids = (BM25, DENSE, ListId("eagle_other", "dense"))
    given_lists = (first, second, third)
    straight = lists_of(*given_lists, ids=ids)
    turned = lists_of(*(given_lists[i] for i in order), ids=tuple(ids[i] for i in order))
    config = MergeConfig(method=method, rrf_k=k)  # type: ignore[arg-type]
    one, other = (ranked(lists, merge(config, lists)) for lists in (straight, turned))
    assert [chunk for chunk, _ in one] == [chunk for chunk, _ in other]
    assert [score for _, score in one] == pytest.approx([score for _, score in other], abs=2e-12)


@settings(max_examples=80, deadline=None)
@given(first=rows, second=rows, method=st.sampled_from(["rrf", "minmax"]))
def test_ranking_is_a_permutation_of_the_union_in_total_order(
    first: list[int], second: list[int], method: str
) -> None:
    lists = lists_of(first, second)
    found = ranked(lists, merge(MergeConfig(method=method), lists))  # type: ignore[arg-type]
    assert sorted(chunk for chunk, _ in found) == sorted({*first, *second})

    def best(chunk: int) -> int:
        return min(ranking.index(chunk) for ranking in (first, second) if chunk in ranking)

    keys = [(-score, best(chunk), chunk) for chunk, score in found]
    assert keys == sorted(keys)
