"""`assay power`: what a gold set can resolve."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.commands.options import Json
from experiments.commands.terminal import print_json

if TYPE_CHECKING:
    from experiments.recorded import RecordedRun
    from gold import GoldSet


def power(
    gold: Annotated[Path, typer.Argument(help="The folder of a gold set.")],
    runs: Annotated[
        list[str] | None,
        typer.Argument(help="A run on it, or two: how far their figures differ by query."),
    ] = None,
    split: Annotated[str, typer.Option("--split", help="Split of the judgements.")] = "test",
    difference: Annotated[
        float, typer.Option("--difference", help="The difference you want to be able to see.")
    ] = 0.02,
    correlation: Annotated[
        float,
        typer.Option("--correlation", min=-1, max=0.9999, help="Assumed between two runs."),
    ] = 0.8,
    as_json: Json = False,
) -> None:
    """Print the smallest difference a gold set detects at 80 %, and the queries it lacks."""
    from gold import load
    from retriever.files import InputError

    if not 0 < difference <= 1:
        raise InputError(f"a difference of {difference} cannot be", fix="--difference 0.02")
    judged = load(gold, split)
    found = _resolved(judged, runs or [], difference, correlation)
    if as_json:
        print_json(found)
        return
    typer.echo(f"{judged.name} {judged.split}: {found['queries']} scorable queries")
    typer.echo(
        f"smallest p any outcome can reach: {found['smallest_p']:.2g} "
        f"(exact tests of 0/1 metrics: {found['smallest_p_rate']:.2g})"
    )
    typer.echo(f"spread of the differences: {found['basis']}")
    for name, row in found["metrics"].items():
        least = row["smallest_detectable"]
        seen = "nothing, however large" if least is None else f"{least:.4f}"
        if row["queries_needed"] is None:
            needed = "over a million queries"
        elif row["more_queries"]:
            needed = f"{row['queries_needed']} queries, {row['more_queries']} more"
        else:
            needed = f"{row['queries_needed']} queries: enough"
        typer.echo(f"{name}: detects {seen} at 80 %; {difference:g} needs {needed}")


def _resolved(
    judged: "GoldSet", names: list[str], difference: float, correlation: float
) -> dict[str, Any]:
    from experiments.power import POWER, resolution, smallest_p
    from retriever.files import InputError

    if len(names) > 2:
        raise InputError("a third run has no part in it", fix="give one run, or two")
    spreads, queries, basis = _spreads(judged, names, correlation)
    metrics = {}
    for name, (deviation, n, is_rate) in spreads.items():
        made = resolution(name, n, deviation, rate=is_rate, wanted=difference)
        metrics[name] = {
            "queries": n,
            "deviation": deviation,
            "smallest_detectable": made.smallest_detectable,
            "queries_needed": made.queries_needed,
            "more_queries": made.more_queries,
        }
    return {
        "gold": judged.name,
        "split": judged.split,
        "queries": queries,
        "power": POWER,
        "difference": difference,
        "basis": basis,
        "smallest_p": smallest_p(queries),
        "smallest_p_rate": smallest_p(queries, rate=True),
        "metrics": metrics,
    }


def _spreads(
    judged: "GoldSet", names: list[str], correlation: float
) -> tuple[dict[str, tuple[float, int, bool]], int, str]:
    """Return for each metric (deviation of differences, queries, is a rate), and where from."""
    import numpy as np

    from experiments.figures import deviation_of
    from experiments.metrics import parse_measure
    from experiments.pairing import pair
    from experiments.power import assumed_deviation
    from experiments.recorded import find_run

    runs = [_on(find_run(name), judged) for name in names]
    assumed = f"assumed correlation {correlation:g}"
    if not runs:
        n = sum(
            any(grade >= judged.relevant_from for grade in grades.values())
            for grades in judged.qrels.values()
        )
        widest = assumed_deviation(correlation=correlation)
        # A rate and a mean at the widest spread that figures between 0 and 1 can have.
        spreads = {"hit@5": (widest, n, True), "ndcg@10": (widest, n, False)}
        return spreads, n, f"no run given: the widest there is, {assumed}"
    if len(runs) == 2:
        pairing = pair(runs[0], runs[1])
        spreads, bases = {}, set()
        for measure in pairing.measures:
            one, other = pairing.values(measure)
            deviation, basis = deviation_of(measure, one, other)
            bases.add(basis)
            n = int((~np.isnan(other - one)).sum())
            spreads[str(measure)] = (deviation, n, measure.is_rate)
        more = "" if bases == {"observed"} else "; assumed where the runs never differ"
        return spreads, len(pairing.baseline_rows), f"observed between the two runs{more}"
    table = runs[0].queries[runs[0].queries["scorable"]]
    spreads = {}
    for key in runs[0].record["metrics"]:
        values = table[key].dropna().to_numpy(np.float64)
        spread = float(values.std(ddof=1)) if len(values) > 1 else 0.0
        spreads[key] = (
            assumed_deviation(spread or 0.5, correlation),
            len(values),
            parse_measure(key).is_rate,
        )
    return spreads, len(table), f"that of the run by query, {assumed}"


def _on(run: "RecordedRun", judged: "GoldSet") -> "RecordedRun":
    from retriever.files import InputError

    if run.record["gold"]["digest"] != judged.digest:
        raise InputError(
            "the run was scored on another gold set, or the set has changed",
            path=run.path,
            fix="evaluate this gold set",
        )
    return run
