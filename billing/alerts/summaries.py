"""Alerts, their deliveries and endpoints as plain values for pages. The number of queries does not depend on the rows."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet

from billing.alerts import payload
from billing.models import Account, AccountAlert, AlertDelivery, WebhookEndpoint

PACE_DAYS = 7  # whole UTC days before today
PACE_DAYS_MIN = 3  # with spending: less says nothing of a pace
LASTS_DAYS_MAX = 365

_STATES = {"WAITING": ("Waiting", "waiting"), "DELIVERED": ("Delivered", "active"), "DEAD": ("Given up", "revoked")}


def alerts_of(account: Account) -> QuerySet[AccountAlert]:
    """Return the account's alerts, newest first, without notices, because bookings are in the statement."""
    alerts = AccountAlert.objects.filter(account=account).exclude(kind__in=AccountAlert.NOTICES)
    return alerts.order_by("-created_at", "-pk")


def read_alerts(account: Account, alerts: Collection[AccountAlert]) -> list[dict[str, Any]]:
    """Return some of the account's alerts with their deliveries, also those of mails that sum them up. Two queries."""
    sums = AccountAlert.objects.filter(account=account, kind=AccountAlert.Kind.CHANGES_SUMMED)
    rows = AlertDelivery.objects.filter(Q(alert__in=list(alerts)) | Q(alert__in=sums))
    by_alert: defaultdict[UUID, list[dict[str, Any]]] = defaultdict(list)
    for row in rows.select_related("alert", "endpoint").order_by("created_at", "pk"):
        for id in row.alert.data.get("alert_ids", [str(row.alert_id)]):
            by_alert[UUID(id)].append(summarize_delivery(row))
    return [
        {
            **{"id": each.pk, "at": each.created_at, "words": payload.describe(each), "deliveries": by_alert[each.pk]},
            **{name: each.data.get(name) for name in ("key_id", "run")},
        }
        for each in alerts
    ]


def summarize_delivery(delivery: AlertDelivery) -> dict[str, Any]:
    """Return a delivery, "to" an email address or a host: a path may be a secret. Its "kind" is a class of the style sheet."""
    state, kind = _STATES[delivery.state]
    is_mail = delivery.endpoint_id is None
    return {
        "id": delivery.pk,
        "event": payload.message_id(delivery.alert),
        "to": delivery.email if delivery.endpoint is None else str(delivery.endpoint),
        "is_mail": is_mail,
        "state": state,
        "kind": kind,
        "attempts": [_attempt(each) for each in reversed(delivery.attempts)],
        "next_try_at": delivery.next_try_at,
        "may_be_sent_again": not is_mail and delivery.state != AlertDelivery.State.WAITING,
    }


def _attempt(facts: dict[str, Any]) -> dict[str, Any]:
    words = facts["reason"] or (f"delivered, it answered {facts['status']}" if facts["status"] else "sent")
    return {"at": datetime.fromisoformat(facts["at"]), "words": words, "milliseconds": facts["ms"]}


def describe_state(endpoint: WebhookEndpoint) -> tuple[str, str]:
    """Return the state in words, and its class of the style sheet."""
    if endpoint.disabled_at:
        return "Paused by us", "revoked"
    if endpoint.is_paused:
        return "Paused", "paused"
    if endpoint.failing_since:
        return "Failing", "revoked"
    return "Active", "active"


def describe_pace(balance_nanos: int, spent_nanos: Iterable[int]) -> str:
    """Return in words how long the balance lasts at the mean of these days; empty if too few of them had any spending."""
    days_nanos = list(spent_nanos)
    if balance_nanos <= 0 or sum(nanos > 0 for nanos in days_nanos) < PACE_DAYS_MIN:
        return ""
    days = balance_nanos * len(days_nanos) // sum(days_nanos)
    if days > LASTS_DAYS_MAX:
        return "more than a year"
    return {0: "less than a day", 1: "1 day"}.get(days, f"{days} days")
