"""Adds GATEWAY_MARKUP_PERCENT to prices of providers, where the gateway reads these: in catalog files and providers' own lists.

Callers pay the price that staff enter in the admin; staff can have a mark-up of their own choice added to a provider's price. A
price with its mark-up is rounded up to a whole nanodollar.
"""

from collections.abc import Mapping
from decimal import Decimal

from django.conf import settings

from billing import money
from completions.pricing.rates import RateSheet
from gateway_project.text import dollars


def add_to_sheet(sheet: RateSheet) -> RateSheet:
    """Return the price with the mark-up. Raises ValueError, which names the rate, if it is above the dearest price."""
    return RateSheet(rate._replace(nanos=_add(rate.nanos, rate.name)) for rate in sheet)


def add_to_list(prices: Mapping[str, str]) -> dict[str, str]:
    """Return the prices of a provider's list, as text in US dollars, with the mark-up. Raises as ``add_to_sheet``."""
    if not settings.MARKUP_PERCENT:
        return dict(prices)  # as they were written
    return {name: dollars.format_plain(_add(money.price_nanos(price), name)) for name, price in prices.items()}


def _add(nanos: int, name: str) -> int:
    marked_up = add(nanos, settings.MARKUP_PERCENT)
    if marked_up > money.PRICE_NANOS_MAX:
        most = dollars.format_plain(money.PRICE_NANOS_MAX)
        raise ValueError(f"{name} is {dollars.format_plain(marked_up)} with GATEWAY_MARKUP_PERCENT, more than {most}")
    return marked_up


def add(nanos: int, percent: Decimal) -> int:
    """Return a price with a mark-up, which has at most two decimals."""
    hundredths = 10_000 + int(percent * 100)
    return -(-nanos * hundredths // 10_000)
