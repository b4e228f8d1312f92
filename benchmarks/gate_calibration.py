"""Does the gate break as often as it says: comparisons by noise alone, and with a planted drop.

    python benchmarks/gate_calibration.py [--comparisons 1000] [--queries 46,300] [--json]

A/A: pairs of runs that differ by noise alone, one metric, one rule `no_significant_drop` at 5 %.
The share that breaks must lie within 3 to 7 % for a mean and be at most 5 % for a 0/1 metric, whose
test is exact. Planted: every run drops by what the stated power says is caught in 80 %; the share
that breaks is set beside 80 %. Coverage: the share of 95 % intervals that hold the true difference.
"""

import argparse
import json
import math

import numpy as np

from experiments.comparison.power import power_of_mean, power_of_rate, smallest_detectable
from experiments.comparison.significance import (
    TIE,
    matched_pairs_interval,
    mcnemar_exact,
    paired_bootstraps,
    paired_randomisations,
)

ALPHA = 0.05
# Of a mean: half of the queries move, by differences of reciprocal ranks or of nDCG.
MOVED = 0.5
# Of a rate: the share of queries on which two runs disagree.
DISAGREE = 0.2


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--comparisons", type=int, default=1000)
    parser.add_argument("--queries", default="46,300")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    found = {}
    for n in map(int, options.queries.split(",")):
        found[f"mean, {n} queries"] = of_mean(rng, options.comparisons, n)
        found[f"0/1, {n} queries"] = of_rate(rng, options.comparisons, n)
    if options.json:
        print(json.dumps(found, indent=1))
        return
    print("| metric | broken by noise | planted drop | stated power | broken | coverage |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for name, row in found.items():
        print(
            f"| {name} | {row['noise']:.3f} | {row['drop']:.4f} | {row['power']:.3f} | "
            f"{row['detected']:.3f} | {row['coverage']:.3f} |"
        )


def of_mean(rng: np.random.Generator, comparisons: int, n: int) -> dict[str, float]:
    """Compare runs whose figures differ by a skewed noise with many ties."""
    noise = rng.beta(2, 2, (comparisons, n)) - rng.beta(2, 2, (comparisons, n))
    noise *= rng.random((comparisons, n)) < MOVED
    # Var(beta(2, 2)) = .05, so a difference has variance .1 where it moves.
    deviation = math.sqrt(0.1 * MOVED)
    drop = smallest_detectable(deviation, n, one_sided=True) or math.nan
    shifted = noise - drop
    covered = [
        i.low is not None and i.high is not None and i.low <= -drop <= i.high
        for i in paired_bootstraps(list(shifted), resamples=2000)
    ]
    return {
        "noise": _broken_means(noise),
        "drop": drop,
        "power": power_of_mean(drop, deviation, n, one_sided=True),
        "detected": _broken_means(shifted),
        "coverage": float(np.mean(covered)),
    }


def _broken_means(table: np.ndarray) -> float:
    tests = paired_randomisations(list(table))
    broken = [
        column.mean() < 0 and test.p_value is not None and test.p_value / 2 <= ALPHA
        for column, test in zip(table, tests, strict=True)
    ]
    return float(np.mean(broken))


def of_rate(rng: np.random.Generator, comparisons: int, n: int) -> dict[str, float]:
    """Compare runs that disagree on a share of the queries, either way alike or one way."""
    drop = smallest_detectable(math.sqrt(DISAGREE), n, rate=True, one_sided=True) or math.nan
    noise = _flips(rng, comparisons, n, 0.0)
    planted = _flips(rng, comparisons, n, drop)
    covered = []
    for column in planted:
        wins, losses = _counts(column)
        interval = matched_pairs_interval(wins, losses, n)
        covered.append((interval.low or -1) <= -drop <= (interval.high or 1))
    return {
        "noise": _broken_rates(noise),
        "drop": drop,
        "power": power_of_rate(drop, DISAGREE, n, one_sided=True),
        "detected": _broken_rates(planted),
        "coverage": float(np.mean(covered)),
    }


def _flips(rng: np.random.Generator, comparisons: int, n: int, drop: float) -> np.ndarray:
    disagree = max(DISAGREE, drop)
    loss = (disagree + drop) / 2
    drawn = rng.random((comparisons, n))
    return np.where(drawn < loss, -1.0, np.where(drawn < disagree, 1.0, 0.0))


def _counts(column: np.ndarray) -> tuple[int, int]:
    return int((column > TIE).sum()), int((column < -TIE).sum())


def _broken_rates(table: np.ndarray) -> float:
    broken = []
    for column in table:
        wins, losses = _counts(column)
        p = mcnemar_exact(wins, losses).p_value
        broken.append(losses > wins and p is not None and p / 2 <= ALPHA)
    return float(np.mean(broken))


if __name__ == "__main__":
    main()
