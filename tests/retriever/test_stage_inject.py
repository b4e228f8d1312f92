"""inject: what is new to the pool goes in front; nothing is lost and nothing repeated."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retriever.config import InjectConfig, MergeConfig
from retriever.stages.inject import Injected, inject
from retriever.stages.merge import merge
from retriever.stages.recall import cut, lay_out
from retriever.types import Found, ListId, Ranking, Routing, Slots, Supplement

TEXT = ListId("eagle_text", "dense")
NAMES = ("eagle_chemical", "eagle_text")


@dataclass(frozen=True)
class World:
    """One merged list and a supplement, by chunk row."""

    slots: Slots
    merged: Ranking
    supplement: Supplement

    def injected(self, wanted: bool = True, **config: int) -> Injected:
        return inject(
            InjectConfig(**config),
            self.slots,
            self.merged,
            self.supplement,
            NAMES,
            np.array([wanted]),
        )

    def rows(self, found: Injected) -> list[int]:
        return self.slots.chunk[0, found.order[0, : found.count[0]]].tolist()

    def marked(self, marks: np.ndarray) -> set[int]:  # type: ignore[type-arg]
        return set(self.slots.chunk[0, marks[0]].tolist())


def world_of(hits: list[int], extra: list[int]) -> World:
    """Hits best first, scores falling; the supplement's chunks were found in chemistry."""
    score = np.linspace(1, 0.5, len(hits))[None]
    found = Found(np.array([hits], dtype=np.int32).reshape(1, -1), score)
    routing = Routing((TEXT,), np.ones((1, 1), np.bool_), np.array([99], dtype=np.int32))
    rows = np.array([extra], dtype=np.int32).reshape(1, -1)
    slots = lay_out((TEXT,), [found.rows], rows, 1)
    merged = merge(MergeConfig(), slots, [cut(routing, TEXT, found)], NAMES, ["model"])
    nothing = np.zeros(rows.shape)
    searched = np.ones((len(NAMES), len(rows)), dtype=np.bool_)
    supplement = Supplement(NAMES, rows, np.zeros_like(rows), *(nothing,) * 4, searched)
    return World(slots, merged, supplement)


def test_first_new_chunks_go_in_front_in_supplement_order() -> None:
    world = world_of([1, 2, 3], [9, 2, 7, 8])
    found = world.injected(min_new=2)
    # 2 is in the pool already, 8 is one too many
    assert world.rows(found) == [9, 7, 1, 2, 3]
    assert world.marked(found.injected) == {9, 7}
    assert [event.event for event in found.audit] == ["supplement_injected"]


def test_chunk_moves_to_the_front_when_it_is_merged_but_outside_the_pool() -> None:
    world = world_of([1, 2, 3, 4], [4, 2])
    found = world.injected(min_new=2, rerank_pool=2)
    # 2 is at rank 2 of a pool of 2; 4 is at rank 4 and leaves its place
    assert world.rows(found) == [4, 1, 2, 3]
    assert world.marked(found.injected) == {4}
    # the pool is the first two of the new order
    assert world.marked(found.pool) == {4, 1}


def test_score_is_left_alone_when_a_chunk_is_injected() -> None:
    world = world_of([1, 2, 3], [3])
    before = world.merged.score.copy()
    world.injected(rerank_pool=1)
    assert np.array_equal(world.merged.score, before)


def test_new_chunk_is_of_the_collection_that_the_supplement_found_it_in() -> None:
    world = world_of([1, 2], [9, 2])
    found = world.injected()
    names = {int(world.slots.chunk[0, slot]): NAMES[found.node[0, slot]] for slot in found.order[0]}
    assert names == {9: "eagle_chemical", 1: "eagle_text", 2: "eagle_text"}


@pytest.mark.parametrize(
    ("wanted", "extra", "min_new"), [(False, [9], 2), (True, [], 2), (True, [9], 0), (True, [2], 2)]
)
def test_order_stands_when_there_is_nothing_to_inject(
    wanted: bool, extra: list[int], min_new: int
) -> None:
    world = world_of([3, 2, 1], extra)
    found = world.injected(wanted, min_new=min_new)
    assert world.rows(found) == [3, 2, 1]
    assert not found.injected.any()
    assert found.audit == ()


def test_supplement_alone_makes_the_list_when_nothing_was_merged() -> None:
    world = world_of([], [9, 7, 8])
    assert world.rows(world.injected(min_new=2)) == [9, 7]


chunk_lists = st.lists(st.integers(0, 11), unique=True, max_size=10)


@settings(max_examples=40, deadline=None)
@given(
    hits=chunk_lists,
    extra=chunk_lists,
    min_new=st.integers(0, 4),
    pool=st.integers(1, 12),
)
def test_chunks_are_never_dropped_or_repeated(
    hits: list[int], extra: list[int], min_new: int, pool: int
) -> None:
    world = world_of(hits, extra)
    found = world.injected(min_new=min_new, rerank_pool=pool)
    new = [row for row in extra if row not in hits[:pool]][:min_new]
    assert world.rows(found) == new + [row for row in hits if row not in new]
    assert world.marked(found.injected) == set(new)
    assert world.marked(found.pool) == set(world.rows(found)[:pool])
    # the slots that are not retrieved come behind, each once
    assert sorted(found.order[0].tolist()) == list(range(world.slots.chunk.shape[1]))
