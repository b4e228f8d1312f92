"""Why queries moved between two runs: each difference of the configurations is tried by replay.

Of the candidate's configuration one difference at a time is put back to the baseline's value and
the moved queries are asked again; where no single one suffices, every two. A difference is a cause
of a query's move when putting it back alone undoes the move: a loss is made good, a gain is gone.
Two differences that each suffice are both named. Nothing else is called a cause.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.comparison.pairing import Pairing
from experiments.comparison.significance import TIE
from experiments.metrics import Measure
from experiments.recorded import RecordedRun, reopen
from experiments.replay import replay
from gold import GoldSet
from retriever import Retriever, RetrieverConfig
from retriever.config import difference
from retriever.files import InputError

__all__ = ["INDEX", "Unit", "attribute", "units_of"]

Floats = npt.NDArray[np.float64]
Booleans = npt.NDArray[np.bool_]

# Everything that makes another index (cutting, tokens, models, ingest) goes back together.
INDEX = "index"
_OF_INDEX = ("index.", "models", "plugins.biomed.ingest.")
_SCORING = "evaluation."
_DATA = ("merge.weights", "route.recall_top_k_by_collection")
_ABSENT = object()
MOST_PAIRS = 200


@dataclass(frozen=True)
class Unit:
    """One difference that can be put back: its name and the values that the baseline has."""

    name: str
    overrides: Mapping[str, Any]


def units_of(
    baseline: RetrieverConfig, candidate: RetrieverConfig, *, same_index: bool
) -> list[Unit]:
    """Return the differences of two configurations that can be put back.

    A mapping whose keys are data (merge.weights) is one difference. What belongs to the index is
    one, `index`, where the indexes differ, and none where they do not. Scoring is none.
    """
    trees = (baseline.model_dump(mode="json"), candidate.model_dump(mode="json"))
    of_index: dict[str, Any] = {}
    found: dict[str, Unit] = {}
    for path in difference(baseline, candidate):
        if path.startswith(_SCORING):
            continue
        name = next((data for data in _DATA if path.startswith(data)), None) or _shared(path, trees)
        value = _at(trees[0], name)
        if name.startswith(_OF_INDEX):
            of_index[name] = value
        else:
            found[name] = Unit(name, {name: value})
    units = list(found.values())
    return units if same_index else [*units, Unit(INDEX, of_index)]


def _shared(path: str, trees: Sequence[Mapping[str, Any]]) -> str:
    """Return the longest part of a path that both trees have."""
    keys = path.split(".")
    for end in range(len(keys), 1, -1):
        name = ".".join(keys[:end])
        if all(_at(tree, name, _ABSENT) is not _ABSENT for tree in trees):
            return name
    return keys[0]


def _at(tree: Mapping[str, Any], path: str, default: object = None) -> Any:
    at: Any = tree
    for key in path.split("."):
        if not isinstance(at, Mapping) or key not in at:
            return default
        at = at[key]
    return at


def attribute(
    pairing: Pairing,
    measure: Measure,
    *,
    gold: Path | None = None,
    index: Path | None = None,
    most_pairs: int = MOST_PAIRS,
) -> dict[str, Any]:
    """Try every difference of two runs on the queries that moved; return `causes` as plain data.

    `gold` and `index` say where the baseline's are now, if they have moved. Queries that this
    installation no longer scores as their runs did (other code or models) are counted and left
    out. Beyond `most_pairs` pairs the rest is not tried, counted. Raises InputError where a run
    cannot be opened again.
    """
    if measure.name in ("coverage", "judged"):
        raise InputError(
            f"causes are sought by rankings, not by {measure}", fix="name another with --metric"
        )
    one, other = pairing.values(measure)
    moved = np.flatnonzero(np.abs(np.nan_to_num(other - one)) > TIE)
    query_ids = [pairing.query_ids[i] for i in moved]
    trial = _Trial.open(pairing, measure, query_ids, gold, index)
    before, after = one[moved], other[moved]
    alike = (np.abs(trial.scores(()) - after) <= TIE) & (np.abs(trial.baseline() - before) <= TIE)

    untried: dict[str, str] = {}
    singles: dict[str, Booleans] = {}
    for unit in trial.units:
        undone = _undone(trial, (unit,), before, after, untried)
        if undone is not None:
            singles[unit.name] = undone & alike
    explained = _any(singles.values(), len(moved))
    tried = [unit for unit in trial.units if unit.name in singles]
    every_pair = list(combinations(tried, 2)) if (alike & ~explained).any() else []
    doubles: dict[tuple[str, ...], Booleans] = {}
    for a, b in every_pair[:most_pairs]:
        undone = _undone(trial, (a, b), before, after, untried)
        if undone is not None:
            doubles[a.name, b.name] = undone & alike & ~explained

    causes: dict[tuple[str, ...], Booleans] = {**{(n,): u for n, u in singles.items()}, **doubles}
    explained = _any(causes.values(), len(moved))
    loss = after < before
    return {
        "metric": str(measure),
        "differences": [unit.name for unit in trial.units],
        "untried": untried,
        "pairs": {"tried": len(doubles), "left_out": max(0, len(every_pair) - most_pairs)},
        "losses": _counts(loss, explained, alike),
        "gains": _counts(~loss, explained, alike),
        "totals": _totals(causes, loss),
        "summary": _summary(causes, loss),
        "queries": [
            {
                "query_id": query_id,
                "difference": float(after[i] - before[i]),
                "reproduced": bool(alike[i]),
                "causes": [list(names) for names, undone in causes.items() if undone[i]],
            }
            for i, query_id in enumerate(query_ids)
        ],
    }


@dataclass(frozen=True, eq=False)
class _Trial:
    """Both runs opened again, and the queries that moved."""

    gold: GoldSet
    baseline_retriever: Retriever
    candidate_retriever: Retriever
    units: Sequence[Unit]
    measure: Measure
    query_ids: Sequence[str]
    depths: tuple[int, int]
    relevant_from: int

    @classmethod
    def open(
        cls,
        pairing: Pairing,
        measure: Measure,
        query_ids: Sequence[str],
        gold: Path | None,
        index: Path | None,
    ) -> "_Trial":
        runs = (pairing.baseline, pairing.candidate)
        configs = [run.config for run in runs]  # refuses an imported run
        judged, ours = reopen(pairing.baseline, gold=gold, index=index)
        same_index = _index_of(runs[0]) == _index_of(runs[1])
        if same_index and configs[0].models == configs[1].models:
            theirs = ours.with_config(configs[1])
        else:
            _, theirs = reopen(pairing.candidate, gold=None if not pairing.same_gold else gold)
        return cls(
            gold=judged,
            baseline_retriever=ours,
            candidate_retriever=theirs,
            units=units_of(ours.config, theirs.config, same_index=same_index),
            measure=measure,
            query_ids=query_ids,
            depths=(int(runs[0].record["depth"]), int(runs[1].record["depth"])),
            relevant_from=int(runs[0].record["gold"]["relevant_from"]),
        )

    def baseline(self) -> Floats:
        """Figures of the baseline as it scores here and now."""
        return self._ask(self.baseline_retriever, self.depths[0])

    def scores(self, put_back: Sequence[Unit]) -> Floats:
        """Figures of the candidate with some differences put back; InputError if refused."""
        overrides = {path: value for unit in put_back for path, value in unit.overrides.items()}
        config = self.candidate_retriever.config.with_overrides(overrides)
        on_baseline = any(unit.name == INDEX for unit in put_back)
        retriever = self.baseline_retriever if on_baseline else self.candidate_retriever
        return self._ask(retriever.with_config(config), self.depths[1])

    def _ask(self, retriever: Retriever, depth: int) -> Floats:
        if not self.query_ids:
            return np.zeros(0)
        return replay(
            self.gold,
            retriever,
            self.measure,
            self.query_ids,
            depth=depth,
            relevant_from=self.relevant_from,
        )


def _index_of(run: RecordedRun) -> str:
    return str(run.record["index"]["fingerprint"])


def _undone(
    trial: _Trial,
    units: Sequence[Unit],
    before: Floats,
    after: Floats,
    untried: dict[str, str],
) -> Booleans | None:
    """Mark the queries whose move is undone; None, the reason noted, where it cannot be tried."""
    try:
        now = trial.scores(units)
    except InputError as error:
        untried[" + ".join(unit.name for unit in units)] = str(error)
        return None
    undone: Booleans = np.where(after < before, now >= before - TIE, now <= before + TIE)
    return undone


def _any(columns: Iterable[Booleans], width: int) -> Booleans:
    found = np.zeros(width, dtype=np.bool_)
    for column in columns:
        found |= column
    return found


def _counts(of_kind: Booleans, explained: Booleans, alike: Booleans) -> dict[str, int]:
    return {
        "queries": int(of_kind.sum()),
        "explained": int((of_kind & explained).sum()),
        "not_attributable": int((of_kind & alike & ~explained).sum()),
        "not_reproduced": int((of_kind & ~alike).sum()),
    }


def _totals(causes: Mapping[tuple[str, ...], Booleans], loss: Booleans) -> list[dict[str, Any]]:
    """Return how many losses and gains each cause explains, the greatest first."""
    rows = [
        {
            "cause": list(names),
            "losses": int((undone & loss).sum()),
            "gains": int((undone & ~loss).sum()),
        }
        for names, undone in causes.items()
        if undone.any()
    ]
    return sorted(rows, key=lambda row: (-row["losses"] - row["gains"], row["cause"]))


def _summary(causes: Mapping[tuple[str, ...], Booleans], loss: Booleans) -> list[str]:
    """Say it: `merge.rrf_k explains 14 of 19 losses`."""
    lines = []
    for one, more, of_kind in (("loss", "losses", loss), ("gain", "gains", ~loss)):
        total = int(of_kind.sum())
        kind = one if total == 1 else more
        counts = Counter({names: int((u & of_kind).sum()) for names, u in causes.items()})
        lines += [
            f"{' with '.join(names)} explains {count} of {total} {kind}"
            for names, count in counts.most_common()
            if count
        ]
    return lines
