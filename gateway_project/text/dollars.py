"""How an amount in nanodollars is written in US dollars, and read as people type it. No other module does either.

Amounts are whole nanodollars (1e-9 US dollar). Programs, files and receipts get exact amounts. Pages round them: what stands
together has as many decimals, and sums add up as they are shown.
"""

import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from gateway_project.text import compact_json

NANOS_PER_DOLLAR = 1_000_000_000
_CENT_NANOS = NANOS_PER_DOLLAR // 100
_DIGITS_BELOW_A_DOLLAR = 4  # that count: "$0.01382", "$0.0001950"
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


def format_per_one(amount_nanos: int, number: int) -> str:
    """The exact amount for one of what costs so much for a number of them: "0.000003"; for programs."""
    return f"{(Decimal(amount_nanos) / (NANOS_PER_DOLLAR * number)).normalize():f}"


def format_usd(amount_nanos: int, decimals_min: int = 2) -> str:
    """The exact amount for people: "$10.00", "-$1,234.000195"."""
    sign = "-" if amount_nanos < 0 else ""
    whole, fraction = divmod(abs(amount_nanos), NANOS_PER_DOLLAR)
    return f"{sign}${whole:,}.{_decimals(fraction, decimals_min)}"


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


class Amount(NamedTuple):
    """An amount as a page shows it, and exactly."""

    shown: str
    exact: str


def decimals(amounts_nanos: Iterable[int]) -> int:
    """Return how many decimals a column of these amounts has: cents, and four digits that count of each below a dollar."""
    return max(map(_decimals_of, amounts_nanos), default=2)


def _decimals_of(amount_nanos: int) -> int:
    if not 0 < abs(amount_nanos) < NANOS_PER_DOLLAR:
        return 2
    enough = 9 - len(str(abs(amount_nanos))) + _DIGITS_BELOW_A_DOLLAR
    return max(2, min(enough, exact_decimals([amount_nanos])))


def exact_decimals(amounts_nanos: Iterable[int]) -> int:
    """Return how many decimals a column of these amounts has that rounds none of them."""
    return max((len(_decimals(abs(nanos) % NANOS_PER_DOLLAR)) for nanos in amounts_nanos), default=2)


def show(amount_nanos: int, decimals_shown: int | None = None) -> Amount:
    """Show what something costs or moves. A half is rounded away from nothing, as a debit is the cost with another sign."""
    step_nanos, decimals_shown = _step(amount_nanos, decimals_shown)
    return Amount(format_usd(_round(amount_nanos, step_nanos), decimals_shown), format_usd(amount_nanos))


def show_column(amounts_nanos: Sequence[int], *, is_floored: bool = False) -> list[Amount]:
    decimals_shown = decimals(amounts_nanos)
    return [(show_floored if is_floored else show)(nanos, decimals_shown) for nanos in amounts_nanos]


def show_floored(amount_nanos: int, decimals_shown: int | None = None) -> Amount:
    """Show what there is, rounded down: no more than can be spent."""
    step_nanos, decimals_shown = _step(amount_nanos, decimals_shown)
    return Amount(format_usd(amount_nanos // step_nanos * step_nanos, decimals_shown), format_usd(amount_nanos))


def show_entry(amount_nanos: int, balance_after_nanos: int, decimals_shown: int) -> tuple[Amount, Amount]:
    """Show the amount of an entry and the balance after it: as in the API, the amount is what changes in the balance shown."""
    step_nanos, _ = _step(amount_nanos, decimals_shown)
    after, before = balance_after_nanos // step_nanos, (balance_after_nanos - amount_nanos) // step_nanos
    shown = format_usd((after - before) * step_nanos, decimals_shown)
    return Amount(shown, format_usd(amount_nanos)), show_floored(balance_after_nanos, decimals_shown)


def show_parts(parts_nanos: Sequence[int], decimals_shown: int | None = None, *, is_floored: bool = False) -> list[Amount]:
    """Show the parts of a sum so that they add up to the sum as it is shown; ``is_floored`` as a balance."""
    if decimals_shown is None:
        decimals_shown = decimals([sum(parts_nanos), *parts_nanos])
    rounded = zip(round_parts(parts_nanos, decimals_shown, is_floored=is_floored), parts_nanos, strict=True)
    return [Amount(format_usd(shown_nanos, decimals_shown), format_usd(nanos)) for shown_nanos, nanos in rounded]


def round_parts(parts_nanos: Sequence[int], decimals_shown: int, *, is_floored: bool = False) -> list[int]:
    """Round the parts of a sum so that they add up to the rounded sum."""
    whole_nanos = sum(parts_nanos)
    step_nanos, _ = _step(whole_nanos, decimals_shown)
    whole_steps = (whole_nanos if is_floored else _round(whole_nanos, step_nanos)) // step_nanos
    return [steps * step_nanos for steps in apportion(parts_nanos, step_nanos, whole_steps)]


def apportion(parts: Sequence[int], divisor: int, whole: int) -> list[int]:
    """Return each part divided by ``divisor`` and rounded, the largest remainders upwards, so that all add up to ``whole``."""
    quotients = [part // divisor for part in parts]
    by_remainder = sorted(range(len(parts)), key=lambda place: -(parts[place] % divisor))
    for place in by_remainder[: whole - sum(quotients)]:
        quotients[place] += 1
    return quotients


def format_exact_column(amounts_nanos: Sequence[int]) -> list[str]:
    """Return the exact amounts of a column, with one number of decimals."""
    decimals_shown = exact_decimals(amounts_nanos)
    return [format_usd(nanos, decimals_shown) for nanos in amounts_nanos]


def _step(amount_nanos: int, decimals_shown: int | None) -> tuple[int, int]:
    decimals_shown = _decimals_of(amount_nanos) if decimals_shown is None else decimals_shown
    return 10 ** (9 - decimals_shown), decimals_shown


def _round(amount_nanos: int, step_nanos: int) -> int:
    rounded_nanos = (abs(amount_nanos) + step_nanos // 2) // step_nanos * step_nanos
    return rounded_nanos if amount_nanos > 0 else -rounded_nanos


def format_unrounded_usd(amount_millionths: int) -> str:
    """The exact amount of a part of a charge, before its rounding, in millionths of a nanodollar: "$0.0000001875"."""
    whole, fraction = divmod(amount_millionths, NANOS_PER_DOLLAR * 1_000_000)
    return f"${whole:,}." + f"{fraction:015d}".rstrip("0").ljust(2, "0")


def format_computed_usd(amount_dollars: float) -> str:
    """A result of float arithmetic for people, rounded to six decimals: "$0.15"."""
    return format_usd(int(round(Decimal(amount_dollars), 6) * NANOS_PER_DOLLAR))


def _decimals(fraction_nanos: int, decimals_min: int = 2) -> str:
    return f"{fraction_nanos:09d}".rstrip("0").ljust(decimals_min, "0")
