"""A worker of a sweep: asks for a trial, scores it, tells; until enough are finished.

Any number of workers share one study. What a worker has taken bears its name, so that a trial of a
dead one can be told from a slow one and be given up; the count is of finished trials alone.
"""

import json
import math
import os
import signal
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.space import Space
from experiments.sweep.objective import MOST_DIFFERENCE, Objective, ScorerDifferenceError
from experiments.sweep.parameter import Parameter
from experiments.sweep.plan import StudyPlan
from experiments.sweep.profiles import BY_ROW, ProfileSampling, means_by_row, rows_of
from experiments.sweep.samplers import Sampling
from experiments.sweep.storage import is_storage_fault, quiet_optuna
from retriever import InputError
from retriever.types import Floats

if TYPE_CHECKING:
    from optuna import Study, Trial
    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial

__all__ = ["Counts", "Progress", "Worker", "count", "retire_dead"]

OWNER, REASON, DEFAULT = "worker", "reason", "default"
BEAT_SECONDS, SILENT_SECONDS, POLL_SECONDS = 15.0, 90.0, 0.1
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


def best_value(study: "Study") -> float:
    """Return the best first objective of the finished trials, minus infinity without one."""
    from optuna.trial import TrialState

    finished = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    return max((t.values[0] for t in finished), default=-math.inf)


class Worker:
    """Runs trials of one study with one objective.

    A trial is sampled over one look at the others and written whole
    (`experiments.sweep.whole_trials`). `number` is 0 for a sweep with one worker, whose trials are
    then the same however often it was killed; every worker beside it has a number of its own and
    samples other points. Worker 0 compares with ranx's the figures of its own trials that are the
    best so far, and at the end those of the best of all, whoever told them.
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
        import optuna

        from experiments.sweep.whole_trials import WholeTrials

        self.study = study
        # A grid tells workers apart by the number of a trial, which must then come first.
        self._view = None if plan.sampler == "grid" else WholeTrials(study)
        self._seen = study
        if self._view is not None:
            self._seen = optuna.Study(study.study_name, self._view)
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
        self._best = self._proved = -math.inf
        self._scored = 0
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
            self._look()
            counts = count(self._seen)
            self._best = max(self._best, best_value(self._seen))
            self.progress(counts, self._best if self._best > -math.inf else None)
            late = deadline is not None and time.monotonic() >= deadline
            if counts.finished >= trials or late:
                if counts.finished and self._number == 0:
                    self._prove_best()
                return counts
            if counts.failed >= MOST_FAILURES and counts.failed > counts.finished:
                raise InputError(
                    f"{counts.failed} trials failed and {counts.finished} finished; the last: "
                    f"{self._last_reason()}",
                    fix="change the space",
                )
            self._look_for_dead()
            if counts.finished + counts.running >= trials:
                # Others are at the last ones; if one dies its place is to be filled.
                time.sleep(POLL_SECONDS)
                continue
            self._one(trials, counts)

    def _look(self) -> None:
        if self._view is not None:
            self._view.look()

    def _one(self, trials: int, counts: Counts) -> None:
        from optuna.trial import TrialState

        if not self._defaulted:
            if not self._has_default():
                self.study.enqueue_trial(self.space.at(self.base), user_attrs={DEFAULT: True})
                self._look()
            self._defaulted = counts.finished > 0
        self._seen.sampler = self._sampler(counts)
        trial = self._seen.ask()
        try:
            trial.set_user_attr(OWNER, self.name)
            stored = suggest(trial, self.space, self.base)
            with _unbroken():
                number = trial.number if self._view is None else self._view.write(trial._trial_id)
            if number >= trials and self._is_surplus(number, trials):
                self._tell(trial, state=TrialState.FAIL)
                return
            values = self._evaluate(trial, stored)
        except (ScorerDifferenceError, KeyboardInterrupt):
            self._tell(trial, state=TrialState.FAIL)
            raise
        except Exception as error:
            if is_storage_fault(error):
                raise
            # Any other fault is the trial's own, and kept.
            trial.set_user_attr(REASON, f"{type(error).__name__}: {error}")
            self._tell(trial, state=TrialState.FAIL)
            return
        self._tell(trial, values)
        self._best = max(self._best, values[0])

    def _tell(self, trial: "Trial", *said: Any, **more: Any) -> None:
        with _unbroken():
            self._seen.tell(trial, *said, **more)

    def _sampler(self, counts: Counts) -> "BaseSampler":
        if self._profiles is not None:
            found = self._profiles.at(self._seen, counts.finished, counts.settled, self._number)
            if found is not None:
                return found
        return self._sampling.at(counts.settled, self._number)

    def _evaluate(self, trial: "Trial", stored: Mapping[str, Any]) -> list[float]:
        overrides = {} if trial.user_attrs.get(DEFAULT) else self.space.overrides(stored)
        config = self.base.with_overrides(overrides)
        key = json.dumps(overrides, sort_keys=True)
        if key not in self._known:
            scores = self.objective.score(config)
            values = [float(scores[name].mean()) for name in self._measures]
            if not all(map(math.isfinite, values)):
                raise ValueError(f"the objective is {values}")
            if self._number == 0 and self._scored % PROVE_EVERY == 0:
                self.objective.prove(config, scores)
                self._proved = max(self._proved, values[0])
            self._scored += 1
            drop = None if self.plan.max_drop is None else self._worst_drop(scores)
            rows = means_by_row(scores[self._measures[0]], self._rows) if self._rows else None
            self._known[key] = (values, drop, rows)
        values, drop, rows = self._known[key]
        if rows is not None:
            trial.set_user_attr(BY_ROW, rows)
        if drop is not None and self.plan.max_drop is not None:
            trial.set_constraint("worst query type", drop - self.plan.max_drop)
        return values

    def _prove_best(self) -> None:
        """Compare the best trial's figures with ranx's where this process has not done so.

        A worker beside the sweep never does: loading ranx takes as long as a hundred trials.
        """
        if self._best <= self._proved:
            return
        trial = max(
            (t for t in self._seen.get_trials(deepcopy=False) if t.state.name == "COMPLETE"),
            key=lambda t: (t.values[0], -t.number),
        )
        is_default = trial.user_attrs.get(DEFAULT)
        config = self.base.with_overrides({} if is_default else self.space.overrides(trial.params))
        scores = self.objective.score(config)
        self.objective.prove(config, scores)
        difference = abs(float(scores[self._measures[0]].mean()) - trial.values[0])
        if difference > MOST_DIFFERENCE:
            raise ScorerDifferenceError(
                f"trial {trial.number} was told {trial.values[0]!r} by {trial.user_attrs[OWNER]}, "
                f"which is {difference!r} from what is found here"
            )
        self._proved = self._best

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
            for t in self._seen.get_trials(deepcopy=False)
        )

    def _is_surplus(self, number: int, trials: int) -> bool:
        """Tell whether others have taken the last places since this worker counted.

        The number says how many were there before: one below `trials` need not ask.
        """
        from optuna.trial import TrialState

        before = sum(
            t.state != TrialState.FAIL and t.number <= number
            for t in self.study.get_trials(deepcopy=False)
        )
        return before > trials

    def _last_reason(self) -> str:
        trials = self._seen.get_trials(deepcopy=False)
        return str([t.user_attrs[REASON] for t in trials if REASON in t.user_attrs][-1])

    def _look_for_dead(self) -> None:
        if time.monotonic() - self._looked > BEAT_SECONDS:
            retire_dead(self.study)
            self._looked = time.monotonic()

    def _beat(self) -> None:
        """Say from time to time that this worker lives."""
        while not self._closed.wait(BEAT_SECONDS):
            self.study.set_user_attr(f"beat {self.name}", time.time())


@contextmanager
def _unbroken() -> Iterator[None]:
    """Put Ctrl-C off to the end of a write: no trial is left behind that nobody can name."""
    kinds = [signal.SIGINT, signal.SIGTERM]
    if threading.current_thread() is not threading.main_thread():
        kinds = []
    asked: list[int] = []
    kinds = [one for one in kinds if signal.getsignal(one) is signal.default_int_handler]
    for one in kinds:
        signal.signal(one, lambda number, _: asked.append(number))
    try:
        yield
    finally:
        for one in kinds:
            signal.signal(one, signal.default_int_handler)
    if asked:
        raise KeyboardInterrupt


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
