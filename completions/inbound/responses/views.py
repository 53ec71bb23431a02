"""POST /v1/responses and /v1/responses/quote. Errors have the shape of all errors, and the names of the caller's fields."""

from collections.abc import Callable
from typing import Any

from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from completions.chat import ChatRequest
from completions.inbound import caller_errors, descriptions
from completions.inbound.completion_view import CompletionView, RequestView
from completions.inbound.responses import places, reply
from completions.inbound.responses import request as responses_request
from completions.inbound.responses.event_serializers import STREAM_EVENT
from completions.inbound.responses.places import Places
from completions.inbound.responses.serializers import ModelResponseRequestSerializer, ModelResponseSerializer
from completions.request.fields import Fields
from completions.serializers import QuoteSerializer
from gateway_project.web import error_replies, openapi

_IGNORED = "x-gateway-ignored-fields"
_DESCRIPTION = (
    "OpenAI's Responses, for every model. Nothing is kept: a request has the whole conversation, and `store: true` and "
    "`previous_response_id` are refused. A stream has OpenAI's events."
)


class _ReadsResponses(RequestView):
    """Reads requests, and names the caller's own fields in errors and headers."""

    places = Places()  # of a request that has been read
    repeated: Fields  # of it: what the reply repeats

    def read(self, fields: Fields, raw: bytes | None, pause: Callable[[], None]) -> ChatRequest:
        request, self.places, self.repeated = responses_request.parse(fields, raw, pause)
        return request

    def handle_exception(self, exc: Exception) -> Any:
        error = error_replies.translate(exc)
        return super().handle_exception(caller_errors.renamed(error, lambda path: places.rename(path, self.places)))


class ResponsesView(_ReadsResponses, CompletionView):
    """One request in the language of OpenAI's Responses. It goes the way of every completion."""

    fingerprinted_path = "/v1/responses"

    def read(self, fields: Fields, raw: bytes | None, pause: Callable[[], None]) -> ChatRequest:
        request = super().read(fields, raw, pause)
        self.reply_format = reply.ResponsesFormat(self.repeated, self.places.called)
        return request

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        response = super().finalize_response(request, response, *args, **kwargs)
        if ignored := response.get(_IGNORED):
            response[_IGNORED] = caller_errors.rename_list(ignored, lambda name: places.rename(name, Places()))
        return response

    @extend_schema(
        operation_id="createResponse",
        summary="Generate a reply, in OpenAI's Responses",
        description=_DESCRIPTION,
        auth=descriptions.AUTH,
        parameters=[descriptions.IDEMPOTENCY_KEY, *descriptions.HEADERS],
        request=ModelResponseRequestSerializer,
        responses={
            (200, "application/json"): ModelResponseSerializer,
            (200, "text/event-stream"): STREAM_EVENT,
            **openapi.error_responses(*descriptions.ERRORS),
        },
    )
    def post(self, request: Request) -> HttpResponseBase:
        return self.complete(request)


class ResponseQuoteView(_ReadsResponses):
    """What a request in OpenAI's Responses would hold and at most cost."""

    @extend_schema(
        operation_id="createResponseQuote",
        summary="Quote a completion, in OpenAI's Responses",
        description=descriptions.QUOTE,
        request=ModelResponseRequestSerializer,
        responses={200: QuoteSerializer, **openapi.error_responses(*descriptions.READ_ERRORS)},
    )
    def post(self, request: Request) -> HttpResponseBase:
        return self.quote(request)
