"""Payments as plain values for pages: amounts formatted, states in words."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from billing.ledger import credit_notes
from billing.models import Account, Payment
from gateway_project import identifiers
from gateway_project.text import dollars

_OVER = (Payment.Status.FAILED, Payment.Status.EXPIRED)


@dataclass(frozen=True)
class NoteSummary:
    """A credit note, with the amount by which it changes its invoice."""

    number: str
    amount: str
    at: datetime


@dataclass(frozen=True)
class PaymentSummary:
    """One payment. ``kind`` names its state for the style sheet."""

    id: str
    amount: str
    state: str
    kind: str
    explanation: str
    refusal: str  # of money that came, and is not credited
    created_at: datetime
    paid_at: datetime | None
    is_pending: bool
    is_paid: bool
    is_over: bool  # and was not paid
    page_url: str
    demo_url: str
    taken_back: str
    left: str
    notes: Sequence[NoteSummary]


def summarize(payment: Payment, notes: Sequence[NoteSummary] = ()) -> PaymentSummary:
    is_paid = payment.status == Payment.Status.PAID
    return PaymentSummary(
        id=str(payment.pk),
        amount=dollars.format_cents(payment.amount_cents),
        state=_state(payment),
        kind=_kind(payment),
        explanation=payment.failure,
        refusal=payment.refusal,
        created_at=payment.created_at,
        paid_at=payment.paid_at,
        is_pending=payment.status in (Payment.Status.OPEN, Payment.Status.PROCESSING) and not payment.refusal,
        is_paid=is_paid,
        is_over=payment.status in _OVER and not payment.refusal,
        page_url=payment.page_url if payment.status == Payment.Status.OPEN and not payment.refusal else "",
        demo_url=payment.page_url if payment.processor == "demo" else "",
        taken_back=dollars.format_cents(payment.debited_cents) if payment.debited_cents else "",
        left=dollars.format_cents(payment.amount_cents - payment.debited_cents),
        notes=notes,
    )


def notes_by_payment(account: Account) -> dict[str, list[NoteSummary]]:
    """Return the credit notes of the account by the ids of their payments."""
    notes: dict[str, list[NoteSummary]] = {}
    for each in credit_notes.read(account):
        summary = NoteSummary(each.number, dollars.format_cents(-each.cents), each.entry.created_at)
        notes.setdefault(str(each.payment.pk), []).append(summary)
    return notes


def receipt_number(payment: Payment) -> str:
    """Return the number of the receipt: of the account, and of the payment within it, without gaps."""
    return f"{identifiers.ending(payment.account_id)}-{payment.receipt_number:04d}"


def _state(payment: Payment) -> str:
    if payment.refusal:
        return "Not credited"
    if payment.status == Payment.Status.EXPIRED and payment.failure:  # which ``purchases`` writes
        return "Cancelled"
    if payment.status != Payment.Status.PAID or not payment.debited_cents:
        return payment.get_status_display()
    if payment.disputed_cents and payment.refunded_cents:
        return f"Refunded and disputed: {dollars.format_cents(payment.debited_cents)}"
    if payment.disputed_cents:
        return "Disputed at the bank"
    if payment.debited_cents == payment.amount_cents:
        return "Refunded"
    return f"{dollars.format_cents(payment.debited_cents)} refunded"


def _kind(payment: Payment) -> str:
    if payment.status == Payment.Status.PAID:
        return "expired" if payment.debited_cents else "active"
    return "revoked" if payment.status in _OVER or payment.refusal else "waiting"
