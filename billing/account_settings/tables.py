"""The tables of billing in an export: rows as they are read by people and programs, with amounts in dollars."""

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

from django.db.models import QuerySet

from billing.account_settings import activity
from billing.ledger import credits, reading
from billing.models import Account, BillingDetails
from gateway_project.db import newest_first
from gateway_project.text import dollars, timestamps

_ROWS_AT_ONCE = 500
Rows = Iterator[dict[str, Any]]  # each with the same names
Read = Callable[[Account], Rows]


def in_batches(rows: QuerySet[Any]) -> Iterator[Any]:
    """Return the rows, the newest first by their keys, a batch at a time. Between batches no connection is held."""
    return chain.from_iterable(newest_first.read_batches(rows.order_by("-pk"), _ROWS_AT_ONCE))


def _account(account: Account) -> Rows:
    details = BillingDetails.objects.filter(account=account).first() or BillingDetails()
    yield {
        "id": str(account.pk),
        "name": account.name,
        "openedAt": timestamps.iso_millis(account.created_at),
        "balanceInDollars": dollars.format_plain(account.balance_nanos),
        "billedTo": details.name,
        "address": details.address,
        "taxId": details.tax_id,
    }


def _members(account: Account) -> Rows:
    for each in in_batches(account.memberships.select_related("user")):
        yield {"email": each.user.email, "role": each.role, "joinedAt": timestamps.iso_millis(each.created_at)}


def _ledger(account: Account) -> Rows:
    for entry in chain.from_iterable(reading.read_batches(account)):
        yield {
            "seq": entry.seq,
            "id": str(entry.pk),
            "createdAt": timestamps.iso_millis(entry.created_at),
            "type": entry.type,
            "amountInDollars": dollars.format_plain(entry.amount_nanos),
            "balanceAfterInDollars": dollars.format_plain(entry.balance_after_nanos),
            "apiKey": entry.spender,
            "metadata": entry.metadata,
        }


def _payments(account: Account) -> Rows:
    for each in in_batches(account.payments.all()):
        yield {
            "id": str(each.pk),
            "createdAt": timestamps.iso_millis(each.created_at),
            "status": each.status,
            "refusal": each.refusal,
            "amountInCents": each.amount_cents,
            "takenBackInCents": each.debited_cents,
            "paidAt": timestamps.iso_millis(each.paid_at) if each.paid_at else None,
            "receiptNumber": each.receipt_number,
            "billedTo": each.billed_to,
        }


def _credit_notes(account: Account) -> Rows:
    for each in reversed(credits.read_notes(account)):
        yield {
            "number": each.number,
            "createdAt": timestamps.iso_millis(each.entry.created_at),
            "paymentId": str(each.payment.pk),
            "receiptNumber": each.payment.receipt_number,
            "amountInCents": -each.cents,
            "reason": each.reason,
        }


def _alerts(account: Account) -> Rows:
    for each in in_batches(account.alerts.all()):
        yield {"id": str(each.pk), "createdAt": timestamps.iso_millis(each.created_at), "kind": each.kind, "data": each.data}


TABLES: dict[str, Read] = {
    "account": _account,
    "members": _members,
    "ledger": _ledger,
    "payments": _payments,
    "credit_notes": _credit_notes,
    "alerts": _alerts,
    "activity": activity.read_all,
}
