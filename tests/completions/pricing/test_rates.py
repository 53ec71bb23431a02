"""Sheets of rates are equal if they cost the same, whatever the usage."""

from completions.pricing.rates import RateSheet

VALUES = {"input": "0.5", "output": "1.5"}


def test_a_share_of_the_rates_is_another_sheet():
    sheet = RateSheet.of_values(VALUES)
    share = sheet.share(500)
    assert sheet == RateSheet.of_values(VALUES) != RateSheet.of_values({**VALUES, "output": "2"})
    assert share != sheet != share
    assert share == RateSheet.of_values(VALUES).share(500) != sheet.share(501)
    assert len({sheet, RateSheet.of_values(VALUES), share}) == 2
