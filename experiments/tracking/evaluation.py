"""What of an evaluation goes to MLflow."""

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from experiments.evaluate import Evaluation
from experiments.tracking.mlflow_run import DatasetRecord, add_to_run, log_run
from experiments.tracking.registered import RUN_TAG, has_store, run_digest, run_with_tag
from experiments.tracking.store import check_tracking, default_tracking_uri
from gold import GoldSet, LinkingSet
from retriever import RetrieverConfig

__all__ = ["track", "track_again"]

Pages = Callable[[], Mapping[str, str]]


def track(
    evaluation: Evaluation,
    gold: GoldSet | LinkingSet,
    config: RetrieverConfig,
    experiment: str,
    store: Path,
    pages: Mapping[str, str],
) -> dict[str, Any]:
    """Log a run: parameters, figures, the gold set by digest, the run directory and `pages`.

    Returns run_id, experiment_id, uri, `open` (the command that shows it) and `skipped`, what
    MLflow could not take, counted. An imported run has no parameters but those of its scoring.
    """
    record = evaluation.record
    imported = record["kind"] == "imported"
    parameters = config.evaluation.model_dump(mode="json")
    tree = {"evaluation": parameters} if imported else config.model_dump(mode="json")
    uri = default_tracking_uri(store)
    tracked = log_run(
        uri=uri,
        experiment=experiment,
        name=evaluation.path.name,
        parameters=tree,
        metrics={name: figure["value"] for name, figure in record["metrics"].items()},
        dataset=DatasetRecord(
            name=f"{gold.name}/{gold.split}", digest=gold.digest, source=str(gold.path)
        ),
        artifacts=evaluation.path,
        tags={
            "assay.kind": record["kind"],
            RUN_TAG: run_digest(evaluation.path),
            "assay.gold": gold.name,
            "assay.gold_digest": gold.digest,
            "assay.config": "" if imported else config.fingerprint,
            "assay.index": record["index"]["fingerprint"] if record["index"] else "",
            "assay.git_commit": record["git_commit"] or "",
            **{f"assay.version.{name}": v for name, v in record["versions"].items()},
        },
        artifact_root=store / "artifacts",
        pages=pages,
    )
    return {
        "run_id": tracked.run_id,
        "experiment_id": tracked.experiment_id,
        "uri": tracked.uri,
        "skipped": {reason: list(names) for reason, names in tracked.skipped.items()},
        "open": f"mlflow ui --backend-store-uri {shlex.quote(tracked.uri)}",
    }


def track_again(run: Path, added: Path, store: Path, pages: Pages) -> str | None:
    """Put what a look at a run has added, and its pages made anew, into its run in MLflow.

    Returns the run's id; None where no run of MLflow holds this run. `pages` makes the texts by
    name, and is asked only then. Raises InputError where the store cannot be reached.
    """
    if not has_store():
        return None
    uri = default_tracking_uri(store)
    check_tracking(uri)
    run_id = run_with_tag(RUN_TAG, run_digest(run))
    if run_id is not None:
        add_to_run(uri, run_id, added, pages())
    return run_id
