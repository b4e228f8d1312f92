"""One run in MLflow: what is logged, what is refused, and who may write at once."""

import hashlib
import json
import math
import socket
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from experiments.tracking.mlflow_run import DatasetRecord, log_run
from experiments.tracking.store import check_tracking, default_tracking_uri
from retriever import InputError

DATASET = DatasetRecord(name="smoke/test", digest="ab" * 32, source="/gold/smoke")


@pytest.fixture(autouse=True)
def _no_outer_settings(monkeypatch):
    for variable in ("MLFLOW_TRACKING_URI", "MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_ID"):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder whose name has a space and a percent sign; MLflow's tables are made in it once."""
    return tmp_path_factory.mktemp("store 100% ours")


@pytest.fixture
def run_folder(tmp_path):
    folder = tmp_path / "run"
    (folder / "sub").mkdir(parents=True)
    (folder / "run.json").write_text("{}")
    (folder / "sub" / "page.html").write_text("<p>")
    return folder


@pytest.fixture
def log(folder, run_folder):
    """Log a run with one field changed."""

    def log_with(**changed):
        fields = {
            "uri": default_tracking_uri(folder),
            "experiment": "smoke",
            "name": "a run",
            "parameters": {},
            "metrics": {},
            "dataset": DATASET,
            "artifacts": run_folder,
            "tags": {},
        }
        return log_run(**(fields | changed))

    return log_with


def read(tracked):
    from mlflow.tracking import MlflowClient

    return MlflowClient(tracked.uri).get_run(tracked.run_id)


def artifact(tracked, name):
    from mlflow.artifacts import download_artifacts

    return download_artifacts(run_id=tracked.run_id, artifact_path=name, tracking_uri=tracked.uri)


def test_run_reads_back_when_it_was_logged(log):
    tracked = log(
        parameters={"merge": {"rrf_k": 60, "method": "rrf"}, "plugins": {"biomed": {"on": True}}},
        metrics={"hit@5": 0.5, "mrr": 0.25},
        tags={"assay.kind": "retriever", "assay.config": ""},
    )
    run = read(tracked)
    assert run.info.run_name == "a run"
    assert run.info.status == "FINISHED"
    assert run.info.experiment_id == tracked.experiment_id
    assert run.data.metrics == {"hit_at_5": 0.5, "mrr": 0.25}
    assert run.data.params == {
        "merge.rrf_k": "60",
        "merge.method": "rrf",
        "plugins.biomed.on": "true",
    }
    assert run.data.tags["assay.kind"] == "retriever"
    assert tracked.skipped == {}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (0.6, "0.6"),
        ([], "[]"),
        ({}, "{}"),
        (["a", "β"], '["a", "β"]'),
        ("true", "true"),
        ((1, 2), "[1, 2]"),
    ],
)
def test_parameter_becomes_text_when_it_is_no_text(log, value, text):
    assert read(log(parameters={"key": value})).data.params == {"key": text}


def test_dataset_is_an_input_of_the_run_when_it_is_logged(log):
    (logged,) = read(log()).inputs.dataset_inputs
    assert logged.dataset.name == "smoke/test"
    assert logged.dataset.digest == "ab" * 18  # MLflow keeps 36 characters
    assert json.loads(logged.dataset.source) == {"uri": "/gold/smoke"}
    tags = {tag.key: tag.value for tag in logged.tags}
    assert tags == {"mlflow.data.context": "evaluation", "digest": "ab" * 32}


def test_run_folder_is_copied_whole_when_it_has_folders(log):
    tracked = log()
    with open(artifact(tracked, "sub/page.html")) as page:  # noqa: PTH123 - MLflow gives a str
        assert page.read() == "<p>"


def test_artifacts_lie_beside_the_database_when_no_root_is_given(log, folder):
    tracked = log()
    assert (folder / "artifacts" / tracked.run_id / "artifacts" / "run.json").is_file()


def test_artifacts_lie_under_the_root_when_one_is_given(log, tmp_path):
    tracked = log(experiment="elsewhere", artifact_root=tmp_path / "files")
    assert (tmp_path / "files" / tracked.run_id / "artifacts" / "run.json").is_file()


def test_experiment_is_the_same_when_two_runs_name_it(log):
    first, second = log(experiment="shared"), log(experiment="shared")
    assert first.experiment_id == second.experiment_id
    assert first.run_id != second.run_id


@pytest.mark.parametrize("value", [None, math.nan, math.inf, -math.inf])
def test_metric_is_counted_and_not_logged_when_it_is_undefined(log, value):
    tracked = log(metrics={"coverage@5": value, "hit@5": 1.0})
    assert read(tracked).data.metrics == {"hit_at_5": 1.0}
    assert tracked.skipped == {"undefined_metrics": ("coverage@5",)}


def test_parameter_is_kept_in_full_when_mlflow_would_cut_it(log):
    long = "x" * 6_001
    tracked = log(parameters={"expand": {"words": long, "terms": "y" * 6_000}})
    params = read(tracked).data.params
    assert params["expand.terms"] == "y" * 6_000
    digest = hashlib.sha256(long.encode()).hexdigest()
    assert params["expand.words"] == (
        f"sha256:{digest} (6001 characters, see parameters_in_full.json)"
    )
    assert tracked.skipped == {"parameters_in_full": ("expand.words",)}
    with open(artifact(tracked, "parameters_in_full.json")) as kept:  # noqa: PTH123
        assert json.load(kept) == {"expand.words": long}


@pytest.mark.parametrize("name", ["a@b", "weights/../x", "k" * 251, ".hidden"])
def test_parameter_is_kept_in_full_when_mlflow_refuses_its_name(log, name):
    tracked = log(parameters={name: 1, "fine": 2})
    assert read(tracked).data.params == {"fine": "2"}
    assert tracked.skipped == {"parameters_in_full": (name,)}


def test_everything_is_logged_when_there_are_more_values_than_one_batch_takes(log):
    tracked = log(
        parameters={f"p{i}": i for i in range(230)},
        metrics={f"hit@{i}": i / 2000 for i in range(1, 1201)},
    )
    run = read(tracked)
    assert len(run.data.params) == 230
    assert len(run.data.metrics) == 1200


def test_run_is_a_new_one_when_the_environment_names_another(log, monkeypatch):
    first = log(metrics={"mrr": 0.1})
    monkeypatch.setenv("MLFLOW_RUN_ID", first.run_id)
    second = log(metrics={"mrr": 0.9})
    assert second.run_id != first.run_id
    assert read(first).data.metrics == {"mrr": 0.1}


def test_run_is_logged_when_another_is_active_in_this_process(log, folder):
    import mlflow

    mlflow.set_tracking_uri(default_tracking_uri(folder))
    try:
        with mlflow.start_run() as outer:
            inner = log(metrics={"mrr": 0.5})
        assert inner.run_id != outer.info.run_id
        assert read(inner).info.status == "FINISHED"
    finally:
        mlflow.set_tracking_uri(None)


def test_nothing_is_left_in_the_working_folder_when_a_run_is_logged(log, tmp_path, monkeypatch):
    empty = tmp_path / "elsewhere"
    empty.mkdir()
    monkeypatch.chdir(empty)
    log(experiment="from elsewhere")
    assert list(empty.iterdir()) == []


def test_threads_all_log_when_they_start_at_once(log):
    with ThreadPoolExecutor(4) as pool:
        tracked = list(pool.map(lambda i: log(metrics={"mrr": i / 8}), range(8)))
    assert [read(run).data.metrics["mrr"] for run in tracked] == [i / 8 for i in range(8)]


def test_run_is_marked_failed_when_its_files_cannot_be_stored(log, folder, tmp_path):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(InputError, match="cannot log to"):
        log(experiment="broken", artifact_root=tmp_path / "file")
    with sqlite3.connect(folder / "mlflow.db") as database:
        query = (
            "select status from runs join experiments using (experiment_id)"
            " where experiments.name = 'broken'"
        )
        assert database.execute(query).fetchall() == [("FAILED",)]
    database.close()


@pytest.mark.parametrize("uri", ["./mlruns", "file:///tmp/mlruns", "mlruns"])
def test_file_store_is_refused_when_it_is_asked_for(log, uri, monkeypatch, folder):
    with pytest.raises(InputError, match="file store"):
        log(uri=uri)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    with pytest.raises(InputError, match="MLFLOW_TRACKING_URI=sqlite"):
        default_tracking_uri(folder)


def test_environment_decides_the_store_when_it_names_one(monkeypatch, folder):
    assert default_tracking_uri(folder) == f"sqlite:///{folder}/mlflow.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://localhost:5000")
    assert default_tracking_uri(folder) == "http://localhost:5000"


def test_store_is_refused_at_once_when_its_file_is_no_database(log, tmp_path):
    (tmp_path / "mlflow.db").write_text("not a database, " * 100)
    with pytest.raises(InputError, match=r"cannot log to sqlite.*mlflow\.db: file is not"):
        log(uri=f"sqlite:///{tmp_path}/mlflow.db")


def test_password_is_not_shown_when_the_store_cannot_be_used(log):
    with pytest.raises(InputError, match=r"://\*\*\*@host/runs") as caught:
        log(uri="nodatabase://assay:s3cret@host/runs")
    assert "s3cret" not in str(caught.value)


def test_run_folder_is_refused_when_it_is_missing(log, tmp_path):
    with pytest.raises(ValueError, match="no folder"):
        log(artifacts=tmp_path / "absent")


def test_metric_is_refused_when_mlflow_would_refuse_its_name(log):
    with pytest.raises(ValueError, match="refuses"):
        log(metrics={"hit%5": 1.0})


def test_tag_is_refused_when_mlflow_would_cut_it(log):
    with pytest.raises(ValueError, match="longer"):
        log(tags={"note": "x" * 8_001})


LOG_FROM_A_PROCESS = """
import sys
from pathlib import Path
from experiments.tracking.mlflow_run import DatasetRecord, log_run
from experiments.tracking.store import default_tracking_uri
store, run = Path(sys.argv[1]), Path(sys.argv[2])
log_run(
    uri=default_tracking_uri(store), experiment="race", name=sys.argv[3], parameters={"a": 1},
    metrics={"mrr": 0.5}, dataset=DatasetRecord("g", "d", "s"), artifacts=run, tags={},
)
"""


def test_processes_all_log_in_silence_when_none_has_made_the_store(tmp_path, run_folder):
    store = tmp_path / "new"
    command = [sys.executable, "-c", LOG_FROM_A_PROCESS, str(store), str(run_folder)]
    processes = [
        subprocess.Popen(
            [*command, name], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for name in ("one", "two", "three")
    ]
    spoken = [process.communicate(timeout=240) for process in processes]
    assert spoken == [("", "")] * 3
    assert [process.returncode for process in processes] == [0, 0, 0]
    with sqlite3.connect(store / "mlflow.db") as database:
        query = "select name, status from runs order by name"
        assert [tuple(row) for row in database.execute(query)] == [
            ("one", "FINISHED"),
            ("three", "FINISHED"),
            ("two", "FINISHED"),
        ]
    database.close()


def test_run_reads_back_when_the_folder_has_signs_of_a_url(log, tmp_path):
    store = tmp_path / "what?y=1 %20 é"
    tracked = log(uri=default_tracking_uri(store), metrics={"mrr": 0.5}, artifact_root=store / "a")
    assert read(tracked).data.metrics == {"mrr": 0.5}
    with open(artifact(tracked, "run.json")) as kept:  # noqa: PTH123
        assert kept.read() == "{}"
    assert sorted(path.name for path in store.iterdir()) == ["a", "mlflow.db", "mlflow.db.lock"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run", "what?y=1 %20 é"]


def test_experiment_is_refused_when_it_was_deleted(log):
    from mlflow.tracking import MlflowClient

    tracked = log(experiment="gone")
    MlflowClient(tracked.uri).delete_experiment(tracked.experiment_id)
    with pytest.raises(InputError, match=r"'gone' is deleted .*restore") as caught:
        check_tracking(tracked.uri, "gone")
    assert "MLFLOW_TRACKING_URI" not in str(caught.value)
    with pytest.raises(InputError, match="'gone' is deleted"):
        log(experiment="gone")


@pytest.mark.parametrize("name", ["", " \t", "x" * 501, "\ud800"])
def test_experiment_is_refused_when_mlflow_cannot_take_its_name(log, folder, name):
    with pytest.raises(InputError, match="the name of the MLflow experiment") as caught:
        check_tracking(default_tracking_uri(folder), name)
    assert "MLFLOW_TRACKING_URI" not in str(caught.value)
    with pytest.raises(InputError, match="the name of the MLflow experiment"):
        log(experiment=name)


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("foo://x", "unknown scheme 'foo'"),
        ("postgres://h/x", "unknown scheme 'postgres'"),
        ("mysql://u:pass@h/x", "driver is not installed"),
        ("mysql+nodriver://h/x", "Can't load plugin"),
        ("postgresql://u:se/c@ret@h/x", "more than one @"),
        ("postgresql://h:port/x", "invalid literal"),
        ("nodatabase://u:se/c @ret@h", r"nodatabase://\*\*\*@h: unknown"),
        ("http://", "no host"),
        ("http://h:99999", "Port out of range"),
        ("sqlite://", "would be lost"),
        ("sqlite:///", "would be lost"),
        ("sqlite:///:memory:", "would be lost"),
        ("sqlite:///file:x?mode=memory&uri=true", "no plain path"),
        ("sqlite://h/x", "no plain path"),
    ],
)
def test_store_is_refused_before_any_work_when_its_uri_says_so(uri, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=message) as caught:
        check_tracking(uri, "e")
    assert "\n" not in str(caught.value)
    assert not any(secret in str(caught.value) for secret in ("se/c", "ret@", "pass@"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("scheme", ["postgresql+psycopg://u:s3cret@", "http://u:s3cret@"])
def test_store_is_refused_in_one_line_when_its_server_is_dead(scheme, monkeypatch):
    for proxy in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(proxy, raising=False)
    with socket.socket() as bound:  # bound and not listening: it refuses
        bound.bind(("127.0.0.1", 0))
        uri = f"{scheme}127.0.0.1:{bound.getsockname()[1]}/x"
        with pytest.raises(InputError, match=r"://\*\*\*@127.*no answer from") as caught:
            check_tracking(uri, "e")
    assert "\n" not in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_sqlite_file_is_refused_before_any_work_when_it_cannot_be_written(tmp_path):
    file = tmp_path / "file"
    file.write_text("no database")
    for uri, message in [
        (f"sqlite:///{file}", "file is not a database"),
        (f"sqlite:///{file}/below/mlflow.db", "is not a folder"),
        (f"sqlite:///{tmp_path}", "is a folder"),
    ]:
        with pytest.raises(InputError, match=message):
            check_tracking(uri, "e")
    check_tracking(f"sqlite:///{tmp_path}/a/b/mlflow.db", "e")
    assert list(tmp_path.iterdir()) == [file]


def test_folder_is_refused_before_any_work_when_it_is_read_only(tmp_path, monkeypatch):
    monkeypatch.setattr("os.access", lambda path, mode: False)  # root may write anywhere
    with pytest.raises(InputError, match="cannot be written"):
        check_tracking(f"sqlite:///{tmp_path}/a/mlflow.db", "e")


def test_sqlite_path_is_shown_whole_when_it_has_an_at_sign(log, tmp_path):
    store = tmp_path / "a@b"
    assert read(log(uri=default_tracking_uri(store))).info.status == "FINISHED"


def test_store_is_whole_when_a_process_was_killed_while_it_made_one(log, tmp_path):
    store, run = tmp_path / "killed", tmp_path / "run"
    command = [sys.executable, "-c", LOG_FROM_A_PROCESS, str(store), str(run), "killed"]
    for share in (0.02, 0.5, 0.9):
        with subprocess.Popen(command) as process:
            try:
                wait_for_schema(store, share, process)
            finally:
                process.kill()
        assert not (store / "mlflow.db").exists()
    tracked = log(uri=default_tracking_uri(store))
    assert read(tracked).info.status == "FINISHED"
    names = {path.name for path in store.iterdir()}
    assert names == {"artifacts", "mlflow.db", "mlflow.db.lock"}


WHOLE_SCHEMA_BYTES = 950_000


def wait_for_schema(store, share, process):
    """Wait until a process has written this share of the tables of a new store."""
    deadline = time.monotonic() + 100
    while time.monotonic() < deadline and process.poll() is None:
        sizes = []
        for path in store.glob(".mlflow.db.new-*"):
            with suppress(FileNotFoundError):  # a journal comes and goes
                sizes.append(path.stat().st_size)
        if sizes and max(sizes) >= share * WHOLE_SCHEMA_BYTES:
            return
        time.sleep(0.002)
    raise AssertionError("the tables were made before they could be caught")
