"""The completion interface under /v1. Each view translates and makes one call inward."""

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.utils import OpenApiParameter
from msgspec import structs
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from completions.catalog import lookup
from completions.catalog.lookup import Listing
from completions.chat import ChatRequest, RequestBody
from completions.inbound import descriptions
from completions.inbound.chat_completions.completion_object import describe_completion
from completions.inbound.chat_completions.serializers import (
    CHAT_COMPLETION_STREAM_EVENT,
    ChatCompletion,
    ChatCompletionRequest,
    KeyUsage,
    Model,
    ModelList,
    PastCompletion,
    Quote,
    model_object,
)
from completions.inbound.completion_view import CompletionView, RatedView, RequestView, json_reply
from completions.inbound.messages import model_list
from completions.inbound.openrouter import clients
from completions.relay.reply_format import ChatFormat
from completions.request import schema
from completions.request.fields import Fields
from gateway_project import errors
from gateway_project.cache import TTLCache
from gateway_project.web import query_parameters, wrong_paths
from gateway_project.web.openapi import specification
from gateway_project.web.openapi.descriptions import extend_schema
from keys.authentication import AnyCallerAuthentication
from keys.models import ApiKey
from keys.usage import describe_usage

_AVAILABLE = {"true": True, "false": False, "all": None}
_AVAILABLE_PARAMETER = OpenApiParameter(
    "available",
    # True and False are read, too, as Python writes them. Described, they would be the same names in generated clients.
    type={"type": "string", "enum": [*_AVAILABLE, "1", "0"], "default": "true"},
    description="Models that can be called with this key now (1 means true), those that cannot (0 means false), or all.",
)

_COMPLETION_DESCRIPTION = (
    "Sends a conversation to a model and returns its reply, whole or as a stream of server-sent events. Each event of a stream "
    "is `data: ` and a chat.completion.chunk; the last is `data: [DONE]`. A stream that fails after its beginning ends with "
    '`data: {"error": {...}}` instead.'
)


class ChatCompletionsView(CompletionView):
    """One chat request, in OpenAI's language, which is also the gateway's own."""

    reply_format = ChatFormat()

    def read(self, fields: Fields, raw: bytes | None, pause: Callable[[], None]) -> ChatRequest:
        chat = schema.parse(RequestBody(fields, raw), pause)
        if chat.stream and clients.expects_usage(chat, self.request._request.META):
            return structs.replace(chat, include_usage=True, has_null_usage=False)
        return chat

    @extend_schema(
        operation_id="createChatCompletion",
        summary="Generate a reply",
        description=_COMPLETION_DESCRIPTION,
        auth=descriptions.AUTH,
        parameters=[descriptions.IDEMPOTENCY_KEY, *descriptions.HEADERS],
        request=ChatCompletionRequest,
        responses={
            (200, "application/json"): ChatCompletion,
            (200, "text/event-stream"): CHAT_COMPLETION_STREAM_EVENT,
            **specification.error_responses(*descriptions.ERRORS),
        },
    )
    def post(self, request: Request) -> HttpResponseBase:
        return self.complete(request)


class QuoteView(RequestView):
    """What a chat request would hold and at most cost."""

    def read(self, fields: Fields, raw: bytes | None, pause: Callable[[], None]) -> ChatRequest:
        return schema.parse(RequestBody(fields, raw), pause)

    @extend_schema(
        operation_id="createQuote",
        summary="Quote a completion",
        description=descriptions.QUOTE,
        request=ChatCompletionRequest,
        responses={200: Quote, **specification.error_responses(*descriptions.READ_ERRORS)},
    )
    def post(self, request: Request) -> HttpResponse:
        return self.quote(request)


class PastCompletionView(RatedView):
    """What happened to one completion of the account, from the moment on in which its reply has ended."""

    @extend_schema(
        operation_id="retrieveCompletion",
        summary="Retrieve what happened to a completion",
        description="Who answered a completion of the account, its tokens, its exact cost and how it was settled.",
        responses={
            200: PastCompletion,
            **specification.error_responses(errors.InvalidApiKey, errors.PathNotFound, errors.RateLimitExceeded),
        },
    )
    def get(self, request: Request, completion_id: str) -> HttpResponse:
        return json_reply(describe_completion(completion_id, _key(request).account_id))


class ModelListView(RatedView):
    @extend_schema(
        operation_id="listModels",
        summary="List the models",
        description="Models with their prices and limits, by id. A key that is restricted to some models sees only those.",
        parameters=[_AVAILABLE_PARAMETER],
        responses={
            200: ModelList,
            **specification.error_responses(errors.InvalidRequest, errors.InvalidApiKey, errors.RateLimitExceeded),
        },
    )
    def get(self, request: Request) -> HttpResponse:
        allowed, available = _allowed(request), _available(request)
        parameters = (tuple(allowed) if allowed else None, available)
        if "HTTP_ANTHROPIC_VERSION" in request.META:
            if (listings := _listings.get(parameters)) is None:
                _listings.put(parameters, listings := lookup.list_models(allowed, available=available))
            return json_reply(model_list.page(listings, request.query_params))
        rendered = _rendered_lists.get(parameters)
        if rendered is None:
            rendered = _render_list(lookup.list_models(allowed, available=available))
            _rendered_lists.put(parameters, rendered)
        return HttpResponse(rendered, content_type="application/json")


# By the models that a key may use (None: all), and the parameter ``available``. To make a list takes longer than a completion.
_rendered_lists: TTLCache[tuple[tuple[str, ...] | None, bool | None], bytes] = TTLCache(
    seconds=settings.CATALOG_CACHE_SECONDS, entries_max=100
)
# The same, for pages in Anthropic's shape.
_listings: TTLCache[tuple[tuple[str, ...] | None, bool | None], list[Listing]] = TTLCache(
    seconds=settings.CATALOG_CACHE_SECONDS, entries_max=100
)


def _render_list(listings: list[Listing]) -> bytes:
    whole = {"total_count": len(listings), "links": {"next": None}}  # OpenRouter's SDKs refuse a list without them
    return bytes(JSONRenderer().render({"object": "list", "data": [model_object(each) for each in listings], **whole}))


class ModelView(RatedView):
    @extend_schema(
        operation_id="retrieveModel",
        summary="Retrieve a model",
        description="One model. The slashes in its id are not encoded.",
        responses={
            200: Model,
            **specification.error_responses(errors.InvalidApiKey, errors.ModelNotFound, errors.RateLimitExceeded),
        },
    )
    def get(self, request: Request, model_id: str) -> Response:
        listing = lookup.find_listing(model_id, _allowed(request))
        shape = model_list.model_object if "HTTP_ANTHROPIC_VERSION" in request.META else model_object
        return Response(shape(listing))


class UsageView(RatedView):
    """What the key and its account have used and have left. Also replies when either is exhausted: then a caller asks."""

    @extend_schema(
        operation_id="retrieveUsage",
        summary="Retrieve the key's usage",
        description="What the key has used, its limits, and the account's balance. Also when one of them is used up.",
        responses={200: KeyUsage, **specification.error_responses(errors.InvalidApiKey, errors.RateLimitExceeded)},
    )
    def get(self, request: Request) -> Response:
        return Response(describe_usage(_key(request)))


class UnknownPathView(RatedView):
    """Every other path under /v1: 404 for any caller, with what to use instead."""

    authentication_classes = [AnyCallerAuthentication]
    permission_classes = []
    schema = None

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        raise errors.PathNotFound(wrong_paths.message(request._request))


def _key(request: Request) -> ApiKey:
    """Return the key that authenticated the request, with its current state."""
    assert isinstance(request.auth, ApiKey)
    return request.auth


def _available(request: Request) -> bool | None:
    """Return the parameter ``available``; None for all models. Raises InvalidRequest."""
    given = request.query_params.get("available", "true")
    words = _AVAILABLE | query_parameters.BOOLEANS
    if given not in words:
        raise errors.wrong("available", "must be true, false or all")
    return words[given]


def _allowed(request: Request) -> list[str] | None:
    return _key(request).allowed_models or None
