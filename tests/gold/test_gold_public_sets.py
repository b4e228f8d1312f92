"""The public sets: they load, validate, and have the counts that are published."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gold import load, make_splits, read_qrels, read_run, stats, validate

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("ASSAY_DATA", ROOT / "../shared/data"))

pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(not (DATA / "scifact").is_dir(), reason="public sets not at ASSAY_DATA"),
]

# documents, queries, judgements by split
COUNTS = {
    "scifact": (5183, 1109, {"test": 339, "train": 919}),
    "medlars": (1033, 30, {"test": 696}),
    "medicationqa": (645, 646, {"test": 683}),
    "medquad": (5588, 4462, {"test": 6266}),
    "bc5cdr": (1500, 2419, {"dev": 1611, "test": 1490}),
    "spl_ddi": (208, 429, {"test": 466}),
    "kinase_lookup": (218, 640, {"test": 642}),
    "pubmedqa_l": (1000, 1000, {"dev": 500, "test": 500}),
}


@pytest.mark.parametrize("name", COUNTS)
def test_set_is_valid_and_whole_when_read(name: str) -> None:
    documents, queries, judgements = COUNTS[name]
    report = validate(DATA / name)
    assert report.ok
    assert report.counts["documents"] == documents
    assert report.counts["queries"] == queries
    assert report.counts["judgements"] == judgements
    for split, count in judgements.items():
        assert sum(map(len, load(DATA / name, split).qrels.values())) == count


def test_leakage_is_196_of_300_when_scifact_is_validated() -> None:
    report = validate(DATA / "scifact")
    assert report.counts["leakage"] == {"test/train": {"queries": 196, "of": 300}}
    (problem,) = [problem for problem in report.problems if problem.code == "leakage"]
    assert problem.message.startswith("196 of 300 queries of test share a relevant document")
    assert "181 documents" in problem.message
    assert len(problem.message) < 250


def test_no_leakage_is_left_when_scifact_is_split_anew() -> None:
    parts = [load(DATA / "scifact", split) for split in ("train", "test")]
    queries = {**parts[0].queries, **parts[1].queries}
    qrels = {**parts[0].qrels, **parts[1].qrels}
    splits = make_splits(queries, qrels, {"train": 0.6, "validation": 0.2, "test": 0.2})
    of_document: dict[str, set[str]] = {}
    for query_id, judged in qrels.items():
        for document_id in judged:
            of_document.setdefault(document_id, set()).add(splits.assignment[query_id])
    assert all(len(names) == 1 for names in of_document.values())
    found = [
        list(splits.assignment.values()).count(name) for name in ("train", "validation", "test")
    ]
    # 1,109 queries: 665.4, 221.8, 221.8, to within a group (9 queries at most) at each border.
    assert found == pytest.approx([665.4, 221.8, 221.8], abs=9)


def test_relevant_documents_a_query_are_counted_when_medlars_is_described() -> None:
    split = stats(DATA / "medlars")["splits"]["test"]
    assert split["relevant_per_query"]["mean"] == pytest.approx(696 / 30)
    assert split["grades"] == {"1": 696}


def test_trec_evals_own_files_read_alike_when_they_hold_comments() -> None:
    folder = DATA / "trec_eval_fixtures" / "test"
    qrels = read_qrels(folder / "qrels.test")
    # Counted from the file by awk.
    assert {query_id: len(judged) for query_id, judged in qrels.items()} == {
        "301": 1708, "302": 1061, "303": 912,
    }  # fmt: skip
    commented = read_qrels(folder / "qrels.test.with-comments")
    commented["301"]["CR93E-1860"] = commented["301"].pop("CR#93E-1860")  # no comment: not first
    assert commented == qrels


def test_reciprocal_ranks_are_trec_evals_when_its_own_run_is_read() -> None:
    folder = DATA / "trec_eval_fixtures" / "test"
    qrels, run = read_qrels(folder / "qrels.test"), read_run(folder / "results.test")
    expected = {
        query_id: float(value)
        for measure, query_id, value in map(
            str.split, (folder / "out.test.aq").read_text().splitlines()
        )
        if measure == "recip_rank" and query_id != "all"
    }
    for query_id, ranking in run.rankings.items():
        ranks = (rank for rank, d in enumerate(ranking, 1) if qrels[query_id].get(d, 0) > 0)
        assert 1 / next(ranks) == pytest.approx(expected[query_id], abs=5e-5)
    assert len(expected) == len(run.rankings) == 3


def test_words_after_the_tag_are_ignored_when_a_run_has_them() -> None:
    run = read_run(DATA / "trec_eval_fixtures" / "test" / "results.trunc")
    assert run.name == "STANDARD"
