"""A sweep: screen the space, tune on train, choose on validation, judge on test.

The same call goes on with what an earlier one has left: the study in its storage is the only
state. `experiments.sweep.trials` runs the trials, `experiments.sweep.selection` draws the
conclusions.
"""

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.counting import counted
from experiments.metrics import Measure
from experiments.run import write_table
from experiments.space import Space
from experiments.sweep.candidates import (
    ROWS_JOINED,
    SIMPLIFIED,
    best_on_train,
    candidates_of,
    not_worse,
    simplified,
)
from experiments.sweep.inert import Screening, screen
from experiments.sweep.objective import Objective
from experiments.sweep.plan import StudyPlan, code_version, refuse_mismatch, space_record
from experiments.sweep.profiles import composed
from experiments.sweep.record import (
    differences,
    failures,
    importances,
    parameter_records,
    pareto,
    trial_table,
)
from experiments.sweep.samplers import SAMPLERS, drawn_at_random, grid_points, random_first
from experiments.sweep.scoring import check_objectives, scorable
from experiments.sweep.selection import (
    CANDIDATES,
    Candidate,
    Judgement,
    Partition,
    choose,
    expectation,
    folds,
    gaps,
    in_words,
    judge,
    needs_folds,
    on_test,
    overfit_gap,
    partition,
    undivided,
)
from experiments.sweep.storage import opened_storage, quiet_optuna, shown_url
from experiments.sweep.trials import REASON, Counts, Progress, Worker, count
from experiments.sweep.workers import helpers
from gold import GoldSet
from retriever import InputError, Retriever, RetrieverConfig
from retriever.files import write_atomically
from retriever.types import Floats

if TYPE_CHECKING:
    from optuna import Study
    from optuna.storages import BaseStorage

__all__ = ["NoFinishedTrialError", "Sweep", "SweepSettings", "refuse_folds", "run_sweep"]

FORMAT = 1
ALL_QUERIES = "all"
# One query a fold to judge on leaves four to tune and choose on.
FEWEST_QUERIES = 5


class NoFinishedTrialError(RuntimeError):
    """No trial was finished; the message says why."""


@dataclass(frozen=True)
class SweepSettings:
    """How to sweep.

    `trials` are finished trials in all, `timeout` seconds. `folds` 0 means one split, None as many
    as the set asks for. `judged` is another split of the gold set to judge on. `max_drop` is how
    far the worst query type may fall below the default. `profiles` tunes each row of weights in a
    study of its own. `index` and `gold_path` tell other processes what to open.
    """

    space: Space
    measures: tuple[Measure, ...]
    trials: int
    out: Path
    storage: str
    study: str
    sampler: str = "tpe"
    workers: int = 1
    seed: int = 0
    timeout: float | None = None
    folds: int | None = None
    judged: GoldSet | None = None
    max_drop: float | None = None
    profiles: bool = False

    def __post_init__(self) -> None:
        if self.sampler not in SAMPLERS:
            raise InputError(f"no sampler {self.sampler!r}", fix=f"one of {', '.join(SAMPLERS)}")
        check_objectives(self.measures)
        if self.sampler == "cmaes" and len(self.measures) > 1:
            raise InputError("cmaes takes one objective", fix="--sampler nsga2")
        if self.max_drop is not None and not 0 <= self.max_drop < math.inf:
            raise InputError(f"max_drop {self.max_drop} is no drop", fix="--max-drop 0.02")
        if self.trials < 1 or self.workers < 1:
            raise InputError("expected at least one trial and one worker")


@dataclass(frozen=True, eq=False)
class Sweep:
    """A finished sweep: what sweep.json holds, and where it was written.

    `trials` are the numbers and the overrides of the finished ones. `held_out` are the first
    objective's figures of the queries judged on, by query: the default's and the chosen one's.
    """

    path: Path
    record: Mapping[str, Any]
    config: RetrieverConfig
    judgement: Judgement
    trials: Sequence[tuple[int, Mapping[str, Any]]]
    held_out: Mapping[str, tuple[float, float]]


@dataclass(frozen=True, eq=False)
class _Tuned:
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


Say = Callable[[str], object]


def run_sweep(
    gold: GoldSet,
    retriever: Retriever,
    settings: SweepSettings,
    *,
    progress: Progress = lambda counts, best: None,
    say: Say = lambda text: None,
) -> Sweep:
    """Sweep, or go on with a sweep; write sweep.json and best.yaml to `settings.out`.

    Raises InputError for bad input, among it a study that was made of something else, and
    NoFinishedTrialError when there is nothing to choose from.
    """
    settings.space.check(retriever.config)
    refuse_folds(gold, settings.folds, retriever.config)
    with opened_storage(settings.storage) as storage:
        return _run_sweep(gold, retriever, settings, storage, progress, say)


def _run_sweep(
    gold: GoldSet,
    retriever: Retriever,
    settings: SweepSettings,
    storage: "BaseStorage",
    progress: Progress,
    say: Say,
) -> Sweep:
    begin, deadline = time.perf_counter(), None
    if settings.timeout is not None:
        deadline = time.monotonic() + settings.timeout
    relevant_from = retriever.config.evaluation.relevant_from or gold.relevant_from
    query_ids = scorable(gold.qrels, relevant_from)
    runner = _Runner(gold, retriever, settings, storage, progress, say, deadline)
    wanted = settings.folds
    if wanted is None:
        wanted = 5 if settings.judged is None and needs_folds(len(query_ids)) else 0
    if wanted:
        parts = folds(gold, query_ids, wanted, settings.seed)
        say(runner.resolution(len(query_ids), f", each judged in one of {wanted} folds"))
        undivided_folds = sum(part.validation == part.train for part in parts)
        if undivided_folds:
            say(
                f"{counted(undivided_folds, 'fold')} with too few queries to divide: chosen on "
                "those tuned on"
            )
        tuned = [runner.tune(part, f"/fold-{i}") for i, part in enumerate(parts, start=1)]
        final = runner.tune(undivided(gold, query_ids, settings.seed), "")
    else:
        part = partition(gold, query_ids, settings.seed, settings.judged)
        say(runner.resolution(len(part.test), " to judge on"))
        final = runner.tune(part, "")
        tuned = [final]
    tested = {
        name: (
            np.concatenate([one.default_test[name] for one in tuned]),
            np.concatenate([one.chosen_test[name] for one in tuned]),
        )
        for name in map(str, settings.measures)
    }
    default, chosen = tested[runner.measure]
    judgement = judge(default, chosen, final.plan.deviation)
    record = _record(gold, retriever, settings, wanted, final, tuned, judgement)
    record["objectives"] = on_test(tested)
    record |= {
        "seconds": round(time.perf_counter() - begin, 3),
        "seconds_per_trial": round(runner.seconds / runner.done, 6) if runner.done else None,
    }
    write_atomically(settings.out / "best.yaml", final.config.to_yaml().encode())
    scratch = settings.out / ".trials.parquet"
    write_table(scratch, trial_table(final.study, final.plan))
    scratch.replace(settings.out / "trials.parquet")
    text = json.dumps(record, ensure_ascii=False, indent=1, allow_nan=False)
    write_atomically(settings.out / "sweep.json", f"{text}\n".encode())
    trials = [(c.number, c.overrides) for c in candidates_of(final.study, final.plan)]
    judged = [query_id for one in tuned for query_id in one.test_ids]
    figures = zip(default.tolist(), chosen.tolist(), strict=True)
    held_out = dict(zip(judged, figures, strict=True))
    return Sweep(settings.out, record, final.config, judgement, trials, held_out)


class _Runner:
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

    def resolution(self, queries: int, of: str) -> str:
        """Say what so many queries can tell apart, from the spread of the default's own figures.

        Two configurations of one retriever agree on most queries: their differences spread about
        half as far as the figures do. The verdict says it again from the differences that came.
        """
        scores = self.objective(None).score(self.base)[self.measure]
        told = expectation(0.5 * float(scores.std(ddof=1)), queries)
        return (
            f"{counted(queries, 'query')}{of}; the default scores {scores.mean():.4f} "
            f"{self.measure}; {told}"
        )

    def objective(self, query_ids: Sequence[str] | None, gold: GoldSet | None = None) -> Objective:
        return Objective(self.retriever, gold or self.gold, self.settings.measures, query_ids)

    def tune(self, part: Partition, suffix: str) -> _Tuned:
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
        return self.chosen(study, plan, part, train, counts)

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
                f"{len(found.space.parameters)} swept, of which {len(found.conditional)} "
                f"conditional as the look found ({counted(found.looks, 'configuration')} tried, "
                f"{time.perf_counter() - begin:.1f} s)"
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

    def chosen(
        self,
        study: "Study",
        plan: StudyPlan,
        part: Partition,
        train: Objective,
        counts: Counts,
    ) -> _Tuned:
        """Choose among the best trials on validation, and score test, once."""
        space, name = plan.parameters(), self.measure
        candidates = candidates_of(study, plan)
        varied = len({c.train for c in candidates}) > 1
        few = best_on_train(candidates, CANDIDATES)
        if varied and plan.profiles and counts.finished > plan.shared_trials:
            few = [self.of_rows(study, plan, train), *few]
        if varied and (simple := simplified(few[0], space, self.base, train, name)) is not few[0]:
            few.append(simple)
        default = next(c for c in candidates if not c.changed)
        few = [default, *(not_worse(few, default) if varied else ())]
        configs = [self.base.with_overrides(c.overrides) for c in few]
        held = self.objective(part.validation)
        values = [held.score(config)[name] for config in configs]
        best, on_validation = choose(few, values)
        config = self.base.with_overrides(best.overrides)
        test = self.objective(part.test, self.settings.judged) if part.test else None
        scored = [test.score(c) if test else {} for c in (self.base, config)]
        if test is not None:
            test.prove(config, test.score(config))
        return _Tuned(
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

    def of_rows(self, study: "Study", plan: StudyPlan, train: Objective) -> Candidate:
        """Return the candidate that has the best weights of every row."""
        number, overrides = composed(study, plan)
        default = plan.parameters().overrides(plan.parameters().at(self.base))
        changed = sum(value != default.get(path) for path, value in overrides.items())
        figure = float(train.score(self.base.with_overrides(overrides))[self.measure].mean())
        return Candidate(number, overrides, max(1, changed), figure, ROWS_JOINED)


def refuse_folds(gold: GoldSet, wanted: int | None, config: RetrieverConfig) -> None:
    """Refuse a gold set of too few queries, and folds that they do not fill. Raises InputError."""
    relevant_from = config.evaluation.relevant_from or gold.relevant_from
    queries = len(scorable(gold.qrels, relevant_from))
    if queries < FEWEST_QUERIES:
        raise InputError(
            f"{counted(queries, 'query')} with a relevant document: too few to tune, to choose "
            "and to judge on",
            path=gold.path,
            fix=f"judge {FEWEST_QUERIES} at least; from six on a difference can be significant",
        )
    if wanted and not 2 <= wanted <= queries:
        raise InputError(
            f"{counted(queries, 'query')} with a relevant document cannot be divided into "
            f"{counted(wanted, 'fold')}",
            path=gold.path,
            fix=f"--cv 2 to --cv {queries}, or --cv 0 for one split",
        )


def _why_none(study: "Study") -> str:
    reasons = [trial.user_attrs[REASON] for trial in study.trials if REASON in trial.user_attrs]
    return (
        f"no trial was finished; the last failed: {reasons[-1]}"
        if reasons
        else ("no trial was finished in the time given")
    )


def _record(
    gold: GoldSet,
    retriever: Retriever,
    settings: SweepSettings,
    wanted: int,
    final: _Tuned,
    tuned: Sequence[_Tuned],
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
        "conditional": list(plan.conditional),
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
        },
    }
