"""How an amount in nanodollars is written in US dollars, and read as people type it. No other module does either.

Amounts are whole nanodollars (1e-9 US dollar). Cents, roundings and prices are in ``billing.money``.
"""

import re
from decimal import Decimal
from typing import Any

from gateway_project.text import compact_json

NANOS_PER_DOLLAR = 1_000_000_000
_CENT_NANOS = NANOS_PER_DOLLAR // 100
# As much of the world writes it. After a comma come two digits: "1,200" is twelve hundred, and "1,5" may be a slip for it.
_WITH_COMMA = re.compile(r"\$?\s*(\d{1,18}|[1-9]\d{0,2}(?:\.\d{3}){1,5}),(\d{2})", re.ASCII)
_TYPED = re.compile(r"\$?\s*(\d{1,18}|[1-9]\d{0,2}(?:,\d{3}){1,5})(?:\.(\d{1,9}))?", re.ASCII)


def format_plain(amount_nanos: int) -> str:
    """The exact amount without a sign of the currency: "-0.000195", "10.00". At least two decimals; for programs and fields."""
    sign = "-" if amount_nanos < 0 else ""
    whole, fraction = divmod(abs(amount_nanos), NANOS_PER_DOLLAR)
    decimals = f"{fraction:09d}".rstrip("0").ljust(2, "0")  # as ``_decimals``, which every completion would call four times
    return f"{sign}{whole}.{decimals}"


def json_number(amount_nanos: int | None) -> Any:
    """Return the exact dollars as a value that ``compact_json.dumps`` writes as a number; None for None."""
    return None if amount_nanos is None else compact_json.number(format_plain(amount_nanos))


def format_usd(amount_nanos: int) -> str:
    """The exact amount for people: "$10.00", "-$1,234.000195"."""
    sign = "-" if amount_nanos < 0 else ""
    whole, fraction = divmod(abs(amount_nanos), NANOS_PER_DOLLAR)
    return f"{sign}${whole:,}.{_decimals(fraction)}"


def format_cents(amount_cents: int) -> str:
    return format_usd(amount_cents * _CENT_NANOS)


def read_usd(typed: str, *, decimals_max: int) -> int | None:
    """Return the nanodollars of an amount such as "12", "12.50", "12,50" or "$1,200"; None if it is not one."""
    if with_comma := _WITH_COMMA.fullmatch(typed):
        typed = f"{with_comma[1].replace('.', '')}.{with_comma[2]}"
    match = _TYPED.fullmatch(typed)
    if match is None or len(match[2] or "") > decimals_max:
        return None
    return int(match[1].replace(",", "")) * NANOS_PER_DOLLAR + int((match[2] or "").ljust(9, "0"))


def format_rounded_usd(amount_nanos: int) -> str:
    """The amount for people who ask how much it is: "$10.00", "-$1,234.00".

    Rounded to cents; less than a cent to six decimals, as many requests cost no more: "$0.000195". A half is rounded away from
    nothing, so that a cost and its debit show the same figure, and nothing is rounded to nothing: the least is "$0.000001".
    """
    step_nanos = _CENT_NANOS if abs(amount_nanos) >= _CENT_NANOS else NANOS_PER_DOLLAR // 1_000_000
    rounded_nanos = (abs(amount_nanos) + step_nanos // 2) // step_nanos * step_nanos
    if amount_nanos:
        rounded_nanos = max(rounded_nanos, step_nanos)
    return format_usd(rounded_nanos if amount_nanos > 0 else -rounded_nanos)


def format_floored_usd(amount_nanos: int) -> str:
    """The amount for people who ask how much there is, rounded down to cents, as the API reports balances: "$9.99"."""
    return format_usd(amount_nanos // _CENT_NANOS * _CENT_NANOS)


def format_left_usd(amount_nanos: int) -> str:
    """What is left of an amount, rounded down: to cents, below a cent to six decimals: "$9.99", "$0.009993"."""
    step_nanos = _CENT_NANOS if abs(amount_nanos) >= _CENT_NANOS else NANOS_PER_DOLLAR // 1_000_000
    return format_usd(amount_nanos // step_nanos * step_nanos)


def format_unrounded_usd(amount_millionths: int) -> str:
    """The exact amount of a part of a charge, before its rounding, in millionths of a nanodollar: "$0.0000001875"."""
    whole, fraction = divmod(amount_millionths, NANOS_PER_DOLLAR * 1_000_000)
    return f"${whole:,}." + f"{fraction:015d}".rstrip("0").ljust(2, "0")


def format_computed_usd(amount_dollars: float) -> str:
    """A result of float arithmetic for people, rounded to six decimals: "$0.15"."""
    return format_usd(int(round(Decimal(amount_dollars), 6) * NANOS_PER_DOLLAR))


def _decimals(fraction_nanos: int) -> str:
    return f"{fraction_nanos:09d}".rstrip("0").ljust(2, "0")
