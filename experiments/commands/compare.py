"""`assay compare`: did it get better, for whom, and is that real."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.commands.opening import found_or_made, refuse_absent_runs
from experiments.commands.options import NEGATIVE, Json
from experiments.commands.terminal import phase, print_json, print_text, waiting
from experiments.counting import counted

if TYPE_CHECKING:
    from experiments.comparison.figures import Settings
    from experiments.comparison.gate_file import Gate

# What the command leaves in its folder, comparison.json last.
FILES = ("comparison.html", "comparison.md", "junit.xml", "comparison.json")


def compare(
    baseline: Annotated[str, typer.Argument(help="A run: its folder, MLflow run id or alias.")],
    candidates: Annotated[
        list[str],
        typer.Argument(help="Runs, configurations to evaluate now, or run files to score now."),
    ],
    gold: Annotated[
        Path | None,
        typer.Option("--gold", help="Where the gold set is; default: where the baseline's was."),
    ] = None,
    gate: Annotated[
        Path | None, typer.Option("--gate", help="Rules; a broken one ends with exit code 1.")
    ] = None,
    metric: Annotated[
        str | None, typer.Option("--metric", help="What the verdict and the moves are about.")
    ] = None,
    test: Annotated[
        str, typer.Option("--test", help="Test of means: randomisation or t. Rates: McNemar.")
    ] = "randomisation",
    shared_queries: Annotated[
        bool,
        typer.Option("--shared-queries", help="Compare runs of two gold sets on what they share."),
    ] = False,
    why: Annotated[
        bool, typer.Option(help="Try which differences of the configurations moved the queries.")
    ] = True,
    permutations: Annotated[
        int,
        typer.Option("--permutations", min=1000, max=10_000_000, help="Of the randomisation test."),
    ] = 10_000,
    resamples: Annotated[
        int, typer.Option("--resamples", min=100, help="Of the bootstrap intervals.")
    ] = 10_000,
    seed: Annotated[int, typer.Option("--seed", min=0)] = 0,
    movers: Annotated[int, typer.Option("--movers", min=0, help="Moved queries to list.")] = 20,
    again: Annotated[
        bool,
        typer.Option("--again", help="Evaluate anew what an earlier evaluation has left already."),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The folder of the comparison; one there is replaced."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Compare runs: figures, significance, what moved and why; judge them by a gate."""
    refuse_absent_runs([baseline, *candidates])
    from experiments.comparison.compare import compare_runs
    from experiments.comparison.gate_file import load_gate, refuse_unheld

    settings = _settings(test, permutations, resamples, seed)
    if out is not None:
        _refuse_foreign(out)
    rules = load_gate(gate) if gate is not None else None
    if rules is not None:
        _refuse_unheld(rules, [baseline, *candidates])
    contenders = found_or_made([baseline, *candidates], gold, again=again, quiet=as_json)
    runs = [one.run for one in contenders]
    if rules is not None:
        for one in contenders:
            refuse_unheld(rules, one.run.record["metrics"], one.label)
    phase(f"comparing {counted(len(runs), 'run')}", as_json)
    made = compare_runs(
        runs[0],
        runs[1:],
        labels=[one.label for one in contenders],
        sources=[one.source for one in contenders],
        settings=settings,
        metric=metric,
        shared_queries=shared_queries,
        most_movers=movers,
    )
    if len(runs) > 2:
        made["ranx"] = _ranx(runs, [one.label for one in contenders], shared_queries, as_json)
    for run, found in zip(runs[1:], made["comparisons"], strict=True):
        if why:
            phase(f"trying the differences of {run.path}", as_json)
            found["causes"] = _causes(runs[0], run, found["metric"], gold, shared_queries, as_json)
        if rules is not None:
            from experiments.comparison.gate import judge
            from experiments.comparison.pairing import pair

            pairing = pair(runs[0], run, shared_queries=shared_queries)
            found["gate"] = judge(rules, pairing, found, str(gate)).to_json()
    folder = _write(made, out)
    _show(made, folder, as_json)
    if any(found["gate"] and not found["gate"]["passed"] for found in made["comparisons"]):
        raise typer.Exit(NEGATIVE)


def _settings(test: str, permutations: int, resamples: int, seed: int) -> "Settings":
    from typing import get_args, get_type_hints

    from experiments.comparison.figures import Settings
    from retriever.files import InputError

    known = get_args(get_type_hints(Settings)["test"])
    if test not in known:
        raise InputError(f"no test {test!r}", fix=f"--test {' or '.join(known)}")
    return Settings(test=test, permutations=permutations, resamples=resamples, seed=seed)  # type: ignore[arg-type]


def _refuse_unheld(rules: "Gate", names: list[str]) -> None:
    """Refuse, before anything is evaluated, a gate on a metric that a run lacks or will lack."""
    from experiments.comparison.gate_file import refuse_unheld
    from experiments.recorded import RecordedRun
    from retriever.config import PRESETS, load_config

    for name in names:
        path = Path(name)
        if path.is_dir():
            refuse_unheld(rules, RecordedRun.open(path).record["metrics"], name)
        elif path.suffix.lower() in (".yaml", ".yml") or (name in PRESETS and not path.exists()):
            refuse_unheld(rules, load_config(name).evaluation.metrics, name)


def _ranx(runs: list[Any], labels: list[str], shared_queries: bool, quiet: bool) -> dict[str, Any]:
    """Return ranx's own table of the runs, or why there is none."""
    from experiments.comparison.ranx_table import ranx_table
    from retriever.files import InputError

    try:
        with waiting("ranx compares (the first time it compiles: 1 minute)", quiet):
            return ranx_table(runs, labels, shared_queries=shared_queries)
    except InputError as error:
        return {"reason": str(error)}


def _causes(
    baseline: Any, run: Any, metric: str, gold: Path | None, shared_queries: bool, quiet: bool
) -> dict[str, Any]:
    """Try the differences; where a run cannot be opened again, say why nothing was tried."""
    from experiments.comparison.attribution import attribute
    from experiments.comparison.pairing import pair
    from experiments.metrics import parse_measure
    from retriever.files import InputError

    pairing = pair(baseline, run, shared_queries=shared_queries)
    try:
        return attribute(pairing, parse_measure(metric), gold=gold)
    except InputError as error:
        return {"reason": str(error)}


def _write(made: dict[str, Any], out: Path | None) -> Path:
    """Write the comparison and its renderings, comparison.json last."""
    import json
    from datetime import UTC, datetime

    from experiments.run import reserve
    from reports.junit import to_junit
    from reports.markdown import to_markdown
    from reports.regression import to_html
    from retriever.files import write_atomically
    from retriever.store import store_folder

    texts = {"comparison.html": to_html(made), "comparison.md": to_markdown(made)}
    if any(found["gate"] for found in made["comparisons"]):
        texts["junit.xml"] = to_junit(made)
    texts["comparison.json"] = (
        json.dumps(made, ensure_ascii=False, indent=1, allow_nan=False) + "\n"
    )
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    folder = out or reserve(store_folder() / "comparisons" / stamp)
    (folder / "comparison.json").unlink(missing_ok=True)
    if "junit.xml" not in texts:
        (folder / "junit.xml").unlink(missing_ok=True)
    for name in FILES:
        if name in texts:
            write_atomically(folder / name, texts[name].encode())
    return folder


def _refuse_foreign(folder: Path) -> None:
    from retriever.files import InputError

    if folder.exists() and not folder.is_dir():
        raise InputError("a file", path=folder, fix="name a new folder with -o")
    if folder.is_dir():
        strangers = sorted({path.name for path in folder.iterdir()} - set(FILES))
        if strangers:
            raise InputError(
                f"holds other files ({strangers[0]})", path=folder, fix="name a new folder with -o"
            )


def _show(made: dict[str, Any], folder: Path, as_json: bool) -> None:
    if as_json:
        first, *others = made["comparisons"]
        head = {key: value for key, value in made.items() if key != "comparisons"}
        print_json({"comparison": str(folder), **head, **first, "others": others})
        return
    from reports.plain import to_text

    print_text(to_text(made))
    print_text(f"comparison: {folder} ({', '.join(p.name for p in sorted(folder.iterdir()))})")
