"""What of an evaluation goes to MLflow."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.evaluate import Evaluation
from experiments.tracking.mlflow_run import DatasetRecord, default_tracking_uri, log_run
from gold import GoldSet, LinkingSet
from retriever import RetrieverConfig

__all__ = ["track"]


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
