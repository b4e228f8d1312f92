"""Does a sweep find its way back from a bad start? Labels of drugs, from dense-heavy weights.

    python benchmarks/spl_ddi_sweep.py [--trials 40] [--folds 5] [--weight 0.7] [--json]

The set is `spl_ddi`, a BEIR folder under ASSAY_DATA: templates of two drugs' names, easy for words
and hard for vectors. The start is docs/reference.yaml (whole documents, plain tokens, a dense and a
BM25 list, min-max) with most of the weight on the dense list. The sweep has the default space and
nested folds: every query is judged with what the other folds chose. Prints start and chosen
figures on held-out folds, the difference with its interval, the verdict and what was changed.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from experiments.metrics import parse_measure, warm_up
from experiments.space import load_space
from experiments.sweep.procedure import SweepSettings, run_sweep
from experiments.sweep.storage import journal_url
from gold import load
from retriever import Retriever, build_index
from retriever.config import load_config
from retriever.ingest.build import fingerprint_of
from retriever.memo import Memo
from retriever.store import store_folder

DATA = Path(os.environ.get("ASSAY_DATA", "../shared/data"))
REFERENCE = Path("docs/reference.yaml")
WANTED = 0.965


def main() -> None:
    """Sweep and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--weight", type=float, default=0.7, help="of the dense list")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if not (DATA / "spl_ddi").is_dir():
        sys.exit(f"{DATA / 'spl_ddi'} is absent: point ASSAY_DATA at BEIR folders")
    warm_up()
    gold, config = load(DATA / "spl_ddi"), load_config(REFERENCE)
    cache = store_folder() / "cache" / "vectors"
    folder = store_folder() / "indexes" / fingerprint_of(gold.path, config)[:16]
    index = build_index(gold.path, folder, config, cache=cache).index
    weights = {"dense": options.weight, "bm25": 1 - options.weight}
    start = config.with_overrides({f"merge.weights.{name}": w for name, w in weights.items()})
    retriever = Retriever.open(index, start, cache=cache, memo=Memo(2**30))
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as scratch:
        settings = SweepSettings(
            space=load_space("default"),
            measures=(parse_measure("ndcg@10"),),
            trials=options.trials,
            out=Path(scratch),
            storage=journal_url(Path(scratch) / "study.journal"),
            study="spl_ddi",
            folds=options.folds,
        )
        done = run_sweep(gold, retriever, settings, say=lambda text: print(text, file=sys.stderr))
    test = done.record["test"]
    found = {
        "queries": test["queries"],
        "folds": options.folds,
        "trials_a_fold": options.trials,
        "start": test["default"],
        "held_out": test["chosen"],
        "difference": test["difference"],
        "low": test["low"],
        "high": test["high"],
        "p_value": test["p_value"],
        "verdict": done.record["verdict"],
        "by_fold": [round(fold["chosen"], 4) for fold in done.record["by_fold"]],
        "changed": done.record["best"]["parameters"],
        "seconds": round(time.perf_counter() - begin, 1),
    }
    if options.json:
        print(json.dumps(found, indent=1))
    else:
        for name, value in found.items():
            print(f"{name:<14} {value:.4f}" if isinstance(value, float) else f"{name:<14} {value}")
    if found["held_out"] < WANTED or found["verdict"] != "better":
        sys.exit(f"expected at least {WANTED} on held-out folds, called better")


if __name__ == "__main__":
    main()
