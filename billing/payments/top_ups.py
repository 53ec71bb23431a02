"""Automatic top-ups: buys credit with a kept card when an account runs low.

One attempt is under way at a time. The rule names it, and changes only under the lock of its account. An attempt is a payment,
and its id is the idempotency key: when an answer is lost, the same charge is requested again, and the card is charged once.
``stops`` has the causes for which the attempts stop: members are told once, and must act.
"""

import logging
import time
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q, QuerySet

from billing import locks
from billing.models import Account, AccountAlert, Payment, TopUpRule
from billing.payments import booking, stops
from billing.payments.processor import Card, Declined, Processor, ProcessorUnavailable
from billing.payments.stops import Cause
from gateway_project.db import pool
from gateway_project.text import dollars

logger = logging.getLogger("gateway.payments")

PAUSES = (timedelta(hours=1), timedelta(hours=6), timedelta(hours=24))  # after the first decline, the second, and so on
ASKED_AGAIN_TIME = timedelta(hours=20)  # a processor knows an idempotency key for a day
RUN_SECONDS_MAX = 45  # then a run begins no attempt: the next run is due, and must not wait beside this one

_WAITING = (Payment.Status.OPEN, Payment.Status.PROCESSING)


def run(processor: Processor) -> int:
    """Continue what is under way, and begin what is due. Return how many attempts were made.

    A processor that does not answer takes a minute for each account: the next run continues, in another random order.
    """
    made, ends_at = 0, time.monotonic() + RUN_SECONDS_MAX
    for account_id in list(_due(processor).order_by("?").values_list("account_id", flat=True)):
        payment = _begin(processor, account_id)
        if payment is not None:
            made += 1
            _attempt(processor, account_id, payment)
        if time.monotonic() >= ends_at:
            break
    return made


def _due(processor: Processor) -> QuerySet[TopUpRule]:
    """Return the rules that may have something to do: an attempt under way, or less available than their threshold."""
    is_time = Q(next_try_at=None) | Q(next_try_at__lte=pool.database_time())
    is_due = Q(is_on=True, is_low=True, stop="") & is_time
    rules = stops.annotate(TopUpRule.objects.filter(processor=processor.name), processor)
    return rules.filter(Q(attempt__isnull=False) | is_due)


def _begin(processor: Processor, account_id: UUID) -> Payment | None:
    """Return the attempt that is under way, or write a new one; None if nothing is due."""
    with transaction.atomic():
        account = locks.lock_account(account_id)
        rule = _due(processor).filter(account=account).select_related("attempt").first()
        if rule is None or rule.attempt:
            return rule.attempt if rule else None
        payment = booking.begin(None, account, processor, rule.amount_cents, "an automatic top-up")
        TopUpRule.objects.filter(pk=rule.pk).update(attempt=payment)
        return payment


def _attempt(processor: Processor, account_id: UUID, payment: Payment) -> None:
    """Charge the card, or ask what became of a charge. Without an answer the attempt stays under way for the next run.

    A repeated request makes the charge, if the processor never got the first one. So it is not repeated after the rule was
    turned off or stopped. If the first request did charge the card, an event or the daily comparison credits the payment.
    """
    rule = TopUpRule.objects.get(pk=account_id)
    try:
        if payment.status in _WAITING and payment.intent_id:
            booking.bring_up_to_date(processor, payment.pk)
        elif payment.status in _WAITING and not _is_forgotten(payment) and _is_allowed(rule, processor):
            booking.book(payment, processor.charge(payment, Card(rule.customer_id, rule.method_id, rule.card)))
    except Declined as declined:
        _finish(account_id, payment, declined)
    except (ProcessorUnavailable, booking.ReportOutdated) as error:
        logger.warning("the top-up %s has no answer yet: %s", payment.pk, error)
    else:
        _finish(account_id, payment, None)


def _is_allowed(rule: TopUpRule, processor: Processor) -> bool:
    found = stops.annotate(TopUpRule.objects.filter(pk=rule.pk, is_on=True), processor)
    return found.filter(stop__in=("", *stops.PAUSING)).exists()


def _is_forgotten(payment: Payment) -> bool:
    """Say whether the charge may have been lost so long ago that asking again would be another charge."""
    return pool.database_time() - payment.created_at > ASKED_AGAIN_TIME


def find_rule(account: Account, processor: Processor | None) -> TopUpRule | None:
    return stops.annotate(TopUpRule.objects.filter(account=account), processor).first()


def has_working_card(rule: TopUpRule) -> bool:
    """Say of an annotated rule whether it needs no other payment by a member."""
    stop = stops.describe(rule)
    return rule.is_on and not (stop and stop.needs_card)


def summarize(rule: TopUpRule | None) -> dict[str, Any] | None:
    """Return an annotated rule as plain values for a page, or None if there is none that was ever on."""
    if rule is None or not rule.method_id:
        return None
    left_cents: int = rule.month_left_cents  # type: ignore[attr-defined]
    last = Payment.objects.filter(account_id=rule.pk, created_by=None).order_by("-id").first() if rule.next_try_at else None
    return {
        "is_on": rule.is_on,
        "has_card": has_working_card(rule),
        "threshold": dollars.format_cents(rule.threshold_cents),
        "amount": dollars.format_cents(rule.amount_cents),
        "month_max": dollars.format_cents(rule.month_cents_max),
        "left": dollars.format_cents(max(left_cents, 0)),
        "is_used_up": left_cents < rule.amount_cents,
        "card": rule.card,
        "stop": stops.describe(rule),
        "next_try_at": rule.next_try_at,
        "last_failure": last.failure if last else "",
    }


def tell(processor: Processor | None) -> int:
    """Warn the members of each account whose rule is stopped, once for each stop. Return how many were told."""
    return sum(_tell(processor, each) for each in list(_untold(processor).values_list("account_id", flat=True)))


def _untold(processor: Processor | None) -> QuerySet[TopUpRule]:
    """Return the rules whose members do not know what stops them, or that it is over; not the end of a pause, which recurs."""
    rules = stops.annotate(TopUpRule.objects.filter(is_on=True), processor).exclude(stop=F("stop_told"))
    return rules.exclude(stop="", stop_told__in=stops.PAUSING)


def _tell(processor: Processor | None, account_id: UUID) -> bool:
    with transaction.atomic():
        account = locks.lock_account(account_id)
        rule = _untold(processor).filter(account=account).first()
        if rule is None:
            return False
        stop = stops.describe(rule)
        TopUpRule.objects.filter(pk=rule.pk).update(stop_told=stop.cause if stop else "")
        if stop:
            data = {"cause": stop.cause, "reason": stop.why, "advice": stop.advice, "needs_payer": stop.cause == Cause.CONFIRM}
            AccountAlert.objects.create(account=account, kind=AccountAlert.Kind.TOP_UP_STOPPED, data=data)
    return stop is not None


def _finish(account_id: UUID, payment: Payment, declined: Declined | None) -> None:
    """End the attempt if it is over, and decide on the next one."""
    with transaction.atomic():
        locks.lock_account(account_id)
        payment = locks.lock_payment(payment.pk)
        rule = TopUpRule.objects.get(pk=account_id)
        if rule.attempt_id != payment.pk:
            return
        if payment.status in _WAITING and (declined or (not payment.intent_id and _is_forgotten(payment))):
            payment.status = Payment.Status.FAILED
            payment.failure = str(declined or "The payment processor did not answer.")[:300]
            payment.revision += 1
            payment.save(update_fields=["status", "failure", "revision"])
        if payment.status in _WAITING and not payment.refusal:
            return
        rule.attempt = None
        if payment.refusal:  # the card was charged: another attempt would charge it again
            rule.stopped_because, rule.stopped_by, rule.next_try_at = payment.refusal[:300], Cause.REFUSED, None
        elif payment.status == Payment.Status.PAID:
            rule.declines, rule.next_try_at, rule.stop_told = 0, None, ""
        else:
            _count_decline(rule, payment, declined)
        rule.save()


def _count_decline(rule: TopUpRule, payment: Payment, declined: Declined | None) -> None:
    rule.declines += 1
    reason = payment.failure or "The payment failed."
    is_last = rule.declines > len(PAUSES)
    if declined and (declined.is_final or declined.needs_payer) or is_last:
        cause = Cause.UNANSWERED
        if declined:
            cause = Cause.CONFIRM if declined.needs_payer else Cause.DECLINED
        rule.stopped_because, rule.stopped_by, rule.next_try_at = reason, cause, None
    else:
        rule.next_try_at = pool.database_time() + PAUSES[rule.declines - 1]
    logger.warning("the top-up %s was declined (%d in a row): %s", payment.pk, rule.declines, reason)
