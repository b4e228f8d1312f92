"""The pinned table: exact, close, failed, or not measured, and never a 0."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from worlds import write_gold

from experiments import regressions
from experiments.regressions import Row, RowResult, check, load_table, main, verdict_of
from retriever.files import InputError

ROOT = Path(__file__).parents[2]
TEXTS = {"a": "egfr inhibitor", "b": "met inhibitor", "c": "travel rules"}


@pytest.mark.parametrize(
    ("found", "verdict"),
    [(0.5, "exact"), (0.5000004, "exact"), (0.5004, "close"), (0.4995, "close"), (0.501, "failed"),
     (None, "failed")],
)  # fmt: skip
def test_verdict_is_exact_close_or_failed(found: float | None, verdict: str) -> None:
    assert verdict_of(0.5, found, 0.0005000001) == verdict


def table(folder: Path, **expected: float) -> Path:
    write_gold(folder / "gold", TEXTS, {"q": "egfr", "p": "travel"}, {"q": {"a": 1}, "p": {"c": 1}})
    file = folder / "table.yaml"
    row = {
        "name": "mine",
        "gold": str(folder / "gold"),
        "sets": ["namespace=general"],
        "expected": {k.replace("_at_", "@"): v for k, v in expected.items()},
    }
    file.write_text(yaml.safe_dump({"rows": [row]}))
    return file


def test_table_is_checked_and_pinned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = table(tmp_path, hit_at_5=0.2)
    assert main([str(file)]) == 1
    assert "hit@5 1.000000, expected 0.200000: failed" in capsys.readouterr().out
    assert main([str(file), "--update"]) == 0
    row = load_table(file).rows[0]
    assert row.expected == {"hit@5": 1.0}
    assert row.digest
    assert main([str(file)]) == 0
    assert "exact" in capsys.readouterr().out
    judged = tmp_path / "gold" / "qrels" / "test.tsv"
    judged.write_text(judged.read_text() + "q\tb\t1\n")
    assert main([str(file)]) == 1
    assert "has changed since" in capsys.readouterr().out
    assert main([str(file), "--only", "nobody"]) == 2


def test_crash_is_not_measured_and_never_zero(tmp_path: Path, monkeypatch) -> None:
    def crash(*_: object) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(regressions, "_measure", crash)
    result = check(Row(name="x", gold=str(tmp_path), expected={"hit@5": 0.0}), 0.0005, tmp_path)
    assert result.not_measured == "RuntimeError: out of memory"
    assert result.figures == {}
    assert not result.ok


def test_absent_set_is_no_fault_and_is_said(tmp_path: Path) -> None:
    result = check(Row(name="x", gold="absent", expected={"hit@5": 0.5}), 0.0005, tmp_path)
    assert "is absent" in result.not_measured
    assert result.ok
    assert not RowResult(result.row, {}, not_measured="crash").ok


@pytest.mark.parametrize(
    "text", ["rows: []", "rows: [{name: a}]", "tolerance: 0\nrows: []", "x: 1"]
)
def test_bad_table_names_the_file(tmp_path: Path, text: str) -> None:
    file = tmp_path / "t.yaml"
    file.write_text(text)
    with pytest.raises(InputError, match=r"t\.yaml"):
        load_table(file)


def test_shipped_table_is_pinned_and_its_quick_rows_need_no_data() -> None:
    shipped = load_table(ROOT / "docs" / "regressions.yaml")
    assert all(row.digest for row in shipped.rows)
    quick = [row for row in shipped.rows if row.quick]
    assert quick
    assert all((ROOT / row.gold).is_dir() for row in quick)


def test_quick_rows_of_the_shipped_table_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, smoke_vectors: Path
) -> None:
    store = tmp_path / "store"
    (store / "cache").mkdir(parents=True)
    smoke_vectors.mkdir(exist_ok=True)
    (store / "cache" / "vectors").symlink_to(smoke_vectors, target_is_directory=True)
    monkeypatch.setenv("ASSAY_STORE", str(store))
    monkeypatch.chdir(ROOT)
    assert main(["--quick"]) == 0


def test_gate_of_the_docs_loads_and_shows_every_rule(tmp_path: Path) -> None:
    from experiments.comparison.gate_file import RULES, load_gate

    text = (ROOT / "docs" / "compare.md").read_text("utf-8")
    block = text[text.index("    # gate.yaml") : text.index("A broken rule ends")]
    file = tmp_path / "gate.yaml"
    file.write_text("\n".join(line.removeprefix("    ") for line in block.splitlines()))
    assert {type(rule) for rule in load_gate(file).rules} == set(RULES.values())


def test_calibration_runs_when_short() -> None:
    done = subprocess.run(
        [
            sys.executable,
            "benchmarks/gate_calibration.py",
            "--comparisons",
            "60",
            "--queries",
            "30",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    rows = [line.split("|") for line in done.stdout.splitlines()[2:]]
    assert [row[1].strip() for row in rows] == ["mean, 30 queries", "0/1, 30 queries"]
    for row in rows:
        noise, power, broken = (float(row[i]) for i in (2, 4, 5))
        # 60 draws: standard errors .03 and .05
        assert noise <= 0.15
        assert abs(broken - power) < 0.2
