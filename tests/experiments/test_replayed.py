"""What a replay finds when it differs from what a run recorded."""

from pathlib import Path

import pytest
from run_worlds import write_run

from experiments.recorded import RecordedRun
from experiments.tracking.replayed import _differences, refuse_other_figures
from retriever.files import InputError


def run_of(folder: Path, figures: list[float | None], ranking: str = "d1") -> RecordedRun:
    run = write_run(folder, {"ndcg@10": figures})
    (folder / "run.trec").write_text(f"q0000 Q0 {ranking} 1 1 t\n")
    return run


def test_equal_runs_differ_in_nothing(tmp_path: Path) -> None:
    one, other = run_of(tmp_path / "a", [0.5, None]), run_of(tmp_path / "b", [0.5, None])
    assert _differences(one, other) == []


def test_each_kind_of_difference_is_said(tmp_path: Path) -> None:
    one = run_of(tmp_path / "a", [0.5, 0.25])
    # The means are equal (.375) and so are the rankings: the queries alone tell.
    assert _differences(one, run_of(tmp_path / "b", [0.25, 0.5])) == [
        "other figures for 2 (q0000, q0001) of 2 queries"
    ]
    assert _differences(one, run_of(tmp_path / "c", [0.5, 0.25], "d2")) == [
        "other rankings for 1 (q0000) of 1 queries"
    ]
    assert _differences(one, run_of(tmp_path / "d", [0.5])) == [
        "ndcg@10 0.375000 recorded, 0.500000 now",
        "other queries",
    ]
    undefined = _differences(one, run_of(tmp_path / "e", [0.5, None]))
    assert undefined[-1] == "other figures for 1 (q0001) of 2 queries"
    bare = write_run(tmp_path / "f", {"mrr@10": [0.5, 0.25]})
    (bare.path / "run.trec").write_bytes((one.path / "run.trec").read_bytes())
    assert _differences(one, bare) == [
        "ndcg@10 0.375000 recorded, none now",
        "no ndcg@10 by query",
    ]


def test_model_that_does_not_load_is_refused_with_what_it_said(tmp_path: Path) -> None:
    run = run_of(tmp_path / "a", [0.5])
    with pytest.raises(InputError, match=r"fails in a clean process: .*model"):
        refuse_other_figures(run, tmp_path / "model", tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()
