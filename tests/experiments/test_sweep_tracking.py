"""A sweep in MLflow, and the commands around it."""

import json
import warnings
from pathlib import Path

import pytest
from sweep_worlds import small_settings, small_world
from worlds import write_gold

from experiments.sweep import run_sweep
from experiments.tracked_sweep import track_sweep
from experiments.tracking import open_client


def test_sweep_is_one_parent_with_its_steps_and_few_children(tmp_path: Path, store: Path) -> None:
    gold, retriever = small_world(tmp_path)
    done = run_sweep(gold, retriever, small_settings(tmp_path / "sweep", 8))
    tracked = track_sweep(done, gold, retriever, "assay", store)
    client = open_client(tracked["uri"])
    runs = client.search_runs([tracked["experiment_id"]])
    parents = [run for run in runs if "mlflow.parentRunId" not in run.data.tags]
    assert [run.info.run_id for run in parents] == [tracked["run_id"]]
    assert len(runs) == 4
    history = client.get_metric_history(tracked["run_id"], "best_ndcg_at_10")
    values = [metric.value for metric in sorted(history, key=lambda metric: metric.step)]
    assert len(values) == 8
    assert values == sorted(values)
    names = {file.path for file in client.list_artifacts(tracked["run_id"])}
    assert names >= {"sweep.json", "best.yaml", "trials.parquet", "model"}


def test_best_configuration_loads_as_a_model_and_searches(assay, tmp_path: Path) -> None:
    from experiments.tracked_sweep import save_model

    texts = {"d1": "gefitinib dose", "d2": "aspirin"}
    write_gold(tmp_path / "gold", texts, {"q": "x"}, {"q": {"d1": 1}})
    assert assay("index", tmp_path / "gold", "-o", tmp_path / "index").code == 0
    (tmp_path / "best.yaml").write_text("merge: {method: rrf}\n")
    save_model(tmp_path / "best.yaml", tmp_path / "index", tmp_path / "model")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # MLflow's own
        import mlflow.pyfunc

        model = mlflow.pyfunc.load_model(str(tmp_path / "model"))
    (hits,) = model.predict(["gefitinib"])
    assert hits[0]["document_id"] == "d1"
    assert not list((tmp_path / "model").rglob("*.pkl"))


def test_command_sweeps_resumes_and_says_so(assay, tmp_path: Path) -> None:
    texts = {f"d{i}": f"topic{i} word{i % 3} common text" for i in range(12)}
    queries = {f"q{i}": f"topic{i} word{(i + 1) % 3}" for i in range(12)}
    write_gold(tmp_path / "gold", texts, queries, {f"q{i}": {f"d{i}": 1} for i in range(12)})
    space = tmp_path / "space.yaml"
    space.write_text(
        "name: s\nparameters:\n  merge.method: {choices: [minmax, rrf]}\n"
        "  merge.weights.dense: {low: 0.0, high: 1.0, complement: merge.weights.bm25}\n"
    )
    command = ["sweep", tmp_path / "gold", "--space", space, "--cv", "0", "-o", tmp_path / "out"]
    command += ["--set", "namespace=general", "--no-track", "--json"]
    first = assay(*command, "--trials", "4")
    assert first.code == 0, first.err
    record = json.loads(first.out)
    assert record["finished"] == 4
    assert first.err == ""
    again = assay(*command, "--trials", "6", "--workers", "2", "--verify-memo", "2")
    assert again.code == 0, again.err
    record = json.loads(again.out)
    assert (record["finished"], record["verified_memo"]["trials"]) == (6, 2)
    other = assay(*command, "--trials", "8", "--seed", "3")
    assert other.code == 2
    assert "seed: 0, now 3" in other.err
    assert len(other.err.splitlines()) == 1
    late = assay(*command, "--trials", "9", "--study", "new", "--timeout", "0")
    assert late.code == 1
    assert (tmp_path / "out" / "best.yaml").is_file()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sampler", "best"], "no sampler 'best'"),
        (["--storage", "redis://x"], "is no storage"),
        (["--space", "nowhere.yaml"], "nowhere.yaml: cannot be read"),
        (["--objective", "judged@5"], "judged@5"),
    ],
)
def test_bad_input_is_one_line(assay, tmp_path: Path, arguments: list[str], message: str) -> None:
    write_gold(tmp_path / "gold", {"d": "a b"}, {"q": "a"}, {"q": {"d": 1}})
    done = assay("sweep", tmp_path / "gold", "-o", tmp_path / "out", "--no-track", *arguments)
    assert done.code == 2
    assert message in done.err.splitlines()[-1]


def test_cache_is_counted_and_pruned(assay, tmp_path: Path) -> None:
    write_gold(tmp_path / "gold", {"d": "a b"}, {"q": "a"}, {"q": {"d": 1}})
    assert assay("index", tmp_path / "gold", "-o", tmp_path / "index").code == 0
    found = json.loads(assay("cache", "stats", "--json").out)
    assert found["bytes"] > 0
    assert sum(model["entries"] for model in found["models"]) >= 1
    removed = json.loads(assay("cache", "prune", "--to", "0", "--json").out)["removed"]
    assert len(removed) == len(found["models"])
    assert json.loads(assay("cache", "stats", "--json").out)["bytes"] == 0
