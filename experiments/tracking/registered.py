"""What MLflow keeps of earlier runs: artifacts, and aliases of promoted configurations."""

import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from experiments.tracking.store import default_tracking_uri, open_client
from retriever.files import InputError
from retriever.store import store_folder

__all__ = [
    "MODEL",
    "RUN_TAG",
    "Holder",
    "TaggedRun",
    "artifacts_of",
    "check_alias",
    "has_store",
    "holder_of",
    "run_digest",
    "run_of_alias",
    "run_with_tag",
    "tagged_run",
]

# The registered model whose versions are configurations; an alias names one of them.
MODEL = "assay"
# The tag by which the MLflow run of a run directory is found again; its value is `run_digest`.
RUN_TAG = "assay.run"
# MLflow's own limit; it looks only when the version is registered already.
_LONGEST_ALIAS = 255


@dataclass(frozen=True)
class Holder:
    """Who has an alias: a version of the model and its run; both None where nobody has it."""

    version: int | None = None
    run_id: str | None = None


@dataclass(frozen=True)
class TaggedRun:
    """A run of MLflow that was found by a tag, and the experiment it is in."""

    run_id: str
    experiment_id: str


def check_alias(alias: str) -> None:
    """Refuse an alias that MLflow would not take. Raises InputError."""
    reserved = alias.lower() == "latest" or re.fullmatch(r"[vV]\d+", alias)
    if not re.fullmatch(r"[\w-]+", alias) or reserved:
        raise InputError(
            f"MLflow takes no alias {alias[:40]!r}",
            fix="letters, digits, - and _; neither latest nor v1, v2, ...",
        )
    if len(alias) > _LONGEST_ALIAS:
        raise InputError(
            f"MLflow takes no alias of {len(alias)} characters: {alias[:40]!r}...",
            fix=f"take at most {_LONGEST_ALIAS}",
        )


def has_store() -> bool:
    """Tell whether there may be an MLflow store to ask; answered without loading MLflow."""
    return not _is_missing(default_tracking_uri(store_folder()))


def artifacts_of(run_id: str) -> Path | None:
    """Return the folder of a run's artifacts, fetched if need be; None without such a run."""
    uri = default_tracking_uri(store_folder())
    if _is_missing(uri):
        return None
    from mlflow.artifacts import download_artifacts
    from mlflow.exceptions import MlflowException

    try:
        open_client(uri).get_run(run_id)
        return Path(download_artifacts(run_id=run_id, tracking_uri=uri))
    except MlflowException:
        return None


def run_of_alias(alias: str) -> str | None:
    """Return the run that an alias of the model points to; None when there is no such alias."""
    uri = default_tracking_uri(store_folder())
    if _is_missing(uri):
        return None
    from mlflow.exceptions import MlflowException

    try:
        run_id = open_client(uri).get_model_version_by_alias(MODEL, alias).run_id
    except MlflowException:
        return None
    return str(run_id) if run_id else None


def holder_of(alias: str) -> Holder:
    """Return who has an alias of the model. Raises InputError where MLflow cannot say."""
    uri = default_tracking_uri(store_folder())
    if _is_missing(uri):
        return Holder()
    from mlflow.exceptions import MlflowException

    try:
        found = open_client(uri).get_model_version_by_alias(MODEL, alias)
    except MlflowException as error:
        # No such model, no such alias.
        if error.error_code in ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"):
            return Holder()
        raise InputError(f"MLflow cannot be asked for the alias {alias}: {error}") from error
    return Holder(int(found.version), str(found.run_id) if found.run_id else None)


def run_digest(folder: Path) -> str:
    """Return what tells a run directory from any other: SHA-256 of its run.json, times and all."""
    return hashlib.sha256((folder / "run.json").read_bytes()).hexdigest()


def run_with_tag(tag: str, value: str) -> str | None:
    """Return the id of the latest finished run of any experiment whose tag has this value."""
    found = tagged_run(tag, value)
    return None if found is None else found.run_id


def tagged_run(tag: str, value: str, experiment: str | None = None) -> TaggedRun | None:
    """Return the latest finished run whose tag has this value; None without one.

    Looked for in the experiment of that name, in all where none is named. `value` is taken as it
    is: it must hold no quotes. Raises InputError where MLflow refuses.
    """
    uri = default_tracking_uri(store_folder())
    if _is_missing(uri):
        return None
    from mlflow.exceptions import MlflowException

    client = open_client(uri)
    try:
        experiments = [
            one.experiment_id
            for one in client.search_experiments()
            if experiment in (None, one.name)
        ]
        if not experiments:
            return None
        asked = f"tags.`{tag}` = '{value}' and attributes.status = 'FINISHED'"
        found = client.search_runs(experiments, asked, max_results=1)
    except MlflowException as error:
        raise InputError(f"MLflow cannot be asked for runs: {error}") from error
    runs = (TaggedRun(str(run.info.run_id), str(run.info.experiment_id)) for run in found)
    return next(runs, None)


def _is_missing(uri: str) -> bool:
    """Whether the store is a SQLite file that does not exist: asking would make it."""
    return uri.startswith("sqlite:///") and not Path(uri.removeprefix("sqlite:///")).exists()
