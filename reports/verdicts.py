"""Failure classes and causes of a run, as its tables and failures.json tell them.

queries.parquet holds what the run itself could say: its causes are hypotheses. failures.json,
where there is one, holds the causes that were tried and takes their place. A cause whose replay
let the query pass is verified; one that was replayed in vain stays a hypothesis, told apart from
those that nothing has tried.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reports.faults import InputError
from reports.run_directory import RunDirectory

__all__ = ["STATUSES", "Verdicts", "WorkItem", "read_verdicts"]

# As the page tells them apart; a run says `hypothesis` of the last two, `refuted` of the last.
STATUSES = ("verified", "untried", "insufficient")
GIVEN = ("verified", "hypothesis", "refuted")
UNSCORABLE, UNCLASSIFIED = "unscorable", "not_classified"
# Evidence that the page draws from the tables.
DRAWN = frozenset({"gold", "above", "more", "plans"})
LONGEST_EVIDENCE = 400
_AGAIN = "diagnose anew"


@dataclass(frozen=True)
class WorkItem:
    """One thing to mend in the data.

    `rows` are the queries it concerns; `verified` of them passed when it was mended, with the
    others that was not tried.
    """

    item: str
    cause: str
    rows: Sequence[int]
    verified: int


@dataclass(frozen=True)
class Verdicts:
    """Verdicts by query, in the order of queries.parquet.

    `causes` holds for each query triples (number in `advice`, number in STATUSES, evidence text);
    `advice` pairs of a cause and what to do about it. `searched` names the lists of the query,
    `evidence` is what else is known; both are text.
    """

    classified: bool
    classes: Sequence[str]
    subclasses: Sequence[str | None]
    lost_at: Sequence[str | None]
    causes: Sequence[Sequence[tuple[int, int, str]]]
    searched: Sequence[str | None]
    evidence: Sequence[str]
    advice: Sequence[tuple[str, str]]
    work_items: Sequence[WorkItem]


def read_verdicts(run: RunDirectory) -> Verdicts:
    """Return the verdicts of a run. Raises InputError where causes are no JSON of their form."""
    table = run.queries
    names = table.column_names
    count = len(table)
    query_ids = table.column("query_id").to_pylist()
    scorable = table.column("scorable").to_pylist()
    tried = _tried(run)

    def column(name: str) -> list[Any]:
        return table.column(name).to_pylist() if name in names else [None] * count

    classes = [
        given or (UNCLASSIFIED if counts else UNSCORABLE)
        for given, counts in zip(column("class"), scorable, strict=True)
    ]
    number: dict[tuple[str, str], int] = {}
    causes = []
    for query_id, own in zip(query_ids, column("causes"), strict=True):
        listed = tried.get(query_id, {}).get("causes")
        found = listed if listed is not None else _json(run, query_id, own, [])
        causes.append(_causes(run, query_id, found, number))
    evidence = [
        _evidence(run, query_id, text)
        for query_id, text in zip(query_ids, column("evidence"), strict=True)
    ]
    return Verdicts(
        classified="class" in names,
        classes=classes,
        subclasses=column("subclass"),
        lost_at=column("lost_at"),
        causes=causes,
        searched=[_searched(one) for one in evidence],
        evidence=[_rest(one) for one in evidence],
        advice=list(number),
        work_items=_work_items(run, query_ids),
    )


def _tried(run: RunDirectory) -> Mapping[str, Mapping[str, Any]]:
    """Return failures.json by query."""
    return {str(one.get("query_id")): one for one in _listed(run, "queries")}


def _work_items(run: RunDirectory, query_ids: Sequence[str]) -> list[WorkItem]:
    row_of = {query_id: row for row, query_id in enumerate(query_ids)}
    found = [
        WorkItem(
            item=str(one.get("item")),
            cause=str(one.get("cause")),
            rows=[row_of[name] for name in _names(run, one, "queries") if name in row_of],
            verified=len(_names(run, one, "verified")),
        )
        for one in _listed(run, "work_items")
    ]
    return sorted(found, key=lambda item: item.verified == 0)


def _listed(run: RunDirectory, key: str) -> Sequence[Mapping[str, Any]]:
    """Return a list of objects of failures.json; empty where there is no such file or list."""
    listed = (run.failures or {}).get(key, [])
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
        raise InputError(
            f"expected a list of objects as {key}", path=run.path / "failures.json", fix=_AGAIN
        )
    return listed


def _names(run: RunDirectory, item: Mapping[str, Any], key: str) -> Sequence[str]:
    """Return a list of query ids of a work item; empty where it has none."""
    names = item.get(key, [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InputError(
            f"work_items: expected a list of query ids as {key}",
            path=run.path / "failures.json",
            fix=_AGAIN,
        )
    return names


def _causes(
    run: RunDirectory, query_id: str, listed: Any, number: dict[tuple[str, str], int]
) -> list[tuple[int, int, str]]:
    causes = []
    for one in listed if isinstance(listed, list) else [None]:
        given = one.get("status") if isinstance(one, dict) else None
        if one is None or given not in GIVEN:
            raise InputError(
                f"query {query_id}: a cause needs one of the statuses {', '.join(GIVEN)}, "
                f"got {given!r}",
                path=run.path,
                fix=_AGAIN,
            )
        replayed = one.get("replayed")
        status = GIVEN.index(given)
        if given == "hypothesis" and replayed:
            status = STATUSES.index("insufficient")
        key = (str(one.get("cause")), str(one.get("advice") or ""))
        place = number.setdefault(key, len(number))
        evidence = one.get("evidence") or {}
        if not isinstance(evidence, dict):
            raise InputError(
                f"query {query_id!r:.80}: the evidence of a cause is no object",
                path=run.path,
                fix=_AGAIN,
            )
        told = evidence | {"after the change": replayed} if replayed else evidence
        causes.append((place, status, _short(told)))
    return causes


def _evidence(run: RunDirectory, query_id: str, text: str | None) -> Mapping[str, Any]:
    """Return what a query's row says of it, an object whose plans name their lists."""
    found = _json(run, query_id, text, {})
    plans = found.get("plans") or [] if isinstance(found, dict) else None
    if not isinstance(plans, list) or not all(
        isinstance(plan, dict) and "list" in plan for plan in plans
    ):
        raise InputError(
            f"query {query_id!r:.80}: evidence is not of its form",
            path=run.path / "queries.parquet",
            fix="evaluate anew",
        )
    return found  # type: ignore[no-any-return]


def _searched(evidence: Any) -> str | None:
    plans = evidence.get("plans") if evidence else None
    return ", ".join(str(plan["list"]).replace(":", " ") for plan in plans) if plans else None


def _rest(evidence: Any) -> str:
    kept = {k: v for k, v in evidence.items() if k not in DRAWN} if evidence else None
    return _short(kept)


def _short(value: Any) -> str:
    """Return evidence as one line of text: `key: value`, cut where it is long."""
    if not value:
        return ""
    if isinstance(value, dict):
        text = "; ".join(f"{key}: {_plain(one)}" for key, one in value.items())
    else:
        text = _plain(value)
    return text if len(text) <= LONGEST_EVIDENCE else f"{text[: LONGEST_EVIDENCE - 1]}…"


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        told = {key: one for key, one in value.items() if one not in (None, [], {})}
        return ", ".join(f"{key} {_plain(one)}" for key, one in told.items()) or "none"
    if isinstance(value, list):
        return ", ".join(map(_plain, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _json(run: RunDirectory, query_id: str, text: str | None, empty: Any) -> Any:
    if not text:
        return empty
    try:
        return json.loads(text)
    except ValueError as error:
        raise InputError(
            f"query {query_id}: no JSON: {error}",
            path=run.path / "queries.parquet",
            fix="evaluate anew",
        ) from error
