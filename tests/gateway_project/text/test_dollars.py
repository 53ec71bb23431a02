"""Dollars are written exactly, with two decimals at least, and in one way for people and one for programs."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway_project.text import compact_json, dollars

amounts = st.integers(-(2**63), 2**63 - 1)


@given(amounts)
def test_plain_dollars_are_exact(nanos):
    written = dollars.format_plain(nanos)
    assert Decimal(written) * dollars.NANOS_PER_DOLLAR == nanos
    assert len(written.partition(".")[2]) >= 2


@given(amounts)
def test_dollars_for_people_differ_by_sign_and_separators_only(nanos):
    assert dollars.format_usd(nanos).replace("$", "").replace(",", "") == dollars.format_plain(nanos)


@pytest.mark.parametrize(
    ("nanos", "plain", "usd"),
    [
        (0, "0.00", "$0.00"),
        (10_000_000_000, "10.00", "$10.00"),
        (-195_000, "-0.000195", "-$0.000195"),
        (1, "0.000000001", "$0.000000001"),
        (120_000_000, "0.12", "$0.12"),
        (-1_234_500_000_000, "-1234.50", "-$1,234.50"),
    ],
)
def test_dollars_for_programs_and_for_people(nanos, plain, usd):
    assert (dollars.format_plain(nanos), dollars.format_usd(nanos)) == (plain, usd)


@pytest.mark.parametrize(
    ("computed", "usd"),
    [(0.15, "$0.15"), (3 * 0.1, "$0.30"), (1234.5, "$1,234.50"), (0.0000004, "$0.00"), (0.0000006, "$0.000001")],
)
def test_computed_dollars_are_rounded_to_six_decimals(computed, usd):
    assert dollars.format_computed_usd(computed) == usd


# --- Amounts that pages round -------------------------------------------------------------------------------------

CENT, DOLLAR = 10_000_000, dollars.NANOS_PER_DOLLAR


@pytest.mark.parametrize(
    ("nanos", "shown"),
    [
        (0, "$0.00"),
        (217_432_918_273, "$217.43"),
        (5 * DOLLAR + CENT // 2, "$5.01"),
        (-1_234_000_195_000, "-$1,234.00"),
        (CENT, "$0.01"),
        (-13_820_000, "-$0.01382"),
        (-13_824_999, "-$0.01382"),
        (500_000_000, "$0.50"),
        (100_040_000, "$0.1000"),
        (999_960_000, "$1.0000"),
        (9_999_999, "$0.010000"),
        (195_499, "$0.0001955"),
        (-195_450, "-$0.0001955"),
        (482_000, "$0.000482"),
        (1_234, "$0.000001234"),
        (-1, "-$0.000000001"),
    ],
)
def test_an_amount_has_cents_and_below_a_dollar_four_digits_that_count(nanos, shown):
    assert dollars.show(nanos) == (shown, dollars.format_usd(nanos))


@pytest.mark.parametrize(
    ("nanos", "shown"),
    [
        ([], []),
        ([0], ["$0.00"]),
        ([10 * DOLLAR, -13_820_000, 0], ["$10.00000", "-$0.01382", "$0.00000"]),
        ([5 * DOLLAR, 500_000_000], ["$5.00", "$0.50"]),
        ([1_234_567_891, 2_000_000_009], ["$1.23", "$2.00"]),
    ],
)
def test_a_column_has_one_number_of_decimals(nanos, shown):
    assert [each.shown for each in dollars.show_column(nanos)] == shown


@pytest.mark.parametrize(
    ("nanos", "shown"),
    [
        (0, "$0.00"),
        (9_999_999_999, "$9.99"),
        (9_999_999, "$0.009999"),
        (-1_000_000_001, "-$1.01"),
        (1_234 * DOLLAR, "$1,234.00"),
    ],
)
def test_what_there_is_is_rounded_down(nanos, shown):
    assert dollars.show_floored(nanos).shown == shown


@pytest.mark.parametrize(
    ("parts", "shown"),
    [
        ([18_285_100_000, 1_714_900_000], ["$18.29", "$1.71"]),  # of $20.00
        ([481_950, 9_450], ["$0.00048195", "$0.00000945"]),
        ([3_333_333_333] * 3, ["$3.34", "$3.33", "$3.33"]),
        ([10 * DOLLAR, -5_005_000_000, -4_994_999_999], ["$10.000000000", "-$5.005000000", "-$4.994999999"]),
        ([29_994_000_000, 0, 6_000_000], ["$29.994", "$0.000", "$0.006"]),
        ([0, 0], ["$0.00", "$0.00"]),
        ([], []),
    ],
)
def test_the_parts_of_a_sum_add_up_as_they_are_shown(parts, shown):
    assert [each.shown for each in dollars.show_parts(parts)] == shown


def _read(amount):
    return Decimal(amount.shown.replace("$", "").replace(",", ""))


@given(st.lists(st.integers(-(2**62), 2**62) | st.integers(-2 * DOLLAR, 2 * DOLLAR), max_size=12), st.booleans())
def test_parts_add_up_however_many_there_are(parts, is_floored):
    decimals = dollars.decimals([sum(parts), *parts])
    whole = (dollars.show_floored if is_floored else dollars.show)(sum(parts), decimals)
    shown = dollars.show_parts(parts, is_floored=is_floored)
    assert sum(map(_read, shown)) == _read(whole)
    for part, amount in zip(parts, shown, strict=True):
        assert abs(_read(amount) - Decimal(part) / DOLLAR) <= Decimal(10) ** -decimals
        assert (part == 0) == (_read(amount) == 0)
    assert "-$0.00" not in [amount.shown for amount in [whole, *shown]]


@given(st.lists(st.integers(-2 * DOLLAR, 2 * DOLLAR), min_size=1, max_size=12), st.integers(-DOLLAR, DOLLAR))
def test_entries_and_balances_follow_each_other_as_they_are_shown(amounts, opening):
    balances = [opening + sum(amounts[: place + 1]) for place in range(len(amounts))]
    decimals = dollars.decimals([*amounts, *balances])
    before = _read(dollars.show_floored(opening, decimals))
    for nanos, balance in zip(amounts, balances, strict=True):
        amount, after = dollars.show_entry(nanos, balance, decimals)
        assert before + _read(amount) == _read(after)
        before = _read(after)


def test_the_amount_of_an_entry_is_what_changes_in_the_balance():
    shown = dollars.show_entry(-13_820_000, 9_986_180_000, 5)
    assert [each.shown for each in shown] == ["-$0.01382", "$9.98618"]
    assert [each.shown for each in dollars.show_entry(-13_820_000, 9_986_180_000, 2)] == ["-$0.02", "$9.98"]


def test_the_exact_amounts_of_a_column_have_one_number_of_decimals():
    assert dollars.format_exact_column([195, 10 * DOLLAR, -CENT]) == ["$0.000000195", "$10.000000000", "-$0.010000000"]
    assert dollars.format_exact_column([]) == []


@pytest.mark.parametrize(
    ("typed", "dollars_read"),
    [
        ("12", "12"),
        ("12.5", "12.5"),
        ("$1,200", "1200"),
        ("12,50", "12.50"),
        ("1.200,50", "1200.50"),
        ("0,15", "0.15"),
        ("0.075", "0.075"),
        ("0,075", None),  # not 75 dollars: no number begins a group with 0
        ("0.075,50", None),
        ("1,5", None),
        ("1.200", "1.2"),
        ("", None),
        ("-1", None),
        ("1e3", None),
    ],
)
def test_amounts_are_read_as_people_type_them(typed, dollars_read):
    read = dollars.read_usd(typed, decimals_max=9)
    assert read == (None if dollars_read is None else Decimal(dollars_read) * dollars.NANOS_PER_DOLLAR)


def test_more_decimals_than_permitted_are_refused():
    assert dollars.read_usd("0.075", decimals_max=2) is None


def test_an_amount_in_json_has_exactly_its_digits():
    assert compact_json.dumps([dollars.json_number(nanos) for nanos in (0, 195, None)]) == b"[0.00,0.000000195,null]"
