"""What a gold set can resolve."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

from experiments.comparison.power import (
    assumed_deviation,
    power_of_mean,
    power_of_rate,
    queries_needed,
    resolution,
    smallest_detectable,
    smallest_p,
)
from experiments.comparison.significance import mcnemar_exact, paired_randomisations


def test_power_of_a_mean_follows_the_normal_rule_when_queries_are_many():
    # (1.9600 + .8416) * .3 / sqrt(1000) = .026578 is detected with probability .80.
    assert power_of_mean(0.026578, 0.3, 1000) == pytest.approx(0.8, abs=0.002)


@pytest.mark.parametrize("n", [3, 6, 20, 46, 300])
@pytest.mark.parametrize("noncentrality", [0.0, 1.0, 2.8, 5.0])
def test_power_of_a_mean_is_the_tail_of_the_noncentral_t(n, noncentrality):
    critical = stats.t.ppf(0.975, n - 1)
    expected = stats.nct.sf(critical, n - 1, noncentrality)
    expected += stats.nct.cdf(-critical, n - 1, noncentrality)
    found = power_of_mean(noncentrality / math.sqrt(n), 1.0, n)
    assert found == pytest.approx(expected, abs=2e-4)


def test_power_is_alpha_when_there_is_no_difference():
    assert power_of_mean(0.0, 0.3, 46) == pytest.approx(0.05, abs=1e-4)
    assert power_of_mean(0.0, 0.3, 46, one_sided=True) == pytest.approx(0.05, abs=1e-4)
    assert power_of_rate(0.0, 0.2, 46) <= 0.05


def enumerated_power(difference: float, disagree: float, n: int) -> float:
    win, loss = (disagree + difference) / 2, (disagree - difference) / 2
    return sum(
        stats.multinomial.pmf([w, x, n - w - x], n, [win, loss, 1 - win - loss])
        for w in range(n + 1)
        for x in range(n + 1 - w)
        if mcnemar_exact(w, x).p_value <= 0.05
    )


@pytest.mark.parametrize(("difference", "disagree", "n"), [(0.2, 0.3, 20), (0.25, 0.25, 30)])
def test_power_of_a_rate_equals_enumeration(difference, disagree, n):
    expected = enumerated_power(difference, disagree, n)
    assert power_of_rate(difference, disagree, n) == pytest.approx(expected, abs=1e-9)


def test_one_sided_power_of_a_rate_counts_one_direction():
    # n = 5, all disagree and all one way: five losses have one-sided p 1/32 = .031 <= .05, and
    # four of five (1 + 5)/32 = .19. So power is P(5 losses) = 1 when the difference is 1.
    assert power_of_rate(1.0, 1.0, 5, one_sided=True) == pytest.approx(1.0)
    assert power_of_rate(1.0, 1.0, 5) == 0.0  # two-sided .0625


def test_detection_rate_is_the_stated_power_when_simulated():
    rng = np.random.default_rng(4)
    stated = power_of_mean(0.1, 0.25, 46)
    columns = [rng.normal(0.1, 0.25, size=46) for _ in range(400)]
    found = np.mean([t.p_value <= 0.05 for t in paired_randomisations(columns, permutations=1000)])
    # standard error sqrt(.75 * .25 / 400) = .022
    assert found == pytest.approx(stated, abs=0.06)


@example(62, 0.0546875, False)
@given(st.integers(8, 300), st.floats(0.05, 0.6), st.booleans())
@settings(max_examples=60, deadline=None)
def test_smallest_detectable_has_the_power_it_claims(n, deviation, rate):
    found = smallest_detectable(deviation, n, rate)
    if found is None:
        return
    power = power_of_rate(found, deviation**2, n) if rate else power_of_mean(found, deviation, n)
    below = found - 0.0001
    less = power_of_rate(below, deviation**2, n) if rate else power_of_mean(below, deviation, n)
    assert power >= 0.8 > less


def test_nothing_is_detectable_when_no_outcome_could_be_significant():
    # 2 / 2^5 = .0625 > .05
    assert smallest_detectable(0.1, 5) is None
    assert smallest_detectable(1.0, 5, rate=True) is None


def test_queries_needed_invert_the_smallest_detectable_difference():
    n = queries_needed(0.05, 0.3)
    assert power_of_mean(0.05, 0.3, n) >= 0.8 > power_of_mean(0.05, 0.3, n - 1)
    # about ((1.96 + .8416) * .3 / .05)^2 = 282.6, and two or so more for Student's t
    assert 283 <= n <= 286


def test_queries_needed_are_none_when_beyond_a_million():
    assert queries_needed(1e-6, 0.5) is None
    with pytest.raises(ValueError, match="positive"):
        queries_needed(0.0, 0.5)


def test_smallest_p_halves_with_each_query():
    assert smallest_p(0) == 1.0
    assert smallest_p(5) == pytest.approx(0.0625)
    assert smallest_p(6) == pytest.approx(0.03125)
    assert smallest_p(300) == pytest.approx(1 / 10_001)
    assert smallest_p(20, rate=True) == pytest.approx(2**-19)


def test_assumed_deviation_shrinks_when_runs_agree():
    assert assumed_deviation(0.4, 1.0) == 0.0
    # .4 * sqrt(2 * (1 - .5)) = .4
    assert assumed_deviation(0.4, 0.5) == pytest.approx(0.4)
    with pytest.raises(ValueError, match="correlation"):
        assumed_deviation(0.4, 1.1)


def test_resolution_counts_the_queries_that_are_missing():
    found = resolution("ndcg@10", 46, 0.3, rate=False, wanted=0.05)
    assert found.more_queries == found.queries_needed - 46
    assert found.smallest_p == pytest.approx(1 / 10_001)
    assert math.isclose(found.smallest_detectable, 0.1267, abs_tol=2e-4)
    assert resolution("ndcg@10", 46, 0.3, rate=False).more_queries is None
