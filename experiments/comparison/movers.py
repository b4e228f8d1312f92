"""Which queries moved between two runs, at which stage, and from which class to which."""

from typing import Any

import numpy as np
import pandas as pd

from experiments.comparison.pairing import Pairing
from experiments.comparison.significance import TIE
from experiments.metrics import Measure

__all__ = ["BEYOND_FIRST", "class_flow", "moved_at", "movers"]

# The best-ranked relevant document stayed where it was at every stage; another one moved.
BEYOND_FIRST = "beyond_first"
# Every list is one stage here: which of them moved is said beside it.
LISTS = "lists"
LATER = ("supplement", "merged", "injected", "reranked", "final")
PREFIX = "gold_rank:"


def movers(pairing: Pairing, measure: Measure, most: int) -> list[dict[str, Any]]:
    """Return the `most` queries whose figure moved furthest, by size of the move and then by id.

    Each has query_id, text, type, critical, baseline, candidate, difference, `ranks` (the best
    rank of a relevant document after every stage, in both runs), and `stage`, `lists`: where it
    moved; None where a run has no stages.
    """
    one, other = pairing.values(measure)
    difference = np.nan_to_num(other - one)
    ids = pairing.query_ids
    order = sorted(
        np.flatnonzero(np.abs(difference) > TIE), key=lambda i: (-abs(difference[i]), ids[i])
    )
    rows = order[:most]
    ours = pairing.baseline.queries.iloc[pairing.baseline_rows[rows]]
    theirs = pairing.candidate.queries.iloc[pairing.candidate_rows[rows]]
    types = pairing.types
    found = []
    for place, i in enumerate(rows):
        before, after = ours.iloc[place], theirs.iloc[place]
        ranks = _ranks(before, after)
        stage, lists = moved_at(ranks)
        found.append(
            {
                "query_id": ids[i],
                "text": str(before["text"]),
                "type": types[i],
                "critical": bool(before["critical"]),
                "baseline": float(one[i]),
                "candidate": float(other[i]),
                "difference": float(difference[i]),
                "class_before": _text(before, "class"),
                "class_after": _text(after, "class"),
                "stage": stage,
                "lists": lists,
                "ranks": ranks,
            }
        )
    return found


def moved_at(ranks: dict[str, dict[str, int | None]]) -> tuple[str | None, list[str]]:
    """Return the stage at which the relevant document left its place for good, and which lists.

    Read from the end: the earliest stage from which on the ranks of the two runs differ all the
    way. A difference that a later stage levelled out moved nothing. `lists` stands for all
    searches together. None without stages, `beyond_first` where the best rank never moved.
    """
    if not ranks:
        return None, []
    differs = {name for name, rank in ranks.items() if rank["baseline"] != rank["candidate"]}
    stage: str | None = None
    for name in reversed(LATER):
        if name == "supplement" or name not in ranks:
            continue  # the supplement is a side branch: it reaches the order through inject alone
        if name not in differs:
            break
        stage = name
    lists = [name for name in ranks if name in differs and name not in LATER]
    if stage is None:
        return BEYOND_FIRST, []
    if stage == "merged" and lists:
        return LISTS, lists
    if stage == "injected" and "supplement" in differs:
        return "supplement", []
    return stage, []


def _ranks(before: "pd.Series[Any]", after: "pd.Series[Any]") -> dict[str, dict[str, int | None]]:
    """Best gold rank by stage in both runs, searches first and then in the order of the stages."""
    names = {
        str(c).removeprefix(PREFIX)
        for c in (*before.index, *after.index)
        if str(c).startswith(PREFIX)
    }
    ordered = [*sorted(names - set(LATER)), *(name for name in LATER if name in names)]
    return {
        name: {"baseline": _rank(before, name), "candidate": _rank(after, name)} for name in ordered
    }


def _rank(row: "pd.Series[Any]", name: str) -> int | None:
    value = row.get(PREFIX + name)
    return None if value is None or pd.isna(value) else int(value)


def _text(row: "pd.Series[Any]", name: str) -> str | None:
    value = row.get(name)
    return value if isinstance(value, str) else None


def class_flow(pairing: Pairing, shown: int = 20) -> list[dict[str, Any]] | None:
    """Return how many queries went from which failure class to which: from, to, queries, ids.

    Every pair of classes that occurs is there, those that stayed too, in order of the names; `ids`
    holds at most `shown` of a pair that moved. None where a run was not classified.
    """
    tables = [pairing.baseline.queries, pairing.candidate.queries]
    if any("class" not in table or table["class"].isna().all() for table in tables):
        return None
    one = tables[0]["class"].to_numpy()[pairing.baseline_rows]
    other = tables[1]["class"].to_numpy()[pairing.candidate_rows]
    flow: dict[tuple[str, str], list[str]] = {}
    for query_id, before, after in zip(pairing.query_ids, one, other, strict=True):
        flow.setdefault((str(before), str(after)), []).append(query_id)
    return [
        {
            "from": before,
            "to": after,
            "queries": len(ids),
            "ids": sorted(ids)[:shown] if before != after else [],
        }
        for (before, after), ids in sorted(flow.items())
    ]
