"""`assay evaluate`: score a retriever, or anyone's run, on a gold set."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.commands.opening import config_for_index, config_from, new_run, vector_cache
from experiments.commands.options import Config, Json, Sets
from experiments.commands.terminal import phase, print_json, print_text, progress_bars, say, warm_up

if TYPE_CHECKING:
    from experiments.evaluate import Evaluation
    from gold import GoldSet, LinkingSet
    from retriever import RetrieverConfig


def evaluate(
    gold: Annotated[Path, typer.Argument(help="The folder of a gold set.")],
    index: Annotated[
        Path | None, typer.Option("--index", help="An index; without it one is built and kept.")
    ] = None,
    config: Config = None,
    split: Annotated[str | None, typer.Option("--split", help="Split of the judgements.")] = None,
    sets: Sets = None,
    run: Annotated[
        Path | None,
        typer.Option("--run", help="Score this run (TREC, ranx or BEIR JSON) and search nothing."),
    ] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Of a document twice in --run keep the best, counted.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The folder of the run; a run there is replaced."),
    ] = None,
    latency: Annotated[
        int, typer.Option("--latency", min=0, help="Time this many queries one by one, by stage.")
    ] = 0,
    track: Annotated[bool, typer.Option(help="Log the run to MLflow.")] = True,
    experiment: Annotated[str, typer.Option("--experiment", help="MLflow experiment.")] = "assay",
    as_json: Json = False,
) -> None:
    """Evaluate a retriever, or anyone's run, on a gold set; entity linking on a linking set."""
    from experiments.run import refuse_foreign
    from gold import LinkingSet, is_linking, load, load_mentions
    from retriever.files import InputError

    settings = [*(sets or []), *([f"evaluation.split={json.dumps(split)}"] if split else [])]
    if run is not None and (index or latency):
        raise InputError("--run scores a file: --index and --latency have no part in it")
    if run is not None:
        _refuse_settings_of_a_search(sets or [])
    if repair and run is None:
        raise InputError("--repair is about the file of --run", fix="give --run FILE")
    asked = config_from(config, settings)
    linking = is_linking(gold)
    if linking and (index or run or split or latency):
        raise InputError(
            "a linking gold set needs no --index, --run, --split or --latency",
            path=gold,
            fix="leave them out",
        )
    judged = load_mentions(gold) if linking else load(gold, asked.evaluation.split)
    if out is not None:
        refuse_foreign(out)
    if track:
        _check_tracking(experiment)
    earlier = _configuration_of(out)
    if isinstance(judged, LinkingSet):
        evaluation = _evaluate_linking(judged, asked, out, quiet=as_json)
    elif run is not None:
        evaluation = _evaluate_file(judged, asked, run, repair, out, quiet=as_json)
    else:
        evaluation, asked = _evaluate_retriever(
            judged, asked, index, config, settings, out, latency, as_json
        )
    if earlier not in (None, _configuration_of(evaluation.path)):
        say(f"{out}: replaces a run of another configuration ({earlier})")
    tracked = _track(evaluation, judged, asked, experiment) if track else None
    if as_json:
        print_json(_evaluation_summary(evaluation, tracked))
        return
    from experiments.show import print_evaluation

    print_evaluation(evaluation)
    print_text(f"run: {evaluation.path}")
    if tracked:
        print_text(f"tracked as {tracked['run_id']}; open it with: {tracked['open']}")
        for what, names in tracked["skipped"].items():
            print_text(f"not tracked as such, {what}: {', '.join(names)}")


def _configuration_of(run: Path | None) -> str | None:
    """Return the fingerprint of the configuration of a run that is there; None without a run."""
    from experiments.recorded import RecordedRun
    from retriever.files import InputError

    if run is None or not (run / "run.json").is_file():
        return None
    try:
        config = RecordedRun.open(run).record.get("config")
    except InputError:  # it goes anyway
        return "unreadable"
    return str(config["fingerprint"]) if config else "an imported ranking"


def _refuse_settings_of_a_search(sets: list[str]) -> None:
    """Refuse parameters that have no part in scoring a file, lest they seem to have had one."""
    from retriever.config import parse_sets
    from retriever.files import InputError

    idle = [path for path in parse_sets(sets) if path.partition(".")[0] != "evaluation"]
    if idle:
        raise InputError(
            f"--run scores a file: {', '.join(idle)} has no part in it",
            fix="only evaluation.* counts here",
        )


def _evaluate_linking(
    judged: "LinkingSet", asked: "RetrieverConfig", out: Path | None, quiet: bool
) -> "Evaluation":
    from experiments.linking import evaluate_linking, open_linker

    phase("opening the lexicon", quiet)
    linker = open_linker(asked)
    folder = out or new_run(judged.name, asked.fingerprint)
    warm_up(quiet)
    return evaluate_linking(judged, linker, asked, folder)


def _evaluate_retriever(
    judged: "GoldSet",
    asked: "RetrieverConfig",
    index: Path | None,
    source: str | None,
    sets: list[str],
    out: Path | None,
    latency: int,
    quiet: bool,
) -> "tuple[Evaluation, RetrieverConfig]":
    """Search and score; returns the configuration in force, too."""
    from experiments.evaluate import evaluate as run_evaluation
    from experiments.evaluate import measures_of
    from retriever import Index, Retriever, build_index
    from retriever.ingest.build import fingerprint_of
    from retriever.store import store_folder

    measures_of(asked.evaluation)
    if index is None:
        phase(f"opening the index of {judged.path}", quiet)
        index = store_folder() / "indexes" / fingerprint_of(judged.path, asked)[:16]
        with progress_bars(quiet) as progress:
            report = build_index(judged.path, index, asked, cache=vector_cache(), progress=progress)
        opened = report.index
        if not quiet:
            say(f"index: {index} ({'built' if report.built else 'up to date'})")
    else:
        opened = Index.open(index)
        phase(f"opening {index}", quiet)
        asked = config_for_index(opened, source, sets)
    retriever = Retriever.open(opened, asked, cache=vector_cache())
    folder = out or new_run(judged.name, retriever.config.fingerprint)
    warm_up(quiet)
    with progress_bars(quiet) as progress:
        evaluation = run_evaluation(
            judged,
            retriever,
            folder,
            latency=latency,
            progress=lambda total, done: progress("search", total, done),
        )
    return evaluation, retriever.config


def _evaluate_file(
    judged: "GoldSet",
    asked: "RetrieverConfig",
    run: Path,
    repair: bool,
    out: Path | None,
    quiet: bool,
) -> "Evaluation":
    from experiments.evaluate import evaluate_run
    from gold import read_run

    if run.is_file():
        phase(f"reading {run}", quiet)
    imported = read_run(run, repair=repair)
    folder = out or new_run(judged.name, run.stem)
    warm_up(quiet)
    return evaluate_run(judged, imported, asked.evaluation, folder, run.name)


def _check_tracking(experiment: str) -> None:
    """Refuse, before any work, a tracking server or experiment that cannot take the run."""
    from experiments.tracking.store import check_tracking, default_tracking_uri
    from retriever.store import store_folder

    check_tracking(default_tracking_uri(store_folder()), experiment)


def _track(
    evaluation: "Evaluation",
    judged: "GoldSet | LinkingSet",
    asked: "RetrieverConfig",
    experiment: str,
) -> dict[str, Any]:
    from experiments.tracking.evaluation import track
    from reports.dashboard import dashboard
    from retriever.store import store_folder

    pages = {"dashboard.html": dashboard([evaluation.path])}
    return track(evaluation, judged, asked, experiment, store_folder(), pages)


def _evaluation_summary(evaluation: "Evaluation", tracked: dict[str, Any] | None) -> dict[str, Any]:
    record = evaluation.record
    kept = (
        "queries",
        "unanswered",
        "unscorable",
        "unjudged",
        "metrics",
        "by_type",
        "by_workflow",
        "classes",
        "fallbacks",
        "seconds",
        "latency_ms",
    )
    return {"run": str(evaluation.path), **{key: record[key] for key in kept}, "mlflow": tracked}
