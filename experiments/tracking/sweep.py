"""What of a sweep goes to MLflow: one run for the sweep, one below it for each of the best few.

A run a trial would cost as much as the trial. So the trials are a table among the artifacts and
one metric with a step a trial, written in batches, and only the best trials have runs of their own.

A run carries the digest of what its sweep found. The same command given again, with nothing left to
do, finds the same: its run is taken again, and no second one is logged.
"""

import hashlib
import json
import shlex
import shutil
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from experiments.tracking.mlflow_run import ChildRun, DatasetRecord, TrackedRun, log_run
from experiments.tracking.promotion import FOLDER, save_model
from experiments.tracking.registered import TaggedRun, tagged_run
from experiments.tracking.store import default_tracking_uri, load_line, shown_uri
from reports.columns import read_table
from retriever import Index
from retriever.config import load_config

__all__ = ["sweep_digest", "track_sweep"]

# The tag by which the run of a sweep is found again; its value is `sweep_digest`.
SWEEP_TAG = "assay.sweep"
CHILDREN = 5
# The study itself stays where it is: it may be a database, and it grows.
FILES = ("sweep.json", "trials.parquet", "best.yaml", "sweep.html")
# Of sweep.json what another look at the same trials may change: times, places, the memo.
OF_THE_LOOK = ("created", "seconds", "seconds_per_trial", "memo", "storage", "workers")


def track_sweep(
    folder: Path,
    record: Mapping[str, Any],
    index: Index,
    experiment: str,
    store: Path,
    base: Mapping[str, Any],
) -> dict[str, Any]:
    """Log a finished sweep: figures, its files, the chosen configuration as a model, five children.

    `folder` holds what a sweep writes, `record` is its sweep.json, `base` the configuration it
    began from. Where the experiment has a run of the same trials and the same outcome, that one is
    taken and nothing is logged. Returns run_id, experiment_id, uri, `reused`, `open` (the command
    that shows it), `load` (the shell line that loads the model and searches), `skipped` and
    `seconds`. Raises InputError where MLflow refuses.
    """
    begin = time.perf_counter()
    store.mkdir(parents=True, exist_ok=True)
    uri, digest = default_tracking_uri(store), sweep_digest(folder, record)
    earlier = tagged_run(SWEEP_TAG, digest, experiment)
    run: TaggedRun | TrackedRun
    if earlier is None:
        run = _logged(folder, record, index, experiment, store, base, digest)
        skipped = run.skipped
    else:
        run, skipped = earlier, {}
    return {
        "run_id": run.run_id,
        "experiment_id": run.experiment_id,
        "uri": shown_uri(uri),
        "reused": earlier is not None,
        "skipped": {reason: list(names) for reason, names in skipped.items()},
        "open": f"mlflow ui --backend-store-uri {shlex.quote(shown_uri(uri))}",
        "load": load_line(uri, f"runs:/{run.run_id}/{FOLDER}", store),
        "seconds": round(time.perf_counter() - begin, 3),
    }


def sweep_digest(folder: Path, record: Mapping[str, Any]) -> str:
    """Return what tells a sweep's outcome from any other: SHA-256 of its trials and conclusions.

    Trials are told apart by how long each took, so that two studies never share a digest.
    """
    said = {name: value for name, value in record.items() if name not in OF_THE_LOOK}
    for name, place in (("best", "config"), ("gold", "path")):
        said[name] = {key: value for key, value in said[name].items() if key != place}
    digest = hashlib.sha256((folder / "trials.parquet").read_bytes())
    digest.update(json.dumps(said, sort_keys=True).encode())
    return digest.hexdigest()


def _logged(
    folder: Path,
    record: Mapping[str, Any],
    index: Index,
    experiment: str,
    store: Path,
    base: Mapping[str, Any],
    digest: str,
) -> TrackedRun:
    gold = record["gold"]
    config = load_config(folder / "best.yaml")
    with tempfile.TemporaryDirectory(dir=store) as scratch:
        files = Path(scratch)
        for name in FILES:
            if (folder / name).is_file():
                shutil.copyfile(folder / name, files / name)
        save_model(
            files / FOLDER,
            config=folder / "best.yaml",
            index=index.path,
            fingerprint=record["index"],
        )
        return log_run(
            uri=default_tracking_uri(store),
            experiment=experiment,
            name=record["study"],
            parameters=_parameters(record) | {"base": base},
            metrics=_metrics(record),
            dataset=DatasetRecord(f"{gold['name']}/{gold['split']}", gold["digest"], gold["path"]),
            artifacts=files,
            tags=_tags(record)
            | {"assay.kind": "sweep", "assay.config": config.fingerprint, SWEEP_TAG: digest},
            artifact_root=store / "artifacts",
            steps=_steps(folder / "trials.parquet", record["objective"]),
            children=_children(record),
        )


def _parameters(record: Mapping[str, Any]) -> dict[str, Any]:
    kept = ("sampler", "seed", "trials", "workers", "folds", "objective", "max_drop")
    space = record["space"]
    return {
        **{name: record[name] for name in kept},
        "space": space["name"],
        "space_digest": space["digest"],
        "best": record["best"]["parameters"],
    }


def _metrics(record: Mapping[str, Any]) -> dict[str, float | None]:
    """Return figures of both configurations by part, and what the test says of them."""
    name, test = record["objective"][0], record["test"]
    found: dict[str, float | None] = {}
    for part in ("train", "validation", "test"):
        found[f"{part}_{name}"] = record[part]["chosen"]
        found[f"{part}_default_{name}"] = record[part]["default"]
    found |= {key: test[key] for key in ("difference", "p_value", "smallest_detectable")}
    found |= {"difference_low": test["low"], "difference_high": test["high"]}
    kept = ["overfit_gap", "finished", "unique", "failed"]
    if record["seconds_per_trial"] is not None:  # of a command that found all trials done
        kept.append("seconds_per_trial")
    return found | {key: record[key] for key in kept}


def _tags(record: Mapping[str, Any]) -> dict[str, str]:
    gold = record["gold"]
    return {
        "assay.gold": gold["name"],
        "assay.gold_digest": gold["digest"],
        "assay.index": record["index"],
    }


def _steps(table: Path, objectives: Sequence[str]) -> dict[str, list[tuple[int, float]]]:
    """Return the objectives of every finished trial by its number."""
    with table.open("rb") as stream:
        trials = read_table(stream, columns=["trial", *(f"objective:{n}" for n in objectives)])
    numbers = trials.column("trial").to_pylist()
    return {
        f"trial_{name}": list(
            zip(numbers, trials.column(f"objective:{name}").to_pylist(), strict=True)
        )
        for name in objectives
    }


def _children(record: Mapping[str, Any]) -> list[ChildRun]:
    """Return a run for each of the best on train, of those that validation has looked at."""
    name = record["objective"][0]
    best = sorted(record["candidates"], key=lambda one: (-one["train"], one["changed"]))
    return [
        ChildRun(
            name=f"trial {one['trial']}{' simplified' if one['simplified'] else ''}",
            parameters=one["parameters"],
            metrics={f"train_{name}": one["train"], f"validation_{name}": one["validation"]},
            tags=_tags(record)
            | {"assay.kind": "trial", "assay.chosen": str(one["chosen"]).lower()},
        )
        for one in best[:CHILDREN]
    ]
