"""Every sampler over spaces with choices and conditions, fronts, and constraints."""

from collections import defaultdict
from pathlib import Path
from typing import Any

import optuna
import pytest
from optuna.trial import TrialState
from sweep_worlds import biomed_world, small_settings, small_space, small_world

from experiments.metrics import parse_measure
from experiments.space import Space, load_space
from experiments.sweep import samplers as samplers_module
from experiments.sweep import study_runner
from experiments.sweep.inert import Screening
from experiments.sweep.objective import Objective
from experiments.sweep.procedure import run_sweep
from experiments.sweep.samplers import Sampling, drawn_at_random, grid_of, grid_points
from experiments.sweep.storage import open_storage
from gold import GoldSet
from retriever import InputError, Retriever, RetrieverConfig

World = tuple[GoldSet, Retriever]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return small_world(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def biomed(tmp_path_factory: pytest.TempPathFactory) -> World:
    return biomed_world(tmp_path_factory.mktemp("biomed"))


@pytest.fixture(scope="module")
def screenings() -> dict[str, Screening]:
    return {}


@pytest.fixture
def screened_once(
    biomed: World, screenings: dict[str, Screening], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Screen a space over the biomedical world once: which sampler follows has no part in it."""
    real = study_runner.screen

    def screen(space: Space, base: RetrieverConfig, objective: Objective) -> Screening:
        assert objective.retriever is biomed[1]
        if space.digest not in screenings:
            screenings[space.digest] = real(space, base, objective)
        return screenings[space.digest]

    monkeypatch.setattr(study_runner, "screen", screen)


def trials_of(folder: Path) -> list[optuna.trial.FrozenTrial]:
    url = small_settings(folder, 1).storage
    study = optuna.load_study(study_name="small", storage=open_storage(url))
    return study.get_trials(states=(TrialState.COMPLETE,))


@pytest.mark.usefixtures("screened_once")
@pytest.mark.parametrize("sampler", ["tpe", "cmaes", "gp", "nsga2", "random", "qmc"])
def test_sampler_ends_a_sweep_over_the_space_that_ships(
    biomed: World, tmp_path: Path, sampler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: dict[int, set[str]] = defaultdict(set)
    at = Sampling.at

    def watched(self: Sampling, settled: int, worker: int = 0) -> Any:
        found = at(self, settled, worker)
        real = type(found).sample_independent

        def noted(study: Any, trial: Any, name: str, distribution: Any) -> Any:
            drawn[settled].add(name)
            return real(found, study, trial, name, distribution)

        found.sample_independent = noted  # type: ignore[method-assign]
        return found

    monkeypatch.setattr(Sampling, "at", watched)
    said: list[str] = []
    settings = small_settings(
        tmp_path, 16, space=load_space("default"), sampler=sampler, max_drop=0.5
    )
    done = run_sweep(*biomed, settings, say=said.append)
    record = done.record
    assert (record["finished"], record["failed"]) == (16, 0)
    trials = trials_of(tmp_path)
    # Conditional parameters are read by some trials and not by others, and choices vary.
    read = [set(t.params) for t in trials]
    assert len({len(one) for one in read}) > 1
    assert len({t.params["merge.method"] for t in trials}) == 2
    # What the model leaves out, as said before the first trial, is what is drawn for later ones;
    # of NSGA-II the first fifty are drawn whole.
    left_out = record["drawn_at_random"]
    late = set().union(*(drawn[settled] for settled in range(12, 16)))
    if sampler in ("tpe", "random"):
        assert left_out == {}
        return
    assert any(line.startswith(f"{sampler} draws {len(left_out)} of ") for line in said)
    if sampler != "nsga2":
        assert late
        assert late <= left_out.keys()


def test_parameters_left_to_chance_are_named_by_reason() -> None:
    space = small_space()
    read = {"merge.method", "merge.weights.dense", "route.recall_top_k"}
    conditional = {"merge.rrf_k": "conditional"}
    assert drawn_at_random("cmaes", space, read) == {"merge.method": "choice", **conditional}
    assert drawn_at_random("qmc", space, read) == conditional
    assert drawn_at_random("qmc", space, {*read, "merge.rrf_k"}) == {}
    assert drawn_at_random("gp", space, read) == conditional
    assert drawn_at_random("nsga2", space, read) == conditional
    assert drawn_at_random("tpe", space, read) == {}


GRID = """
parameters:
  merge.method: {choices: [minmax, rrf]}
  merge.rrf_k: {low: 1.0, high: 81.0, log: true, when: {merge.method: rrf}}
"""


def test_grid_visits_every_point_once_and_ends(world: World, tmp_path: Path) -> None:
    space = small_space(GRID)
    assert grid_of(space) == {
        "merge.method": ["minmax", "rrf"],
        "merge.rrf_k": pytest.approx([1.0, 3.0, 9.0, 27.0, 81.0]),  # 81 = 3^4
    }
    assert grid_points(space) == 10
    said: list[str] = []
    settings = small_settings(tmp_path, 50, space=space, sampler="grid")
    done = run_sweep(*world, settings, say=said.append)
    assert "the grid has 10 points: 10 trials, not 50" in said
    assert done.record["finished"] == 10
    again = run_sweep(*world, settings)
    assert again.record["finished"] == 10
    tried = {round(t.params["merge.rrf_k"]) for t in trials_of(tmp_path) if len(t.params) == 2}
    assert tried <= {1, 3, 9, 27, 81}
    assert len(tried) >= 4  # the default takes the place of one point


@pytest.mark.usefixtures("screened_once")
def test_grid_beyond_reach_is_refused_at_once(
    biomed: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = small_settings(tmp_path, 5, space=load_space("default"), sampler="grid")
    with pytest.raises(InputError, match=r"a grid over \d+ parameters has .* points"):
        run_sweep(*biomed, settings)
    monkeypatch.setattr(samplers_module, "MOST_GRID_POINTS", 9)
    with pytest.raises(InputError, match="more than 9"):
        grid_points(small_space(GRID))


def test_front_of_two_objectives_is_printed_and_no_point_beats_another(
    world: World, tmp_path: Path
) -> None:
    measures = (parse_measure("mrr@10"), parse_measure("recall@3"))
    done = run_sweep(
        *world, small_settings(tmp_path, 20, measures=measures, sampler="nsga2", max_drop=0.3)
    )
    front = [one["values"] for one in done.record["pareto"]]
    assert front
    for one in front:
        assert not any(
            all(a >= b for a, b in zip(other, one, strict=True)) and other != one for other in front
        )
    assert len(set(map(tuple, front))) == len(front)
    everything = [t.values for t in trials_of(tmp_path)]
    assert max(v[0] for v in everything) == max(v[0] for v in front)


def test_front_is_printed_by_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    from experiments.commands.sweep_terminal import _show_front

    front = [{"trial": i, "values": [i / 100, 1 - i / 100]} for i in range(12)]
    best = {"trial": 11, "is_trial": True, "name": "trial 11"}
    record = {"objective": ["ndcg@10", "hit@5"], "pareto": front, "best": best}
    _show_front(record)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == (
        "front on train: 12 trials (ndcg@10, hit@5); the chosen, trial 11, is one of them"
    )
    assert lines[1] == "  trial   11  0.1100  0.8900  chosen"
    assert (len(lines), lines[-1]) == (12, "  and 2 more in sweep.json and on the page")
    _show_front(record | {"best": best | {"is_trial": False, "name": "trial 11, simplified"}})
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("the chosen, trial 11, simplified, is not one of them")
    assert not lines[1].endswith("chosen")


@pytest.mark.parametrize("sampler", ["tpe", "nsga2"])
def test_chosen_keeps_every_type_within_the_drop(
    biomed: World, tmp_path: Path, sampler: str
) -> None:
    gold, retriever = biomed
    # Two types of query; the sweep is told to let none lose more than 0.02.
    done = run_sweep(gold, retriever, small_settings(tmp_path, 20, max_drop=0.02, sampler=sampler))
    from experiments.sweep.objective import Objective
    from experiments.sweep.plan import StudyPlan

    url = small_settings(tmp_path, 1).storage
    study = optuna.load_study(study_name="small", storage=open_storage(url))
    train = Objective(retriever, gold, done_measures(), StudyPlan.of(study).query_ids)
    before, after = (train.score(c)["ndcg@10"] for c in (retriever.config, done.config))
    for kind in set(train.types):
        of_kind = [i for i, one in enumerate(train.types) if one == kind]
        assert before[of_kind].mean() - after[of_kind].mean() <= 0.02 + 1e-12
    kept = [t for t in trials_of(tmp_path) if t.system_attrs]
    broken = [t for t in kept if t.system_attrs.get("constraints:worst query type", 0) > 0]
    assert done.record["outside_constraints"] == len(broken)
    assert not {t.number for t in broken} & {c["trial"] for c in done.record["candidates"]}


def done_measures() -> tuple[Any, ...]:
    return (parse_measure("ndcg@10"),)
