"""Units of money, and every rounding of money. Pure.

Inside the gateway money is whole nanodollars (1e-9 US dollar; 1 cent = 10,000,000). The API reports whole cents: the exact
balance rounded down. The cents of an entry are the difference of the rounded balances around it, so that the reported cents
add up entry by entry, and no account is charged for a rounding.
"""

from decimal import Context

from gateway_project.text import ascii_numbers, dollars

NANOS_PER_CENT = 10_000_000
TOKENS_PER_PRICE = 1_000_000  # prices are nanodollars per million tokens
WHOLE = 10_000  # basis points of a price that is charged in full

_EXACT = Context(prec=200)  # rounds no number that can be read
NANOS_MAX = 2**63 - 1
CENTS_MAX = NANOS_MAX // NANOS_PER_CENT
PRICE_NANOS_MAX = NANOS_MAX // TOKENS_PER_PRICE


def nanos(cents: int) -> int:
    """Convert cents to nanodollars, exactly."""
    return cents * NANOS_PER_CENT


def floor_cents(balance_nanos: int) -> int:
    """Return the whole cents of a balance, rounded towards minus infinity: -1 nanodollar is -1 cent."""
    return balance_nanos // NANOS_PER_CENT


def ceil_cents(amount_nanos: int) -> int:
    """Return the whole cents that an amount takes, rounded up."""
    return -floor_cents(-amount_nanos)


def entry_cents(*, amount_nanos: int, balance_after_nanos: int) -> int:
    """Return an entry's amount in cents: the reported cents after it less those before it."""
    return floor_cents(balance_after_nanos) - floor_cents(balance_after_nanos - amount_nanos)


def round_up(price_times_tokens: int, basis_points: int = WHOLE) -> int:
    """Return the share of nanodollars per million tokens times tokens in nanodollars. The only rounding of a charge: up."""
    return -(-price_times_tokens * basis_points // (TOKENS_PER_PRICE * WHOLE))


def price_nanos(dollars_per_million: str) -> int:
    """Convert a price in dollars per million tokens, such as "0.0375", to nanodollars per million tokens.

    Raises ValueError if it is not in ASCII digits, without a sign and an exponent, or not whole nanodollars up to what fits.
    """
    try:
        exact = _EXACT.multiply(ascii_numbers.amount(dollars_per_million), dollars.NANOS_PER_DOLLAR)
    except ValueError:
        raise ValueError(f"{dollars_per_million!r} is not an amount of dollars") from None
    if exact > PRICE_NANOS_MAX or exact != exact.to_integral_value():
        raise ValueError(f"{dollars_per_million!r} is not a possible price in dollars per million tokens")
    return int(exact)
