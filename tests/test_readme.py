"""Every command of the README runs, in order, as a newcomer would type it."""

import json
import re
import shlex
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest
from worlds import write_gold

ROOT = Path(__file__).parents[1]
# Enough queries for the folds of a sweep.
WORDS = ("survival", "placebo", "warnings", "receptor", "cohort", "resistance", "kinase", "trial")
README = (ROOT / "README.md").read_text("utf-8")


def blocks() -> list[str]:
    """Indented blocks of the README, without their indentation."""
    found = re.findall(r"(?:^    .*\n|^\n(?=    ))+", README, flags=re.MULTILINE)
    return [re.sub(r"^    ", "", block, flags=re.MULTILINE).strip("\n") for block in found]


def commands() -> list[list[str]]:
    lines = [line for block in blocks() for line in block.splitlines()]
    return [shlex.split(line)[1:] for line in lines if line.startswith(".venv/bin/assay ")]


def quicker(command: list[str]) -> list[str]:
    """Return a command with fewer trials: a sweep shall run, and need not find anything."""
    return ["2" if before == "--trials" else word for before, word in pairwise(["", *command])]


@pytest.fixture
def newcomer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the files that the README says a user has."""
    write_gold(
        tmp_path / "mine",
        {
            "d1": "Gefitinib dose in severe renal impairment: no change.",
            "d2": "EGFR T790M.",
            **{f"d{i}": f"Note {i} on {word}." for i, word in enumerate(WORDS, start=3)},
        },
        {"q1": "gefitinib dose", **{f"q{i}": word for i, word in enumerate(WORDS, start=3)}},
        {"q1": {"d1": 1}, **{f"q{i}": {f"d{i}": 1} for i, _ in enumerate(WORDS, start=3)}},
        metadata={"q1": {"type": "dosing"}},
    )
    (settings,) = (block for block in blocks() if "relevant_from: 1" in block)
    (tmp_path / "mine" / "gold.yaml").write_text(settings)
    (configuration,) = (block for block in blocks() if block.startswith("# my.yaml"))
    (tmp_path / "my.yaml").write_text(configuration)
    (tmp_path / "questions.csv").write_text("query,documents\nwhich mutation,d2\n")
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers" / "gefitinib.md").write_text("# Gefitinib\n\n## Dosage\n\n250 mg daily.")
    (tmp_path / "my_run.trec").write_text("q1 Q0 d1 1 0.5 mine\nq1 Q0 d2 2 0.4 mine\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_every_command_runs(assay, newcomer: Path) -> None:
    found = commands()
    assert {command[0] for command in found} >= {"gold", "evaluate", "index", "search"}
    for command in found:
        done = assay(*quicker(command))
        assert done.code == 0, (command, done.err)
    (python,) = (block for block in blocks() if block.startswith("from retriever"))
    exec(compile(python, "README.md", "exec"), {})
    for inline in re.findall(r"`assay ([^`]+)`", README):
        done = assay(*shlex.split(inline))
        assert done.code == 0, (inline, done.err)


def test_format_of_a_gold_set_is_as_shown() -> None:
    (shown,) = (block for block in blocks() if block.startswith("mine/corpus.jsonl"))
    for line in shown.splitlines()[:2]:
        assert json.loads(line.partition(" ")[2])["_id"]


def test_make_targets_and_files_exist() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for target in re.findall(r"^    make (\w+)", README, flags=re.MULTILINE):
        assert f"\n{target}:" in makefile
    for file in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / file).is_file(), file


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_setup_leaves_the_environment_of_another_checkout_alone(tmp_path: Path) -> None:
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    theirs = tmp_path / "theirs"
    (theirs / "bin").mkdir(parents=True)
    python = theirs / "bin" / "python"
    python.write_text(f"#!/bin/sh\ntouch {tmp_path}/installed\n")
    python.chmod(0o755)
    (tmp_path / ".venv").symlink_to(theirs)
    done = subprocess.run(
        ["make", "setup"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert ".venv is a link" in done.stderr
    assert not (tmp_path / "installed").exists()
