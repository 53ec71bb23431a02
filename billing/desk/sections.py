"""Billing's sections of an account's page: its open holds, the ledger, the members, alerts and the acts of staff."""

from typing import Any

from django.http import HttpRequest
from django.urls import reverse

from billing import staff_permissions
from billing.alerts import summaries as alerts
from billing.ledger import credits, reading, statement, writer
from billing.models import Account, Hold, LedgerEntry, User
from gateway_project.activity import log
from gateway_project.desk.panels import Section
from gateway_project.text import dollars

HOLDS_SHOWN = 10
ENTRIES_SHOWN = 10
MEMBERS_SHOWN = 20
ACTS_SHOWN = 10
ALERTS_SHOWN = 10


def _holds(request: HttpRequest, account: Account) -> dict[str, Any]:
    open_holds = account.holds.filter(state=Hold.State.HELD).order_by("created_at")
    return {"holds": list(open_holds[:HOLDS_SHOWN]), "count": account.open_holds}


def _ledger(request: HttpRequest, account: Account) -> dict[str, Any]:
    entries = reading.read_page(account, limit=ENTRIES_SHOWN, offset=0)
    emails = dict(User.objects.filter(pk__in={entry.issued_by_id for entry in entries}).values_list("pk", "email"))
    may_act = staff_permissions.may_credit(staff_permissions.staff_of(request), account)
    may_correct = may_act and request.user.has_perm("billing.correct_credit")
    may_refund = may_act and request.user.has_perm("billing.refund_purchase")
    references = {entry.reference for entry in entries}  # a correction is newer than its credit, so it is among them
    return {
        "rows": [
            {
                **statement.format_entry(entry, issued_by=emails.get(entry.issued_by_id or 0, "")),
                "completion": entry.reference if entry.type == LedgerEntry.Type.USAGE_DEBIT else "",
                "of_entry": entry.metadata.get("entryId", ""),
                "may_correct": may_correct and credits.is_credit(entry) and f"{writer.CORRECTION}{entry.pk}" not in references,
                "may_refund": may_refund and entry.type == LedgerEntry.Type.CREDIT_PURCHASE,
            }
            for entry in entries
        ],
        "count": account.last_seq,
    }


def _members(request: HttpRequest, account: Account) -> dict[str, Any]:
    return {"members": list(account.memberships.select_related("user").order_by("user__email")[:MEMBERS_SHOWN])}


def _alerts(request: HttpRequest, account: Account) -> dict[str, Any]:
    return {
        "factor": account.unusual_hour_factor,
        "threshold": dollars.format_usd(account.warning_threshold_nanos) if account.warning_threshold_nanos else "",
        "endpoints": [(each, alerts.describe_state(each)) for each in account.webhook_endpoints.order_by("pk")],
        "alerts": alerts.read_alerts(account, alerts.alerts_of(account)[:ALERTS_SHOWN]),
    }


def _acts(request: HttpRequest, account: Account) -> dict[str, Any]:
    of_account = log.readable(request.user).filter(account_id=account.pk)
    shown = of_account.order_by("-id").select_related("actor")[:ACTS_SHOWN]
    every = f"{reverse('admin:activity_activity_changelist')}?account_id={account.pk}"
    return {"acts": list(shown), "every": every}


_TEMPLATES = "admin/billing/account"
SECTIONS = [
    Section(20, "holds", "Running requests", "billing.view_hold", f"{_TEMPLATES}/holds.html", _holds),
    Section(50, "entries", "Ledger", "billing.view_ledgerentry", f"{_TEMPLATES}/entries.html", _ledger),
    Section(70, "members", "Members", "billing.view_account", f"{_TEMPLATES}/members.html", _members),
    Section(75, "alerts", "Alerts", "billing.view_accountwarning", f"{_TEMPLATES}/alerts.html", _alerts),
    Section(80, "acts", "Activity of staff and owners", "activity.view_activity", f"{_TEMPLATES}/acts.html", _acts),
]
