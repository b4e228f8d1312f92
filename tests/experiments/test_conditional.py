"""Which swept parameters are conditional, and where their conditions come from."""

import pytest
from sweep_worlds import small_space

from experiments.sweep.conditional import conditional
from reports.conditional import conditional_in_words

ASKED = small_space("""
parameters:
  merge.method: {choices: [minmax, rrf]}
  route.bm25_search: switch
  fuse.alpha: {low: 0.0, high: 1.0, when: {route.bm25_search: [true, false]}}
  merge.rrf_k: {low: 1.0, high: 9.0, when: {merge.method: rrf}}
  inject.min_new: {low: 0, high: 9}
""")
RRF, NO_WORDS = {"merge.method": ("rrf",)}, {"route.bm25_search": (False,)}


def test_origin_is_told_when_the_look_found_or_narrowed_a_condition() -> None:
    swept = ASKED.under("fuse.alpha", (NO_WORDS,)).under("inject.min_new", (RRF,))
    assert conditional(ASKED, swept) == {
        "fuse.alpha": "narrowed",
        "merge.rrf_k": "declared",
        "inject.min_new": "found",
    }


def test_parameter_is_not_counted_when_it_was_dropped() -> None:
    assert conditional(ASKED, ASKED.without(["merge.rrf_k", "fuse.alpha"])) == {}


@pytest.mark.parametrize(
    ("origins", "words"),
    [
        ({}, "none conditional"),
        ({"a": "found"}, "1 conditional (1 found)"),
        (
            {"a": "found", "b": "declared", "c": "found", "d": "narrowed"},
            "4 conditional (1 declared, 1 narrowed, 2 found)",
        ),
    ],
)
def test_words_count_each_origin(origins, words: str) -> None:
    assert conditional_in_words(origins) == words
