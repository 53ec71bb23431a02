"""The tax that a payment includes, kept with the payment when it is paid. Pure, but for the settings."""

from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal

from django.conf import settings

from billing.models import Payment
from gateway_project.text import dollars


@dataclass(frozen=True)
class Tax:
    """The tax within a payment, in words: what it is called with its rate, its amount, and the amount without it."""

    name: str
    amount: str
    net: str


def describe_rate() -> dict[str, str]:
    """Return the rate of today as a payment keeps it; empty if there is none."""
    return {"tax_name": settings.TAX_NAME, "tax_percent": str(settings.TAX_PERCENT)} if settings.TAX_PERCENT else {}


def of(payment: Payment, since_cents: int = 0, until_cents: int | None = None) -> Tax | None:
    """Return the tax in the payment, or in the part between two amounts, with its sign, by the rate when it was paid."""
    percent = Decimal(payment.billed_to.get("tax_percent", 0))
    if not percent:
        return None
    until_cents = payment.amount_cents if until_cents is None else until_cents
    cents = included_cents(until_cents, percent) - included_cents(since_cents, percent)
    name = f"{payment.billed_to['tax_name']} {percent.normalize():f}%"
    return Tax(name, dollars.format_cents(cents), dollars.format_cents(until_cents - since_cents - cents))


def included_cents(amount_cents: int, percent: Decimal) -> int:
    """Return the tax within an amount that includes it, rounded to the nearest cent, half a cent upwards."""
    return int((amount_cents * percent / (100 + percent)).quantize(Decimal(1), ROUND_HALF_UP))
