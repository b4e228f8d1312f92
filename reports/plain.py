"""A comparison as plain text, for a terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

from reports.cells import (
    FIGURE_HEAD,
    causes_of,
    cut,
    figure_cells,
    left_over,
    provenance,
    ranx_note,
    short,
    stage,
    system_cells,
    verdict,
)
from reports.shortened import shorten_words, shortened
from reports.visible import visible

__all__ = ["to_text"]

Comparison = Mapping[str, Any]


def to_text(comparison: Comparison) -> str:
    """Return what a terminal shows."""
    lines = [*provenance(comparison)]
    for found in comparison["comparisons"]:
        lines += _text_of(comparison["baseline"]["label"], found, comparison)
    if comparison["systems"]:
        systems = comparison["systems"]
        names = list(systems["rows"][0]["metrics"])
        rows = [system_cells(row) for row in systems["rows"]]
        lines += [*_aligned(["", "run", *names], rows)]
        lines.append(
            f"a letter marks a run that is significantly worse (Holm over {systems['tests']} tests)"
        )
    ranx = comparison.get("ranx")
    if ranx and "reason" in ranx:
        lines += ["", f"no table by ranx: {ranx['reason']}"]
    elif ranx:
        lines += ["", ranx["table"], ranx_note(ranx)]
    return visible("\n".join(lines))


def _text_of(base: str, found: Mapping[str, Any], comparison: Comparison) -> list[str]:
    lines = [f"{cut(base)} against {cut(found['candidate']['label'])}", *found["headline"], ""]
    head = ["metric", *FIGURE_HEAD, "detectable"]
    rows = [
        [name, *figure_cells(figure), short(found["smallest_detectable"][name])]
        for name, figure in found["metrics"].items()
    ]
    lines += _aligned(head, rows)
    lines.append(f"Holm over {comparison['families']['overall']} tests")
    metric = found["metric"]
    groups = found["by_type"]
    if len(groups) > 1:
        rows = [
            [name, str(group["queries"]), *figure_cells(group["metrics"][metric])]
            for name, group in groups.items()
        ]
        lines += ["", f"{metric} by type", *_aligned(["type", "queries", *head[1:-1]], rows)]
    of_query = causes_of(found["causes"])
    if found["movers"]:
        rows = [
            [
                shortened(m["query_id"], 48),
                cut(m["text"], 48),
                short(m["baseline"]),
                short(m["candidate"]),
                stage(m),
                of_query.get(m["query_id"], ""),
            ]
            for m in found["movers"]
        ]
        head = ["query", "text", "baseline", "candidate", "moved at", "verified cause"]
        lines += ["", f"moved most ({metric})", *_aligned(head, rows)]
    causes = found["causes"]
    if causes is not None and "reason" in causes:
        lines += ["", f"causes not tried: {causes['reason']}"]
    elif causes is not None:
        lines += ["", *map(shorten_words, [*causes["summary"], *left_over(causes)])]
    for cell in found["flow"] or []:
        if cell["from"] != cell["to"]:
            lines.append(
                f"{cell['queries']} from {cell['from']} to {cell['to']}: "
                f"{cut(shorten_words(', '.join(cell['ids'])), 100)}"
            )
    if found["gate"] is not None:
        lines += ["", f"gate {'passed' if found['gate']['passed'] else 'BROKEN'}"]
        for rule in found["gate"]["rules"]:
            word = verdict(rule, "ok", "BROKEN", "not judged")
            lines.append(f"  {word:<10} {rule['rule']}: {shorten_words(rule['detail'])}")
    return [*lines, ""]


def _aligned(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    table = [[cut(visible(str(cell))) for cell in line] for line in (head, *rows)]
    widths = [max(len(line[i]) for line in table) for i in range(len(head))]
    return [
        "  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip()
        for line in table
    ]
