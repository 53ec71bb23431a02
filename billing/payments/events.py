"""What a signed event leads to. See ``docs/payments.md`` for the decision on each kind."""

import logging
from uuid import UUID

from billing.models import Payment, PaymentEvent
from billing.payments import booking, reports
from billing.payments.booking import Booked
from billing.payments.processor import Event, Processor, UnknownToProcessor

logger = logging.getLogger("gateway.payments")


def handle(processor: Processor, event: Event) -> Booked:
    """Book what the event announces, once. Raises ProcessorUnavailable and keeps nothing: the processor sends it again."""
    kept = PaymentEvent.objects.filter(processor=processor.name, event_id=event.id).first()
    if kept:
        return Booked(PaymentEvent.Outcome(kept.outcome), "received before")
    if not (event.session_id or event.intent_id):
        return _keep(processor, event, PaymentEvent.Outcome.IGNORED, "it says nothing about payments")
    if event.is_live != processor.is_live:
        logger.error("event %s is of the processor's other mode (live or test)", event.id)
        return _keep(processor, event, PaymentEvent.Outcome.REFUSED, "it is of the other mode, live or test")
    payment_id = _find_payment(processor, event)
    booked = reports.bring_up_to_date(processor, payment_id, event) if payment_id else None
    return booked or _keep(processor, event, PaymentEvent.Outcome.IGNORED, "no payment of this gateway")


def _keep(processor: Processor, event: Event, outcome: PaymentEvent.Outcome, note: str) -> Booked:
    booked = Booked(outcome, note)
    booking.record(event, processor.name, booked)
    return booked


def _find_payment(processor: Processor, event: Event) -> UUID | None:
    """Find the payment by the processor's ids. If an event overtook the one that would tell them, ask for ours."""
    known = Payment.objects.filter(processor=processor.name)
    found = known.filter(session_id=event.session_id) if event.session_id else known.filter(intent_id=event.intent_id)
    payment_id: UUID | None = found.values_list("pk", flat=True).first()
    if payment_id:
        return payment_id
    try:
        if event.session_id:
            ours = processor.report_session(event.session_id).payment_id
        else:
            ours = processor.report_intent(event.intent_id or "").payment_id
        return known.values_list("pk", flat=True).filter(pk=UUID(str(ours))).first()
    except (ValueError, UnknownToProcessor):  # another program takes payments with the same processor's account
        return None
