"""Adds GATEWAY_MARKUP_PERCENT to prices of providers, where the gateway reads these: in catalog files and providers' own lists.

What staff enter in the admin is what callers pay; they can have a mark-up of their own choice added to a provider's price. A
price with its mark-up is rounded up to a whole nanodollar.
"""

from collections.abc import Mapping
from decimal import Decimal

from django.conf import settings

from billing import money
from completions.pricing.rates import RateSheet
from gateway_project.text import dollars


def add_to_sheet(sheet: RateSheet) -> RateSheet:
    """Return the price with the mark-up."""
    return sheet.map(lambda nanos: add(nanos, settings.MARKUP_PERCENT))


def add_to_list(prices: Mapping[str, str]) -> dict[str, str]:
    """Return the prices of a provider's list, as text in US dollars, with the mark-up."""
    if not settings.MARKUP_PERCENT:
        return dict(prices)  # as they were written
    return {
        name: dollars.format_plain(add(money.price_nanos(price), settings.MARKUP_PERCENT)) for name, price in prices.items()
    }


def add(nanos: int, percent: Decimal) -> int:
    """Return a price with a mark-up, which has at most two decimals."""
    hundredths = 10_000 + int(percent * 100)
    return -(-nanos * hundredths // 10_000)
