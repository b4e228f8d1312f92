"""Why queries moved between two runs: each difference of the configurations is tried by replay.

Two questions are asked of each difference, by two replays of the queries that moved:

- put back: does the candidate without this difference undo the move? Then it is a cause.
- made alone: does the baseline with this difference only make the whole move? Then it would have
  sufficed. Where putting it back does not undo the move all the same, something else does the same
  or keeps part of it in place.

A move is undone where a lost query scores at least what it had and a gained one at most that; made
where it goes at least as far. Where no difference undoes a move when put back alone, every two are.
Several that each suffice are all named. Nothing else is called a cause.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, TypeVar

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
T = TypeVar("T")

# Everything that makes another index (cutting, tokens, models, ingest) goes back together.
INDEX = "index"
_OF_INDEX = ("index.", "models", "plugins.biomed.ingest.")
_SCORING = "evaluation."
_DATA = ("merge.weights", "route.recall_top_k_by_collection")
_ABSENT = object()
MOST_PAIRS = 200


@dataclass(frozen=True)
class Unit:
    """One difference of two configurations: its name and the values that each of them has."""

    name: str
    baseline: Mapping[str, Any]
    candidate: Mapping[str, Any]


def units_of(
    baseline: RetrieverConfig, candidate: RetrieverConfig, *, same_index: bool
) -> list[Unit]:
    """Return the differences of two configurations that can be put back, or made alone.

    A mapping whose keys are data (merge.weights) is one difference. What belongs to the index is
    one, `index`, where the indexes differ, and none where they do not. Scoring is none.
    """
    trees = (baseline.model_dump(mode="json"), candidate.model_dump(mode="json"))
    of_index: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    found: dict[str, Unit] = {}
    for path in difference(baseline, candidate):
        if path.startswith(_SCORING):
            continue
        name = next((data for data in _DATA if path.startswith(data)), None) or _shared(path, trees)
        values = [{name: _at(tree, name)} for tree in trees]
        if name.startswith(_OF_INDEX):
            for side, value in zip(of_index, values, strict=True):
                side.update(value)
        else:
            found[name] = Unit(name, *values)
    units = list(found.values())
    return units if same_index else [*units, Unit(INDEX, *of_index)]


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
    loss = after < before
    singles: dict[str, Booleans] = {}
    alone: dict[str, Booleans] = {}
    for unit in trial.units:
        now = _try(untried, unit.name, trial.scores, (unit,))
        if now is not None:
            singles[unit.name] = _reaches(before, now, loss) & alike
        now = _try(untried, f"{unit.name} alone", trial.made, unit)
        if now is not None:
            alone[unit.name] = _reaches(now, after, loss) & alike
    undone = _any(singles.values(), len(moved))
    tried = [unit for unit in trial.units if unit.name in singles]
    every_pair = list(combinations(tried, 2)) if (alike & ~undone).any() else []
    doubles: dict[tuple[str, ...], Booleans] = {}
    for a, b in every_pair[:most_pairs]:
        now = _try(untried, f"{a.name} + {b.name}", trial.scores, (a, b))
        if now is not None:
            doubles[a.name, b.name] = _reaches(before, now, loss) & alike & ~undone

    causes: dict[tuple[str, ...], Booleans] = {**{(n,): u for n, u in singles.items()}, **doubles}
    explained = _any([*causes.values(), *alone.values()], len(moved))
    # What putting it back shows already needs no second proof.
    extra = {name: made & ~singles.get(name, ~made) for name, made in alone.items()}
    return {
        "metric": str(measure),
        "differences": [unit.name for unit in trial.units],
        "untried": untried,
        "pairs": {"tried": len(doubles), "left_out": max(0, len(every_pair) - most_pairs)},
        "losses": _counts(loss, explained, alike),
        "gains": _counts(~loss, explained, alike),
        "totals": _totals(causes, loss),
        "made_alone": _totals({(name,): made for name, made in extra.items()}, loss),
        "summary": _summary(causes, extra, loss),
        "queries": [
            {
                "query_id": query_id,
                "difference": float(after[i] - before[i]),
                "reproduced": bool(alike[i]),
                "causes": [list(names) for names, undone in causes.items() if undone[i]],
                "made_alone": [name for name, made in extra.items() if made[i]],
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
        overrides = {path: value for unit in put_back for path, value in unit.baseline.items()}
        config = self.candidate_retriever.config.with_overrides(overrides)
        on_baseline = any(unit.name == INDEX for unit in put_back)
        retriever = self.baseline_retriever if on_baseline else self.candidate_retriever
        return self._ask(retriever.with_config(config), self.depths[1])

    def made(self, unit: Unit) -> Floats:
        """Figures of the baseline with one difference made; InputError if refused."""
        config = self.baseline_retriever.config.with_overrides(unit.candidate)
        on_candidate = unit.name == INDEX
        retriever = self.candidate_retriever if on_candidate else self.baseline_retriever
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


def _try(
    untried: dict[str, str], name: str, ask: Callable[[T], Floats], argument: T
) -> Floats | None:
    """Return the figures of a replay; None, the reason noted, where it cannot be tried."""
    try:
        return ask(argument)
    except InputError as error:
        untried[name] = str(error)
        return None


def _reaches(least: Floats, value: Floats, loss: Booleans) -> Booleans:
    """Mark where a loss brings at least `least` to `value`, and a gain at most."""
    reached: Booleans = np.where(loss, value >= least - TIE, value <= least + TIE)
    return reached


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


def _summary(
    causes: Mapping[tuple[str, ...], Booleans], extra: Mapping[str, Booleans], loss: Booleans
) -> list[str]:
    """Say it: `merge.rrf_k explains 14 of 19 losses`, and what it makes alone beyond those."""
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
        sufficient = Counter({name: int((made & of_kind).sum()) for name, made in extra.items()})
        lines += [
            f"{name} made alone brings about {count} of {total} {kind} that putting it back alone "
            "does not undo"
            for name, count in sufficient.most_common()
            if count
        ]
    return lines
