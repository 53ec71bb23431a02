"""How pages show an amount: rounded, with the exact one on hover, keyboard focus and tap, without scripts.

An amount whose digits are all shown takes no focus, so that the keyboard stops only where there is more to read.
"""

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from gateway_project.text import dollars

register = template.Library()


@register.filter
def usd(amount_nanos: int, sign: str = "") -> SafeString:
    """Show what something costs or moves, rounded to cents, below a cent to six decimals. ``sign`` stands before a credit."""
    return _show(dollars.format_usd(amount_nanos), sign + dollars.format_rounded_usd(amount_nanos))


@register.filter
def unrounded_usd(amount_millionths: int) -> SafeString:
    """Show a part of a charge before its rounding, in millionths of a nanodollar."""
    return _show(
        dollars.format_unrounded_usd(amount_millionths), dollars.format_rounded_usd(-(-amount_millionths // 1_000_000))
    )


@register.filter
def balance_usd(amount_nanos: int) -> SafeString:
    """Show what there is, rounded down to cents, as the API reports balances."""
    return _show(dollars.format_usd(amount_nanos), dollars.format_floored_usd(amount_nanos))


@register.filter
def left_usd(amount_nanos: int) -> SafeString:
    """Show what is left to spend, rounded down to cents, below a cent to six decimals."""
    return _show(dollars.format_usd(amount_nanos), dollars.format_left_usd(amount_nanos))


@register.filter
def rounded_usd(amount_nanos: int) -> str:
    """Return the rounded amount as plain text, for the axes of plots."""
    return dollars.format_rounded_usd(amount_nanos)


@register.filter
def exact_usd(amount_nanos: int) -> str:
    """Return the exact amount as plain text, for titles of plots."""
    return dollars.format_usd(amount_nanos)


def _show(exact: str, rounded: str) -> SafeString:
    plain = exact.replace("$", "").replace(",", "")
    decimals = len(rounded.rpartition(".")[2])
    if rounded.endswith(exact):
        return format_html('<data class="usd usd-{}" value="{}">{}</data>', decimals, plain, rounded)
    note = format_html('<span class="usd-exact"> exactly {}</span>', exact)
    return format_html('<data class="usd usd-{}" value="{}" tabindex="0">{}{}</data>', decimals, plain, rounded, note)
