"""Run directories written by hand: a comparison needs no retriever to be tested."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from experiments.recorded import RecordedRun
from experiments.run import FORMAT, write_table


def write_run(
    folder: Path,
    figures: Mapping[str, Sequence[float | None]],
    columns: Mapping[str, Sequence[Any]] | None = None,
    **record: Any,
) -> RecordedRun:
    """Write a run of queries q0000, q0001, ... with figures, imported unless said otherwise."""
    folder.mkdir(parents=True)
    n = len(next(iter(figures.values())))
    ids = [f"q{i:04}" for i in range(n)]
    table: dict[str, Any] = {
        "query_id": ids,
        "text": [f"text of {q}" for q in ids],
        "type": ["even" if i % 2 == 0 else "odd" for i in range(n)],
        "role": [""] * n,
        "critical": [False] * n,
        "scorable": [True] * n,
        **{name: list(values) for name, values in figures.items()},
        **(columns or {}),
    }
    write_table(folder / "queries.parquet", table)
    ids = [str(q) for q in table["query_id"]]
    (folder / "qrels.trec").write_text("".join(f"{q} 0 d{q} 1\n" for q in ids))
    made = {
        "format": FORMAT,
        "created": "2026-01-01T00:00:00+00:00",
        "kind": "imported",
        "system": {"name": "made by hand"},
        "index": None,
        "config": None,
        "gold": {
            "name": "made",
            "path": "nowhere",
            "version": "1",
            "split": "test",
            "level": "document",
            "digest": "d" * 64,
            "relevant_from": 1,
        },
        "depth": 100,
        "queries": sum(table["scorable"]),
        "unanswered": 0,
        "unscorable": n - sum(table["scorable"]),
        "metrics": {
            name: {"value": _mean([v for v in values if v is not None])}
            for name, values in figures.items()
        },
        "classes": None,
        "fallbacks": {},
        "versions": {"python": "3.11"},
        "git_commit": None,
        **record,
    }
    (folder / "run.json").write_text(json.dumps(made))
    return RecordedRun.open(folder)


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None
