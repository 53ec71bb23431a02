"""Amounts on pages: one rounded number, and the exact one where it says more."""

import pytest

from gateway_project.templatetags import amounts


def test_an_amount_that_is_shown_whole_is_no_stop_of_the_keyboard():
    assert amounts.usd(10_000_000) == '<data class="usd usd-2" value="0.01">$0.01</data>'


def test_a_rounded_amount_has_the_exact_one_inside():
    exact = '<span class="usd-exact"> exactly $217.431234567</span>'
    assert amounts.usd(217_431_234_567) == f'<data class="usd usd-2" value="217.431234567" tabindex="0">$217.43{exact}</data>'


@pytest.mark.parametrize(
    ("nanos", "shown"), [(195_000, "usd-6"), (200_000, "usd-4"), (1_000_000, "usd-3"), (1, "usd-6"), (0, "usd-2")]
)
def test_the_class_tells_how_many_decimals_are_shown(nanos, shown):
    assert f'class="usd {shown}"' in amounts.usd(nanos)


def test_a_credit_has_its_sign():
    assert amounts.usd(10_000_000_000, "+") == '<data class="usd usd-2" value="10.00">+$10.00</data>'


def test_a_balance_is_rounded_down():
    assert ">$9.99<" in amounts.balance_usd(9_999_999_999)
    assert ">-$0.01<" in amounts.balance_usd(-1)


def test_a_part_of_a_charge_is_shown_with_all_its_decimals_at_hand():
    assert ">$0.000001<" in amounts.unrounded_usd(187_500_000)
    assert "exactly $0.0000001875</span>" in amounts.unrounded_usd(187_500_000)
    assert amounts.unrounded_usd(10_000_000_000_000) == amounts.usd(10_000_000)


def test_plots_have_plain_text():
    assert (amounts.rounded_usd(217_431_234_567), amounts.exact_usd(217_431_234_567)) == ("$217.43", "$217.431234567")
