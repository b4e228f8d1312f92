"""Rows of weights tuned each for itself: low-dimensional studies within a sweep.

A query has one workflow, and the weights of a workflow touch no other query. So the shared
parameters are tuned first, over all queries, with the rows of weights at their defaults; then,
with the best of these fixed, every row at once: a trial carries a proposal for each row, and each
row learns from the figures of its own queries alone. The best rows together make a configuration
whose figure on train is the sum of theirs, though no trial need have had them all.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.space import Space
from experiments.sweep.parameter import Parameter
from experiments.sweep.plan import StudyPlan
from experiments.sweep.samplers import STARTUP, trial_seed
from experiments.sweep.storage import quiet_optuna
from retriever.types import Floats

if TYPE_CHECKING:
    from optuna import Study
    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial

__all__ = ["BY_ROW", "ProfileSampling", "composed", "means_by_row", "rows_of"]

BY_ROW = "by_row"


def rows_of(space: Space, workflows: Sequence[str]) -> tuple[str, ...]:
    """Return the row of weights that each query takes: its workflow's own, else `default`."""
    rows = {row for p in space.parameters if (row := space.workflow_of(p)) is not None}
    return tuple(workflow if workflow in rows else "default" for workflow in workflows)


def means_by_row(values: Floats, rows: Sequence[str]) -> dict[str, float]:
    """Return the mean of the values of each row's queries."""
    of_query = np.array(rows)
    return {str(row): float(values[of_query == row].mean()) for row in np.unique(of_query)}


class ProfileSampling:
    """Gives the sampler of each trial: the shared parameters first, then the rows of weights."""

    def __init__(self, plan: StudyPlan, space: Space) -> None:
        self._plan = plan
        self._space = space
        self._default = space.at(plan.base)
        self._studies: dict[str, Study] = {}
        self._told: dict[str, int] = {}

    def at(self, study: "Study", finished: int, settled: int, worker: int) -> "BaseSampler | None":
        """Return the sampler for the next trial; None while the default is still to come."""
        if not finished:
            return None
        seed = trial_seed(self._plan.seed, settled, worker)
        if finished < self._plan.shared_trials:
            return self._shared(seed)
        return _fixed({**self._best_shared(study), **self._proposals(study, seed)})

    def _shared(self, seed: int) -> "BaseSampler":
        from optuna.samplers import PartialFixedSampler, TPESampler

        rows = {p.path for p in self._space.parameters if self._space.workflow_of(p)}
        fixed = {path: value for path, value in self._default.items() if path in rows}
        base = TPESampler(seed=seed, multivariate=True, group=True, n_startup_trials=STARTUP)
        return PartialFixedSampler(fixed, base)

    def _best_shared(self, study: "Study") -> dict[str, Any]:
        best = best_shared(study, self._plan)
        rows = {p.path for p in self._space.parameters if self._space.workflow_of(p)}
        shared = {path: v for path, v in best.params.items() if path not in rows}
        return {**self._default, **shared}

    def _proposals(self, study: "Study", seed: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        trials = row_trials(study, self._plan)
        for turn, (row, parameters) in enumerate(rows_in(self._space).items()):
            own = self._study(row, trials, parameters)
            own.sampler = _tpe(trial_seed(seed, turn))
            asked = own.ask({p.path: p.distribution() for p in parameters})
            found |= asked.params
            own.tell(asked, state=_failed())
        return found

    def _study(
        self, row: str, trials: Sequence["FrozenTrial"], parameters: Sequence[Parameter]
    ) -> "Study":
        """Return a row's own study, told of every trial that has a figure for it."""
        import optuna

        if row not in self._studies:
            with quiet_optuna():
                self._studies[row] = optuna.create_study(direction="maximize")
            self._told[row] = 0
        study = self._studies[row]
        new = trials[self._told[row] :]
        distributions = {p.path: p.distribution() for p in parameters}
        for trial in new:
            means = trial.user_attrs.get(BY_ROW, {})
            params = {p: trial.params[p] for p in distributions if p in trial.params}
            if row in means and len(params) == len(distributions):
                study.add_trial(
                    optuna.create_trial(
                        params=params, distributions=distributions, value=means[row]
                    )
                )
        self._told[row] = len(trials)
        return study


def rows_in(space: Space) -> dict[str, list[Parameter]]:
    """Return the parameters of each row of weights."""
    found: dict[str, list[Parameter]] = {}
    for parameter in space.parameters:
        row = space.workflow_of(parameter)
        if row is not None:
            found.setdefault(row, []).append(parameter)
    return found


def best_shared(study: "Study", plan: StudyPlan) -> "FrozenTrial":
    """Return the best of the trials that moved the shared parameters; the first of equals."""
    return max(_finished(study)[: plan.shared_trials], key=lambda t: (t.values[0], -t.number))


def row_trials(study: "Study", plan: StudyPlan) -> list["FrozenTrial"]:
    """Return the trials whose rows may be compared: all under the best shared parameters."""
    return [best_shared(study, plan), *_finished(study)[plan.shared_trials :]]


def composed(study: "Study", plan: StudyPlan) -> tuple[int, dict[str, Any]]:
    """Return each row's best weights under the best shared parameters, and that trial's number."""
    space, base = plan.parameters(), best_shared(study, plan)
    stored: dict[str, Any] = {**space.at(plan.base), **base.params}
    trials = row_trials(study, plan)
    for row, parameters in rows_in(space).items():
        told = [t for t in trials if row in t.user_attrs.get(BY_ROW, {})]
        if told:
            best = max(told, key=lambda t: (t.user_attrs[BY_ROW][row], -t.number))
            stored |= {p.path: best.params[p.path] for p in parameters if p.path in best.params}
    active = space.active_values(plan.base)
    kept: dict[str, Any] = {}
    for parameter in space.parameters:
        if parameter.path in stored and space.is_active(parameter, active):
            kept[parameter.path] = stored[parameter.path]
            active[parameter.path] = parameter.value_of(stored[parameter.path])
    return base.number, space.overrides(kept)


def _finished(study: "Study") -> list["FrozenTrial"]:
    from optuna.trial import TrialState

    return study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))


def _failed() -> Any:
    from optuna.trial import TrialState

    return TrialState.FAIL


def _tpe(seed: int) -> "BaseSampler":
    from optuna.samplers import TPESampler

    return TPESampler(seed=seed, multivariate=True, n_startup_trials=STARTUP)


def _fixed(values: Mapping[str, Any]) -> "BaseSampler":
    """Return a sampler that gives these values."""
    from optuna.samplers import BaseSampler

    class Fixed(BaseSampler):
        def infer_relative_search_space(self, study: Any, trial: Any) -> dict[str, Any]:
            return {}

        def sample_relative(self, study: Any, trial: Any, search_space: Any) -> dict[str, Any]:
            return {}

        def sample_independent(
            self, study: Any, trial: Any, param_name: str, param_distribution: Any
        ) -> Any:
            return values[param_name]

    return Fixed()
