"""A sweep: its first trial, its ends and beginnings, its faults, and what it concludes."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from optuna.trial import TrialState
from sweep_worlds import small_settings, small_space, small_world

from experiments.sweep.objective import Objective
from experiments.sweep.procedure import NoFinishedTrialError, run_sweep
from experiments.sweep.storage import open_storage
from experiments.sweep.trials import OWNER, retire_dead
from gold import GoldSet
from retriever import InputError, Retriever
from retriever.config import load_config

World = tuple[GoldSet, Retriever]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return small_world(tmp_path_factory.mktemp("world"))


def study_of(folder: Path) -> optuna.Study:
    settings = small_settings(folder, 1)
    return optuna.load_study(study_name="small", storage=open_storage(settings.storage))


def finished(folder: Path) -> list[tuple[float | None, dict[str, Any]]]:
    """Values and parameters of the finished trials, in order."""
    return [(t.value, t.params) for t in study_of(folder).trials if t.state == TrialState.COMPLETE]


def test_first_trial_is_the_default(world: World, tmp_path: Path) -> None:
    gold, retriever = world
    done = run_sweep(gold, retriever, small_settings(tmp_path, 5))
    value, parameters = finished(tmp_path)[0]
    train = study_of(tmp_path).user_attrs["assay"]
    objective = Objective(
        retriever, gold, small_settings(tmp_path, 1).measures, json.loads(train)["query_ids"]
    )
    assert value == pytest.approx(objective.score(retriever.config)["ndcg@10"].mean(), abs=1e-12)
    assert parameters == {
        "merge.method": "minmax",
        "merge.weights.dense": 0.5,
        "route.recall_top_k": 50,
    }
    assert done.record["train"]["default"] == value


def test_record_holds_what_is_documented(world: World, tmp_path: Path) -> None:
    done = run_sweep(*world, small_settings(tmp_path, 15))
    record = json.loads((tmp_path / "sweep.json").read_text("utf-8"))
    assert record == done.record
    assert {"study", "trials", "finished", "unique", "failed", "best", "train", "validation"} <= {
        *record
    }
    assert {"default", "chosen", "difference", "low", "high", "p_value"} <= {*record["test"]}
    assert {"verdict", "seconds_per_trial", "memo", "inert"} <= {*record}
    assert (record["finished"], record["failed"]) == (15, 0)
    assert record["best"].keys() >= {"trial", "parameters"}
    assert load_config(tmp_path / "best.yaml").fingerprint == done.config.fingerprint
    sizes = [record[part]["queries"] for part in ("train", "validation", "test")]
    assert sum(sizes) == 24
    assert min(sizes) > 0


def test_resumed_sweep_is_the_undisturbed_one(world: World, tmp_path: Path) -> None:
    run_sweep(*world, small_settings(tmp_path / "whole", 20))
    for trials in (4, 13, 20, 20):
        run_sweep(*world, small_settings(tmp_path / "parts", trials))
    assert finished(tmp_path / "parts") == finished(tmp_path / "whole")


def test_interrupted_trial_is_given_up_and_asked_again(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_sweep(*world, small_settings(tmp_path / "whole", 16))
    score, calls = Objective.score, 0

    def stopped(self: Objective, config: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls % 9 == 0:
            raise KeyboardInterrupt
        return score(self, config)

    for _ in range(20):
        monkeypatch.setattr(Objective, "score", stopped)
        try:
            run_sweep(*world, small_settings(tmp_path / "parts", 16))
            break
        except KeyboardInterrupt:
            continue
    monkeypatch.undo()
    run_sweep(*world, small_settings(tmp_path / "parts", 16))
    assert finished(tmp_path / "parts") == finished(tmp_path / "whole")
    states = {t.state for t in study_of(tmp_path / "parts").trials}
    assert TrialState.RUNNING not in states


def test_half_written_line_of_the_journal_is_cut_off(world: World, tmp_path: Path) -> None:
    run_sweep(*world, small_settings(tmp_path, 5))
    with (tmp_path / "study.journal").open("ab") as stream:
        stream.write(b'{"op_code":4,"worker_id":"x","st')
    run_sweep(*world, small_settings(tmp_path, 9))
    assert len(finished(tmp_path)) == 9


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 1}, "seed: 0, now 1"),
        ({"sampler": "random"}, "sampler: tpe, now random"),
        ({"max_drop": 0.1}, "max drop: None, now 0.1"),
    ],
)
def test_study_of_something_else_is_refused(
    world: World, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    run_sweep(*world, small_settings(tmp_path, 2))
    with pytest.raises(InputError, match=message):
        run_sweep(*world, replace(small_settings(tmp_path, 4), **change))
    assert len(finished(tmp_path)) == 2


def test_changed_space_is_refused(world: World, tmp_path: Path) -> None:
    run_sweep(*world, small_settings(tmp_path, 2))
    other = small_space("parameters: {merge.rrf_k: {low: 1.0, high: 90.0}}")
    with pytest.raises(InputError, match="space: "):
        run_sweep(*world, small_settings(tmp_path, 4, space=other))


def test_failing_trial_keeps_its_reason_and_the_sweep_goes_on(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    score, calls = Objective.score, 0

    def flaky(self: Objective, config: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls % 7 == 0:
            raise RuntimeError("out of luck")
        return score(self, config)

    run_sweep(*world, small_settings(tmp_path, 2))
    monkeypatch.setattr(Objective, "score", flaky)
    monkeypatch.setattr("experiments.sweep.choosing.simplified", lambda best, *_: best)
    try:
        done = run_sweep(*world, small_settings(tmp_path, 12))
    except RuntimeError:  # the seventh call may fall on the conclusions, which nothing catches
        monkeypatch.undo()
        done = run_sweep(*world, small_settings(tmp_path, 12))
    assert done.record["finished"] == 12
    assert done.record["failed"] >= 1
    reasons = [t.user_attrs.get("reason") for t in study_of(tmp_path).trials]
    assert "RuntimeError: out of luck" in reasons


def test_no_finished_trial_says_why(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NoFinishedTrialError, match="in the time given"):
        run_sweep(*world, small_settings(tmp_path, 5, timeout=0.0))


def test_nothing_varies_when_no_trial_differs(world: World, tmp_path: Path) -> None:
    # Weights change the order and not what is found: 60 documents, of which 50 + 50 are searched.
    from experiments.metrics import parse_measure

    space = small_space("parameters: {merge.rrf_k: {low: 1.0, high: 90.0}}")
    gold, retriever = world
    fused = retriever.with_config(retriever.config.with_overrides({"merge.method": "rrf"}))
    settings = small_settings(tmp_path, 6, space=space, measures=(parse_measure("recall@100"),))
    done = run_sweep(gold, fused, settings)
    assert done.record["verdict_in_words"].startswith("no variation")
    assert done.record["best"]["parameters"] == {}


def test_scores_are_reused_when_a_configuration_comes_again(world: World, tmp_path: Path) -> None:
    space = small_space("parameters: {merge.method: {choices: [minmax, rrf]}}")
    done = run_sweep(*world, small_settings(tmp_path, 12, space=space))
    assert done.record["finished"] == 12
    assert done.record["unique"] <= 3  # the default, and two written out


def test_constraint_keeps_the_worst_type_up(world: World, tmp_path: Path) -> None:
    done = run_sweep(*world, small_settings(tmp_path, 15, max_drop=0.0))
    trials = study_of(tmp_path).trials
    assert any("constraints:worst query type" in t.system_attrs for t in trials)
    assert done.record["train"]["chosen"] >= done.record["train"]["default"]


@pytest.mark.parametrize("sampler", ["random", "grid", "qmc", "nsga2", "cmaes", "gp"])
def test_every_sampler_finishes_and_resumes(world: World, tmp_path: Path, sampler: str) -> None:
    for trials in (3, 14):
        done = run_sweep(*world, small_settings(tmp_path, trials, sampler=sampler))
    assert done.record["finished"] == 14


def test_several_objectives_give_a_front(world: World, tmp_path: Path) -> None:
    from experiments.metrics import parse_measure

    measures = (parse_measure("ndcg@10"), parse_measure("recall@3"))
    done = run_sweep(*world, small_settings(tmp_path, 14, measures=measures))
    assert done.record["objective"] == ["ndcg@10", "recall@3"]
    front = done.record["pareto"]
    assert front
    best = max(t.values[0] for t in study_of(tmp_path).trials if t.values)
    assert best in [one["values"][0] for one in front]
    # Every objective is judged on the queries held out, and the first is the one of the test.
    judged = Objective(world[1], world[0], measures, [*done.held_out])
    for name, one in done.record["objectives"].items():
        default, chosen = (
            float(judged.score(c)[name].mean()) for c in (world[1].config, done.config)
        )
        assert (one["default"], one["chosen"]) == pytest.approx((default, chosen), abs=1e-12)
        assert one["difference"] == pytest.approx(chosen - default, abs=1e-12)
    assert list(done.record["objectives"]) == ["ndcg@10", "recall@3"]
    assert done.record["objectives"]["ndcg@10"]["chosen"] == done.record["test"]["chosen"]


def test_folds_judge_every_query_once(world: World, tmp_path: Path) -> None:
    done = run_sweep(*world, small_settings(tmp_path, 4, folds=3))
    assert sum(fold["queries"] for fold in done.record["by_fold"]) == 24
    assert done.record["test"]["queries"] == 24


def test_trial_of_a_dead_worker_is_given_up(world: World, tmp_path: Path) -> None:
    run_sweep(*world, small_settings(tmp_path, 3))
    study = study_of(tmp_path)
    lost, alive = study.ask(), study.ask()
    living = next(t for t in study.trials if t.state == TrialState.COMPLETE).user_attrs[OWNER]
    machine, pid, since, name = living.split(" ")
    lost.set_user_attr(OWNER, f"{machine} 4194304 {since} {name}")
    alive.set_user_attr(OWNER, f"{machine} {pid} {since} {name}")
    assert retire_dead(study) == 1
    states = {t.number: t.state for t in study.trials}
    assert states[lost.number] == TrialState.FAIL
    assert states[alive.number] == TrialState.RUNNING


def test_sampler_seeds_differ_from_trial_to_trial() -> None:
    from experiments.sweep.samplers import trial_seed

    seeds = {trial_seed(s, n, w) for s in range(3) for n in range(50) for w in range(3)}
    assert len(seeds) == 450


def test_memo_is_verified(world: World, tmp_path: Path) -> None:
    from experiments.sweep.verify import verify_memo

    gold, retriever = world
    done = run_sweep(gold, retriever, small_settings(tmp_path, 6))
    assert verify_memo(done, gold, retriever, 3)["trials"] == 3


def test_memo_that_lies_is_found(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import experiments.sweep.verify as verify

    gold, retriever = world
    done = run_sweep(gold, retriever, small_settings(tmp_path, 6))
    traces, calls = verify._traces, 0

    def lying(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        found = traces(*arguments)
        if calls % 2 == 0:
            held = found[0].final.scores
            merged = replace(held.merged, ranked=np.nextafter(held.merged.ranked, 9.0))
            other = replace(held, merged=merged)
            found = [replace(found[0], final=replace(found[0].final, scores=other))]
        return found

    monkeypatch.setattr(verify, "_traces", lying)
    with pytest.raises(verify.MemoDifferenceError, match="without the memo"):
        verify.verify_memo(done, gold, retriever, 2)
