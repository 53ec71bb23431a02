"""Amounts on pages: one rounded number, and the exact one where it says more."""

from types import SimpleNamespace

from gateway_project.templatetags import amounts
from gateway_project.text import dollars


def test_an_amount_that_is_shown_whole_is_no_stop_of_the_keyboard():
    assert amounts.usd(10_000_000) == '<data class="usd" value="0.01">$0.01</data>'
    assert amounts.usd(10_000_000_000, 6) == '<data class="usd" value="10.00">$10.000000</data>'


def test_a_rounded_amount_has_the_exact_one_inside():
    exact = '<span class="usd-exact"> exactly $217.431234567</span>'
    assert amounts.usd(217_431_234_567) == f'<data class="usd" value="217.431234567" tabindex="0">$217.43{exact}</data>'


def test_an_amount_is_shown_as_it_was_rounded_beside_others():
    left, _ = dollars.show_parts([18_285_100_000, 1_714_900_000])
    assert ">$18.29<" in amounts.usd(left)
    assert "exactly $18.2851</span>" in amounts.usd(left)


def test_a_credit_has_its_sign():
    ten = dollars.show(10_000_000_000)
    assert amounts.usd(amounts.with_sign(ten, "+")) == '<data class="usd" value="10.00">+$10.00</data>'
    assert amounts.usd(amounts.with_sign(ten, "-")) == '<data class="usd" value="-10.00">-$10.00</data>'


def test_a_balance_is_rounded_down():
    assert ">$9.99<" in amounts.balance_usd(9_999_999_999)
    assert ">-$0.00001<" in amounts.balance_usd(-1, 5)


def test_prices_of_a_column_leave_room_for_two_digits_below_the_cent():
    classes = {price: amounts.aligned(price)[13:20] for price in ("$5.00", "$0.075", "$0.0375", "$0.00125")}
    assert list(classes.values()) == ["lacks-2", "lacks-1", "lacks-0", "lacks-0"]


def test_plots_have_plain_text():
    assert (amounts.rounded_usd(217_431_234_567), amounts.exact_usd(217_431_234_567)) == ("$217.43", "$217.431234567")


# --- Columns ------------------------------------------------------------------------------------------------------

USED = [{"used": {"nanos": nanos}} for nanos in (482_000, None, 9_450)]


def test_a_column_has_the_decimals_that_its_amounts_and_their_sum_need():
    assert amounts.decimals(USED, "used.nanos") == amounts.exact_decimals(USED, "used.nanos") == 8
    assert amounts.decimals([], "used.nanos") == amounts.decimals([{"used": None}], "used.nanos") == 2
    assert amounts.decimals([{"nanos": 5_000_000_000}, {"nanos": -4_999_000_000}], "nanos") == 3


def test_the_rows_of_a_column_come_with_amounts_that_add_up():
    rows = [{"nanos": 3_333_333_333}] * 3
    assert [(row, amount.shown) for row, amount in amounts.apportioned(rows, "nanos")] == [
        (rows[0], "$3.34"),
        (rows[0], "$3.33"),
        (rows[0], "$3.33"),
    ]


def test_lines_of_a_ledger_come_with_amounts_and_balances_that_agree():
    lines = [
        {"entry": SimpleNamespace(amount_nanos=-13_820_000, balance_after_nanos=9_986_180_000)},
        {"entry": SimpleNamespace(amount_nanos=10_000_000_000, balance_after_nanos=10_000_000_000)},
    ]
    shown = [(amount.shown, balance.shown) for _, amount, balance in amounts.as_entries(lines)]
    assert shown == [("-$0.01382", "$9.98618"), ("$10.00000", "$10.00000")]
