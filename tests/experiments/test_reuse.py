"""A run is used again where it was made of the same things, and nowhere else."""

import json
from pathlib import Path

import pytest
from run_worlds import write_run
from worlds import write_gold

from experiments.comparison.reuse import find_made
from experiments.identity import identity_of_file
from gold import Run, load
from retriever.config import EvaluationConfig

PARTS = ("gold", "index", "config", "models", "plugins", "code")
IDENTITY = {name: f"{name}-digest" for name in PARTS}
GOLD = ({"d1": "one"}, {"q1": "which"}, {"q1": {"d1": 1}})


def make(folder: Path, index: Path | None = None, **record: object) -> Path:
    place = {"path": str(index), "fingerprint": "f"} if index else None
    write_run(folder, {"ndcg@10": [0.5]}, index=place, **{"identity": IDENTITY, **record})
    (folder / "run.trec").touch()
    return folder


def test_newest_run_of_the_same_identity_is_found(tmp_path: Path) -> None:
    make(tmp_path / "20260101-a")
    newest = make(tmp_path / "20260102-a")
    make(tmp_path / "20260103-a", identity={**IDENTITY, "index": "another"})
    found = find_made(tmp_path, IDENTITY)
    assert found is not None
    assert found.path == newest


@pytest.mark.parametrize("part", PARTS)
def test_run_is_no_other_when_one_part_differs(tmp_path: Path, part: str) -> None:
    make(tmp_path / "a")
    assert find_made(tmp_path, {**IDENTITY, part: "changed"}) is None


@pytest.mark.parametrize("name", ["run.json", "run.trec", "qrels.trec", "queries.parquet"])
def test_run_is_passed_over_when_a_file_of_it_is_gone(tmp_path: Path, name: str) -> None:
    (make(tmp_path / "a") / name).unlink()
    assert find_made(tmp_path, IDENTITY) is None


def test_run_is_passed_over_when_it_cannot_be_read_or_its_index_is_gone(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    make(runs / "a", index=tmp_path / "gone")
    assert find_made(runs, IDENTITY) is None
    (tmp_path / "gone").mkdir()
    assert find_made(runs, IDENTITY) is not None
    text = (runs / "a" / "run.json").read_text()
    (runs / "a" / "run.json").write_text(text[:-5])
    assert find_made(runs, IDENTITY) is None
    (runs / "a" / "run.json").write_text(json.dumps(["config-digest"]))
    assert find_made(runs, IDENTITY) is None
    assert find_made(tmp_path / "nowhere", IDENTITY) is None


def test_run_in_which_a_model_failed_over_is_made_again(tmp_path: Path) -> None:
    make(tmp_path / "a", fallbacks={"cross_encoder_fallback": 1})
    assert find_made(tmp_path, IDENTITY) is None
    make(tmp_path / "b", fallbacks={"scope_empty": 1})
    assert find_made(tmp_path, IDENTITY) is not None


def test_scored_file_is_another_when_ranking_settings_or_corpus_change(tmp_path: Path) -> None:
    gold = load(write_gold(tmp_path / "gold", *GOLD))
    run = Run({"q1": ["d1"]}, {"q1": [1.0]}, "mine", "trec")
    settings = EvaluationConfig()
    first = identity_of_file(gold, run, settings)
    assert identity_of_file(gold, run, settings) == first
    other = Run({"q1": ["d2"]}, {"q1": [1.0]}, "mine", "trec")
    assert identity_of_file(gold, other, settings)["run"] != first["run"]
    asked = EvaluationConfig(metrics=("mrr@7",))
    assert identity_of_file(gold, run, asked)["config"] != first["config"]
    texts, queries, qrels = GOLD
    write_gold(tmp_path / "gold", {**texts, "d2": "two"}, queries, qrels)
    changed = identity_of_file(load(tmp_path / "gold"), run, settings)
    assert changed["gold"] == first["gold"]  # the judgements are the same
    assert changed["corpus"] != first["corpus"]
