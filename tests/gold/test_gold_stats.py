"""Statistics of a set, worked out by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gold import InputError, stats

MakeSet = Callable[..., Path]
HEADER = "query-id\tcorpus-id\tscore\n"
QUERIES: list[dict[str, object]] = [
    {"_id": "q1", "text": "which drug inhibits EGFR", "metadata": {"type": "mechanism"}},
    {"_id": "q2", "text": "lower blood sugar"},
]


def test_numbers_are_right_when_worked_out_by_hand(make_set: MakeSet) -> None:
    path = make_set(
        queries=[*QUERIES, {"_id": "q3", "text": "one"}],
        qrels=HEADER + "q1\td1\t1\nq1\td2\t2\nq2\td2\t-1\nq2\tgone\t1\nq3\td1\t0\n",
        dev=HEADER + "q3\td1\t1\n",
    )
    found = stats(path)
    # d1: title 1 + text 3 words; d2: 3. Queries: 4, 3 and 1 words.
    assert found["documents"] == {"count": 2, "words": {"min": 3, "mean": 3.5, "max": 4}}
    assert found["queries"] == {"count": 3, "words": {"min": 1, "mean": 8 / 3, "max": 4}}
    assert found["splits"]["test"] == {
        "judgements": 5,
        "queries": 3,
        "unscorable": 1,
        "relevant_per_query": {"min": 1, "mean": 1.5, "max": 2},
        "grades": {"-1": 1, "0": 1, "1": 2, "2": 1},
        "types": {"": 2, "mechanism": 1},
        "judged_documents": 2,
        "share_judged": 1.0,
        "unknown_documents": 1,
    }
    assert found["splits"]["dev"]["share_judged"] == 0.5
    json.dumps(found, allow_nan=False)


def test_undefined_is_null_when_there_is_nothing_to_average(make_set: MakeSet) -> None:
    found = stats(make_set(corpus="", qrels=HEADER + "q1\td1\t0\n"))
    assert found["documents"]["words"] == {"min": None, "mean": None, "max": None}
    assert found["splits"]["test"]["relevant_per_query"]["mean"] is None
    assert found["splits"]["test"]["share_judged"] is None


def test_error_is_clear_when_there_is_no_split(make_set: MakeSet) -> None:
    path = make_set(qrels=None)
    with pytest.raises(InputError, match="no split"):
        stats(path)
