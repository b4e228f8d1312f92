"""A worker of a sweep: asks for a trial, scores it, tells; until enough are finished.

Any number of workers share one study. What a worker has taken bears its name, so that a trial of a
dead one can be told from a slow one and be given up; the count is of finished trials alone.
"""

import json
import math
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.space import Space
from experiments.sweep.objective import Objective, ScorerDifferenceError
from experiments.sweep.parameter import Parameter
from experiments.sweep.plan import StudyPlan
from experiments.sweep.profiles import BY_ROW, ProfileSampling, means_by_row, rows_of
from experiments.sweep.samplers import Sampling
from experiments.sweep.storage import quiet_optuna
from retriever import InputError
from retriever.types import Floats

if TYPE_CHECKING:
    from optuna import Study, Trial
    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial

__all__ = ["Counts", "Progress", "Worker", "count", "retire_dead"]

OWNER, REASON, DEFAULT = "worker", "reason", "default"
BEAT_SECONDS, SILENT_SECONDS = 15.0, 90.0
PROVE_EVERY = 50
MOST_FAILURES = 50


@dataclass(frozen=True)
class Counts:
    """Trials of a study by state; `settled` are finished or failed for a reason of their own."""

    finished: int
    failed: int
    running: int
    settled: int


_Result = tuple[list[float], float | None, dict[str, float] | None]
Progress = Callable[[Counts, float | None], object]


def count(study: "Study") -> Counts:
    """Count the trials of a study."""
    from optuna.trial import TrialState

    trials = study.get_trials(deepcopy=False)
    finished = sum(t.state == TrialState.COMPLETE for t in trials)
    failed = sum(t.state == TrialState.FAIL and REASON in t.user_attrs for t in trials)
    running = sum(t.state == TrialState.RUNNING for t in trials)
    return Counts(finished, failed, running, finished + failed)


class Worker:
    """Runs trials of one study with one objective.

    `number` is 0 for a sweep with one worker, whose trials are then the same however often it was
    killed; every worker beside it has a number of its own and samples other points.
    """

    def __init__(
        self,
        study: "Study",
        plan: StudyPlan,
        objective: Objective,
        *,
        number: int = 0,
        parallel: bool = False,
        progress: Progress = lambda counts, best: None,
    ) -> None:
        self.study = study
        self.plan = plan
        self.space = plan.parameters()
        self.base = plan.base
        self.objective = objective
        self.progress = progress
        self.name = f"{_machine()} {os.getpid()} {_started(os.getpid())} {uuid.uuid4().hex[:8]}"
        self._number = number
        self._sampling = Sampling(plan.sampler, self.space, plan.seed, parallel=parallel)
        self._profiles = ProfileSampling(plan, self.space) if plan.profiles else None
        self._rows: tuple[str, ...] = ()
        if plan.profiles:
            self._rows = rows_of(self.space, objective.workflows(self.base))
        self._measures = [str(measure) for measure in objective.measures]
        self._known: dict[str, _Result] = {}
        self._default: dict[str, Floats] | None = None
        self._best = -math.inf
        self._defaulted = False
        self._closed = threading.Event()
        self._looked = time.monotonic()

    def run(self, trials: int, deadline: float | None = None) -> Counts:
        """Run until `trials` are finished in all, or `deadline` (of `time.monotonic`) has come.

        Raises ScorerDifferenceError when the scorer and ranx disagree, and InputError when trials
        do nothing but fail. A trial that ends otherwise (Ctrl-C) is given up.
        """
        beat = threading.Thread(target=self._beat, daemon=True)
        with quiet_optuna():
            retire_dead(self.study)
            beat.start()
            try:
                return self._run(trials, deadline)
            finally:
                self._closed.set()

    def _run(self, trials: int, deadline: float | None) -> Counts:
        while True:
            counts = count(self.study)
            self.progress(counts, self._best if self._best > -math.inf else None)
            late = deadline is not None and time.monotonic() >= deadline
            if counts.finished >= trials or late:
                return counts
            if counts.failed >= MOST_FAILURES and counts.failed > counts.finished:
                raise InputError(
                    f"{counts.failed} trials failed and {counts.finished} finished; the last: "
                    f"{self._last_reason()}",
                    fix="change the space",
                )
            if counts.finished + counts.running >= trials:
                # Others are at the last ones; if one dies its place is to be filled.
                time.sleep(0.05)
                self._look_for_dead()
                continue
            self._look_for_dead()
            self._one(trials, counts)

    def _one(self, trials: int, counts: Counts) -> None:
        from optuna.trial import TrialState

        if not self._defaulted:
            if not self._has_default():
                self.study.enqueue_trial(self.space.at(self.base), user_attrs={DEFAULT: True})
            self._defaulted = counts.finished > 0
        self.study.sampler = self._sampler(counts)
        trial = self.study.ask()
        try:
            trial.set_user_attr(OWNER, self.name)
            if self._is_surplus(trial, trials):
                self.study.tell(trial, state=TrialState.FAIL)
                return
            values = self._evaluate(trial, counts)
        except (ScorerDifferenceError, KeyboardInterrupt):
            self.study.tell(trial, state=TrialState.FAIL)
            raise
        except Exception as error:  # noqa: BLE001 - any fault of a trial is its own, and kept
            trial.set_user_attr(REASON, f"{type(error).__name__}: {error}")
            self.study.tell(trial, state=TrialState.FAIL)
            return
        self.study.tell(trial, values)
        self._best = max(self._best, values[0])

    def _sampler(self, counts: Counts) -> "BaseSampler":
        if self._profiles is not None:
            found = self._profiles.at(self.study, counts.finished, counts.settled, self._number)
            if found is not None:
                return found
        return self._sampling.at(counts.settled, self._number)

    def _evaluate(self, trial: "Trial", counts: Counts) -> list[float]:
        stored = suggest(trial, self.space, self.base)
        overrides = {} if trial.user_attrs.get(DEFAULT) else self.space.overrides(stored)
        config = self.base.with_overrides(overrides)
        key = json.dumps(overrides, sort_keys=True)
        if key not in self._known:
            scores = self.objective.score(config)
            values = [float(scores[name].mean()) for name in self._measures]
            if not all(map(math.isfinite, values)):
                raise ValueError(f"the objective is {values}")
            if values[0] > self._best or counts.finished % PROVE_EVERY == 0:
                self.objective.prove(config, scores)
            drop = None if self.plan.max_drop is None else self._worst_drop(scores)
            rows = means_by_row(scores[self._measures[0]], self._rows) if self._rows else None
            self._known[key] = (values, drop, rows)
        values, drop, rows = self._known[key]
        if rows is not None:
            trial.set_user_attr(BY_ROW, rows)
        if drop is not None and self.plan.max_drop is not None:
            trial.set_constraint("worst query type", drop - self.plan.max_drop)
        return values

    def _worst_drop(self, scores: Mapping[str, Floats]) -> float:
        """Return how far the worst query type is below the default, by the first objective."""
        if self._default is None:
            self._default = self.objective.score(self.base)
        name = self._measures[0]
        drop = self._default[name] - scores[name]
        types = np.array(self.objective.types)
        return max(float(drop[types == kind].mean()) for kind in np.unique(types))

    def _has_default(self) -> bool:
        from optuna.trial import TrialState

        gone = (TrialState.FAIL, TrialState.PRUNED)
        return any(
            t.state not in gone and t.user_attrs.get(DEFAULT)
            for t in self.study.get_trials(deepcopy=False)[:1000]
        )

    def _is_surplus(self, trial: "Trial", trials: int) -> bool:
        """Tell whether others have taken the last places since this worker counted."""
        from optuna.trial import TrialState

        before = sum(
            t.state != TrialState.FAIL and t.number <= trial.number
            for t in self.study.get_trials(deepcopy=False)
        )
        return before > trials

    def _last_reason(self) -> str:
        reasons = [t.user_attrs[REASON] for t in self.study.trials if REASON in t.user_attrs]
        return str(reasons[-1])

    def _look_for_dead(self) -> None:
        if time.monotonic() - self._looked > BEAT_SECONDS:
            retire_dead(self.study)
            self._looked = time.monotonic()

    def _beat(self) -> None:
        """Say from time to time that this worker lives."""
        while not self._closed.wait(BEAT_SECONDS):
            self.study.set_user_attr(f"beat {self.name}", time.time())


def suggest(trial: "Trial", space: Space, base: Any) -> dict[str, Any]:
    """Ask a trial for every parameter that is read, in the order of the space."""
    stored: dict[str, Any] = {}
    values = space.active_values(base)
    for parameter in space.parameters:
        if not space.is_active(parameter, values):
            continue
        one = _suggest(trial, parameter)
        stored[parameter.path] = one
        values[parameter.path] = parameter.value_of(one)
    return stored


def _suggest(trial: "Trial", parameter: Parameter) -> Any:
    path, low, high = parameter.path, parameter.low, parameter.high
    if parameter.kind == "choice":
        return trial.suggest_categorical(path, parameter.labels)
    if parameter.kind == "int":
        step = int(parameter.step or 1)
        return trial.suggest_int(path, int(low), int(high), log=parameter.log, step=step)
    return trial.suggest_float(path, low, high, log=parameter.log, step=parameter.step)


def retire_dead(study: "Study") -> int:
    """Give up the running trials of workers that are no more; return how many.

    A worker of this machine is looked for among its processes; one of another machine is dead when
    it has not been heard of for a minute and a half.
    """
    from optuna.trial import TrialState

    retired = 0
    beats = study.user_attrs
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        if _is_dead(trial, beats):
            study.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)
            retired += 1
    return retired


def _is_dead(trial: "FrozenTrial", beats: Mapping[str, Any]) -> bool:
    owner = trial.user_attrs.get(OWNER)
    started = trial.datetime_start.timestamp() if trial.datetime_start else 0.0
    if owner is not None:
        machine, pid, since, _ = owner.split(" ")
        if machine == _machine():
            return bool(_started(int(pid)) != since)
        started = max(started, beats.get(f"beat {owner}", 0.0))
    return time.time() - started > SILENT_SECONDS


def _machine() -> str:
    """Name this machine, this boot of it and this container: where a process number means one."""
    parts = [socket.gethostname()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip())
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    return "/".join(parts).replace(" ", "_")


def _started(pid: int) -> str:
    """Return when a process began, empty where there is none."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    except OSError:
        return ""
    # One that was killed and not yet asked after is no more, though it is listed.
    return "" if fields[0] == "Z" else fields[19]
