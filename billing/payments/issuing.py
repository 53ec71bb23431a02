"""Issues invoices and credit notes. A file is made when it is first asked for; its row then stays as it is, byte by byte."""

from collections.abc import Callable
from datetime import UTC, datetime

from django.conf import settings
from django.db import transaction

from billing import locks
from billing.ledger.credits import CreditNote
from billing.models import InvoiceFile, Payment
from billing.payments import booking, summaries
from billing.payments.documents import invoices, taxes
from billing.payments.documents.invoices import Invoice
from gateway_project.text import dollars


def invoice(payment: Payment) -> bytes:
    return _issue(payment, summaries.receipt_number(payment), _invoice)


def credit_note(note: CreditNote) -> bytes:
    return _issue(note.payment, note.number, lambda payment: _credit_note(note, payment))


def payer(payment: Payment) -> dict[str, str]:
    """Return whom the payment was billed to, or who pays today if the account had no billing details then."""
    return payment.billed_to if "name" in payment.billed_to else booking.describe_payer(payment.account)


def seller(payment: Payment) -> list[str]:
    return list(payment.billed_to.get("seller") or settings.SELLER_LINES)


def _issue(payment: Payment, number: str, write: Callable[[Payment], Invoice]) -> bytes:
    """Return the file with this number; write it if it was not asked for before."""
    kept = InvoiceFile.objects.filter(account_id=payment.account_id, number=number).first()
    if kept is None:
        with transaction.atomic():
            account = locks.lock_account(payment.account_id)
            kept = InvoiceFile.objects.filter(account=account, number=number).first() or InvoiceFile.objects.create(
                account=account, number=number, content=invoices.write(write(_fix_parties(payment)))
            )
    return bytes(kept.content)


def _fix_parties(payment: Payment) -> Payment:
    """Keep what the first file says about payer and seller. The account is locked."""
    locked = locks.lock_payment(payment.pk)
    name_alone = {"name": locked.account.name, "address": "", "tax_id": ""}
    locked.billed_to = {**locked.billed_to, **(payer(locked) or name_alone), "seller": seller(locked)}
    locked.save(update_fields=["billed_to"])
    return locked


def _invoice(payment: Payment) -> Invoice:
    assert payment.paid_at
    number = summaries.receipt_number(payment)
    facts = [("Paid", _day(payment.paid_at)), ("Payment ID", str(payment.pk))]
    return _document(payment, f"Invoice {number}", facts, payment.amount_cents, taxes.of(payment))


def _credit_note(note: CreditNote, payment: Payment) -> Invoice:
    assert payment.paid_at
    facts = [
        ("Date", _day(note.entry.created_at)),
        ("For invoice", f"{summaries.receipt_number(payment)} of {_day(payment.paid_at)}"),
        ("Reason", note.reason),
        ("Payment ID", str(payment.pk)),
    ]
    title = f"Credit note {note.number}" if note.cents > 0 else f"Reversal of a credit note {note.number}"
    return _document(payment, title, facts, -note.cents, taxes.of(payment, note.before_cents + note.cents, note.before_cents))


def _document(payment: Payment, title: str, facts: list[tuple[str, str]], cents: int, tax: taxes.Tax | None) -> Invoice:
    party, amount = payer(payment), dollars.format_cents(cents)
    customer = [party["name"], *party["address"].splitlines()]
    if party["tax_id"]:
        customer.append(f"Tax ID {party['tax_id']}")
    what = "Credit for the Model Gateway"
    rows = [(what, tax.net), (tax.name, tax.amount)] if tax else [(what, amount)]
    return Invoice(
        title=title,
        facts=facts,
        seller=seller(payment) or ["Model Gateway"],
        customer=customer,
        rows=[*rows, ("Total in US dollars", amount)],
        notes=[f"Questions? Write to {settings.SUPPORT_ADDRESS}."] if settings.SUPPORT_ADDRESS else [],
    )


def _day(at: datetime) -> str:
    return f"{at.astimezone(UTC):%d %b %Y}"
