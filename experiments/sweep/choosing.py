"""From a study that has run to one configuration: a few of the best, and the choice among them.

What to choose by is in `experiments.sweep.selection`; here are the figures it is applied to.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from experiments.sweep.candidates import (
    ROWS_JOINED,
    SIMPLIFIED,
    best_on_train,
    candidates_of,
    not_worse,
    simplified,
)
from experiments.sweep.objective import Objective
from experiments.sweep.plan import StudyPlan
from experiments.sweep.profiles import composed
from experiments.sweep.selection import CANDIDATES, Candidate, choose, gaps
from experiments.sweep.trials import Counts
from retriever import RetrieverConfig
from retriever.types import Floats

if TYPE_CHECKING:
    from optuna import Study

__all__ = ["Tuned", "chosen_from"]


@dataclass(frozen=True, eq=False)
class Tuned:
    """One study with what was chosen from it; on test the values by query of every objective."""

    plan: StudyPlan
    study: "Study"
    counts: Counts
    unique: int
    chosen: Candidate
    config: RetrieverConfig
    validation: Mapping[str, float]
    train: Mapping[str, float]
    varied: bool
    considered: Sequence[Mapping[str, Any]]
    test_ids: Sequence[str] = ()
    default_test: Mapping[str, Floats] = field(default_factory=dict)
    chosen_test: Mapping[str, Floats] = field(default_factory=dict)


def chosen_from(
    study: "Study",
    plan: StudyPlan,
    counts: Counts,
    train: Objective,
    held: Objective,
    test: Objective | None,
) -> Tuned:
    """Choose among the best trials on validation (`held`), and score test, once."""
    base, name = train.retriever.config, plan.objectives[0]
    candidates = candidates_of(study, plan)
    varied = len({c.train for c in candidates}) > 1
    default = next(c for c in candidates if not c.changed)
    few = [default]
    if varied:
        few += not_worse(_shortlist(study, plan, counts, candidates, train), default)
    configs = [base.with_overrides(c.overrides) for c in few]
    values = [held.score(config)[name] for config in configs]
    best, on_validation = choose(few, values)
    config = base.with_overrides(best.overrides)
    scored = [test.score(c) if test else {} for c in (base, config)]
    if test is not None:
        test.prove(config, test.score(config))
    return Tuned(
        plan,
        study,
        counts,
        unique=len({json.dumps(dict(c.overrides), sort_keys=True) for c in candidates}),
        chosen=best,
        config=config,
        validation={
            "queries": len(held.query_ids),
            "default": float(values[0].mean()),
            "chosen": float(on_validation.mean()),
        },
        train={
            "queries": len(train.query_ids),
            "default": default.train,
            "chosen": best.train,
        },
        varied=varied,
        considered=[
            {
                "trial": one.number,
                "parameters": dict(one.overrides),
                "changed": one.changed,
                "simplified": one.form.endswith(SIMPLIFIED),
                "name": one.name,
                "train": one.train,
                "validation": float(on_held.mean()),
                "behind": behind,
                "error": error,
                "chosen": one is best,
            }
            for one, on_held, (behind, error) in zip(few, values, gaps(values), strict=True)
        ],
        test_ids=test.query_ids if test else (),
        default_test=scored[0],
        chosen_test=scored[1],
    )


def _shortlist(
    study: "Study",
    plan: StudyPlan,
    counts: Counts,
    candidates: Sequence[Candidate],
    train: Objective,
) -> list[Candidate]:
    """Return the best on train, and what is made of them: best rows joined, the simplest form."""
    few = best_on_train(candidates, CANDIDATES)
    if plan.profiles and counts.finished > plan.shared_trials:
        few = [_of_rows(study, plan, train), *few]
    simple = simplified(
        few[0], plan.parameters(), train.retriever.config, train, plan.objectives[0]
    )
    return few if simple is few[0] else [*few, simple]


def _of_rows(study: "Study", plan: StudyPlan, train: Objective) -> Candidate:
    """Return the candidate that has the best weights of every row."""
    base = train.retriever.config
    number, overrides = composed(study, plan)
    default = plan.parameters().overrides(plan.parameters().at(base))
    changed = sum(value != default.get(path) for path, value in overrides.items())
    figure = float(train.score(base.with_overrides(overrides))[plan.objectives[0]].mean())
    return Candidate(number, overrides, max(1, changed), figure, ROWS_JOINED)
