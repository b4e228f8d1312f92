"""The figures of a comparison: every measure, over all queries and by type, tested and adjusted."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from experiments.comparison.pairing import Pairing
from experiments.comparison.power import (
    ALPHA,
    Resolution,
    assumed_deviation,
    resolution,
    smallest_p,
)
from experiments.comparison.significance import (
    PERMUTATIONS,
    TIE,
    PairedTest,
    effect_size,
    holm,
    matched_pairs_interval,
    mcnemar_exact,
    paired_bootstraps,
    paired_randomisations,
    paired_t,
)
from experiments.metrics import Measure

__all__ = ["Figure", "Settings", "adjusted", "deviation_of", "figures", "resolutions"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Settings:
    """How runs are compared: the test of means, its draws, the interval and its level."""

    test: Literal["randomisation", "t"] = "randomisation"
    permutations: int = PERMUTATIONS
    resamples: int = 10_000
    seed: int = 0
    level: float = 0.95
    alpha: float = ALPHA

    def to_json(self) -> dict[str, object]:
        """Return the settings as JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Figure:
    """One measure over some queries of two runs; differences are candidate - baseline.

    `low` and `high` bound the mean difference (`interval` says how); they are not adjusted.
    `smallest_p` is the least p that the queries that differ could have given. `undefined` queries
    have no figure in one run or the other and are left out. Values are None without a query.
    """

    baseline: float | None
    candidate: float | None
    difference: float | None
    low: float | None
    high: float | None
    interval: Literal["bootstrap", "tango"]
    p_value: float | None
    p_adjusted: float | None
    test: Literal["randomisation", "t", "mcnemar"]
    exact: bool
    smallest_p: float
    effect_size: float | None
    wins: int
    ties: int
    losses: int
    queries: int
    undefined: int

    def to_json(self) -> dict[str, object]:
        """Return the figure as JSON."""
        return asdict(self)


def figures(
    pairing: Pairing, settings: Settings
) -> tuple[dict[str, Figure], dict[str, dict[str, Figure]]]:
    """Return the figures by measure over all shared queries, and by type. Nothing is adjusted."""
    columns = {str(measure): pairing.values(measure) for measure in pairing.measures}
    everything = np.arange(len(pairing.baseline_rows))
    overall = _of_group(pairing.measures, columns, everything, settings)
    types = np.array(pairing.types)
    by_type = {
        str(name): _of_group(pairing.measures, columns, np.flatnonzero(types == name), settings)
        for name in np.unique(types)
    }
    return overall, by_type


def _of_group(
    measures: Sequence[Measure],
    columns: Mapping[str, tuple[Floats, Floats]],
    rows: npt.NDArray[np.int64],
    settings: Settings,
) -> dict[str, Figure]:
    values = []
    for measure in measures:
        one, other = (column[rows] for column in columns[str(measure)])
        defined = ~(np.isnan(one) | np.isnan(other))
        values.append((one[defined], other[defined]))
    differences = [other - one for one, other in values]
    tests = _tests(measures, differences, settings)
    means = [d for m, d in zip(measures, differences, strict=True) if not m.is_rate]
    bounds = iter(paired_bootstraps(means, settings.resamples, settings.seed, settings.level))
    found = {}
    for measure, (one, other), difference, test in zip(
        measures, values, differences, tests, strict=True
    ):
        wins, losses = int((difference > TIE).sum()), int((difference < -TIE).sum())
        n = len(difference)
        interval = (
            matched_pairs_interval(wins, losses, n, settings.level)
            if measure.is_rate
            else next(bounds)
        )
        found[str(measure)] = Figure(
            baseline=float(one.mean()) if n else None,
            candidate=float(other.mean()) if n else None,
            difference=float(difference.mean()) if n else None,
            low=interval.low,
            high=interval.high,
            interval="tango" if measure.is_rate else "bootstrap",
            # One query has no spread, and would only make the family larger.
            p_value=test.p_value if n > 1 else None,
            p_adjusted=None,
            test=test.method,
            exact=test.exact,
            smallest_p=smallest_p(
                wins + losses, rate=measure.is_rate, permutations=settings.permutations
            ),
            effect_size=effect_size(difference),
            wins=wins,
            ties=n - wins - losses,
            losses=losses,
            queries=n,
            undefined=len(rows) - n,
        )
    return found


def _tests(
    measures: Sequence[Measure], differences: Sequence[Floats], settings: Settings
) -> list[PairedTest]:
    """Test every column: rates by McNemar, means by the test asked for, those in one go."""
    means = [d for m, d in zip(measures, differences, strict=True) if not m.is_rate]
    if settings.test == "t":
        of_means = iter([paired_t(d) for d in means])
    else:
        of_means = iter(
            paired_randomisations(means, permutations=settings.permutations, seed=settings.seed)
        )
    return [
        mcnemar_exact(int((d > TIE).sum()), int((d < -TIE).sum()), len(d))
        if measure.is_rate
        else next(of_means)
        for measure, d in zip(measures, differences, strict=True)
    ]


def adjusted(family: Sequence[Mapping[str, Figure]]) -> tuple[list[dict[str, Figure]], int]:
    """Give every figure of a family of tables its p-value by Holm; also how many tests it holds."""
    places = [(i, key) for i, table in enumerate(family) for key in table]
    raw = [family[i][key].p_value for i, key in places]
    tables: list[dict[str, Figure]] = [dict(table) for table in family]
    for (i, key), p in zip(places, holm(raw), strict=True):
        tables[i][key] = Figure(**{**asdict(family[i][key]), "p_adjusted": p})
    return tables, sum(p is not None for p in raw)


def deviation_of(measure: Measure, one: Floats, other: Floats) -> tuple[float, str]:
    """Return the deviation of a query's difference and its basis: observed, or assumed.

    Of a rate it is the square root of the share of disagreements. Runs that never differ say
    nothing of it; then the baseline's own spread and an assumed correlation stand in.
    """
    defined = ~(np.isnan(one) | np.isnan(other))
    one, other = one[defined], other[defined]
    difference = other - one
    moved = np.abs(difference) > TIE
    if len(one) < 2 or not moved.any():
        spread = float(one.std(ddof=1)) if len(one) > 1 else 0.5
        return assumed_deviation(spread or 0.5), "assumed"
    if measure.is_rate:
        return float(np.sqrt(moved.mean())), "observed"
    return float(difference.std(ddof=1)), "observed"


def resolutions(pairing: Pairing, settings: Settings) -> dict[str, tuple[Resolution, str]]:
    """Return what the shared queries can resolve of every measure, and the basis of its spread."""
    found = {}
    for measure in pairing.measures:
        one, other = pairing.values(measure)
        deviation, basis = deviation_of(measure, one, other)
        n = int((~(np.isnan(one) | np.isnan(other))).sum())
        made = resolution(str(measure), n, deviation, rate=measure.is_rate, alpha=settings.alpha)
        found[str(measure)] = (made, basis)
    return found
