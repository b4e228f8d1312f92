"""The studies of a sweep: each planned, its space screened, its trials run to their end."""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from experiments.counting import counted
from experiments.sweep.choosing import Tuned, chosen_from
from experiments.sweep.conditional import conditional
from experiments.sweep.few_queries import ChoiceResolution, choice_resolution
from experiments.sweep.inert import Screening, screen
from experiments.sweep.objective import Objective
from experiments.sweep.plan import StudyPlan, code_version, refuse_mismatch, space_record
from experiments.sweep.samplers import drawn_at_random, grid_points, random_first
from experiments.sweep.selection import Partition, expectation
from experiments.sweep.settings import SweepSettings
from experiments.sweep.storage import quiet_optuna
from experiments.sweep.trials import REASON, Progress, Worker, count
from experiments.sweep.workers import helpers
from gold import GoldSet
from reports.conditional import conditional_in_words
from retriever import InputError, Retriever

if TYPE_CHECKING:
    from optuna import Study
    from optuna.storages import BaseStorage

__all__ = ["NoFinishedTrialError", "Say", "StudyRunner"]

Say = Callable[[str], object]


class NoFinishedTrialError(RuntimeError):
    """No trial was finished; the message says why."""


class StudyRunner:
    """Runs the studies of a sweep, which share what was screened, the time and the storage."""

    def __init__(
        self,
        gold: GoldSet,
        retriever: Retriever,
        settings: SweepSettings,
        storage: "BaseStorage",
        progress: Progress,
        say: Say,
        deadline: float | None,
    ) -> None:
        self.gold = gold
        self.retriever = retriever
        self.base = retriever.config
        self.settings = settings
        self.progress = progress
        self.say = say
        self.deadline = deadline
        self.storage = storage
        self.seconds = 0.0
        self.done = 0
        self.screening: Screening | None = None
        self.measure = str(settings.measures[0])

    def resolution(self, judged: int, of: str, choosing: Sequence[int]) -> ChoiceResolution:
        """Say what the queries judged can tell apart, and whether few choose; return the latter.

        Taken from the spread of the default's own figures. Two configurations of one retriever
        agree on most queries: their differences spread about half as far as the figures do. The
        verdict says it again from the differences that came.
        """
        scores = self.objective(None).score(self.base)[self.measure]
        deviation = 0.5 * float(scores.std(ddof=1))
        self.say(
            f"{counted(judged, 'query')}{of}; the default scores {scores.mean():.4f} "
            f"{self.measure}; {expectation(deviation, judged)}"
        )
        choice = choice_resolution(choosing, judged, deviation)
        if choice.few:
            self.say(choice.words)
        return choice

    def objective(self, query_ids: Sequence[str] | None, gold: GoldSet | None = None) -> Objective:
        """Return the objective on some queries, or on all; of another split where one is given."""
        return Objective(self.retriever, gold or self.gold, self.settings.measures, query_ids)

    def tune(self, part: Partition, suffix: str) -> Tuned:
        """Run one study to its end and choose from it."""
        import optuna

        train = self.objective(part.train)
        with quiet_optuna():
            study = optuna.create_study(
                storage=self.storage,
                study_name=f"{self.settings.study}{suffix}",
                directions=["maximize"] * len(self.settings.measures),
                load_if_exists=True,
            )
        plan = self.planned(study, part, train)
        worker = Worker(
            study,
            plan,
            train,
            parallel=self.settings.workers > 1,
            progress=self.progress,
        )
        self.say(
            f"{study.study_name}: tuning on {counted(len(part.train), 'query')}, choosing on "
            f"{len(part.validation)}"
        )
        trials = self.settings.trials
        if plan.sampler == "grid":
            trials = min(trials, self.points(plan))
        begin, before = time.perf_counter(), count(study).finished
        arguments, storage = self.helper_arguments(study, trials), self.settings.storage
        with helpers(arguments, storage, self.settings.workers - 1, self.say):
            counts = worker.run(trials, self.deadline)
        self.seconds += time.perf_counter() - begin
        self.done += counts.finished - before
        if not counts.finished:
            raise NoFinishedTrialError(_why_none(study))
        held = self.objective(part.validation)
        test = self.objective(part.test, self.settings.judged) if part.test else None
        return chosen_from(study, plan, counts, train, held, test)

    def points(self, plan: StudyPlan) -> int:
        """Return the points of the grid; more trials than that would only repeat some."""
        points = grid_points(plan.parameters())
        if points < self.settings.trials:
            self.say(
                f"the grid has {counted(points, 'point')}: {counted(points, 'trial')}, "
                f"not {self.settings.trials}"
            )
        return points

    def helper_arguments(self, study: "Study", trials: int) -> list[str]:
        """Return what `assay sweep worker` is to be told."""
        arguments = [str(self.gold.path), "--index", str(self.retriever.index.path)]
        arguments += ["--study", study.study_name, "--trials", str(trials)]
        if self.deadline is not None:
            arguments += ["--timeout", str(max(0.0, self.deadline - time.monotonic()))]
        return arguments

    def planned(self, study: "Study", part: Partition, train: Objective) -> StudyPlan:
        """Return the plan of a study; screen the space where it is new."""
        settings = self.settings
        wanted = StudyPlan(
            study=study.study_name,
            config=self.base.model_dump(mode="json"),
            asked=settings.space.digest,
            space=space_record(settings.space),
            objectives=tuple(map(str, settings.measures)),
            sampler=settings.sampler,
            seed=settings.seed,
            gold=self.gold.digest,
            split=self.gold.split,
            index=self.retriever.index.manifest.fingerprint,
            code=code_version(self.base),
            query_ids=part.train,
            max_drop=settings.max_drop,
            profiles=settings.profiles,
            shared_trials=max(1, settings.trials // 2),
        )
        if StudyPlan.is_on(study):
            kept = StudyPlan.of(study)
            refuse_mismatch(wanted, kept)
            return kept
        if count(study).finished or study.trials:
            raise InputError(
                f"the study {study.study_name} was not made by assay sweep", fix="name another"
            )
        plan = wanted.screened(self.screened(train))
        plan.kept_on(study)
        return plan

    def screened(self, train: Objective) -> Screening:
        """Screen the space, once: of the folds' queries no label is read, so the first will do."""
        if self.screening is None:
            begin, asked = time.perf_counter(), self.settings.space
            self.say(f"moving {counted(len(asked.parameters), 'parameter')}, each alone")
            found = self.screening = screen(asked, self.base, train)
            if not found.space.parameters:
                raise InputError(
                    "no parameter of the space changes any ranking on this gold set",
                    fix="widen the space",
                )
            self.say(
                f"{counted(len(asked.parameters), 'parameter')}: {len(found.inert)} inert, "
                f"{len(found.space.parameters)} swept, of which "
                f"{conditional_in_words(conditional(asked, found.space))}; "
                f"{counted(found.looks, 'configuration')} tried, "
                f"{time.perf_counter() - begin:.1f} s"
            )
            name = self.settings.sampler
            random = drawn_at_random(name, found.space, found.space.at(self.base))
            first = random_first(name)
            if first >= self.settings.trials:
                self.say(
                    f"all {counted(self.settings.trials, 'trial')} are drawn at random: {name} "
                    f"learns from {first} trials on"
                )
            if random:
                kinds = list(random.values())
                self.say(
                    f"{name} draws {len(random)} of {len(found.space.parameters)} parameters at "
                    f"random: {kinds.count('choice')} choices, {kinds.count('conditional')} "
                    "conditional"
                )
        return self.screening


def _why_none(study: "Study") -> str:
    reasons = [trial.user_attrs[REASON] for trial in study.trials if REASON in trial.user_attrs]
    return (
        f"no trial was finished; the last failed: {reasons[-1]}"
        if reasons
        else ("no trial was finished in the time given")
    )
