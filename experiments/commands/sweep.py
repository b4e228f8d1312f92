"""`assay sweep`: tune a configuration on a gold set; `assay sweep worker`: lend a hand."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from experiments.commands.opening import as_file_name, config_for_index, config_from, vector_cache
from experiments.commands.options import NEGATIVE, Config, Json, Sets, refuse_empty
from experiments.commands.plain_help import Commands
from experiments.commands.sweep_terminal import show_sweep, trial_progress
from experiments.commands.terminal import (
    phase,
    print_json,
    print_text,
    progress_bars,
    say,
    warm_up,
)
from experiments.counting import counted

if TYPE_CHECKING:
    from experiments.sweep.procedure import Sweep
    from gold import GoldSet
    from retriever import Retriever


PAGE = "sweep.html"


class _RunByDefault(TyperGroup):
    """Takes what is no subcommand for the arguments of `run`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in ("--help",):
            args = ["run", *args]
        return super().parse_args(ctx, args)


app = Commands(
    cls=_RunByDefault,
    help="Tune a configuration on a gold set.\n\nassay sweep GOLD is assay sweep run GOLD.",
    no_args_is_help=True,
)

Index = Annotated[
    Path | None, typer.Option("--index", help="An index; without it one is built and kept.")
]
Storage = Annotated[
    str | None,
    typer.Option(
        "--storage",
        envvar="ASSAY_STORAGE",
        help="journal:PATH, sqlite:///PATH, postgresql://... or grpc://HOST:PORT; "
        "by default a journal in the folder of the sweep.",
    ),
]
Memory = Annotated[int, typer.Option("--memory", min=0, help="Megabytes for the stage memo.")]


@app.command("run")
def run(
    gold: Annotated[Path, typer.Argument(help="The folder of a gold set.")],
    index: Index = None,
    config: Config = None,
    sets: Sets = None,
    space: Annotated[
        str, typer.Option("--space", help="A YAML file or the space that ships.")
    ] = "default",
    trials: Annotated[int, typer.Option("--trials", min=1, help="Finished trials in all.")] = 200,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder of the sweep.")] = None,
    sampler: Annotated[
        str, typer.Option("--sampler", help="tpe, cmaes, gp, nsga2, random, grid or qmc.")
    ] = "tpe",
    objective: Annotated[
        list[str] | None,
        typer.Option("--objective", help="What to raise; several give a Pareto front."),
    ] = None,
    split: Annotated[str | None, typer.Option("--split", help="Split to tune on.")] = None,
    test_split: Annotated[
        str | None,
        typer.Option("--test-split", help="Split to judge on, less what shares a document."),
    ] = None,
    cv: Annotated[
        int | None,
        typer.Option("--cv", min=0, help="Folds of a nested cross-validation; 0 for none."),
    ] = None,
    max_drop: Annotated[
        float | None,
        typer.Option("--max-drop", help="How far no query type may fall below the default."),
    ] = None,
    profiles: Annotated[
        bool, typer.Option("--per-profile", help="Tune each workflow's weights for themselves.")
    ] = False,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Processes in all.")] = 1,
    storage: Storage = None,
    study: Annotated[str | None, typer.Option("--study", help="Name of the study.")] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the samplers.")] = 0,
    timeout: Annotated[float | None, typer.Option("--timeout", min=0, help="When to stop.")] = None,
    memory: Memory = 1024,
    verify_memo: Annotated[
        int, typer.Option("--verify-memo", min=0, help="Replay this many trials without a memo.")
    ] = 0,
    track: Annotated[bool, typer.Option(help="Log the sweep to MLflow.")] = True,
    experiment: Annotated[str, typer.Option("--experiment", help="MLflow experiment.")] = "assay",
    as_json: Json = False,
) -> None:
    """Tune a configuration on a gold set, and say whether it is better than the default.

    The same command goes on with what an earlier one has left.
    """
    from experiments.metrics import parse_measure
    from experiments.space import load_space
    from experiments.sweep.folder import refuse_other_sweep
    from experiments.sweep.procedure import (
        NoFinishedTrialError,
        SweepSettings,
        refuse_folds,
        run_sweep,
    )
    from experiments.sweep.storage import check_storage, journal_url
    from experiments.tracking.store import check_tracking, default_tracking_uri
    from gold import load
    from reports.page import refuse_foreign_page
    from retriever.files import InputError
    from retriever.store import store_folder

    refuse_empty(study=study, storage=storage, space=space, split=split, test_split=test_split)
    if storage is not None:
        check_storage(storage)
    asked = config_from(config, sets)
    measures = tuple(parse_measure(text) for text in objective or ["ndcg@10"])
    wanted = load_space(space)
    judged = load(gold, split or asked.evaluation.split)
    tested = load(gold, test_split) if test_split else None
    name = study or f"{judged.name}-{judged.split}-{wanted.name}"
    folder = out or store_folder() / "sweeps" / as_file_name(name)
    place = journal_url(folder / "study.journal") if storage is None else storage
    refuse_other_sweep(folder, name, place)
    if track:
        check_tracking(default_tracking_uri(store_folder()), experiment)
    settings = SweepSettings(
        space=wanted,
        measures=measures,
        trials=trials,
        out=folder,
        storage=place,
        study=name,
        sampler=sampler,
        workers=workers,
        seed=seed,
        timeout=timeout,
        folds=cv,
        judged=tested,
        max_drop=max_drop,
        profiles=profiles,
    )
    refuse_folds(judged, cv, asked)
    retriever = _open(judged, index, config, sets, memory, quiet=as_json)
    made = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    refuse_foreign_page(folder / PAGE)
    if not Path(place.removeprefix("journal:")).is_file():
        warm_up(as_json)  # a study that is gone on with may have its figures proven already
    try:
        with trial_progress(trials, quiet=as_json) as progress:
            found = run_sweep(
                judged,
                retriever,
                settings,
                progress=progress,
                say=(lambda text: None) if as_json else say,
            )
    except InputError:
        if made:
            _remove_unused(folder)
        raise
    except NoFinishedTrialError as error:
        say(f"assay: {error}")
        raise typer.Exit(NEGATIVE) from error
    phase("writing the page" + (" and logging to MLflow" if track else ""), as_json)
    verified = _verify(found, judged, retriever, verify_memo) if verify_memo else None
    _write_report(folder, folder / PAGE)
    tracked = _track(found, retriever, experiment) if track else None
    if as_json:
        print_json({**found.record, "verified_memo": verified, "mlflow": tracked})
        return
    show_sweep(found)
    if verified is not None:
        print_text(f"memo: {verified['words']}")
    print_text(f"report: {folder / PAGE}")
    if tracked:
        said = f"tracked as {tracked['run_id']}"
        if tracked["reused"]:
            said = f"tracked already as {tracked['run_id']}, nothing new is logged"
        print_text(f"{said}; open it with: {tracked['open']}")
        print_text(f"the model: {tracked['load']}")
        for what, names in tracked["skipped"].items():
            print_text(f"not tracked as such, {what}: {', '.join(names)}")


@app.command("report")
def report(
    sweep: Annotated[Path, typer.Argument(help="The folder of a sweep.")],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", metavar="FILE", help="The page to write, by default in the folder."
        ),
    ] = None,
) -> None:
    """Write the page of a sweep anew; nothing is searched, only the folder is read."""
    place = out or sweep / PAGE
    _write_report(sweep, place)
    print_text(f"page: {place}")


@app.command("worker")
def worker(
    gold: Annotated[Path, typer.Argument(help="The folder of the gold set.")],
    index: Annotated[Path, typer.Option("--index", help="The index.")],
    storage: Annotated[
        str, typer.Option("--storage", envvar="ASSAY_STORAGE", help="The study's storage.")
    ],
    study: Annotated[str, typer.Option("--study", help="Name of the study.")],
    trials: Annotated[int, typer.Option("--trials", min=1, help="Finished trials in all.")],
    timeout: Annotated[float | None, typer.Option("--timeout", min=0, help="When to stop.")] = None,
    memory: Memory = 1024,
) -> None:
    """Take part in a sweep that was started elsewhere, until its trials are finished."""
    import secrets

    from experiments.sweep.storage import check_storage
    from experiments.sweep.workers import join
    from retriever.memo import Memo

    refuse_empty(study=study, storage=storage)
    check_storage(storage)
    phase(f"opening the gold set and the index of {study}", quiet=False)
    deadline = None if timeout is None else time.monotonic() + timeout
    counts = join(
        gold,
        index,
        storage,
        study,
        trials,
        number=1 + secrets.randbelow(2**31 - 1),
        timeout_at=deadline,
        memo=Memo(memory * 2**20),
        cache=vector_cache(),
    )
    say(f"{study}: {counted(counts.finished, 'trial')} finished, {counts.failed} failed")


def _remove_unused(folder: Path) -> None:
    """Remove the folder of a sweep that was refused, unless there is something in it."""
    held = list(folder.iterdir())
    if all(path.is_file() and not path.stat().st_size for path in held):
        for path in held:
            path.unlink()
        folder.rmdir()


def _write_report(folder: Path, place: Path) -> None:
    from reports.page import write_page
    from reports.sweep import read_sweep, to_html

    write_page(place, to_html(read_sweep(folder)))


def _track(found: "Sweep", retriever: "Retriever", experiment: str) -> dict[str, Any]:
    from experiments.tracking.sweep import track_sweep
    from retriever.store import store_folder

    return track_sweep(
        found.path,
        found.record,
        retriever.index,
        experiment,
        store_folder(),
        retriever.config.model_dump(mode="json"),
    )


def _open(
    judged: "GoldSet",
    index: Path | None,
    source: str | None,
    sets: list[str] | None,
    memory: int,
    quiet: bool,
) -> "Retriever":
    from retriever import Index, Retriever, build_index
    from retriever.ingest.build import fingerprint_of
    from retriever.memo import Memo
    from retriever.store import store_folder

    if index is None:
        phase(f"opening the index of {judged.path}", quiet)
        asked = config_from(source, sets)
        index = store_folder() / "indexes" / fingerprint_of(judged.path, asked)[:16]
        with progress_bars(quiet) as progress:
            opened = build_index(
                judged.path, index, asked, cache=vector_cache(), progress=progress
            ).index
    else:
        opened = Index.open(index)
        phase(f"opening {index}", quiet)
        asked = config_for_index(opened, source, sets)
    return Retriever.open(opened, asked, cache=vector_cache(), memo=Memo(memory * 2**20))


def _verify(found: "Sweep", judged: "GoldSet", retriever: "Retriever", many: int) -> dict[str, Any]:
    from experiments.sweep.verify import verify_memo

    return verify_memo(found, judged, retriever, many)
