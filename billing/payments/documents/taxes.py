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


def of(payment: Payment) -> Tax | None:
    """Return the tax that the payment includes, by the rate of the time when it was paid."""
    percent = Decimal(payment.billed_to.get("tax_percent", 0))
    if not percent:
        return None
    cents = included_cents(payment.amount_cents, percent)
    name = f"{payment.billed_to['tax_name']} {percent.normalize():f}%"
    return Tax(name, dollars.format_cents(cents), dollars.format_cents(payment.amount_cents - cents))


def of_part(payment: Payment, before_cents: int, cents: int) -> Tax | None:
    """Return the tax within a part that was taken back after others, with its sign: that of all parts is the payment's."""
    percent = Decimal(payment.billed_to.get("tax_percent", 0))
    whole = of(payment)
    if whole is None:
        return None
    tax_cents = included_cents(before_cents + cents, percent) - included_cents(before_cents, percent)
    return Tax(whole.name, dollars.format_cents(-tax_cents), dollars.format_cents(tax_cents - cents))


def included_cents(amount_cents: int, percent: Decimal) -> int:
    """Return the tax within an amount that includes it, rounded to the nearest cent, half a cent upwards."""
    return int((amount_cents * percent / (100 + percent)).quantize(Decimal(1), ROUND_HALF_UP))
