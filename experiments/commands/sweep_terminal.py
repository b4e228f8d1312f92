"""What a sweep shows on the terminal: trials while they run, and the summary at its end."""

import json
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from experiments.commands.terminal import Lines, print_text, say
from experiments.counting import counted
from reports.conditional import conditional_in_words

if TYPE_CHECKING:
    from experiments.sweep.procedure import Sweep

__all__ = ["show_sweep", "trial_progress"]

FAULTS_SHOWN = 5
FRONT_SHOWN = 10


def show_sweep(found: "Sweep") -> None:
    """Print the summary of a finished sweep: figures by part, verdict, what the chosen changes."""
    record = found.record
    searches = (
        f", in the last of {record['folds'] + 1} searches ({record['folds']} folds and all queries)"
        if record["folds"]
        else ""
    )
    print_text(
        f"{counted(record['finished'], 'trial')} finished, {record['unique']} distinct, "
        f"{record['failed']} failed{searches}"
    )
    print_text(
        f"{counted(len(record['parameters_swept']), 'parameter')} swept, of which "
        f"{conditional_in_words(record['conditional'])}"
    )
    if record["inert"]:
        print_text(
            f"inert: {counted(len(record['inert']), 'parameter')}, each with its reason in "
            f"{found.path / 'sweep.json'} and on the page"
        )
    name = record["objective"][0]
    for part in ("train", "validation", "test"):
        figures = record[part]
        chosen = "chosen by the folds" if record["folds"] and part == "test" else "chosen"
        print_text(
            f"{part:<10} {counted(figures['queries'], 'query'):>13}  {name} default "
            f"{figures['default']:.4f}  {chosen} {figures['chosen']:.4f}"
        )
    if record["folds"]:
        print_text(
            f"test: every query, each judged with what the other folds chose ({record['folds']} "
            "folds); train and validation: all queries divided once more, for the configuration "
            "given out"
        )
    if len(record["objective"]) > 1:
        _show_objectives(record)
    if record["pareto"]:
        _show_front(record)
    for failure in record["failures"][:FAULTS_SHOWN]:
        print_text(f"failed: {counted(len(failure['trials']), 'trial')}: {failure['reason']}")
    gap, on_test = record["overfit_gap"], record["test"]["difference"]
    where = "the folds' train" if record["folds"] else "train"
    print_text(
        f"gained on train and not on test: {gap:+.4f} ({where} {gap + on_test:+.4f}, test "
        f"{on_test:+.4f})"
    )
    print_text(f"verdict: {record['verdict_in_words']}")
    best = record["best"]
    if best["changed"]:
        print_text(f"chosen: {best['name']}, {name} on train {best['train']:.4f}")
    if best["changed"] and record["verdict"] == "better":
        print_text(f"best configuration: {best['config']}")
    elif best["changed"]:
        print_text(f"chosen, and not shown to be better than the default: {best['config']}")
    else:
        print_text(f"the default was kept, nothing is changed: {best['config']}")
    _show_changes(best)


def _show_changes(best: Mapping[str, Any]) -> None:
    """Print what the chosen configuration changes, the default's values beside its own."""
    if not best["differences"]:
        return
    print_text("changed:")
    for path, values in best["differences"].items():
        default, chosen = (json.dumps(values[one]) for one in ("default", "chosen"))
        print_text(f"  {path}: {default} -> {chosen}")


def _trial_lines(trials: int) -> Any:
    """Return a progress that says every half minute how many trials of a study are finished."""
    due = time.monotonic() + Lines.EVERY_SECONDS

    def progress(counts: Any, best: float | None) -> None:
        nonlocal due
        if time.monotonic() >= due and counts.finished < trials:
            due = time.monotonic() + Lines.EVERY_SECONDS
            about = "" if best is None else f", best {best:.4f}"
            say(f"trials: {counts.finished} of {trials}{about}")

    return progress


def _show_objectives(record: Mapping[str, Any]) -> None:
    """Print what both configurations score on test by every objective."""
    first = record["objective"][0]
    print_text(f"chosen by {first}, which the verdict is of; on test, without a verdict:")
    for name, one in record["objectives"].items():
        if name != first:
            print_text(
                f"  {name}: default {one['default']:.4f}  chosen {one['chosen']:.4f}  "
                f"{one['difference']:+.4f}"
            )


def _show_front(record: Mapping[str, Any]) -> None:
    """Print the trials that no other beats in every objective, the best in the first one first."""
    front = sorted(record["pareto"], key=lambda one: [-value for value in one["values"]])
    best = record["best"]
    on_front = best["is_trial"] and best["trial"] in {one["trial"] for one in front}
    print_text(
        f"front on train: {counted(len(front), 'trial')} ({', '.join(record['objective'])}); "
        f"the chosen, {best['name']}, is {'' if on_front else 'not '}one of them"
    )
    for one in front[:FRONT_SHOWN]:
        values = "  ".join(f"{value:.4f}" for value in one["values"])
        chosen = "  chosen" if on_front and one["trial"] == best["trial"] else ""
        print_text(f"  trial {one['trial']:>4}  {values}{chosen}")
    if len(front) > FRONT_SHOWN:
        print_text(f"  and {len(front) - FRONT_SHOWN} more in sweep.json and on the page")


@contextmanager
def trial_progress(trials: int, quiet: bool) -> Iterator[Any]:
    """Offer `progress(counts, best)`: trials a second, the best so far, time left."""
    if quiet or not sys.stderr.isatty():
        yield (lambda counts, best: None) if quiet else _trial_lines(trials)
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Left

    from experiments.screen import screen

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Left())
    with Progress(*columns, console=screen(stderr=True), transient=True) as bars:
        task = bars.add_task("trials", total=trials)
        begin, first = time.monotonic(), -1

        def progress(counts: Any, best: float | None) -> None:
            nonlocal begin, first
            if first < 0 or counts.finished < first:
                begin, first = time.monotonic(), counts.finished
            speed = (counts.finished - first) / max(1e-9, time.monotonic() - begin)
            about = "" if best is None else f", best {best:.4f}"
            bars.update(task, completed=counts.finished, description=f"{speed:.1f} trials/s{about}")

        yield progress
