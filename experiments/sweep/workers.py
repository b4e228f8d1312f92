"""Workers of a sweep beside this process: others like it over the same study."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.metrics import parse_measure
from experiments.sweep.objective import Objective
from experiments.sweep.plan import StudyPlan, code_version
from experiments.sweep.storage import opened_storage, quiet_optuna
from experiments.sweep.trials import Counts, Progress, Worker
from gold import GoldSet, load
from retriever import Index, InputError, Retriever
from retriever.memo import Memo

if TYPE_CHECKING:
    from optuna import Study
    from optuna.storages import BaseStorage

__all__ = ["STORAGE_VARIABLE", "helpers", "join"]

START = "from experiments.cli import main; main()"
STORAGE_VARIABLE = "ASSAY_STORAGE"
PATIENCE_SECONDS = 30.0


@contextmanager
def helpers(
    command: Sequence[str], storage: str, many: int, say: Callable[[str], object]
) -> Iterator[list["subprocess.Popen[str]"]]:
    """Start `many` processes of `assay sweep worker` with some arguments; end them on leaving.

    The storage is told by the environment: its URL may hold a password, and any user of a machine
    may list its processes.

    On leaving the trials are finished: one that is still loading would only find that out, and is
    not waited for. Ctrl-C reaches them from the terminal, and SIGTERM is taken for it. One that was
    killed is told to `say`: the others finish its trials. Raises InputError with what one of them
    said, when it ended otherwise.
    """
    before = _interrupted_by_sigterm()
    started = [
        subprocess.Popen(  # noqa: S603 - our own command
            [sys.executable, "-c", START, "sweep", "worker", *command],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, STORAGE_VARIABLE: storage},
        )
        for _ in range(many)
    ]
    try:
        yield started
        for process in started:
            if process.poll() is None:
                continue
            _, said = process.communicate()
            if process.returncode < 0 and process.returncode != -signal.SIGINT:
                say(f"a worker was ended by signal {-process.returncode}; the others went on")
            elif process.returncode not in (0, 130, -signal.SIGINT):
                last = "".join(said.strip().splitlines()[-1:])
                raise InputError(f"a worker of the sweep ended: {last[-500:]}")
    finally:
        for process in started:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
        for process in started:
            try:
                process.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            if process.stderr:
                process.stderr.close()
        if before is not None:
            signal.signal(signal.SIGTERM, before)


def _interrupted_by_sigterm() -> Any:
    """Take SIGTERM for Ctrl-C; return what it meant before, None outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        return None
    return signal.signal(signal.SIGTERM, signal.default_int_handler)


def join(
    gold: Path,
    index: Path,
    storage: str,
    study_name: str,
    trials: int,
    *,
    number: int,
    timeout_at: float | None,
    memo: Memo,
    cache: Path,
    progress: Progress = lambda counts, best: None,
) -> Counts:
    """Take part in a study: open what it was made of, from the paths given, and run trials.

    Raises InputError when there is no such study, or when gold set, index or code are not those
    it was made with.
    """
    with opened_storage(storage) as opened:
        study = _study_of(opened, study_name)
        plan = StudyPlan.of(study)
        objective = _opened(plan, gold, index, memo, cache)
        worker = Worker(study, plan, objective, number=number, parallel=True, progress=progress)
        return worker.run(trials, timeout_at)


def _study_of(storage: "BaseStorage", name: str) -> "Study":
    import optuna

    with quiet_optuna():
        try:
            return optuna.load_study(study_name=name, storage=storage)
        except KeyError as error:
            raise InputError(
                f"there is no study {name!r}", fix="start it with assay sweep first"
            ) from error


def _opened(plan: StudyPlan, gold: Path, index: Path, memo: Memo, cache: Path) -> Objective:
    """Open what a study was made of. Raises InputError where it is something else."""
    judged = load(gold, plan.split)
    opened = Index.open(index)
    found = {
        "gold set": (plan.gold, judged.digest),
        "index": (plan.index, opened.manifest.fingerprint),
        "code": (plan.code, code_version(plan.base)),
    }
    for name, (wanted, here) in found.items():
        if wanted != here:
            raise InputError(
                f"the study {plan.study} was made with another {name} ({wanted[:24]}, here "
                f"{here[:24]})",
                fix="give the same one",
            )
    retriever = Retriever.open(opened, plan.base, cache=cache, memo=memo)
    return objective_of(plan, judged, retriever)


def objective_of(plan: StudyPlan, gold: GoldSet, retriever: Retriever) -> Objective:
    """Return the objective that a plan describes."""
    measures = [parse_measure(text) for text in plan.objectives]
    return Objective(retriever, gold, measures, plan.query_ids)
