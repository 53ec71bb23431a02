"""The panels of billing on the admin's home page."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from billing.ledger import reading
from billing.models import Account, CreditRequest, Hold, LedgerEntry, OwnerRequest, PaymentDifference, SecondFactorRequest
from billing.staff import approvals
from gateway_project import identifiers
from gateway_project.db import everywhere
from gateway_project.desk import panels
from gateway_project.desk.panels import Content, Panel
from gateway_project.monitoring.models import TaskRun
from gateway_project.text import dollars

_AUDIT_MAX_AGE = timedelta(days=1, hours=2)  # it runs once per day


def _credits(now: datetime) -> Content:
    sums = [_add_up(*window) for window in panels.windows(now)]
    totals, today = [sum(nanos for _, nanos in each.values()) for each in sums], sums[0]
    parts = dollars.show_parts([nanos for _, nanos in today.values()])
    shown = dollars.show_column(totals)
    rows = [
        panels.Row(f"{title} ({number:,})", part.shown) for (title, (number, _)), part in zip(today.items(), parts, strict=True)
    ]
    return panels.compare(
        totals, [each.shown for each in shown], words="in and out, without usage", exact=shown[0].exact, rows=rows
    )


def _add_up(since: datetime, until: datetime) -> dict[str, tuple[int, int]]:
    """Return the number and sum of entries beside usage, by their title."""
    entries = LedgerEntry.objects.exclude(type=LedgerEntry.Type.USAGE_DEBIT).filter(id__range=_ids(since, until))
    sums: dict[str, tuple[int, int]] = {}
    for title, (number, nanos) in everywhere.gather(lambda: reading.add_up(entries.all()).items(), may_miss=True):
        before, before_nanos = sums.get(title, (0, 0))
        sums[title] = (before + number, before_nanos + nanos)
    return sums


def _accounts(now: datetime) -> Content:
    made = [Account.objects.filter(id__range=_ids(*window)) for window in panels.windows(now)]
    return panels.compare([sum(everywhere.run(each.count, may_miss=True)) for each in made])


def _ids(since: datetime, until: datetime) -> tuple[UUID, UUID]:
    return identifiers.least_uuid7(since), identifiers.least_uuid7(until)


def _approvals(place: int, id: str, title: str, model: Any, one: str) -> Panel:
    """Return the panel of what waits for a second person. ``title`` names several, and ``one`` one."""

    def read(now: datetime) -> Content:
        rows = approvals.waiting(model, now).select_related("account")
        return panels.read_waiting(rows, "requested_at", f"{one} waits for approval", f"{title.lower()} wait for approval")

    return Panel(place, id, title, model._meta.label_lower, read, "?state=waiting")


def _payments(now: datetime) -> Content:
    of, differing = "from the processor's records", PaymentDifference.objects.filter(gone_at=None)
    found = panels.read_waiting(differing, "found_at", f"payment differs {of}", f"payments differ {of}")
    if TaskRun.objects.filter(name="billing.tasks.reconcile_payments").exists():
        return found
    return replace(found, words="payments differ. Not compared with the processor's records yet.")


def _holds(now: datetime) -> Content:
    overdue = Hold.objects.filter(state=Hold.State.HELD, expires_at__lt=now - timedelta(minutes=5))
    return panels.read_waiting(
        overdue, "expires_at", "hold has expired and is still open", "holds have expired and are still open"
    )


def _audit(now: datetime) -> Content:
    run = TaskRun.objects.filter(name="billing.tasks.verify_ledger").first()
    if run is None:
        return Content("Not audited yet.", "The audit runs every day at 03:00 UTC.", needs_attention=True)
    is_old = now - run.finished_at > _AUDIT_MAX_AGE
    words = "Overdue: check that beat and a worker are running." if is_old else "The whole ledger was checked."
    if run.result:
        return Content(f"{run.result:,} findings.", "See the audit's log.", at=run.finished_at, needs_attention=True)
    return Content("No findings.", words, at=run.finished_at, needs_attention=is_old)


PANELS = [
    Panel(20, "credits", "Credit added", "billing.ledgerentry", _credits, "?type__exact=SUPPORT_CREDIT"),
    Panel(22, "new-accounts", "New accounts", "billing.account", _accounts),
    _approvals(25, "approvals", "Credits", CreditRequest, "credit"),
    _approvals(26, "new-owners", "New owners", OwnerRequest, "new owner"),
    _approvals(27, "lost-phones", "Lost phones", SecondFactorRequest, "lost phone"),
    Panel(65, "payments", "Payments", "billing.paymentdifference", _payments, "?gone_at__isempty=1"),
    Panel(66, "holds", "Overdue holds", "billing.hold", _holds, "?state__exact=HELD"),
    Panel(70, "audit", "Last ledger audit", "billing.ledgerentry", _audit),
]
