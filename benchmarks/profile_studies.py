"""Rows of weights tuned each for itself, against one joint study of as many trials.

    python benchmarks/profile_studies.py [--sets smoke] [--trials 60] [--seeds 3] [--json]

Each seed divides a set into the same folds for both; every query is judged with what the other
folds chose. Prints nDCG@10 on held-out queries of the default, of the joint study and of
`--per-profile`, and the difference of the last two with its 95 % interval: a bootstrap over
queries, each query's figures being means over the seeds. `smoke` is the bundled set, others are
BEIR folders under ASSAY_DATA. The decomposition can help only where queries have several
workflows; they are counted.
"""

import argparse
import json
import os
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from experiments.comparison.significance import paired_bootstrap
from experiments.metrics import parse_measure, warm_up
from experiments.space import load_space
from experiments.sweep.objective import Objective
from experiments.sweep.procedure import SweepSettings, run_sweep
from experiments.sweep.storage import journal_url
from gold import GoldSet, load
from retriever import Retriever, RetrieverConfig, build_index
from retriever.ingest.build import fingerprint_of
from retriever.memo import Memo
from retriever.store import store_folder

DATA = Path(os.environ.get("ASSAY_DATA", "../shared/data"))
MEASURE = parse_measure("ndcg@10")


def main() -> None:
    """Sweep both ways and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", default="smoke")
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    warm_up()
    found = {}
    for name in options.sets.split(","):
        path = Path("gold/smoke") if name == "smoke" else DATA / name
        if not path.is_dir():
            sys.exit(f"{path} is absent: point ASSAY_DATA at BEIR folders")
        found[name] = compared(path, options.trials, options.folds, options.seeds)
    if options.json:
        print(json.dumps(found, indent=1))
        return
    print("| set | queries | workflows | default | joint | per profile | difference |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | --- |")
    for name, one in found.items():
        print(
            f"| {name} | {one['queries']} | {len(one['workflows'])} | {one['default']:.4f} "
            f"| {one['joint']:.4f} | {one['per_profile']:.4f} "
            f"| {one['difference']:+.4f} ({one['low']:+.4f} to {one['high']:+.4f}) |"
        )


def compared(path: Path, trials: int, folds: int, seeds: int) -> dict[str, Any]:
    """Return the figures of one set."""
    gold, config = load(path), RetrieverConfig()
    cache = store_folder() / "cache" / "vectors"
    folder = store_folder() / "indexes" / fingerprint_of(path, config)[:16]
    index = build_index(path, folder, config, cache=cache).index
    retriever = Retriever.open(index, config, cache=cache, memo=Memo(2**30))
    workflows = Counter(Objective(retriever, gold, [MEASURE]).workflows(config))
    figures: dict[bool, list[dict[str, tuple[float, float]]]] = {False: [], True: []}
    for seed in range(seeds):
        for profiles in (False, True):
            figures[profiles].append(held_out(gold, retriever, trials, folds, seed, profiles))
            print(f"{path.name}, seed {seed}, per profile: {profiles}", file=sys.stderr)
    ids = sorted(figures[False][0])
    default, joint = (
        np.mean([[one[q][i] for q in ids] for one in figures[False]], axis=0) for i in (0, 1)
    )
    rows = np.mean([[one[q][1] for q in ids] for one in figures[True]], axis=0)
    interval = paired_bootstrap(rows - joint)
    return {
        "queries": len(ids),
        "workflows": dict(workflows.most_common()),
        "trials": trials,
        "folds": folds,
        "seeds": seeds,
        "default": float(default.mean()),
        "joint": float(joint.mean()),
        "per_profile": float(rows.mean()),
        "difference": float((rows - joint).mean()),
        "low": interval.low,
        "high": interval.high,
        "by_seed": [
            float(np.mean([two[q][1] - one[q][1] for q in ids]))
            for one, two in zip(figures[False], figures[True], strict=True)
        ],
    }


def held_out(
    gold: GoldSet, retriever: Retriever, trials: int, folds: int, seed: int, profiles: bool
) -> dict[str, tuple[float, float]]:
    """Return the default's and the chosen configuration's figures by query, none tuned on."""
    with tempfile.TemporaryDirectory() as scratch:
        settings = SweepSettings(
            space=load_space("default"),
            measures=(MEASURE,),
            trials=trials,
            out=Path(scratch),
            storage=journal_url(Path(scratch) / "study.journal"),
            study="profiles",
            seed=seed,
            folds=folds,
            profiles=profiles,
        )
        return dict(run_sweep(gold, retriever, settings).held_out)


if __name__ == "__main__":
    main()
