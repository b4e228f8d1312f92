"""A comparison as Markdown, for the comment on a pull request."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from reports.cells import (
    FIGURE_HEAD,
    causes_of,
    cut,
    differences,
    figure_cells,
    left_over,
    provenance,
    ranx_note,
    short,
    stage,
    system_cells,
    verdict,
)
from reports.visible import visible

__all__ = ["LONGEST_MARKDOWN", "to_markdown"]

# GitHub refuses a comment of more than 65,536 characters.
LONGEST_MARKDOWN = 60_000

Comparison = Mapping[str, Any]


def to_markdown(comparison: Comparison) -> str:
    """Return Markdown of under 60,000 characters: long tables are cut, and say so."""
    parts: list[tuple[str, list[str]]] = []
    base = comparison["baseline"]["label"]
    for found in comparison["comparisons"]:
        parts += _markdown_of(base, found, comparison)
    if comparison["systems"]:
        parts.append(("", _systems_lines(comparison["systems"])))
    if comparison.get("ranx"):
        parts.append(("ranx's table", _ranx_lines(comparison["ranx"])))
    if used_again := provenance(comparison):
        parts.append(("runs used again", [*(f"{_md(line)}  " for line in used_again), ""]))
    room = LONGEST_MARKDOWN - 200
    whole = "\n".join(line for _, lines in parts for line in lines)
    if len(whole) <= room:
        return whole + "\n"
    # Every table gives up rows from its end until all fits; heads and verdicts stay longest.
    kept: list[str] = []
    left = room
    for name, lines in parts:
        budget = max(left // max(1, len(parts) - len(kept)), 0)
        taken: list[str] = []
        size = 0
        for line in lines:
            if size + len(line) + 1 > budget:
                taken.append(
                    f"… {len(lines) - len(taken)} more lines of {name or 'this table'} left out"
                )
                break
            taken.append(line)
            size += len(line) + 1
        left -= sum(len(line) + 1 for line in taken)
        kept.append("\n".join(taken))
    return "\n".join(kept)[: LONGEST_MARKDOWN - 1] + "\n"


def _markdown_of(
    base: str, found: Mapping[str, Any], comparison: Comparison
) -> list[tuple[str, list[str]]]:
    gate, label = found["gate"], found["candidate"]["label"]
    sign = "" if gate is None else "✅ " if gate["passed"] else "❌ "
    parts = [("head", [f"## {sign}{_md(base)} against {_md(label)}", ""])]
    parts.append(("verdict", [*(f"{_md(line, 2000)}  " for line in found["headline"]), ""]))
    if gate is not None:
        rows = [
            [verdict(r, "✅", "❌", "not judged"), r["rule"], cut(r["detail"], 400)]
            for r in gate["rules"]
        ]
        parts.append(("the gate", ["### Gate", "", *_table(["", "rule", "numbers"], rows), ""]))
    head = ["metric", *FIGURE_HEAD, "detectable"]
    rows = [
        [name, *figure_cells(figure), short(found["smallest_detectable"][name])]
        for name, figure in found["metrics"].items()
    ]
    families = comparison["families"]
    note = (
        f"{found['queries']} queries. Holm over {families['overall']} tests; by type over "
        f"{families['by_type']}. Detectable: true difference found with probability 0.8."
    )
    parts.append(("the figures", [*_table(head, rows), "", note, ""]))
    metric = found["metric"]
    rows = [
        [name, str(group["queries"]), *figure_cells(group["metrics"][metric])]
        for name, group in found["by_type"].items()
    ]
    head = ["type", "queries", *head[1:-1]]
    parts.append(("types", [f"### {metric} by type", "", *_table(head, rows), ""]))
    parts.append(("causes", _causes_lines(found["causes"])))
    if found["flow"] is not None:
        rows = [
            [c["from"], c["to"], str(c["queries"]), cut(", ".join(c["ids"]))]
            for c in found["flow"]
            if c["from"] != c["to"]
        ]
        lines = (
            _table(["from", "to", "queries", ""], rows) if rows else ["No query left its class."]
        )
        parts.append(("class flow", ["### Class flow", "", *lines, ""]))
    of_query = causes_of(found["causes"])
    rows = [
        [
            m["query_id"],
            m["text"],
            m["type"],
            short(m["baseline"]),
            short(m["candidate"]),
            stage(m),
            of_query.get(m["query_id"], ""),
        ]
        for m in found["movers"]
    ]
    head = ["query", "text", "type", "baseline", "candidate", "moved at", "verified cause"]
    if rows:
        parts.append(
            ("movers", [f"### Queries that moved most ({metric})", "", *_table(head, rows), ""])
        )
    rows = [
        [d["kind"], d["name"], d["baseline"], d["candidate"]]
        for d in differences(found["differences"])
    ]
    lines = (
        _table(["", "what", "baseline", "candidate"], rows)
        if rows
        else ["Nothing recorded differs."]
    )
    notes = [_md(note) for note in found["differences"]["notes"]]
    parts.append(("differences", ["### What differs", "", *lines, "", *notes]))
    return parts


def _causes_lines(causes: Mapping[str, Any] | None) -> list[str]:
    if causes is None:
        return []
    if "reason" in causes:
        return ["### Verified causes", "", f"Not tried: {_md(causes['reason'])}", ""]
    lines = ["### Verified causes", "", *(f"- {_md(line)}" for line in causes["summary"])]
    lines += [f"- {_md(line)}" for line in left_over(causes)]
    return [*lines, ""]


def _systems_lines(systems: Mapping[str, Any]) -> list[str]:
    rows = systems["rows"]
    names = list(rows[0]["metrics"])
    cells = [system_cells(row) for row in rows]
    note = (
        f"A letter marks a run that is significantly worse ({systems['alpha']:g}, Holm over "
        f"{systems['tests']} tests)."
    )
    return ["### All runs", "", *_table(["", "run", *names], cells), "", note, ""]


def _ranx_lines(ranx: Mapping[str, Any]) -> list[str]:
    if "reason" in ranx:
        return ["### By ranx", "", f"No table: {_md(ranx['reason'])}", ""]
    rows = [system_cells(row) for row in ranx["rows"]]
    head = ["", "run", *ranx["rows"][0]["metrics"]]
    return ["### By ranx", "", *_table(head, rows), "", _md(ranx_note(ranx), 2000), ""]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *rows]
    return ["| " + " | ".join(_md(cell) for cell in line) + " |" for line in lines]


def _md(text: object, most: int = 400) -> str:
    """Escape what Markdown, or the HTML in it, would take for markup, a mention or a reference."""
    escaped = cut(visible(str(text)), most)
    for sign, written in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        escaped = escaped.replace(sign, written)
    escaped = re.sub(r"([\\`*_\[\]|~])", r"\\\1", escaped)
    return re.sub(r"(?<!\w)([@#])(?=\w)", "\\1\u2060", escaped)
