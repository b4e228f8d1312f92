"""How large a sweep may be: 1,000 trials on real data, and 100,000 queries in bounded memory.

    python benchmarks/sweep_scale.py [--parts thousand,replay] [--trials 1000] [--queries 100000]
                                     [--json]

thousand  `--trials` whole trials of the default space, TPE in a journal, on SciFact train after a
          warm-up of one trial: minutes
replay    trials that change every late parameter, on `--queries` x 3 recorded lists x 100: seconds
          a trial, what the memo did, and the most memory this process ever held
"""

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse  # noqa: E402
import json  # noqa: E402
import resource  # noqa: E402
import tempfile  # noqa: E402
import time  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

from recorded_lists import recorded_world  # noqa: E402
from sweep import LATE, MEASURE, drawer, plan_of, public  # noqa: E402

from experiments.metrics import warm_up  # noqa: E402
from experiments.space import load_space  # noqa: E402
from experiments.sweep.objective import Objective  # noqa: E402
from experiments.sweep.storage import journal_url, open_storage, quiet_optuna  # noqa: E402
from experiments.sweep.trials import Worker  # noqa: E402

PARTS = ("thousand", "replay")
REPLAYED = 5
MEMORY = 5 * 2**30


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--queries", type=int, default=100_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    warm_up()
    figures: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        if "replay" in options.parts:
            figures |= replay(Path(scratch), options.queries)
        if "thousand" in options.parts:
            figures |= thousand(Path(scratch), options.trials)
    if options.json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        print(f"{name:<24}{value:.4g}" if isinstance(value, float) else f"{name:<24}{value}")


def thousand(folder: Path, trials: int) -> dict[str, Any]:
    """Whole trials on SciFact train."""
    import optuna

    gold, retriever = public("scifact", "train")
    objective, space = Objective(retriever, gold, [MEASURE]), load_space("default")
    objective.score(retriever.config)
    with quiet_optuna():
        study = optuna.create_study(
            storage=open_storage(journal_url(folder / "thousand.journal")),
            study_name="thousand",
            direction="maximize",
        )
    plan = plan_of(gold, retriever, space, "thousand")
    plan.kept_on(study)
    begin = time.perf_counter()
    Worker(study, plan, objective).run(trials)
    spent = time.perf_counter() - begin
    return {
        "queries_scifact": len(objective.query_ids),
        "trials_scifact": trials,
        "minutes_scifact": spent / 60,
        "trial_ms_scifact": 1000 * spent / trials,
    }


def replay(folder: Path, queries: int) -> dict[str, Any]:
    """Trials over recorded lists of many queries."""
    gold, retriever = recorded_world(folder / "recorded", queries, 100, memory=MEMORY)
    objective, base = Objective(retriever, gold, [MEASURE]), retriever.config
    space = load_space("default")
    late = [p.path for p in space.parameters if p.path in LATE or ".profiles." in p.path]
    draw, memo = drawer(space, late), retriever.memo
    begin = time.perf_counter()
    objective.score(base)
    first = time.perf_counter() - begin
    hits, misses = memo.hits, memo.misses
    begin = time.perf_counter()
    for _ in range(REPLAYED):
        objective.score(base.with_overrides(draw()))
    spent = time.perf_counter() - begin
    return {
        "queries_replayed": len(objective.query_ids),
        "first_trial_s": first,
        "replayed_trial_s": spent / REPLAYED,
        "memo_gib": memo.size / 2**30,
        "memo_budget_gib": memo.budget / 2**30,
        "memo_hits_a_trial": (memo.hits - hits) / REPLAYED,
        "memo_misses_a_trial": (memo.misses - misses) / REPLAYED,
        "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }


if __name__ == "__main__":
    main()
