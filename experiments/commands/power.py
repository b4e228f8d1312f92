"""`assay power`: what a gold set can resolve."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.commands.opening import found_or_made, refuse_absent_runs
from experiments.commands.options import Json
from experiments.commands.terminal import print_json, print_text
from experiments.counting import counted

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from experiments.recorded import RecordedRun
    from gold import GoldSet


def power(
    gold: Annotated[Path, typer.Argument(help="The folder of a gold set.")],
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            help="One or two on it, as compare takes them: how far figures differ by query."
        ),
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
    refuse_absent_runs(runs or [])
    from gold import load
    from retriever.files import InputError

    if not 0 < difference <= 1:
        raise InputError(f"a difference of {difference} cannot be", fix="--difference 0.02")
    judged = load(gold, split)
    found = _resolved(judged, runs or [], difference, correlation, as_json)
    if as_json:
        print_json(found)
        return
    print_text(f"{judged.name} {judged.split}: {counted(found['queries'], 'scorable query')}")
    print_text(
        f"smallest p any outcome can reach: {found['smallest_p']:.2g} "
        f"(exact tests of 0/1 metrics: {found['smallest_p_rate']:.2g})"
    )
    for name, row in found["metrics"].items():
        least = row["smallest_detectable"]
        if row["queries_needed"] is None:
            needed = "over a million queries"
        elif row["more_queries"]:
            needed = f"{counted(row['queries_needed'], 'query')}, {row['more_queries']} more"
        else:
            needed = f"{counted(row['queries_needed'], 'query')}: enough"
        has = counted(row["queries"], "query")
        seen = "" if least is None else f"detects {least:.4f} at 80 %"
        if least is None:
            seen = f"{has} can show nothing, however large"
        print_text(f"{name}: {seen}; {difference:g} needs {needed}")
        print_text(f"  spread: {row['basis']}")


def _resolved(
    judged: "GoldSet", names: list[str], difference: float, correlation: float, quiet: bool
) -> dict[str, Any]:
    from experiments.comparison.power import POWER, resolution, smallest_p
    from retriever.files import InputError

    if len(names) > 2:
        raise InputError("a third run has no part in it", fix="give one run, or two")
    spreads, queries = _spreads(judged, names, correlation, quiet)
    metrics = {}
    for name, (deviation, n, is_rate, basis) in spreads.items():
        made = resolution(name, n, deviation, rate=is_rate, wanted=difference)
        metrics[name] = {
            "queries": n,
            "deviation": deviation,
            "basis": basis,
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
        "smallest_p": smallest_p(queries),
        "smallest_p_rate": smallest_p(queries, rate=True),
        "metrics": metrics,
    }


def _spreads(
    judged: "GoldSet", names: list[str], correlation: float, quiet: bool
) -> tuple[dict[str, tuple[float, int, bool, str]], int]:
    """Return for each metric (deviation of differences, queries, is a rate, where from)."""
    import numpy as np

    from experiments.comparison.figures import deviation_of
    from experiments.comparison.pairing import pair
    from experiments.comparison.power import CORRELATION, assumed_deviation
    from experiments.metrics import parse_measure

    made = found_or_made(names, judged.path, quiet=quiet, split=judged.split)
    runs = [_on(one.run, judged) for one in made]
    assumed = f"assumed correlation {correlation:g}"
    if not runs:
        n = sum(
            any(grade >= judged.relevant_from for grade in grades.values())
            for grades in judged.qrels.values()
        )
        widest = assumed_deviation(correlation=correlation)
        basis = f"no run given: the widest there is, {assumed}"
        # A rate and a mean at the widest spread that figures between 0 and 1 can have.
        spreads = {"hit@5": (widest, n, True, basis), "ndcg@10": (widest, n, False, basis)}
        return spreads, n
    if len(runs) == 2:
        pairing = pair(runs[0], runs[1])
        spreads = {}
        for measure in pairing.measures:
            one, other = pairing.values(measure)
            deviation, kind = deviation_of(measure, one, other)
            n = int((~np.isnan(other - one)).sum())
            if kind == "observed":
                basis = "observed between the two runs"
            else:
                basis = (
                    "the runs never differ: "
                    f"{_of_one_run(_spread(one))}, assumed correlation {CORRELATION:g}"
                )
            spreads[str(measure)] = (deviation, n, measure.is_rate, basis)
        return spreads, len(pairing.baseline_rows)
    table = runs[0].queries[runs[0].queries["scorable"]]
    spreads = {}
    for key in runs[0].record["metrics"]:
        values = table[key].dropna().to_numpy(np.float64)
        spread = _spread(values)
        spreads[key] = (
            assumed_deviation(spread or 0.5, correlation),
            len(values),
            parse_measure(key).is_rate,
            f"{_of_one_run(spread)}, {assumed}",
        )
    return spreads, len(table)


def _spread(values: "npt.NDArray[np.float64]") -> float:
    """Return the standard deviation of the figures of a run; 0 where it has no say."""
    known = values[values == values]  # NaN is not itself
    return float(known.std(ddof=1)) if len(known) > 1 else 0.0


def _of_one_run(spread: float) -> str:
    if spread:
        return "that of the run by query"
    return "the run has none (every query alike), so the widest there is"


def _on(run: "RecordedRun", judged: "GoldSet") -> "RecordedRun":
    from retriever.files import InputError

    if run.record["gold"]["digest"] != judged.digest:
        raise InputError(
            "the run was scored on another gold set, or the set has changed",
            path=run.path,
            fix="evaluate this gold set",
        )
    return run
