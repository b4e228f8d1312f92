"""An evaluation as a table on the terminal."""

import shlex
from collections.abc import Mapping
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from experiments.counting import counted
from experiments.evaluate import Evaluation
from experiments.screen import Screen, screen
from reports.shortened import shortened

__all__ = ["print_evaluation", "print_record"]

_MEANINGS = {"route_skipped_collection": " (not in the index)"}


def print_evaluation(evaluation: Evaluation) -> None:
    """Print an evaluation to the terminal."""
    print_record(evaluation.record, screen(), shlex.quote(str(evaluation.path)))


def print_record(record: Mapping[str, Any], console: Screen, run: str = "RUN") -> None:
    """Print what run.json says: the figures by query type, and everything that was not plain.

    `run` is the run's name on a command line.
    """
    gold = record["gold"]
    title = f"{gold['name']} {gold['version']} {gold['split']}, 95 % intervals"
    table = Table(box=box.SIMPLE_HEAD)
    table.add_column("type")
    table.add_column("queries", justify="right")
    for name in record["metrics"]:
        table.add_column(name, justify="right")
    groups = record["by_type"]
    if len(groups) > 1:
        for group, of_group in groups.items():
            table.add_row(shortened(group), str(of_group["queries"]), *_cells(of_group["metrics"]))
        table.add_section()
    table.add_row("all", str(record["queries"]), *_cells(record["metrics"]))
    # A line of a table is padded to its width, and the box has an empty first line.
    with console.capture() as captured:
        console.print(table)
    lines = [line.rstrip() for line in captured.get().splitlines()]
    console.print(title)
    # What rich wrote holds its own codes alone, which it reads again.
    console.print(Text.from_ansi("\n".join(lines).strip("\n")), soft_wrap=True)
    for line in _remarks(record, run):
        # The terminal wraps, so that a command can be copied; a recorded picture cannot.
        console.print(line, soft_wrap=not console.record)


def _cells(metrics: Mapping[str, Mapping[str, Any]]) -> list[str]:
    cells = []
    for figure in metrics.values():
        if figure["value"] is None:
            cells.append("-")
        elif figure["low"] is None:
            cells.append(f"{_short(figure['value'])}\n(too few)")
        else:
            interval = f"{_short(figure['low'])} to {_short(figure['high'])}"
            cells.append(f"{_short(figure['value'])}\n{interval}")
    return cells


def _short(value: float) -> str:
    return f"{value:.3f}".removeprefix("0") if value < 1 else f"{value:.2f}"


def _remarks(record: Mapping[str, Any], run: str) -> list[str]:
    remarks = [
        f"unanswered {record['unanswered']} (score 0), unscorable {record['unscorable']} (no "
        "relevant document, left out)"
    ]
    if unjudged := record.get("unjudged"):
        remarks.append(f"{unjudged} without a judgement in this split, left out")
    sample = (record["index"] or {}).get("sample")
    if sample:
        remarks.append(
            f"the index is a sample: {sample['documents']} of {counted(sample['of'], 'document')}; "
            "relevant ones outside it count as not found"
        )
    classes = [f"{name} {count}" for name, count in (record.get("classes") or {}).items() if count]
    if classes:
        failing = any(n for name, n in record["classes"].items() if name != "ok")
        why = f"; why: assay diagnose {run}" if failing else ""
        remarks.append(f"{', '.join(classes)}{why}")
    undefined = {
        name: figure["undefined"]
        for name, figure in record["metrics"].items()
        if figure["undefined"]
    }
    remarks += [
        f"{name}: undefined for {counted(n, 'query')}, left out" for name, n in undefined.items()
    ]
    ignored = record["system"].get("ignored_queries") or []
    if ignored:
        more = ", …" if len(ignored) > 5 else ""
        few = ", ".join(map(shortened, ignored[:5])) + more
        verbs = "is not judged and was" if len(ignored) == 1 else "are not judged and were"
        remarks.append(f"{counted(len(ignored), 'query')} of the run {verbs} ignored: {few}")
    remarks += [
        f"{event}: {count}{_MEANINGS.get(event, '')}"
        for event, count in record["fallbacks"].items()
    ]
    latency = record["latency_ms"]
    if latency:
        total = latency["stages"]["total"]
        remarks.append(
            f"latency over {counted(latency['queries'], 'single query')}: "
            f"p50 {total['p50']:.1f} ms, p95 {total['p95']:.1f} ms, p99 {total['p99']:.1f} ms"
        )
    return remarks
