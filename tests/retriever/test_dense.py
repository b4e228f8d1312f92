"""Exact dense search: figures, ties, edges, and one answer whatever the batch."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retriever.files import InputError
from retriever.index.dense import DenseIndex, unit_vectors


def known_vectors() -> tuple[np.ndarray, np.ndarray]:
    """The simulated vectors with known cosines: four topics, eight documents, one query."""
    legacy = np.random.RandomState(42)
    topics = {name: legacy.randn(64) for name in ("crispr", "dl", "pharma", "kg")}
    of = ["crispr", "crispr", "dl", "dl", "pharma", "crispr", "kg", "crispr"]
    documents = np.array([topics[t] + 0.3 * legacy.randn(64) for t in of], dtype=np.float32)
    query = (topics["crispr"] + 0.2 * legacy.randn(64)).astype(np.float32)
    return documents, query[None]


def test_cosines_are_the_known_figures_when_vectors_are_simulated() -> None:
    documents, query = known_vectors()
    rows, cosines = DenseIndex.build(documents).search(unit_vectors(query), 5)
    assert rows[0].tolist() == [1, 7, 5, 0, 3]
    assert np.round(cosines[0], 4).tolist() == [0.9629, 0.9330, 0.9314, 0.9274, 0.0576]


def test_vectors_are_normalised_at_the_edge() -> None:
    index = DenseIndex.build(np.array([[3.0, 4.0], [0.0, -7.0]], dtype=np.float32))
    _, cosines = index.search(np.array([[0.6, 0.8]], dtype=np.float32), 2)
    assert cosines[0].tolist() == [1.0, -0.8]


def test_rows_run_out_when_more_is_asked_than_stored() -> None:
    index = DenseIndex.build(np.eye(2, dtype=np.float32))
    rows, _ = index.search(np.eye(2, dtype=np.float32)[:1], 5)
    assert rows.tolist() == [[0, 1]]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (np.ones((1, 3)), "dimension"),
        (np.ones(2), "shape"),
        (np.array([[np.nan, 1.0]]), "not finite"),
    ],
)
def test_query_is_refused_when_it_does_not_fit(query: np.ndarray, message: str) -> None:
    index = DenseIndex.build(np.eye(2, dtype=np.float32))
    with pytest.raises(InputError, match=message):
        index.search(query.astype(np.float32), 1)


@pytest.mark.parametrize("bad", [[[0.0, 0.0]], [[np.inf, 1.0]], [[np.nan, 1.0]]])
def test_vector_is_refused_when_it_has_no_direction(bad: list[list[float]]) -> None:
    with pytest.raises(InputError, match="vector 0"):
        DenseIndex.build(np.array(bad, dtype=np.float32))


def test_ties_are_ordered_by_row_when_they_cross_the_cut() -> None:
    same = np.ones((1000, 8), dtype=np.float32)
    rows, _ = DenseIndex.build(same).search(unit_vectors(same[:2]), 5)
    assert rows.tolist() == [[0, 1, 2, 3, 4]] * 2


def test_saved_index_answers_alike(tmp_path: Path) -> None:
    documents, query = known_vectors()
    index = DenseIndex.build(documents)
    index.save(tmp_path)
    again = DenseIndex.load(tmp_path)
    for one, other in zip(
        index.search(unit_vectors(query), 8), again.search(unit_vectors(query), 8), strict=True
    ):
        assert np.array_equal(one, other)


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 2**16),
    count=st.integers(1, 300),
    dimension=st.sampled_from([3, 32, 384]),
    repeated=st.booleans(),
    depth=st.integers(1, 40),
)
def test_one_query_equals_itself_in_a_batch(
    seed: int, count: int, dimension: int, repeated: bool, depth: int
) -> None:
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(count, dimension)).astype(np.float32)
    if repeated:
        vectors = vectors[rng.integers(0, max(1, count // 4), count)]
    queries = unit_vectors(rng.normal(size=(30, dimension)).astype(np.float32))
    index = DenseIndex.build(vectors)
    rows, cosines = index.search(queries, depth)
    exact = np.round(
        (unit_vectors(vectors)[None].astype(float) * queries[:, None].astype(float)).sum(-1), 6
    )
    for q in range(0, 30, 7):
        alone_rows, alone = index.search(queries[q : q + 1], depth)
        assert np.array_equal(alone_rows[0], rows[q])
        assert np.array_equal(alone[0], cosines[q])
        assert cosines[q] == pytest.approx(np.sort(exact[q])[::-1][:depth], abs=1.1e-6)
