"""What a gold set can resolve: detectable differences, reachable p-values, queries needed.

Two models, both of a paired comparison of n queries. A mean (nDCG, reciprocal rank) has
differences of standard deviation s, and the test's power is that of Student's paired t, which the
randomisation test shares. A rate (0/1 metric) has a share of queries on which the runs disagree,
and the power of McNemar's exact test is summed over every outcome.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from experiments.comparison.significance import EXACT_PAIRS, PERMUTATIONS

__all__ = [
    "ALPHA",
    "CORRELATION",
    "POWER",
    "Resolution",
    "assumed_deviation",
    "power_of_mean",
    "power_of_rate",
    "queries_needed",
    "resolution",
    "smallest_detectable",
    "smallest_p",
]

ALPHA = 0.05
POWER = 0.8
# Two runs of one retriever find the same queries easy. Assumed where only one run is known; two
# runs bring their own.
CORRELATION = 0.8
_MOST_QUERIES = 1_000_000

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Resolution:
    """What `queries` queries can tell of one metric.

    `deviation` is the standard deviation of a query's difference (of a rate: the square root of
    the share of queries on which two runs disagree). `smallest_detectable` is the true difference
    that is found significant with probability `power`, None when none is, however large.
    `smallest_p` is the least p-value any outcome can have. `queries_needed` would detect `wanted`.
    """

    metric: str
    queries: int
    deviation: float
    alpha: float
    power: float
    smallest_detectable: float | None
    smallest_p: float
    wanted: float | None
    queries_needed: int | None

    @property
    def more_queries(self) -> int | None:
        """How many queries to add for `wanted`; 0 when there are enough."""
        if self.queries_needed is None:
            return None
        return max(0, self.queries_needed - self.queries)


def resolution(
    metric: str,
    queries: int,
    deviation: float,
    *,
    rate: bool,
    wanted: float | None = None,
    alpha: float = ALPHA,
    power: float = POWER,
) -> Resolution:
    """Return what `queries` queries can tell of a metric whose differences spread so."""
    needed = (
        None
        if wanted is None
        else queries_needed(wanted, deviation, rate, alpha=alpha, power=power)
    )
    return Resolution(
        metric=metric,
        queries=queries,
        deviation=deviation,
        alpha=alpha,
        power=power,
        smallest_detectable=smallest_detectable(deviation, queries, rate, alpha=alpha, power=power),
        smallest_p=smallest_p(queries, rate=rate),
        wanted=wanted,
        queries_needed=needed,
    )


def assumed_deviation(deviation: float = 0.5, correlation: float = CORRELATION) -> float:
    """Deviation of differences when two runs each vary by `deviation` over the queries.

    sqrt(2 (1 - r)) times it. 0.5 is the largest that figures between 0 and 1 can have.
    """
    if not -1 <= correlation <= 1:
        raise ValueError(f"expected a correlation between -1 and 1, got {correlation}")
    return deviation * math.sqrt(2 * (1 - correlation))


def smallest_p(differing: int, *, rate: bool = False, permutations: int = PERMUTATIONS) -> float:
    """Return the least two-sided p of any outcome when `differing` queries differ: 2 / 2^m.

    It is reached when all differ the same way. A sampled randomisation test (more than 16 pairs)
    cannot go below 1 / (1 + permutations).
    """
    if differing <= 0:
        return 1.0
    least = 2.0 ** (1 - differing)
    return least if rate or differing <= EXACT_PAIRS else max(least, 1 / (1 + permutations))


def power_of_mean(
    difference: float, deviation: float, n: int, *, alpha: float = ALPHA, one_sided: bool = False
) -> float:
    """Power of the paired t-test by the noncentral t distribution with n - 1 degrees of freedom.

    `difference` and `deviation` in the metric's unit. One-sided: in the difference's direction.
    """
    from scipy.special import ndtr, stdtrit

    if n < 2:
        return 0.0
    if deviation <= 0:
        return 1.0 if difference else alpha
    critical = float(stdtrit(n - 1, 1 - (alpha if one_sided else alpha / 2)))
    noncentrality = abs(difference) / deviation * math.sqrt(n)
    reach = critical * _spreads(n - 1)
    beyond = float(ndtr(noncentrality - reach).mean())
    return beyond if one_sided else beyond + float(ndtr(-noncentrality - reach).mean())


@lru_cache(maxsize=64)
def _spreads(freedom: int) -> Floats:
    """Quantiles of the estimated over the true deviation, sqrt(chi^2 / freedom), evenly spread.

    Averaging the normal tail over them gives the noncentral t's, to 1e-4; scipy's own function
    returns NaN at some arguments.
    """
    from scipy.special import chdtri

    places = (np.arange(4000) + 0.5) / 4000
    quantiles: Floats = np.sqrt(chdtri(freedom, places) / freedom)
    return quantiles


def power_of_rate(
    difference: float, disagree: float, n: int, *, alpha: float = ALPHA, one_sided: bool = False
) -> float:
    """Power of McNemar's exact test, over every number of disagreements and their split.

    `disagree` is the share of queries on which the runs differ, raised to the difference where it
    is less. Of m ~ Binomial(n, disagree) disagreements, Binomial(m, (1 + difference / disagree) /
    2) go one way.
    """
    from scipy.special import gammaln, xlog1py, xlogy

    disagree = min(1.0, max(disagree, abs(difference)))
    if n < 1 or disagree <= 0:
        return 0.0
    m = np.arange(n + 1, dtype=np.float64)
    chance = np.exp(
        gammaln(n + 1)
        - gammaln(m + 1)
        - gammaln(n - m + 1)
        + xlogy(m, disagree)
        + xlog1py(n - m, -disagree)
    )
    fewest = _critical_losses(n, alpha if one_sided else alpha / 2)
    share = (1 + abs(difference) / disagree) / 2
    seen = _binomial_below(fewest, m, 1 - share)
    if not one_sided:
        seen = seen + _binomial_below(fewest, m, share)
    return float(min(1.0, chance @ seen))


@lru_cache(maxsize=64)
def _critical_losses(n: int, tail: float) -> Floats:
    """For m = 0..n: the largest number of losses whose lower tail is at most `tail`; -1: none."""
    m = np.arange(n + 1, dtype=np.float64)
    low, high = np.full(n + 1, -1.0), m.copy()
    while (low < high).any():
        middle = np.ceil((low + high) / 2)
        fits = _binomial_below(middle, m, 0.5) <= tail
        low, high = np.where(fits, middle, low), np.where(fits, high, middle - 1)
    return low


def _binomial_below(k: Floats, m: Floats, p: float) -> Floats:
    """P(X <= k) for X ~ Binomial(m, p), by the incomplete beta function; k may be -1."""
    from scipy.special import betainc

    inside = (k >= 0) & (k < m)
    safe_k, safe_m = np.where(inside, k, 0.0), np.where(inside, m, 1.0)
    below: Floats = np.where(inside, betainc(safe_m - safe_k, safe_k + 1, 1 - p), k >= m)
    return below


def _power(
    difference: float, deviation: float, n: int, rate: bool, alpha: float, one_sided: bool
) -> float:
    if rate:
        return power_of_rate(difference, deviation**2, n, alpha=alpha, one_sided=one_sided)
    return power_of_mean(difference, deviation, n, alpha=alpha, one_sided=one_sided)


def smallest_detectable(
    deviation: float,
    n: int,
    rate: bool = False,
    *,
    alpha: float = ALPHA,
    power: float = POWER,
    one_sided: bool = False,
) -> float | None:
    """Return the smallest true difference found significant with probability `power`.

    None when even a difference of 1, the largest a metric has, would not be: too few queries.
    Rounded up at the fourth decimal.
    """

    def detected(ten_thousandths: int) -> bool:
        difference = ten_thousandths / 10_000
        return _power(difference, deviation, n, rate, alpha, one_sided) >= power

    tail = alpha if one_sided else alpha / 2
    if 2.0**-n > tail or not detected(10_000):
        return None
    return _least(detected, 1, 10_000) / 10_000


def queries_needed(
    difference: float,
    deviation: float,
    rate: bool = False,
    *,
    alpha: float = ALPHA,
    power: float = POWER,
    one_sided: bool = False,
) -> int | None:
    """Return how many queries detect a true difference with probability `power`.

    None beyond a million. Raises ValueError for a difference that is not positive.
    """
    if not difference > 0:
        raise ValueError(f"expected a positive difference, got {difference}")

    def detected(n: int) -> bool:
        enough = 2.0**-n <= (alpha if one_sided else alpha / 2)
        return enough and _power(difference, deviation, n, rate, alpha, one_sided) >= power

    upper = 8
    while not detected(upper):
        upper *= 2
        if upper > _MOST_QUERIES:
            return None
    return _least(detected, 1, upper)


def _least(holds: Callable[[int], bool], low: int, high: int) -> int:
    """Return a value at which `holds` and below which it does not, by bisection from `high`.

    The power of an exact test rises with n in saw teeth of a point or two: within them the answer
    is one edge of several.
    """
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return high
