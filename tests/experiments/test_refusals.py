"""Bad input that could have cost a file, a folder or an answer."""

import errno
import json
import math
from pathlib import Path
from typing import Any

import pytest
from run_worlds import write_run

from experiments.commands.opening import as_file_name
from experiments.comparison.gate_file import load_gate
from experiments.metrics import parse_measure
from experiments.recorded import RecordedRun
from experiments.space import load_space
from experiments.sweep.procedure import SweepSettings
from experiments.sweep.storage import open_storage
from experiments.tracking.promotion import promote
from reports.faults import InputError as ReportError
from reports.run_directory import RunDirectory
from retriever.files import InputError, write_atomically
from retriever.ingest.readers.source import Remark


@pytest.mark.parametrize("text", ["my notes without a newline", '{"mine": 1}', "a\nb"])
def test_journal_storage_keeps_a_foreign_file(tmp_path: Path, text: str) -> None:
    file = tmp_path / "notes.txt"
    file.write_text(text)

    def open_and_write() -> None:
        storage: Any = open_storage(f"journal:{file}")
        storage.create_new_study([])

    with pytest.raises(InputError):
        open_and_write()
    assert file.read_text() == text


def test_journal_that_ends_in_garbage_is_refused_and_kept(tmp_path: Path) -> None:
    file = tmp_path / "study.journal"
    storage: Any = open_storage(f"journal:{file}")
    storage.create_new_study([])
    with file.open("a") as stream:
        stream.write("hello\n")
    before = file.read_text()
    with pytest.raises(InputError, match=r"study\.journal: no journal of a study"):
        open_storage(f"journal:{file}")
    assert file.read_text() == before


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("", "is no storage"),
        ("redis://host", "is no storage"),
        ("journal:", "names no file"),
        ("sqlite://", "names no file"),
        ("sqlite:///", "names no file"),
        ("sqlite:///:memory:", "names no file"),
    ],
)
def test_storage_that_would_be_lost_is_refused(url: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        open_storage(url)


@pytest.mark.parametrize("name", ["../../escaped", "/etc/passwd", "..", ".", "a/b", "\0"])
def test_name_of_a_file_stays_in_its_folder(name: str, tmp_path: Path) -> None:
    made = tmp_path / as_file_name(name)
    assert made.resolve().parent == tmp_path.resolve()


def test_space_without_a_name_is_named_by_its_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("parameters:\n  fuse.alpha: {low: 0.0, high: 1.0}\n")
    assert load_space(str(file)).name == "mine"


def test_condition_without_a_value_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(
        "parameters:\n  merge.rrf_k: {low: 1.0, high: 20.0, when: {merge.method: []}}\n"
    )
    with pytest.raises(InputError, match=r"merge\.method has no value"):
        load_space(str(file))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"sampler": "cmaes", "measures": ("ndcg@10", "mrr@10")}, "one objective"),
        ({"max_drop": math.nan}, "no drop"),
        ({"max_drop": -0.1}, "no drop"),
        ({"measures": ("ndcg@10", "ndcg@10")}, r"the objective ndcg@10 stands twice"),
    ],
)
def test_sweep_that_could_finish_no_trial_is_refused(
    tmp_path: Path, settings: dict[str, Any], said: str
) -> None:
    asked = {"measures": ("ndcg@10",), **settings}
    asked["measures"] = tuple(map(parse_measure, asked["measures"]))
    with pytest.raises(InputError, match=said):
        SweepSettings(
            space=load_space("default"), trials=1, out=tmp_path, storage="", study="s", **asked
        )


@pytest.mark.parametrize("events", ["[nosuch_event]", "[]"])
def test_gate_on_events_that_do_not_exist_is_refused(tmp_path: Path, events: str) -> None:
    file = tmp_path / "gate.yaml"
    file.write_text(f"rules:\n  - {{rule: no_fallbacks, events: {events}}}\n")
    with pytest.raises(InputError):
        load_gate(file)


@pytest.mark.parametrize("damage", [{"gold": None}, {"metrics": [1, 2]}, {"gold": "x"}])
def test_damaged_record_is_one_error(tmp_path: Path, damage: dict[str, Any]) -> None:
    run = write_run(tmp_path / "run", {"hit@5": [1.0, 0.0]})
    file = run.path / "run.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **damage}))
    with pytest.raises(InputError, match="is no object"):
        RecordedRun.open(run.path)
    with pytest.raises(ReportError, match="is no object"):
        RunDirectory.open(run.path)


@pytest.mark.parametrize("alias", ["bad alias/../x", "latest", "v1", ""])
def test_alias_that_mlflow_takes_not_is_refused_before_anything_is_written(
    tmp_path: Path, alias: str
) -> None:
    run = write_run(tmp_path / "run", {"hit@5": [1.0]})
    with pytest.raises(InputError, match="takes no alias"):
        promote(run, alias, tmp_path / "s", run_id=None, experiment="e", tags={})
    assert not (tmp_path / "s").exists()


def test_remark_shows_a_name_that_is_no_text_and_commands_no_terminal() -> None:
    assert Remark("skipped", "bad\udcff.txt", "x").path == "bad\\udcff.txt"
    assert Remark("skipped", "\x1b]0;owned\x07.docx", "x").path == "\\x1b]0;owned\\x07.docx"
    assert Remark("skipped", "Grüße β.pdf", "x").path == "Grüße β.pdf"


def test_full_disk_is_one_error_with_file_and_fix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(InputError, match=r"best\.yaml: cannot be written: No space .*make room"):
        write_atomically(tmp_path / "best.yaml", b"x")
    assert not list(tmp_path.iterdir())
