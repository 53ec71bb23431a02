"""Payments as plain values for pages: amounts formatted, states in words."""

from collections.abc import Sequence
from typing import Any

from billing.ledger import credits
from billing.models import Account, Payment
from gateway_project import identifiers
from gateway_project.text import dollars

Note = dict[str, Any]  # a credit note, with the amount by which it changes its invoice
_OVER = (Payment.Status.FAILED, Payment.Status.EXPIRED)


def summarize(payment: Payment, notes: Sequence[Note] = ()) -> dict[str, Any]:
    """Return one payment for a template. ``kind`` names its state for the style sheet."""
    is_paid, is_refused = payment.status == Payment.Status.PAID, bool(payment.refusal)
    kind = "revoked" if payment.status in _OVER or is_refused else "waiting"
    if is_paid:
        kind = "expired" if payment.debited_cents else "active"
    return {
        "id": str(payment.pk),
        "amount": dollars.format_cents(payment.amount_cents),
        "state": _state(payment),
        "kind": kind,
        "explanation": payment.failure,
        "refusal": payment.refusal,  # of money that came, and is not credited
        "created_at": payment.created_at,
        "paid_at": payment.paid_at,
        "is_pending": payment.status in (Payment.Status.OPEN, Payment.Status.PROCESSING) and not is_refused,
        "is_paid": is_paid,
        "page_url": open_page(payment),
        "demo_url": payment.page_url if payment.processor == "demo" else "",
        "taken_back": dollars.format_cents(payment.debited_cents) if payment.debited_cents else "",
        "left": dollars.format_cents(payment.amount_cents - payment.debited_cents),
        "notes": notes,
    }


def open_page(payment: Payment) -> str:
    """Return the processor's page of a payment that waits for its payer, or ''."""
    return payment.page_url if payment.status == Payment.Status.OPEN and not payment.refusal else ""


def is_over(payment: Payment) -> bool:
    """Say whether it ended and was not paid."""
    return payment.status in _OVER and not payment.refusal


def notes_by_payment(account: Account) -> dict[str, list[Note]]:
    notes: dict[str, list[Note]] = {}
    for each in credits.read_notes(account):
        note = {"number": each.number, "amount": dollars.format_cents(-each.cents), "at": each.entry.created_at}
        notes.setdefault(str(each.payment.pk), []).append(note)
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
