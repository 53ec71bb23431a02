"""The geometry of stacked bars."""

import pytest

from gateway_project import bar_chart
from gateway_project.bar_chart import STACK_HEIGHT


def test_the_parts_of_a_bar_stand_on_each_other_without_gaps():
    parts = bar_chart.stack([1, 0, 333, 666], 1_000)
    bottom = STACK_HEIGHT
    for top, height in parts:
        assert top + height == bottom
        bottom = top
    assert (parts[1][1], bottom) == (0, 0)


def test_the_least_value_is_visible_and_nothing_is_higher_than_the_plot():
    assert bar_chart.stack([1], 10**15) == [(STACK_HEIGHT - 1, 1)]
    assert bar_chart.stack([1] * 7, 7)[-1][0] == 0


@pytest.mark.parametrize(
    ("value", "highest"), [(1, 1), (2, 2), (3, 4), (5, 6), (9, 10), (10, 10), (11, 20), (99, 100), (61_000, 80_000)]
)
def test_an_axis_ends_at_a_short_number_whose_half_is_short(value, highest):
    assert bar_chart.round_up(value) == highest
