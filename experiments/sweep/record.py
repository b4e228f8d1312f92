"""What sweep.json and trials.parquet hold of a study: trials, faults, importances, differences."""

import json
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from experiments.in_force import differences_in_force
from experiments.space import Space
from experiments.sweep.parameter import Parameter, label
from experiments.sweep.plan import StudyPlan
from experiments.sweep.storage import quiet_optuna
from experiments.sweep.trials import DEFAULT, REASON
from retriever import RetrieverConfig

if TYPE_CHECKING:
    from optuna import Study
    from optuna.trial import FrozenTrial

__all__ = [
    "constraints_of",
    "differences",
    "failures",
    "importances",
    "parameter_records",
    "pareto",
    "trial_table",
]

# Importances compare the best trials with all: the best tenth, or more where that is under five.
QUANTILE, BEST, FEWEST = 0.1, 5, 20


def constraints_of(trial: "FrozenTrial") -> list[float]:
    """Return the constraints of a trial; one above 0 is broken."""
    from optuna.study._constrained_optimization import _get_constraints_from_system_attrs

    return list(_get_constraints_from_system_attrs(trial.system_attrs).values())


def importances(study: "Study") -> dict[str, Any]:
    """Return {values, reason, trials, best}: how much each parameter says of the best trials.

    PED-ANOVA (Watanabe et al. 2023) over finished trials, shares that sum to 1: how unlike all
    trials the best are spread over the parameter. With several objectives the best are those
    nearest the front. `values` is None, with a `reason`, under 20 trials or without variation,
    where a share would say nothing.
    """
    from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances
    from optuna.trial import TrialState

    trials = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    found: dict[str, Any] = {"values": None, "reason": None, "trials": len(trials), "best": None}
    if len({tuple(trial.values) for trial in trials}) < 2:
        return found | {"reason": "no variation: every trial scored the same"}
    if len(trials) < FEWEST:
        return found | {"reason": f"{len(trials)} finished trials; it takes {FEWEST}"}
    quantile = max(QUANTILE, BEST / len(trials))
    evaluator = PedAnovaImportanceEvaluator(target_quantile=quantile)
    with quiet_optuna(), warnings.catch_warnings():
        # It warns of parameters that one trial alone has read; these get 0.
        warnings.simplefilter("ignore", UserWarning)
        raw = get_param_importances(study, evaluator=evaluator, normalize=False)
    total = sum(raw.values())
    if not total > 0:
        return found | {"reason": "no variation: the best trials are spread as all are"}
    shares = {path: round(value / total, 6) for path, value in raw.items()}
    ordered = dict(sorted(shares.items(), key=lambda pair: (-pair[1], pair[0])))
    return found | {"values": ordered, "best": quantile}


def failures(study: "Study", plan: StudyPlan) -> list[dict[str, Any]]:
    """Return why trials failed, the most frequent first: reason, trials, and the first one's own.

    Trials given up with their worker have no reason and are not among them.
    """
    space = plan.parameters()
    found: dict[str, dict[str, Any]] = {}
    for trial in study.get_trials(deepcopy=False):
        reason = trial.user_attrs.get(REASON)
        if reason is None:
            continue
        first = {"reason": reason, "trials": [], "parameters": space.overrides(trial.params)}
        found.setdefault(reason, first)["trials"].append(trial.number)
    return sorted(found.values(), key=lambda one: (-len(one["trials"]), one["trials"][0]))


def differences(base: RetrieverConfig, config: RetrieverConfig) -> dict[str, Any]:
    """Return {parameter: {default, chosen}} of what two configurations do not share, in force."""
    return {
        path: {"default": default.value, "chosen": chosen.value}
        for path, (default, chosen) in sorted(differences_in_force(base, config).items())
    }


def parameter_records(
    space: Space, base: RetrieverConfig, chosen: RetrieverConfig
) -> dict[str, dict[str, Any]]:
    """Return the swept parameters by path: range, conditions, and the values of two configurations.

    Values are as trials.parquet writes them: numbers, and choices as JSON.
    """
    values = [space.active_values(config) for config in (base, chosen)]
    return {
        p.path: {
            "kind": p.kind,
            "low": p.low,
            "high": p.high,
            "log": p.log,
            "choices": [json.dumps(one) for one in p.labels],
            "when": [{path: list(allowed) for path, allowed in one.items()} for one in p.when],
            "workflow": space.workflow_of(p),
            "default": _written(p, values[0][p.path]),
            "chosen": _written(p, values[1][p.path]),
        }
        for p in space.parameters
    }


def _written(parameter: Parameter, value: Any) -> Any:
    if parameter.kind == "choice":
        return json.dumps(label(value))
    return None if value is None else float(value)


def pareto(study: "Study", plan: StudyPlan, chosen: int) -> list[dict[str, Any]]:
    """Return the trials that no other beats in every objective: number, values, overrides.

    Of several with the same values one stands for all: the trial `chosen` where it is among them,
    else the first.
    """
    space = plan.parameters()
    first: dict[tuple[float, ...], FrozenTrial] = {}
    for trial in sorted(study.best_trials, key=lambda one: (one.number != chosen, one.number)):
        first.setdefault(tuple(trial.values), trial)
    return [
        {
            "trial": trial.number,
            "values": list(trial.values),
            "parameters": {} if trial.user_attrs.get(DEFAULT) else space.overrides(trial.params),
        }
        for trial in sorted(first.values(), key=lambda one: one.number)
    ]


def trial_table(study: "Study", plan: StudyPlan) -> dict[str, Any]:
    """Return the finished trials as columns: number, seconds, constraints, objectives, parameters.

    `keeps` says whether the constraints are kept. A parameter that a trial did not read is null;
    choices are JSON.
    """
    from optuna.trial import TrialState

    trials: Sequence[FrozenTrial] = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    columns: dict[str, Any] = {
        "trial": [trial.number for trial in trials],
        "seconds": [t.duration.total_seconds() if t.duration else None for t in trials],
        "default": [bool(trial.user_attrs.get(DEFAULT)) for trial in trials],
        "keeps": [all(value <= 0 for value in constraints_of(trial)) for trial in trials],
    }
    for i, name in enumerate(plan.objectives):
        columns[f"objective:{name}"] = [float(trial.values[i]) for trial in trials]
    for parameter in plan.parameters().parameters:
        columns[f"parameter:{parameter.path}"] = _column(parameter, trials)
    return columns


def _column(parameter: Parameter, trials: Sequence["FrozenTrial"]) -> list[Any]:
    read: list[Mapping[str, Any]] = [trial.params for trial in trials]
    if parameter.kind == "choice":
        path = parameter.path
        return [json.dumps(one[path]) if path in one else None for one in read]
    values = [one.get(parameter.path) for one in read]
    return [None if value is None else float(value) for value in values]
