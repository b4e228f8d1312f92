"""Fusion: figures worked out by hand, invariants, and the total order."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retriever.config import MergeConfig
from retriever.order import by_score
from retriever.stages.merge import merge
from retriever.stages.recall import cut, lay_out
from retriever.types import Found, ListId, RankedList, Ranking, Routing, Slots

DENSE, BM25 = ListId("eagle_text", "dense"), ListId("eagle_text", "bm25")


@dataclass(frozen=True)
class World:
    """One query's lists, laid out."""

    slots: Slots
    lists: list[RankedList]

    def fused(self, **config: object) -> Ranking:
        names = sorted({one.item.collection for one in self.lists})
        models = [one.item.search for one in self.lists]
        section = MergeConfig(**config)  # type: ignore[arg-type]
        return merge(section, self.slots, self.lists, names, models)

    def ranked(self, **config: object) -> list[tuple[int, float]]:
        ranking = self.fused(**config)
        slots = ranking.order[0, : ranking.count[0]]
        return [(int(self.slots.chunk[0, s]), float(ranking.score[0, s])) for s in slots]


def lists_of(
    *lists: Sequence[int],
    ids: Sequence[ListId] = (BM25, DENSE),
    scores: Sequence[Sequence[float]] | None = None,
) -> World:
    """One query; each list gives chunk rows, best first; scores fall from 1 unless given."""
    ids = tuple(ids[: len(lists)])
    found = []
    for i, rows in enumerate(lists):
        values = np.linspace(1, 0.1, len(rows)) if scores is None else np.array(scores[i])
        found.append(Found(np.array([rows], dtype=np.int32).reshape(1, -1), values.reshape(1, -1)))
    routing = Routing(ids, np.ones((len(ids), 1), np.bool_), np.full(len(ids), 99, np.int32))
    nothing = np.zeros((1, 0), dtype=np.int32)
    ranked = [cut(routing, item, one) for item, one in zip(ids, found, strict=True)]
    return World(lay_out(ids, [one.rows for one in found], nothing, 1), ranked)


def test_rrf_gives_the_known_figures_when_two_lists_agree_in_part() -> None:
    # 1: 1/61 + 1/62, 5: 1/63 + 1/61, 0: 1/62 + 1/63, 7: 1/64 + 1/64, 6 and 4: 1/65
    world = lists_of([1, 0, 5, 7, 6], [5, 1, 0, 7, 4])
    found = world.ranked(method="rrf")
    assert [chunk for chunk, _ in found] == [1, 5, 0, 7, 4, 6]
    assert [score for _, score in found] == pytest.approx(
        [1 / 61 + 1 / 62, 1 / 63 + 1 / 61, 1 / 62 + 1 / 63, 2 / 64, 1 / 65, 1 / 65], abs=1e-12
    )
    shown = [round(score, 6) for _, score in found]
    assert shown == [0.032522, 0.032266, 0.032002, 0.03125, 0.015385, 0.015385]


def test_rrf_gives_the_known_figures_when_bm25_and_dense_are_cut_to_five() -> None:
    world = lists_of([1, 5, 0, 4, 6], [1, 7, 5, 0, 3])
    found = world.ranked(method="rrf")[:5]
    assert [(chunk, round(score, 5)) for chunk, score in found] == [
        (1, 0.03279),
        (5, 0.032),
        (0, 0.0315),
        (7, 0.01613),
        (4, 0.01562),
    ]


def test_rrf_weights_a_list_when_told_to() -> None:
    # bm25 weight 2: chunk 1 at rank 1 of bm25 gives 2/61; chunk 2 at rank 1 of dense 1/61
    world = lists_of([1, 3], [2, 3])
    assert dict(world.ranked(method="rrf", weights={"bm25": 2.0})) == pytest.approx(
        {1: 2 / 61, 2: 1 / 61, 3: 2 / 62 + 1 / 62}, abs=1e-12
    )


def test_single_list_passes_through_with_its_scores_when_the_other_is_empty() -> None:
    world = lists_of([7, 3], [], scores=[[8.5, 2.25], []])
    assert world.ranked(method="rrf") == [(7, 8.5), (3, 2.25)]


def test_minmax_is_the_weighted_sum_of_scaled_lists() -> None:
    # bm25 10, 6, 2 -> 1, .5, 0; dense .9, .7 -> 1, 0. At .25 / .75: chunk 1 .25*1 + .75*0,
    # chunk 2 .25*.5 + .75*1 = .875, chunk 3 0
    world = lists_of([1, 2, 3], [2, 1], scores=[[10, 6, 2], [0.9, 0.7]])
    assert world.ranked(weights={"bm25": 0.25, "dense": 0.75}) == [(2, 0.875), (1, 0.25), (3, 0.0)]


def test_equal_weights_mean_half_to_each_search_when_dense_has_two_lists() -> None:
    other = ListId("eagle_more", "dense")
    world = lists_of([1], [2], [3], ids=(other, BM25, DENSE))
    weight = world.fused(minmax_over="list").weight[:, 0].tolist()
    assert weight == [0.25, 0.5, 0.25]


def test_lists_of_one_model_are_scaled_together_as_if_they_were_one() -> None:
    # dense .9, .7, .5 and, in a small collection, .6 and .1: as one list of three .9, .7, .6, so
    # 1, 1/3, 0. Alone the small collection's best would count as much as the best of all.
    small = ListId("eagle_small", "dense")
    world = lists_of([1, 2, 3], [4, 5], ids=(DENSE, small), scores=[[0.9, 0.7, 0.5], [0.6, 0.1]])
    assert world.ranked() == [(1, 1.0), (2, round(1 / 3, 12)), (4, 0.0)]
    alone = dict(world.ranked(minmax_over="list"))
    assert alone == {1: 0.5, 4: 0.5, 2: 0.25, 3: 0.0, 5: 0.0}


def test_chunk_in_two_collections_of_one_model_counts_once() -> None:
    small = ListId("eagle_small", "dense")
    world = lists_of([1, 2], [1], ids=(DENSE, small), scores=[[0.9, 0.5], [0.9]])
    assert world.ranked() == [(1, 1.0), (2, 0.0)]


def test_weight_of_an_empty_list_goes_to_the_others() -> None:
    world = lists_of([], [4, 5])
    assert world.fused().weight[:, 0].tolist() == [0.0, 1.0]


def test_list_of_equal_scores_counts_as_one_throughout() -> None:
    world = lists_of([1, 2], [3], scores=[[5.0, 5.0], [0.4]])
    assert world.ranked() == [(1, 0.5), (3, 0.5), (2, 0.5)]


@pytest.mark.parametrize("method", ["rrf", "minmax"])
@pytest.mark.parametrize(("weights", "arm"), [({"bm25": 0.0}, 1), ({"dense": 0.0}, 0)])
def test_weight_zero_equals_the_pure_arm(method: str, weights: dict[str, float], arm: int) -> None:
    both = ([1, 0, 5, 7, 6], [5, 1, 0, 9, 4])
    world = lists_of(*both)
    found = world.ranked(method=method, weights=weights)
    assert [chunk for chunk, _ in found] == both[arm]


def two_collections() -> World:
    """Chunk 3 stands first in two collections' lists, chunk 8 second in one."""
    other = ListId("eagle_other", "dense")
    return lists_of([3, 8], [3], ids=(other, DENSE))


def test_one_chunk_in_two_collections_adds_up_when_keyed_by_source() -> None:
    world = two_collections()
    assert world.ranked(method="rrf") == [(3, round(1 / 61 + 1 / 61, 12)), (8, round(1 / 62, 12))]
    (event,) = world.fused(method="rrf").audit
    assert (event.event, event.where.tolist()) == ("rrf_dedupe", [True])


def test_one_chunk_in_two_collections_collapses_when_keyed_by_node() -> None:
    world = two_collections()
    found = world.ranked(method="rrf", rrf_key="node_id")
    assert found == [(3, round(1 / 61, 12)), (8, round(1 / 62, 12))]


def test_better_placed_node_stands_for_its_chunk_when_two_score_alike() -> None:
    # chunk 3 at rank 62 with weight 2 and at rank 1 with weight 1: 2 / 122 = 1 / 61
    other = ListId("eagle_a", "dense")
    world = lists_of([*range(100, 161), 3], [3], ids=(other, DENSE))
    ranking = world.fused(method="rrf", rrf_key="node_id", weights={"eagle_a:dense": 2.0})
    slot = world.slots.chunk[0].tolist().index(3)
    assert ranking.score[0, slot] == round(1 / 61, 12)
    assert ranking.node[0, slot] == 1


def test_two_lists_of_one_collection_are_no_duplicates() -> None:
    assert lists_of([1, 2], [1, 3]).fused().audit == ()


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
    one, other = (world.ranked(method=method, rrf_k=k) for world in (straight, turned))
    assert [chunk for chunk, _ in one] == [chunk for chunk, _ in other]
    assert [score for _, score in one] == pytest.approx([score for _, score in other], abs=2e-12)


@settings(max_examples=80, deadline=None)
@given(first=rows, second=rows, method=st.sampled_from(["rrf", "minmax"]))
def test_ranking_is_a_permutation_of_the_union_in_total_order(
    first: list[int], second: list[int], method: str
) -> None:
    world = lists_of(first, second)
    found = world.ranked(method=method)
    assert sorted(chunk for chunk, _ in found) == sorted({*first, *second})

    def best(chunk: int) -> int:
        return min(ranking.index(chunk) for ranking in (first, second) if chunk in ranking)

    keys = [(-score, best(chunk), chunk) for chunk, score in found]
    assert keys == sorted(keys)


SCORES = st.sampled_from([0.0, -0.0, 1.0, 1.0 + 1e-12, 2.5, -3.0, 1e-12, np.nan, -np.inf, 1e30])


@given(data=st.data(), width=st.integers(0, 7), queries=st.integers(1, 4))
def test_places_go_by_score_then_by_what_is_earlier(
    data: st.DataObject, width: int, queries: int
) -> None:
    def drawn(values: st.SearchStrategy[object], kind: type) -> np.ndarray:
        row = st.lists(values, min_size=width, max_size=width)
        table = data.draw(st.lists(row, min_size=queries, max_size=queries))
        return np.array(table, dtype=kind).reshape(queries, width)

    score, inside = drawn(SCORES, np.float64), drawn(st.booleans(), np.bool_)
    earlier = drawn(st.integers(0, 2**20), np.int32)
    found = by_score(score, inside, earlier)
    for q in range(queries):

        def rank(place: int, q: int = q) -> tuple[object, ...]:
            value = score[q, place]
            number = bool(np.isfinite(value))
            if not inside[q, place]:
                return (2, 0.0, 0.0, 0, place)
            return (0, not number, -value if number else 0.0, int(earlier[q, place]), place)

        assert found[q].tolist() == sorted(range(width), key=rank)


def test_places_keep_their_order_when_scores_are_equal() -> None:
    score = np.random.default_rng(0).integers(0, 9, (20, 700)).astype(np.float64)
    expected = np.argsort(-score, axis=1, kind="stable")
    assert by_score(score, np.ones(score.shape, np.bool_)).tolist() == expected.tolist()
