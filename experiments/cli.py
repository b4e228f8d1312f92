"""The command `assay`. Everything heavy is imported by the command that needs it."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

if TYPE_CHECKING:
    from experiments.evaluate import Evaluation
    from gold import GoldSet
    from retriever import Retriever, RetrieverConfig

__all__ = ["app", "main"]

NEGATIVE, BAD_INPUT, INTERRUPTED = 1, 2, 130
GO_ON = "interrupted; run the same command again to go on"

app = typer.Typer(
    name="assay",
    help="Evaluate and tune hybrid biomedical retrieval.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
config_app = typer.Typer(help="Show, compare and check configurations.", no_args_is_help=True)
gold_app = typer.Typer(help="Check and describe gold sets.", no_args_is_help=True)
app.add_typer(config_app, name="config")
app.add_typer(gold_app, name="gold")

Config = Annotated[
    str | None, typer.Option("--config", "-c", help="A YAML file or a preset's name.")
]
Sets = Annotated[
    list[str] | None, typer.Option("--set", help="One parameter, merge.rrf_k=20; may repeat.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


def main() -> None:
    """Run the command line; bad input ends with one line on stderr and exit code 2."""
    try:
        code = app(standalone_mode=False)
        sys.stdout.flush()
        if code == INTERRUPTED:
            _say(GO_ON)
        if code:
            sys.exit(code)
    except (KeyboardInterrupt, typer.Abort):
        _say(GO_ON)
        sys.exit(INTERRUPTED)
    except (BrokenPipeError, SystemExit) as stopped:
        gone = stopped if isinstance(stopped, BrokenPipeError) else stopped.__context__
        if not isinstance(gone, BrokenPipeError):
            raise
        # The reader of our output has gone; what it wanted it has.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os._exit(0)
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        _fail(f"{place}{error.strerror or error}")
    except UnicodeEncodeError as error:
        _fail(f"this terminal cannot show {error.object[error.start : error.end]!r} (set UTF-8)")
    except Exception as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            typer.echo(str(error))
            sys.exit(BAD_INPUT)
        if hasattr(error, "format_message"):  # how the command line says that it is misused
            _fail(error.format_message())
        if not _is_input_error(error):
            raise
        _fail(str(error))


# --- config ---------------------------------------------------------------------------------


@config_app.command("show")
def config_show(config: Config = None, sets: Sets = None, as_json: Json = False) -> None:
    """Print the whole configuration with its fingerprint."""
    loaded = _config(config, sets)
    if as_json:
        _print_json({"fingerprint": loaded.fingerprint, "config": loaded.model_dump(mode="json")})
    else:
        typer.echo(f"# fingerprint {loaded.fingerprint}")
        typer.echo(loaded.to_yaml(), nl=False)


@config_app.command("diff")
def config_diff(
    one: Annotated[str, typer.Argument(help="A YAML file or a preset's name.")],
    other: Annotated[str, typer.Argument(help="A YAML file or a preset's name.")],
    as_json: Json = False,
) -> None:
    """Print the parameters in which two configurations differ."""
    from retriever.config import difference, load_config

    found = difference(load_config(one), load_config(other))
    if as_json:
        _print_json({path: {"one": a, "other": b} for path, (a, b) in found.items()})
        return
    for path, (a, b) in found.items():
        typer.echo(f"{path}: {json.dumps(a)} -> {json.dumps(b)}")
    if not found:
        typer.echo("no difference")


@config_app.command("validate")
def config_validate(
    files: Annotated[list[str], typer.Argument(help="YAML files or presets' names.")],
) -> None:
    """Check configurations."""
    for file in files:
        typer.echo(f"{file}: ok, fingerprint {_config(file, None).fingerprint[:16]}")


# --- gold -----------------------------------------------------------------------------------


@gold_app.command("validate")
def gold_validate(
    gold: Annotated[Path, typer.Argument(help="The folder of a gold set.")], as_json: Json = False
) -> None:
    """List every fault of a gold set; exit code 1 when there is an error."""
    from gold import validate

    report = validate(gold)
    if as_json:
        _print_json(report.to_json())
    else:
        for problem in report.problems:
            place = problem.file if problem.line is None else f"{problem.file}:{problem.line}"
            typer.echo(f"{place}: {problem.severity}: {problem.message} [{problem.code}]")
        errors = sum(problem.severity == "error" for problem in report.problems)
        typer.echo(
            f"{gold}: {'ok' if report.ok else 'not valid'}, {errors} errors, "
            f"{len(report.problems) - errors} warnings"
        )
    if not report.ok:
        raise typer.Exit(NEGATIVE)


@gold_app.command("stats")
def gold_stats(
    gold: Annotated[Path, typer.Argument(help="The folder of a gold set.")], as_json: Json = False
) -> None:
    """Count what a gold set holds."""
    from gold import stats

    found = stats(gold)
    if as_json:
        _print_json(found)
    else:
        import yaml

        typer.echo(yaml.safe_dump(dict(found), sort_keys=False, allow_unicode=True), nl=False)


# --- index and search -----------------------------------------------------------------------


@app.command("index")
def index(
    corpus: Annotated[Path, typer.Argument(help="corpus.jsonl, or the folder that holds it.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder of the index.")],
    config: Config = None,
    sets: Sets = None,
    as_json: Json = False,
) -> None:
    """Build an index of a corpus; a rerun reuses every vector that was made before."""
    from retriever import build_index

    with _progress(quiet=as_json) as progress:
        report = build_index(
            corpus, out, _config(config, sets), cache=_vector_cache(), progress=progress
        )
    manifest = report.index.manifest
    summary = {
        "index": str(out),
        "built": report.built,
        "fingerprint": manifest.fingerprint,
        "documents": manifest.documents,
        "skipped": dict(manifest.skipped),
        "chunks": manifest.chunks,
        "vectors_computed": report.computed,
        "vectors_reused": report.reused,
    }
    if as_json:
        _print_json(summary)
        return
    if not report.built:
        typer.echo(f"{out} is up to date")
    skipped = sum(manifest.skipped.values())
    typer.echo(
        f"{manifest.documents} documents ({skipped} without text skipped), {manifest.chunks} "
        f"chunks; vectors: {report.computed} computed, {report.reused} from the cache"
    )


@app.command("search")
def search(
    index: Annotated[Path, typer.Argument(help="The folder of an index.")],
    text: Annotated[str, typer.Argument(help="The query.")],
    config: Config = None,
    sets: Sets = None,
    kb_names: Annotated[
        list[str] | None, typer.Option("--kb", help="Search this knowledge base; may repeat.")
    ] = None,
    document_ids: Annotated[
        list[str] | None, typer.Option("--document", help="Search this document; may repeat.")
    ] = None,
    tags: Annotated[
        list[str] | None, typer.Option("--tag", help="Search documents so tagged; may repeat.")
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show how every number came about.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Search an index; --kb, --document and --tag restrict it (any of a kind, all kinds)."""
    from retriever import Query
    from retriever.explain import explain as explained
    from retriever.explain import shown
    from retriever.types import Scope

    retriever = _open(index, config, sets)
    scope = Scope(tuple(kb_names or ()), tuple(document_ids or ()), tuple(tags or ()))
    query = Query(text, scope=scope)
    if explain:
        found = explained(retriever, retriever.trace([query]))
    else:
        (result,) = retriever.search_many([query])
        found = shown(result)
    if as_json:
        _print_json(found)
        return
    _print_hits(found)
    if explain:
        import yaml

        rest = {key: value for key, value in found.items() if key not in ("query", "results")}
        typer.echo(yaml.safe_dump(rest, sort_keys=False, allow_unicode=True), nl=False)


# --- evaluate -------------------------------------------------------------------------------


@app.command("evaluate")
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
    """Evaluate a retriever, or anyone's run, on a gold set."""
    from experiments.run import refuse_foreign
    from gold import load
    from retriever.files import InputError

    settings = [*(sets or []), *([f"evaluation.split={json.dumps(split)}"] if split else [])]
    if run is not None and (index or latency):
        raise InputError("--run scores a file: --index and --latency have no part in it")
    if repair and run is None:
        raise InputError("--repair is about the file of --run", fix="give --run FILE")
    asked = _config(config, settings)
    judged = load(gold, asked.evaluation.split)
    if out is not None:
        refuse_foreign(out)
    if track:
        _check_tracking(experiment)
    if run is not None:
        evaluation = _evaluate_file(judged, asked, run, repair, out, quiet=as_json)
    else:
        evaluation = _evaluate_retriever(
            judged, asked, index, config, settings, out, latency, as_json
        )
    tracked = _track(evaluation, judged, asked, experiment) if track else None
    if as_json:
        _print_json(_evaluation_summary(evaluation, tracked))
        return
    from experiments.show import print_evaluation

    print_evaluation(evaluation)
    typer.echo(f"run: {evaluation.path}")
    if tracked:
        typer.echo(f"tracked as {tracked['run_id']}; open it with: {tracked['open']}")
        for what, names in tracked["skipped"].items():
            typer.echo(f"not tracked as such, {what}: {', '.join(names)}")


@app.command("demo")
def demo(
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The folder of the run.")] = None,
) -> None:
    """Run the whole main job on the bundled gold set."""
    import gold as gold_package

    folder = Path(gold_package.__file__).parent / "smoke"
    shown = os.path.relpath(folder)
    typer.echo(f"1. Checking the gold set: assay gold validate {shown}")
    gold_validate(folder)
    typer.echo(f"\n2. Indexing, searching and scoring: assay evaluate {shown}")
    evaluate(folder, out=out)


# --- what the commands share ----------------------------------------------------------------


def _config(source: str | None, sets: list[str] | None) -> "RetrieverConfig":
    from retriever.config import load_config

    return load_config(source, sets or ())


def _open(index: Path, source: str | None, sets: list[str] | None) -> "Retriever":
    """Open an index; what the index was built with stands unless a configuration is named."""
    from retriever import Index, Retriever

    opened = Index.open(index)
    return Retriever.open(opened, _config_for(opened, source, sets))


def _config_for(opened: Any, source: str | None, sets: list[str] | None) -> "RetrieverConfig":
    if source is not None:
        return _config(source, sets)
    from retriever.config import load_config, parse_sets

    built = {
        "index": opened.manifest.index.model_dump(mode="json"),
        "models": opened.manifest.models,
        "namespace": opened.manifest.namespace,
    }
    return load_config().with_overrides({**built, **parse_sets(sets or ())})


def _evaluate_retriever(
    judged: "GoldSet",
    asked: "RetrieverConfig",
    index: Path | None,
    source: str | None,
    sets: list[str],
    out: Path | None,
    latency: int,
    quiet: bool,
) -> "Evaluation":
    from experiments.evaluate import evaluate as run_evaluation
    from experiments.evaluate import measures_of
    from retriever import Index, Retriever, build_index
    from retriever.ingest.build import fingerprint_of
    from retriever.store import store_folder

    measures_of(asked.evaluation)
    if index is None:
        index = store_folder() / "indexes" / fingerprint_of(judged.path, asked)[:16]
        with _progress(quiet) as progress:
            report = build_index(
                judged.path, index, asked, cache=_vector_cache(), progress=progress
            )
        opened = report.index
        if not quiet:
            _say(f"index: {index} ({'built' if report.built else 'up to date'})")
    else:
        opened = Index.open(index)
        asked = _config_for(opened, source, sets)
    retriever = Retriever.open(opened, asked, cache=_vector_cache())
    folder = out or _new_run(judged.name, asked.fingerprint)
    _warm_up(quiet)
    with _progress(quiet) as progress:
        return run_evaluation(
            judged,
            retriever,
            folder,
            latency=latency,
            progress=lambda total, done: progress("search", total, done),
        )


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

    imported = read_run(run, repair=repair)
    folder = out or _new_run(judged.name, run.stem)
    _warm_up(quiet)
    return evaluate_run(judged, imported, asked.evaluation, folder, run.name)


def _check_tracking(experiment: str) -> None:
    """Refuse, before any work, a tracking server or experiment that cannot take the run."""
    from experiments.tracking import check_tracking, default_tracking_uri
    from retriever.store import store_folder

    check_tracking(default_tracking_uri(store_folder()), experiment)


def _track(
    evaluation: "Evaluation", judged: "GoldSet", asked: "RetrieverConfig", experiment: str
) -> dict[str, Any]:
    from experiments.tracked import track
    from retriever.store import store_folder

    return track(evaluation, judged, asked, experiment, store_folder())


def _evaluation_summary(evaluation: "Evaluation", tracked: dict[str, Any] | None) -> dict[str, Any]:
    record = evaluation.record
    kept = (
        "queries",
        "unanswered",
        "unscorable",
        "metrics",
        "by_type",
        "by_workflow",
        "classes",
        "fallbacks",
        "seconds",
        "latency_ms",
    )
    return {"run": str(evaluation.path), **{key: record[key] for key in kept}, "mlflow": tracked}


def _new_run(name: str, what: str) -> Path:
    """Name a run's folder in the store by time, gold set and what was run."""
    from datetime import UTC, datetime

    from experiments.run import reserve
    from retriever.store import store_folder

    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    kept = "".join(c if c.isalnum() or c in "-_." else "-" for c in f"{name[:60]}-{what[:12]}")
    return reserve(store_folder() / "runs" / f"{stamp}-{kept}")


def _vector_cache() -> Path:
    from retriever.store import store_folder

    return store_folder() / "cache" / "vectors"


def _warm_up(quiet: bool) -> None:
    """Load ranx; on a fresh machine it compiles for up to two minutes, so say what is going on."""
    from experiments.metrics import warm_up

    if quiet or not sys.stderr.isatty():
        warm_up()
        return
    from rich.console import Console

    with Console(stderr=True).status("loading ranx (the first time it compiles: 1 to 2 minutes)"):
        warm_up()


@contextmanager
def _progress(quiet: bool) -> Iterator[Any]:
    """Offer `progress(stage, total, done)`: bars on a terminal, nothing when quiet."""
    if quiet or not sys.stderr.isatty():
        yield lambda stage, total, done: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    bars = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    tasks: dict[str, Any] = {}
    with bars:

        def progress(stage: str, total: int, done: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total)
            bars.update(tasks[stage], advance=done, total=total)

        yield progress


def _print_hits(found: dict[str, Any]) -> None:
    for hit in found["results"]:
        typer.echo(
            f"{hit['rank']:>3}. {hit['document_id']}  {hit['score']:.6f}  [{hit['chunk_id']}]"
        )
        text = " ".join(hit["text"].split())
        typer.echo(f"     {text[:200]}{'…' if len(text) > 200 else ''}")
    if not found["results"]:
        typer.echo("nothing found")
    from retriever.types import FALLBACKS

    for event in found["audit"]:
        if event["event"] not in FALLBACKS:
            continue
        _say(f"{event['stage']}: {event['event']} {event['detail'] or ''}")


def _print_json(value: object) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False))


def _say(text: str) -> None:
    typer.echo(text, err=True)


def _fail(message: str) -> NoReturn:
    _say("assay: " + " ".join(message.split()))
    sys.exit(BAD_INPUT)


def _is_input_error(error: Exception) -> bool:
    """Tell bad input, said by either package, from a fault of ours, which keeps its traceback."""
    loaded = [sys.modules[m] for m in ("retriever.files", "gold.faults") if m in sys.modules]
    return isinstance(error, tuple(module.InputError for module in loaded))
