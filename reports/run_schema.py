"""What run.json and queries.parquet must hold: a run that was tampered with or cut is refused.

Whoever reads a run, an experiment or a report, reads it by these rules. A gate decides by these two
files, so they must agree with each other and with themselves: as many
queries as were counted, each once, every figure a share, and 0 or 1 where the metric is a rate.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from reports.columns import ANEW, check_kind, check_names, numbers_of, ranks_of
from reports.faults import InputError
from reports.measure_names import is_key, is_rate

__all__ = ["FORMAT", "check_queries", "read_record"]

FORMAT = 1
# Sums of gains may pass 1 by the last bits of a float.
SLACK = 1e-9
_SHOWN = 80

Count = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1 + SLACK, allow_inf_nan=False)]
Bound = Annotated[float, Field(ge=-SLACK, le=1 + SLACK, allow_inf_nan=False)]


class _Part(BaseModel):
    # Keys of later versions are welcome; nothing is turned into what it is not.
    model_config = ConfigDict(strict=True, extra="allow", frozen=True)


class _Gold(_Part):
    name: str
    path: str
    version: str
    split: str
    level: Literal["document", "chunk", "mention"]
    digest: str
    relevant_from: int


class _Index(_Part):
    path: str
    fingerprint: str
    collections: Mapping[str, Any] = {}


class _Config(_Part):
    fingerprint: str


class _Figure(_Part):
    value: Share | None
    low: Bound | None = None
    high: Bound | None = None
    queries: Count | None = None
    undefined: Count | None = None


class _Group(_Part):
    queries: Count
    metrics: Mapping[str, _Figure]


class _Latency(_Part):
    queries: Count
    stages: Mapping[str, Mapping[str, Annotated[float, Field(ge=0, allow_inf_nan=False)]]]


class _Record(_Part):
    created: str
    kind: Literal["retriever", "imported", "linking"]
    system: Mapping[str, Any]
    index: _Index | None
    config: _Config | None
    gold: _Gold
    depth: Annotated[int, Field(ge=1)]
    queries: Count
    unanswered: Count
    unscorable: Count
    metrics: Mapping[str, _Figure]
    classes: Mapping[str, Count] | None = None
    fallbacks: Mapping[str, Count]
    versions: Mapping[str, str]
    git_commit: str | None
    identity: Mapping[str, Any] | None = None
    knowledge: Mapping[str, Any] | None = None
    by_type: Mapping[str, _Group] | None = None
    by_workflow: Mapping[str, _Group] | None = None
    audit: Mapping[str, Count] | None = None
    latency_ms: _Latency | None = None


def read_record(file: Path) -> Mapping[str, Any]:
    """Read run.json.

    Raises InputError naming the file and the key of the first fault, and FileNotFoundError or
    NotADirectoryError where there is no such file.
    """
    try:
        record = json.loads(file.read_text("utf-8"), parse_constant=_no_number, parse_float=_finite)
        json.dumps(record, ensure_ascii=False).encode()  # half a surrogate pair can be escaped
    except UnicodeError as error:
        raise InputError("not UTF-8", path=file, fix=ANEW) from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"no JSON: {error}", path=file, fix=ANEW) from error
    if not isinstance(record, dict):
        raise InputError("expected a JSON object", path=file, fix=ANEW)
    found = record.get("format")
    if type(found) is not int or found != FORMAT:
        shown = f"{found!r:.{_SHOWN}}"
        raise InputError(f"run format {shown}; this version reads {FORMAT}", path=file, fix=ANEW)
    for key in ("gold", "metrics"):
        if key in record and not isinstance(record[key], dict):
            raise InputError(f"{key} is no object", path=file, fix=ANEW)
    try:
        checked = _Record.model_validate(record)
    except ValidationError as error:
        raise InputError(_said(error), path=file, fix=ANEW) from error
    if checked.kind == "retriever" and (checked.index is None or checked.config is None):
        absent = "index" if checked.index is None else "config"
        raise InputError(f"{absent}: a run of a retriever has one", path=file, fix=ANEW)
    for name in checked.metrics:
        _refuse_unknown_metric(name, file)
    return dict(record)


def _refuse_unknown_metric(name: str, file: Path) -> None:
    if is_key(name):
        return
    shown = f"{name!r:.{_SHOWN}}"
    said = f"unknown measure {shown}"
    if is_key(name.lower()):
        said = f"{shown} should be {name.lower()}"
    raise InputError(f"metrics: {said}", path=file, fix=ANEW)


def _said(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    if first["type"] == "missing":
        return f"lacks {place}"
    message = first["msg"].removeprefix("Input ")
    return f"{place}: {first['input']!r:.{_SHOWN}} {message}"


def _no_number(token: str) -> float:
    raise ValueError(f"{token} is no number of JSON")


def _finite(token: str) -> float:
    value = float(token)
    if math.isinf(value):
        raise ValueError(f"{token[:_SHOWN]} is too large for a number")
    return value


def check_queries(table: Any, record: Mapping[str, Any], file: Path) -> None:
    """Hold the query table, an Arrow table, against run.json.

    Raises InputError naming column and query.
    """
    _check_columns(table, record, file)
    ids: list[str] = table.column("query_id").to_pylist()
    if len(set(ids)) < len(ids):
        seen: set[str] = set()
        twice = next(i for i in ids if i in seen or seen.add(i))  # type: ignore[func-returns-value]
        raise InputError(f"query {twice!r:.{_SHOWN}} stands twice", path=file, fix=ANEW)
    scorable = np.array(table.column("scorable").to_pylist(), dtype=np.bool_)
    scored, left_out = record["queries"], record["unscorable"]
    if int(scorable.sum()) != scored or len(ids) != scored + left_out:
        raise InputError(
            f"holds {int(scorable.sum())} scorable and {int((~scorable).sum())} other queries; "
            f"run.json says {scored} and {left_out}",
            path=file,
            fix=ANEW,
        )
    judged = [query_id for query_id, counts in zip(ids, scorable, strict=True) if counts]
    for name, figure in record["metrics"].items():
        values = numbers_of(table.column(name), name, file)[scorable]
        _check_figures(name, values, judged, figure.get("undefined"), file)


def _check_columns(table: Any, record: Mapping[str, Any], file: Path) -> None:
    names = [str(name) for name in table.column_names]
    needed = ("query_id", "text", "type", "critical", "scorable", *record["metrics"])
    check_names(names, needed, file)
    for name in ("query_id", "text"):
        check_kind(table.column(name), name, "text", file, whole=True)
    for name in ("critical", "scorable"):
        check_kind(table.column(name), name, "flag", file, whole=True)
    for name in ("type", "class", "subclass", "lost_at", "workflow", "causes", "evidence"):
        if name in names:
            check_kind(table.column(name), name, "text", file)
    for name in names:
        if name.startswith("gold_rank:") or name == "first_relevant_rank":
            ranks_of(table.column(name), name, file)
        elif name.startswith("weight:") or name in ("relevant", "retrieved"):
            numbers_of(table.column(name), name, file)


def _check_figures(
    name: str,
    values: npt.NDArray[np.float64],
    query_ids: list[str],
    undefined: int | None,
    file: Path,
) -> None:
    absent = np.isnan(values)
    rate = is_rate(name)
    within = (values == 0) | (values == 1) if rate else (values >= 0) & (values <= 1 + SLACK)
    odd = np.flatnonzero(~absent & ~within)
    if odd.size:
        row = int(odd[0])
        expected = "0 or 1" if rate else "from 0 to 1"
        raise InputError(
            f"{name} of query {query_ids[row]!r:.{_SHOWN}} is {values[row]:g}, not {expected}",
            path=file,
            fix=ANEW,
        )
    if undefined is not None and int(absent.sum()) != undefined:
        many = int(absent.sum())
        noun = f"{many} {'query' if many == 1 else 'queries'}"
        first = f", first {query_ids[int(absent.argmax())]!r:.{_SHOWN}}" if many else ""
        raise InputError(
            f"{name} is undefined for {noun}{first}; run.json says {undefined}",
            path=file,
            fix=ANEW,
        )
