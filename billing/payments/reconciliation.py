"""Compares the processor's book with this one every day. Books what events would have led to, and keeps contradictions."""

import contextlib
import logging
from collections.abc import Iterator
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction

from billing.models import Payment, PaymentDifference, PaymentEvent
from billing.payments import booking
from billing.payments.processor import Processor, Report, UnknownToProcessor
from gateway_project.db import cell, pool

logger = logging.getLogger("gateway.payments")

COMPARED_TIME = timedelta(days=120)  # as long as most banks let payers dispute a payment
PAGE_TIME = timedelta(days=1)  # no page of a processor is open for longer
_WAITING = (Payment.Status.OPEN, Payment.Status.PROCESSING)

Found = tuple[str, Payment | None, str]  # the subject, the payment if it is known here, and what contradicts what


def reconcile(processor: Processor) -> int:
    """Book what was missed, and keep the contradictions. Return how many there are. Raises ProcessorUnavailable."""
    now = pool.database_time()
    ours = Payment.objects.filter(processor=processor.name)
    # Whoever began such a payment never saw a page: the process died before the processor answered.
    abandoned = ours.filter(status=Payment.Status.OPEN, session_id=None, intent_id=None, created_at__lt=now - PAGE_TIME)
    abandoned.exclude(attempt_of__isnull=False).update(status=Payment.Status.EXPIRED)
    waiting = list(ours.filter(status__in=_WAITING, is_live=processor.is_live))
    found = [*_ask(processor, waiting), *_compare(processor, now - COMPARED_TIME)]
    _keep(processor, found, now)
    return len({subject for subject, _, _ in found})


def _ask(processor: Processor, payments: list[Payment]) -> Iterator[Found]:
    """Bring the payments up to date. Yield those that the processor does not know, or contradicts."""
    for payment in payments:
        try:
            booked = booking.bring_up_to_date(processor, payment.pk)
        except UnknownToProcessor:
            yield str(payment.pk), payment, f"It waits here, and the processor does not know its page {payment.session_id}."
        else:
            if booked and booked.outcome == PaymentEvent.Outcome.REFUSED:
                yield str(payment.pk), payment, booked.note


def _compare(processor: Processor, since: datetime) -> Iterator[Found]:
    listed: set[UUID] = set()
    for report in processor.list_paid(since - PAGE_TIME):
        try:
            payment = Payment.objects.filter(processor=processor.name, pk=UUID(str(report.payment_id))).first()
        except ValueError:
            payment = None
        if payment:
            listed.add(payment.pk)
            if sentence := _book_missed(processor, payment, report):
                yield str(payment.pk), payment, sentence
        # A payment that no cell knows belongs to the first.
        elif Payment.cell_of(report.payment_id) == cell.current():
            yield report.intent_id or "", None, f"The processor has a paid payment {report.intent_id} that is not known here."
    credited = Payment.objects.filter(processor=processor.name, status=Payment.Status.PAID, is_live=processor.is_live)
    for payment in credited.filter(created_at__gte=since).exclude(pk__in=listed):
        yield str(payment.pk), payment, f"It is credited here, and the processor lists no paid payment {payment.intent_id}."


def _book_missed(processor: Processor, payment: Payment, report: Report) -> str:
    """Book what the payment lacks. Return what contradicts it, or ''."""
    if contradiction := booking.find_contradiction(payment, report):
        with contextlib.suppress(UnknownToProcessor):  # it may have been refunded: the payer is to read that
            booking.bring_up_to_date(processor, payment.pk, intent_id=report.intent_id)
        return contradiction
    if all(getattr(report, name) == getattr(payment, name) for name in ("status", "refunded_cents", "disputed_cents")):
        return ""
    booked = booking.bring_up_to_date(processor, payment.pk, intent_id=report.intent_id)
    if booked and booked.outcome == PaymentEvent.Outcome.APPLIED:
        logger.warning("payment %s was booked by the reconciliation, not by an event: %s", payment.pk, booked.note)
    return booked.note if booked and booked.outcome == PaymentEvent.Outcome.REFUSED else ""


def _keep(processor: Processor, found: list[Found], now: datetime) -> None:
    with transaction.atomic():
        still_open = PaymentDifference.objects.filter(processor=processor.name, gone_at=None)
        still_open.exclude(subject__in=[subject for subject, _, _ in found]).update(gone_at=now)
        known = set(still_open.values_list("subject", flat=True))
        for subject, payment, sentence in found:
            if subject in known:
                continue
            known.add(subject)
            logger.error("the processor's book contradicts this one about %s: %s", subject, sentence)
            PaymentDifference.objects.create(processor=processor.name, subject=subject, payment=payment, sentence=sentence)
