"""A sweep as a page: the verdict first, then what it rests on.

It is read from the folder of a sweep (sweep.json, trials.parquet); nothing is computed but how it
looks. Pictures are SVG in the page, so that it needs neither script nor network.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reports.cells import cut, p_text, short, signed
from reports.columns import read_table
from reports.conditional import conditional_in_words
from reports.faults import InputError
from reports.page import render_page
from reports.sweep_pictures import (
    Trials,
    chosen_on_front,
    front,
    history,
    slices,
    track,
)

__all__ = ["SweepFolder", "read_sweep", "to_html"]

FORMAT = 1
FAILURES, FRONT = 20, 50
PARTS = ("train", "validation", "test")


@dataclass(frozen=True)
class SweepFolder:
    """A sweep's folder: `record` is sweep.json, `trials` the columns of trials.parquet."""

    path: Path
    record: Mapping[str, Any]
    trials: Trials


def read_sweep(folder: Path) -> SweepFolder:
    """Read a sweep's folder. Raises InputError when it is none, or of another format."""
    file = folder / "sweep.json"
    try:
        record = json.loads(file.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InputError(
            "no folder of a sweep (it has no sweep.json)",
            path=folder,
            fix="give the folder that assay sweep wrote",
        ) from error
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=file) from error
    except ValueError as error:
        raise InputError(f"no JSON: {error}", path=file, fix="sweep anew") from error
    if not isinstance(record, dict) or record.get("kind") != "sweep":
        raise InputError("no record of a sweep", path=file, fix="give what assay sweep wrote")
    if record.get("format") != FORMAT:
        raise InputError(
            f"sweep format {record.get('format')!r}; this version reads {FORMAT}",
            path=file,
            fix="sweep anew",
        )
    if (
        "choice" not in record
        or "name" not in record["best"]
        or not isinstance(record["conditional"], dict)
    ):
        raise InputError(
            "a sweep of an earlier version, whose record lacks what the page shows",
            path=file,
            fix="give the command that made it again: its trials are kept",
        )
    return SweepFolder(folder, record, _read_trials(folder / "trials.parquet", record))


def _read_trials(file: Path, record: Mapping[str, Any]) -> Trials:
    import pyarrow as pa

    try:
        with file.open("rb") as stream:
            columns = read_table(stream).to_pydict()
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"cannot be read: {error}", path=file, fix="sweep anew") from error
    try:
        return Trials(
            number=columns["trial"],
            keeps=columns["keeps"],
            objectives={name: columns[f"objective:{name}"] for name in record["objective"]},
            parameters={
                path: columns[f"parameter:{path}"] for path in record["space"]["parameters"]
            },
        )
    except KeyError as error:
        raise InputError(f"lacks the column {error}", path=file, fix="sweep anew") from error


def to_html(sweep: SweepFolder) -> str:
    """Return a self-contained page."""
    record = sweep.record
    return render_page(
        "sweep.html",
        title=f"Sweep of {record['gold']['name']} {record['gold']['split']}: {record['study']}",
        data={},
        styles=("sweep.css",),
        context={
            "sweep": record,
            "objective": record["objective"][0],
            "judged": _judged(record),
            "parts": _parts(record),
            "history": history(sweep.trials, record),
            "importance": _importance(record["importance"]),
            "slices": slices(sweep.trials, record),
            "front": front(sweep.trials, record),
            "front_rows": record["pareto"][:FRONT],
            "on_front": chosen_on_front(record),
            "failures": [
                one | {"reason": cut(one["reason"], 400), "numbers": _numbers(one["trials"])}
                for one in record["failures"][:FAILURES]
            ],
            "profiles": _profiles(record),
            "inert": _grouped(record["inert"]),
            "conditions": _grouped(
                {
                    path: _conditions(one["when"])
                    for path, one in record["space"]["parameters"].items()
                    if path in record["conditional"]
                }
            ),
            "conditional": conditional_in_words(record["conditional"]),
            "same": not record["folds"] and not record["best"]["changed"],
            "short": short,
            "p_text": p_text,
            "signed": signed,
            "written": _written,
        },
    )


def _judged(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return figures on test with their intervals, on one scale."""
    test = record["test"]
    rows = {name: [test[name], *test[f"{name}_interval"]] for name in ("default", "chosen")}
    bounds = [value for row in rows.values() for value in row if value is not None]
    low, high = min(bounds), max(bounds)
    reach = max(abs(v) for v in (test["low"], test["high"], test["difference"]) if v is not None)
    return {
        "rows": [
            {
                "name": name,
                "value": value,
                "low": below,
                "high": above,
                "track": track(value, below, above, low, high),
            }
            for name, (value, below, above) in rows.items()
        ],
        "difference": track(
            test["difference"], test["low"], test["high"], -(reach or 1.0), reach or 1.0
        ),
    }


def _parts(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    figures = [record[part][one] for part in PARTS for one in ("default", "chosen")]
    low, high = min(figures), max(figures)
    return [
        {
            "name": part,
            "queries": record[part]["queries"],
            "default": record[part]["default"],
            "chosen": record[part]["chosen"],
            "gain": record[part]["chosen"] - record[part]["default"],
            "from": track(record[part]["default"], None, None, low, high),
            "to": track(record[part]["chosen"], None, None, low, high),
        }
        for part in PARTS
    ]


def _importance(found: Mapping[str, Any]) -> dict[str, Any]:
    values = found["values"] or {}
    most = max(values.values(), default=1.0) or 1.0
    rows = [
        {"path": path, "share": share, "width": round(100 * share / most, 2)}
        for path, share in values.items()
    ]
    return {**found, "rows": [row for row in rows if row["share"] >= 0.0005]}


def _profiles(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of weights by workflow, where the sweep moved some."""
    found: dict[str, dict[str, Any]] = {}
    weights: dict[str, None] = {}
    for path, one in record["space"]["parameters"].items():
        if one["workflow"] is not None:
            weight = path.rpartition(".")[2]
            weights[weight] = None
            found.setdefault(one["workflow"], {})[weight] = one
    return [
        {"workflow": workflow, "cells": [(name, row.get(name)) for name in weights]}
        for workflow, row in found.items()
    ]


def _grouped(words: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the paths that have the same words, by these."""
    found: dict[str, list[str]] = {}
    for path, text in words.items():
        found.setdefault(text, []).append(path)
    return found


def _conditions(alternatives: Sequence[Mapping[str, Sequence[Any]]]) -> str:
    """Return conditions as words: a is 1 or 2, and b is on; or c is 3."""
    return "; or ".join(
        " and ".join(
            f"{path} is {' or '.join(map(_written, allowed))}" for path, allowed in one.items()
        )
        for one in alternatives
    )


def _numbers(trials: Sequence[int]) -> str:
    return ", ".join(map(str, trials[:12])) + (", …" if len(trials) > 12 else "")


def _written(value: object) -> str:
    """Return a parameter's value as a configuration file would have it, numbers cut short."""
    if isinstance(value, float):
        return f"{value:.4g}"
    return cut(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), 80)
