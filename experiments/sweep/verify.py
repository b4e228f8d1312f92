"""Does the memo change anything: trials again from nothing, compared bit for bit."""

from typing import Any

import numpy as np
import numpy.typing as npt

from experiments.counting import counted
from experiments.metrics import parse_measure
from experiments.sweep.objective import Objective
from experiments.sweep.procedure import Sweep
from gold import GoldSet
from retriever import Retriever
from retriever.pipeline import Trace

__all__ = ["MemoDifferenceError", "verify_memo"]

# Scores closer than this may trade places when a query is encoded in another batch.
CLOSE = 1e-6
LARGEST_DRIFT = 1e-2


class MemoDifferenceError(RuntimeError):
    """A trial is not the same without the memo: a fault of ours."""


def verify_memo(
    sweep: Sweep, gold: GoldSet, retriever: Retriever, many: int, seed: int = 0
) -> dict[str, Any]:
    """Replay `many` random trials of a sweep with an empty memo; what models computed is kept.

    Every number of the final order must be the same. The first is replayed with no cache at all
    too: there the ranks must be the same save between scores within 1e-6. Raises
    MemoDifferenceError naming the trial.
    """
    objective = Objective(retriever, gold, [parse_measure(m) for m in sweep.record["objective"]])
    trials = [(n, retriever.config.with_overrides(o)) for n, o in sweep.trials]
    rng = np.random.default_rng(seed)
    picked = rng.choice(len(trials), size=min(many, len(trials)), replace=False)
    for turn, at in enumerate(sorted(picked.tolist())):
        number, config = trials[at]
        kept = _traces(objective, retriever.with_config(config))
        fresh = _traces(objective, retriever.without_memo().with_config(config))
        for one, other in zip(kept, fresh, strict=True):
            if not _identical(one, other):
                raise MemoDifferenceError(f"trial {number} differs without the memo")
        if turn == 0:
            bare = _traces(objective, retriever.without_memory().with_config(config))
            for one, other in zip(kept, bare, strict=True):
                if not _close(one, other):
                    raise MemoDifferenceError(f"trial {number} differs without any cache")
    return {
        "trials": len(picked),
        "words": f"{counted(len(picked), 'trial')} replayed with an empty memo, the same bit for "
        "bit, one of them also with no cache at all",
    }


def _traces(objective: Objective, retriever: Retriever) -> list[Trace]:
    return [retriever.trace(batch, objective.also) for batch in objective.batches]


def _identical(one: Trace, other: Trace) -> bool:
    pairs: list[tuple[npt.NDArray[Any], npt.NDArray[Any]]] = [
        (one.slots.chunk, other.slots.chunk),
        (one.merged.score, other.merged.score),
        (one.final.order, other.final.order),
        (one.final.count, other.final.count),
        (one.final.score, other.final.score),
        (one.final.node, other.final.node),
    ]
    return all(a.tobytes() == b.tobytes() for a, b in pairs)


def _close(one: Trace, other: Trace) -> bool:
    """Tell whether two traces rank the same chunks, but for scores that are all but equal.

    What the searches say of a chunk must agree within 1e-6. Later stages stretch that (min-max,
    weights), so chunks may trade places where their final scores are no further apart than such
    a drift has moved any score, twice over.
    """
    for mine, theirs in zip(one.found, other.found, strict=True):
        if not np.allclose(mine.score, theirs.score, rtol=0, atol=CLOSE, equal_nan=True):
            return False
    if not np.array_equal(one.slots.chunk, other.slots.chunk):
        return False
    if not np.array_equal(one.final.count, other.final.count):
        return False
    with np.errstate(invalid="ignore"):
        drift = np.abs(one.final.score - other.final.score)
    most = 2 * float(np.nanmax(np.where(np.isfinite(drift), drift, 0.0), initial=0.0))
    ranked = np.arange(one.final.order.shape[1]) < one.final.count[:, None]
    moved = ranked & (one.final.order != other.final.order)
    row, place = np.nonzero(moved)
    here = one.final.score[row, one.final.order[row, place]]
    there = one.final.score[row, other.final.order[row, place]]
    return most < LARGEST_DRIFT and bool((np.abs(here - there) <= most).all())
