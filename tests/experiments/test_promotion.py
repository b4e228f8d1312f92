"""Promotions that meet another one, an alias without a run, a failure, or what a kill has left."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from worlds import write_small_gold

from experiments.recorded import RecordedRun
from experiments.tracking import promotion
from experiments.tracking.promotion import promote
from experiments.tracking.registered import MODEL, holder_of
from experiments.tracking.store import default_tracking_uri, open_client
from experiments.tracking.turns import _machine, one_promotion, scratch_folder

ROOT = Path(__file__).parents[2]


@pytest.fixture
def gold(tmp_path: Path) -> Path:
    return write_small_gold(tmp_path / "gold")


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    file = tmp_path / "gate.yaml"
    file.write_text("rules: [{rule: max_drop, metric: ndcg@10, at_most: 0.0}]")
    return file


def evaluated(assay: Any, gold: Path, name: str, *more: object) -> Path:
    out = gold.parent / name
    done = assay("evaluate", gold, "-o", out, "--set", "namespace=general", "--no-track", *more)
    assert done.code == 0, done.err
    return out


def registered(run: Path, alias: str, store: Path) -> int:
    found = RecordedRun.open(run)
    return promote(found, alias, store, run_id=None, experiment="assay", tags={}).version


def versions(store: Path) -> list[int]:
    client = open_client(default_tracking_uri(store))
    return sorted(int(one.version) for one in client.search_model_versions(f"name='{MODEL}'"))


@pytest.mark.usefixtures("replay_here")
def test_second_promotion_waits_and_is_judged_against_the_first(
    assay: Any, gold: Path, gate: Path, store: Path
) -> None:
    one = evaluated(assay, gold, "one")
    worse = evaluated(
        assay, gold, "worse", "--set", "route.recall_top_k=1", "--set", "route.bm25_search=false"
    )
    start = "from experiments.cli import main; main()"
    command = ["promote", str(worse), "--alias", "race", "--gate", str(gate)]
    with one_promotion("race", store, lambda: None):
        second = subprocess.Popen(
            [sys.executable, "-c", start, *command],
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT), "ASSAY_STORE": str(store)},
        )
        assert second.stderr is not None
        assert second.stderr.readline() == (
            "another promotion to race is under way: waiting for it\n"
        )
        assert registered(one, "race", store) == 1
    out, err = second.communicate(timeout=120)
    assert second.returncode == 1, err
    assert "race stays where it was" in out
    assert "no run has the alias" not in err
    assert versions(store) == [1]


def test_alias_that_moved_since_it_was_judged_is_left_where_it_is(
    assay: Any, gold: Path, gate: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = evaluated(assay, gold, "one")

    def moved_meanwhile(*_: object) -> None:
        monkeypatch.setattr(promotion, "refuse_other_figures", lambda *_: None)
        registered(one, "race", store)

    monkeypatch.setattr(promotion, "refuse_other_figures", moved_meanwhile)
    done = assay("promote", one, "--alias", "race", "--gate", gate)
    assert done.code == 2
    assert "race moved to version 1 meanwhile (run it again)" in done.err
    assert holder_of("race").version == 1
    assert versions(store) == [1]


def test_alias_of_a_version_without_a_run_is_no_free_alias(
    assay: Any, gold: Path, gate: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = evaluated(assay, gold, "one")
    monkeypatch.setattr(promotion, "refuse_other_figures", lambda *_: None)
    registered(one, "champion", store)
    client = open_client(default_tracking_uri(store))
    foreign = client.create_model_version(MODEL, source="s3://bucket/model")
    client.set_registered_model_alias(MODEL, "foreign", foreign.version)
    done = assay("promote", one, "--alias", "foreign", "--gate", gate)
    assert done.code == 2
    assert "alias foreign points at version 2, which has no run" in done.err
    assert versions(store) == [1, 2]


def test_failed_promotion_leaves_no_version(
    assay: Any, gold: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = evaluated(assay, gold, "one")
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient

    def refuse(*_: object) -> None:
        raise MlflowException("no room")

    monkeypatch.setattr(promotion, "refuse_other_figures", lambda *_: None)
    monkeypatch.setattr(MlflowClient, "set_registered_model_alias", refuse)
    done = assay("promote", one, "--alias", "champion", "--no-gate")
    assert done.code == 2
    assert "MLflow refused the promotion: no room" in done.err
    assert versions(store) == []


@pytest.mark.parametrize("alias", ["a" * 300, "LATEST", "V1", "bad alias"])
def test_alias_is_refused_before_the_run_is_looked_for(assay: Any, alias: str, store: Path) -> None:
    done = assay("promote", "nowhere", "--alias", alias, "--no-gate")
    assert done.code == 2
    assert "MLflow takes no alias" in done.err
    assert not store.exists()


def test_folders_of_killed_promotions_alone_are_removed(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    names = [
        f".promotion-{ended.pid}-{_machine()}.x",
        f".promotion-{os.getppid()}-{_machine()}.x",
        f".promotion-{ended.pid}-elsewhere.x",
        "runs",
    ]
    for name in names:
        (tmp_path / name / "model").mkdir(parents=True)
    with scratch_folder(tmp_path) as scratch:
        assert scratch.name.startswith(f".promotion-{os.getpid()}-")
    assert {path.name for path in tmp_path.iterdir()} == set(names[1:])
