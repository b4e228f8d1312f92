"""A run directory is read whole or refused in one line."""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from page_worlds import write_imported, write_run

from reports.faults import InputError
from reports.headroom import headroom_by_query, headroom_summary
from reports.run_directory import RunDirectory
from reports.verdicts import STATUSES, read_verdicts


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run")


def test_folder_is_refused_when_it_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no run directory"):
        RunDirectory.open(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "no JSON"),
        ("[]", "expected a JSON object"),
        ('{"format": 2}', "run format 2; this version reads 1"),
        ('{"format": 1}', "lacks created"),
    ],
)
def test_record_is_refused_when_it_is_not_ours(run: Path, text: str, message: str) -> None:
    (run / "run.json").write_text(text)
    with pytest.raises(InputError, match=message):
        RunDirectory.open(run)


def read_candidates_of(run: RunDirectory) -> None:
    with run.candidate_columns():
        pass


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("queries.parquet", lambda run: run.queries),
        ("candidates.parquet", read_candidates_of),
        ("texts.parquet", lambda run: run.texts(["d000001#0000"])),
    ],
)
def test_table_is_refused_when_it_is_damaged(
    run: Path, name: str, read: Callable[[RunDirectory], object]
) -> None:
    (run / name).write_bytes(b"PAR1 no table")
    with pytest.raises(InputError, match=f"{name}: cannot be read"):
        read(RunDirectory.open(run))


def test_column_that_is_absent_is_named(run: Path) -> None:
    pq.write_table(pa.table({"query_id": ["q"], "text": ["t"]}), run / "queries.parquet")
    with pytest.raises(InputError, match="lacks the columns type, scorable"):
        RunDirectory.open(run).queries  # noqa: B018


def test_texts_come_in_the_order_asked_and_absent_ones_are_none(run: Path) -> None:
    texts, sections, lengths = RunDirectory.open(run).texts(
        ["d000002#0000", "nowhere", "d000001#0000"]
    )
    assert texts[1] is None
    assert sections == ["warnings", "", "warnings"]
    assert lengths == [800, 0, 800]
    assert [text and len(text) for text in texts] == [400, None, 400]


def test_line_is_named_when_a_trec_file_is_damaged(run: Path) -> None:
    (run / "qrels.trec").write_text("q 0 d 1\nq 0\n")
    with pytest.raises(InputError, match=r"qrels\.trec: line 2: expected 4 columns, got 2"):
        RunDirectory.open(run).judgements  # noqa: B018


def test_pool_is_that_of_the_configuration(run: Path, tmp_path: Path) -> None:
    assert RunDirectory.open(run).rerank_pool == 100
    imported = write_imported(tmp_path / "theirs", {"q": ["a"]}, {"q": "a"})
    assert RunDirectory.open(imported).rerank_pool is None
    (run / "config.yaml").write_text("merge: {}")
    with pytest.raises(InputError, match="rerank_pool"):
        RunDirectory.open(run).rerank_pool  # noqa: B018


def test_stamp_changes_when_a_file_comes(run: Path) -> None:
    opened = RunDirectory.open(run)
    before = opened.stamp
    assert opened.stamp == before
    (run / "headroom.json").write_text("{}")
    assert opened.stamp != before


def test_tried_causes_take_the_place_of_guesses_when_there_are_any(run: Path) -> None:
    plain = read_verdicts(RunDirectory.open(run))
    # q0001 has the class ranking_gap: one cause never tried, one tried with success.
    assert [STATUSES[status] for _, status, _ in plain.causes[1]] == ["untried", "verified"]
    tried = {
        "queries": [
            {
                "query_id": "q0001",
                "causes": [
                    {
                        "cause": "pool",
                        "status": "hypothesis",
                        "evidence": {"rank": 7},
                        "replayed": {"class": "ranking_gap", "rank": None},
                        "advice": "Look.",
                    }
                ],
            }
        ],
        "work_items": [
            {"item": "look", "cause": "x", "queries": ["q0003", "q0004"], "verified": []},
            {"item": "add it", "cause": "x", "queries": ["q0004", "gone"], "verified": ["q0004"]},
        ],
    }
    (run / "failures.json").write_text(json.dumps(tried))
    found = read_verdicts(RunDirectory.open(run))
    ((place, status, evidence),) = found.causes[1]
    assert (found.advice[place], STATUSES[status], evidence) == (
        ("pool", "Look."),
        "insufficient",
        "rank: 7; after the change: class ranking_gap",
    )
    # Work that was seen to help comes before what nothing has tried.
    items = [(one.item, one.rows, one.verified) for one in found.work_items]
    assert items == [("add it", [4], 1), ("look", [3, 4], 0)]
    # The other queries keep what the run itself said.
    assert [one[1:] for one in found.causes[2]] == [one[1:] for one in plain.causes[2]] != []


def test_queries_are_not_classified_when_the_run_has_no_classes(tmp_path: Path) -> None:
    found = read_verdicts(RunDirectory.open(write_run(tmp_path / "run", classified=False)))
    assert not found.classified
    assert set(found.classes) == {"not_classified"}
    assert not any(found.causes)


def test_cause_is_refused_when_its_status_is_unknown(run: Path) -> None:
    (run / "failures.json").write_text(
        json.dumps(
            {"queries": [{"query_id": "q0001", "causes": [{"cause": "x", "status": "maybe"}]}]}
        )
    )
    with pytest.raises(InputError, match="query q0001: a cause needs one of the statuses"):
        read_verdicts(RunDirectory.open(run))


def test_evidence_is_told_without_what_the_page_draws(run: Path) -> None:
    found = read_verdicts(RunDirectory.open(run))
    (row,) = [i for i, name in enumerate(found.classes) if name == "term_metric_strict"][:1]
    assert found.evidence[row] == "missing_terms: renal"


def test_headroom_is_told_by_stage_and_by_query(run: Path) -> None:
    assert headroom_summary(RunDirectory.open(run)) is None
    tier_2 = {"k": 5, "hit_now": 0.1, "hit_upper_bound": 0.4, "failing": 9, "feasible": 3}
    found = {
        "stages": ["corpus", "rerank_merged"],
        "measures": {"hit@5": {"rerank_merged": 0.1, "corpus": 0.9}},
        "tier_2": {**tier_2, "undecided": 0, "label": "upper bound"},
        "queries": [
            {"query_id": "q0001", "tier_2": {"verdict": "feasible", "change": {"w_rank": -1.5}}},
            {"query_id": "q0002", "tier_2": None},
        ],
    }
    (run / "headroom.json").write_text(json.dumps(found))
    summary = headroom_summary(RunDirectory.open(run))
    assert summary is not None
    assert summary["measures"] == {"hit@5": [0.9, 0.1]}
    assert summary["tier_2"]["hit_upper_bound"] == 0.4
    assert headroom_by_query(RunDirectory.open(run)) == {
        "q0001": "other weights of tier 2 would bring it in: w_rank -1.5"
    }
    (run / "headroom.json").write_text('{"stages": ["corpus"], "measures": {"hit@5": {}}}')
    with pytest.raises(InputError, match=r"headroom\.json: cannot be read"):
        headroom_summary(RunDirectory.open(run))
