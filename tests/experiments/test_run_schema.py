"""A run that was tampered with is refused in one line that names the file and what is wrong."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from run_worlds import write_run

from experiments.comparison.pairing import pair
from experiments.recorded import RecordedRun
from retriever.files import InputError

FIGURES = {"ndcg@10": [0.5, 0.25, 1.0], "hit@5": [1.0, 0.0, 1.0]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": True}, "run format True"),
        ({"kind": "alien"}, "kind: 'alien'"),
        ({"kind": "retriever"}, "index: a run of a retriever has one"),
        ({"created": 5}, "created: 5"),
        ({"queries": "many"}, "queries: 'many'"),
        ({"queries": True}, "queries: True"),
        ({"index": "x"}, "index: 'x'"),
        ({"gold": {"digest": "d"}}, "lacks gold.name"),
        ({"metrics": {"ndcg@10": "x"}}, "metrics.ndcg@10: 'x'"),
        ({"metrics": {"ndcg@10": {"value": 1.5}}}, "metrics.ndcg@10.value: 1.5"),
        ({"metrics": {"nonsense": {"value": 0.5}}}, "metrics: unknown measure 'nonsense'"),
        ({"metrics": {"NDCG@10": {"value": 0.5}}}, "should be ndcg@10"),
        ({"classes": "x"}, "classes: 'x'"),
        ({"fallbacks": "x"}, "fallbacks: 'x'"),
        ({"fallbacks": {"scope_empty": float("nan")}}, "NaN is no number of JSON"),
        ({"identity": [1]}, "identity: [1]"),
        ({"system": {"name": "\ud800"}}, "not UTF-8"),
    ],
)
def test_record_names_the_key_at_fault(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    file = write_run(tmp_path / "run", FIGURES).path / "run.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))
    with pytest.raises(InputError) as refused:
        RecordedRun.open(tmp_path / "run")
    assert str(refused.value).startswith(f"{file}: ")
    assert message in str(refused.value)


@pytest.mark.parametrize("content", [b'{"format": "\xff"}', b"[" * 100_000, b'{"format": 1e999}'])
def test_record_that_is_no_json_is_refused(tmp_path: Path, content: bytes) -> None:
    file = write_run(tmp_path / "run", FIGURES).path / "run.json"
    file.write_bytes(content)
    with pytest.raises(InputError, match=r"run\.json: no"):
        RecordedRun.open(tmp_path / "run")


def put(name: str, values: list[Any]) -> Callable[[pd.DataFrame], pd.DataFrame]:
    return lambda table: table.assign(**{name: values})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.iloc[:2], "holds 2 scorable and 0 other queries; run.json says 3 and 0"),
        (put("scorable", [True, True, False]), "holds 2 scorable and 1 other"),
        (put("query_id", ["q0", "q1", "q0"]), "query 'q0' stands twice"),
        (put("query_id", ["q0", None, "q2"]), "query_id holds no text"),
        (put("query_id", [0, 1, 2]), "query_id holds no text"),
        (put("scorable", ["yes", "no", "no"]), "scorable holds no true or false"),
        (put("ndcg@10", ["a", "b", "c"]), "ndcg@10 holds no numbers"),
        (put("ndcg@10", [0.5, 1.5, 0.5]), "ndcg@10 of query 'q0001' is 1.5, not from 0 to 1"),
        (put("ndcg@10", [0.5, -1.0, 0.5]), "ndcg@10 of query 'q0001' is -1, not from 0 to 1"),
        (put("ndcg@10", [0.5, float("inf"), 1.0]), "ndcg@10 of query 'q0001' is inf"),
        (put("hit@5", [1.0, 0.5, 0.0]), "hit@5 of query 'q0001' is 0.5, not 0 or 1"),
        (put("hit@5", [1.0, None, 0.0]), "hit@5 is undefined for 1 query, first 'q0001'; run.json"),
        (lambda t: t.drop(columns="hit@5"), "lacks the columns hit@5"),
        (put("gold_rank:merged", ["x", "y", "z"]), "gold_rank:merged holds no numbers"),
        (put("gold_rank:merged", [0.5, 1.0, 2.0]), "gold_rank:merged holds no ranks"),
    ],
)
def test_query_table_names_column_and_query(
    tmp_path: Path, change: Callable[[pd.DataFrame], pd.DataFrame], message: str
) -> None:
    metrics = {name: {"value": 0.5, "undefined": 0} for name in FIGURES}
    run = write_run(tmp_path / "run", FIGURES, metrics=metrics)
    file = run.path / "queries.parquet"
    change(pd.read_parquet(file)).to_parquet(file)
    with pytest.raises(InputError) as refused:
        RecordedRun.open(run.path).queries  # noqa: B018
    assert str(refused.value).startswith(f"{file}: ")
    assert message in str(refused.value)


def test_figures_that_run_json_calls_undefined_are_read(tmp_path: Path) -> None:
    metrics = {"coverage@5": {"value": 0.5, "undefined": 1}}
    run = write_run(tmp_path / "run", {"coverage@5": [0.5, None]}, metrics=metrics)
    assert len(run.queries) == 2


def test_runs_of_one_gold_set_have_the_same_queries(tmp_path: Path) -> None:
    one = write_run(tmp_path / "one", FIGURES)
    fewer = write_run(tmp_path / "two", {name: f[:2] for name, f in FIGURES.items()})
    for runs, lacking in (((one, fewer), fewer), ((fewer, one), fewer)):
        for shared in (False, True):
            with pytest.raises(InputError, match="only one of them has query 'q0002'") as refused:
                pair(*runs, shared_queries=shared)
            assert refused.value.path == lacking.path
