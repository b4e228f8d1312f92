"""What is said of the choice when few queries make it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.sweep.few_queries import choice_resolution


def test_choice_is_told_to_rest_on_few_queries_when_one_outweighs_what_is_found() -> None:
    # z(.975) + z(.8) = 2.8016; times .2: / sqrt(8) = .1981, / sqrt(46) = .0826; 1/8 = .125.
    found = choice_resolution([9, 8, 9], 46, 0.2)
    assert found.few
    assert found.words == (
        "the choice rests on few queries, 8 to 9: a true difference of about 0.198 could be told "
        "apart there, and one query alone moves their mean by up to 0.125, more than the "
        "0.083 that the 46 judged can tell apart; what is chosen may be chance"
    )
    assert found.to_json()["queries"] == [8, 9]


@pytest.mark.parametrize(("choosing", "few"), [(12, True), (13, False)])
def test_threshold_is_where_one_query_moves_as_much_as_the_judged_tell_apart(
    choosing: int, few: bool
) -> None:
    # .0826 are told apart by 46; 1/12 = .0833, 1/13 = .0769.
    assert choice_resolution([choosing], 46, 0.2).few is few


def test_nothing_is_warned_of_when_many_queries_choose() -> None:
    # 2.8016 * .2 / sqrt(60) = .0723; 1/60 = .017.
    found = choice_resolution([60], 60, 0.2)
    assert not found.few
    assert found.words == (
        "the choice is made on 60 queries: a true difference of about 0.072 could be told apart "
        "there, and one query alone moves their mean by up to 0.017"
    )


def test_fewer_than_six_tell_nothing_from_chance() -> None:
    # 2 / 2^5 = .0625: no outcome on five is significant. 2.8016 * .9 / sqrt(100) = .2522 > 1/5.
    found = choice_resolution([5], 100, 0.9)
    assert found.few
    assert "so few cannot tell any difference from chance" in found.words
    assert "more than" not in found.words
    assert found.told_apart is None


def test_no_scale_is_made_up_when_the_figures_are_all_alike() -> None:
    found = choice_resolution([8], 40, 0.0)
    assert not found.few
    assert found.words == (
        "the choice is made on 8 queries: one query alone moves their mean by up to 0.125"
    )


@given(st.integers(1, 400), st.integers(6, 2000), st.floats(0.01, 0.5))
def test_more_queries_to_choose_on_never_become_few(
    choosing: int, judged: int, deviation: float
) -> None:
    more = choice_resolution([choosing + 1], judged, deviation)
    assert not more.few or choice_resolution([choosing], judged, deviation).few
