"""A run directory is read whole or refused in one line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from page_worlds import write_imported, write_run

from reports.dashboard import dashboard_data
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
    with pytest.raises(InputError, match="lacks the columns type, critical, scorable"):
        RunDirectory.open(run).queries  # noqa: B018


def put(name: str, values: Callable[[list[Any]], list[Any]]) -> Callable[[pa.Table], pa.Table]:
    """Return a change of one column: of its values to others."""

    def change(table: pa.Table) -> pa.Table:
        made = pa.array(values(table.column(name).to_pylist()))
        return table.set_column(table.column_names.index(name), name, made)

    return change


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("queries", lambda t: t.slice(0, 11), "holds 11 scorable and 0 other queries"),
        ("queries", put("ndcg@10", lambda v: [*v[:3], 1.5, *v[4:]]), "of query 'q0003' is 1.5"),
        ("queries", put("hit@5", lambda v: [*v[:3], 0.5, *v[4:]]), "is 0.5, not 0 or 1"),
        ("queries", put("hit@5", lambda v: [str(x) for x in v]), "hit@5 holds no numbers"),
        ("queries", put("query_id", lambda v: ["q0001", *v[1:]]), "query 'q0001' stands twice"),
        ("queries", put("causes", lambda v: [1 for _ in v]), "causes holds no text"),
        ("queries", put("evidence", lambda v: ["[1]", *v[1:]]), "'q0000': evidence is not of its"),
        ("queries", put("gold_rank:final", lambda v: [0 for _ in v]), "holds no ranks from 1"),
        ("queries", put("gold_rank:final", lambda v: [2**62 for _ in v]), "holds no ranks from 1"),
        # Query 11 has the rows from 220 on; 19 of its 20 are left.
        ("candidates", lambda t: t.slice(0, 239), "holds 19 units of query 'q0011'; queries"),
        ("candidates", lambda t: t.drop_columns("gold"), "lacks the columns gold"),
        ("candidates", put("gold", lambda v: ["x" for _ in v]), "gold holds no true or false"),
        ("candidates", put("rank:final", lambda v: [0.5 for _ in v]), "rank:final holds no ranks"),
        ("candidates", put("score:final", lambda v: ["x" for _ in v]), "score:final holds no num"),
        ("candidates", put("query_id", lambda v: ["zz", *v[1:]]), "query 'zz' is not in queries"),
        ("texts", lambda t: t.drop_columns("text"), "lacks the columns text"),
        ("texts", put("characters", lambda v: ["x" for _ in v]), "characters holds no numbers"),
    ],
)
def test_table_that_was_changed_is_refused(
    run: Path, file: str, change: Callable[[pa.Table], pa.Table], message: str
) -> None:
    place = run / f"{file}.parquet"
    pq.write_table(change(pq.read_table(place)), place)
    with pytest.raises(InputError) as refused:
        dashboard_data([RunDirectory.open(run)])
    assert str(refused.value).startswith(f"{place}: ")
    assert message in str(refused.value)
    assert "anew" in str(refused.value)


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("run.json", '"unscorable": 0', '"unscorable": -1', "run.json: unscorable: -1"),
        ("run.json", '"by_type": {', '"by_type": {"x": 1, ', "run.json: by_type.x: 1"),
        ("run.json", '"p50": 1.5', '"p50": "fast"', "run.json: latency_ms.stages"),
        ("qrels.trec", "q0001 0", "q0001 0 q0001 0", "qrels.trec:2: expected 4 columns, got 6"),
        ("qrels.trec", "d000027 2", "d000027 two", "qrels.trec:2: 'two' is no grade"),
        ("failures.json", "", '{"work_items": [{"queries": 5}]}', "failures.json: work_items: exp"),
        ("headroom.json", "", '{"queries": [5]}', "headroom.json: "),
    ],
)
def test_file_that_was_changed_is_refused(
    run: Path, file: str, old: str, new: str, message: str
) -> None:
    place = run / file
    text = place.read_text() if place.exists() else ""
    assert old in text
    place.write_text(text.replace(old, new, 1))
    with pytest.raises(InputError) as refused:
        dashboard_data([RunDirectory.open(run)])
    assert message in str(refused.value)


def test_imported_ranking_whose_lines_were_cut_is_refused(tmp_path: Path) -> None:
    run = write_imported(tmp_path / "r", {"q": ["a", "b"]}, {"q": "b"})
    table = pq.read_table(run / "queries.parquet")
    pq.write_table(table.append_column("retrieved", pa.array([2])), run / "queries.parquet")
    assert dashboard_data([RunDirectory.open(run)])
    (run / "run.trec").write_text("q Q0 a 1 2 x\n")
    with pytest.raises(InputError, match=r"run\.trec: holds 1 units of query 'q'; .* says 2"):
        dashboard_data([RunDirectory.open(run)])


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
    with pytest.raises(InputError, match=r"qrels\.trec:2: expected 4 columns, got 2"):
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
