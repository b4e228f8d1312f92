"""In what two runs differ besides their figures: configuration, index, models, gold, versions."""

from collections.abc import Mapping
from typing import Any

from experiments.recorded import RecordedRun
from retriever.files import InputError

__all__ = ["about", "what_differs"]


def about(run: RecordedRun, label: str, source: str) -> dict[str, Any]:
    """Return what identifies a run: label, folder, digests, counts of what failed over.

    `source` is given, evaluated or reused: how the comparison came by it.
    """
    record = run.record
    return {
        "label": label,
        "run": str(run.path),
        "source": source,
        "kind": record["kind"],
        "created": record["created"],
        "gold": {k: record["gold"][k] for k in ("name", "version", "split", "level", "digest")},
        "config": record["config"]["fingerprint"] if record["config"] else None,
        "index": record["index"]["fingerprint"] if record["index"] else None,
        "git_commit": record["git_commit"],
        "queries": record["queries"],
        "unanswered": record["unanswered"],
        "fallbacks": dict(record["fallbacks"]),
    }


def what_differs(baseline: RecordedRun, candidate: RecordedRun) -> dict[str, Any]:
    """Return what differs, by kind: {name: {baseline, candidate}}; equal things are left out.

    `config` by dotted path, `index` by what its manifest says, `models` by collection, `lexicon`
    (what each plugin knows), `gold`, `versions`, `fallbacks`, `system`. `notes` says what could
    not be compared.
    """
    one, other = baseline.record, candidate.record
    notes: list[str] = []
    config: dict[str, Any] = {}
    if baseline.is_imported or candidate.is_imported:
        notes.append("an imported ranking has no configuration, index or models to compare")
    else:
        config = _config(baseline, candidate, notes)
    indexes = [record["index"] or {} for record in (one, other)]
    plain = [{k: v for k, v in i.items() if k not in ("path", "collections")} for i in indexes]
    golds = [{k: v for k, v in r["gold"].items() if k != "path"} for r in (one, other)]
    return {
        "config": config,
        "index": _changes(*plain),
        "models": _changes(*(i.get("collections", {}) for i in indexes)),
        "lexicon": _changes(*(r.get("knowledge") or {} for r in (one, other))),
        "gold": _changes(*golds),
        "versions": _changes(
            {**one["versions"], "git_commit": one["git_commit"]},
            {**other["versions"], "git_commit": other["git_commit"]},
        ),
        "fallbacks": _changes(one["fallbacks"], other["fallbacks"]),
        "system": _changes(one["system"], other["system"]),
        "notes": notes,
    }


def _config(baseline: RecordedRun, candidate: RecordedRun, notes: list[str]) -> dict[str, Any]:
    from retriever.config import difference

    try:
        found = difference(baseline.config, candidate.config)
    except InputError as error:
        notes.append(f"the configurations cannot be compared: {error}")
        return {}
    return {path: {"baseline": a, "candidate": b} for path, (a, b) in found.items()}


def _changes(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    names = [*one, *(name for name in other if name not in one)]
    return {
        name: {"baseline": one.get(name), "candidate": other.get(name)}
        for name in names
        if one.get(name) != other.get(name)
    }
