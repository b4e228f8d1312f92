"""`assay diagnose` and `assay headroom`, from a run directory to files and tables."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from worlds import write_gold

from experiments.diagnosis.diagnose import work_items

DOCUMENTS = {
    "egfr": "Gefitinib blocks the EGFR kinase in lung cancer.",
    "met": "Capmatinib is a MET inhibitor for exon 14 skipping.",
    "il6": "Tocilizumab binds the receptor of IL-6.",
    "rules": "Travel must be approved by a manager. Travel, travel!",
    "notes": "Who approves travel is written in the rules of travel.",
}
QUERIES = {
    "found": "which drug blocks EGFR",
    "lost": "who approves travel",
    "gap": "anything absent",
    "none": "not judged",
}
QRELS = {"found": {"egfr": 1}, "lost": {"rules": 1}, "gap": {"nowhere": 1}, "none": {"met": 0}}
ONE = ("--set", "evaluation.cutoff=1", "--set", "namespace=general")


@pytest.fixture
def gold(tmp_path: Path) -> Path:
    return write_gold(tmp_path / "gold", DOCUMENTS, QUERIES, QRELS)


@pytest.fixture
def run(assay, gold: Path, tmp_path: Path) -> Path:
    done = assay("evaluate", gold, "-o", tmp_path / "run", "--no-track", "--json", *ONE)
    assert done.code == 0, done.err
    classes = json.loads(done.out)["classes"]
    assert sum(classes.values()) == 3
    assert (classes["ok"], classes["gold_corpus_gap"], classes["ranking_gap"]) == (1, 1, 1)
    return tmp_path / "run"


def by_id(found: dict[str, Any]) -> dict[str, Any]:
    return {query["query_id"]: query for query in found["queries"]}


def test_run_keeps_classes_and_evidence(run: Path) -> None:
    table = pq.read_table(run / "queries.parquet").to_pylist()
    rows = {row["query_id"]: row for row in table}
    assert [rows[q]["class"] for q in QUERIES] == ["ok", "ranking_gap", "gold_corpus_gap", None]
    assert rows["lost"]["lost_at"] == "merge"
    evidence = json.loads(rows["lost"]["evidence"])
    assert evidence["gold"][0]["document_id"] == "rules"
    assert evidence["above"][0]["document_id"] == "notes"
    assert json.loads(rows["found"]["causes"]) == []


def test_diagnosis_has_the_documented_shape_and_verifies(assay, run: Path) -> None:
    before = json.loads(assay("diagnose", run, "--json").out)
    assert before["counts"]["ranking_gap"] == 1
    assert not before["verified"]
    lost = by_id(before)["lost"]
    assert {"query_id", "type", "workflow", "class", "subclass", "cause", "gold", "lost_at"} <= set(
        lost
    )
    assert {cause["status"] for cause in lost["causes"]} == {"hypothesis"}
    done = assay("diagnose", run, "--verify", "--json")
    assert done.code == 0, done.err
    after = json.loads(done.out)
    assert after["verified"]
    assert after["replays"] > 1
    assert json.loads((run / "failures.json").read_text()) == after
    # What was tried is remembered, and an evaluation into the folder takes it away.
    assert json.loads(assay("diagnose", run, "--json").out) == after


def test_verification_of_an_earlier_run_goes_with_it(assay, gold: Path, run: Path) -> None:
    assert assay("diagnose", run, "--verify").code == 0
    assert assay("headroom", run).code == 0
    assert {"failures.json", "headroom.json"} <= {file.name for file in run.iterdir()}
    assert assay("evaluate", gold, "-o", run, "--no-track", *ONE).code == 0
    assert not {"failures.json", "headroom.json"} & {file.name for file in run.iterdir()}


def test_tables_name_queries_causes_and_what_to_mend(assay, run: Path) -> None:
    done = assay("diagnose", run)
    assert done.code == 0
    assert "ok 1" in done.out
    assert "unscorable 1" in done.out
    assert "--verify" in done.out
    assert "document_not_indexed" in done.out
    one = assay("diagnose", run, "--query", "lost")
    assert "lost_in_rerank, out-ranked in the merge; tier 2 passed through" in one.out
    assert "rules" in one.out
    assert "plan eagle_text:bm25" in one.out
    assert "hypothesis: " in one.out
    unknown = assay("diagnose", run, "--query", "nope")
    assert unknown.code == 2
    assert "has no query 'nope'" in unknown.err


def test_imported_run_says_what_it_cannot_tell(assay, gold: Path, tmp_path: Path) -> None:
    lines = ["found Q0 egfr 1 2.0 mine", "lost Q0 notes 1 2.0 mine", "lost Q0 rules 2 1.0 mine"]
    (tmp_path / "r.trec").write_text("\n".join(lines) + "\n")
    out = tmp_path / "imported"
    arguments = ("--set", "evaluation.cutoff=1", "--no-track")
    done = assay("evaluate", gold, "--run", tmp_path / "r.trec", "-o", out, "--json", *arguments)
    assert done.code == 0, done.err
    classes = json.loads(done.out)["classes"]
    assert (classes["ok"], classes["gold_corpus_gap"], classes["ranking_gap"]) == (1, 1, 1)
    lost = by_id(json.loads(assay("diagnose", out, "--json").out))["lost"]
    assert lost["subclass"] is None
    assert lost["gold"][0]["ranks"] == {"final": 2}
    assert "no stages" in lost["evidence"]["unknown"][0]
    refused = assay("diagnose", out, "--verify")
    assert refused.code == 2
    assert "imported" in refused.err


def test_imported_run_is_over_specified_when_a_term_stands_nowhere(assay, tmp_path: Path) -> None:
    terms = {"found": {"expected_terms": ["EGFR", "T790M"]}}
    gold = write_gold(tmp_path / "g", DOCUMENTS, QUERIES, {"found": {"egfr": 1}}, metadata=terms)
    (tmp_path / "r.trec").write_text("found Q0 egfr 1 2.0 mine\n")
    out = tmp_path / "imported"
    done = assay("evaluate", gold, "--run", tmp_path / "r.trec", "-o", out, "--no-track", "--json")
    assert json.loads(done.out)["classes"]["gold_over_specified"] == 1
    (query,) = json.loads(assay("diagnose", out, "--json").out)["queries"]
    assert query["subclass"] == "impossible_terms"
    assert query["cause"] == "term_not_in_relevant_text"


def test_headroom_is_written_and_printed(assay, run: Path) -> None:
    done = assay("headroom", run, "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert json.loads((run / "headroom.json").read_text()) == found
    assert found["stages"][0] == "corpus"
    # Of three queries one has no relevant document in the corpus.
    assert found["measures"]["hit@5"]["corpus"] == pytest.approx(2 / 3, abs=1e-6)
    shown = assay("headroom", run)
    assert "tier 2 has no weights" in shown.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("diagnose", "/nowhere"), "no such file or folder"),
        (("diagnose", "nowhere"), "no folder"),
        (("headroom", "/nowhere"), "no such file or folder"),
        (("headroom", "RUN", "--bound", "w_rank"), "no interval"),
        (("headroom", "RUN", "--bound", "w_rank=3:1"), "no interval"),
    ],
)
def test_bad_input_is_one_line(
    assay, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    done = assay(*(str(tmp_path) if part == "RUN" else part for part in arguments))
    assert done.code == 2
    (line,) = done.err.splitlines()
    assert message in line


def test_damaged_failures_file_is_named(assay, run: Path) -> None:
    (run / "failures.json").write_text("{}")
    done = assay("diagnose", run)
    assert done.code == 2
    assert "failures.json" in done.err


def test_cause_tried_in_vain_is_no_work_and_verified_work_comes_first() -> None:
    def query(name: str, *causes: tuple[str, str, bool]) -> dict[str, Any]:
        found = [
            {"cause": "x", "about": about, "advice": f"mend {about}", "status": status}
            | ({"replayed": {"class": "ranking_gap", "rank": 48}} if tried else {})
            for about, status, tried in causes
        ]
        return {"query_id": name, "causes": found, "evidence": {"plans": []}}

    hypothesis = "hypothesis"
    items = work_items(
        [
            query("a", ("T2", hypothesis, True), ("T1", "verified", True)),
            query("b", ("T1", hypothesis, True), ("T3", hypothesis, False)),
            query("c", ("T3", hypothesis, False)),
        ]
    )
    found = [(item["about"], item["queries"], item["verified"]) for item in items]
    assert found == [("T1", ["a"], ["a"]), ("T3", ["b", "c"], [])]


def test_page_in_mlflow_is_made_anew_when_a_tracked_run_is_looked_at(
    assay, gold: Path, tmp_path: Path
) -> None:
    out = tmp_path / "tracked"
    tracked = json.loads(assay("evaluate", gold, "-o", out, "--json", *ONE).out)["mlflow"]
    from mlflow.artifacts import download_artifacts

    def page() -> str:
        place = download_artifacts(run_id=tracked["run_id"], tracking_uri=tracked["uri"])
        return (Path(place) / "dashboard.html").read_text("utf-8")

    before = page()
    done = assay("diagnose", out, "--verify")
    assert done.code == 0, done.err
    assert f"the page of the MLflow run {tracked['run_id']} are up to date" in done.err
    verified = page()
    assert verified != before
    assert json.loads(assay("diagnose", tracked["run_id"], "--json").out)["verified"]
    # By its id the folder looked at is that of the artifacts.
    assert assay("headroom", tracked["run_id"]).code == 0
    assert page() not in (before, verified)


def test_nothing_is_said_of_mlflow_when_the_run_is_not_tracked(assay, run: Path) -> None:
    assert "MLflow" not in assay("diagnose", run, "--verify").err
