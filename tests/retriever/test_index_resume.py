"""A build that is stopped at work goes on where it was: the command as a process, run again.

The encoder is a stand-in that takes its time, so that there is something to be stopped at.
"""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
DOCUMENTS = 600
# `assay` with another encoder: one call of it encodes 256 texts.
COMMAND = f"""
import sys, time
sys.path[:0] = [{str(TESTS.parent)!r}, {str(TESTS)!r}]
from worlds import HashedWords
from retriever.ingest import build

class Slow(HashedWords):
    def encode_documents(self, texts):
        time.sleep(0.7)
        return super().encode_documents(texts)

build.open_encoders = lambda models: {{"eagle_text": Slow()}}
from experiments.cli import main
sys.argv[0] = "assay"
main()
"""


def vectors_in(store: Path) -> int:
    """Count the vectors that any process has kept so far."""
    total = 0
    for file in (store / "cache" / "vectors").glob("*.sqlite"):
        try:
            with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as connection:
                total += connection.execute("SELECT count(*) FROM vectors").fetchone()[0]
        except sqlite3.OperationalError:
            continue  # being made at this moment
    return total


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGKILL])
def test_second_run_reuses_what_the_first_computed_when_it_was_stopped(
    tmp_path: Path, store: Path, stop: signal.Signals
) -> None:
    folder, out = tmp_path / "folder", tmp_path / "index"
    folder.mkdir()
    for i in range(DOCUMENTS):
        (folder / f"{i:03}.txt").write_text(f"Gefitinib dose {i}.")
    command = [sys.executable, "-c", COMMAND, "index", folder, "-o", out, "--json"]
    command += ["--set", "namespace=general"]
    environment = {**os.environ, "ASSAY_STORE": str(store)}
    first = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    deadline = time.monotonic() + 120
    while not vectors_in(store) and first.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    first.send_signal(stop)
    _, error = first.communicate(timeout=60)
    kept = vectors_in(store)
    assert 0 < kept < DOCUMENTS
    assert not (out / "manifest.json").exists()
    if stop == signal.SIGINT:
        assert first.returncode == 130
        assert error.strip() == "interrupted; run the same command again to go on"
        assert not out.exists()
    second = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    assert second.returncode == 0, second.stderr
    done = json.loads(second.stdout)
    assert done["vectors_reused"] == kept
    assert done["vectors_computed"] == DOCUMENTS - kept
    assert done["documents"] == DOCUMENTS
    assert [place.name for place in out.glob("generation-*")] == ["generation-1"]
