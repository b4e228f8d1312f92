"""What of a sweep goes to MLflow: one parent run, and child runs for the best few trials.

A run a trial would cost as much as the trial. All trials are one table among the parent's
artifacts, and their figures step metrics, sent in batches.
"""

import shlex
import shutil
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

from experiments.run import git_commit
from experiments.sweep import Sweep
from experiments.tracking import (
    DatasetRecord,
    default_tracking_uri,
    log_run,
    open_client,
    quiet_mlflow,
)
from gold import GoldSet
from retriever import Retriever

__all__ = ["save_model", "track_sweep"]

CHILDREN = 3
METRICS_A_BATCH = 1000
FILES = ("sweep.json", "best.yaml", "trials.parquet")


def track_sweep(
    sweep: Sweep, gold: GoldSet, retriever: Retriever, experiment: str, store: Path
) -> dict[str, Any]:
    """Log a sweep; return run_id, experiment_id, uri and `open`, the command that shows it."""
    record, uri = sweep.record, default_tracking_uri(store)
    measure = record["objective"][0]
    metrics = {
        f"{part}_{which}_{measure}": record[part][which]
        for part in ("train", "validation", "test")
        for which in ("default", "chosen")
    }
    metrics |= {f"test_difference_{measure}": record["test"]["difference"]}
    metrics |= {"p_value": record["test"]["p_value"], "trials": float(record["finished"])}
    dataset = DatasetRecord(f"{gold.name}/{gold.split}", gold.digest, str(gold.path))
    common: dict[str, Any] = {
        "uri": uri,
        "experiment": experiment,
        "dataset": dataset,
        "artifact_root": store / "artifacts",
    }
    tags = {
        "assay.kind": "sweep",
        "assay.gold": gold.name,
        "assay.gold_digest": gold.digest,
        "assay.index": record["index"],
        "assay.config": sweep.config.fingerprint,
        "assay.git_commit": git_commit() or "",
        "assay.verdict": record["verdict"],
    }
    with tempfile.TemporaryDirectory() as scratch:
        for name in FILES:
            shutil.copy2(sweep.path / name, scratch)
        save_model(sweep.path / "best.yaml", retriever.index.path, Path(scratch) / "model")
        parameters = {"best": sweep.config.model_dump(mode="json"), "study": record["study"]}
        parent = log_run(
            name=sweep.path.name,
            parameters=parameters,
            metrics=metrics,
            artifacts=Path(scratch),
            tags=tags,
            **common,
        )
    _log_steps(uri, parent.run_id, sweep, measure)
    for number, overrides, values in sweep.best_trials[:CHILDREN]:
        with tempfile.TemporaryDirectory() as scratch:
            config = retriever.config.with_overrides(overrides)
            (Path(scratch) / "config.yaml").write_text(config.to_yaml(), "utf-8")
            log_run(
                name=f"trial {number}",
                parameters=dict(overrides),
                metrics={f"train_{measure}": values[0]},
                artifacts=Path(scratch),
                tags={"mlflow.parentRunId": parent.run_id, "assay.kind": "trial"},
                **common,
            )
    return {
        "run_id": parent.run_id,
        "experiment_id": parent.experiment_id,
        "uri": parent.uri,
        "open": f"mlflow ui --backend-store-uri {shlex.quote(parent.uri)}",
    }


def save_model(config: Path, index: Path, target: Path) -> None:
    """Save a configuration as an MLflow model, from code: `mlflow.pyfunc.load_model(target)`."""
    quiet_mlflow()
    with warnings.catch_warnings():
        # What MLflow says of its own type hints and of the environment is no concern of the user's.
        warnings.simplefilter("ignore")
        import mlflow.pyfunc

        mlflow.pyfunc.save_model(
            str(target),
            python_model=str(Path(__file__).with_name("served_model.py")),
            artifacts={"config": str(config)},
            model_config={"index": str(index)},
            pip_requirements=["retrieval-assay"],
        )


def _log_steps(uri: str, run_id: str, sweep: Sweep, measure: str) -> None:
    """Send each trial's figure and the best so far, with the trial's number as the step."""
    from mlflow.entities import Metric

    client, now, best = open_client(uri), int(time.time() * 1000), float("-inf")
    name, found = measure.replace("@", "_at_"), []
    for number, value in sweep.figures:
        best = max(best, value)
        found += [
            Metric(f"trial_{name}", value, now, number),
            Metric(f"best_{name}", best, now, number),
        ]
    for start in range(0, len(found), METRICS_A_BATCH):
        client.log_batch(run_id, metrics=found[start : start + METRICS_A_BATCH])
