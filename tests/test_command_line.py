"""The command line's manners: one line for bad input, exit codes, nothing of the user's touched."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from worlds import write_gold

ASSAY = Path(sys.executable).with_name("assay")


@pytest.fixture
def gold(tmp_path: Path) -> Path:
    return write_gold(tmp_path / "gold", {"a": "egfr", "b": "met"}, {"q": "egfr"}, {"q": {"a": 1}})


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "r.trec").write_text("q Q0 a 1 1.0 mine\n")
    return tmp_path / "r.trec"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nosuch"], "No such command"),
        (["config", "show", "--nope"], "No such option"),
        (["config", "show", "--set", "merge.weights.dense.x=1"], "is no parameter"),
        (["config", "show", "--set", "merge.weights.dense=1e308"], "merge.weights.dense"),
        (["config", "show", "--set", "a\nb=1"], "is no parameter"),
        (["gold", "validate", "/nowhere"], "no such directory"),
        (["evaluate", "/nowhere", "-o", ""], "-o is empty (give -o a place)"),
        (["sweep", "/nowhere", "--out="], "--out is empty"),
        (["search", "/nowhere", "x"], "no index here"),
    ],
)
def test_misuse_is_one_line_and_exit_code_2(assay, arguments: list[str], message: str) -> None:
    done = assay(*arguments)
    assert done.code == 2
    (line,) = done.err.splitlines()
    assert line.startswith("assay: ")
    assert message in line


def test_no_command_prints_the_commands(assay) -> None:
    done = assay()
    assert done.code == 2
    assert "evaluate" in done.out


@pytest.mark.parametrize("place", ["afile", "afile/run", "dangling"])
def test_place_that_is_no_folder_is_refused_before_any_work(
    assay, gold: Path, run: Path, tmp_path: Path, place: str
) -> None:
    (tmp_path / "afile").write_text("mine")
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    done = assay("evaluate", gold, "--run", run, "-o", tmp_path / place, "--no-track")
    assert done.code == 2
    assert len(done.err.splitlines()) == 1
    assert (tmp_path / "afile").read_text() == "mine"


def test_files_beside_a_run_are_never_deleted(assay, gold: Path, run: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ("evaluate", gold, "--run", run, "-o", out, "--no-track")
    assert assay(*arguments).code == 0
    assert assay(*arguments).code == 0
    (out / "thesis.txt").write_text("years of work")
    done = assay(*arguments)
    assert done.code == 2
    assert "thesis.txt" in done.err
    assert (out / "thesis.txt").read_text() == "years of work"


def test_runs_of_one_second_have_folders_of_their_own(gold: Path, tmp_path: Path) -> None:
    (tmp_path / "good.trec").write_text("q Q0 a 1 1.0 mine\n")
    (tmp_path / "bad.trec").write_text("q Q0 b 1 1.0 mine\n")
    started = [
        subprocess.Popen(
            [ASSAY, "evaluate", gold, "--run", tmp_path / name, "--json", "--no-track"],
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("good.trec", "bad.trec", "good.trec")
    ]
    found = [json.loads(process.communicate(timeout=120)[0]) for process in started]
    assert len({record["run"] for record in found}) == 3
    for record, expected in zip(found, [1.0, 0.0, 1.0], strict=True):
        assert record["metrics"]["hit@5"]["value"] == expected
        on_disk = json.loads((Path(record["run"]) / "run.json").read_text())
        assert on_disk["metrics"] == record["metrics"]


def test_closed_output_is_no_failure() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run([ASSAY, "config", "show"], stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


def test_interrupt_ends_with_130_and_says_how_to_go_on(gold: Path, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [ASSAY, "index", gold, "-o", tmp_path / "index"], stderr=subprocess.PIPE, text=True
    )
    time.sleep(1.5)
    process.send_signal(signal.SIGINT)
    error = process.communicate(timeout=60)[1]
    # A machine that was done before the signal came has nothing to be interrupted.
    if process.returncode:
        assert process.returncode == 130
        assert error.splitlines()[-1] == "interrupted; run the same command again to go on"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["config", "show"], 0, b""),
        (["search", "/nowhere", "x"], 2, b"assay: /nowhere: no index here"),
    ],
)
def test_interrupt_is_ignored_when_the_command_has_ended(
    arguments: list[str], code: int, said: bytes
) -> None:
    # The process interrupts itself while Python ends, once early and once when modules go.
    start = (
        "import atexit, os, signal, sys\n"
        "from experiments.cli import main\n"
        "def interrupt(kill=os.kill, own=os.getpid(), by=signal.SIGINT): kill(own, by)\n"
        "class Last:\n    def __del__(self, interrupt=interrupt): interrupt()\n"
        "kept = Last()\n"
        "atexit.register(interrupt)\n"
        f"sys.argv = ['assay', *{arguments!r}]\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", start], capture_output=True, timeout=60)
    assert done.returncode == code
    assert done.stderr.startswith(said)
    assert len(done.stderr.splitlines()) == len(said.splitlines())


def test_split_may_be_named_like_a_number(assay, tmp_path: Path, run: Path) -> None:
    gold = write_gold(tmp_path / "g", {"a": "x"}, {"q": "x"}, {"q": {"a": 1}}, split="1")
    done = assay("evaluate", gold, "--run", run, "--split", "1", "--no-track", "--json")
    assert done.code == 0, done.err


def test_fault_of_ours_is_no_verdict(assay, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise KeyError("digest")

    monkeypatch.setattr("experiments.recorded.find_run", fail)
    done = assay("diagnose", ".")
    assert done.code == 70
    assert "Traceback" in done.err
    assert done.err.splitlines()[-1] == "assay: a fault of assay: KeyError: 'digest'"
