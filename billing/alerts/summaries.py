"""Alerts, their deliveries and endpoints as plain values for pages. The number of queries does not depend on the rows."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet

from billing.alerts import payload
from billing.alerts.payload import Words
from billing.models import Account, AccountAlert, AlertDelivery, WebhookEndpoint
from gateway_project.text import web_addresses

PACE_DAYS = 7  # whole UTC days before today
PACE_DAYS_MIN = 3  # with spending: less says nothing of a pace
LASTS_DAYS_MAX = 365

_STATES = {"WAITING": ("Waiting", "waiting"), "DELIVERED": ("Delivered", "active"), "DEAD": ("Given up", "revoked")}


@dataclass(frozen=True)
class AttemptRow:
    """One attempt: its time, outcome and duration."""

    at: datetime
    words: str
    milliseconds: int


@dataclass(frozen=True)
class DeliveryRow:
    """One delivery. ``to`` is an email address or a host: a path may be a secret. ``kind`` is a class of the style sheet."""

    id: UUID
    to: str
    is_mail: bool
    state: str
    kind: str
    attempts: list[AttemptRow]
    next_try_at: datetime | None
    may_be_sent_again: bool


@dataclass(frozen=True)
class AlertRow:
    id: UUID
    at: datetime
    words: Words
    deliveries: list[DeliveryRow]


@dataclass(frozen=True)
class EndpointRow:
    """One endpoint. ``state`` is in words."""

    id: UUID
    url: str
    host: str
    state: str
    kind: str
    is_paused: bool
    failing_since: datetime | None
    disabled_at: datetime | None
    previous_until: datetime | None


def alerts_of(account: Account) -> QuerySet[AccountAlert]:
    """Return the account's alerts without notices, because bookings are in the statement."""
    return AccountAlert.objects.filter(account=account).exclude(kind__in=AccountAlert.NOTICES)


def read_alerts(account: Account, *, offset: int, limit: int) -> list[AlertRow]:
    """Return alerts, newest first, with their deliveries, also those of mails that sum them up. Two queries."""
    alerts = alerts_of(account).order_by("-created_at", "-pk")[offset : offset + limit]
    sums = AccountAlert.objects.filter(account=account, kind=AccountAlert.Kind.CHANGES_SUMMED)
    rows = AlertDelivery.objects.filter(Q(alert__in=alerts.values("pk")) | Q(alert__in=sums))
    by_alert: defaultdict[UUID, list[DeliveryRow]] = defaultdict(list)
    for row in rows.select_related("alert", "endpoint").order_by("created_at", "pk"):
        for id in row.alert.data.get("alert_ids", [str(row.alert_id)]):
            by_alert[UUID(id)].append(summarize_delivery(row))
    return [AlertRow(each.pk, each.created_at, payload.describe(each), by_alert[each.pk]) for each in alerts]


def describe_alert(alert: AccountAlert) -> Words:
    return payload.describe(alert)


def summarize_delivery(delivery: AlertDelivery) -> DeliveryRow:
    state, kind = _STATES[delivery.state]
    is_mail = delivery.endpoint_id is None
    return DeliveryRow(
        id=delivery.pk,
        to=delivery.email if delivery.endpoint is None else web_addresses.parse(delivery.endpoint.url).netloc,
        is_mail=is_mail,
        state=state,
        kind=kind,
        attempts=[_attempt(each) for each in reversed(delivery.attempts)],
        next_try_at=delivery.next_try_at,
        may_be_sent_again=not is_mail and delivery.state != AlertDelivery.State.WAITING,
    )


def _attempt(facts: dict[str, Any]) -> AttemptRow:
    words = facts["reason"] or (f"delivered, it answered {facts['status']}" if facts["status"] else "sent")
    return AttemptRow(datetime.fromisoformat(facts["at"]), words, facts["ms"])


def summarize_endpoint(endpoint: WebhookEndpoint, now: datetime) -> EndpointRow:
    state, kind = "Active", "active"
    if endpoint.disabled_at:
        state, kind = "Paused by us", "revoked"
    elif endpoint.is_paused:
        state, kind = "Paused", "paused"
    elif endpoint.failing_since:
        state, kind = "Failing", "revoked"
    return EndpointRow(
        id=endpoint.pk,
        url=endpoint.url,
        host=web_addresses.parse(endpoint.url).netloc,
        state=state,
        kind=kind,
        is_paused=endpoint.is_paused,
        failing_since=endpoint.failing_since,
        disabled_at=endpoint.disabled_at,
        previous_until=endpoint.previous_until if endpoint.previous_until and endpoint.previous_until > now else None,
    )


def describe_pace(balance_nanos: int, spent_nanos: Iterable[int]) -> str:
    """Return in words how long the balance lasts; empty if there is too little to continue."""
    match estimate_days(balance_nanos, spent_nanos):
        case None:
            return ""
        case 0:
            return "less than a day"
        case 1:
            return "1 day"
        case days if days > LASTS_DAYS_MAX:
            return "more than a year"
        case days:
            return f"{days} days"


def estimate_days(balance_nanos: int, spent_nanos: Iterable[int]) -> int | None:
    """Return for how many days the balance lasts at the pace of some whole days, of which this is what each spent.

    None if too few of them had any spending to call it a pace, or nothing is left. At most LASTS_DAYS_MAX + 1, which is longer.
    """
    days = list(spent_nanos)
    if balance_nanos <= 0 or sum(nanos > 0 for nanos in days) < PACE_DAYS_MIN:
        return None
    return min(balance_nanos * len(days) // sum(days), LASTS_DAYS_MAX + 1)
