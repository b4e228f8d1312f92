"""`assay dashboard`, and the page that an evaluation leaves in MLflow."""

import json
from pathlib import Path

import pytest
from page_worlds import write_run
from worlds import write_gold


def test_page_is_written_and_named(assay, tmp_path: Path) -> None:
    run, page = write_run(tmp_path / "run"), tmp_path / "page.html"
    done = assay("dashboard", run, "-o", page)
    assert (done.code, done.out) == (0, f"page: {page}\n")
    assert page.read_text("utf-8").startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no run to show"),
        (["RUN"], "no page named"),
        (["RUN", "-o", "thesis.html"], "would be lost"),
        (["absent", "-o", "page.html"], "no folder"),
        (["RUN", "--serve", "."], "neither runs nor -o"),
        (["--serve", "absent"], "no such folder"),
    ],
)
def test_bad_input_is_one_line(
    assay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write_run(tmp_path / "RUN")
    (tmp_path / "thesis.html").write_text("years of work")
    done = assay("dashboard", *arguments)
    assert done.code == 2
    (line,) = done.err.splitlines()
    assert message in line
    assert not (tmp_path / "page.html").exists()
    assert (tmp_path / "thesis.html").read_text() == "years of work"


def test_page_is_an_artifact_when_a_run_is_tracked(assay, tmp_path: Path) -> None:
    gold = write_gold(tmp_path / "gold", {"a": "egfr", "b": "met"}, {"q": "egfr"}, {"q": {"a": 1}})
    (tmp_path / "r.trec").write_text("q Q0 a 1 1.0 mine\n")
    done = assay("evaluate", gold, "--run", tmp_path / "r.trec", "-o", tmp_path / "run", "--json")
    assert done.code == 0, done.err
    run_id = json.loads(done.out)["mlflow"]["run_id"]
    (page,) = (tmp_path / "store" / "artifacts").rglob("dashboard.html")
    assert run_id in str(page)
    assert assay("dashboard", tmp_path / "run", "-o", tmp_path / "page.html").code == 0
    # A run found by its MLflow id is the same run.
    assert assay("dashboard", run_id, "-o", tmp_path / "other.html").code == 0
