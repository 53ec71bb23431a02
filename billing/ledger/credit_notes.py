"""Numbers the credit notes of an account: one for each entry that takes back a payment, or that returns what was taken back.

The ledger is append-only, so the numbers 1, 2, 3 ... have no gaps, and a note keeps its number, without a table.
"""

from dataclasses import dataclass

from billing import money
from billing.ledger import credits, writer
from billing.models import Account, LedgerEntry, Payment
from gateway_project import identifiers


@dataclass(frozen=True)
class CreditNote:
    """``cents`` were taken back of the payment, after ``before_cents``; below zero: they came back."""

    number: str
    entry: LedgerEntry
    payment: Payment
    cents: int
    before_cents: int

    @property
    def reason(self) -> str:
        return str(self.entry.metadata.get("reason", ""))


def read(account: Account) -> list[CreditNote]:
    """Return the credit notes of the account, oldest first. Two queries."""
    of_credits = [each for each in credits.read_beside_usage(account) if "entryId" in each.metadata]
    refunds = [each for each in of_credits if not each.reference.startswith(writer.CORRECTION)]
    paid = account.payments.filter(credit_id__in={each.metadata["entryId"] for each in refunds})
    payments = {str(each.credit_id): each for each in paid}
    notes: list[CreditNote] = []
    returned_nanos: dict[str, int] = {}
    for entry in refunds:
        if payment := payments.get(entry.metadata["entryId"]):
            before = returned_nanos.get(str(payment.pk), 0)
            returned_nanos[str(payment.pk)] = after = before - entry.amount_nanos
            cents = money.ceil_cents(after) - money.ceil_cents(before)  # so parts of cents add up, too
            number = f"{identifiers.ending(account.pk)}-C{len(notes) + 1:04d}"
            notes.append(CreditNote(number, entry, payment, cents, money.ceil_cents(before)))
    return notes


def find(account: Account, number: str) -> CreditNote | None:
    return next((note for note in read(account) if note.number == number.upper()), None)
