"""Where a command's configuration, retriever and folders come from."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from experiments.comparison.contenders import Contender
    from retriever import Retriever, RetrieverConfig

__all__ = [
    "as_file_name",
    "config_for_index",
    "config_from",
    "found_or_made",
    "new_run",
    "open_retriever",
    "refuse_absent_runs",
    "track_again",
    "vector_cache",
]


def config_from(source: str | None, sets: list[str] | None) -> "RetrieverConfig":
    """Read a YAML file or a preset and apply `--set` to it."""
    from retriever.config import load_config

    return load_config(source, sets or ())


def config_for_index(opened: Any, source: str | None, sets: list[str] | None) -> "RetrieverConfig":
    """Return what is asked for; what an index was built with stands unless a file is named."""
    if source is not None:
        return config_from(source, sets)
    from retriever.config import load_config, parse_sets

    built = {
        "index": opened.manifest.index.model_dump(mode="json"),
        "models": opened.manifest.models,
        "namespace": opened.manifest.namespace,
    }
    return load_config().with_overrides({**built, **parse_sets(sets or ())})


def open_retriever(index: Path, source: str | None, sets: list[str] | None) -> "Retriever":
    """Open an index; what the index was built with stands unless a configuration is named."""
    from retriever import Index, Retriever

    opened = Index.open(index)
    return Retriever.open(opened, config_for_index(opened, source, sets))


def new_run(name: str, what: str) -> Path:
    """Name a run's folder in the store by time, gold set and what was run."""
    from datetime import UTC, datetime

    from experiments.run import reserve
    from retriever.store import store_folder

    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    return reserve(store_folder() / "runs" / f"{stamp}-{as_file_name(f'{name[:60]}-{what[:12]}')}")


def refuse_absent_runs(names: list[str]) -> None:
    """Refuse, before anything heavy is loaded, a name that stands for nothing."""
    from experiments.recorded import refuse_absent
    from retriever.config import PRESETS

    for name in names:
        if name not in PRESETS:
            refuse_absent(name)


def found_or_made(
    names: list[str],
    gold: Path | None,
    *,
    again: bool = False,
    quiet: bool,
    split: str | None = None,
) -> "list[Contender]":
    """Find or make every run; the first is the baseline of the others."""
    from experiments.commands.terminal import say, warm_up
    from experiments.comparison.contenders import Workplace, contender
    from retriever.store import store_folder

    place = Workplace(
        cache=vector_cache(),
        store=store_folder(),
        new_folder=new_run,
        say=(lambda text: None) if quiet else say,
        warm_up=lambda: warm_up(quiet),
        again=again,
    )
    found: list[Contender] = []
    for name in names:
        baseline = found[0].run if found else None
        found.append(contender(name, baseline=baseline, gold=gold, place=place, split=split))
    return found


def track_again(run: Path, added: Path, quiet: bool) -> None:
    """Bring the MLflow run of a run directory up to date with a file that was added to it."""
    from experiments.commands.terminal import say
    from experiments.tracking.evaluation import track_again as put
    from reports.dashboard import dashboard
    from retriever.files import InputError
    from retriever.store import store_folder

    try:
        run_id = put(run, added, store_folder(), lambda: {"dashboard.html": dashboard([run])})
    except InputError as error:  # what was asked for is done and kept
        say(f"the run in MLflow is as it was: {error}")
        return
    if run_id is not None and not quiet:
        say(f"{added.name} and the page of the MLflow run {run_id} are up to date")


def as_file_name(text: str) -> str:
    """Return a text as the name of a file: no separators, no leading dots."""
    kept = "".join(c if c.isalnum() or c in "-_." else "-" for c in text[:120])
    return kept.lstrip(".") or "-"


def vector_cache() -> Path:
    """Return the folder where vectors are kept by content."""
    from retriever.store import store_folder

    return store_folder() / "cache" / "vectors"
