"""How far the gold gets: the stages in order, and the recall ceiling after each.

A query is *reachable* after a stage when a relevant unit is still where a later stage could bring
it into the first k. The supplement joins the candidates only after the merge, so what it alone
found is reachable until then. Candidates outside the pool keep their order, so that with a pool
smaller than k the first k count.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Ceiling", "recall_ceiling", "stage_label", "stages_of"]

Integers = npt.NDArray[np.int64]

# The stages behind the lists, in the order of the pipeline.
MAIN = ("supplement", "merged", "injected", "reranked", "final")


def stages_of(names: Sequence[str], prefix: str) -> list[str]:
    """Return the stages that columns `prefix + stage` tell of: the lists, then the main stages."""
    found = [name.removeprefix(prefix) for name in names if name.startswith(prefix)]
    lists = sorted(name for name in found if name not in MAIN)
    return [*lists, *(name for name in MAIN if name in found)]


def stage_label(stage: str) -> str:
    """Return how a stage is called on the page: `eagle_text:bm25` is `eagle_text bm25`."""
    return stage.replace(":", " ")


@dataclass(frozen=True)
class Ceiling:
    """Which queries are reachable after each stage.

    `reachable` is (stages, queries). The row of a single list stands beside the others; the rows
    marked in `chain` follow one another.
    """

    stages: tuple[str, ...]
    labels: tuple[str, ...]
    chain: tuple[bool, ...]
    reachable: npt.NDArray[np.bool_]

    @property
    def lost_at(self) -> Integers:
        """By query, the first row of the chain after which it is out of reach; -1 for none."""
        rows = np.flatnonzero(self.chain)
        out = ~self.reachable[rows]
        first = rows[out.argmax(axis=0)] if len(rows) else np.zeros(out.shape[1], np.int64)
        return np.where(out.any(axis=0), first, -1)


def recall_ceiling(
    ranks: Mapping[str, Integers], queries: int, pool: int | None, cutoff: int
) -> Ceiling:
    """Return the ceiling from the best rank of the gold after each stage.

    `ranks` maps a stage to ranks from 1, (queries), 0 where the gold is not there. `pool` is how
    many merged candidates reach tier 2, `cutoff` the k of the first k. Stages that `ranks` lacks
    have no row.
    """
    there = {stage: rank > 0 for stage, rank in ranks.items()}
    none = np.zeros(queries, dtype=np.bool_)
    rows: list[tuple[str, str, bool, npt.NDArray[np.bool_]]] = [
        (stage, stage_label(stage), False, there[stage]) for stage in ranks if stage not in MAIN
    ]
    found = np.logical_or.reduce([none, *(row[3] for row in rows)])
    extra = there.get("supplement", none)
    if "supplement" in there:
        rows.append(("supplement", "supplement", False, extra))
    if rows:
        rows.append(("recall", "found by any of these", True, found | extra))
    if "merged" in there:
        rows.append(("merge", "merged", True, there["merged"] | extra))
    if "injected" in there and pool is not None:
        held = there["injected"] & (ranks["injected"] <= max(pool, cutoff))
        rows.append(("inject", f"in the pool of {pool}", True, held))
    if "final" in there:
        top = there["final"] & (ranks["final"] <= cutoff)
        rows.append(("rerank_merged", f"in the first {cutoff}", True, top))
    stages, labels, chain, reachable = zip(*rows, strict=True) if rows else ((), (), (), ())
    table = np.array(reachable, dtype=np.bool_).reshape(len(stages), queries)
    return Ceiling(tuple(stages), tuple(labels), tuple(chain), table)
