"""What a log gets of progress: a line a phase, and of a long one what is done."""

import json
from typing import Any

import pytest
from worlds import write_gold

from experiments.commands.terminal import Lines, phase, progress_bars, waiting


def test_stage_is_said_once_when_it_is_quick(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bars(quiet=False) as progress:
        for done in (0, 3, 7):
            progress("embed", 10, done)
        progress("search", 4, 4)
    assert capsys.readouterr().err == "embed: 10\nsearch: 4\n"


def test_what_is_done_is_said_when_a_stage_takes_long(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Lines, "EVERY_SECONDS", 0.0)
    lines = Lines()
    for done in (0, 3, 4, 3):
        lines("embed", 10, done)
    # The end needs no line: the next phase, or the result, follows.
    assert capsys.readouterr().err == "embed: 10\nembed: 3 of 10\nembed: 7 of 10\n"


def test_nothing_is_said_when_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bars(quiet=True) as progress, waiting("a while", quiet=True):
        progress("embed", 10, 0)
        phase("searching", quiet=True)
    assert capsys.readouterr() == ("", "")


def test_long_commands_say_what_they_do_when_there_is_no_terminal(
    assay: Any, tmp_path: Any
) -> None:
    gold = write_gold(tmp_path / "g", {"a": "egfr", "b": "met"}, {"q": "egfr"}, {"q": {"a": 1}})
    plain = ("--set", "namespace=general")
    built = assay("index", gold, "-o", tmp_path / "i", *plain)
    assert built.err.splitlines()[:2] == [f"indexing {gold}", "read: 2"]
    run = tmp_path / "r"
    evaluated = assay("evaluate", gold, "-o", run, "--no-track", *plain)
    assert evaluated.err.startswith(f"opening the index of {gold}\n")
    assert "search: 1\n" in evaluated.err
    tried = assay("diagnose", run, "--verify")
    assert "trying every cause by a replay\n" in tried.err
    compared = assay("compare", run, run)
    assert "comparing 2 runs\n" in compared.err
    for command in (("evaluate", gold, "--no-track", *plain), ("diagnose", run, "--verify")):
        done = assay(*command, "--json")
        assert done.err == ""
        json.loads(done.out)
