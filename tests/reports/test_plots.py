"""Scales and paths of pictures, with places worked out by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.plots import Scale, dots, steps


def test_value_has_its_share_of_the_pixels() -> None:
    # A quarter of the way from 2 to 6 is 3; a quarter of 100 to 180 is 120.
    assert Scale(2, 6, 100, 180).at(3) == 120
    # Pixels may run the other way, as heights do: three quarters of 180 down to 100.
    assert Scale(2, 6, 180, 100).at(5) == 120


def test_log_scale_has_the_geometric_mean_in_the_middle() -> None:
    assert Scale(1, 100, 0, 50, log=True).at(10) == 25


@pytest.mark.parametrize(("value", "place"), [(-5, 10), (99, 20)])
def test_value_outside_lies_at_the_edge(value: float, place: float) -> None:
    assert Scale(0, 1, 10, 20).at(value) == place


def test_scale_of_one_value_has_it_in_the_middle() -> None:
    assert Scale(3, 3, 10, 20).at(3) == 15
    assert [tick.text for tick in Scale(3, 3, 10, 20).ticks(4)] == ["3"]


def test_ticks_are_round_values() -> None:
    # From .61 to .83 at most 5: a step of .055 is rounded up to .1, so .7 and .8.
    assert [tick.text for tick in Scale(0.61, 0.83, 0, 1).ticks(5)] == ["0.7", "0.8"]
    assert [tick.text for tick in Scale(0, 200, 0, 1).ticks(5)] == ["0", "50", "100", "150", "200"]


@given(
    st.floats(-1e6, 1e6),
    st.floats(1e-6, 1e6),
    st.integers(2, 9),
)
def test_ticks_are_few_and_lie_on_the_scale(low: float, width: float, most: int) -> None:
    scale = Scale(low, low + width, 0, 100)
    ticks = scale.ticks(most)
    assert len(ticks) <= most
    assert all(0 <= tick.place <= 100 for tick in ticks)


def test_equal_places_are_drawn_once() -> None:
    assert dots([(1, 2), (1.04, 2), (3, 4)]) == "M1 2h0M3 4h0"


def test_steps_change_height_where_a_point_stands() -> None:
    assert steps([(0, 9), (5, 4)]) == "M0 9H5V4"
    assert steps([]) == ""
