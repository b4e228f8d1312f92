"""What run.json and queries.parquet must hold: a run that was tampered with or cut is refused.

A gate decides by these two files, so they must agree with each other and with themselves: as many
queries as were counted, each once, every figure a share, and 0 or 1 where the metric is a rate.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from experiments.counting import counted
from experiments.metrics import parse_measure
from retriever.files import InputError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["check_queries", "read_record"]

ANEW = "evaluate anew"
# Sums of gains may pass 1 by the last bits of a float.
SLACK = 1e-9
_SHOWN = 80

Count = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1 + SLACK, allow_inf_nan=False)]


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
    undefined: Count | None = None


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
    latency_ms: Mapping[str, Any] | None = None


def read_record(file: Path, version: int) -> Mapping[str, Any]:
    """Read run.json. Raises InputError naming the file and the key of the first fault."""
    try:
        record = json.loads(file.read_text("utf-8"), parse_constant=_no_number, parse_float=_finite)
        json.dumps(record, ensure_ascii=False).encode()  # half a surrogate pair can be escaped
    except UnicodeError as error:
        raise InputError("not UTF-8", path=file, fix=ANEW) from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"no JSON: {error}", path=file, fix=ANEW) from error
    found = record.get("format") if isinstance(record, dict) else None
    if type(found) is not int or found != version:
        shown = f"{found!r:.{_SHOWN}}"
        raise InputError(f"run format {shown}; this version reads {version}", path=file, fix=ANEW)
    for key in ("gold", "metrics"):
        if not isinstance(record.get(key), dict):
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
    try:
        known = str(parse_measure(name))
    except InputError as error:
        raise InputError(f"metrics: {error}", path=file, fix=ANEW) from error
    if known != name:
        raise InputError(f"metrics: {name!r} should be {known}", path=file, fix=ANEW)


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


def check_queries(table: "pd.DataFrame", record: Mapping[str, Any], file: Path) -> None:
    """Hold the query table against run.json. Raises InputError naming column and query."""
    _check_columns(table, record, file)
    ids = table["query_id"].tolist()
    if len(set(ids)) < len(ids):
        seen: set[str] = set()
        twice = next(i for i in ids if i in seen or seen.add(i))  # type: ignore[func-returns-value]
        raise InputError(f"query {twice!r:.{_SHOWN}} stands twice", path=file, fix=ANEW)
    scorable = table["scorable"].to_numpy(bool)
    counted, left_out = record["queries"], record["unscorable"]
    if int(scorable.sum()) != counted or len(ids) != counted + left_out:
        raise InputError(
            f"holds {int(scorable.sum())} scorable and {int((~scorable).sum())} other queries; "
            f"run.json says {counted} and {left_out}",
            path=file,
            fix=ANEW,
        )
    for name, figure in record["metrics"].items():
        _check_figures(
            name,
            table[name].to_numpy(np.float64)[scorable],
            [query_id for query_id, counts in zip(ids, scorable, strict=True) if counts],
            figure.get("undefined"),
            file,
        )


def _check_columns(table: "pd.DataFrame", record: Mapping[str, Any], file: Path) -> None:
    import pandas as pd

    names = [str(name) for name in table.columns]
    needed = ("query_id", "text", "type", "critical", "scorable", *record["metrics"])
    absent = [name for name in needed if name not in names]
    if absent:
        raise InputError(f"lacks the columns {', '.join(absent)}", path=file, fix=ANEW)
    if len(set(names)) < len(names):
        raise InputError("a column stands twice", path=file, fix=ANEW)

    def wrong(name: str, expected: str) -> InputError:
        return InputError(f"the column {name} holds no {expected}", path=file, fix=ANEW)

    for name in ("query_id", "text"):
        if not all(isinstance(value, str) for value in table[name]):
            raise wrong(name, "text in every row")
    for name in ("critical", "scorable"):
        if len(table) and not pd.api.types.is_bool_dtype(table[name]):
            raise wrong(name, "true or false in every row")
    for name in ("type", "class", "subclass", "lost_at", "workflow"):
        if name in names and not all(isinstance(v, str) for v in table[name].dropna()):
            raise wrong(name, "text")
    ranks = [name for name in names if name.startswith("gold_rank:")]
    for name in (*record["metrics"], *ranks):
        column = table[name]
        plain = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
        if not plain and not column.isna().all():
            raise wrong(name, "numbers")
    for name in ranks:
        values = table[name].dropna().to_numpy(np.float64)
        if not np.all((values >= 1) & (values == np.floor(values)) & np.isfinite(values)):
            raise wrong(name, "ranks from 1")


def _check_figures(
    name: str,
    values: npt.NDArray[np.float64],
    query_ids: list[str],
    undefined: int | None,
    file: Path,
) -> None:
    absent = np.isnan(values)
    is_rate = parse_measure(name).is_rate
    within = (values == 0) | (values == 1) if is_rate else (values >= 0) & (values <= 1 + SLACK)
    odd = np.flatnonzero(~absent & ~within)
    if odd.size:
        row = int(odd[0])
        expected = "0 or 1" if is_rate else "from 0 to 1"
        raise InputError(
            f"{name} of query {query_ids[row]!r:.{_SHOWN}} is {values[row]:g}, not {expected}",
            path=file,
            fix=ANEW,
        )
    if undefined is not None and int(absent.sum()) != undefined:
        many = int(absent.sum())
        first = f", first {query_ids[int(absent.argmax())]!r:.{_SHOWN}}" if many else ""
        raise InputError(
            f"{name} is undefined for {counted(many, 'query')}{first}; run.json says {undefined}",
            path=file,
            fix=ANEW,
        )
