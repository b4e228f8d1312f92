"""Which finished trials may be chosen, the best of them, and the simplest form of one."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from experiments.space import Space
from experiments.sweep.objective import Objective
from experiments.sweep.plan import StudyPlan
from experiments.sweep.record import constraints_of
from experiments.sweep.selection import Candidate
from experiments.sweep.trials import DEFAULT
from retriever import InputError, RetrieverConfig
from retriever.types import Floats

if TYPE_CHECKING:
    from optuna import Study

__all__ = [
    "ROWS_JOINED",
    "SIMPLIFIED",
    "best_on_train",
    "candidates_of",
    "not_worse",
    "simplified",
]

SIMPLIFIED, ROWS_JOINED = "simplified", "with the best rows of weights"
# What another order of summing leaves of a mean.
EQUAL = 1e-12


def candidates_of(study: "Study", plan: StudyPlan) -> list[Candidate]:
    """Return every finished trial that keeps the constraints, the default first."""
    from optuna.trial import TrialState

    base, space = plan.base, plan.parameters()
    stored_default = space.at(base)
    found = []
    for trial in study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,)):
        is_default = bool(trial.user_attrs.get(DEFAULT))
        if not is_default and any(value > 0 for value in constraints_of(trial)):
            continue
        overrides = {} if is_default else space.overrides(trial.params)
        changed = sum(value != stored_default.get(path) for path, value in trial.params.items())
        found.append(
            Candidate(
                trial.number,
                overrides,
                0 if is_default else max(1, changed),
                float(trial.values[0]),
            )
        )
    return sorted(found, key=lambda c: (c.changed > 0, c.number))


def best_on_train(candidates: Sequence[Candidate], most: int) -> list[Candidate]:
    """Return the best distinct candidates on train, the best first."""
    seen: set[str] = set()
    found = []
    for one in sorted(candidates, key=lambda c: (-c.train, c.changed, c.number)):
        key = json.dumps(dict(one.overrides), sort_keys=True)
        if key not in seen:
            seen.add(key)
            found.append(one)
    return found[:most]


def not_worse(candidates: Sequence[Candidate], default: Candidate) -> list[Candidate]:
    """Return the candidates that train does not put below the default, without the default.

    Nothing was gained by tuning them: a lead on a few validation queries would be chance.
    """
    return [c for c in candidates if c.changed and c.train >= default.train - EQUAL]


def simplified(
    best: Candidate, space: Space, base: RetrieverConfig, train: Objective, measure: str
) -> Candidate:
    """Put parameters of a candidate back to the default while train loses no standard error.

    Those whose return costs least go first. What is left is what the gain rests on. Where nothing
    can be put back it is the candidate itself.
    """
    values = train.score(base.with_overrides(best.overrides))[measure]
    paths = [p for p in space.parameters if p.path in best.overrides]

    def less(gone: Sequence[str]) -> dict[str, Any]:
        dropped = {c for p in paths if p.path in gone for c in (p.path, p.complement)}
        return {path: v for path, v in best.overrides.items() if path not in dropped}

    def score(overrides: Mapping[str, Any]) -> Floats | None:
        try:
            return train.score(base.with_overrides(overrides))[measure]
        except InputError:
            return None

    alone = {p.path: score(less([p.path])) for p in paths}
    order = sorted(
        (path for path, found in alone.items() if found is not None),
        key=lambda path: -float(alone[path].mean()),  # type: ignore[union-attr]
    )
    gone: list[str] = []
    mean = float(values.mean())
    for path in order:
        found = score(less([*gone, path]))
        if found is None:
            continue
        lost = values - found
        error = float(lost.std(ddof=1)) / math.sqrt(len(lost)) if len(lost) > 1 else 0.0
        if float(lost.mean()) <= error:
            gone.append(path)
            mean = float(found.mean())
    overrides = less(gone)
    changed = len([p for p in paths if p.path in overrides])
    if not gone:
        return best
    form = f"{best.form}, {SIMPLIFIED}" if best.form else SIMPLIFIED
    return Candidate(best.number, overrides, changed, mean, form)
