"""The panels of billing on the admin's home page."""

from collections import Counter
from datetime import datetime, timedelta

from django.db.models import Count, Sum

from billing.ledger import reading
from billing.models import CreditRequest, LedgerEntry, PaymentDifference
from billing.staff import approvals
from gateway_project import identifiers
from gateway_project.db import everywhere
from gateway_project.desk.panels import Content, Panel, Row
from gateway_project.monitoring.models import TaskRun
from gateway_project.text import dollars

_DAY = timedelta(days=1)
_AUDIT_MAX_AGE = timedelta(days=1, hours=2)  # it runs once per day


def _credits(now: datetime) -> Content:
    beside_usage = LedgerEntry.objects.exclude(type=LedgerEntry.Type.USAGE_DEBIT)
    newest = beside_usage.filter(id__gte=identifiers.least_uuid7(now - _DAY))
    nanos, numbers = Counter[str](), Counter[str]()
    for title, (number, sum_nanos) in everywhere.gather(lambda: reading.add_up(newest.all()).items(), may_miss=True):
        nanos[title] += sum_nanos
        numbers[title] += number
    total_nanos = sum(nanos.values())
    total = dollars.show(total_nanos, dollars.decimals([total_nanos, *nanos.values()]))
    amounts = dollars.show_parts([nanos[title] for title in numbers])
    rows = [
        Row(f"{title} ({number:,})", amount.shown) for (title, number), amount in zip(numbers.items(), amounts, strict=True)
    ]
    return Content(total.shown, "in and out in the last 24 hours, excluding usage", exact=total.exact, rows=rows)


def _approvals(now: datetime) -> Content:
    sums = {"number": Count("id"), "cents": Sum("amount_cents")}
    cells = everywhere.run(lambda: approvals.waiting(CreditRequest).aggregate(**sums), may_miss=True)
    number, cents = sum(each["number"] for each in cells), sum(each["cents"] or 0 for each in cells)
    words = "credit waits for approval" if number == 1 else "credits wait for approval"
    of_all = f", of {dollars.format_cents(cents)} in total" if number else ""
    return Content(f"{number:,}", words + of_all, needs_attention=number > 0)


def _payments(now: datetime) -> Content:
    number = sum(everywhere.run(PaymentDifference.objects.filter(gone_at=None).count, may_miss=True))
    run = TaskRun.objects.filter(name="billing.tasks.reconcile_payments").first()
    words = (
        "payments differ from the processor's records"
        if run
        else "Not compared with the processor's records yet. This happens every day."
    )
    return Content(f"{number:,}", words, at=run.finished_at if run else None, needs_attention=number > 0)


def _audit(now: datetime) -> Content:
    run = TaskRun.objects.filter(name="billing.tasks.verify_ledger").first()
    if run is None:
        return Content("Never", "Not audited yet. The audit runs every day at 03:00 UTC.", needs_attention=True)
    is_old = now - run.finished_at > _AUDIT_MAX_AGE
    words = "Overdue: check that beat and a worker are running." if is_old else "The whole ledger was checked."
    if run.result:
        return Content(f"{run.result:,} findings", "See the audit's log.", at=run.finished_at, needs_attention=True)
    return Content("No findings", words, at=run.finished_at, needs_attention=is_old)


PANELS = [
    Panel(20, "credits", "Credits", "billing.ledgerentry", _credits, "?type__exact=SUPPORT_CREDIT"),
    Panel(25, "approvals", "Approvals", "billing.creditrequest", _approvals, "?state=waiting"),
    Panel(65, "payments", "Payments", "billing.paymentdifference", _payments, "?gone_at__isempty=1"),
    Panel(70, "audit", "Last ledger audit", "billing.ledgerentry", _audit),
]
