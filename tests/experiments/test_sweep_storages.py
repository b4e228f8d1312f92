"""Sweeps whose study is in a real PostgreSQL, or behind Optuna's real gRPC proxy."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import optuna
import pytest
from optuna.trial import TrialState
from sweep_worlds import SPACE, small_settings, small_world

from experiments.sweep import storage as storage_module
from experiments.sweep import trials as trials_module
from experiments.sweep.plan import StudyPlan
from experiments.sweep.procedure import run_sweep
from experiments.sweep.storage import close_storage, is_storage_fault, open_storage, shown_url
from experiments.sweep.trials import OWNER, retire_dead
from gold import GoldSet
from retriever import InputError, Retriever

World = tuple[GoldSet, Retriever]
ROOT = Path(__file__).parents[2]
ENDLESS = 10**6
OPENED: list[optuna.storages.BaseStorage] = []

# Serves a storage by gRPC until it is killed.
PROXY = """
import sys, warnings
warnings.simplefilter("ignore")
from optuna.storages import run_grpc_proxy_server
from experiments.sweep.storage import open_storage
run_grpc_proxy_server(open_storage(sys.argv[1]), host="127.0.0.1", port=int(sys.argv[2]))
"""

# A worker on another machine, as far as anyone can tell, whose trial never ends.
STUCK = """
import sys, time
from pathlib import Path
import optuna
from gold import load
from experiments.sweep import trials
from experiments.sweep.plan import StudyPlan
from experiments.sweep.storage import open_storage
from experiments.sweep.workers import objective_of
from retriever import Retriever
from worlds import HashedWords
folder, url = Path(sys.argv[1]), sys.argv[2]
trials._machine = lambda: "elsewhere"
trials.BEAT_SECONDS = 0.2
study = optuna.load_study(study_name="small", storage=open_storage(url))
plan = StudyPlan.of(study)
retriever = Retriever.open(folder / "index", plan.base, encoders={"eagle_text": HashedWords()})
objective = objective_of(plan, load(folder / "gold"), retriever)
objective.score = lambda config: time.sleep(1000)
trials.Worker(study, plan, objective, number=7, parallel=True).run(10**6)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("world")


@pytest.fixture(scope="module")
def world(folder: Path) -> World:
    return small_world(folder)


@pytest.fixture
def database(postgres: str) -> str:
    """A database of the test's own."""
    import psycopg

    name = f"study{uuid4().hex}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return postgres.replace("/postgres?", f"/{name}?")


@pytest.fixture
def proxy(database: str) -> Iterator[tuple[str, "subprocess.Popen[bytes]"]]:
    """Optuna's proxy over a database, in a process of its own; its URL."""
    pytest.importorskip("grpc", reason="grpcio is not installed")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen(
        [sys.executable, "-c", PROXY, database, str(port)],
        stderr=subprocess.DEVNULL,
        env=environment(),
    )
    try:
        yield f"grpc://127.0.0.1:{port}", process
    finally:
        process.kill()
        process.wait(10)


@pytest.fixture(params=["postgresql", "grpc"])
def url(request: pytest.FixtureRequest) -> str:
    if request.param == "postgresql":
        return str(request.getfixturevalue("database"))
    return str(request.getfixturevalue("proxy")[0])


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests'}"}


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Close what a test has opened to look."""
    yield
    while OPENED:
        close_storage(OPENED.pop())


def storage_at(url: str) -> optuna.storages.BaseStorage:
    OPENED.append(open_storage(url))
    return OPENED[-1]


def study_at(url: str) -> optuna.Study:
    return optuna.load_study(study_name="small", storage=storage_at(url))


def finished(url: str) -> list[tuple[list[float], dict[str, Any]]]:
    done = study_at(url).get_trials(states=(TrialState.COMPLETE,))
    return [(t.values, t.params) for t in done]


def until(holds: Callable[[], bool], seconds: float = 30.0) -> None:
    give_up = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < give_up, "it never came to that"
        time.sleep(0.05)


def test_trials_are_those_of_the_journal_when_one_worker_has_the_same_seed(
    world: World, tmp_path: Path, url: str
) -> None:
    whole = run_sweep(*world, small_settings(tmp_path / "whole", 14))
    for trials in (5, 14):  # stopped, and gone on with
        done = run_sweep(*world, small_settings(tmp_path / "url", trials, storage=url))
    expected = finished(small_settings(tmp_path / "whole", 1).storage)
    assert finished(url) == expected
    assert len(expected) == 14
    assert done.record["best"]["parameters"] == whole.record["best"]["parameters"]
    assert done.record["test"] == whole.record["test"]


def test_trial_takes_few_statements_when_its_study_is_in_a_database(
    world: World, tmp_path: Path, database: str
) -> None:
    from sqlalchemy import event
    from sqlalchemy.engine import Engine

    run_sweep(*world, small_settings(tmp_path, 20, storage=database))
    said: list[str] = []

    def keep(connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        said.append(statement)

    event.listen(Engine, "before_cursor_execute", keep)
    try:
        run_sweep(*world, small_settings(tmp_path, 30, storage=database))
    finally:
        event.remove(Engine, "before_cursor_execute", keep)
    # Ten trials of up to four parameters; what begins and ends a sweep is counted with them.
    assert len(said) < 10 * 40
    written = [one for one in said if one.startswith("INSERT INTO trial_params")]
    assert len(written) == 10


def test_running_trial_is_seen_whole_when_another_worker_looks(
    world: World, tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from experiments.sweep.objective import Objective

    url = database
    run_sweep(*world, small_settings(tmp_path, 2, storage=url))
    score, seen = Objective.score, []
    other = study_at(url)

    def looked_at(self: Objective, config: Any) -> Any:
        seen.extend(other.get_trials(states=(TrialState.RUNNING,)))
        return score(self, config)

    monkeypatch.setattr(Objective, "score", looked_at)
    run_sweep(*world, small_settings(tmp_path, 3, storage=url))
    assert len({t.number for t in seen}) == 1
    assert OWNER in seen[0].user_attrs
    assert {"merge.method", "route.recall_top_k"} <= seen[0].params.keys()
    done = other.get_trials(deepcopy=False)[seen[0].number]
    assert (done.state, done.params) == (TrialState.COMPLETE, seen[0].params)


def test_killed_worker_elsewhere_is_known_by_its_silence_and_its_trial_taken_over(
    world: World, folder: Path, tmp_path: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_sweep(*world, small_settings(tmp_path, 3, storage=database))
    study = study_at(database)
    stuck = subprocess.Popen([sys.executable, "-c", STUCK, folder, database], env=environment())
    try:
        until(lambda: bool(study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))))
        monkeypatch.setattr(trials_module, "SILENT_SECONDS", 1.5)
        time.sleep(2.0)
        assert retire_dead(study) == 0  # it is slow, and is heard of
    finally:
        stuck.send_signal(signal.SIGKILL)
        stuck.wait(10)
    time.sleep(2.0)
    done = run_sweep(*world, small_settings(tmp_path, 8, storage=database))
    states = [t.state for t in study.get_trials(deepcopy=False)]
    assert (states.count(TrialState.COMPLETE), states.count(TrialState.FAIL)) == (8, 1)
    assert len(states) == 9
    assert (done.record["finished"], done.record["failed"]) == (8, 0)  # no fault of a trial


def test_interrupt_in_the_middle_of_a_write_leaves_nothing_running(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from experiments.sweep.whole_trials import WholeTrials

    settings = small_settings(tmp_path, 6)
    run_sweep(*world, small_settings(tmp_path, 3))
    for name in ("write", "set_trial_state_values"):
        real = getattr(WholeTrials, name)

        def interrupted(self: Any, *given: Any, real: Any = real, **more: Any) -> Any:
            os.kill(os.getpid(), signal.SIGINT)
            return real(self, *given, **more)

        with monkeypatch.context() as patched:
            patched.setattr(WholeTrials, name, interrupted)
            with pytest.raises(KeyboardInterrupt):
                run_sweep(*world, settings)
        states = {t.state for t in study_at(settings.storage).get_trials(deepcopy=False)}
        assert states <= {TrialState.COMPLETE, TrialState.FAIL}
    assert run_sweep(*world, settings).record["finished"] == 6


def test_optuna_dashboard_shows_a_study_of_a_database(
    world: World, tmp_path: Path, database: str
) -> None:
    from wsgiref.util import setup_testing_defaults

    from optuna_dashboard import wsgi

    run_sweep(*world, small_settings(tmp_path, 4, storage=database))
    app = wsgi(storage_at(database))

    def got(path: str, query: str = "") -> tuple[str, bytes]:
        environ: dict[str, Any] = {"PATH_INFO": path, "QUERY_STRING": query}
        setup_testing_defaults(environ)
        status: list[str] = []
        body = b"".join(app(environ, lambda code, headers, *_: status.append(code)))
        return status[0], body

    status, listed = got("/api/studies")
    assert status.startswith("200")
    (one,) = json.loads(listed)["study_summaries"]
    assert one["study_name"] == "small"
    status, shown = got(f"/api/studies/{one['study_id']}", "after=0")
    assert status.startswith("200")
    trials = json.loads(shown)["trials"]
    assert [t["state"] for t in trials] == ["Complete"] * 4
    assert {p["name"] for p in trials[0]["params"]} >= {"merge.method", "route.recall_top_k"}
    status, page = got("/dashboard")
    assert status.startswith("200")
    assert b"<html" in page.lower()


# --- the commands, with a model and workers in processes of their own -----------------------


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A gold set, a space for it, and a store that keeps its vectors."""
    base = tmp_path_factory.mktemp("mine")
    small_world(base)
    (base / "space.yaml").write_text(SPACE)
    return base


@pytest.fixture
def kept(mine: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ASSAY_STORE", str(mine / "store"))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return mine


def sweep_arguments(mine: Path, out: Path, url: str, trials: int) -> list[object]:
    fixed = ["--space", mine / "space.yaml", "--set", "namespace=general", "--cv", 0, "--no-track"]
    fixed += ["--index", mine / "own-index", "--study", "small", "--storage", url]
    return ["sweep", mine / "gold", "-o", out, *fixed, "--trials", trials]


def worker_arguments(mine: Path, url: str, trials: int) -> list[object]:
    where = ["--index", mine / "own-index", "--storage", url, "--study", "small"]
    return ["sweep", "worker", mine / "gold", *where, "--trials", trials]


def started(arguments: list[object]) -> "subprocess.Popen[str]":
    assay = [sys.executable, "-c", "from experiments.cli import main; main()"]
    command = [*assay, *map(str, arguments)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def begun(assay: Any, mine: Path, out: Path, url: str, trials: int = 2) -> None:
    if not (mine / "own-index").exists():
        built = assay("index", mine / "gold", "-o", mine / "own-index", "--set=namespace=general")
        assert built.code == 0, built.err
    done = assay(*sweep_arguments(mine, out, url, trials))
    assert done.code == 0, done.err


def test_workers_beside_it_take_part_and_the_totals_hold(
    assay: Any, kept: Path, tmp_path: Path, proxy: tuple[str, Any]
) -> None:
    url = proxy[0]  # over PostgreSQL
    begun(assay, kept, tmp_path / "out", url)
    workers = [started(worker_arguments(kept, url, 30)) for _ in range(2)]
    for process in workers:
        _, said = process.communicate(timeout=60)
        assert process.returncode == 0, said
    trials = study_at(url).get_trials(deepcopy=False)
    done = [t for t in trials if t.state == TrialState.COMPLETE]
    assert len(done) == 30
    assert {t.state for t in trials} <= {TrialState.COMPLETE, TrialState.FAIL}
    assert len({t.user_attrs[OWNER] for t in done}) == 3
    # The first command, once more, takes what they have left.
    again = assay(*sweep_arguments(kept, tmp_path / "out", url, 32), "--workers", 2, "--json")
    assert again.code == 0, again.err
    record = json.loads(again.out)
    assert (record["finished"], record["failed"]) == (32, 0)
    assert len(finished(url)) == 32


def test_interrupted_worker_leaves_nothing_running(
    assay: Any, kept: Path, tmp_path: Path, database: str
) -> None:
    url = database
    begun(assay, kept, tmp_path / "out", url)
    worker = started(worker_arguments(kept, url, ENDLESS))
    until(lambda: len(finished(url)) > 4)
    worker.send_signal(signal.SIGINT)
    _, said = worker.communicate(timeout=30)
    assert worker.returncode == 130, said
    assert "Traceback" not in said
    running = study_at(url).get_trials(deepcopy=False, states=(TrialState.RUNNING,))
    assert running == []


def test_worker_ends_with_one_line_when_the_storage_goes_away(
    assay: Any, kept: Path, tmp_path: Path, proxy: tuple[str, Any]
) -> None:
    url, server = proxy
    begun(assay, kept, tmp_path / "out", url)
    worker = started(worker_arguments(kept, url, ENDLESS))
    until(lambda: len(finished(url)) > 4)
    server.kill()
    _, said = worker.communicate(timeout=30)
    assert worker.returncode == 2, said
    assert f"the storage {url} failed" in said.splitlines()[-1], said
    assert said.count("assay: ") == 1
    assert "Traceback" not in said


@pytest.mark.parametrize("where", ["127.0.0.1:1", "nowhere.invalid:5432"])
def test_database_that_is_down_is_said_in_one_line_without_the_password(
    assay: Any, kept: Path, tmp_path: Path, where: str
) -> None:
    url = f"postgresql://me:hunter2@{where}/studies"
    begun(assay, kept, tmp_path / "ready", f"journal:{tmp_path / 'journal'}")
    for arguments in (
        sweep_arguments(kept, tmp_path / "out", url, 2),
        worker_arguments(kept, url, 2),
    ):
        done = assay(*arguments)
        assert (done.code, done.out) == (2, "")
        assert "hunter2" not in done.err
        assert f"postgresql://me:***@{where}/studies cannot be opened" in done.err
        assert "Traceback" not in done.err


def test_proxy_that_is_down_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("grpc", reason="grpcio is not installed")
    monkeypatch.setattr(storage_module, "PATIENCE_SECONDS", 0.2)
    with pytest.raises(
        InputError, match=r"cannot be opened: no answer from 127\.0\.0\.1:1 in 0\.2 s"
    ):
        open_storage("grpc://127.0.0.1:1")


def test_wrong_password_is_said_and_not_shown(postgres: str) -> None:
    import psycopg

    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("DROP ROLE IF EXISTS stranger")
        connection.execute("CREATE ROLE stranger LOGIN PASSWORD 'right'")
        row = connection.execute("SHOW hba_file").fetchone()
        assert row is not None
        rules = Path(row[0])
        before = rules.read_text()
        rules.write_text(f"local all stranger scram-sha-256\n{before}")
        connection.execute("SELECT pg_reload_conf()")
    name = postgres.partition("://")[2].partition("@")[2]
    try:
        for password in ("hunter2", "hunt/er@2"):
            wrong = f"postgresql://stranger:{quote(password, safe='')}@{name}"
            with pytest.raises(InputError, match="password authentication failed") as caught:
                open_storage(wrong)
            assert password not in str(caught.value)
            assert quote(password, safe="") not in str(caught.value)
    finally:
        rules.write_text(before)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:hunter2@host:5432/db", "postgresql://me:***@host:5432/db"),
        ("postgresql://me:hun/ter@2@host/db", "postgresql://me:***@host/db"),
        ("postgresql://:hunter2@host/db", "postgresql://:***@host/db"),
        ("postgresql://host/db?password=hunter2&x=1", "postgresql://host/db?password=***&x=1"),
        ("postgresql://host/db?sslpassword=hunter2", "postgresql://host/db?sslpassword=***"),
        ("postgresql://me@host:5432/db", "postgresql://me@host:5432/db"),
        ("postgresql://me:hunter2@[bad", "postgresql://me:***@[bad"),
        ("grpc://127.0.0.1:13000", "grpc://127.0.0.1:13000"),
        ("journal:/a/b", "journal:/a/b"),
    ],
)
def test_password_is_hidden_when_a_url_is_shown(url: str, shown: str) -> None:
    assert shown_url(url) == shown


def test_url_that_cannot_be_read_does_not_give_its_password_away() -> None:
    with pytest.raises(InputError) as caught:
        open_storage("postgresql://me:hun/ter2@host:port/db")
    assert "hun/ter2" not in str(caught.value)
    assert "ter2" not in str(caught.value)


@pytest.mark.parametrize("what", ["gold set", "index"])
def test_worker_is_refused_when_its_study_was_made_with_something_else(
    assay: Any, kept: Path, tmp_path: Path, database: str, what: str
) -> None:
    begun(assay, kept, tmp_path / "out", database)
    small_world(tmp_path / "other", queries=20)
    arguments = worker_arguments(kept, database, 4)
    if what == "gold set":
        arguments[2] = tmp_path / "other" / "gold"
    else:
        arguments[4] = tmp_path / "other" / "index"
    done = assay(*arguments)
    assert (done.code, done.err.count("assay: ")) == (2, 1)
    assert f"was made with another {what}" in done.err.splitlines()[-1]
    assert len(finished(database)) == 2


def test_sweep_is_refused_when_its_study_was_made_of_another_space(
    assay: Any, kept: Path, tmp_path: Path, database: str
) -> None:
    begun(assay, kept, tmp_path / "out", database)
    other = tmp_path / "other.yaml"
    other.write_text(SPACE.replace("high: 50", "high: 40"))
    arguments = sweep_arguments(kept, tmp_path / "out", database, 4)
    arguments[arguments.index(kept / "space.yaml")] = other
    done = assay(*arguments)
    assert (done.code, done.out) == (2, "")
    assert "was made otherwise (space: " in done.err.splitlines()[-1]
    assert "Traceback" not in done.err


def test_study_of_a_stranger_is_refused(database: str, world: World, tmp_path: Path) -> None:
    optuna.create_study(study_name="small", storage=storage_at(database), direction="maximize")
    with pytest.raises(InputError, match="was not made by assay sweep"):
        StudyPlan.of(study_at(database))


def test_fault_of_a_trial_is_none_of_the_storage() -> None:
    assert not is_storage_fault(RuntimeError("out of luck"))
    assert is_storage_fault(optuna.exceptions.StorageInternalError("gone"))
