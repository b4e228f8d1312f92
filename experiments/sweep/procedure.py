"""A sweep: screen the space, tune on train, choose on validation, judge on test.

The same call goes on with what an earlier one has left: the study in its storage is the only
state. `experiments.sweep.study_runner` runs each study,
`experiments.sweep.choosing` chooses from it, `experiments.sweep.selection` draws the conclusions,
`experiments.sweep.sweep_json` writes them down.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.counting import counted
from experiments.run import write_table
from experiments.sweep.candidates import candidates_of
from experiments.sweep.record import trial_table
from experiments.sweep.scoring import scorable
from experiments.sweep.selection import (
    Judgement,
    folds,
    judge,
    needs_folds,
    on_test,
    partition,
    undivided,
)
from experiments.sweep.settings import SweepSettings, refuse_folds
from experiments.sweep.storage import opened_storage
from experiments.sweep.study_runner import NoFinishedTrialError, Say, StudyRunner
from experiments.sweep.sweep_json import sweep_record
from experiments.sweep.trials import Progress
from gold import GoldSet
from retriever import Retriever, RetrieverConfig
from retriever.files import write_atomically

if TYPE_CHECKING:
    from optuna.storages import BaseStorage

__all__ = ["NoFinishedTrialError", "Sweep", "SweepSettings", "refuse_folds", "run_sweep"]


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
    runner = StudyRunner(gold, retriever, settings, storage, progress, say, deadline)
    wanted = settings.folds
    if wanted is None:
        wanted = 5 if settings.judged is None and needs_folds(len(query_ids)) else 0
    if wanted:
        parts = folds(gold, query_ids, wanted, settings.seed)
        whole = undivided(gold, query_ids, settings.seed)
        choosing = [len(part.validation) for part in (*parts, whole)]
        of = f", each judged in one of {wanted} folds"
        choice = runner.resolution(len(query_ids), of, choosing)
        undivided_folds = sum(part.validation == part.train for part in parts)
        if undivided_folds:
            say(
                f"{counted(undivided_folds, 'fold')} with too few queries to divide: chosen on "
                "those tuned on"
            )
        tuned = [runner.tune(part, f"/fold-{i}") for i, part in enumerate(parts, start=1)]
        final = runner.tune(whole, "")
    else:
        part = partition(gold, query_ids, settings.seed, settings.judged)
        choice = runner.resolution(len(part.test), " to judge on", [len(part.validation)])
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
    record = sweep_record(gold, retriever, settings, wanted, final, tuned, judgement)
    record |= {"objectives": on_test(tested), "choice": choice.to_json()}
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
