"""Asks the processor for the report of one payment, and books it."""

import contextlib
from uuid import UUID

from billing.models import Payment
from billing.payments import booking
from billing.payments.booking import Booked, ReportOutdated
from billing.payments.processor import Event, Processor, ProcessorUnavailable

_ATTEMPTS_MAX = 5


def bring_up_to_date(
    processor: Processor, payment_id: UUID, event: Event | None = None, *, intent_id: str | None = None
) -> Booked | None:
    """Book what the processor reports of the payment. Return None if it has no page and no payment there.

    Raises ProcessorUnavailable. Must not run in a transaction: the processor may take seconds.
    """
    for _ in range(_ATTEMPTS_MAX):
        payment = Payment.objects.get(pk=payment_id)
        if session_id := payment.session_id or (event.session_id if event else None):
            report = processor.report_session(session_id)
        elif intent_id := payment.intent_id or intent_id or (event.intent_id if event else None):
            report = processor.report_intent(intent_id)
        else:
            return None
        with contextlib.suppress(ReportOutdated):  # something else was booked meanwhile, maybe a newer report
            return booking.book(payment, report, event)
    raise ProcessorUnavailable("the payment changed each time that the processor was asked")
