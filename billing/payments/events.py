"""What a signed event leads to. See ``docs/payments.md`` for the decision on each kind."""

import logging
from uuid import UUID

from django.db.models import Q

from billing.models import Payment, PaymentEvent
from billing.payments import booking
from billing.payments.booking import Booked
from billing.payments.processor import Event, Processor, UnknownToProcessor
from gateway_project.db import cell

logger = logging.getLogger("gateway.payments")


def handle(processor: Processor, event: Event) -> Booked:
    """Book what the event announces, once. Raises ProcessorUnavailable and keeps nothing: the processor sends it again."""
    for number in cell.numbers():
        with cell.use(number):
            if kept := PaymentEvent.objects.filter(processor=processor.name, event_id=event.id).first():
                return Booked(PaymentEvent.Outcome(kept.outcome), "received before")
    if not (event.session_id or event.intent_id):
        return _keep(processor, event, PaymentEvent.Outcome.IGNORED, "it says nothing about payments")
    if event.is_live != processor.is_live:
        logger.error("event %s is of the processor's other mode (live or test)", event.id)
        return _keep(processor, event, PaymentEvent.Outcome.REFUSED, "it is of the other mode, live or test")
    payment_id = _find_payment(processor, event)
    booked = booking.bring_up_to_date(processor, payment_id, event) if payment_id else None
    return booked or _keep(processor, event, PaymentEvent.Outcome.IGNORED, "no payment of this gateway")


def _keep(processor: Processor, event: Event, outcome: PaymentEvent.Outcome, note: str) -> Booked:
    booked = Booked(outcome, note)
    booking.record(event, processor.name, booked)
    return booked


def _find_payment(processor: Processor, event: Event) -> UUID | None:
    """Find the payment by the processor's ids, or by ours if an event overtook the one that would tell them; enter its cell."""
    ours = Payment.objects.filter(processor=processor.name)
    theirs = Q(session_id=event.session_id) if event.session_id else Q(intent_id=event.intent_id)
    for number in cell.numbers():
        cell.enter(number)
        if payment_id := ours.filter(theirs).values_list("pk", flat=True).first():
            return payment_id
    try:
        session_id, intent_id = event.session_id, event.intent_id or ""
        report = processor.report_session(session_id) if session_id else processor.report_intent(intent_id)
        payment_id = UUID(str(report.payment_id))
        cell.enter(Payment.cell_of(payment_id))
        return ours.values_list("pk", flat=True).filter(pk=payment_id).first()
    except (ValueError, UnknownToProcessor):  # another program takes payments with the same processor's account
        return None
