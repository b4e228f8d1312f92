"""What sweep.json holds: the settings, what was found, and what may be said of it."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from experiments.sweep.choosing import Tuned
from experiments.sweep.conditional import conditional
from experiments.sweep.record import (
    differences,
    failures,
    importances,
    parameter_records,
    pareto,
    trial_table,
)
from experiments.sweep.samplers import drawn_at_random
from experiments.sweep.selection import Judgement, in_words, overfit_gap
from experiments.sweep.settings import SweepSettings
from experiments.sweep.storage import shown_url
from gold import GoldSet
from retriever import Retriever

__all__ = ["sweep_record"]

FORMAT = 1


def sweep_record(
    gold: GoldSet,
    retriever: Retriever,
    settings: SweepSettings,
    wanted: int,
    final: Tuned,
    tuned: Sequence[Tuned],
    judgement: Judgement,
) -> dict[str, Any]:
    """Return what sweep.json holds."""
    plan, memo = final.plan, retriever.memo
    space = plan.parameters()
    finished = trial_table(final.study, plan)
    return {
        "format": FORMAT,
        "kind": "sweep",
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "study": settings.study,
        "storage": shown_url(settings.storage),
        "objective": list(plan.objectives),
        "gold": {
            "name": gold.name,
            "path": str(gold.path.resolve()),
            "split": gold.split,
            "digest": gold.digest,
        },
        "index": plan.index,
        "base": plan.base.fingerprint,
        "space": {
            "name": space.name,
            "digest": plan.asked,
            "parameters": parameter_records(space, plan.base, final.config),
        },
        "sampler": settings.sampler,
        "seed": settings.seed,
        "workers": settings.workers,
        "folds": wanted,
        "trials": settings.trials,
        "finished": final.counts.finished,
        "unique": final.unique,
        "failed": final.counts.failed,
        "failures": failures(final.study, plan),
        "max_drop": settings.max_drop,
        "outside_constraints": finished["keeps"].count(False),
        "parameters_swept": [p.path for p in space.parameters],
        "inert": dict(plan.inert),
        "conditional": conditional(settings.space, space),
        "drawn_at_random": drawn_at_random(plan.sampler, space, space.at(plan.base)),
        "best": {
            "trial": final.chosen.number,
            "name": final.chosen.name,
            "is_trial": not final.chosen.form,
            "train": final.chosen.train,
            "parameters": dict(final.chosen.overrides),
            "changed": final.chosen.changed,
            "config": str(settings.out / "best.yaml"),
            "differences": differences(plan.base, final.config),
        },
        "candidates": list(final.considered),
        "importance": importances(final.study),
        "train": final.train,
        "validation": final.validation,
        "test": judgement.to_json(),
        "overfit_gap": overfit_gap(
            [one.train["chosen"] - one.train["default"] for one in tuned],
            [len(one.test_ids) for one in tuned],
            judgement.difference,
        ),
        "by_fold": [
            {
                "queries": len(one.test_ids),
                "default": float(one.default_test[plan.objectives[0]].mean()),
                "chosen": float(one.chosen_test[plan.objectives[0]].mean()),
                "train": dict(one.train),
                "validation": dict(one.validation),
            }
            for one in tuned
        ]
        if wanted
        else [],
        "pareto": pareto(final.study, plan, final.chosen.number)
        if len(plan.objectives) > 1
        else [],
        "verdict": judgement.verdict,
        "verdict_in_words": in_words(
            judgement, varied=final.varied, changed=final.chosen.changed, folds=wanted
        ),
        "memo": {
            "hits": memo.hits,
            "misses": memo.misses,
            "bytes": memo.size,
            "budget": memo.budget,
            "refused": memo.refused,
            "passed": memo.passed,
        },
    }
