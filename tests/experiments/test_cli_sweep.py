"""`assay sweep` as a user types it: the page, what MLflow has of it, and Optuna's dashboard."""

import json
import random
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest
from sweep_worlds import SPACE, small_settings, small_world
from worlds import write_gold

from experiments.sweep.procedure import run_sweep

WORDS = [
    "dose",
    "renal",
    "kinase",
    "trial",
    "label",
    "response",
    "mutation",
    "placebo",
    "warning",
    "cohort",
]


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """Write a gold set of documents that share words, and a space for it."""
    rng = random.Random(0)
    texts = {f"d{i:02}": " ".join(rng.choices(WORDS, k=8)) for i in range(30)}
    asked = {f"q{i:02}": " ".join(rng.sample(texts[f"d{i:02}"].split(), 3)) for i in range(15)}
    write_gold(tmp_path / "mine", texts, asked, {f"q{i:02}": {f"d{i:02}": 1} for i in range(15)})
    (tmp_path / "space.yaml").write_text(SPACE)
    return tmp_path


def sweep(assay: Any, mine: Path, *more: object) -> Any:
    space = ["--space", mine / "space.yaml", "--set", "namespace=general", "--cv", 0]
    return assay("sweep", mine / "mine", "-o", mine / "out", *space, *more)


def test_sweep_leaves_a_page_and_a_run_with_children_and_a_model(
    assay: Any, mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = sweep(assay, mine, "--trials", 12, "--json")
    assert done.code == 0, done.err
    record = json.loads(done.out)
    tracked = record["mlflow"]
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=tracked["uri"])
    runs = client.search_runs([tracked["experiment_id"]])
    parent = client.get_run(tracked["run_id"])
    children = [r for r in runs if r.data.tags.get("mlflow.parentRunId") == tracked["run_id"]]
    assert len(children) == min(5, len(record["candidates"]))
    assert len(runs) == 1 + len(children)
    assert {r.info.status for r in runs} == {"FINISHED"}
    history = client.get_metric_history(tracked["run_id"], "trial_ndcg_at_10")
    assert [one.step for one in history] == list(range(12))
    assert history[0].value == record["train"]["default"]
    metrics, parameters = parent.data.metrics, parent.data.params
    assert metrics["test_ndcg_at_10"] == record["test"]["chosen"]
    assert metrics["p_value"] == record["test"]["p_value"]
    assert parameters["space_digest"] == record["space"]["digest"]
    assert (parameters["sampler"], parameters["base.merge.method"]) == ("tpe", "minmax")
    best = max(one["train"] for one in record["candidates"])
    assert max(child.data.metrics["train_ndcg_at_10"] for child in children) == best
    names = {artifact.path for artifact in client.list_artifacts(tracked["run_id"])}
    assert names == {"sweep.json", "trials.parquet", "best.yaml", "sweep.html", "model"}
    _model_searches(tracked, monkeypatch)

    again = assay("sweep", "report", mine / "out", "-o", mine / "again.html")
    assert again.code == 0
    written = (mine / "again.html").read_text("utf-8")
    assert written == (mine / "out" / "sweep.html").read_text("utf-8")
    assert "Overfit gap" in written


def _model_searches(tracked: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Load the model as its user does, from what MLflow keeps."""
    import mlflow
    import pandas as pd

    monkeypatch.setenv("MLFLOW_TRACKING_URI", tracked["uri"])
    address = tracked["load"].partition("'")[2].partition("'")[0]
    found = mlflow.pyfunc.load_model(address).predict(pd.DataFrame({"query": ["dose renal"]}))
    assert found["rank"].tolist() == [1, 2, 3, 4, 5]


def test_nothing_is_tracked_when_asked_not_to(assay: Any, mine: Path, store: Path) -> None:
    done = sweep(assay, mine, "--trials", 3, "--no-track")
    assert done.code == 0, done.err
    assert "report:" in done.out
    assert "gained on train and not on test" in done.out
    assert not (store / "mlflow.db").exists()


def test_tracking_is_refused_before_any_work(
    assay: Any, mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "file:///nowhere")
    done = sweep(assay, mine, "--trials", 3)
    assert done.code == 2
    assert "file store" in done.err
    assert not (mine / "out").exists()


def test_page_of_a_stranger_is_not_replaced(assay: Any, mine: Path) -> None:
    (mine / "out").mkdir()
    (mine / "out" / "sweep.html").write_text("theirs")
    done = sweep(assay, mine, "--trials", 3, "--no-track")
    assert done.code == 2
    assert "would be lost" in done.err
    assert (mine / "out" / "sweep.html").read_text() == "theirs"


def test_summary_says_what_the_parts_are_and_that_the_default_was_kept(
    assay: Any, mine: Path
) -> None:
    (mine / "space.yaml").write_text(f"{SPACE}  route.parent_doc_retrieval: switch\n")
    done = sweep(assay, mine, "--trials", 1, "--cv", 2, "--no-track")
    assert done.code == 0, done.err
    record = json.loads((mine / "out" / "sweep.json").read_text())
    swept = len(record["parameters_swept"])
    assert f"{swept} swept, of which {len(record['conditional'])} conditional" in done.err
    assert "test: every query, each judged with what the other folds chose (2 folds)" in done.out
    assert record["test"]["queries"] == 15
    assert record["best"]["changed"] == 0
    assert f"the default was kept, nothing is changed: {mine / 'out' / 'best.yaml'}" in done.out
    assert "best configuration" not in done.out
    assert record["inert"]
    assert f"inert: {len(record['inert'])} parameters, each with its reason in" in done.out


def test_folder_of_other_files_is_refused_up_front(assay: Any, mine: Path, store: Path) -> None:
    (mine / "out").mkdir()
    (mine / "out" / "run.json").write_text("{}")
    done = sweep(assay, mine, "--trials", 3, "--no-track")
    assert done.code == 2
    assert "holds other files (run.json)" in done.err
    assert [path.name for path in (mine / "out").iterdir()] == ["run.json"]
    assert not (store / "indexes").exists()


def test_folder_of_an_earlier_sweep_is_taken(assay: Any, mine: Path) -> None:
    storage = ("--storage", f"sqlite:///{mine / 'out' / 'mine.db'}", "--no-track")
    (mine / "out").mkdir()
    assert sweep(assay, mine, "--trials", 2, *storage).code == 0
    (mine / "out" / "sweep.json").unlink()  # as if it had been stopped
    assert sweep(assay, mine, "--trials", 3, *storage).code == 0
    (mine / "out" / "notes.txt").write_text("mine")
    assert sweep(assay, mine, "--trials", 4, *storage).code == 0


def test_report_is_refused_when_the_folder_holds_no_sweep(assay: Any, mine: Path) -> None:
    done = assay("sweep", "report", mine)
    assert done.code == 2
    assert "no folder of a sweep" in done.err
    assert "Traceback" not in done.err


def test_optuna_dashboard_opens_the_study(tmp_path: Path) -> None:
    gold, retriever = small_world(tmp_path)
    run_sweep(gold, retriever, small_settings(tmp_path / "out", 3))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    dashboard = Path(sys.executable).with_name("optuna-dashboard")
    process = subprocess.Popen(
        [dashboard, tmp_path / "out" / "study.journal", "--port", str(port), "--quiet"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        studies = _asked(f"http://127.0.0.1:{port}/api/studies", seconds=60)
        assert [one["study_name"] for one in studies["study_summaries"]] == ["small"]
        study = studies["study_summaries"][0]["study_id"]
        detail = _asked(f"http://127.0.0.1:{port}/api/studies/{study}?after=0", seconds=10)
        assert len(detail["trials"]) == 3
    finally:
        process.kill()
        process.wait(10)


def _asked(address: str, seconds: float) -> Any:
    give_up = time.monotonic() + seconds
    while True:
        try:
            with urllib.request.urlopen(address, timeout=10) as answer:
                return json.load(answer)
        except URLError:
            if time.monotonic() > give_up:
                raise
            time.sleep(0.2)
