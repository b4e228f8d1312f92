"""How to sweep: what the user asks for, and what is refused before any work."""

import math
from dataclasses import dataclass
from pathlib import Path

from experiments.counting import counted
from experiments.metrics import Measure
from experiments.space import Space
from experiments.sweep.samplers import SAMPLERS
from experiments.sweep.scoring import check_objectives, scorable
from gold import GoldSet
from retriever import InputError, RetrieverConfig

__all__ = ["SweepSettings", "refuse_folds"]

# One query a fold to judge on leaves four to tune and choose on.
FEWEST_QUERIES = 5


@dataclass(frozen=True)
class SweepSettings:
    """How to sweep.

    `trials` are finished trials in all, `timeout` seconds. `folds` 0 means one split, None as many
    as the set asks for. `judged` is another split of the gold set to judge on. `max_drop` is how
    far the worst query type may fall below the default. `profiles` tunes each row of weights in a
    study of its own. `index` and `gold_path` tell other processes what to open.
    """

    space: Space
    measures: tuple[Measure, ...]
    trials: int
    out: Path
    storage: str
    study: str
    sampler: str = "tpe"
    workers: int = 1
    seed: int = 0
    timeout: float | None = None
    folds: int | None = None
    judged: GoldSet | None = None
    max_drop: float | None = None
    profiles: bool = False

    def __post_init__(self) -> None:
        if self.sampler not in SAMPLERS:
            raise InputError(f"no sampler {self.sampler!r}", fix=f"one of {', '.join(SAMPLERS)}")
        check_objectives(self.measures)
        if self.sampler == "cmaes" and len(self.measures) > 1:
            raise InputError("cmaes takes one objective", fix="--sampler nsga2")
        if self.max_drop is not None and not 0 <= self.max_drop < math.inf:
            raise InputError(f"max_drop {self.max_drop} is no drop", fix="--max-drop 0.02")
        if self.trials < 1 or self.workers < 1:
            raise InputError("expected at least one trial and one worker")


def refuse_folds(gold: GoldSet, wanted: int | None, config: RetrieverConfig) -> None:
    """Refuse a gold set of too few queries, and folds that they do not fill. Raises InputError."""
    relevant_from = config.evaluation.relevant_from or gold.relevant_from
    queries = len(scorable(gold.qrels, relevant_from))
    if queries < FEWEST_QUERIES:
        raise InputError(
            f"{counted(queries, 'query')} with a relevant document: too few to tune, to choose "
            "and to judge on",
            path=gold.path,
            fix=f"judge {FEWEST_QUERIES} at least; from six on a difference can be significant",
        )
    if wanted and not 2 <= wanted <= queries:
        raise InputError(
            f"{counted(queries, 'query')} with a relevant document cannot be divided into "
            f"{counted(wanted, 'fold')}",
            path=gold.path,
            fix=f"--cv 2 to --cv {queries}, or --cv 0 for one split",
        )
