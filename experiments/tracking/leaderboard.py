"""The runs of an MLflow experiment, by gold set, best first."""

import math
from collections import Counter
from datetime import UTC, datetime
from typing import Any

from experiments.metrics import mlflow_name, parse_measure
from experiments.tracking.registered import MODEL
from experiments.tracking.store import default_tracking_uri, deleted_experiment, open_client
from retriever.files import InputError
from retriever.store import store_folder

__all__ = ["boards"]

_AT_ONCE = 1000
# What has figures of its own kind.
_KINDS = {"sweep": "sweeps", "trial": "trials of sweeps", "linking": "entity linking"}


def boards(experiment: str, metric: str, most: int) -> dict[str, Any]:
    """Return a board a gold set (by digest): its runs by falling value, then by run id.

    Equal values share a rank. Runs without the metric or with a value that is no number,
    unfinished ones and those of other tools are counted in `left_out`, sweeps and their trials
    apart. Raises InputError without such an experiment.
    """
    measure = parse_measure(metric)
    uri = default_tracking_uri(store_folder())
    client = open_client(uri)
    known = client.get_experiment_by_name(experiment)
    if known is None:
        raise InputError(f"no MLflow experiment {experiment!r}", fix="evaluate first, or name it")
    if known.lifecycle_stage == "deleted":
        raise deleted_experiment(experiment, known.experiment_id)
    aliases = _aliases(client)
    rows: dict[str, list[dict[str, Any]]] = {}
    names: dict[str, str] = {}
    left_out: Counter[str] = Counter()
    token: str | None = None
    while True:
        page = client.search_runs([known.experiment_id], max_results=_AT_ONCE, page_token=token)
        for run in page:
            digest = run.data.tags.get("assay.gold_digest")
            value = run.data.metrics.get(mlflow_name(measure))
            if digest is None or run.info.status != "FINISHED":
                left_out["no finished evaluation"] += 1
            elif value is None:
                kind = _KINDS.get(run.data.tags.get("assay.kind", ""))
                left_out[f"{kind + ', ' if kind else ''}without {measure}"] += 1
            elif not math.isfinite(value):
                left_out[f"{measure} is no number"] += 1
            else:
                # MLflow lists the newest first: a set that was renamed has its last name.
                names.setdefault(digest, run.data.tags.get("assay.gold", ""))
                rows.setdefault(digest, []).append(_row(run, value, aliases))
        token = page.token
        if not token:
            break
    return {
        "experiment": experiment,
        "metric": str(measure),
        "boards": [
            {
                "gold": names[digest],
                "digest": digest,
                "runs": len(of_set),
                "rows": _ranked(of_set)[:most],
            }
            for digest, of_set in sorted(rows.items(), key=lambda item: (names[item[0]], item[0]))
        ],
        "left_out": dict(left_out),
    }


def _row(run: Any, value: float, aliases: dict[str, list[str]]) -> dict[str, Any]:
    tags = run.data.tags
    return {
        "run_id": run.info.run_id,
        "name": run.info.run_name or "",
        "value": float(value),
        "kind": tags.get("assay.kind", ""),
        "config": tags.get("assay.config", ""),
        "index": tags.get("assay.index", ""),
        "git_commit": tags.get("assay.git_commit", ""),
        "created": _created(run.info.start_time),
        "aliases": aliases.get(run.info.run_id, []),
    }


def _created(milliseconds: int | None) -> str:
    """Return when a run began; empty where MLflow's record holds no time that there is."""
    try:
        began = datetime.fromtimestamp((milliseconds or 0) / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return ""
    return began.isoformat(timespec="seconds") if milliseconds else ""


def _ranked(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    ordered = sorted(rows, key=lambda row: (-row["value"], row["run_id"]))
    ranked: list[dict[str, Any]] = []
    for place, row in enumerate(ordered, start=1):
        same = ranked and ranked[-1]["value"] == row["value"]
        ranked.append({"rank": ranked[-1]["rank"] if same else place, **row})
    return ranked


def _aliases(client: Any) -> dict[str, list[str]]:
    """Return the aliases of the model by the run they point to."""
    from mlflow.exceptions import MlflowException

    try:
        model = client.get_registered_model(MODEL)
    except MlflowException:
        return {}
    found: dict[str, list[str]] = {}
    for alias, version in sorted(model.aliases.items()):
        run_id = client.get_model_version(MODEL, version).run_id
        found.setdefault(str(run_id), []).append(alias)
    return found
