"""SUPPORT_CREDIT that staff issue: whom they may credit, and how much, each time and on each UTC day.

The caps bind superusers, too. An operator's command (``manage.py grant_credit``) is not capped.
"""

from datetime import UTC, datetime, time
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.db.models import Sum

from billing import ledger, locks, money, staff_permissions
from billing.ledger import BookedEntry
from billing.models import LedgerEntry, User
from gateway_project import dollars
from gateway_project.db import pool


class CreditRefused(Exception):
    """The person may not issue this credit. The message says why, to them."""


def issue(account_id: UUID, *, amount_cents: int, reason: str, reference: str, issued_by: User) -> BookedEntry:
    """Credit the account once for ``reference``, under a lock of the issuer: concurrent credits cannot exceed a cap together.

    Raises CreditRefused, ReferenceReused.
    """
    with transaction.atomic():
        locks.lock_users([issued_by.pk])
        booked = ledger.grant_support_credit(
            account_id, amount_cents=amount_cents, reason=reason, reference=reference, issued_by=issued_by
        )
        if booked.is_new:
            _require_allowed(booked.entry, issued_by)  # rolls the entry back
    return booked


def left_today_cents(issuer: User) -> int:
    """Return how much the person may still credit until midnight UTC, in all."""
    return _left_cents(issuer, pool.database_time())


def _require_allowed(entry: LedgerEntry, issuer: User) -> None:
    if not staff_permissions.may_credit(issuer, entry.account):
        raise CreditRefused("You are a member of this account. A colleague must credit it.")
    cap_nanos = money.nanos(settings.SUPPORT_CREDIT_CENTS_MAX)
    if entry.amount_nanos > cap_nanos:
        raise CreditRefused(f"The most is {dollars.format_usd(cap_nanos)}.")
    excess_cents = -_left_cents(issuer, entry.created_at)
    if excess_cents > 0:
        left_nanos = entry.amount_nanos - money.nanos(excess_cents)
        raise CreditRefused(f"You may credit {dollars.format_usd(max(left_nanos, 0))} more until midnight UTC.")


def _left_cents(issuer: User, moment: datetime) -> int:
    """Return the cap less what the person credited since the beginning of the day; negative when it is exceeded."""
    day_began = datetime.combine(moment.astimezone(UTC).date(), time.min, tzinfo=UTC)
    issued = LedgerEntry.objects.filter(
        issued_by=issuer, type=LedgerEntry.Type.SUPPORT_CREDIT, created_at__gte=day_began
    ).aggregate(nanos=Sum("amount_nanos"))
    return settings.SUPPORT_CREDIT_DAY_CENTS_MAX - money.floor_cents(issued["nanos"] or 0)
