"""A stranger's text commands no terminal, whatever command shows it."""

import ast
import json
import os
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.table import Table
from worlds import write_gold

from experiments.diagnosis.show import print_query
from experiments.screen import Screen
from reports.shortened import shorten_words, shortened
from reports.visible import visible, visible_json

ROOT = Path(__file__).parents[1]
ASSAY = Path(sys.executable).with_name("assay")
# Title, bell, cursor to the start, C1's own ESC [, right to left and back.
EVIL = "\x1b]0;owned\x07\r\x9b2J\u202egnp.exe\u202c\u2066x\u2069"
SHOWN = r"\x1b]0;owned\x07\r\x9b2J\u202egnp.exe\u202c\u2066x\u2069"
COMMANDS = set("\x1b\x07\r\x9b\u202e\u202c\u2066\u2069")
# The two that write to a stream themselves.
WRITERS = {"experiments/shown.py", "experiments/screen.py"}


def direct_writes(source: str) -> list[str]:
    """Calls that reach a stream without the rule for strangers' text."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        if name in {"print", "Console", "sys.stdout.write", "sys.stderr.write"} or name.endswith(
            (".echo", ".secho")
        ):
            found.append(f"{node.lineno}: {name}")
    return found


def test_every_module_prints_by_the_one_way_there_is() -> None:
    assert direct_writes("import typer\ntyper.echo(x)\nprint(y)") == ["2: typer.echo", "3: print"]
    packages = ("experiments", "gold", "reports", "retriever")
    files = [file for package in packages for file in ROOT.glob(f"{package}/**/*.py")]
    assert len(files) > 200
    names = {str(file.relative_to(ROOT)): file for file in files}
    found = {
        name: direct_writes(file.read_text("utf-8"))
        for name, file in names.items()
        if name not in WRITERS
    }
    assert {file: calls for file, calls in found.items() if calls} == {}


@given(st.text())
def test_visible_text_can_be_written_and_commands_nothing(text: str) -> None:
    shown = visible(text)
    assert not COMMANDS & set(shown)
    shown.encode()


@given(st.recursive(st.text(), lambda inner: st.dictionaries(st.text(), inner, max_size=3)))
def test_json_says_the_same_when_its_controls_are_escapes(value: object) -> None:
    text = visible_json(json.dumps(value, ensure_ascii=False))
    assert json.loads(text) == value
    assert not COMMANDS & set(text)
    text.encode()


def test_screen_reads_no_markup_and_no_control_in_any_string() -> None:
    written = StringIO()
    screen = Screen(file=written, width=160, force_terminal=True, color_system=None)
    table = Table(title=f"[red]{EVIL}")
    table.add_column(f"[b]{EVIL}")
    table.add_row(f"[/x]{EVIL}")
    screen.print(table)
    screen.print(f":smile: [link=x]{EVIL}")
    text = written.getvalue()
    assert text.count(SHOWN) == 4
    assert not COMMANDS & set(text)
    for kept in ("[red]", "[b]", "[/x]", ":smile: [link=x]"):
        assert kept in text


def test_commands_show_commands_as_escapes(assay: Any, tmp_path: Path) -> None:
    write_gold(
        tmp_path / "g",
        {f"d{EVIL}": f"egfr {EVIL}"},
        {"q": "egfr", f"r{EVIL}": "egfr"},
        {"q": {f"d{EVIL}": 1, f"no{EVIL}": 1}, f"r{EVIL}": {f"d{EVIL}": 0}},
        metadata={"q": {"type": f"t{EVIL}"}},
    )
    drug = {"id": f"X{EVIL}", "name": f"egfr {EVIL}", "aliases": [f"erbb{EVIL}"], "is_drug": True}
    (tmp_path / "lexicon.json").write_text(json.dumps([drug]))
    (tmp_path / "bad.yaml").write_text(json.dumps({f"no{EVIL}": 1}))
    index, lexicon = tmp_path / "i", ("--lexicon", tmp_path / "lexicon.json")
    assert assay("index", tmp_path / "g", "-o", index).code == 0
    for expected, arguments in (
        (0, ("search", index, "egfr")),
        (0, ("search", index, "egfr", "--explain")),
        (2, ("search", f"{index}{EVIL}", "egfr")),
        (0, ("link", "egfr", *lexicon)),
        (0, ("lexicon", "show", f"erbb{EVIL}", *lexicon)),
        (1, ("lexicon", "show", EVIL)),
        (1, ("gold", "validate", tmp_path / "g")),
        (2, ("gold", "stats", tmp_path / "g")),
        (2, ("config", "show", "--config", tmp_path / "bad.yaml")),
        (2, ("config", "show", "--set", f"a{EVIL}=1")),
    ):
        done, as_json = assay(*arguments), assay(*arguments, "--json")
        assert (done.code, as_json.code) == (expected, expected), (arguments, done.err)
        assert not COMMANDS & set(done.out + done.err + as_json.out + as_json.err), arguments
        assert "owned" in done.out + done.err, arguments
        if expected < 2:
            assert "]0;owned" in json.dumps(json.loads(as_json.out)), arguments


def test_run_shows_commands_as_escapes_wherever_it_is_read(assay: Any, tmp_path: Path) -> None:
    run, name = tmp_path / "run", "d\u202e"  # no TREC file can hold a control in an id
    write_gold(
        tmp_path / "g",
        {name: f"egfr {EVIL}", "a": "placebo"},
        {"q": f"placebo {EVIL}", "r": "egfr"},
        {"q": {name: 1, "no\u202e": 1}, "r": {name: 1}},
        metadata={"q": {"type": f"t{EVIL}", "expected_terms": [f"egfr {EVIL}", f"nowhere{EVIL}"]}},
    )
    for arguments in (
        ("evaluate", tmp_path / "g", "-o", run, "--no-track"),
        ("diagnose", run),
        ("diagnose", run, "--query", "q"),
        ("compare", run, run, "-o", tmp_path / "c"),
        ("headroom", run),
    ):
        done = assay(*arguments)
        assert done.code == 0, (arguments, done.err)
        assert not COMMANDS & set(done.out + done.err), arguments
        assert "owned" in done.out or arguments[0] == "headroom", arguments
    assert not COMMANDS & set((tmp_path / "c" / "comparison.html").read_text("utf-8"))


def test_middle_of_a_long_id_is_left_out() -> None:
    # 60 characters: 40 of the head, the mark, 19 of the tail.
    name = "a" * 5000 + "b" * 5000
    assert shortened(name) == "a" * 40 + "…" + "b" * 19
    assert shortened("a" * 60) == "a" * 60
    assert shortened("two\n lines") == "two lines"
    # 10: 6, the mark, 3.
    assert shorten_words("left: 0123456789x (ok)", 10) == "left: 012345…89x (ok)"


@given(st.text(), st.integers(1, 80))
def test_shortened_text_keeps_to_its_length(text: str, most: int) -> None:
    assert len(shortened(text, most)) <= most
    assert all(len(word) <= most for word in shorten_words(text, most).split())


def test_query_with_ids_of_ten_thousand_letters_fits_a_screen(
    capsys: pytest.CaptureFixture[str],
) -> None:
    long = "x" * 10_000
    ranks = {"merged": 2, "final": 7}
    terms = {"entity": 0.5}
    row = {"document_id": long, "rank": 1, "score": 0.5, "terms": terms}
    print_query(
        {
            "query_id": long,
            "text": long,
            "class": "ranking_gap",
            "subclass": None,
            "lost_at": None,
            "gold": [{"document_id": long, "indexed": True, "ranks": ranks, **row}],
            "causes": [
                {"cause": "c", "status": "hypothesis", "advice": f"mend {long}", "change": None}
            ],
            "evidence": {
                "plans": [],
                "above": [row],
                "terms": {"missing": [long], "impossible": [long]},
                "unknown": [long],
            },
        }
    )
    assert len(capsys.readouterr().out) < 4000


@pytest.mark.parametrize("arguments", [["config", "show"], ["gold", "validate", "/nowhere"]])
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", ">&- 2>&-", "2>/dev/full"])
def test_stream_that_is_closed_or_full_costs_no_exit_code(
    arguments: list[str], closed: str
) -> None:
    script = f"{ASSAY} {' '.join(arguments)} {closed}"
    done = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == (2 if "/nowhere" in arguments else 0)
    assert "Traceback" not in done.stderr


def test_letters_that_a_terminal_lacks_are_escapes(tmp_path: Path) -> None:
    def run(*arguments: object) -> subprocess.CompletedProcess[bytes]:
        environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
        return subprocess.run(
            [ASSAY, *map(str, arguments)], capture_output=True, env=environment, check=False
        )

    refused = run("gold", "validate", tmp_path / "é\udcff")
    assert refused.returncode == 2
    assert rb"\xe9\udcff: no such directory" in refused.stderr
    asked = run("lexicon", "show", "café β")
    assert rb"caf\xe9 \u03b2" in asked.stdout
    as_json = run("lexicon", "show", "café β", "--json")
    assert json.loads(as_json.stdout.decode("ascii"))["term"] == "café β"
