"""Intervals of a mean over queries."""

import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments.intervals import Interval, bootstrap_mean, bootstrap_means, wilson

unit_values = st.lists(st.floats(0, 1), min_size=5, max_size=30)


def test_wilson_matches_the_known_interval_when_40_of_46_hit():
    interval = wilson(40, 46)
    assert interval.value == pytest.approx(40 / 46)
    assert (round(interval.low, 3), round(interval.high, 3)) == (0.743, 0.939)


def test_wilson_matches_a_hand_worked_interval_when_1_of_4_succeed():
    # z = 2 at this level: p = .25, z^2/n = 1, centre = .25 + .5 = .75,
    # spread = 2 * sqrt(.25 * .75 / 4 + 4 / 64) = 2 * sqrt(.046875 + .0625) = .661438,
    # bounds (.75 -+ .661438) / 2 = .044281, .705719
    interval = wilson(1, 4, level=math.erf(2 / math.sqrt(2)))
    assert interval.low == pytest.approx(0.044281, abs=1e-6)
    assert interval.high == pytest.approx(0.705719, abs=1e-6)


def test_wilson_keeps_a_width_when_every_query_succeeds():
    # p = 1: the spread equals z^2/2n, so low = 1 / (1 + z^2/n) = 1 / (1 + 3.841459/10) = .722467
    interval = wilson(10, 10)
    assert interval.high == 1.0
    assert interval.low == pytest.approx(0.722467, abs=1e-6)


def test_wilson_is_the_mirror_image_when_successes_and_failures_swap():
    ours, mirrored = wilson(3, 17), wilson(14, 17)
    assert ours.low == pytest.approx(1 - mirrored.high)
    assert ours.high == pytest.approx(1 - mirrored.low)


def test_wilson_is_undefined_when_there_are_no_queries():
    assert wilson(0, 0) == Interval(None, None, None, 0)


@pytest.mark.parametrize(("successes", "n"), [(-1, 3), (4, 3), (0, -1)])
def test_wilson_refuses_counts_when_they_cannot_be(successes, n):
    with pytest.raises(ValueError, match="successes"):
        wilson(successes, n)


@pytest.mark.parametrize("level", [0, 1, 95, -0.5, math.nan])
def test_level_is_refused_when_it_is_no_probability(level):
    with pytest.raises(ValueError, match="level"):
        wilson(1, 2, level)
    with pytest.raises(ValueError, match="level"):
        bootstrap_mean([0.0, 1.0], level=level)


@given(st.integers(1, 500), st.data())
def test_wilson_holds_its_own_rate_when_counts_are_any(n, data):
    interval = wilson(data.draw(st.integers(0, n)), n)
    assert 0 <= interval.low <= interval.value <= interval.high <= 1


def test_bootstrap_equals_the_binomial_quantiles_when_values_are_zero_or_one():
    # The mean of 20 draws from ten 0 and ten 1 is Binomial(20, 1/2) / 20. Its .025 quantile is 6
    # (P(X <= 5) = .0207, P(X <= 6) = .0577) and by symmetry its .975 quantile is 14.
    interval = bootstrap_mean([0.0] * 10 + [1.0] * 10)
    assert interval == Interval(0.5, 0.3, 0.7, 20)


def test_bootstrap_has_the_width_of_the_normal_interval_when_the_sample_is_large():
    # Values 0, 1/999, ..., 1 have mean .5 and standard deviation .28896 (about 1/sqrt(12)), so
    # the half width is near 1.96 * .28896 / sqrt(1000) = .01791.
    interval = bootstrap_mean(np.linspace(0, 1, 1000))
    assert interval.low == pytest.approx(0.5 - 0.01791, abs=6e-4)
    assert interval.high == pytest.approx(0.5 + 0.01791, abs=6e-4)


def test_bootstrap_is_undefined_when_there_are_no_values():
    assert bootstrap_mean([]) == Interval(None, None, None, 0)


@pytest.mark.parametrize("n", [1, 2, 4])
def test_bootstrap_gives_no_bounds_when_there_are_fewer_than_five_values(n):
    assert bootstrap_mean([0.25] * n) == Interval(0.25, None, None, n)
    assert bootstrap_mean([0.0, 0.25, 0.25, 0.25, 0.5]).low is not None


@pytest.mark.parametrize("value", [0.0, 0.1, 1 / 3, 1.0])
def test_bootstrap_has_no_width_when_values_are_equal(value):
    interval = bootstrap_mean([value] * 7)
    assert interval.low == interval.high == round(value, 12)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_bootstrap_refuses_a_value_when_it_is_not_finite(bad):
    with pytest.raises(ValueError, match="finite"):
        bootstrap_mean([0.5, bad])


def test_bootstrap_refuses_to_run_when_it_may_not_resample():
    with pytest.raises(ValueError, match="resample"):
        bootstrap_mean([0.5, 1.0], resamples=0)


@settings(max_examples=30, deadline=None)
@given(unit_values, st.randoms(use_true_random=False))
def test_bootstrap_gives_the_same_bits_when_values_are_shuffled(values, random):
    shuffled = values.copy()
    random.shuffle(shuffled)
    assert bootstrap_mean(shuffled, 200) == bootstrap_mean(values, 200)


@settings(max_examples=30, deadline=None)
@given(st.lists(unit_values, min_size=1, max_size=4))
def test_bootstrap_of_a_column_stays_the_same_when_others_are_resampled_with_it(columns):
    together = bootstrap_means(columns, 200)
    assert together == [bootstrap_mean(column, 200) for column in columns]


@settings(max_examples=30, deadline=None)
@given(unit_values)
def test_bootstrap_stays_within_the_values_when_they_are_any(values):
    interval = bootstrap_mean(values, 200)
    slack = 1e-12  # bounds are rounded to 12 decimals
    assert min(values) - slack <= interval.low <= interval.high <= max(values) + slack


def test_bootstrap_differs_when_the_seed_does():
    values = np.linspace(0, 1, 40) ** 2
    assert bootstrap_mean(values, seed=1) == bootstrap_mean(values, seed=1)
    assert bootstrap_mean(values, seed=1) != bootstrap_mean(values, seed=2)


def test_bootstrap_leaves_the_callers_values_alone_when_it_sorts():
    values = np.array([0.9, 0.1, 0.5])
    bootstrap_mean(values)
    assert values.tolist() == [0.9, 0.1, 0.5]


def test_bootstrap_of_seven_columns_is_quick_when_they_share_their_draws():
    columns = list(np.random.default_rng(0).random((7, 300)))
    bootstrap_means(columns, 100)
    best = math.inf
    for _ in range(3):
        started = time.perf_counter()
        bootstrap_means(columns)
        best = min(best, time.perf_counter() - started)
    assert best < 0.5  # 0.05 s measured on an idle core; the slack is for a loaded machine
