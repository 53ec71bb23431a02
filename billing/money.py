"""Units of money, and every rounding there is.

Inside, money is whole nanodollars (1e-9 US dollar; 1 cent = 10,000,000). The API speaks whole cents: the floor of the exact
balance. An entry's cents are the difference of the floors around it, so the integers of a book add up, row by row, and
nobody is charged a rounding.
"""

from decimal import Decimal

from gateway_project import dollars

NANOS_PER_CENT = 10_000_000
TOKENS_PER_PRICE = 1_000_000  # prices are nanodollars per million tokens

NANOS_MAX = 2**63 - 1
CENTS_MAX = NANOS_MAX // NANOS_PER_CENT


def nanos(cents: int) -> int:
    """Cents to nanodollars, exactly."""
    return cents * NANOS_PER_CENT


def floor_cents(balance_nanos: int) -> int:
    """Whole cents in a balance, towards minus infinity: -1 nanodollar is -1 cent."""
    return balance_nanos // NANOS_PER_CENT


def entry_cents(*, amount_nanos: int, balance_after_nanos: int) -> int:
    """An entry's amount in cents, such that the cents before it plus these are the cents after it."""
    return floor_cents(balance_after_nanos) - floor_cents(balance_after_nanos - amount_nanos)


def round_up(price_times_tokens: int) -> int:
    """The one rounding of a charge: nanodollars per million tokens, times tokens, up to the next whole nanodollar."""
    return -(-price_times_tokens // TOKENS_PER_PRICE)


def price_nanos(dollars_per_million: str) -> int:
    """A price as its maker prints it, "0.0375" dollars per million tokens, in nanodollars per million tokens.

    Raises ValueError for what is not a finite, non-negative amount in whole nanodollars.
    """
    try:
        exact = Decimal(dollars_per_million) * dollars.NANOS_PER_DOLLAR
    except ArithmeticError:
        raise ValueError(f"{dollars_per_million!r} is not an amount of dollars") from None
    if not exact.is_finite() or exact < 0 or exact > NANOS_MAX // TOKENS_PER_PRICE or exact != exact.to_integral_value():
        raise ValueError(f"{dollars_per_million!r} is not a possible price in dollars per million tokens")
    return int(exact)
