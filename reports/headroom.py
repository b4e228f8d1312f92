"""What tuning could still reach, as headroom.json tells it."""

from collections.abc import Mapping
from typing import Any

from reports.faults import InputError
from reports.run_directory import RunDirectory

__all__ = ["headroom_by_query", "headroom_summary"]

SAYS = {
    "feasible": "other weights of tier 2 would bring it in",
    "infeasible": "no weights of tier 2 within bounds bring it in",
    "undecided": "whether weights of tier 2 could bring it in is not decided",
}


def headroom_summary(run: RunDirectory) -> dict[str, Any] | None:
    """Return headroom over the set; None where it was not computed.

    `stages` in order, `measures` {name: [ceiling after each stage]}, the last being what the run
    reached, `tier_2` None or its figures. Raises InputError where headroom.json has another form.
    """
    found = run.headroom
    if found is None:
        return None
    try:
        stages = [str(stage) for stage in found["stages"]]
        measures = {
            name: [float(by_stage[stage]) for stage in stages]
            for name, by_stage in found["measures"].items()
        }
        tier_2 = found["tier_2"]
        kept = ("k", "hit_now", "hit_upper_bound", "failing", "feasible", "undecided", "label")
        summary = None if tier_2 is None else {key: tier_2[key] for key in kept}
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"cannot be read: {error!r}", path=run.path / "headroom.json", fix="compute it anew"
        ) from error
    return {"stages": stages, "measures": measures, "tier_2": summary}


def headroom_by_query(run: RunDirectory) -> dict[str, str]:
    """Return, by query that fails, what weights of tier 2 could do for it, as text."""
    listed = (run.headroom or {}).get("queries", [])
    try:
        return {str(one["query_id"]): _told(one["tier_2"]) for one in listed if one.get("tier_2")}
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"queries: cannot be read: {error!r}",
            path=run.path / "headroom.json",
            fix="compute it anew",
        ) from error


def _told(answer: Mapping[str, Any]) -> str:
    verdict = str(answer.get("verdict"))
    text = SAYS.get(verdict, verdict)
    change = answer.get("change")
    if not change:
        return text
    moves = ", ".join(f"{name} {value:+.4g}" for name, value in change.items())
    return f"{text}: {moves}"
