"""POST /api/billing/webhooks/<processor>: receives the processor's signed events.

Before the signature is verified a request costs its bounded body and one HMAC: no session, no query, no CSRF check.
"""

import logging
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from billing.payments import configuration, events
from billing.payments.processor import InvalidEvent, Processor, ProcessorUnavailable
from gateway_project import errors
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
            booked = events.handle(configured, event)
        except ProcessorUnavailable as error:
            logger.warning("event %s could not be handled: %s", event.id, error)
            raise errors.ServiceUnavailable("The processor could not be asked about the event. Send it again.") from None
        return Response({"outcome": booked.outcome, "note": booked.note})


def _processor(name: str) -> Processor:
    configured = configuration.processor()
    if configured is None or configured.name != name:
        raise errors.PathNotFound("There is no such webhook.")
    if not configured.webhook_secret:  # anybody could sign with it; E021 tells the operator
        raise errors.ServiceUnavailable("The webhook has no secret yet.")
    return configured
