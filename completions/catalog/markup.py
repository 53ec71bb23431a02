"""Adds GATEWAY_MARKUP_PERCENT to prices of providers, where the gateway reads these: in catalog files and providers' own lists.

What staff enter in the admin is what callers pay. A price with its mark-up is rounded up to a whole nanodollar.
"""

from collections.abc import Mapping

from django.conf import settings

from billing import money
from gateway_project import dollars


def add_to_columns(columns: Mapping[str, int | None]) -> dict[str, int | None]:
    """Return the prices of a row, in nanodollars, with the mark-up. None stays None."""
    return {name: None if nanos is None else _add(nanos) for name, nanos in columns.items()}


def add_to_list(prices: Mapping[str, str]) -> dict[str, str]:
    """Return the prices of a provider's list, as text in US dollars, with the mark-up."""
    if not settings.MARKUP_PERCENT:
        return dict(prices)  # as they were written
    return {name: dollars.format_plain(_add(money.price_nanos(price))) for name, price in prices.items()}


def _add(nanos: int) -> int:
    hundredths = 10_000 + int(settings.MARKUP_PERCENT * 100)  # the setting has at most two decimals
    return -(-nanos * hundredths // 10_000)
