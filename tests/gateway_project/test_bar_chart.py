"""What bar charts show."""

from datetime import UTC, date, datetime

import pytest

from gateway_project import bar_chart
from gateway_project.bar_chart import Part
from gateway_project.text import dollars

DAYS = [date(2026, 11, day) for day in range(1, 4)]


def test_a_bar_says_its_sum_its_parts_and_what_was_before_with_one_number_of_decimals():
    values = list(zip(DAYS, [[1_500_000_000, 25_000_000], [0, 0], [0, 4_000]], strict=True))
    chart = bar_chart.compare(values, [(date(2026, 10, 1), 7_000)], dollars.format_exact_column)
    assert [bar.words for bar in chart.bars] == ["$1.525000", "$0.000000", "$0.000004"]
    assert chart.bars[0].parts == [Part(1_500_000_000, "$1.500000"), Part(25_000_000, "$0.025000")]
    assert (chart.bars[0].before.words, chart.bars[1].before) == ("$0.000007", None)
    assert chart.axis == [Part(2_000_000_000, "$2.00"), Part(1_000_000_000, "$1.00"), Part(0, "$0.00")]


def test_a_time_before_that_was_empty_is_not_compared_with():
    chart = bar_chart.compare([(day, [1]) for day in DAYS], [(day, 0) for day in DAYS], lambda column: map(str, column))
    assert [bar.before for bar in chart.bars] == [None] * 3


def test_what_was_before_may_be_higher_than_all_bars():
    chart = bar_chart.compare([(DAYS[0], [1])], [(DAYS[1], 61)], lambda column: map(str, column))
    assert [tick.value for tick in chart.axis] == [80, 40, 0]


def test_a_time_without_any_value_has_no_chart():
    assert bar_chart.compare([(DAYS[0], [0, 0])], [(DAYS[1], 5)], lambda column: map(str, column)) is None
    assert bar_chart.build([(DAYS[0], 0, "0")]) is None


@pytest.mark.parametrize(
    ("value", "highest"), [(1, 1), (2, 2), (3, 4), (5, 6), (9, 10), (10, 10), (11, 20), (99, 100), (61_000, 80_000)]
)
def test_an_axis_ends_at_a_short_number_whose_half_is_short(value, highest):
    assert bar_chart.round_up(value) == highest


def test_a_chart_of_hours_has_the_last_24_of_which_the_current_one_is_the_last():
    now = datetime(2026, 11, 29, 9, 30, tzinfo=UTC)
    first, last = datetime(2026, 11, 28, 10, tzinfo=UTC), datetime(2026, 11, 29, 9, tzinfo=UTC)
    chart = bar_chart.build_hours({last: 4, first: 1_200}, now, "Requests")
    assert [(bar.at, bar.words) for bar in chart.bars if bar.value] == [(first, "1,200"), (last, "4")]
    assert (len(chart.bars), chart.caption) == (24, "Requests")
    assert bar_chart.build_hours({}, now) is None
