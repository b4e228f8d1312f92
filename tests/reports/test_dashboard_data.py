"""What the page is given: columns, within a size, from the run directories alone."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from page_worlds import write_imported, write_run

from reports.dashboard import dashboard, dashboard_data
from reports.faults import InputError
from reports.run_directory import RunDirectory


def data_of(*paths: Path) -> dict:
    return dashboard_data([RunDirectory.open(path) for path in paths])


def test_runs_stand_oldest_first_whatever_the_order_given(tmp_path: Path) -> None:
    old = write_run(tmp_path / "z", created="2026-01-01T00:00:00+00:00")
    new = write_run(tmp_path / "a", created="2026-02-01T00:00:00+00:00")
    assert [run["name"] for run in data_of(new, old)["runs"]] == ["z", "a"]


def test_nothing_to_show_is_refused() -> None:
    with pytest.raises(InputError, match="no run"):
        dashboard_data([])


def test_page_is_the_same_when_made_again(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    assert dashboard([run]) == dashboard([run])


def test_classes_and_losses_are_those_of_the_run(tmp_path: Path) -> None:
    (run,) = data_of(write_run(tmp_path / "run", queries=14))["runs"]
    classes = [run["queries"]["class"]["names"][code] for code in run["queries"]["class"]["codes"]]
    record = json.loads((tmp_path / "run" / "run.json").read_text())
    assert {name: classes.count(name) for name in classes} == record["classes"]
    # Twice seven classes: gold absent for 4 queries, first for 2, below the first five for 8.
    assert run["ceiling"]["reachable"] == [10, 10, 10, 10, 10, 10, 10, 2]
    lost = [run["ceiling"]["stage"][code] for code in run["queries"]["out_after"] if code >= 0]
    assert sorted(lost) == ["recall"] * 4 + ["rerank_merged"] * 8


def test_gold_that_no_stage_found_is_named(tmp_path: Path) -> None:
    (run,) = data_of(write_run(tmp_path / "run", queries=7))["runs"]
    names = run["queries"]["class"]["names"]
    assert names[run["queries"]["class"]["codes"][3]] == "query_route_gap"
    assert run["waterfall"]["missing"][2:4] == [[], ["gone3"]]
    assert run["waterfall"]["count"][3] == 0


def test_every_query_keeps_its_own_candidates(tmp_path: Path) -> None:
    data = data_of(write_run(tmp_path / "run", queries=9, candidates=12))
    (run,) = data["runs"]
    start = run["candidates"]["start"]
    assert (start[0], start[-1], len(start)) == (0, len(run["candidates"]["chunk"]), 10)
    for query in range(9):
        chunks = run["candidates"]["chunk"][start[query] : start[query + 1]]
        numbers = [int(data["chunks"]["document"][chunk][1:]) for chunk in chunks]
        assert all(number // 12 == query for number in numbers)
        assert numbers == sorted(numbers)


def test_runs_share_their_chunks(tmp_path: Path) -> None:
    one, other = write_run(tmp_path / "a"), write_run(tmp_path / "b")
    both = data_of(one, other)
    assert len(both["chunks"]["id"]) == len(data_of(one)["chunks"]["id"])
    assert len(set(both["chunks"]["id"])) == len(both["chunks"]["id"])


@pytest.mark.parametrize("queries", [40, 1000])
def test_page_keeps_its_size(tmp_path: Path, queries: int) -> None:
    """At most 3 MB for 1,000 queries of 100 candidates, no two of which share a text."""
    run = write_run(tmp_path / "run", queries=queries, candidates=100, characters=1000)
    html = dashboard([run])
    assert len(html.encode()) <= 3_000_000
    chunks = data_of(run)["chunks"]
    assert chunks["cut"] == (300 if queries == 40 else chunks["cut"])
    assert chunks["cut"] >= 60
    assert max(len(text or "") for text in chunks["text"]) == chunks["cut"]
    assert chunks["shortened"] == sum(text is not None for text in chunks["text"])


def test_imported_ranking_shows_what_it_has(tmp_path: Path) -> None:
    rankings = {"q1": ["a", "b", "c"], "q2": ["c", "a"]}
    data = data_of(write_imported(tmp_path / "run", rankings, {"q1": "b", "q2": "z"}))
    (run,) = data["runs"]
    assert run["waterfall"] is None
    assert run["candidates"]["start"] == [0, 3, 5]
    assert run["candidates"]["gold"] == [0, 1, 0, 0, 0]
    assert run["candidates"]["grade"] == [-1, 1, -1, -1, -1]
    assert data["chunks"]["text"] == [None, None, None]
    assert run["ceiling"]["label"] == ["in the first 5"]
    assert run["ceiling"]["reachable"] == [1]


def test_undefined_figures_are_null(tmp_path: Path) -> None:
    record = {
        "metrics": {
            "hit@5": {"value": None, "low": None, "high": None, "queries": 0, "undefined": 3}
        }
    }
    run = write_run(tmp_path / "run", 3, record=record)
    table = pq.read_table(run / "queries.parquet")
    place = table.column_names.index("hit@5")
    undefined = table.set_column(place, "hit@5", pa.array([None] * 3, pa.float64()))
    pq.write_table(undefined, run / "queries.parquet")
    html = dashboard([run])
    assert '"value":null' in html
    assert "NaN" not in html
