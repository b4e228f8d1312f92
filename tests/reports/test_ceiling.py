"""The recall ceiling: which queries are still in reach after each stage."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from reports.ceiling import recall_ceiling, stage_label, stages_of

MAIN = ("supplement", "merged", "injected", "reranked", "final")


def ranks(**columns: list[int]) -> dict[str, np.ndarray]:
    return {name.replace("__", ":"): np.array(column) for name, column in columns.items()}


def test_stages_run_lists_first_when_columns_are_sorted_by_name() -> None:
    names = [
        "gold_rank:final",
        "gold_rank:b:dense",
        "gold_rank:a:bm25",
        "hit@5",
        "gold_rank:merged",
    ]
    assert stages_of(names, "gold_rank:") == ["a:bm25", "b:dense", "merged", "final"]
    assert stage_label("a:bm25") == "a bm25"


def test_ceiling_counts_as_worked_out_by_hand() -> None:
    # Five queries, pool 10, first 5. q0 passes. q1 is found by one list and falls to rank 6.
    # q2 is merged at 11, outside the pool. q3 the supplement alone brings, at rank 2 of the pool.
    # q4 is nowhere. In reach: recall 4, merge 4, pool 3, first five q0 and q3.
    found = recall_ceiling(
        ranks(
            a__bm25=[1, 0, 9, 0, 0],
            a__dense=[3, 8, 0, 0, 0],
            supplement=[0, 0, 0, 2, 0],
            merged=[1, 4, 11, 0, 0],
            injected=[1, 6, 13, 2, 0],
            reranked=[1, 6, 13, 1, 0],
            final=[1, 6, 12, 1, 0],
        ),
        queries=5,
        pool=10,
        cutoff=5,
    )
    assert found.labels == (
        "a bm25",
        "a dense",
        "supplement",
        "found by any of these",
        "merged",
        "in the pool of 10",
        "in the first 5",
    )
    assert found.reachable.sum(axis=1).tolist() == [2, 2, 1, 4, 4, 3, 2]
    assert found.chain == (False, False, False, True, True, True, True)
    # q1 falls at the last row (6), q2 at the pool (5), q4 at recall (3).
    assert found.lost_at.tolist() == [-1, 6, 5, -1, 3]


def test_first_k_stay_in_reach_when_the_pool_is_smaller() -> None:
    found = recall_ceiling(ranks(injected=[4], final=[4]), queries=1, pool=2, cutoff=5)
    assert found.reachable.tolist() == [[True], [True]]


def test_only_the_result_is_told_when_a_ranking_was_imported() -> None:
    found = recall_ceiling(ranks(final=[3, 9, 0]), queries=3, pool=None, cutoff=5)
    assert found.labels == ("in the first 5",)
    assert found.lost_at.tolist() == [-1, 0, 0]


def test_nothing_is_told_when_no_stage_is_known() -> None:
    found = recall_ceiling({}, queries=2, pool=None, cutoff=5)
    assert found.stages == ()
    assert found.lost_at.tolist() == [-1, -1]


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9), st.integers(1, 30)),
        min_size=1,
        max_size=20,
    ),
    st.integers(1, 12),
    st.integers(1, 6),
)
def test_chain_never_grows_when_ranks_are_a_pipelines(
    drawn: list[tuple[int, int, int, int]], pool: int, cutoff: int
) -> None:
    """What is merged was in a list, what is injected merged or supplied, what is final injected."""
    lists = np.array([one[0] for one in drawn])
    merged = np.where(lists > 0, [one[3] for one in drawn], 0)
    extra = np.array([one[1] for one in drawn])
    injected = np.where(merged + extra > 0, [1 + one[2] for one in drawn], 0)
    inside = (injected > 0) & (injected <= pool)
    # Tier 2 orders the pool; what is outside stays behind it.
    final = np.where(inside, 1, np.where(injected > 0, injected, 0))
    found = recall_ceiling(
        {
            "a:bm25": lists,
            "supplement": extra,
            "merged": merged,
            "injected": injected,
            "final": final,
        },
        queries=len(drawn),
        pool=pool,
        cutoff=cutoff,
    )
    chain = found.reachable[np.flatnonzero(found.chain)]
    assert (chain[:-1] >= chain[1:]).all()
    assert ((found.lost_at == -1) == chain.all(axis=0)).all()
