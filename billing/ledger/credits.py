"""The rest of each credit of an account, and its credit notes. Credits are used first in, first out, whoever gave them.

The rest of the balance belongs to the newest credits. So this reads no entries of usage, of which there may be millions.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from django.db.models import Sum

from billing import money
from billing.ledger import writer
from billing.models import Account, LedgerEntry, Payment
from gateway_project import identifiers


@dataclass(frozen=True)
class Credit:
    """A credit, what was taken back of it by refunds and corrections, and what of the rest is not used."""

    entry: LedgerEntry
    returned_nanos: int
    unused_nanos: int
    is_corrected: bool

    @property
    def left_nanos(self) -> int:
        """The maximum that a refund or a correction may take back, used or not."""
        return self.entry.amount_nanos - self.returned_nanos

    @property
    def unused_cents(self) -> int:
        """The whole cents of it that are not used, and can be paid back."""
        return money.floor_cents(self.unused_nanos)

    @property
    def is_purchase(self) -> bool:
        return self.entry.type == LedgerEntry.Type.CREDIT_PURCHASE


@dataclass(frozen=True)
class CreditNote:
    """An entry that takes back a payment: ``cents``, after ``before_cents``. Below zero: what was taken back came back."""

    number: str
    entry: LedgerEntry
    payment: Payment
    cents: int
    before_cents: int

    @property
    def reason(self) -> str:
        return str(self.entry.metadata.get("reason", ""))


def is_credit(entry: LedgerEntry) -> bool:
    """Say whether the entry gave new money. A refund or an overcharge that came back belongs to the credits of that money."""
    is_returned = "entryId" in entry.metadata or entry.reference.startswith(writer.OVERCHARGE)
    return entry.amount_nanos > 0 and not is_returned


def is_corrected(credit: LedgerEntry) -> bool:
    return LedgerEntry.objects.filter(reference=f"{writer.CORRECTION}{credit.pk}").exists()


def read_beside_usage(account: Account) -> list[LedgerEntry]:
    """Return the account's entries but those of usage, oldest first. One query."""
    # Sorted here: with ORDER BY, PostgreSQL may prefer the index by seq, which has the usage, too.
    return sorted(account.entries.exclude(type=LedgerEntry.Type.USAGE_DEBIT), key=lambda entry: entry.seq)


def read_credits(account: Account) -> list[Credit]:
    """Return the account's credits, oldest first. One query. To decide by them, lock the account first."""
    entries = read_beside_usage(account)
    credits = [entry for entry in entries if is_credit(entry)]
    returned: Counter[str] = Counter()
    for entry in entries:  # refunds and corrections of a credit, and refunds that came back
        returned[entry.metadata.get("entryId", "")] -= entry.amount_nanos
    corrected = {entry.reference for entry in entries}
    unused = unused_parts([entry.amount_nanos - returned[str(entry.pk)] for entry in credits], account.balance_nanos)
    return [
        Credit(entry, returned[str(entry.pk)], part, f"{writer.CORRECTION}{entry.pk}" in corrected)
        for entry, part in zip(credits, unused, strict=True)
    ]


def taken_back_by_hand(credit: LedgerEntry) -> int:
    """Return the nanos of the credit that staff took back, and no processor."""
    entries = LedgerEntry.objects.filter(account_id=credit.account_id, type=LedgerEntry.Type.REFUND_DEBIT)
    by_hand = entries.filter(metadata__entryId=str(credit.pk), issued_by__isnull=False)
    return -int(by_hand.aggregate(nanos=Sum("amount_nanos", default=0))["nanos"])


def unused_parts(credited_nanos: Sequence[int], balance_nanos: int) -> list[int]:
    """Return how much of each credit, oldest first, is unused, if credits are used first in, first out. Pure."""
    parts: list[int] = []
    rest = max(balance_nanos, 0)
    for nanos in reversed(credited_nanos):
        parts.append(min(nanos, rest))
        rest -= parts[-1]
    return parts[::-1]


def read_notes(account: Account) -> list[CreditNote]:
    """Return the credit notes of the account, oldest first. Two queries.

    The ledger is append-only, so their numbers 1, 2, 3 ... have no gaps, and a note keeps its number, without a table.
    """
    of_credits = [each for each in read_beside_usage(account) if "entryId" in each.metadata]
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


def find_note(account: Account, number: str) -> CreditNote | None:
    return next((note for note in read_notes(account) if note.number == number.upper()), None)
