"""Conversions between units of money are exact, and reported cents add up."""

from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from billing import money
from gateway_project.text import dollars

amounts = st.integers(-(2**62), 2**62)


@given(amounts)
def test_cents_are_the_floor_of_the_exact_balance(nanos):
    shown = money.floor_cents(nanos)
    assert shown * money.NANOS_PER_CENT <= nanos < (shown + 1) * money.NANOS_PER_CENT


@given(st.lists(amounts, max_size=30))
def test_the_cents_of_a_ledger_add_up_and_chain(amounts_nanos):
    balances = [0]
    for amount in amounts_nanos:
        balances.append(balances[-1] + amount)
    shown = [money.entry_cents(amount_nanos=a, balance_after_nanos=b) for a, b in zip(amounts_nanos, balances[1:], strict=True)]
    assert sum(shown) == money.floor_cents(balances[-1])
    for (before, after), cents in zip(pairwise(balances), shown, strict=True):
        assert money.floor_cents(before) + cents == money.floor_cents(after)


@given(amounts)
def test_whole_cents_are_shown_exactly(cents):
    assert money.floor_cents(money.nanos(cents)) == cents


def test_the_first_tiny_debit_shows_a_cent_and_the_next_ones_none():
    balance, shown = money.nanos(1000), []
    for _ in range(3):
        balance -= 400_000  # $0.0004
        shown.append((money.entry_cents(amount_nanos=-400_000, balance_after_nanos=balance), money.floor_cents(balance)))
    assert shown == [(-1, 999), (0, 999), (0, 999)]


def test_below_zero_the_floor_is_towards_minus_infinity():
    assert [money.floor_cents(nanos) for nanos in (1, 0, -1, -10_000_000, -10_000_001)] == [0, 0, -1, -1, -2]


@given(st.integers(0, 2**80))
def test_a_charge_is_rounded_up_to_the_next_nanodollar_and_never_further(price_times_tokens):
    charged = money.round_up(price_times_tokens)
    assert 0 <= charged * money.TOKENS_PER_PRICE - price_times_tokens < money.TOKENS_PER_PRICE


@given(st.integers(0, 9_000_000_000))
def test_a_price_is_read_exactly(nanos):
    assert money.price_nanos(f"{Decimal(nanos) / dollars.NANOS_PER_DOLLAR:f}") == nanos


@pytest.mark.parametrize(
    ("printed", "nanos"),
    [("0.15", 150_000_000), ("0.0375", 37_500_000), ("15", 15_000_000_000), ("0", 0), (".5", 500_000_000), ("0.000000001", 1)],
)
def test_published_prices_are_read(printed, nanos):
    assert money.price_nanos(printed) == nanos


@pytest.mark.parametrize(
    "printed",
    [
        "",
        "free",
        "-0.01",
        "-0",
        "+1",
        "NaN",
        "sNaN",
        "Infinity",
        "-Infinity",
        "1e-9",
        "1e3",
        "1E0",
        "0.0000000001",
        "9" * 30,
        "0,15",
    ],
)
def test_an_invalid_price_is_refused_with_its_text(printed):
    with pytest.raises(ValueError, match="price|amount"):
        money.price_nanos(printed)
