"""The pinned regression table: configurations x gold sets x expected figures, rebuilt and checked.

    python -m experiments.regressions [--quick] [--only TEXT] [--update] [TABLE]

A figure is `exact` (to 6 decimals), `close` (within the table's tolerance) or `failed`. A row that
could not be evaluated, whose gold set is absent or has changed since it was pinned, is `not
measured` with the reason, and never a 0. Ends with 1 when a figure failed or a row that should
have been measured was not; a public set that is absent here is no fault.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import Field, ValidationError

from experiments.shown import print_text, say
from retriever.config import Record
from retriever.files import InputError, write_atomically
from retriever.strict_yaml import read_yaml

__all__ = ["Row", "RowResult", "Table", "check", "load_table", "main", "pinned", "verdict_of"]

TABLE = Path("docs/regressions.yaml")
EXACT = 5e-7
_HEAD = "# Checked by `make regressions`; figures pinned by `make regressions ARGS=--update`.\n"


class Row(Record):
    """One evaluation: a gold set (a path, or a folder under ASSAY_DATA), a configuration."""

    name: str
    gold: str
    config: str = "default"
    sets: tuple[str, ...] = ()
    split: str = "test"
    quick: bool = False
    digest: str = ""
    expected: Mapping[str, float] = Field(min_length=1)


class Table(Record):
    """The pinned rows and how near is close."""

    tolerance: float = Field(default=0.0005, gt=0)
    rows: tuple[Row, ...] = Field(min_length=1)


@dataclass(frozen=True)
class RowResult:
    """What became of a row: {metric: (expected, found, verdict)}, or why it was not measured."""

    row: Row
    figures: Mapping[str, tuple[float, float | None, str]]
    digest: str = ""
    not_measured: str = ""
    absent: bool = False

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong; an absent public set is not."""
        if self.not_measured:
            return self.absent
        return all(verdict != "failed" for _, _, verdict in self.figures.values())


def load_table(path: Path) -> Table:
    """Read the table. Raises InputError naming the file and the key at fault."""
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=path) from error
    try:
        return Table.model_validate(read_yaml(text, path))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise InputError(f"{place}: {first['msg']}", path=path) from error


def verdict_of(expected: float, found: float | None, tolerance: float) -> str:
    """Return exact, close or failed. A figure that is undefined failed."""
    if found is None:
        return "failed"
    distance = abs(found - expected)
    return "exact" if distance <= EXACT else "close" if distance <= tolerance else "failed"


def check(row: Row, tolerance: float, data: Path) -> RowResult:
    """Evaluate one row and compare; whatever goes wrong makes it `not measured`."""
    place = Path(row.gold) if Path(row.gold).is_dir() else data / row.gold
    if not place.is_dir():
        return RowResult(row, {}, not_measured=f"{place} is absent", absent=True)
    try:
        digest, found = _measure(row, place)
    except Exception as error:  # noqa: BLE001 - a crash of any kind is a row not measured
        return RowResult(row, {}, not_measured=f"{type(error).__name__}: {error}")
    figures = {
        metric: (expected, found.get(metric), verdict_of(expected, found.get(metric), tolerance))
        for metric, expected in row.expected.items()
    }
    if row.digest and row.digest != digest:
        reason = "the gold set has changed since the figures were pinned"
        return RowResult(row, figures, digest, not_measured=reason)
    return RowResult(row, figures, digest)


def _measure(row: Row, place: Path) -> tuple[str, dict[str, float | None]]:
    from experiments.evaluate import evaluate
    from gold import load
    from retriever import Retriever, build_index, load_config
    from retriever.ingest.build import fingerprint_of
    from retriever.store import store_folder

    metrics = ", ".join(row.expected)
    sets = [*row.sets, f"evaluation.metrics=[{metrics}]", f"evaluation.split={row.split}"]
    config = load_config(row.config, sets)
    judged = load(place, row.split)
    cache = store_folder() / "cache" / "vectors"
    folder = store_folder() / "indexes" / fingerprint_of(judged.path, config)[:16]
    index = build_index(judged.path, folder, config, cache=cache).index
    with tempfile.TemporaryDirectory() as scratch:
        retriever = Retriever.open(index, config, cache=cache)
        done = evaluate(judged, retriever, Path(scratch) / "run")
    return judged.digest, {name: f["value"] for name, f in done.record["metrics"].items()}


def pinned(table: Table, results: Sequence[RowResult]) -> str:
    """Return the table as YAML with the figures found; rows not measured keep theirs."""
    rows = []
    for result in results:
        row: dict[str, Any] = result.row.model_dump(mode="json", exclude_defaults=True)
        if result.digest:
            row["digest"] = result.digest
            row["expected"] = {
                metric: round(expected if found is None else found, 6)
                for metric, (expected, found, _) in result.figures.items()
            }
        rows.append(row)
    body = {"tolerance": table.tolerance, "rows": rows}
    return _HEAD + yaml.safe_dump(body, sort_keys=False, allow_unicode=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the table and print a line a figure; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("table", nargs="?", type=Path, default=TABLE)
    parser.add_argument("--quick", action="store_true", help="only the rows marked quick")
    parser.add_argument("--only", default="", help="only the rows whose name holds this")
    parser.add_argument("--update", action="store_true", help="pin what is found")
    options = parser.parse_args(arguments)
    try:
        table = load_table(options.table)
    except InputError as error:
        say(f"assay: {error}")
        return 2
    data = Path(os.environ.get("ASSAY_DATA", "../shared/data"))
    rows = [
        row for row in table.rows if (row.quick or not options.quick) and options.only in row.name
    ]
    if not rows:
        say(f"assay: {options.table}: no such row")
        return 2
    results = []
    for row in rows:
        result = check(row, table.tolerance, data)
        results.append(result)
        if result.not_measured:
            print_text(f"{row.name}: not measured: {result.not_measured}")
        for metric, (expected, found, verdict) in result.figures.items():
            shown = "undefined" if found is None else f"{found:.6f}"
            print_text(f"{row.name}: {metric} {shown}, expected {expected:.6f}: {verdict}")
    if options.update:
        done = {id(result.row): result for result in results}
        every = [done.get(id(row), RowResult(row, {})) for row in table.rows]
        write_atomically(options.table, pinned(table, every).encode())
        return 0
    return 0 if all(result.ok for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
