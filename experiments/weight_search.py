"""Whether any weights of tier 2 bring a relevant unit of one query into its top k.

Tier 2 scores a chunk by the larger of two functions that are linear in the weights: the sum of
weight times feature, and the floor that its structure gives. A relevant chunk g is in the top k
when at most k - 1 other units have a chunk above it:

    score_i(w) <= score_g(w) + M y_u     for every chunk i of every other unit u
    sum of y_u <= k - 1                  y_u in {0, 1}, weights within bounds

a mixed-integer program that HiGHS solves for the smallest change of the weights (L1). The larger
of two functions is exact: what is above must not beat g by either, and g is tried by each. Scores
closer than `MARGIN` count as equal, and equal scores keep the order before tier 2.

A solver's integers are integers within a tolerance, which M magnifies. So the units that a
solution leaves above g are put to a linear program without M; where that has no solution, they
are excluded as a whole and the search goes on.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from retriever.types import Booleans, Floats, Integers, Reranked

__all__ = ["MARGIN", "Answer", "Bounds", "Pool", "ranks_with", "search_weights", "tier_2_pool"]

Bounds = Mapping[str, tuple[float, float]]

MARGIN = 1e-6
# Sets of units excluded before a query is given up as undecided, and seconds for one program.
ROUNDS, SECONDS = 200, 20.0
# What scipy.optimize.milp answers.
INFEASIBLE, SOLVER_ERROR = 2, 4


@dataclass(frozen=True, eq=False)
class Pool:
    """One query's pool: chunks in the order before tier 2.

    `names` (weights,) as the configuration spells them. `linear` (chunks, weights) and, where
    `has_floor`, `floor` (chunks, weights) with `floor_constant` are the two functions. `unit` says
    whose each chunk is, `relevant` whether that unit is.
    """

    names: tuple[str, ...]
    weights: Floats
    linear: Floats
    floor: Floats
    floor_constant: Floats
    has_floor: Booleans
    unit: Integers
    relevant: Booleans


@dataclass(frozen=True)
class Answer:
    """Whether some weights do it; `undecided` when the solver gave up, which proves nothing.

    `weights` are those nearest to the ones in force that do, `distance` the sum of the absolute
    changes, `rank` where the first relevant unit then stands when scored as tier 2 scores.
    """

    verdict: Literal["feasible", "infeasible", "undecided"]
    weights: Mapping[str, float] | None = None
    distance: float | None = None
    rank: int | None = None


def tier_2_pool(
    final: Reranked, row: int, before: Integers, unit: Integers, relevant: Booleans
) -> Pool:
    """Return the pool of one query of a batch.

    `before` (slots,) is the order of slots before tier 2; `unit` and `relevant` (slots,) say whose
    chunk each slot holds and whether that unit is relevant.
    """
    slots = before[final.pool[row, before]]
    names = list(final.weights)
    signs = np.ones(len(names))
    signs[[i for i, name in enumerate(names) if name == "xdrug"]] = -1.0
    features = [f"{name}_norm" if name in ("ce", "rank") else name for name in names]
    linear = np.stack([final.terms[name][row, slots] for name in features], axis=1)
    structure = final.terms.get("structure")
    held = np.full(len(slots), np.nan) if structure is None else structure[row, slots]
    has_floor = ~np.isnan(held)
    cosine = np.nan_to_num(held)
    named = np.array([name in final.floor_weights for name in names], dtype=np.float64)
    return Pool(
        names=tuple("w_xdrug_penalty" if name == "xdrug" else f"w_{name}" for name in names),
        weights=signs * np.array([final.weights[name][row] for name in names]),
        linear=signs * linear,
        floor=cosine[:, None] * named,
        floor_constant=np.zeros(len(slots)) if final.floor_weights else cosine,
        has_floor=has_floor,
        unit=unit[slots],
        relevant=relevant[slots],
    )


def ranks_with(pool: Pool, weights: Floats) -> dict[int, int]:
    """Return the rank of each unit under some weights, scored as tier 2 scores."""
    score = pool.linear @ weights
    floor = pool.floor @ weights + pool.floor_constant
    final = np.round(np.where(pool.has_floor, np.maximum(score, floor), score), 12)
    order = np.argsort(-final, kind="stable")
    units = dict.fromkeys(int(unit) for unit in pool.unit[order])
    return {unit: rank for rank, unit in enumerate(units, start=1)}


def search_weights(pool: Pool, k: int, bounds: Bounds) -> Answer:
    """Look for weights within bounds that bring a relevant unit into the top k.

    Raises ValueError where a weight has no bounds.
    """
    unbound = [name for name in pool.names if name not in bounds]
    if unbound:
        raise ValueError(f"no bounds for {unbound[0]}")
    low, high = np.array([bounds[name] for name in pool.names]).T
    best: tuple[float, Floats] | None = None
    undecided = False
    for rows, offsets, units, fixed in _programs(pool, low, high):
        found = _solve(rows, offsets, units, k - 1 - fixed, low, high, pool.weights)
        if isinstance(found, str):
            undecided |= found == "undecided"
        else:
            distance = float(np.abs(found - pool.weights).sum())
            if best is None or distance < best[0]:
                best = distance, found
    if best is None:
        return Answer("undecided" if undecided else "infeasible")
    distance, weights = best
    relevant = {int(unit) for unit in pool.unit[pool.relevant]}
    rank = min(rank for unit, rank in ranks_with(pool, weights).items() if unit in relevant)
    named = {name: float(round(w, 9)) for name, w in zip(pool.names, weights, strict=True)}
    return Answer("feasible", named, round(distance, 9), rank)


def _programs(
    pool: Pool, low: Floats, high: Floats
) -> Iterator[tuple[Floats, Floats, Integers, int]]:
    """Yield, for each relevant chunk and function of it, what must hold for it to be in the top k.

    rows (constraints, weights), offsets (constraints,): rows @ w + offsets <= 0 unless the unit
    of the constraint is above; `fixed` units are above whatever the weights.
    """
    place = np.arange(len(pool.unit))
    for g in np.flatnonzero(pool.relevant):
        own = [(pool.linear[g], 0.0)]
        if pool.has_floor[g]:
            own.append((pool.floor[g], float(pool.floor_constant[g])))
        margin = np.where(place < g, MARGIN, 0.0)
        others = ~pool.relevant
        floored = others & pool.has_floor
        for vector, constant in own:
            rows = np.concatenate([pool.linear[others] - vector, pool.floor[floored] - vector])
            offsets = np.concatenate(
                [margin[others], pool.floor_constant[floored] + margin[floored]]
            )
            offsets = offsets - constant
            units = np.concatenate([pool.unit[others], pool.unit[floored]])
            largest = np.maximum(rows * low, rows * high).sum(axis=1) + offsets
            least = np.minimum(rows * low, rows * high).sum(axis=1) + offsets
            always = np.unique(units[least > 0])
            open_ = (largest > 0) & ~np.isin(units, always)
            yield rows[open_], offsets[open_], units[open_], len(always)


def _solve(
    rows: Floats,
    offsets: Floats,
    units: Integers,
    allowed: int,
    low: Floats,
    high: Floats,
    current: Floats,
) -> Floats | Literal["infeasible", "undecided"]:
    """Return the weights nearest to the current ones that leave at most `allowed` units above."""
    if allowed < 0:
        return "infeasible"
    if not len(rows):
        return np.clip(current, low, high)
    names, inverse = np.unique(units, return_inverse=True)
    of_row = inverse.astype(np.int32)
    barred: list[Booleans] = []
    for _ in range(ROUNDS):
        above = _mixed_integer(
            rows, offsets, of_row, len(names), allowed, low, high, current, barred
        )
        if isinstance(above, str):
            return above
        kept = ~above[of_row]
        weights = _linear(rows[kept], offsets[kept], low, high, current)
        if weights is not None:
            return weights
        barred.append(above)
    return "undecided"


def _mixed_integer(
    rows: Floats,
    offsets: Floats,
    of_row: Integers,
    units: int,
    allowed: int,
    low: Floats,
    high: Floats,
    current: Floats,
    barred: list[Booleans],
) -> Booleans | Literal["infeasible", "undecided"]:
    """Return which units stay above, (units,). Columns: weights, absolute changes, units above."""
    from scipy.optimize import Bounds as Box
    from scipy.optimize import LinearConstraint, milp

    n = len(low)
    largest = np.maximum(rows * low, rows * high).sum(axis=1) + offsets
    big = np.zeros((len(rows), units))
    big[np.arange(len(rows)), of_row] = -largest
    parts: list[Any] = [
        LinearConstraint(np.hstack([rows, np.zeros((len(rows), n)), big]), -np.inf, -offsets),
        LinearConstraint(np.hstack([np.zeros((1, 2 * n)), np.ones((1, units))]), -np.inf, allowed),
        *_absolute(n, units, current, LinearConstraint),
    ]
    for above in barred:
        row = np.concatenate([np.zeros(2 * n), (~above).astype(np.float64)])
        parts.append(LinearConstraint(row[None], 1, np.inf))
    program: dict[str, Any] = {
        "c": np.concatenate([np.zeros(n), np.ones(n), np.zeros(units)]),
        "constraints": parts,
        "integrality": np.concatenate([np.zeros(2 * n), np.ones(units)]),
        "bounds": Box(
            np.concatenate([low, np.zeros(n), np.zeros(units)]),
            np.concatenate([high, np.full(n, np.inf), np.ones(units)]),
        ),
    }
    found = milp(**program, options={"time_limit": SECONDS})
    if found.status == SOLVER_ERROR:  # the presolve of HiGHS fails on some tiny programs
        found = milp(**program, options={"time_limit": SECONDS, "presolve": False})
    if found.status == INFEASIBLE:
        return "infeasible"
    if found.x is None:
        return "undecided"
    return np.asarray(found.x[2 * n :] > 0.5, dtype=np.bool_)


def _linear(
    rows: Floats, offsets: Floats, low: Floats, high: Floats, current: Floats
) -> Floats | None:
    """Return the nearest weights that keep every constraint, None where there are none."""
    from scipy.optimize import linprog

    n = len(low)
    eye = np.eye(n)
    upper = np.vstack(
        [np.hstack([rows, np.zeros_like(rows)]), np.hstack([eye, -eye]), np.hstack([-eye, -eye])]
    )
    found = linprog(
        c=np.concatenate([np.zeros(n), np.ones(n)]),
        A_ub=upper,
        b_ub=np.concatenate([-offsets, current, -current]),
        bounds=[*zip(low, high, strict=True), *[(0, None)] * n],
        method="highs",
    )
    return np.clip(found.x[:n], low, high) if found.status == 0 else None


def _absolute(n: int, units: int, current: Floats, constraint: Any) -> tuple[Any, Any]:
    """Constrain each absolute change to be at least its weight's change, up and down."""
    eye, none = np.eye(n), np.zeros((n, units))
    return (
        constraint(np.hstack([eye, -eye, none]), -np.inf, current),
        constraint(np.hstack([eye, eye, none]), current, np.inf),
    )
