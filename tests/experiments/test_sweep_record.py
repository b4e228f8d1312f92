"""What a sweep says of its trials: importances, faults, gaps, and the verdict in words."""

from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from sweep_worlds import small_settings, small_space, small_world

from experiments.sweep.candidates import not_worse, simplified
from experiments.sweep.objective import Objective
from experiments.sweep.procedure import run_sweep
from experiments.sweep.record import differences, importances
from experiments.sweep.selection import (
    Candidate,
    Judgement,
    choose,
    gaps,
    in_words,
    judge,
    overfit_gap,
    undivided,
)
from experiments.sweep.storage import quiet_optuna, shown_url
from retriever import RetrieverConfig


def study_of(values: Any, trials: int) -> optuna.Study:
    with quiet_optuna():
        study = optuna.create_study(
            direction="maximize", sampler=optuna.samplers.RandomSampler(seed=1)
        )
        study.optimize(values, n_trials=trials)
    return study


def two_parameters(trial: optuna.Trial) -> float:
    matters = trial.suggest_float("matters", 0.0, 1.0)
    trial.suggest_float("idle", 0.0, 1.0)
    return matters


def test_importance_is_that_of_the_parameter_that_matters() -> None:
    found = importances(study_of(two_parameters, 60))
    assert list(found["values"]) == ["matters", "idle"]
    assert found["values"]["matters"] > 0.8
    assert sum(found["values"].values()) == pytest.approx(1.0, abs=1e-5)
    assert found["reason"] is None


def test_importance_is_none_when_every_trial_scored_the_same() -> None:
    def constant(trial: optuna.Trial) -> float:
        trial.suggest_float("x", 0.0, 1.0)
        return 0.5

    found = importances(study_of(constant, 30))
    assert found["values"] is None
    assert found["reason"] == "no variation: every trial scored the same"


def test_importance_is_none_when_trials_are_few() -> None:
    found = importances(study_of(two_parameters, 19))
    assert found["values"] is None
    assert found["reason"] == "19 finished trials; it takes 20"


def test_importance_knows_parameters_that_one_trial_alone_has_read() -> None:
    def rare(trial: optuna.Trial) -> float:
        x = trial.suggest_float("x", 0.0, 1.0)
        if trial.number == 7:
            trial.suggest_float("rare", 0.0, 1.0)
        return x

    assert importances(study_of(rare, 30))["values"]["rare"] == 0.0


def test_gap_is_the_gain_on_train_less_that_on_test() -> None:
    # Folds of 30 and 10 queries: (.08 * 30 + .04 * 10) / 40 = .07; .07 - .02 = .05.
    assert overfit_gap([0.08, 0.04], [30, 10], 0.02) == pytest.approx(0.05)


def test_candidate_behind_by_less_than_its_error_is_chosen_when_simpler() -> None:
    best = np.array([1.0, 1.0, 0.0, 1.0])
    simple = np.array([1.0, 0.0, 0.0, 1.0])
    worst = np.array([0.0, 0.0, 0.0, 0.0])
    # Differences 0, 1, 0, 0: mean .25, deviation .5, standard error .5 / 2 = .25: not more behind.
    # Differences 1, 1, 0, 1: mean .75, deviation .5, standard error .25: more behind.
    assert gaps([best, simple, worst]) == [(0.0, 0.0), (0.25, 0.25), (0.75, 0.25)]
    candidates = [Candidate(0, {}, 3, 0.9), Candidate(1, {}, 2, 0.8), Candidate(2, {}, 1, 0.7)]
    chosen, values = choose(candidates, [best, simple, worst])
    assert chosen.number == 1
    assert values is simple


def test_default_is_chosen_when_a_simpler_candidate_gains_no_standard_error_on_it() -> None:
    default = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    best = np.array([0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 0.2])
    one = np.array([1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    # One query of 8: mean .125, standard error .125: no more than one above the default, and .075
    # behind the best, which is ahead on every query.
    first, simple, most = Candidate(0, {}, 0, 0.5), Candidate(1, {}, 1, 0.6), Candidate(2, {}, 9, 1)
    assert choose([first, simple], [default, one])[0] is first
    assert choose([first, simple, most], [default, one, best])[0] is most
    assert choose([first, most], [default[:1], best[:1]])[0] is first


def test_candidate_worse_than_the_default_on_train_is_not_considered() -> None:
    default = Candidate(0, {}, 0, 0.9042)
    worse, same = Candidate(4, {"a": 1}, 13, 0.8779), Candidate(5, {"a": 2}, 2, 0.9042)
    assert not_worse([worse, same, default], default) == [same]


def test_no_candidate_of_a_sweep_is_worse_than_the_default_on_train(tmp_path: Path) -> None:
    gold, retriever = small_world(tmp_path)
    settings = small_settings(tmp_path / "out", 12, sampler="random")
    record = run_sweep(gold, retriever, settings).record
    assert record["finished"] == 12
    assert min(one["train"] for one in record["candidates"]) >= record["train"]["default"] - 1e-12


def test_trial_with_parameters_put_back_is_named_and_has_its_own_figure(tmp_path: Path) -> None:
    gold, retriever = small_world(tmp_path)
    base = retriever.config.with_overrides({"route.recall_top_k": 1})
    train = Objective(retriever, gold, small_settings(tmp_path, 1).measures, None)
    # Longer lists gain .18, and lexical weights .04 more, which is within the error.
    overrides = {"route.recall_top_k": 49, "merge.weights.dense": 0.0, "merge.weights.bm25": 1.0}
    figure = float(train.score(base.with_overrides(overrides))["ndcg@10"].mean())
    least = Candidate(12, overrides, 2, figure)
    found = simplified(least, small_space(), base, train, "ndcg@10")
    assert found.name == "trial 12, simplified"
    own = float(train.score(base.with_overrides(found.overrides))["ndcg@10"].mean())
    assert found.train == pytest.approx(own, abs=1e-12)
    assert found.train < figure
    assert found.overrides == {"route.recall_top_k": 49}
    assert (least.name, Candidate(0, {}, 0, 0.5).name) == ("trial 12", "the default")


def judgement(words: str, smallest: float | None = 0.05) -> Judgement:
    figure = {"value": 0.5, "low": 0.4, "high": 0.6}
    return Judgement(46, figure, figure, 0.0, 0.0, 0.0, 1.0, smallest, "not distinguishable", words)


def test_words_say_what_was_judged() -> None:
    plain = judgement("not distinguishable from the default on 46 queries")
    assert in_words(plain, varied=True, changed=2, folds=0) == plain.words
    assert in_words(plain, varied=True, changed=2, folds=5) == (
        f"what is chosen in this way, judged fold by fold, is {plain.words}"
    )
    assert in_words(plain, varied=False, changed=0, folds=0) == (
        "no variation: every trial scored the same; the default is kept"
    )
    kept = in_words(plain, varied=True, changed=0, folds=0)
    assert kept.startswith("the default is kept")
    assert kept.endswith("on 46 queries a true difference of 0.050 would be likely to show")
    assert "likely" not in in_words(judgement("x", None), varied=True, changed=0, folds=0)


def test_words_promise_nothing_when_no_query_differs() -> None:
    found = judge(np.full(8, 0.5), np.full(8, 0.5), 0.2)
    assert found.verdict == "not distinguishable"
    assert found.words == "no different from the default on any of 8 queries"
    # 2.8016 * .2 / sqrt(8) = .1981: the page still says what so many would show.
    assert found.smallest == pytest.approx(0.1981, abs=5e-5)


def test_undivided_part_keeps_every_query_once(tmp_path: Path) -> None:
    gold, _ = small_world(tmp_path)
    part = undivided(gold, list(gold.queries), seed=0)
    assert sorted((*part.train, *part.validation)) == sorted(gold.queries)
    assert min(len(part.train), len(part.validation)) > 0
    assert part.test == ()


def test_differences_name_what_two_configurations_do_not_share() -> None:
    base = RetrieverConfig()
    other = base.with_overrides({"merge.method": "rrf", "merge.rrf_k": 20})
    assert differences(base, other) == {
        "merge.method": {"default": base.merge.method, "chosen": "rrf"},
        "merge.rrf_k": {"default": base.merge.rrf_k, "chosen": 20},
    }
    assert differences(base, base) == {}


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:secret@host/db", "postgresql://me:***@host/db"),
        (
            "postgresql://host/db?user=me&password=secret",
            "postgresql://host/db?user=me&password=***",
        ),
        ("journal:/a/study.journal", "journal:/a/study.journal"),
    ],
)
def test_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert shown_url(url) == shown


def test_failed_trials_are_grouped_by_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from experiments.sweep.trials import Worker

    evaluate = Worker._evaluate

    def flaky(self: Worker, trial: Any, stored: Any) -> list[float]:
        values = evaluate(self, trial, stored)
        if trial.number in (2, 5):
            raise RuntimeError("out of luck")
        return values

    monkeypatch.setattr(Worker, "_evaluate", flaky)
    gold, retriever = small_world(tmp_path)
    record = run_sweep(gold, retriever, small_settings(tmp_path / "out", 8)).record
    (failure,) = record["failures"]
    assert failure["reason"] == "RuntimeError: out of luck"
    assert failure["trials"] == [2, 5]
    assert failure["parameters"]["merge.method"] in ("minmax", "rrf")
    assert (record["finished"], record["failed"]) == (8, 2)
    assert [one["chosen"] for one in record["candidates"]].count(True) == 1
    assert set(record["space"]["parameters"]) == set(record["parameters_swept"])
