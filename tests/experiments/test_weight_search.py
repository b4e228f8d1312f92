"""Weights that bring a relevant unit into the top k: against enumeration, and by hand."""

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from failure_worlds import world
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from experiments.diagnosis.units import Units
from experiments.diagnosis.waterfall import stage_ranks
from experiments.rankings import asked, run_blocks
from experiments.weight_search import MARGIN, Pool, ranks_with, search_weights, tier_2_pool

NAMES = ("w_one", "w_two", "w_three")
BOUNDS = dict.fromkeys(NAMES, (0.0, 5.0))


def pool_of(
    features: list[list[float]],
    relevant: list[int],
    weights: tuple[float, ...] = (1.0, 1.0, 1.0),
    units: list[int] | None = None,
    cosine: list[float | None] | None = None,
    floor_weights: bool = True,
) -> Pool:
    """Return a pool of chunks in this order; a chunk is a unit of its own unless said."""
    linear = np.array(features, dtype=np.float64)
    count, width = linear.shape
    unit = np.array(units if units else range(count), dtype=np.int32)
    given_floor = cosine or [None] * count
    held = np.array([c is not None for c in given_floor])
    value = np.array([c or 0.0 for c in given_floor])
    return Pool(
        names=NAMES[:width],
        weights=np.array(weights[:width]),
        linear=linear,
        floor=value[:, None] * (np.ones((1, width)) if floor_weights else np.zeros((1, width))),
        floor_constant=np.zeros(count) if floor_weights else value,
        has_floor=held,
        unit=unit,
        relevant=np.isin(unit, relevant),
    )


def feasible_by_enumeration(pool: Pool, k: int) -> bool:
    """Try every set of at most k - 1 units that may stay above, one linear program each."""
    others = sorted({int(u) for u in pool.unit[~pool.relevant]})
    for g in np.flatnonzero(pool.relevant):
        forms = [(pool.linear[g], 0.0)]
        if pool.has_floor[g]:
            forms.append((pool.floor[g], pool.floor_constant[g]))
        for vector, constant in forms:
            for size in range(min(k, len(others) + 1)):
                for above in combinations(others, size):
                    rows, limits = [], []
                    for i in np.flatnonzero(~pool.relevant):
                        if int(pool.unit[i]) in above:
                            continue
                        margin = MARGIN if i < g else 0.0
                        rows.append(pool.linear[i] - vector)
                        limits.append(constant - margin)
                        if pool.has_floor[i]:
                            rows.append(pool.floor[i] - vector)
                            limits.append(constant - pool.floor_constant[i] - margin)
                    if not rows:
                        return True
                    found = linprog(
                        np.zeros(len(pool.names)),
                        A_ub=np.array(rows),
                        b_ub=np.array(limits),
                        bounds=[BOUNDS[name] for name in pool.names],
                    )
                    if found.status == 0:
                        return True
    return False


shares = st.integers(0, 4).map(lambda n: n / 4)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_feasibility_equals_enumeration_on_small_pools(data: st.DataObject) -> None:
    width = data.draw(st.integers(1, 3))
    count = data.draw(st.integers(2, 6))
    features = data.draw(
        st.lists(st.lists(shares, min_size=width, max_size=width), min_size=count, max_size=count)
    )
    units = data.draw(st.lists(st.integers(0, 4), min_size=count, max_size=count))
    relevant = [data.draw(st.sampled_from(units))]
    cosine = data.draw(st.none() | st.lists(st.none() | shares, min_size=count, max_size=count))
    pool = pool_of(
        features, relevant, units=units, cosine=cosine, floor_weights=data.draw(st.booleans())
    )
    k = data.draw(st.integers(1, 3))
    found = search_weights(pool, k, BOUNDS)
    assert (found.verdict == "feasible") == feasible_by_enumeration(pool, k)
    if found.verdict == "feasible":
        assert found.rank is not None
        assert found.rank <= k
        assert all(0 <= value <= 5 for value in (found.weights or {}).values())


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(shares, min_size=2, max_size=2), min_size=2, max_size=8),
    st.lists(st.floats(0, 5), min_size=2, max_size=2),
    st.integers(1, 3),
)
def test_no_weights_do_what_is_called_infeasible(
    features: list[list[float]], weights: list[float], k: int
) -> None:
    pool = pool_of(features, [len(features) - 1])
    rank = ranks_with(pool, np.array(weights))[len(features) - 1]
    if rank <= k:
        # Weights that part two scores by less than the margin do not count.
        scores = pool.linear @ np.array(weights)
        gaps = np.abs(scores - scores[-1])
        if not ((gaps > 0) & (gaps < 2 * MARGIN)).any() and len(set(map(tuple, features))) > 1:
            assert search_weights(pool, k, BOUNDS).verdict == "feasible"


def test_smallest_change_is_the_one_worked_out_by_hand() -> None:
    # One chunk above: (1, 0) against the relevant (0, 1), weights (2, 1). The relevant one leads
    # where w2 >= w1 + margin: the nearest change in L1 is 1 in all, whichever weight moves.
    pool = pool_of([[1.0, 0.0], [0.0, 1.0]], [1], weights=(2.0, 1.0))
    found = search_weights(pool, 1, BOUNDS)
    assert found.verdict == "feasible"
    assert found.distance == pytest.approx(1.0, abs=1e-5)
    assert found.rank == 1


def test_dominated_chunk_is_infeasible() -> None:
    pool = pool_of([[1.0, 0.5], [0.5, 0.5]], [1])
    # Weight (0, w) ties them, and the tie goes to the first: never above it.
    assert search_weights(pool, 1, BOUNDS).verdict == "infeasible"
    assert search_weights(pool, 2, BOUNDS).verdict == "feasible"


def test_tie_goes_to_the_chunk_that_stood_first() -> None:
    first = pool_of([[0.5, 0.5], [1.0, 0.5]], [0])
    # Weight (0, w): equal scores, and the relevant one stood first.
    found = search_weights(first, 1, BOUNDS)
    assert found.verdict == "feasible"
    assert found.weights == {"w_one": 0.0, "w_two": 1.0}


def test_two_chunks_of_one_unit_count_once() -> None:
    # Both chunks above are of unit 7: the relevant one is second among units.
    pool = pool_of([[1.0], [0.9], [0.5]], [3], weights=(1.0,), units=[7, 7, 3])
    assert search_weights(pool, 2, BOUNDS).verdict == "feasible"
    apart = pool_of([[1.0], [0.9], [0.5]], [3], weights=(1.0,), units=[7, 8, 3])
    assert search_weights(apart, 2, BOUNDS).verdict == "infeasible"


def test_floor_of_a_structure_is_taken_exactly() -> None:
    # By features the relevant chunk is dominated; its bare cosine of .9 stands whatever the
    # weights, so weights near nothing let it lead.
    plain = pool_of([[1.0], [0.2]], [1], weights=(1.0,))
    assert search_weights(plain, 1, BOUNDS).verdict == "infeasible"
    bare = pool_of([[1.0], [0.2]], [1], weights=(1.0,), cosine=[None, 0.9], floor_weights=False)
    found = search_weights(bare, 1, BOUNDS)
    assert found.verdict == "feasible"
    # 1.0 w <= .9 - margin: the nearest weight to 1 is .9, a change of .1.
    assert found.distance == pytest.approx(0.1, abs=1e-5)
    # Scaled by the weights it is .9 w against 1.0 w.
    scaled = pool_of([[1.0], [0.2]], [1], weights=(1.0,), cosine=[None, 0.9])
    assert search_weights(scaled, 1, BOUNDS).verdict == "infeasible"


def test_weight_without_bounds_is_refused() -> None:
    with pytest.raises(ValueError, match="no bounds for w_two"):
        search_weights(pool_of([[1.0, 0.0]], [0]), 1, {"w_one": (0, 1)})


def test_pool_of_a_trace_ranks_as_tier_2_did(tmp_path: Path) -> None:
    documents = [
        {"_id": "gold", "text": "alpha gefitinib warnings", "name": "erlotinib card"},
        {"_id": "other", "text": "gefitinib alpha", "name": "gefitinib label"},
        {"_id": "salt", "text": "compound alpha", "name": "card", "smiles": "CCC"},
        {"_id": "more", "text": "alpha", "name": "card", "smiles": "CC(C)CC"},
    ]
    more = {"route.dense_search": True, "plugins.biomed.supplement.enabled": True}
    for text in ("alpha gefitinib warnings", "compound CC(C)C alpha"):
        found = world(tmp_path / text[:5], documents, text, overrides=more)
        queries = [asked(query, found.gold.path) for query in found.gold.queries.values()]
        (block,) = run_blocks(found.retriever, queries, "document", 100)
        trace, units = block.trace, Units(found.retriever.index, "document")
        unit = units.of_chunks(trace.slots.chunk[0])
        before = trace.injected.order[0, : trace.injected.count[0]]
        pool = tier_2_pool(trace.final, 0, before, unit, np.zeros(len(unit), np.bool_))
        place = stage_ranks(trace, block.ranked)["final"][0]
        expected = {int(u): int(rank) for u, rank in zip(unit, place, strict=True) if rank}
        assert ranks_with(pool, pool.weights) == expected
