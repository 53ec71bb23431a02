"""Automatic top-ups: buys credit with a kept card when an account runs low.

One attempt is under way at a time. The rule names it, and changes only under the lock of its account. An attempt is a payment,
and its id is the idempotency key: when an answer is lost, the same charge is requested again, and the card is charged once.
After each decline the next attempt waits longer. After the last decline, after a final one, or when the bank asks for the
payer, the attempts stop, and members get an email. They go on when a member acts.
"""

import logging
import time
from datetime import UTC, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet, Sum

from billing import locks, money
from billing.accounts import roles
from billing.accounts.roles import Permission
from billing.models import Account, AccountWarning, Membership, Payment, TopUpRule
from billing.payments import booking, cards, reports
from billing.payments.booking import ReportOutdated
from billing.payments.processor import Declined, Processor, ProcessorUnavailable
from billing.sign_in import mails
from gateway_project.activity import log
from gateway_project.activity.models import Activity
from gateway_project.cells import directory
from gateway_project.db import pool
from gateway_project.text import dollars
from gateway_project.web import hosts

logger = logging.getLogger("gateway.payments")

PAUSES = (timedelta(hours=1), timedelta(hours=6), timedelta(hours=24))  # after the first decline, the second, and so on
ASKED_AGAIN_TIME = timedelta(hours=20)  # a processor knows an idempotency key for a day
RUN_SECONDS_MAX = 45  # then a run begins no attempt: the next run is due, and must not wait beside this one

_WAITING = (Payment.Status.OPEN, Payment.Status.PROCESSING)


def run(processor: Processor) -> int:
    """Go on with what is under way, and begin what is due. Return how many attempts were made.

    A processor that does not answer takes a minute for each account. The run stops when its time is over, and the next run
    continues. The order is random, so that the same accounts do not come last each time.
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
    is_low = Q(account__balance_nanos__lt=F("threshold_cents") * money.NANOS_PER_CENT + F("account__held_nanos"))
    is_time = Q(next_try_at=None) | Q(next_try_at__lte=pool.database_time())
    return TopUpRule.objects.filter(Q(attempt__isnull=False) | (_may_charge() & is_low & is_time), processor=processor.name)


def _may_charge() -> Q:
    """Say of a rule whether its card may be charged: not after it was turned off or stopped, nor for a closed account.

    An account whose payments are disputed is not charged by itself any more, nor the card of someone who left the account.
    """
    disputed = Payment.objects.filter(account_id=OuterRef("account_id"), disputed_cents__gt=0)
    is_open = Q(is_on=True, stopped_because="", account__is_active=True)
    return is_open & Q(_gave_card_and_may_pay()) & ~Q(Exists(disputed))


def _gave_card_and_may_pay() -> Exists:
    may_pay = Membership.objects.filter(role__in=roles.that_may(Permission.PAY))
    return Exists(may_pay.filter(account_id=OuterRef("account_id"), user_id=OuterRef("set_by_id")))


def _begin(processor: Processor, account_id: UUID) -> Payment | None:
    """Return the attempt that is under way, or write a new one; None if nothing is due."""
    with transaction.atomic():
        account = locks.lock_account(account_id)
        rule = _due(processor).filter(account=account).select_related("attempt").first()
        if rule is None or rule.attempt:
            return rule.attempt if rule else None
        if left_cents(rule) < rule.amount_cents:
            return None
        payment = Payment.objects.create(
            account=account, amount_cents=rule.amount_cents, processor=processor.name, is_live=processor.is_live
        )
        directory.refer(directory.Kind.PAYMENT, payment.pk, account.pk)
        summary = f"Began an automatic top-up of {dollars.format_cents(rule.amount_cents)}."
        log.record(None, Activity.Act.PAYMENT_BEGUN, payment, summary, account_id=account.pk)
        TopUpRule.objects.filter(pk=rule.pk).update(attempt=payment)
    payment.refresh_from_db()
    return payment


def left_cents(rule: TopUpRule) -> int:
    """Return what automatic top-ups may still buy in this UTC month. What was not paid does not count."""
    month = pool.database_time().astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    bought = Payment.objects.filter(account_id=rule.pk, created_by=None, created_at__gte=month).exclude(
        status__in=(Payment.Status.FAILED, Payment.Status.EXPIRED)
    )
    return rule.month_cents_max - (bought.aggregate(cents=Sum("amount_cents"))["cents"] or 0)


def _attempt(processor: Processor, account_id: UUID, payment: Payment) -> None:
    """Charge the card, or ask what became of a charge. Without an answer the attempt stays under way for the next run.

    A repeated request makes the charge, if the processor never got the first one. So it is not repeated for a card that may no
    longer be charged. If the first request did charge that card, an event or the daily comparison credits the payment.
    """
    rule = TopUpRule.objects.get(pk=account_id)
    try:
        if payment.status in _WAITING and payment.intent_id:
            reports.bring_up_to_date(processor, payment.pk)
        elif payment.status in _WAITING and not _is_forgotten(payment) and _is_allowed(rule):
            booking.book(payment, processor.charge(payment, cards.card_of(rule)))
    except Declined as declined:
        _finish(account_id, payment, declined)
    except (ProcessorUnavailable, ReportOutdated) as error:
        logger.warning("the top-up %s has no answer yet: %s", payment.pk, error)
    else:
        _finish(account_id, payment, None)


def _is_allowed(rule: TopUpRule) -> bool:
    return TopUpRule.objects.filter(_may_charge(), pk=rule.pk).exists()


def _is_forgotten(payment: Payment) -> bool:
    """Say whether the charge may have been lost so long ago that asking again would be another charge."""
    return pool.database_time() - payment.created_at > ASKED_AGAIN_TIME


def has_working_card(rule: TopUpRule) -> bool:
    return rule.is_on and not _why_stopped(rule)


def _why_stopped(rule: TopUpRule) -> str:
    if rule.stopped_because or TopUpRule.objects.filter(Q(_gave_card_and_may_pay()), pk=rule.pk).exists():
        return rule.stopped_because
    return "The member who added the card can no longer pay for the account."


def summarize(rule: TopUpRule | None) -> dict[str, Any] | None:
    """Return the rule as plain values for a page, or None if there is none that was ever on."""
    if rule is None or not rule.method_id:
        return None
    month_left_cents = left_cents(rule)
    return {
        "is_on": rule.is_on,
        "has_card": has_working_card(rule),
        "threshold": dollars.format_cents(rule.threshold_cents),
        "amount": dollars.format_cents(rule.amount_cents),
        "month_max": dollars.format_cents(rule.month_cents_max),
        "left": dollars.format_cents(max(month_left_cents, 0)),
        "is_used_up": month_left_cents < rule.amount_cents,
        "card": rule.card,
        "stopped_because": _why_stopped(rule),
        "next_try_at": rule.next_try_at,
    }


# --- What an attempt came to --------------------------------------------------------------------------------------


def _finish(account_id: UUID, payment: Payment, declined: Declined | None) -> None:
    """End the attempt if it is over, and decide on the next one."""
    with transaction.atomic():
        account = locks.lock_account(account_id)
        payment = locks.lock_payment(payment.pk)
        rule = TopUpRule.objects.get(pk=account_id)
        if rule.attempt_id != payment.pk:
            return
        if payment.status in _WAITING and (declined or (not payment.intent_id and _is_forgotten(payment))):
            payment.status = Payment.Status.FAILED
            payment.failure = str(declined or "The payment processor did not answer.")[:300]
            payment.revision += 1
            payment.save(update_fields=["status", "failure", "revision"])
        if payment.status in _WAITING:
            return
        rule.attempt = None
        if payment.status == Payment.Status.PAID:
            rule.declines, rule.next_try_at = 0, None
        else:
            _count_decline(account, rule, payment, declined)
        rule.save()


def _count_decline(account: Account, rule: TopUpRule, payment: Payment, declined: Declined | None) -> None:
    rule.declines += 1
    reason = payment.failure or "The payment failed."
    is_last = rule.declines > len(PAUSES)
    if declined and (declined.is_final or declined.needs_payer) or is_last:
        rule.stopped_because = reason
        rule.next_try_at = None
        data = {"reason": reason, "needs_payer": bool(declined and declined.needs_payer)}
        AccountWarning.objects.create(account=account, kind=AccountWarning.Kind.TOP_UP_STOPPED, data=data)
        _tell(account, rule, needs_payer=bool(declined and declined.needs_payer))
    else:
        rule.next_try_at = pool.database_time() + PAUSES[rule.declines - 1]
    logger.warning("the top-up %s was declined (%d in a row): %s", payment.pk, rule.declines, reason)


def _tell(account: Account, rule: TopUpRule, *, needs_payer: bool) -> None:
    if not account.members.filter(pk=rule.set_by_id).exists():
        return
    context: dict[str, Any] = {
        "account": account.name,
        "amount": dollars.format_cents(rule.amount_cents),
        "reason": rule.stopped_because,
        "needs_payer": needs_payer,
        "link": hosts.mailed_page("top-up", "the Automatic top-up page of your dashboard"),
    }
    transaction.on_commit(partial(mails.send, rule.set_by.email, "top_up_stopped", **context))
