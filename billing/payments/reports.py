"""Asks the processor for the report of one payment, and books it."""

from uuid import UUID

from billing.models import Payment
from billing.payments import booking
from billing.payments.booking import Booked, ReportOutdated
from billing.payments.processor import Event, Processor, ProcessorUnavailable, Report

_ATTEMPTS_MAX = 5


def bring_up_to_date(
    processor: Processor, payment_id: UUID, event: Event | None = None, *, intent_id: str | None = None
) -> Booked | None:
    """Book what the processor reports of the payment. Return None if nobody could have paid it yet.

    Raises ProcessorUnavailable. Must not run in a transaction: the processor may take seconds.
    """
    for _ in range(_ATTEMPTS_MAX):
        payment = Payment.objects.get(pk=payment_id)
        report = ask(processor, payment, event, intent_id)
        if report is None:
            return None
        try:
            return booking.book(payment, report, event)
        except ReportOutdated:  # someone else booked meanwhile, maybe a newer report
            continue
    raise ProcessorUnavailable("the payment changed each time that the processor was asked")


def ask(processor: Processor, payment: Payment, event: Event | None = None, intent_id: str | None = None) -> Report | None:
    """Return the processor's report of the payment, or None if it has no page and no payment there."""
    session_id = payment.session_id or (event.session_id if event else None)
    intent_id = payment.intent_id or intent_id or (event.intent_id if event else None)
    if session_id:
        return processor.report_session(session_id)
    return processor.report_intent(intent_id) if intent_id else None
