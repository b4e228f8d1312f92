"""Diagnosis of a recorded run: verdicts as plain data, causes tried by replay, work items.

`failures.json`, what a verification leaves in the run directory:

    format, counts{class: n}, replays, unreplayed[{cause, change, error}],
    queries[{query_id, type, workflow, text, class, subclass, lost_at, cause, cause_status,
             causes[], gold[], evidence{}}]
    work_items[{item, cause, about, queries[], verified[]}]
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.counting import counted
from experiments.diagnosis.causes import Change
from experiments.diagnosis.counterfactuals import Bench, Outcome
from experiments.failures import CLASSES
from experiments.recorded import RecordedRun
from retriever.files import InputError, write_atomically

if TYPE_CHECKING:
    from gold import GoldSet
    from retriever import Retriever

__all__ = [
    "CLASS_ADVICE",
    "FAILURES",
    "Diagnosis",
    "diagnose",
    "verify",
    "work_items",
    "write_diagnosis",
]

FAILURES = "failures.json"
FORMAT = 1
# Configurations that must agree on the first unit before a label is doubted.
AGREEING = 3

CLASS_ADVICE = {
    "gold_corpus_gap": "No relevant document is in the index. Add it to the corpus, or mend the "
    "label.",
    "gold_over_specified": "The gold set asks for more than this corpus can give. Mend the gold "
    "set; no tuning helps.",
    "query_route_gap": "The relevant document lives in a collection that was not searched. Route "
    "the query there, or ingest the document elsewhere.",
    "ranking_gap": "The relevant document was searched and lost on the way. See the stage that "
    "lost it; assay headroom says whether weights can bring it back.",
    "term_metric_strict": "A relevant document is in the top k, without every expected term. Look "
    "at the terms and at how documents are cut.",
}


@dataclass(frozen=True)
class Diagnosis:
    """What is known of a run's failures; `verified` says whether causes were tried."""

    queries: Sequence[Mapping[str, Any]]
    work_items: Sequence[Mapping[str, Any]]
    verified: bool = False
    replays: int = 0
    unreplayed: Sequence[Mapping[str, Any]] = ()

    @property
    def counts(self) -> dict[str, int]:
        """Queries by class, in the order of the table, zeros included."""
        classes = [query["class"] for query in self.queries]
        return {name: classes.count(name) for name in CLASSES}

    @property
    def unscorable(self) -> int:
        """Queries without a relevant document."""
        return sum(query["class"] is None for query in self.queries)

    def to_json(self) -> dict[str, Any]:
        """Return the diagnosis as `failures.json` holds it."""
        return {
            "format": FORMAT,
            "counts": self.counts,
            "unscorable": self.unscorable,
            "verified": self.verified,
            "replays": self.replays,
            "unreplayed": list(self.unreplayed),
            "queries": list(self.queries),
            "work_items": list(self.work_items),
        }


def diagnose(run: RecordedRun) -> Diagnosis:
    """Return what a run recorded of its failures, with verified causes where they were tried.

    Raises InputError for a run that an earlier version made, without classes.
    """
    tried = run.path / FAILURES
    return _read(tried) if tried.is_file() else _recorded(run)


def _recorded(run: RecordedRun) -> Diagnosis:
    """Return the causes as the run recorded them, none of them tried."""
    table = run.queries
    if "class" not in table.columns:
        raise InputError("the run was not classified", path=run.path, fix="evaluate anew")
    queries = []
    for row in table.to_dict("records"):
        evidence = json.loads(str(row["evidence"]))
        queries.append(
            _with_causes(
                {
                    "query_id": row["query_id"],
                    "type": row["type"] or None,
                    "workflow": row.get("workflow"),
                    "text": row["text"],
                    "class": _text(row["class"]),
                    "subclass": _text(row["subclass"]),
                    "lost_at": _text(row["lost_at"]),
                    "gold": evidence.pop("gold"),
                    "evidence": evidence,
                },
                json.loads(str(row["causes"])),
            )
        )
    return Diagnosis(queries, work_items(queries))


def verify(run: RecordedRun, gold: "GoldSet", retriever: "Retriever") -> Diagnosis:
    """Try every cause of a run by the replay of its one change.

    A cause whose change lets the query pass is verified; every other stays a hypothesis, with what
    the replay gave. Raises InputError when the run does not replay as it was recorded.
    """
    found = _recorded(run)
    failing = [query for query in found.queries if query["class"] not in (None, "ok")]
    wanted: dict[str, list[str]] = {}
    for query in failing:
        for cause in query["causes"]:
            if cause["change"] is not None:
                wanted.setdefault(Change.from_json(cause["change"]).key, []).append(
                    query["query_id"]
                )
    ids = [query["query_id"] for query in failing]
    outcomes: dict[str, Mapping[str, Outcome]] = {}
    refused: list[Mapping[str, Any]] = []
    with Bench(gold, retriever, ids) as bench:
        unchanged = bench.replay(Change(), ids)
        _refuse_other_verdicts(run, failing, unchanged)
        for key, query_ids in sorted(wanted.items()):
            change = Change.from_json(json.loads(key))
            try:
                outcomes[key] = bench.replay(change, list(dict.fromkeys(query_ids)))
            except InputError as error:
                refused.append({"change": change.to_json(), "error": str(error)})
        replays = bench.replays
    queries = [_tried(query, outcomes) for query in found.queries]
    configurations = [
        outcomes[key]
        for key in sorted(outcomes)
        if Change.from_json(json.loads(key)).is_configuration
    ]
    doubts = _doubtful_labels(gold, ids, [unchanged, *configurations])
    items = [*work_items(queries), *doubts]
    return Diagnosis(queries, items, verified=True, replays=replays, unreplayed=refused)


def write_diagnosis(run: RecordedRun, found: Diagnosis) -> Path:
    """Write `failures.json` into the run directory, atomically; return its path."""
    path = run.path / FAILURES
    text = json.dumps(found.to_json(), ensure_ascii=False, indent=1, allow_nan=False)
    write_atomically(path, (text + "\n").encode())
    return path


def _read(path: Path) -> Diagnosis:
    try:
        values = json.loads(path.read_text("utf-8"))
        if values["format"] != FORMAT:
            raise ValueError(f"format {values['format']}, this version reads {FORMAT}")
        return Diagnosis(
            values["queries"],
            values["work_items"],
            values["verified"],
            values["replays"],
            values["unreplayed"],
        )
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"cannot be read: {error}", path=path, fix="remove it and diagnose with --verify"
        ) from error


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _with_causes(query: Mapping[str, Any], causes: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Name the first verified cause, else the hypothesis whose replay came nearest to passing."""

    def far(cause: Mapping[str, Any]) -> tuple[bool, float]:
        if cause["status"] == "verified":
            return False, 0.0
        return True, cause.get("replayed", {}).get("rank") or float("inf")

    first = min(causes, key=far, default=None)
    return {
        **query,
        "cause": first and first["cause"],
        "cause_status": first and first["status"],
        "causes": list(causes),
    }


def _tried(
    query: Mapping[str, Any], outcomes: Mapping[str, Mapping[str, Outcome]]
) -> dict[str, Any]:
    causes = []
    for cause in query["causes"]:
        change = cause["change"]
        key = None if change is None else Change.from_json(change).key
        outcome = outcomes.get(key or "", {}).get(query["query_id"])
        if outcome is not None:
            replayed = {"class": outcome.verdict.failure, "rank": outcome.rank}
            status = "verified" if outcome.passes else "hypothesis"
            cause = {**cause, "status": status, "replayed": replayed}
        causes.append(cause)
    return _with_causes(query, causes)


def _refuse_other_verdicts(
    run: RecordedRun, failing: Iterable[Mapping[str, Any]], unchanged: Mapping[str, Outcome]
) -> None:
    """Refuse to verify a run that ends otherwise when nothing is changed."""
    other = [
        query["query_id"]
        for query in failing
        if unchanged[query["query_id"]].verdict.failure != query["class"]
    ]
    if other:
        raise InputError(
            f"{counted(len(other), 'query')} ended otherwise than the run recorded ({other[0]}): "
            "another version of the code or of a model",
            path=run.path,
            fix="evaluate anew",
        )


def work_items(queries: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Group causes in the data by the thing to mend, those seen to fix most queries first.

    A cause that was tried in vain for a query gives no work for it.
    """
    items: dict[tuple[str, str], dict[str, Any]] = {}
    for query in queries:
        for cause in query["causes"]:
            if not cause["about"] or (cause["status"] != "verified" and cause.get("replayed")):
                continue
            item = items.setdefault(
                (cause["cause"], cause["about"]),
                {
                    "item": cause["advice"],
                    "cause": cause["cause"],
                    "about": cause["about"],
                    "queries": [],
                    "verified": [],
                },
            )
            item["queries"].append(query["query_id"])
            if cause["status"] == "verified":
                item["verified"].append(query["query_id"])
    routed = {plan["list"].rpartition(":")[0] for q in queries for plan in q["evidence"]["plans"]}
    for (name, about), item in items.items():
        if name == "collection_not_routed" and not set(about.split(", ")) & routed:
            item["item"] = f"no query of this set is ever routed to {about}"
    return sorted(
        items.values(), key=lambda i: (-len(i["verified"]), -len(i["queries"]), i["item"])
    )


def _doubtful_labels(
    gold: "GoldSet", query_ids: Sequence[str], replays: Sequence[Mapping[str, Outcome]]
) -> list[dict[str, Any]]:
    """Return units without a judgement that every configuration ranks first for a query."""
    items = []
    for query_id in query_ids:
        firsts = [replay[query_id].first for replay in replays if query_id in replay]
        first = firsts[0] if firsts else None
        if len(firsts) < AGREEING or first is None or set(firsts) != {first}:
            continue
        if first in gold.qrels[query_id]:
            continue
        items.append(
            {
                "item": f"judge {first} for this query: it is not judged, and each of "
                f"{len(firsts)} configurations ranks it first",
                "cause": "label_missing",
                "about": first,
                "queries": [query_id],
                "verified": [],
            }
        )
    return items
