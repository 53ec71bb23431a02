"""Writes notices of entries that are not usage: payments, credits, and refunds or corrections of them. Payers get them by mail.

A notice is an alert that is only mailed. It is written later, from the ledger. So booking does no more work for it, and a
crash only delays it. A processor's refunds and disputes get no notice, because they are alerts already.
"""

from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet, TextField
from django.db.models.fields.json import KT
from django.db.models.functions import Cast

from billing import locks
from billing.ledger import writer
from billing.models import AccountAlert, LedgerEntry, Payment
from gateway_project import identifiers
from gateway_project.db import pool

ENTRY_AGE_MAX = timedelta(days=1)  # so that a gateway whose mail was off for long sends no notices of old entries
_BATCH = 100
_Kind = AccountAlert.Kind
_Type = LedgerEntry.Type


def write() -> int:
    """Write the notices of new entries. Return how many."""
    written = 0
    while settings.SENDS_MAIL and (entries := list(_find_without_notice()[:_BATCH])):
        written += sum(map(_write, entries))
    return written


def _find_without_notice() -> QuerySet[LedgerEntry]:
    """Return the entries that need a notice and have none, oldest first."""
    notices = AccountAlert.objects.filter(account_id=OuterRef("account_id"), kind__in=AccountAlert.NOTICES)
    has_notice = Exists(notices.annotate(entry_id=KT("data__entry_id")).filter(entry_id=Cast(OuterRef("pk"), TextField())))
    begin = identifiers.least_uuid7(pool.database_time() - ENTRY_AGE_MAX)
    entries = LedgerEntry.objects.exclude(type=_Type.USAGE_DEBIT).filter(~has_notice, pk__gte=begin).order_by("pk")
    by_processor = Q(type=_Type.REFUND_DEBIT, issued_by=None)
    return entries.exclude(by_processor).exclude(reference__startswith=writer.OVERCHARGE)


def _write(entry: LedgerEntry) -> bool:
    with transaction.atomic():
        locks.lock_account(entry.account_id)
        if not _find_without_notice().filter(pk=entry.pk).exists():
            return False
        kind = _Kind.CREDIT_TAKEN_BACK if entry.type == _Type.REFUND_DEBIT else _Kind.CREDIT_BOOKED
        if entry.type == _Type.CREDIT_PURCHASE and "reason" not in entry.metadata:  # which a refund that came back has
            kind = _Kind.PAYMENT_BOOKED
        payment = Payment.objects.filter(credit=entry).first()
        data = {
            "entry_id": str(entry.pk),
            "amount_nanos": abs(entry.amount_nanos),
            "balance_nanos": entry.balance_after_nanos,
            "reason": entry.metadata.get("reason", ""),
            "payment_id": str(payment.pk) if payment else "",
            "is_top_up": payment is not None and payment.created_by_id is None,
        }
        AccountAlert.objects.create(account_id=entry.account_id, kind=kind, data=data)
    return True
