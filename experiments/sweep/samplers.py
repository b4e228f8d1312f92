"""Samplers by name, seeded anew for every trial.

A trial's seed comes from the study's seed and the number of trials settled before it. Nothing of a
sampler's state is kept: a sweep that was killed and resumed asks for the same trials as one that
was not, and a resumed one never repeats its first samples.
"""

import hashlib
import math
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from experiments.space import Space
from retriever import InputError

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler

__all__ = ["SAMPLERS", "Sampling", "drawn_at_random", "grid_points", "random_first", "trial_seed"]

SAMPLERS = ("tpe", "cmaes", "gp", "nsga2", "random", "grid", "qmc")

# Trials drawn at random before a model is asked; the default configuration is one of them.
STARTUP = 10
# Of one generation of NSGA-II.
POPULATION = 50
# Points of a float or a wide integer range on a grid.
GRID_POINTS = 5
# All of them are held at once.
MOST_GRID_POINTS = 100_000


def trial_seed(seed: int, settled: int, worker: int = 0) -> int:
    """Return the seed of the trial after `settled` others, below 2^32."""
    text = f"{seed} {settled} {worker}".encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:4], "little")


def random_first(name: str) -> int:
    """Return how many trials a sampler draws before it learns; 0 for those that never learn."""
    return {"tpe": STARTUP, "gp": STARTUP, "nsga2": POPULATION, "cmaes": 1}.get(name, 0)


class Sampling:
    """Gives the sampler of each trial. `parallel` says that other workers sample at once.

    Raises InputError for an unknown name.
    """

    def __init__(self, name: str, space: Space, seed: int, *, parallel: bool) -> None:
        if name not in SAMPLERS:
            raise InputError(f"no sampler {name!r}", fix=f"one of {', '.join(SAMPLERS)}")
        self._name = name
        self._space = space
        self._seed = seed
        self._parallel = parallel
        self._tpe: Any = None

    def at(self, settled: int, worker: int = 0) -> "BaseSampler":
        """Return the sampler for the trial after `settled` others."""
        import optuna.samplers as optuna_samplers

        seed = trial_seed(self._seed, settled, worker)
        if self._name == "tpe":
            return self._seeded_tpe(seed)
        if self._name == "random":
            return optuna_samplers.RandomSampler(seed=seed)
        if self._name == "cmaes":
            return optuna_samplers.CmaEsSampler(seed=seed, warn_independent_sampling=False)
        if self._name == "gp":
            return optuna_samplers.GPSampler(
                seed=seed, n_startup_trials=STARTUP, warn_independent_sampling=False
            )
        if self._name == "nsga2":
            return optuna_samplers.NSGAIISampler(population_size=POPULATION, seed=seed)
        if self._name == "qmc":
            # Its place in the sequence is kept by the study, the seed is that of the scrambling.
            return optuna_samplers.QMCSampler(
                scramble=True,
                seed=trial_seed(self._seed, 0),
                warn_asynchronous_seeding=False,
                warn_independent_sampling=False,
            )
        return _make_grid(self._space, trial_seed(self._seed, 0))

    def _seeded_tpe(self, seed: int) -> "BaseSampler":
        """Return one TPE sampler, kept for what it knows of the space, with its numbers anew."""
        if self._tpe is None:
            self._tpe = _make_tpe(self._parallel)
        self._tpe.reseed(seed)
        sampler: BaseSampler = self._tpe
        return sampler


def _make_tpe(parallel: bool) -> Any:
    from optuna.samplers import RandomSampler, TPESampler
    from optuna.samplers._lazy_random_state import LazyRandomState

    class SeededTPE(TPESampler):
        def reseed(self, seed: int) -> None:
            self._rng = LazyRandomState(seed)
            self._random_sampler = RandomSampler(seed=seed)

    # `group` models conditional parameters together with those that they are sampled with.
    return SeededTPE(
        multivariate=True,
        group=True,
        n_startup_trials=STARTUP,
        constant_liar=parallel,
    )


def drawn_at_random(name: str, space: Space, read: Collection[str]) -> dict[str, str]:
    """Return {path: reason} of the parameters that a sampler's model leaves out.

    They are drawn at random for every trial. CMA-ES knows numbers alone; CMA-ES, the Gaussian
    process and NSGA-II know the parameters that every trial has read; quasi-random points have the
    dimensions of the first trial, `read`. TPE models all, a grid holds all, and random draws
    everything so.
    """
    found: dict[str, str] = {}
    for parameter in space.parameters:
        if name == "cmaes" and parameter.kind == "choice":
            found[parameter.path] = "choice"
        elif (name in ("cmaes", "gp", "nsga2") and parameter.when) or (
            name == "qmc" and parameter.path not in read
        ):
            found[parameter.path] = "conditional"
    return found


def _make_grid(space: Space, seed: int) -> "BaseSampler":
    from optuna.samplers import GridSampler

    class Grid(GridSampler):
        def after_trial(self, *_: Any) -> None:
            """Let the worker count: Optuna would stop a loop that is not there."""

    return Grid(grid_of(space), seed=seed)


def grid_points(space: Space) -> int:
    """Return how many points a grid over a space has. Raises InputError for one beyond reach."""
    many = math.prod(len(values) for values in grid_of(space).values())
    if many > MOST_GRID_POINTS:
        raise InputError(
            f"a grid over {len(space.parameters)} parameters has {many:.1e} points, "
            f"more than {MOST_GRID_POINTS:,}",
            fix="--sampler qmc, or a --space of fewer parameters",
        )
    return many


def grid_of(space: Space) -> dict[str, list[Any]]:
    """Return the points of a grid: every choice, all of a short integer range, else five."""
    grid: dict[str, list[Any]] = {}
    for parameter in space.parameters:
        if parameter.kind == "choice":
            grid[parameter.path] = list(parameter.labels)
            continue
        low, high = parameter.low, parameter.high
        steps = (high - low) / (parameter.step or 1)
        if parameter.kind == "int" and steps < GRID_POINTS:
            points = [low + i * (parameter.step or 1) for i in range(int(steps) + 1)]
        elif parameter.log:
            points = [low * (high / low) ** (i / (GRID_POINTS - 1)) for i in range(GRID_POINTS)]
        else:
            points = [low + (high - low) * i / (GRID_POINTS - 1) for i in range(GRID_POINTS)]
        grid[parameter.path] = list(dict.fromkeys(map(parameter.nearest, points)))
    return grid
