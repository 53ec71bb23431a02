"""Deliveries of alerts to members and endpoints: their recipients, their order, and the outcome of each attempt.

Each delivery is a row. An attempt claims it by moving its next try ahead, in a short transaction, and has no transaction open
while a server answers. If its process dies, the next try comes when the claim is over: at least once, always with the same id.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q, QuerySet, Window
from django.db.models.functions import Now, RowNumber

from billing.accounts import roles
from billing.models import AccountAlert, AlertDelivery, EmailChoice, Membership, WebhookEndpoint
from billing.sign_in import mails
from gateway_project.activity import log
from gateway_project.db import pool
from gateway_project.web import hosts

State = AlertDelivery.State

# After the first failed attempt, the second, and so on; after the last one the delivery is given up.
PAUSES = (
    *(timedelta(seconds=10), timedelta(minutes=1), timedelta(minutes=5), timedelta(minutes=30)),
    *(timedelta(hours=2), timedelta(hours=5), timedelta(hours=10), timedelta(hours=24)),
)
CLAIM_TIME = timedelta(minutes=2)  # longer than an attempt takes
ATTEMPTS_KEPT = 20
TURNS = 4  # how many deliveries of an account are claimed at once
MAILS_A_DAY_MAX = 50  # of an account
MAILS_OF_RUNS_MAX = 20  # of these: an account may have thousands of runs, and other news matter more
TOLD_ONCE_TIME = timedelta(days=30)  # in which what changes of a model may be due again, so its alert is not deleted before
DISABLED_AFTER = timedelta(hours=24)  # without a success, when a delivery is given up

_CHOICES = {  # the field of EmailChoice that switches the mails of a kind off
    AccountAlert.Kind.PAYMENT_BOOKED: "receipts",
    AccountAlert.Kind.CREDIT_BOOKED: "credits",
    AccountAlert.Kind.CREDIT_TAKEN_BACK: "refunds",
    AccountAlert.Kind.PAYMENT_TAKEN_BACK: "refunds",
    AccountAlert.Kind.CHANGES_SUMMED: "changes",
}


@dataclass(frozen=True)
class Attempt:
    """The outcome of an attempt. ``reason`` is empty if it arrived; ``status`` is that of HTTP, if there was an answer."""

    milliseconds: int
    reason: str = ""
    status: int | None = None
    is_final: bool = False  # no further attempt can succeed
    is_ours: bool = False  # the receiver was not asked: nothing is said against it

    @property
    def has_arrived(self) -> bool:
        return not self.reason


# --- Who gets an alert -------------------------------------------------------------------------------------------


def prepare() -> None:
    """Write the deliveries of new alerts."""
    waiting = AccountAlert.objects.select_for_update(of=("self",), no_key=True, skip_locked=True).filter(prepared_at=None)
    are_more = True
    while are_more:
        with transaction.atomic():
            alerts = list(waiting.order_by("created_at")[:100])
            for alert in alerts:
                AlertDelivery.objects.bulk_create([*_webhooks(alert), *_mails(alert)])
            AccountAlert.objects.filter(pk__in=[each.pk for each in alerts]).update(prepared_at=Now())
        are_more = bool(alerts)


def _webhooks(alert: AccountAlert) -> Iterable[AlertDelivery]:
    if alert.kind in AccountAlert.NOTICES:
        return []
    endpoints = WebhookEndpoint.objects.filter(account_id=alert.account_id, is_paused=False)
    return [AlertDelivery(alert=alert, endpoint=each, next_try_at=alert.created_at) for each in endpoints]


def _mails(alert: AccountAlert) -> Iterable[AlertDelivery]:
    """Return one for each member who pays for the account, up to a number of mails in a day."""
    if not settings.SENDS_MAIL or alert.kind in (AccountAlert.Kind.TEST, *AccountAlert.SUMMED):
        return []
    choice = _CHOICES.get(AccountAlert.Kind(alert.kind))
    if choice and EmailChoice.objects.filter(account_id=alert.account_id, **{choice: False}).exists():
        return []
    emails = list(payers(alert).order_by("user__email").values_list("user__email", flat=True))
    day = Q(created_at__gt=alert.created_at - timedelta(days=1), alert__account_id=alert.account_id)
    sent = AlertDelivery.objects.filter(day).exclude(email="").count()
    left = max(MAILS_A_DAY_MAX - sent, 0)
    if alert.kind in AccountAlert.OF_RUNS:
        of_runs = AlertDelivery.objects.filter(day, alert__kind__in=AccountAlert.OF_RUNS).exclude(email="").count()
        left = min(left, max(MAILS_OF_RUNS_MAX - of_runs, 0))
    return [AlertDelivery(alert=alert, email=email, next_try_at=alert.created_at) for email in emails[:left]]


def payers(alert: AccountAlert) -> QuerySet[Membership]:
    may_pay = Membership.objects.filter(role__in=roles.that_may(roles.Permission.PAY), user__is_active=True)
    return may_pay.filter(account_id=alert.account_id)


# --- Whose turn it is ---------------------------------------------------------------------------------------------


def claim_webhooks(count_max: int) -> list[AlertDelivery]:
    """Claim due deliveries to endpoints, at most TURNS for each account. Endpoints that fail come last."""
    due = AlertDelivery.objects.filter(endpoint__is_paused=False)
    turn = Window(RowNumber(), partition_by=F("endpoint__account_id"), order_by=["next_try_at", "pk"])
    order = (F("endpoint__failing_since").asc(nulls_first=True), "turn", "next_try_at")
    return _claim(due.annotate(turn=turn).filter(turn__lte=TURNS).order_by(*order), count_max)


def claim_mails(count_max: int) -> list[AlertDelivery]:
    """Claim mails that are due."""
    return _claim(AlertDelivery.objects.filter(endpoint=None).order_by("next_try_at"), count_max)


def _claim(candidates: QuerySet[AlertDelivery], count_max: int) -> list[AlertDelivery]:
    with transaction.atomic():
        now = pool.database_time()
        is_due = Q(state=State.WAITING, next_try_at__lte=now)
        ids = list(candidates.filter(is_due).values_list("pk", flat=True)[:count_max])
        rows = AlertDelivery.objects.select_for_update(of=("self",), no_key=True, skip_locked=True)
        claimed = list(rows.filter(is_due, pk__in=ids).select_related("alert", "endpoint"))
        AlertDelivery.objects.filter(pk__in=[each.pk for each in claimed]).update(next_try_at=now + CLAIM_TIME)
    return claimed


# --- Outcomes of attempts -----------------------------------------------------------------------------------------


def record(delivery: AlertDelivery, attempt: Attempt) -> None:
    """Write the outcome of the attempt, and when the next one is due. Do nothing if the delivery has ended or was deleted."""
    with transaction.atomic():
        endpoint = WebhookEndpoint.objects.select_for_update(of=("self",)).filter(deliveries=delivery.pk).first()
        row = AlertDelivery.objects.select_for_update(no_key=True).filter(pk=delivery.pk, state=State.WAITING).first()
        if row is None:
            return
        now = pool.database_time()
        row.tries += 1
        facts = {"at": now.isoformat(), "status": attempt.status, "ms": attempt.milliseconds, "reason": attempt.reason[:200]}
        row.attempts = [*row.attempts, facts][-ATTEMPTS_KEPT:]
        if attempt.has_arrived:
            row.state, row.next_try_at = State.DELIVERED, None
        elif attempt.is_final or row.tries > len(PAUSES):
            row.state, row.next_try_at = State.DEAD, None
        else:
            row.next_try_at = now + PAUSES[row.tries - 1]
        row.save(update_fields=["tries", "attempts", "state", "next_try_at"])
        if endpoint and not attempt.is_ours:
            _judge(endpoint, row, attempt)


def _judge(endpoint: WebhookEndpoint, delivery: AlertDelivery, attempt: Attempt) -> None:
    """Note since when the endpoint fails. Pause one that is gone, or got nothing for DISABLED_AFTER, at a given-up delivery."""
    now = pool.database_time()
    endpoint.failing_since = None if attempt.has_arrived else endpoint.failing_since or now
    is_useless = endpoint.failing_since is not None and endpoint.failing_since <= now - DISABLED_AFTER
    if delivery.state == State.DEAD and not endpoint.is_paused and (attempt.is_final or is_useless):
        endpoint.is_paused, endpoint.disabled_at = True, now
        summary = f"Paused the webhook {endpoint}: nothing could be delivered to it."
        log.record(None, log.Act.ENDPOINT_CHANGED, endpoint, summary)
        managers = Membership.objects.filter(role__in=roles.that_may(roles.Permission.MANAGE_WEBHOOKS), user__is_active=True)
        link = hosts.mailed_page("alerts", "the Alerts page of your dashboard")
        context: dict[str, Any] = {"account": endpoint.account.name, "url": endpoint.url, "link": link}
        for email in managers.filter(account_id=endpoint.account_id).values_list("user__email", flat=True):
            mails.send_once_committed(email, "webhook_paused", reason=attempt.reason, **context)
    endpoint.save(update_fields=["failing_since", "is_paused", "disabled_at"])


def forget_old() -> int:
    """Delete alerts that are older than RETENTION_WARNING_DAYS, with their deliveries. Return how many."""
    now, kept = pool.database_time(), timedelta(days=settings.RETENTION_WARNING_DAYS)
    due_again = Q(kind__in=AccountAlert.SUMMED, created_at__gte=now - TOLD_ONCE_TIME)
    old: Any = AccountAlert.objects.filter(created_at__lt=now - kept).exclude(due_again)
    deleted = 0
    while ids := list(old.order_by("created_at").values_list("pk", flat=True)[:1_000]):
        AccountAlert.objects.filter(pk__in=ids).delete()
        deleted += len(ids)
    return deleted
