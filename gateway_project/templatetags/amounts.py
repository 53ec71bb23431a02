"""How pages show an amount: rounded, with the exact one on hover, keyboard focus and tap, without scripts.

An amount whose digits are all shown takes no focus, so that the keyboard stops only where there is more to read.
"""

import itertools
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from django import template
from django.template.base import Variable, VariableDoesNotExist
from django.utils.html import format_html
from django.utils.safestring import SafeString

from gateway_project.text import dollars
from gateway_project.text.dollars import Amount

register = template.Library()


@register.filter
def usd(amount: Amount | int, decimals_shown: int | None = None) -> SafeString:
    """Show what something costs or moves, in nanodollars, or as ``dollars`` has rounded it."""
    shown, exact = dollars.show(amount, decimals_shown) if isinstance(amount, int) else amount
    plain = exact.replace("$", "").replace(",", "").removeprefix("+")
    if shown.rstrip("0") == exact.rstrip("0"):
        return format_html('<data class="usd" value="{}">{}</data>', plain, shown)
    note = format_html('<span class="usd-exact"> exactly {}</span>', exact)
    return format_html('<data class="usd" value="{}" tabindex="0">{}{}</data>', plain, shown, note)


@register.filter
def aligned(price: str) -> SafeString:
    """Show an exact price in a column where others have two digits below the cent: the points stand under each other."""
    return format_html('<span class="lacks-{}">{}</span>', max(price.find(".") + 5 - len(price), 0), price)


@register.filter
def with_sign(amount: Amount, sign: str) -> Amount:
    """Put a sign before an amount: of a credit, or of what is taken off."""
    return Amount(sign + amount.shown, sign + amount.exact)


@register.filter
def balance_usd(amount_nanos: int, decimals_shown: int | None = None) -> SafeString:
    """Show what there is, rounded down."""
    return usd(dollars.show_floored(amount_nanos, decimals_shown))


# As plain text; rounded for the axes of plots.
rounded_usd = register.filter("rounded_usd", lambda amount_nanos: dollars.show(amount_nanos).shown)
exact_usd = register.filter("exact_usd", dollars.format_usd)


@register.filter
def decimals(rows: Iterable[Any], path: str) -> int:
    """Return how many decimals show the amounts at ``path`` of each row, such as "used.cost_nanos", and their sum."""
    nanos = _amounts(rows, path)
    return dollars.decimals([*nanos, sum(nanos)])


@register.filter
def exact_decimals(rows: Iterable[Any], path: str) -> int:
    """Return how many decimals show all amounts at ``path`` exactly."""
    return dollars.exact_decimals(_amounts(rows, path))


@register.filter
def apportioned(rows: Sequence[Any], path: str) -> list[tuple[Any, Amount]]:
    """Return each row with its amount at ``path``, rounded so that they add up to their sum with as many ``decimals``."""
    return list(zip(rows, dollars.show_parts(_amounts(rows, path)), strict=True))


@register.filter
def as_entries(rows: Sequence[Any]) -> list[tuple[Any, Amount, Amount]]:
    """Return each row with the amount of its ledger entry and the balance after it, which agree as shown."""
    entries = [(row["entry"].amount_nanos, row["entry"].balance_after_nanos) for row in rows]
    shown = dollars.decimals(itertools.chain.from_iterable(entries))
    return [(row, *dollars.show_entry(*entry, shown)) for row, entry in zip(rows, entries, strict=True)]


def _amounts(rows: Iterable[Any], path: str) -> list[int]:
    found = []
    for row in rows:
        with suppress(VariableDoesNotExist):
            found.append(Variable(f"row.{path}").resolve({"row": row}))
    return [nanos for nanos in found if nanos is not None]
