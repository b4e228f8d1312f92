"""Order in whole steps, masks by arithmetic, and where the chunks of a batch's lists stand."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from retriever.order import STEPS, by_steps, in_steps
from retriever.stages.gather import find_members, find_places
from retriever.stages.recall import lay_out
from retriever.stages.scale import minmax, minmax_together
from retriever.types import ListId, RankedList, Slots

DENSE, BM25 = ListId("a", "dense"), ListId("b", "bm25")


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=20))
def test_steps_are_the_rounded_scores_when_divided_again(values: list[float]) -> None:
    score = np.array([values])
    assert (in_steps(score) / STEPS).tobytes() == np.round(score, 12).tobytes()


def test_order_is_the_same_when_one_word_does_not_hold_all_three() -> None:
    # Steps up to 2^45 take 46 bits, `earlier` 20, 9 places 4: together 70, more than 62.
    steps = np.array([[2.0**45, 0, 5, 5, 5, 2.0**45, 7, 1, 9]])
    earlier = np.array([[9, 1, 2**19, 3, 3, 4, 0, 0, 0]], dtype=np.int32)
    inside = np.array([[True, True, True, True, True, True, True, True, False]])
    # 2^45 twice (4, then 9), 7, the fives (3 and 3 by place, then 2^19), 1, 0; last the outside.
    assert by_steps(steps, inside, earlier)[0].tolist() == [5, 0, 6, 3, 4, 2, 7, 1, 8]


def test_scaling_ignores_what_is_no_member_when_that_is_larger_or_no_number() -> None:
    member = np.array([[True, False, True, True], [False, False, False, False]])
    # Members 2, 4, 3 on [2, 4]: 0, 1, 1/2; a row without members is 0.
    expected = [[0.0, 0.0, 1.0, 0.5], [0.0, 0.0, 0.0, 0.0]]
    for odd in (99.0, -99.0, np.nan):
        score = np.array([[2.0, odd, 4.0, 3.0], [odd, 1.0, 2.0, 3.0]])
        assert minmax(score, member).tolist() == expected


@given(
    st.lists(
        st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0, 3.0, np.nan]), min_size=4, max_size=4),
        min_size=1,
        max_size=4,
    ),
    st.integers(1, 4),
)
def test_scale_is_the_same_when_the_least_score_is_known(
    rows: list[list[float]], left: int
) -> None:
    scores = [np.array(rows)[:, :2], np.array(rows)[:, 2:]]
    least = np.sort(np.concatenate(scores, axis=1), axis=1)[:, [4 - left]]
    member = [score >= least for score in scores]
    known = minmax_together(scores, member, least)
    assert np.array_equal(known, minmax_together(scores, member))


def two_lists(scores: list[float]) -> tuple[Slots, list[RankedList]]:
    rows = [np.array([[3, 1, 7]], dtype=np.int32), np.array([[7, 9, -1]], dtype=np.int32)]
    slots = lay_out((DENSE, BM25), rows, np.array([[5]], dtype=np.int32), 1)
    ranks = [np.array([[1, 0, 2]], dtype=np.int32), np.array([[1, 2, 0]], dtype=np.int32)]
    both = zip((DENSE, BM25), ranks, strict=True)
    return slots, [RankedList(item, rank, np.array([scores])) for item, rank in both]


def test_places_hold_the_chunks_of_the_lists_when_the_slots_hold_more() -> None:
    slots, lists = two_lists([1.0, 0.5, 0.2])
    found = find_places(slots, find_members(lists))
    # Slots are chunks 1, 3, 5, 7, 9. Chunk 1 was cut from its list, 5 is the supplement's.
    # The last place of the second list holds no chunk of any query: it is left out.
    assert (found.width, found.slot[0].tolist()) == (3, [1, 3, 4, 0, 2])
    assert [spot[0].tolist() for spot in found.spot] == [[0, 3, 1], [1, 2]]
    assert found.repeated.tolist() == [True]


def test_members_keep_their_key_when_only_scores_change() -> None:
    one, other = (find_members(two_lists(s)[1]) for s in ([1.0, 0.5, 0.2], [0.9, 0.1, 0.3]))
    cut = find_members(two_lists([1.0, 0.5, 0.2])[1][:1])
    assert one.key == other.key != cut.key
