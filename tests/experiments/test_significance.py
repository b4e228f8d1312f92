"""Paired tests and intervals: against scipy, exhaustive enumeration, and worked examples."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

from experiments.comparison.significance import (
    effect_size,
    holm,
    matched_pairs_interval,
    mcnemar_exact,
    paired_bootstrap,
    paired_bootstraps,
    paired_randomisation,
    paired_randomisations,
    paired_t,
)

tenths = st.integers(-10, 10).map(lambda tenth: tenth / 10)
small_columns = st.lists(tenths, min_size=1, max_size=9)


def enumerated_p(differences: list[float]) -> float:
    """Share of all sign assignments with a mean at least as far from 0, one by one."""
    observed = abs(math.fsum(differences))
    outcomes = [
        abs(math.fsum(s * d for s, d in zip(signs, differences, strict=True)))
        for signs in itertools.product((1, -1), repeat=len(differences))
    ]
    return sum(outcome >= observed - 1e-9 for outcome in outcomes) / len(outcomes)


def test_randomisation_counts_sign_assignments_when_pairs_are_few():
    # |.3 + .2 - .1| = .4. Of the eight signed sums .6 .4 .2 0 and their negatives (.3-.2+.1 = .2,
    # .3-.2-.1 = 0), four reach .4: .6, .4, -.4, -.6.
    found = paired_randomisation([0.3, 0.2, -0.1])
    assert found.p_value == 4 / 8
    assert found.exact


@settings(max_examples=80, deadline=None)
@given(small_columns)
def test_randomisation_equals_enumeration_when_pairs_are_few(differences):
    assert paired_randomisation(differences).p_value == pytest.approx(enumerated_p(differences))


@pytest.mark.parametrize("pairs", [2, 7, 12, 16])
def test_randomisation_equals_scipy_when_exact(pairs):
    one, other = np.random.default_rng(pairs).uniform(size=(2, pairs))
    theirs = stats.permutation_test(
        (one, other),
        lambda x, y, axis: np.mean(x - y, axis=axis),
        permutation_type="samples",
        n_resamples=np.inf,
    )
    assert paired_randomisation(one - other).p_value == pytest.approx(theirs.pvalue, abs=1e-12)


def test_randomisation_is_near_scipy_when_sampled():
    one, other = np.random.default_rng(3).uniform(size=(2, 60))
    other = other * 0.8
    theirs = stats.permutation_test(
        (one, other),
        lambda x, y, axis: np.mean(x - y, axis=axis),
        permutation_type="samples",
        n_resamples=100_000,
        rng=np.random.default_rng(0),
    )
    found = paired_randomisation(one - other, permutations=100_000)
    assert not found.exact
    # Four standard errors of a share near .03 over 100,000 draws: 4 sqrt(.03 * .97 / 1e5) = .002
    assert found.p_value == pytest.approx(theirs.pvalue, abs=0.003)


def test_sampled_p_is_near_the_binomial_when_every_difference_has_one_size():
    # 17 wins and 5 losses of one size: the exact p is that of Binomial(22, 1/2), .0169.
    exact = stats.binomtest(5, 22).pvalue
    found = paired_randomisation([1.0] * 17 + [-1.0] * 5, permutations=50_000)
    assert found.p_value == pytest.approx(exact, abs=0.003)


def test_sampled_p_is_never_zero_when_every_query_improves():
    found = paired_randomisation([0.5] * 200, permutations=1000)
    assert found.p_value == 1 / 1001


@given(st.lists(tenths, min_size=17, max_size=40), st.integers(0, 5))
@settings(max_examples=30, deadline=None)
def test_randomisation_is_the_same_when_runs_swap_or_queries_are_shuffled(differences, seed):
    ours = paired_randomisation(differences, permutations=1000, seed=seed).p_value
    swapped = [-d for d in sorted(differences)]
    assert paired_randomisation(swapped, permutations=1000, seed=seed).p_value == ours


def test_columns_give_the_same_when_tested_together():
    rng = np.random.default_rng(5)
    columns = [rng.normal(size=n) for n in (30, 30, 25)] + [np.zeros(9), rng.normal(size=8)]
    together = paired_randomisations(columns, permutations=2000)
    for column, found in zip(columns, together, strict=True):
        alone = paired_randomisation(column, permutations=2000)
        assert found.differing == alone.differing
        if found.exact:
            assert found.p_value == alone.p_value
        else:  # other draws, the same distribution
            assert found.p_value == pytest.approx(alone.p_value, abs=0.06)


def test_randomisation_is_certain_of_nothing_when_runs_are_equal():
    found = paired_randomisation([0.0, 1e-15, 0.0])
    assert (found.p_value, found.differing, found.pairs) == (1.0, 0, 3)


@pytest.mark.parametrize("bad", [[math.nan], [math.inf, 0.0], [[0.1]]])
def test_differences_are_refused_when_they_are_not_finite_numbers(bad):
    with pytest.raises(ValueError, match="difference"):
        paired_randomisation(bad)


def test_permutations_are_refused_when_too_few():
    with pytest.raises(ValueError, match=r"1,000"):
        paired_randomisation([0.1], permutations=100)


def test_randomisation_keeps_its_level_when_runs_are_exchangeable():
    # 400 comparisons at 5 %: 20 expected, standard deviation sqrt(400 * .05 * .95) = 4.4.
    rng = np.random.default_rng(11)
    columns = [rng.choice([0.0, 0.1, -0.1, 0.3, -0.3], size=40) for _ in range(400)]
    rejected = sum(t.p_value <= 0.05 for t in paired_randomisations(columns, permutations=2000))
    assert 8 <= rejected <= 33


def test_t_test_equals_scipy_when_differences_vary():
    differences = np.random.default_rng(2).normal(0.1, 1, size=25)
    assert paired_t(differences).p_value == pytest.approx(stats.ttest_1samp(differences, 0).pvalue)


def test_t_test_matches_the_table_when_worked_by_hand():
    # mean 2, squares about it 1 0 1, s = 1, t = 2 / (1 / sqrt 3) = 3.4641 with 2 degrees of
    # freedom; there p = 1 - t / sqrt(2 + t^2) = 1 - 3.4641 / sqrt 14 = .07418
    assert paired_t([1.0, 2.0, 3.0]).p_value == pytest.approx(0.07418, abs=1e-5)


@pytest.mark.parametrize("differences", [[0.3], [0.1, 0.1, 0.1], []])
def test_t_test_says_nothing_when_there_is_no_spread(differences):
    assert paired_t(differences).p_value is None


def test_t_test_is_one_when_all_are_ties():
    assert paired_t([0.0, 0.0]).p_value == 1.0


def test_mcnemar_needs_six_flips_one_way_for_five_percent():
    # 2 / 2^5 = .0625, 2 / 2^6 = .03125
    assert mcnemar_exact(5, 0).p_value == pytest.approx(0.0625)
    assert mcnemar_exact(0, 6).p_value == pytest.approx(0.03125)


@given(st.integers(0, 60), st.integers(0, 60))
def test_mcnemar_equals_the_binomial_test_when_counts_are_any(wins, losses):
    found = mcnemar_exact(wins, losses)
    expected = stats.binomtest(wins, wins + losses).pvalue if wins + losses else 1.0
    assert found.p_value == pytest.approx(expected, abs=1e-12)


@given(st.integers(0, 8), st.integers(0, 8))
@settings(deadline=None)
def test_mcnemar_equals_the_randomisation_test_when_the_metric_is_a_rate(wins, losses):
    differences = [1.0] * wins + [-1.0] * losses + [0.0] * 3
    assert paired_randomisation(differences).p_value == pytest.approx(
        mcnemar_exact(wins, losses).p_value
    )


def test_holm_matches_a_worked_example():
    # Sorted .01 .02 .03 .04: times 4 3 2 1 = .04 .06 .06 .04, and none below the one before.
    assert holm([0.04, 0.01, 0.03, None, 0.02]) == pytest.approx([0.06, 0.04, 0.06, None, 0.06])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_is_no_harsher_than_bonferroni(p_values):
    for raw, adjusted in zip(p_values, holm(p_values), strict=True):
        bonferroni = [min(1.0, p * len(p_values)) for p in p_values if p <= raw]
        assert raw <= adjusted <= max(bonferroni)


def test_holm_keeps_the_order_of_the_tests():
    p_values = [0.5, 0.001, 0.2, 0.01]
    adjusted = holm(p_values)
    assert sorted(range(4), key=p_values.__getitem__) == sorted(range(4), key=adjusted.__getitem__)


def test_effect_size_is_the_mean_in_standard_deviations():
    # mean 2, s = 1
    assert effect_size([1.0, 2.0, 3.0]) == pytest.approx(2.0)
    assert effect_size([0.0, 0.0]) == 0.0
    assert effect_size([0.2, 0.2]) is None
    assert effect_size([0.2]) is None


def score_statistic(wins: int, losses: int, pairs: int, difference: float) -> float:
    """Score test of a supposed difference, the nuisance share found by a search and not solved."""

    def log_likelihood(q: float) -> float:
        shares = (q + difference, q, 1 - 2 * q - difference)
        counts = (wins, losses, pairs - wins - losses)
        return sum(n * math.log(max(p, 1e-300)) for n, p in zip(counts, shares, strict=True) if n)

    start, end = max(0.0, -difference), (1 - difference) / 2
    found = optimize.minimize_scalar(
        lambda q: -log_likelihood(q), bounds=(start, end), method="bounded", options={"xatol": 1e-9}
    )
    q = found.x
    # Variance of (wins - losses) / n: (p_win + p_loss - d^2) / n.
    return ((wins - losses) / pairs - difference) / math.sqrt(
        (2 * q + difference - difference**2) / pairs
    )


@pytest.mark.parametrize(
    ("wins", "losses", "pairs"), [(9, 3, 32), (1, 7, 21), (0, 1, 44), (5, 5, 46), (30, 2, 40)]
)
def test_matched_pairs_interval_ends_where_the_score_test_rejects(wins, losses, pairs):
    interval = matched_pairs_interval(wins, losses, pairs)
    assert interval.value == pytest.approx((wins - losses) / pairs)
    assert score_statistic(wins, losses, pairs, interval.low) == pytest.approx(1.95996, abs=1e-3)
    assert score_statistic(wins, losses, pairs, interval.high) == pytest.approx(-1.95996, abs=1e-3)


def test_matched_pairs_interval_keeps_a_width_when_nothing_changes():
    # +- z^2 / (n + z^2) = 3.8415 / 49.8415 = .07707
    interval = matched_pairs_interval(0, 0, 46)
    assert (interval.low, interval.high) == pytest.approx((-0.07707, 0.07707), abs=1e-5)


@given(st.integers(1, 200), st.data())
def test_matched_pairs_interval_mirrors_when_runs_swap(pairs, data):
    wins = data.draw(st.integers(0, pairs))
    losses = data.draw(st.integers(0, pairs - wins))
    ours = matched_pairs_interval(wins, losses, pairs)
    theirs = matched_pairs_interval(losses, wins, pairs)
    assert ours.low == pytest.approx(-theirs.high, abs=1e-9)
    assert -1 <= ours.low <= ours.value + 1e-12
    assert ours.value - 1e-12 <= ours.high <= 1


def test_matched_pairs_interval_refuses_counts_when_they_cannot_be():
    with pytest.raises(ValueError, match="impossible"):
        matched_pairs_interval(3, 3, 5)
    assert matched_pairs_interval(0, 0, 0).low is None


def exact_coverage(pairs: int, win: float, loss: float) -> float:
    """Chance that the interval holds the true difference, summed over every outcome."""
    total = 0.0
    for wins in range(pairs + 1):
        for losses in range(pairs + 1 - wins):
            interval = matched_pairs_interval(wins, losses, pairs)
            if interval.low <= win - loss <= interval.high:
                total += stats.multinomial.pmf(
                    [wins, losses, pairs - wins - losses], pairs, [win, loss, 1 - win - loss]
                )
    return total


@pytest.mark.parametrize(("win", "loss"), [(0.1, 0.1), (0.15, 0.05), (0.2, 0.02), (0.3, 0.1)])
def test_matched_pairs_interval_covers_when_queries_are_46(win, loss):
    assert 0.93 <= exact_coverage(46, win, loss) <= 0.98


@pytest.mark.parametrize("pairs", [46, 150])
def test_bootstrap_interval_covers_when_differences_are_mostly_ties(pairs):
    # Differences of reciprocal ranks, six in ten a tie. 600 samples: standard error .009.
    values = np.array([0.0, 0.5, -0.5, 2 / 3, -1 / 6, 0.25])
    shares = np.array([0.6, 0.12, 0.08, 0.05, 0.1, 0.05])
    mean = float(values @ shares)
    rng = np.random.default_rng(pairs)
    columns = [rng.choice(values, size=pairs, p=shares) for _ in range(600)]
    found = paired_bootstraps(columns, resamples=4000)
    covered = np.mean([i.low <= mean <= i.high for i in found])
    assert 0.93 <= covered <= 0.98


def test_bootstrap_has_students_width_when_the_sample_is_small():
    # Ten normal scores: the t interval is mean +- 2.262 s / sqrt(10).
    values = stats.norm.ppf((np.arange(10) + 0.5) / 10)
    half = stats.t.ppf(0.975, 9) * values.std(ddof=1) / math.sqrt(10)
    interval = paired_bootstrap(values)
    assert interval.high - interval.low == pytest.approx(2 * half, rel=0.06)


def test_bootstrap_has_no_bounds_when_there_are_fewer_than_five_queries():
    found = paired_bootstraps([[0.5], [0.1, 0.2], [0.1] * 4, [0.1] * 5])
    assert [one.low is None for one in found] == [True, True, True, False]
    assert paired_bootstrap([]).value is None
