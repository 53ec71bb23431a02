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


@pytest.mark.parametrize(
    ("nanos", "usd"),
    [
        (0, "$0.00"),
        (217_432_918_273, "$217.43"),
        (5_000_000_000 + 5_000_000, "$5.01"),
        (-1_234_000_195_000, "-$1,234.00"),
        (10_000_000, "$0.01"),
        (9_999_999, "$0.01"),
        (195_499, "$0.000195"),
        (-195_500, "-$0.000196"),
        (499, "$0.000001"),
        (-1, "-$0.000001"),
    ],
)
def test_amounts_are_rounded_to_cents_and_to_six_decimals_below_a_cent(nanos, usd):
    assert dollars.format_rounded_usd(nanos) == usd


@pytest.mark.parametrize(
    ("nanos", "usd"),
    [(0, "$0.00"), (9_999_999_999, "$9.99"), (9_999_999, "$0.00"), (-1, "-$0.01"), (1_234_000_000_000, "$1,234.00")],
)
def test_balances_are_rounded_down_to_cents_as_in_the_api(nanos, usd):
    assert dollars.format_floored_usd(nanos) == usd


@pytest.mark.parametrize(
    ("nanos", "usd"),
    [
        (9_992_999, "$0.009992"),
        (4_999_999_999, "$4.99"),
        (10_000_000, "$0.01"),
        (999, "$0.00"),
        (0, "$0.00"),
        (-1, "-$0.000001"),
    ],
)
def test_what_is_left_is_rounded_down_with_six_decimals_below_a_cent(nanos, usd):
    assert dollars.format_left_usd(nanos) == usd


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
