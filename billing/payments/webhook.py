"""POST /api/billing/webhooks/<processor>: receives signed events. ``docs/payments.md`` has the decision on each.

Before the signature is verified a request costs its bounded body and one HMAC: no session, no query, no CSRF check.
"""

import logging
from typing import Any
from uuid import UUID

from django.db.models import Q
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from billing.models import Payment, PaymentEvent
from billing.payments import booking, configuration
from billing.payments.processor import Event, InvalidEvent, Processor, ProcessorUnavailable, UnknownToProcessor
from gateway_project import errors
from gateway_project.db import cell, everywhere
from gateway_project.web import strict_json

logger = logging.getLogger("gateway.payments")

BODY_BYTES_MAX = 262_144


class Webhook(APIView):
    authentication_classes: list[Any] = []
    permission_classes: list[Any] = []
    schema = None  # for the processor alone

    def post(self, request: Request, processor: str) -> Response:
        """Reply 200 for everything that need not be sent again: also for what is ignored or refused."""
        configured = _processor(processor)
        if strict_json.content_length(request) > BODY_BYTES_MAX:
            raise errors.RequestTooLarge(f"The request body is larger than {BODY_BYTES_MAX} bytes.")
        body = strict_json.read_body(request._request)
        try:
            event = configured.parse_event(body, request.headers)
        except InvalidEvent as error:
            logger.warning("an event was refused: %s", error)
            message = "The signature is missing, wrong, too old or of the future, or the body is no event."
            raise errors.InvalidRequest(message) from None
        try:
            booked = handle(configured, event)
        except ProcessorUnavailable as error:
            logger.warning("event %s could not be handled: %s", event.id, error)
            raise errors.ServiceUnavailable("The processor could not be asked about the event. Send it again.") from None
        return Response({"outcome": booked.outcome, "note": booked.note})


def _processor(name: str) -> Processor:
    configured = configuration.processor()
    if configured is None or configured.name != name:
        raise errors.PathNotFound("There is no such webhook.")
    if not configured.webhook_secret:  # anyone could sign with it; E021 tells the operator
        raise errors.ServiceUnavailable("The webhook has no secret yet.")
    return configured


def handle(processor: Processor, event: Event) -> booking.Booked:
    """Book what the event announces, once. Raises ProcessorUnavailable and keeps nothing: the processor sends it again."""
    if kept := everywhere.find(PaymentEvent.objects.filter(processor=processor.name, event_id=event.id).first):
        return booking.Booked(PaymentEvent.Outcome(kept.outcome), "received before")
    if not (event.session_id or event.intent_id):
        return _keep(processor, event, PaymentEvent.Outcome.IGNORED, "it says nothing about payments")
    if event.is_live != processor.is_live:
        logger.error("event %s is of the processor's other mode (live or test)", event.id)
        return _keep(processor, event, PaymentEvent.Outcome.REFUSED, "it is of the other mode, live or test")
    payment_id = _find_payment(processor, event)
    booked = booking.bring_up_to_date(processor, payment_id, event) if payment_id else None
    return booked or _keep(processor, event, PaymentEvent.Outcome.IGNORED, "no payment of this gateway")


def _keep(processor: Processor, event: Event, outcome: PaymentEvent.Outcome, note: str) -> booking.Booked:
    booked = booking.Booked(outcome, note)
    booking.record(event, processor.name, booked)
    return booked


def _find_payment(processor: Processor, event: Event) -> UUID | None:
    """Find the payment by the processor's ids, or by ours if an event overtook the one that would tell them; enter its cell."""
    ours = Payment.objects.filter(processor=processor.name)
    theirs = Q(session_id=event.session_id) if event.session_id else Q(intent_id=event.intent_id)
    if payment_id := everywhere.find(ours.filter(theirs).values_list("pk", flat=True).first):
        return payment_id
    try:
        payment_id = UUID(str(processor.report(event.session_id, event.intent_id).payment_id))
        cell.enter(Payment.cell_of(payment_id))
        return ours.values_list("pk", flat=True).filter(pk=payment_id).first()
    except (ValueError, UnknownToProcessor):  # another program takes payments with the same processor's account
        return None
