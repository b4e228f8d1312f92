"""A worker's view of a study: one read before a trial, one write when its parameters are known.

Optuna asks its storage again and again for all trials while it samples one, and writes each of its
parameters in a transaction of its own.
Here all that a sampler is told of other trials is what `look` has read, and the trial being sampled
is kept in this process until `write` puts it down whole, in the state RUNNING. From then on the
other workers see it, with its parameters and its owner, and never without.
"""

from collections.abc import Container, Sequence
from copy import copy, deepcopy
from datetime import datetime
from typing import Any

from optuna.distributions import BaseDistribution
from optuna.storages import BaseStorage
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

__all__ = ["WholeTrials"]

# No storage gives this id to a trial.
HELD = -1


class WholeTrials(BaseStorage):
    """A storage over another, for one worker and one study; all it does not hold it hands on."""

    def __init__(self, study: Study) -> None:
        self._storage = study._storage
        self._study_id = study._study_id
        self._seen: list[FrozenTrial] = []
        self._held: FrozenTrial | None = None
        self._written: int | None = None

    def look(self) -> None:
        """Read the trials of the study anew; nothing is held after that."""
        self._held = self._written = None
        self._seen = self._storage.get_all_trials(self._study_id, deepcopy=False)

    def write(self, trial_id: int) -> int:
        """Write a trial if it is held, and return its number among the trials of all workers.

        Before that its number is the next one that was free when `look` was called.
        """
        if trial_id == HELD and self._written is None:
            held = self._holding()
            self._written = self._storage.create_new_trial(self._study_id, held)
            held.number = self._storage.get_trial_number_from_id(self._written)
        return self.get_trial_number_from_id(trial_id)

    def _holding(self) -> FrozenTrial:
        if self._held is None:
            raise KeyError("no trial is held")
        return self._held

    # --- the held trial --------------------------------------------------------------------

    def create_new_trial(self, study_id: int, template_trial: FrozenTrial | None = None) -> int:
        """Hold a new trial; one made after a template is written at once."""
        if template_trial is not None:
            return self._storage.create_new_trial(study_id, template_trial)
        self._written = None
        self._held = FrozenTrial(
            number=len(self._seen),
            state=TrialState.RUNNING,
            value=None,
            datetime_start=datetime.now(),
            datetime_complete=None,
            params={},
            distributions={},
            user_attrs={},
            system_attrs={},
            intermediate_values={},
            trial_id=HELD,
        )
        return HELD

    def set_trial_param(
        self,
        trial_id: int,
        param_name: str,
        param_value_internal: float,
        distribution: BaseDistribution,
    ) -> None:
        """Set a parameter; of the held trial, before it is written."""
        if trial_id != HELD:
            self._storage.set_trial_param(trial_id, param_name, param_value_internal, distribution)
            return
        held = self._holding()
        if self._written is not None:
            self._storage.set_trial_param(
                self._written, param_name, param_value_internal, distribution
            )
        held.params[param_name] = distribution.to_external_repr(param_value_internal)
        held.distributions[param_name] = distribution

    def set_trial_user_attr(self, trial_id: int, key: str, value: Any) -> None:
        """Set an attribute of a user's."""
        if trial_id == HELD:
            self._holding().user_attrs[key] = value
        if (place := self._place(trial_id)) is not None:
            self._storage.set_trial_user_attr(place, key, value)

    def set_trial_system_attr(self, trial_id: int, key: str, value: Any) -> None:
        """Set an attribute of Optuna's."""
        if trial_id == HELD:
            # Samplers hold on to the attributes that they were given: these stay as they were.
            held = self._holding()
            held.system_attrs = {**held.system_attrs, key: value}
        if (place := self._place(trial_id)) is not None:
            self._storage.set_trial_system_attr(place, key, value)

    def set_trial_state_values(
        self, trial_id: int, state: TrialState, values: Sequence[float] | None = None
    ) -> bool:
        """Set state and values; the held trial is written if it was not."""
        self.write(trial_id)
        place = self._place(trial_id)
        assert place is not None  # noqa: S101 - written above
        done = self._storage.set_trial_state_values(place, state, values)
        if trial_id == HELD and done:
            self._holding().state = state
            self._holding().values = None if values is None else list(values)
        return done

    def set_trial_intermediate_value(
        self, trial_id: int, step: int, intermediate_value: float
    ) -> None:
        """Set an intermediate value, of a trial that is written."""
        if (place := self._place(trial_id)) is None:
            raise ValueError("the trial is not written yet")
        self._storage.set_trial_intermediate_value(place, step, intermediate_value)

    def _place(self, trial_id: int) -> int | None:
        """Return the storage's id of a trial, None while it is only held."""
        return self._written if trial_id == HELD else trial_id

    def get_trial(self, trial_id: int) -> FrozenTrial:
        """Return a trial."""
        if trial_id != HELD:
            return self._storage.get_trial(trial_id)
        # Optuna writes into what it is given, and tells the storage the same.
        found = copy(self._holding())
        found.params, found.distributions = dict(found.params), dict(found.distributions)
        found.user_attrs = dict(found.user_attrs)
        return found

    def get_all_trials(
        self,
        study_id: int,
        deepcopy: bool = True,
        states: Container[TrialState] | None = None,
    ) -> list[FrozenTrial]:
        """Return the trials as they were read last, and the one held."""
        held = [] if self._held is None else [self._held]
        found = [t for t in [*self._seen, *held] if states is None or t.state in states]
        return _deepcopy(found) if deepcopy else found

    def get_trial_number_from_id(self, trial_id: int) -> int:
        """Return a trial's number."""
        if trial_id == HELD:
            return self._holding().number
        return self._storage.get_trial_number_from_id(trial_id)

    # --- what is handed on -----------------------------------------------------------------

    def create_new_study(
        self, directions: Sequence[StudyDirection], study_name: str | None = None
    ) -> int:
        """Make a study."""
        return self._storage.create_new_study(directions, study_name)

    def delete_study(self, study_id: int) -> None:
        """Delete a study."""
        self._storage.delete_study(study_id)

    def set_study_user_attr(self, study_id: int, key: str, value: Any) -> None:
        """Set a study's attribute of a user's."""
        self._storage.set_study_user_attr(study_id, key, value)

    def set_study_system_attr(self, study_id: int, key: str, value: Any) -> None:
        """Set a study's attribute of Optuna's."""
        self._storage.set_study_system_attr(study_id, key, value)

    def get_study_id_from_name(self, study_name: str) -> int:
        """Return a study's id."""
        return self._storage.get_study_id_from_name(study_name)

    def get_study_name_from_id(self, study_id: int) -> str:
        """Return a study's name."""
        return self._storage.get_study_name_from_id(study_id)

    def get_study_directions(self, study_id: int) -> list[StudyDirection]:
        """Return what a study raises and what it lowers."""
        return self._storage.get_study_directions(study_id)

    def get_study_user_attrs(self, study_id: int) -> dict[str, Any]:
        """Return a study's attributes of a user's."""
        return self._storage.get_study_user_attrs(study_id)

    def get_study_system_attrs(self, study_id: int) -> dict[str, Any]:
        """Return a study's attributes of Optuna's."""
        return self._storage.get_study_system_attrs(study_id)

    def get_all_studies(self) -> list[Any]:
        """Return all studies."""
        return self._storage.get_all_studies()


_deepcopy = deepcopy
