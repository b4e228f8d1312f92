"""Late interaction and the cache of pairs."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from retriever.encoders.cache import CachedCrossEncoder
from retriever.encoders.late_interaction import LateInteraction, max_sim, packed, unpacked
from retriever.retriever import open_rerankers


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("late")


def late(folder: Path | None) -> LateInteraction:
    found = open_rerankers("embedded-late", folder)["domain"]
    assert isinstance(found, LateInteraction)
    return found


def test_max_sim_is_the_mean_of_each_tokens_best_cosine() -> None:
    # First token: cosines 0.6 and 1.0, best 1.0. Second: 0.8 and 0.0, best 0.8. Mean 0.9.
    query = np.array([[1, 0], [0, 1]], dtype=np.float32)
    text = np.array([[0.6, 0.8], [1, 0]], dtype=np.float32)
    assert max_sim(query, text) == pytest.approx(0.9)
    assert max_sim(query, text[:0]) == 0.0
    assert max_sim(query[:0], text) == 0.0


@given(st.integers(0, 5), st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_unpacked_vectors_are_the_packed_ones_to_a_half_step(
    tokens: int, dimension: int, seed: int
) -> None:
    made = np.random.default_rng(seed).normal(size=(tokens, dimension))
    unit = (made / np.linalg.norm(made, axis=1, keepdims=True)).astype(np.float32)
    content = packed(unit)
    assert len(content) == tokens * dimension
    again = unpacked(content, dimension)
    assert again.shape == unit.shape
    # Half a step of 1/127 of the largest component, in each of d dimensions.
    assert np.abs(again - unit).max(initial=0) <= (0.5 / 127) * (1 + np.sqrt(dimension))
    assert np.allclose(np.linalg.norm(again, axis=1), 1, atol=1e-5)


def test_a_text_that_says_it_scores_above_one_that_does_not(folder: Path) -> None:
    scores = late(folder).logits(
        "dose of gefitinib in renal impairment",
        ["No dose adjustment of gefitinib is needed in renal impairment.", "Shareholders met."],
    )
    assert scores[0] > scores[1] + 0.2
    assert scores[0] <= 1


def test_score_of_a_pair_is_the_same_when_alone_repeated_or_from_the_cache(folder: Path) -> None:
    texts = ["EGFR is a kinase.", "", "the trial of osimertinib " * 300, "EGFR is a kinase."]
    query = "kinase EGFR"
    fresh = late(None).logits(query, texts)
    kept = late(folder)
    assert kept.logits(query, texts).tolist() == fresh.tolist()
    assert late(folder).logits(query, texts).tolist() == fresh.tolist()
    assert [late(folder).logits(query, [text])[0] for text in texts] == fresh.tolist()
    assert fresh[1] == 0
    assert fresh[0] == fresh[3]


def test_an_empty_query_scores_0(folder: Path) -> None:
    assert late(folder).logits("", ["EGFR"]).tolist() == [0]


def test_it_is_never_called_a_cross_encoder(folder: Path) -> None:
    assert late(folder).name == "all-MiniLM-L6-v2 (late interaction)"
    both = open_rerankers("embedded-late", folder)
    assert both["domain"] is both["general"]


class StandInLength:
    """A stand-in cross-encoder: the logit is the length of the text."""

    name = fingerprint = "stand-in-length"

    def __init__(self) -> None:
        self.read: list[str] = []

    def logits(self, query: str, texts: Sequence[str]) -> np.ndarray:
        self.read += texts
        found = np.array([float(len(text)) for text in texts])
        return found


def test_a_pair_is_read_once_when_cached(tmp_path: Path) -> None:
    cross = StandInLength()
    cached = CachedCrossEncoder(cross, tmp_path)
    assert cached.logits("q", ["a", "bb", "a"]).tolist() == [1, 2, 1]
    assert cross.read == ["a", "bb"]
    again = CachedCrossEncoder(cross, tmp_path)
    assert again.logits("q", ["ccc", "bb"]).tolist() == [3, 2]
    assert cross.read == ["a", "bb", "ccc"]
    assert (again.computed, again.reused) == (1, 1)
    assert cached.logits("another", ["a"]).tolist() == [1]
    assert cross.read[-1] == "a"
    cached.without_cache().logits("q", ["a"])
    assert cross.read[-2:] == ["a", "a"]


@pytest.mark.parametrize("bad", [np.array([np.nan]), np.array([]), np.array([np.inf])])
def test_what_is_no_number_a_text_is_handed_on_and_not_kept(
    tmp_path: Path, bad: np.ndarray
) -> None:
    cross = StandInLength()
    good = cross.logits
    cross.logits = lambda query, texts: bad  # type: ignore[method-assign]
    cached = CachedCrossEncoder(cross, tmp_path)
    np.testing.assert_array_equal(cached.logits("q", ["a"]), bad)
    cross.logits = good  # type: ignore[method-assign]
    assert cached.logits("q", ["a"]).tolist() == [1]
