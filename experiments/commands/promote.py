"""`assay promote`: put a run's configuration in service, after its gate."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from experiments.commands.options import NEGATIVE, Json
from experiments.commands.terminal import print_json, print_text, say

if TYPE_CHECKING:
    from experiments.recorded import RecordedRun
    from experiments.tracking.registered import Holder


def promote(
    run: Annotated[str, typer.Argument(help="A run: its folder, MLflow run id or alias.")],
    alias: Annotated[str, typer.Option("--alias", help="Name it shall be found under.")],
    gate: Annotated[
        Path | None,
        typer.Option("--gate", help="Rules against the run that has the alias now."),
    ] = None,
    gold: Annotated[
        Path | None,
        typer.Option("--gold", help="Where the gold set is; default: where the run's was."),
    ] = None,
    no_gate: Annotated[bool, typer.Option("--no-gate", help="Promote without one.")] = False,
    experiment: Annotated[str, typer.Option("--experiment", help="MLflow experiment.")] = "assay",
    as_json: Json = False,
) -> None:
    """Register a run's configuration as an MLflow model, if its gate passes and a replay agrees."""
    from experiments.recorded import find_run
    from experiments.tracking.promotion import promote as register
    from experiments.tracking.registered import check_alias
    from experiments.tracking.store import check_tracking, default_tracking_uri, load_line
    from experiments.tracking.turns import one_promotion
    from retriever.files import InputError
    from retriever.store import store_folder

    if (gate is None) != no_gate:
        raise InputError(
            "a promotion has a gate or says that it has none", fix="--gate FILE, or --no-gate"
        )
    check_alias(alias)
    check_tracking(default_tracking_uri(store_folder()), experiment)
    found = find_run(run)
    if found.is_imported:
        raise InputError("an imported ranking has no configuration to promote", path=found.path)
    waits = f"another promotion to {alias} is under way: waiting for it"
    with one_promotion(alias, store_folder(), lambda: None if as_json else say(waits)):
        holder, judged = None, {"against": None, "headline": None, "gate": None}
        if gate is not None:
            holder, judged = _judged(found, alias, gate, as_json)
        against, verdict = judged["against"], judged["gate"]
        summary: dict[str, Any] = {"run": str(found.path), "alias": alias, **judged}
        summary["promoted"] = None
        if verdict is None or verdict["passed"]:
            tags = {"assay.config": str(found.record["config"]["fingerprint"])}
            if not as_json:
                say("asking the gold set again, of the model in a process of its own")
            tags |= {"assay.gate": str(gate), "assay.against": against or ""} if gate else {}
            done = register(
                found,
                alias,
                store_folder(),
                run_id=_run_id(run, found),
                experiment=experiment,
                tags=tags,
                gold=gold,
                judged_against=holder,
            )
            summary["promoted"] = {
                "model": done.model,
                "version": done.version,
                "run_id": done.run_id,
                "load": load_line(done.uri, f"models:/{done.model}@{done.alias}", store_folder()),
            }
    if as_json:
        print_json(summary)
    else:
        _print(summary)
    if summary["promoted"] is None:
        raise typer.Exit(NEGATIVE)


def _judged(
    found: "RecordedRun", alias: str, gate: Path, quiet: bool
) -> tuple["Holder", dict[str, Any]]:
    """Judge a run against the one that has the alias; without one, against itself, and say so.

    Returns who has the alias, and `against`, `gate` and `headline`: what the run gains or loses in
    the first metric.
    """
    from experiments.comparison.compare import compare_runs
    from experiments.comparison.gate import judge
    from experiments.comparison.gate_file import load_gate, refuse_unheld
    from experiments.comparison.pairing import pair
    from experiments.recorded import find_run
    from experiments.tracking.registered import holder_of
    from retriever.files import InputError

    rules = load_gate(gate)
    holder = holder_of(alias)
    if holder.version is not None and holder.run_id is None:
        raise InputError(
            f"alias {alias} points at version {holder.version}, which has no run to judge against",
            fix="point it at a version with one, or --no-gate",
        )
    baseline = found if holder.run_id is None else find_run(holder.run_id)
    if holder.run_id is None and not quiet:
        say(f"no run has the alias {alias} yet: rules that compare are judged against itself")
    for run in (baseline, found):
        refuse_unheld(rules, run.record["metrics"], str(run.path))
    made = compare_runs(baseline, [found])["comparisons"][0]
    metric = made["metric"]
    figures = {key: made["metrics"][metric][key] for key in ("baseline", "candidate", "difference")}
    return holder, {
        "against": holder.run_id,
        "headline": None if holder.run_id is None else {"metric": metric, **figures},
        "gate": judge(rules, pair(baseline, found), made, str(gate)).to_json(),
    }


def _run_id(name: str, found: "RecordedRun") -> str | None:
    """Return the MLflow run that the name stands for; None where it is a folder."""
    from experiments.tracking.registered import run_of_alias

    return None if Path(name).exists() else run_of_alias(name) or name


def _print(summary: dict[str, Any]) -> None:
    from reports.cells import verdict
    from reports.shortened import shorten_words

    done = summary["promoted"]
    for rule in (summary["gate"] or {"rules": []})["rules"]:
        word = verdict(rule, "ok", "BROKEN", "not judged")
        print_text(f"{word:<10} {rule['rule']}: {shorten_words(rule['detail'])}")
    for line in _headline(summary):
        print_text(line)
    if done is None:
        print_text(f"not promoted: {summary['alias']} stays where it was")
        return
    print_text(f"{summary['alias']} is version {done['version']} of the model {done['model']}")
    print_text(f"load it with: {done['load']}")


def _headline(summary: dict[str, Any]) -> list[str]:
    """Say what the first metric gains or loses: a gate lets small losses pass, and they add up."""
    figure = summary["headline"]
    if figure is None or figure["difference"] is None:
        return []
    metric, difference = figure["metric"], figure["difference"]
    told = f"{metric}: {figure['baseline']:.4f} to {figure['candidate']:.4f} ({difference:+.4f})"
    if difference >= 0:
        return [told]
    has_floor = any(
        rule["numbers"].get("metric") == metric and "at_least" in rule["numbers"]
        for rule in summary["gate"]["rules"]
    )
    lines = [f"{told}: lower than {summary['alias']} until now"]
    if not has_floor:
        lines.append(f"such losses add up: give the gate a floor of {metric} (at_least)")
    return lines
