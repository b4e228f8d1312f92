"""Counts in words."""

import pytest

from experiments.counting import counted


@pytest.mark.parametrize(
    ("count", "noun", "words"),
    [
        (0, "trial", "0 trials"),
        (1, "query", "1 query"),
        (2, "query", "2 queries"),
        (1, "more relevant unit", "1 more relevant unit"),
        (3, "failing query", "3 failing queries"),
        (2, "day", "2 days"),
    ],
)
def test_noun_follows_its_count(count: int, noun: str, words: str) -> None:
    assert counted(count, noun) == words
