"""`assay sweep` as a user types it: the page, what MLflow has of it, and Optuna's dashboard."""

import json
import random
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.error import URLError

import pytest
from sweep_worlds import SPACE, small_settings, small_world
from worlds import write_gold

from experiments.sweep.procedure import run_sweep
from experiments.sweep.workers import helpers
from retriever import InputError

if TYPE_CHECKING:
    from experiments.sweep.procedure import Sweep

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


def test_finished_sweep_keeps_its_run_when_the_command_is_given_again(
    assay: Any, mine: Path
) -> None:
    first = json.loads(sweep(assay, mine, "--trials", 4, "--json").out)["mlflow"]
    again = sweep(assay, mine, "--trials", 4, "--json")
    record = json.loads(again.out)
    assert (first["reused"], record["mlflow"]["reused"]) == (False, True)
    assert record["mlflow"]["run_id"] == first["run_id"]
    assert record["mlflow"]["experiment_id"] == first["experiment_id"]
    assert record["seconds_per_trial"] is None
    assert _parents(first) == {first["run_id"]}
    said = sweep(assay, mine, "--trials", 4).out
    assert f"tracked already as {first['run_id']}, nothing new is logged; open it with" in said
    # More trials, or another experiment, is something new to log.
    more = json.loads(sweep(assay, mine, "--trials", 5, "--json").out)["mlflow"]
    assert not more["reused"]
    assert _parents(first) == {first["run_id"], more["run_id"]}
    other = sweep(assay, mine, "--trials", 5, "--json", "--experiment", "other")
    assert not json.loads(other.out)["mlflow"]["reused"]


def test_time_of_a_trial_is_not_logged_when_the_command_ran_none(assay: Any, mine: Path) -> None:
    assert sweep(assay, mine, "--trials", 3, "--no-track").code == 0
    tracked = json.loads(sweep(assay, mine, "--trials", 3, "--json").out)["mlflow"]
    from mlflow.tracking import MlflowClient

    run = MlflowClient(tracking_uri=tracked["uri"]).get_run(tracked["run_id"])
    assert "finished" in run.data.metrics
    assert "seconds_per_trial" not in run.data.metrics
    assert "seconds_per_trial" not in tracked["skipped"].get("undefined_metrics", [])


def _parents(tracked: dict[str, Any]) -> set[str]:
    """Return the runs of an experiment that are below no other."""
    from mlflow.tracking import MlflowClient

    runs = MlflowClient(tracking_uri=tracked["uri"]).search_runs([tracked["experiment_id"]])
    return {r.info.run_id for r in runs if "mlflow.parentRunId" not in r.data.tags}


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
    assert "holds sweep.html and neither sweep.json nor the study" in done.err
    assert (mine / "out" / "sweep.html").read_text() == "theirs"


def test_summary_says_what_the_parts_are_and_that_the_default_was_kept(
    assay: Any, mine: Path
) -> None:
    (mine / "space.yaml").write_text(f"{SPACE}  route.parent_doc_retrieval: switch\n")
    done = sweep(assay, mine, "--trials", 1, "--cv", 2, "--no-track")
    assert done.code == 0, done.err
    record = json.loads((mine / "out" / "sweep.json").read_text())
    assert "test: every query, each judged with what the other folds chose (2 folds)" in done.out
    assert record["test"]["queries"] == 15
    assert record["best"]["changed"] == 0
    assert f"the default was kept, nothing is changed: {mine / 'out' / 'best.yaml'}" in done.out
    assert "best configuration" not in done.out
    assert list(record["inert"]) == ["route.parent_doc_retrieval"]
    assert "inert: 1 parameter, each with its reason in" in done.out


CONDITIONS = """
name: conditions
parameters:
  merge.method: {choices: [minmax, rrf]}
  merge.rrf_k: {low: 1.0, high: 100.0}
  route.bm25_search: switch
  merge.weights.dense:
    {low: 0.0, high: 1.0, complement: merge.weights.bm25, when: {route.bm25_search: true}}
"""


def test_conditional_parameters_are_the_same_on_terminal_record_and_page(
    assay: Any, mine: Path
) -> None:
    (mine / "space.yaml").write_text(CONDITIONS)
    done = sweep(assay, mine, "--trials", 2, "--no-track")
    assert done.code == 0, done.err
    record = json.loads((mine / "out" / "sweep.json").read_text())
    assert record["conditional"] == {
        "merge.rrf_k": "found",
        "merge.weights.dense": "declared",
    }
    words = "4 swept, of which 2 conditional (1 declared, 1 found)"
    assert words in done.err
    assert words.replace("4", "4 parameters") in done.out
    page = (mine / "out" / "sweep.html").read_text("utf-8")
    assert "4 parameters swept, 2 conditional (1 declared, 1 found)" in page
    again = sweep(assay, mine, "--trials", 2, "--no-track")
    assert words.replace("4", "4 parameters") in again.out


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


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("sweep.json", "{", "sweep.json: no record of a sweep"),
        ("sweep.json", "[1]", "sweep.json: no record of a sweep"),
        (
            "sweep.json",
            '{"kind": "sweep", "study": "theirs"}',
            "another sweep, the study theirs",
        ),
        ("best.yaml", "merge: {}", "holds best.yaml and neither sweep.json nor the study"),
        ("trials.parquet", "", "holds trials.parquet and neither"),
    ],
)
def test_sweep_keeps_a_file_that_is_not_its_own(
    assay: Any, mine: Path, name: str, text: str, said: str
) -> None:
    (mine / "out").mkdir()
    (mine / "out" / name).write_text(text)
    done = sweep(assay, mine, "--trials", 3, "--no-track")
    assert done.code == 2
    (line,) = done.err.splitlines()
    assert said in line
    assert {path.name: path.read_text() for path in (mine / "out").iterdir()} == {name: text}


def test_sweep_goes_on_when_its_folder_was_moved_and_not_under_another_name(
    assay: Any, mine: Path
) -> None:
    assert sweep(assay, mine, "--trials", 2, "--no-track").code == 0
    (mine / "out").rename(mine / "moved")
    done = sweep(assay, mine, "--trials", 3, "--no-track", "-o", mine / "moved")
    assert done.code == 0, done.err
    assert "3 trials finished" in done.out
    other = sweep(assay, mine, "--trials", 3, "--no-track", "-o", mine / "moved", "--study", "new")
    assert other.code == 2
    assert "holds another sweep, the study mine-test-small" in other.err


@pytest.mark.parametrize(
    ("queries", "said"),
    [
        (1, "1 query with a relevant document: too few to tune"),
        (4, "4 queries with a relevant document: too few to tune"),
    ],
)
def test_sweep_is_refused_once_when_queries_are_too_few(
    assay: Any, mine: Path, queries: int, said: str
) -> None:
    few = {f"q{i:02}": {f"d{i:02}": 1} for i in range(queries)}
    asked = dict.fromkeys(few, "dose renal")
    write_gold(mine / "few", {f"d{i:02}": "dose renal" for i in range(9)}, asked, few)
    for cv in ((), ("--cv", 0), ("--cv", 2)):
        done = assay("sweep", mine / "few", "--no-track", "--trials", 1, *cv)
        assert done.code == 2
        assert said in done.err.splitlines()[-1]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--cv", 1), "15 queries with a relevant document cannot be divided into 1 fold"),
        (("--cv", 16), "--cv 2 to --cv 15"),
        (("--storage", "redis://host"), "is no storage"),
        (("--storage", ""), "--storage is empty"),
        (("--study", ""), "--study is empty"),
        (("--study", " "), "--study is empty"),
        (("--test-split", ""), "--test-split is empty"),
        (("--split", ""), "--split is empty"),
        (("--space", ""), "--space is empty"),
        (("--storage", "grpc://127.0.0.1:1"), "no answer from 127.0.0.1:1"),
    ],
)
def test_refused_sweep_leaves_no_folder(
    assay: Any, mine: Path, more: tuple[object, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from experiments.sweep import storage

    monkeypatch.setattr(storage, "PATIENCE_SECONDS", 0.2)
    done = sweep(assay, mine, "--trials", 1, "--no-track", *more)
    assert done.code == 2
    assert said in done.err.splitlines()[-1]
    assert not (mine / "out").exists()


def test_sweep_of_five_queries_promises_nothing(assay: Any, mine: Path) -> None:
    five = {f"q{i:02}": {f"d{i:02}": 1} for i in range(5)}
    texts = {f"d{i:02}": f"{WORDS[i]} {WORDS[-i]} label" for i in range(9)}
    write_gold(mine / "five", texts, {f"q{i:02}": WORDS[i] for i in range(5)}, five)
    space = ("--space", mine / "space.yaml", "--set", "namespace=general")
    done = assay("sweep", mine / "five", "--no-track", "--trials", 2, *space)
    assert done.code == 0, done.err
    # Of five queries at best all five differ one way: p = 2 / 2^5 = .0625.
    assert "5 queries, each judged in one of 5 folds" in done.err
    assert "so few cannot show any difference to be significant" in done.err
    record = json.loads((next((mine / "store" / "sweeps").iterdir()) / "sweep.json").read_text())
    assert record["test"]["smallest_detectable"] is None
    assert record["choice"]["few"]
    assert done.err.index(record["choice"]["in_words"]) < done.err.index("tuning on")
    assert "likely to" not in done.err + done.out


def test_phases_are_plain_lines_when_there_is_no_terminal(assay: Any, mine: Path) -> None:
    done = sweep(assay, mine, "--trials", 2, "--no-track")
    for line in ("opening the index of", "loading ranx", "read: 30", "mine-test-small: tuning on"):
        assert sum(said.startswith(line) for said in done.err.splitlines()) == 1, line
    assert "\x1b" not in done.err
    assert sweep(assay, mine, "--trials", 3, "--no-track", "--json").err == ""


def test_url_of_the_storage_is_in_no_process_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "experiments.sweep.workers.START",
        "import os, sys; print(sys.argv[1:], os.environ['ASSAY_STORAGE'], file=sys.stderr); "
        "sys.exit(2)",
    )
    url = "postgresql://me:secret@host/studies"
    with (
        pytest.raises(InputError) as ended,
        helpers(["gold", "--study", "s"], url, 1, print) as started,
    ):
        started[0].wait(30)
    shown, _, environment = str(ended.value).rpartition(" ")
    assert "secret" not in shown
    assert "'worker', 'gold', '--study', 's'" in shown
    assert environment == url


def test_worker_takes_the_storage_from_its_environment(
    assay: Any, mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sweep(assay, mine, "--trials", 2, "--no-track").code == 0
    monkeypatch.setenv("ASSAY_STORAGE", f"journal:{mine / 'out' / 'study.journal'}")
    (index,) = (mine / "store" / "indexes").iterdir()
    asked = ("--index", index, "--study", "mine-test-small", "--trials", 4)
    done = assay("sweep", "worker", mine / "mine", *asked)
    assert done.code == 0, done.err
    assert "4 trials finished" in done.err


@pytest.mark.parametrize(
    ("study", "storage", "said"),
    [
        ("", "journal:x", "assay: --study is empty (give --study a value)"),
        (" ", "journal:x", "assay: --study is empty (give --study a value)"),
        ("mine", "", "assay: --storage is empty (give --storage a value)"),
    ],
)
def test_worker_is_refused_at_once_when_a_name_is_empty(
    assay: Any, mine: Path, study: str, storage: str, said: str
) -> None:
    asked = ("--index", mine / "none", "--study", study, "--storage", storage, "--trials", 4)
    done = assay("sweep", "worker", mine / "mine", *asked)
    assert (done.code, done.out, done.err.splitlines()) == (2, "", [said])


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


def _shown(changes: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Return the lines of the summary of a made sweep."""
    from types import SimpleNamespace

    from sweep_records import sweep_record

    from experiments.commands.sweep_terminal import show_sweep

    record = sweep_record(12) | changes
    show_sweep(cast("Sweep", SimpleNamespace(record=record, path=Path("/made"))))
    return capsys.readouterr().out.splitlines()


def test_summary_lists_changes_under_the_chosen_and_not_under_the_inert(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lines = _shown({}, capsys)
    inert = next(i for i, line in enumerate(lines) if line.startswith("inert: 1 parameter"))
    assert not lines[inert + 1].startswith(" ")
    assert lines[-3].endswith("/nowhere/best.yaml")
    assert lines[-2:] == ["changed:", '  merge.method: "minmax" -> "rrf"']


def test_summary_says_how_the_chosen_did_on_the_other_objectives(
    capsys: pytest.CaptureFixture[str],
) -> None:
    figures = {"default": 0.5, "chosen": 0.4, "difference": -0.1}
    lines = _shown(
        {
            "objective": ["ndcg@10", "hit@5"],
            "objectives": {"ndcg@10": figures, "hit@5": figures},
        },
        capsys,
    )
    said = lines.index("chosen by ndcg@10, which the verdict is of; on test, without a verdict:")
    assert lines[said + 1] == "  hit@5: default 0.5000  chosen 0.4000  -0.1000"
    assert "chosen: trial 11, ndcg@10 on train 0.6100" in lines
