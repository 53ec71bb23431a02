"""The causes that stop or pause an automatic top-up: each cause once, for charges, pages, mails and webhooks.

A rule is charged only if ``annotate`` finds no cause, so nothing can stop it that is not shown, too.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from django.db.models import Case, CharField, Exists, F, OuterRef, Q, QuerySet, Subquery, Sum, Value, When
from django.db.models.functions import Coalesce, NullIf

from billing import money
from billing.accounts import roles
from billing.models import Membership, Payment, TopUpRule
from billing.payments.processor import Processor
from gateway_project.db import pool
from gateway_project.text import dollars

SILENCE_TIME = timedelta(hours=1)  # without an answer of the processor; shorter ones end before a member can act


class Cause(StrEnum):
    CLOSED = "account_closed"
    NO_PAYMENTS = "no_payments"
    PROCESSOR = "processor_changed"
    DECLINED = "declined"
    CONFIRM = "confirmation"
    UNANSWERED = "unanswered"
    REFUSED = "not_credited"
    CARD_OWNER = "card_owner"
    DISPUTED = "disputed"
    SILENT = "processor_silent"
    MONTH = "month_maximum"


# These let an attempt that is under way continue, and end by themselves.
PAUSING = (Cause.SILENT, Cause.MONTH)

_STORED = "{rule.stopped_because}"
_PAY = "Pay with a card to start it again."
_WORDS = {  # why, and what starts it again
    Cause.CLOSED: ("The account is closed.", "It starts again when the account is reopened."),
    Cause.NO_PAYMENTS: ("We do not take payments at the moment.", "It starts again when we do."),
    Cause.PROCESSOR: ("Our payment processor changed, and the new one does not have your card.", _PAY),
    Cause.DECLINED: (_STORED, "Pay with a new card to start it again."),
    Cause.CONFIRM: (_STORED, "Your bank wants you to confirm: pay with this card, or another one, to start it again."),
    Cause.UNANSWERED: (_STORED, _PAY),
    Cause.REFUSED: (_STORED, _PAY),
    Cause.CARD_OWNER: ("The member who added the card can no longer pay for the account.", _PAY),
    Cause.DISPUTED: (
        "A payment of this account was disputed at the bank.",
        "Pay with a card to confirm that we may charge it. If the bank decides for us, it starts again by itself.",
    ),
    Cause.SILENT: (
        "The payment processor has not answered for over an hour.",
        "We ask again every minute, and charge your card at most once. Add credit yourself if you need it now.",
    ),
    Cause.MONTH: (
        "This month's maximum of {month_max} leaves no room for another {amount}.",
        "Raise the maximum, or add credit yourself.",
    ),
}


@dataclass(frozen=True)
class Stop:
    """Why a rule buys nothing, and what starts it again, to its members."""

    cause: Cause
    why: str
    advice: str

    @property
    def is_pause(self) -> bool:
        return self.cause in PAUSING

    @property
    def needs_card(self) -> bool:
        """Whether a member must pay, and so show that the card may be charged."""
        return self.cause not in (*PAUSING, Cause.CLOSED, Cause.NO_PAYMENTS)


def describe(rule: TopUpRule) -> Stop | None:
    if not rule.stop:  # type: ignore[attr-defined]
        return None
    cause = Cause(rule.stop)  # type: ignore[attr-defined]
    amounts = {"month_max": dollars.format_cents(rule.month_cents_max), "amount": dollars.format_cents(rule.amount_cents)}
    why, advice = _WORDS[cause]
    return Stop(cause, why.format(rule=rule, **amounts), advice)


def annotate(rules: QuerySet[TopUpRule], processor: Processor | None) -> QuerySet[Any]:
    """Add ``stop``, a Cause or ''; ``is_low``, whether it is time to buy; and ``month_left_cents`` of this UTC month."""
    is_low = Q(account__balance_nanos__lt=F("threshold_cents") * money.NANOS_PER_CENT + F("account__held_nanos"))
    month = pool.database_time().astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    begun = Payment.objects.filter(account_id=OuterRef("account_id"), created_by=None, created_at__gte=month)
    bought = begun.exclude(status__in=(Payment.Status.FAILED, Payment.Status.EXPIRED))
    total = bought.order_by().values("account_id").annotate(cents=Sum("amount_cents")).values("cents")
    left_cents = F("month_cents_max") - Coalesce(Subquery(total), 0)
    return rules.annotate(is_low=is_low, month_left_cents=left_cents, stop=_cause(processor))


def _cause(processor: Processor | None) -> Case:
    long_ago = pool.database_time() - SILENCE_TIME
    silent = Q(attempt__status=Payment.Status.OPEN, attempt__intent_id=None, attempt__created_at__lt=long_ago)
    members = Membership.objects.filter(account_id=OuterRef("account_id"), role__in=roles.that_may(roles.Permission.PAY))
    may_pay = members.filter(user_id=OuterRef("set_by_id"), user__is_active=True)
    # A dispute stops every card, until a member pays with one after it.
    card_at = Coalesce(OuterRef("card_at"), Value(datetime.min.replace(tzinfo=UTC)))
    disputed = Payment.objects.filter(account_id=OuterRef("account_id"), disputed_cents__gt=0)
    disputed_since = disputed.filter(Q(disputed_at=None) | Q(disputed_at__gt=card_at))
    stored = Coalesce(NullIf(F("stopped_by"), Value("")), Value(Cause.DECLINED.value))
    conditions = {
        Cause.CLOSED: Q(account__is_active=False),
        Cause.NO_PAYMENTS: Q(pk__isnull=processor is not None),
        Cause.PROCESSOR: ~Q(processor=processor.name if processor else ""),
        Cause.DECLINED: ~Q(stopped_because=""),
        Cause.CARD_OWNER: ~Q(Exists(may_pay)),
        Cause.DISPUTED: Q(Exists(disputed_since)),
        Cause.SILENT: silent,
        Cause.MONTH: Q(is_low=True, month_left_cents__lt=F("amount_cents")),
    }
    results = {cause: stored if cause == Cause.DECLINED else Value(cause.value) for cause in conditions}
    whens = [When(condition, then=results[cause]) for cause, condition in conditions.items()]
    return Case(*whens, default=Value(""), output_field=CharField())
