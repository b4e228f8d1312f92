"""ranx's own table of several runs: its figures are ours, its p-values are not corrected."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from run_worlds import write_run

from experiments.comparison.compare import compare_runs
from experiments.comparison.ranx_table import MOST_RUNS, ranx_table
from experiments.recorded import RecordedRun
from reports.markdown import to_markdown
from reports.plain import to_text
from reports.regression import to_html
from retriever.files import InputError


def run_of(folder: Path, ranks: Sequence[int | None]) -> RecordedRun:
    """A run whose query i has its relevant document at a rank; None: no result at all."""
    mrr = [0.0 if rank is None else 1 / rank for rank in ranks]
    run = write_run(folder, {"mrr@10": mrr, "coverage@5": [1.0] * len(ranks)})
    lines = []
    for row, rank in enumerate(ranks):
        query_id = f"q{row:04}"
        ranking = [] if rank is None else [f"x{i}" for i in range(1, rank)] + [f"d{query_id}"]
        lines += [
            f"{query_id} Q0 {document_id} {place} {9 - place} t"
            for place, document_id in enumerate(ranking, start=1)
        ]
    (folder / "run.trec").write_text("".join(f"{line}\n" for line in lines))
    return run


def shown(folder: Path, rankings: Mapping[str, Sequence[int | None]]) -> dict:
    runs = [run_of(folder / name, ranks) for name, ranks in rankings.items()]
    return ranx_table(runs, list(rankings))


def test_table_holds_the_uncorrected_t_test_worked_by_hand(tmp_path: Path) -> None:
    # Differences .5, .5, .5, 0: mean .375, deviation .25, t = .375 / (.25 / 2) = 3 with 3 degrees
    # of freedom. With those, P(T <= t) = 1/2 + (u / (1 + u^2) + atan u) / pi, u = t / sqrt 3 =
    # sqrt 3: 1/2 + (sqrt(3)/4 + pi/3) / pi = .971166, so p = 2 * .028834 = .057669.
    found = shown(tmp_path, {"a": [2, 2, 2, 2], "b": [1, 1, 1, 2], "c": [2, 2, 2, 2]})
    first, same, last = found["pairs"]
    assert first["metrics"]["mrr@10"]["p_value"] == pytest.approx(0.057669, abs=1e-6)
    assert last["metrics"]["mrr@10"] == first["metrics"]["mrr@10"] | {"wins": 0, "losses": 3}
    assert first["metrics"]["mrr@10"]["wins"] == 3
    # ranx has no p for equal runs
    assert same["metrics"]["mrr@10"] == {"p_value": None, "wins": 0, "ties": 4, "losses": 0}
    assert found["corrected"] is False
    assert found["test"] == "paired Student's t-test"
    assert found["left_out"] == ["coverage@5"]
    values = [row["metrics"]["mrr@10"]["value"] for row in found["rows"]]
    assert values == [0.5, 0.875, 0.5]


def test_run_that_is_beaten_gives_its_letter_to_the_winner(tmp_path: Path) -> None:
    # Eleven differences of 1/2 and one of 2/3: t is about 39, far below .01.
    found = shown(tmp_path, {"a": [2] * 11 + [3], "b": [1] * 12, "c": [2] * 11 + [3]})
    letters = [row["metrics"]["mrr@10"]["better_than"] for row in found["rows"]]
    assert letters == [[], ["a", "c"], []]
    assert "1.0000ᵃᶜ" in found["table"]


def test_query_without_results_counts_nothing_and_stays_in(tmp_path: Path) -> None:
    found = shown(tmp_path, {"a": [1, None], "b": [None, None], "c": [1, 1]})
    values = [row["metrics"]["mrr@10"]["value"] for row in found["rows"]]
    assert values == [0.5, 0.0, 1.0]
    assert found["queries"] == 2


def test_one_label_twice_keeps_two_rows(tmp_path: Path) -> None:
    runs = [run_of(tmp_path / name, [rank, 2]) for name, rank in (("a", 1), ("b", 2), ("c", 4))]
    rows = ranx_table(runs, ["x", "y", "y"])["rows"]
    assert [(row["letter"], row["label"]) for row in rows] == [("a", "x"), ("b", "y"), ("c", "y")]
    assert [row["metrics"]["mrr@10"]["value"] for row in rows] == [0.75, 0.5, 0.375]


def test_what_ranx_cannot_compare_is_refused_with_the_reason(tmp_path: Path) -> None:
    run = run_of(tmp_path / "a", [1])
    with pytest.raises(InputError, match="26 runs at most, and there are 27"):
        ranx_table([run] * (MOST_RUNS + 1), ["x"] * (MOST_RUNS + 1))
    bare = write_run(tmp_path / "b", {"mrr@10": [1.0]})
    with pytest.raises(InputError, match=r"holds no run\.trec"):
        ranx_table([run, bare, run], ["a", "b", "c"])
    odd = write_run(tmp_path / "c", {"judged@10": [1.0]})
    with pytest.raises(InputError, match="none of the metrics"):
        ranx_table([odd, odd], ["a", "b"])


def test_every_rendering_shows_the_table_and_says_that_it_is_not_corrected(tmp_path: Path) -> None:
    rankings = {"base": [2] * 11 + [3], "new": [1] * 12, "same": [2] * 11 + [3]}
    runs = [run_of(tmp_path / name, ranks) for name, ranks in rankings.items()]
    comparison = compare_runs(
        runs[0], runs[1:], labels=list(rankings), sources=["given", "reused", "given"]
    )
    assert comparison["ranx"] is None
    renderings = (to_html, to_markdown, to_text)
    assert not any("not corrected" in render(comparison) for render in renderings)
    comparison["ranx"] = ranx_table(runs, list(rankings))
    for render in renderings:
        text = render(comparison)
        assert "not corrected" in text
        assert "Student" in text
        assert "used again" in text
    comparison["ranx"] = {"reason": "too many <runs>"}
    assert "too many &lt;runs&gt;" in to_html(comparison)
    assert "No table: too many" in to_markdown(comparison)
    assert "no table by ranx: too many <runs>" in to_text(comparison)
