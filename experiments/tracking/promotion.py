"""Promotion: a run's configuration becomes a version of the registered model, under an alias."""

import shutil
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from experiments.recorded import RecordedRun
from experiments.tracking.mlflow_run import DatasetRecord, log_run
from experiments.tracking.registered import (
    MODEL,
    RUN_TAG,
    Holder,
    check_alias,
    holder_of,
    run_digest,
    run_with_tag,
)
from experiments.tracking.replayed import refuse_other_figures
from experiments.tracking.store import default_tracking_uri, open_client, quiet_mlflow
from experiments.tracking.turns import scratch_folder
from retriever import Index
from retriever.config import load_config
from retriever.files import InputError

__all__ = ["Promoted", "promote", "save_model"]

FOLDER = "model"


@dataclass(frozen=True)
class Promoted:
    """Where a configuration went: model, version, alias, and the MLflow run it belongs to."""

    model: str
    version: int
    alias: str
    run_id: str
    uri: str


def save_model(folder: Path, *, config: Path, index: Path, fingerprint: str) -> None:
    """Write the MLflow model of a configuration: code, YAML, index and lexicon; no pickle.

    `config` is a YAML file, `index` a folder whose fingerprint must be `fingerprint`. The model
    loads on a machine that has this package and no network. Raises InputError where the index has
    gone, changed or is damaged.
    """
    opened = Index.open(index)
    if opened.manifest.fingerprint != fingerprint:
        raise InputError(
            "the index is not the one the run was made with", path=index, fix="evaluate anew"
        )
    opened.verify()
    artifacts = {"config": str(config), "index": str(index)}
    loaded = load_config(config)
    lexicon = loaded.model_dump(mode="json")["plugins"].get("biomed", {}).get("lexicon", {})
    if lexicon.get("path"):
        artifacts["lexicon"] = str(lexicon["path"])
    for number, overlay in enumerate(lexicon.get("overlays") or ()):
        artifacts[f"overlay_{number:03}"] = str(overlay)
    quiet_mlflow()
    with warnings.catch_warnings():
        # MLflow warns of its own annotations, and would have us give an example and run the model.
        warnings.simplefilter("ignore", UserWarning)
        from mlflow.models import ModelSignature
        from mlflow.pyfunc import save_model as save
        from mlflow.types import ColSpec, ParamSchema, ParamSpec, Schema

        save(
            str(folder),
            python_model=str(Path(__file__).with_name("search_model.py")),
            artifacts=artifacts,
            signature=ModelSignature(
                inputs=Schema([ColSpec("string", "query")]),
                params=ParamSchema([ParamSpec("top_k", "long", 0)]),
            ),
            # Named, so that MLflow does not load the model in another process to guess them.
            pip_requirements=[f"retrieval-assay=={metadata.version('retrieval-assay')}"],
        )


def promote(
    run: RecordedRun,
    alias: str,
    store: Path,
    *,
    run_id: str | None,
    experiment: str,
    tags: Mapping[str, str],
    gold: Path | None = None,
    judged_against: Holder | None = None,
) -> Promoted:
    """Register a run's configuration as a version of the model and point the alias at it.

    `run_id` is the MLflow run that holds it; without one it is looked for, and logged where there
    is none. Before anything is logged, the model is loaded in a process of its own and asked the
    queries of the gold set (`gold` says where that is now): what it ranks and scores must be what
    the run recorded. The alias moves last: a failure before leaves it where it was, and no version
    behind. `judged_against` is who had it when the run was judged; None: nobody judged. Raises
    InputError where the model gives something else, where another has the alias by now, and where
    MLflow refuses.
    """
    check_alias(alias)
    from mlflow.exceptions import MlflowException

    uri = default_tracking_uri(store)
    with scratch_folder(store) as scratch:
        model = scratch / FOLDER
        save_model(
            model,
            config=run.path / "config.yaml",
            index=Path(run.record["index"]["path"]),
            fingerprint=run.record["index"]["fingerprint"],
        )
        refuse_other_figures(run, model, gold, scratch / "replay")
        run_id = run_id or run_with_tag(RUN_TAG, run_digest(run.path))
        run_id = run_id or _log(run, uri, experiment, store)
        client = open_client(uri)
        try:
            client.log_artifacts(run_id, str(model), FOLDER)
            try:
                client.create_registered_model(MODEL)
            except MlflowException as error:
                if error.error_code != "RESOURCE_ALREADY_EXISTS":
                    raise
            version = client.create_model_version(
                MODEL, source=f"runs:/{run_id}/{FOLDER}", run_id=run_id, tags=dict(tags)
            )
            try:
                _refuse_moved(alias, judged_against)
                client.set_registered_model_alias(MODEL, alias, version.version)
            except BaseException:
                with suppress(MlflowException):
                    client.delete_model_version(MODEL, version.version)
                raise
        except MlflowException as error:
            raise InputError(f"MLflow refused the promotion: {error}") from error
    return Promoted(MODEL, int(version.version), alias, run_id, uri)


def _refuse_moved(alias: str, judged_against: Holder | None) -> None:
    """Refuse an alias that went elsewhere since its holder was judged against."""
    if judged_against is None:
        return
    now = holder_of(alias)
    if now != judged_against:
        where = "nowhere" if now.version is None else f"to version {now.version}"
        raise InputError(f"{alias} moved {where} meanwhile", fix="run it again")


def _log(run: RecordedRun, uri: str, experiment: str, store: Path) -> str:
    """Log a run directory that MLflow does not have yet; return the id of its run."""
    record: Mapping[str, Any] = run.record
    gold = record["gold"]
    with scratch_folder(store) as scratch:
        copy = shutil.copytree(run.path, scratch / run.path.resolve().name)
        logged = log_run(
            uri=uri,
            experiment=experiment,
            name=run.path.resolve().name,
            parameters=run.config.model_dump(mode="json"),
            metrics={name: figure["value"] for name, figure in record["metrics"].items()},
            dataset=DatasetRecord(f"{gold['name']}/{gold['split']}", gold["digest"], gold["path"]),
            artifacts=copy,
            tags={
                RUN_TAG: run_digest(run.path),
                "assay.kind": record["kind"],
                "assay.gold": gold["name"],
                "assay.gold_digest": gold["digest"],
                "assay.config": record["config"]["fingerprint"],
                "assay.index": record["index"]["fingerprint"],
                "assay.git_commit": record["git_commit"] or "",
            },
            artifact_root=store / "artifacts",
        )
    return logged.run_id
