"""The help of every command: plain words in capitals, and nothing of Python."""

import re
from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

import pytest
import typer.main

from experiments.cli import app


def commands(group: Any, names: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the words that name every command below a group."""
    for name, command in sorted(group.commands.items()):
        yield (*names, name)
        if hasattr(command, "commands"):
            yield from commands(command, (*names, name))


EVERY = list(commands(typer.main.get_command(app)))


def test_every_command_is_looked_at() -> None:
    assert {("evaluate",), ("gold", "import"), ("sweep", "run"), ("cache", "prune")} <= set(EVERY)


@pytest.mark.parametrize("names", EVERY, ids=" ".join)
def test_help_shows_no_type_when_a_command_is_asked(assay: Any, names: tuple[str, ...]) -> None:
    done = assay(*names, "--help")
    assert done.code == 0
    assert not re.search(r"<\w|\brange\b.*\[|list\[|Path\b|<=|>=|\bNone\b|\{\w+\}\s*$", done.out)
    usage = done.out.split("\n\n")[0].replace("\n", " ")
    rest = usage.partition("assay ")[2].split()[len(names) :]
    assert rest[0] == "[OPTIONS]"
    assert all(re.fullmatch(r"\[?[A-Z]+\]?(\.\.\.)?|\[ARGS\]\.\.\.", word) for word in rest[1:])


def test_value_is_named_by_what_it_is(assay: Any) -> None:
    shown = assay("evaluate", "--help").out
    for words in ("[OPTIONS] GOLD", "--index DIR", "--config FILE", "--set PATH=VALUE"):
        assert words in shown
    assert re.search(r"--latency N .*\n\s+\[default: 0; at least 0\]", shown)
    assert "[OPTIONS] GOLD [RUNS]..." in assay("power", "--help").out
    assert "--storage URL" in assay("sweep", "run", "--help").out
    assert "assay sweep GOLD is assay sweep run GOLD" in assay("sweep", "--help").out


def test_version_is_that_of_the_distribution(assay: Any) -> None:
    done = assay("--version")
    assert (done.code, done.out) == (0, f"assay {version('retrieval-assay')}\n")
