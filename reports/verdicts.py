"""Failure classes and causes of a run, as its tables and failures.json tell them.

queries.parquet holds what the run itself could say: its causes are hypotheses. failures.json,
where there is one, holds the causes that were tried and takes their place.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from reports.faults import InputError
from reports.run_directory import RunDirectory

__all__ = ["STATUSES", "Verdicts", "read_verdicts"]

STATUSES = ("verified", "hypothesis", "refuted")
UNSCORABLE, UNCLASSIFIED = "unscorable", "not_classified"
# Evidence that the page draws from the tables, or that is too long to read.
DRAWN = frozenset({"gold", "above"})
LONGEST_EVIDENCE = 400


@dataclass(frozen=True)
class Verdicts:
    """Verdicts by query, in the order of queries.parquet.

    `causes` holds for each query triples (number in `advice`, number in STATUSES, evidence text);
    `advice` pairs of a cause and what to do about it. `evidence` is what else is known, as text.
    """

    classified: bool
    classes: Sequence[str]
    subclasses: Sequence[str | None]
    lost_at: Sequence[str | None]
    causes: Sequence[Sequence[tuple[int, int, str]]]
    evidence: Sequence[str]
    advice: Sequence[tuple[str, str]]


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
    return Verdicts(
        classified="class" in names,
        classes=classes,
        subclasses=column("subclass"),
        lost_at=column("lost_at"),
        causes=causes,
        evidence=[
            _rest(_json(run, query_id, text, {}))
            for query_id, text in zip(query_ids, column("evidence"), strict=True)
        ],
        advice=list(number),
    )


def _tried(run: RunDirectory) -> Mapping[str, Mapping[str, Any]]:
    """Return failures.json by query."""
    if run.failures is None:
        return {}
    listed = run.failures.get("queries")
    if not isinstance(listed, list) or not all(isinstance(one, dict) for one in listed):
        raise InputError(
            "expected a list of queries", path=run.path / "failures.json", fix="diagnose anew"
        )
    return {str(one.get("query_id")): one for one in listed}


def _causes(
    run: RunDirectory, query_id: str, listed: Any, number: dict[tuple[str, str], int]
) -> list[tuple[int, int, str]]:
    causes = []
    for one in listed if isinstance(listed, list) else [None]:
        status = one.get("status") if isinstance(one, dict) else None
        if one is None or status not in STATUSES:
            raise InputError(
                f"query {query_id}: a cause needs one of the statuses {', '.join(STATUSES)}, "
                f"got {status!r}",
                path=run.path,
                fix="diagnose anew",
            )
        key = (str(one.get("cause")), str(one.get("advice") or ""))
        place = number.setdefault(key, len(number))
        causes.append((place, STATUSES.index(status), _short(one.get("evidence"))))
    return causes


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
    if isinstance(value, list) and not any(isinstance(one, dict | list) for one in value):
        return ", ".join(map(str, value))
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
