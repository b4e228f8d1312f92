"""The folder of a sweep for tests of its page: written by the contract, made of nothing."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

METHOD, K = "merge.method", "merge.rrf_k"


def write_sweep(folder: Path, trials: int = 12, **changes: Any) -> Path:
    """Write a sweep over two parameters: trial i scores .5 + i / 100; `changes` are of the record.

    Trial 0 is the default, trial `trials - 1` the best and the chosen one.
    """
    folder.mkdir(parents=True)
    record = sweep_record(trials) | changes
    figures = [0.5 + i / 100 for i in range(trials)]
    columns: dict[str, Any] = {
        "trial": list(range(trials)),
        "seconds": [0.1] * trials,
        "default": [i == 0 for i in range(trials)],
        "keeps": [True] * trials,
        f"parameter:{METHOD}": ['"rrf"' if i % 2 else '"minmax"' for i in range(trials)],
        f"parameter:{K}": [1.0 + i if i % 2 else None for i in range(trials)],
    }
    for place, name in enumerate(record["objective"]):
        columns[f"objective:{name}"] = figures if place == 0 else figures[::-1]
    pq.write_table(pa.table(columns), folder / "trials.parquet")
    (folder / "sweep.json").write_text(json.dumps(record), "utf-8")
    return folder


def sweep_record(trials: int) -> dict[str, Any]:
    parts: Mapping[str, Any] = {"default": 0.5, "chosen": 0.5 + (trials - 1) / 100}
    parameter = {"log": False, "when": [], "workflow": None, "choices": [], "low": 0, "high": 0}
    return {
        "format": 1,
        "kind": "sweep",
        "created": "2026-01-01T00:00:00+00:00",
        "study": "made",
        "storage": "journal:/nowhere/study.journal",
        "objective": ["ndcg@10"],
        "gold": {"name": "made", "path": "/nowhere", "split": "test", "digest": "d" * 64},
        "index": "f" * 64,
        "base": "c" * 64,
        "space": {
            "name": "two",
            "digest": "e" * 64,
            "parameters": {
                METHOD: parameter
                | {
                    "kind": "choice",
                    "choices": ['"minmax"', '"rrf"'],
                    "default": '"minmax"',
                    "chosen": '"rrf"',
                },
                K: parameter
                | {
                    "kind": "float",
                    "low": 1.0,
                    "high": 100.0,
                    "log": True,
                    "when": [{METHOD: ["rrf"]}],
                    "default": 60.0,
                    "chosen": 12.0,
                },
            },
        },
        "sampler": "tpe",
        "seed": 0,
        "workers": 1,
        "folds": 0,
        "trials": trials,
        "finished": trials,
        "unique": trials,
        "failed": 0,
        "failures": [],
        "max_drop": None,
        "outside_constraints": 0,
        "parameters_swept": [METHOD, K],
        "inert": {"inject.min_new": "no ranking changes"},
        "conditional": {K: "declared"},
        "best": {
            "trial": trials - 1,
            "name": f"trial {trials - 1}",
            "is_trial": True,
            "train": parts["chosen"],
            "parameters": {METHOD: "rrf", K: 12.0},
            "changed": 2,
            "config": "/nowhere/best.yaml",
            "differences": {METHOD: {"default": "minmax", "chosen": "rrf"}},
        },
        "candidates": [
            _candidate(0, {}, 0, 0.5, 0.52, chosen=False),
            _candidate(trials - 1, {METHOD: "rrf", K: 12.0}, 2, 0.5 + (trials - 1) / 100, 0.6),
        ],
        "importance": {
            "values": {METHOD: 0.75, K: 0.25},
            "reason": None,
            "trials": trials,
            "best": 0.1,
        },
        "choice": {
            "queries": [20, 20],
            "judged": 20,
            "one_query": 0.05,
            "told_apart": 0.09,
            "judged_told_apart": 0.09,
            "few": False,
            "in_words": "the choice is made on 20 queries",
        },
        "train": {"queries": 60, **parts},
        "validation": {"queries": 20, "default": 0.52, "chosen": 0.6},
        "test": {
            "queries": 20,
            "default": 0.51,
            "chosen": 0.55,
            "default_interval": [0.4, 0.6],
            "chosen_interval": [0.45, 0.65],
            "difference": 0.04,
            "low": -0.02,
            "high": 0.1,
            "p_value": 0.21,
            "smallest_detectable": 0.09,
        },
        "objectives": {"ndcg@10": {"default": 0.51, "chosen": 0.55, "difference": 0.04}},
        "overfit_gap": 0.07,
        "by_fold": [],
        "pareto": [],
        "verdict": "not distinguishable",
        "verdict_in_words": "not distinguishable from the default on 20 queries (p 0.21)",
        "memo": {"hits": 1, "misses": 1, "bytes": 1, "budget": 1, "refused": 0, "passed": 0},
        "seconds": 1.0,
        "seconds_per_trial": 0.02,
    }


def _candidate(
    trial: int,
    parameters: Mapping[str, Any],
    changed: int,
    train: float,
    validation: float,
    *,
    chosen: bool = True,
) -> dict[str, Any]:
    return {
        "trial": trial,
        "parameters": dict(parameters),
        "changed": changed,
        "simplified": False,
        "name": f"trial {trial}",
        "train": train,
        "validation": validation,
        "behind": 0.6 - validation,
        "error": 0.03,
        "chosen": chosen,
    }
