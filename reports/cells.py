"""What the renderings of a comparison share: numbers and findings as short texts."""

import json
from collections.abc import Mapping
from typing import Any

__all__ = [
    "FIGURE_HEAD",
    "causes_of",
    "cut",
    "differences",
    "figure_cells",
    "left_over",
    "moved",
    "p_text",
    "path",
    "provenance",
    "ranx_note",
    "short",
    "signed",
    "stage",
    "system_cells",
    "verdict",
]

LONGEST_CELL = 200
FIGURE_HEAD = (
    "baseline",
    "candidate",
    "difference",
    "95 % interval",
    "p",
    "p (Holm)",
    "effect",
    "+ / = / −",
)


def verdict(rule: Mapping[str, Any], holds: str, broken: str, not_judged: str) -> str:
    """Return what stands for a gate's verdict; `passed` is None where nothing was judged."""
    if rule["passed"] is None:
        return not_judged
    return holds if rule["passed"] else broken


def differences(found: Mapping[str, Any]) -> list[dict[str, str]]:
    """Return a row a difference: kind, name, both values as text."""
    return [
        {
            "kind": kind,
            "name": str(name),
            "baseline": _value(change["baseline"]),
            "candidate": _value(change["candidate"]),
        }
        for kind, changes in found.items()
        if kind != "notes"
        for name, change in changes.items()
    ]


def _value(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return cut(text)


def stage(mover: Mapping[str, Any]) -> str:
    """Return where a query moved, with the lists."""
    if mover["stage"] is None:
        return ""
    if mover["stage"] == "beyond_first":
        return "a relevant document after the first"
    lists = f" ({', '.join(mover['lists'])})" if mover["lists"] else ""
    return f"{mover['stage']}{lists}"


def moved(mover: Mapping[str, Any]) -> str:
    """Return where a query moved in few words: of several lists how many, not which."""
    several = mover["stage"] is not None and len(mover["lists"]) > 1
    return f"{mover['stage']} ({len(mover['lists'])})" if several else stage(mover)


def path(mover: Mapping[str, Any]) -> str:
    """Return the ranks that differ, stage by stage: `merged 2 to 5, final 1 to 2`."""
    return ", ".join(
        f"{name} {_rank(rank['baseline'])} to {_rank(rank['candidate'])}"
        for name, rank in mover["ranks"].items()
        if rank["baseline"] != rank["candidate"]
    )


def _rank(rank: int | None) -> str:
    return "–" if rank is None else str(rank)


def causes_of(causes: Mapping[str, Any] | None) -> dict[str, str]:
    """Return what is shown of the causes of each query."""
    if causes is None or "queries" not in causes:
        return {}
    return {
        query["query_id"]: "; ".join(
            [
                *(" with ".join(names) for names in query["causes"]),
                *(f"{name} made alone" for name in query.get("made_alone", ())),
            ]
        )
        or ("not attributable" if query["reproduced"] else "not reproduced")
        for query in causes["queries"]
    }


def short(value: float | None, digits: int = 4) -> str:
    """Return a value with so many decimals, a dash for none."""
    return "–" if value is None else f"{value:.{digits}f}"


def signed(value: float | None, digits: int = 4) -> str:
    """Return a difference with its sign, a dash for none."""
    return "–" if value is None else f"{value:+.{digits}f}"


def p_text(value: float | None) -> str:
    """Return a p-value with three decimals, `<0.001` below them, a dash for none."""
    if value is None:
        return "–"
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def cut(text: str, most: int = LONGEST_CELL) -> str:
    """Return a text as one line of at most so many characters."""
    one_line = " ".join(str(text).split())
    return one_line if len(one_line) <= most else one_line[: most - 1] + "…"


def left_over(causes: Mapping[str, Any]) -> list[str]:
    """Say what has no verified cause, and what was not tried."""
    lines = []
    for kind in ("losses", "gains"):
        counts = causes[kind]
        if counts["not_attributable"]:
            lines.append(
                f"{counts['not_attributable']} of {counts['queries']} {kind}: not attributable to "
                "any one difference or pair"
            )
        if counts["not_reproduced"]:
            lines.append(
                f"{counts['not_reproduced']} of {counts['queries']} {kind}: not reproduced here "
                "(other code or models), so nothing was tried"
            )
    lines += [f"not tried: {name}: {reason}" for name, reason in causes["untried"].items()]
    if causes["pairs"]["left_out"]:
        lines.append(f"{causes['pairs']['left_out']} pairs of differences were not tried")
    if not lines and not causes["summary"]:
        lines.append("no query moved")
    return lines


def figure_cells(figure: Mapping[str, Any]) -> list[str]:
    """Return a figure as the eight cells of FIGURE_HEAD."""
    interval = (
        "–" if figure["low"] is None else f"{signed(figure['low'])} to {signed(figure['high'])}"
    )
    return [
        short(figure["baseline"]),
        short(figure["candidate"]),
        signed(figure["difference"]),
        interval,
        p_text(figure["p_value"]),
        p_text(figure["p_adjusted"]),
        signed(figure["effect_size"], 2),
        f"{figure['wins']} / {figure['ties']} / {figure['losses']}",
    ]


def system_cells(row: Mapping[str, Any]) -> list[str]:
    """Return letter, label and, by metric, the value with the letters of the runs it beats."""
    figures = row["metrics"].values()
    values = [f"{short(f['value'])} {''.join(sorted(f['better_than']))}".strip() for f in figures]
    return [row["letter"], row["label"], *values]


def ranx_note(ranx: Mapping[str, Any]) -> str:
    """Say what the table of ranx.compare rests on, and what it leaves out."""
    note = (
        f"ranx {ranx['version']} compare: {ranx['test']} of all pairs over {ranx['queries']} "
        f"queries. A letter marks a run that is worse with p ≤ {ranx['level']:g}; its p-values are "
        "not corrected for their number."
    )
    left_out = ", ".join(ranx["left_out"])
    return f"{note} Not computed by ranx: {left_out}." if left_out else note


def provenance(comparison: Mapping[str, Any]) -> list[str]:
    """Say of which runs an earlier evaluation was used again."""
    runs = [comparison["baseline"], *(found["candidate"] for found in comparison["comparisons"])]
    return [
        f"{run['label']}: the run of {run['created']} was used again, {run['run']} "
        "(--again evaluates anew)"
        for run in runs
        if run.get("source") == "reused"
    ]
