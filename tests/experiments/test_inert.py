"""Inert parameters are found and named; live ones stay, under the conditions they need."""

from pathlib import Path

import numpy as np
import pytest
from sweep_worlds import small_settings, small_space, small_world

from experiments.space import load_space
from experiments.sweep.inert import Screening, screen
from experiments.sweep.objective import Objective
from experiments.sweep.plan import StudyPlan
from experiments.sweep.procedure import run_sweep
from experiments.sweep.profiles import composed, means_by_row, rows_of
from gold import GoldSet
from retriever import Retriever

World = tuple[GoldSet, Retriever]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return small_world(tmp_path_factory.mktemp("world"))


def screened(world: World, parameters: str) -> Screening:
    gold, retriever = world
    objective = Objective(retriever, gold, small_settings(Path(), 1).measures)
    return screen(small_space(f"parameters:\n{parameters}"), retriever.config, objective)


def test_parameter_that_moves_nothing_is_inert_with_the_reason(world: World) -> None:
    # One collection: a chunk is one node, and trim only says how much of a ranking is shown.
    found = screened(
        world,
        "  merge.rrf_key: {choices: [source_chunk_id, node_id]}\n"
        "  trim.final_top_k: {low: 1, high: 50}\n"
        "  merge.weights.dense: {low: 0.0, high: 1.0, complement: merge.weights.bm25}\n",
    )
    assert [one.path for one in found.inert] == ["merge.rrf_key", "trim.final_top_k"]
    assert "no ranking changes" in found.inert[0].reason
    assert [p.path for p in found.space.parameters] == ["merge.weights.dense"]
    assert found.deviation is not None
    assert found.deviation > 0


def test_parameter_is_made_conditional_on_the_switch_it_needs(world: World) -> None:
    found = screened(
        world,
        "  merge.method: {choices: [minmax, rrf]}\n  merge.rrf_k: {low: 1.0, high: 100.0}\n",
    )
    assert found.conditional == ("merge.rrf_k",)
    assert found.space["merge.rrf_k"].when == ({"merge.method": ("rrf",)},)
    assert found.inert == ()


def test_parameter_that_always_moves_stays_without_conditions(world: World) -> None:
    found = screened(world, "  route.recall_top_k: {low: 2, high: 50}\n")
    assert found.space["route.recall_top_k"].when == ()
    assert found.conditional == ()


def test_row_of_weights_without_queries_is_named(world: World) -> None:
    gold, retriever = world
    objective = Objective(retriever, gold, small_settings(Path(), 1).measures)
    space = load_space("default")
    rows = [p for p in space.parameters if space.workflow_of(p) == "chemical"]
    kept = space.without([p.path for p in space.parameters if p not in rows])
    found = screen(kept, retriever.config, objective)
    assert {one.reason for one in found.inert} == {
        "no query of this gold set takes the weights of chemical"
    }


def test_query_takes_the_row_of_its_workflow_or_the_default_one() -> None:
    space = load_space("default")
    assert rows_of(space, ["chemical", "general"]) == ("chemical", "default")
    means = means_by_row(np.array([0.2, 0.4, 1.0]), ("a", "a", "b"))
    assert means == pytest.approx({"a": 0.3, "b": 1.0})


def test_best_rows_together_are_no_worse_than_any_trial_that_moved_them(tmp_path: Path) -> None:
    import optuna
    from sweep_worlds import biomed_world

    from experiments.sweep.storage import open_storage

    gold, retriever = biomed_world(tmp_path)
    rows = "plugins.biomed.rerank_merged.profiles"
    space = small_space(
        f"per_workflow: {rows}\nparameters:\n  fuse.alpha: {{low: 0.0, high: 1.0}}\n"
        "  merge.weights.dense: {low: 0.0, high: 1.0, complement: merge.weights.bm25}\n"
        f"  {rows}.{{default,drug_entity}}.w_rank: {{low: 0.0, high: 10.0}}\n"
        f"  {rows}.{{default,drug_entity}}.w_entity: {{low: 0.0, high: 10.0}}\n"
        f"  {rows}.{{default,drug_entity}}.w_section: {{low: 0.0, high: 10.0}}\n"
    )
    settings = small_settings(tmp_path / "out", 24, space=space, profiles=True)
    done = run_sweep(gold, retriever, settings)
    assert done.record["finished"] == 24
    study = optuna.load_study(study_name="small", storage=open_storage(settings.storage))
    plan = StudyPlan.of(study)
    assert plan.shared_trials == 12
    _, overrides = composed(study, plan)
    train = Objective(retriever, gold, settings.measures, plan.query_ids)
    figure = train.score(retriever.config.with_overrides(overrides))["ndcg@10"].mean()
    moved = [t.values[0] for t in study.trials[12:] if t.values]
    assert figure >= max(moved) - 1e-12
    shared = {t.params["merge.weights.dense"] for t in study.trials[12:] if t.values}
    assert len(shared) == 1
