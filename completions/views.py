"""The completion interface under /v1. Each view translates and makes one call inward."""

from contextlib import ExitStack
from typing import Any

from django.conf import settings
from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.parsers import BaseParser
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from completions.catalog import eligibility, lookup
from completions.catalog.lookup import Listing
from completions.charging import admission, idempotency, preadmission
from completions.charging.admission import Admitted
from completions.charging.idempotency import Replay
from completions.chat import ChatRequest, RequestBody
from completions.relay import fair_queue, slots, whole
from completions.relay.attempts import Dispatch
from completions.relay.slots import Slot
from completions.relay.stream import ReplyStream
from completions.request import schema
from completions.serializers import (
    ChatCompletionRequestSerializer,
    ChatCompletionSerializer,
    ModelListSerializer,
    ModelSerializer,
    UsageSerializer,
    model_object,
)
from gateway_project import errors, large_work
from gateway_project.cache import TTLCache
from gateway_project.web import openapi, query_parameters, strict_json, wrong_paths
from gateway_project.web.bodies_in_flight import Arrived, process_bodies
from keys.authentication import AnyCallerAuthentication, Caller, CallerAuthentication
from keys.limits import limit_state_cache, refusal_cache
from keys.models import ApiKey
from keys.usage import describe_usage

_AUTH: Any = [{"apiKey": []}]  # the scheme of keys.openapi, which does not show how a key's status is read
_STREAM_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}


_SMALL_BYTES = 8_192  # a body of up to so many bytes stays parsed while its request waits

_AVAILABLE = {"true": True, "false": False, "all": None}
_AVAILABLE_PARAMETER = OpenApiParameter(
    "available",
    type={"type": "string", "enum": list(_AVAILABLE), "default": "true"},
    description="Models that can be called with this key now, those that cannot, or all.",
)

_COMPLETION_DESCRIPTION = (
    "Sends a conversation to a model and returns its reply, whole or as a stream of server-sent events. Each event of a stream "
    "is `data: ` and a chat.completion.chunk; the last is `data: [DONE]`. A stream that fails after its beginning ends with "
    '`data: {"error": {...}}` instead.'
)
_IDEMPOTENCY_KEY = OpenApiParameter(
    idempotency.HEADER,
    {"type": "string", "minLength": 1, "maxLength": idempotency.CHARACTERS_MAX, "pattern": "^[ -~]+$"},
    OpenApiParameter.HEADER,
    description="A repetition with the same key and the same body gets the reply of the first, and is charged once.",
)
_ATTEMPTED: list[int | str] = [200, 400, 502, 503, 504]  # the statuses of replies after an attempt at a provider
_COMPLETION_HEADERS = [
    openapi.response_header("x-gateway-provider", str, "The provider that answered, or was tried last.", _ATTEMPTED),
    openapi.response_header("x-gateway-attempts", int, "How many times a provider was asked.", _ATTEMPTED),
    openapi.response_header("x-gateway-max-cost", str, "What was held: the most that it can cost, in US dollars.", _ATTEMPTED),
    openapi.response_header("x-gateway-cost", str, "The cost in US dollars, exactly. Not of a stream.", [200]),
    openapi.response_header("x-gateway-ignored-fields", str, "Fields of the request that the provider was not sent.", [200]),
    openapi.response_header(
        "Idempotent-Stored", str, "false: a repetition with the same key is refused, because this reply is not kept.", [200]
    ),
    openapi.response_header("Idempotent-Replayed", str, "true: the reply of an earlier request, charged once.", [200]),
]
_COMPLETION_ERRORS = (
    errors.InvalidRequest,
    errors.InvalidApiKey,
    errors.InsufficientQuota,
    errors.ModelNotFound,
    errors.RequestTimeout,
    errors.RequestInProgress,
    errors.ReplyUnreadable,
    errors.LengthRequired,
    errors.RequestTooLarge,
    errors.UnsupportedMediaType,
    errors.RateLimitExceeded,
    errors.UpstreamFailed,
    errors.UpstreamOverloaded,
    errors.UpstreamTimeout,
)


class RatedView(APIView):
    """Sends the rate-limit headers with every reply to a key: as admission counted, or else from the last-read state."""

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        response = super().finalize_response(request, response, *args, **kwargs)
        key_id = getattr(request._request, "key_id", None)
        is_admitted = "x-ratelimit-limit-concurrent" in response
        if key_id and not is_admitted and response.status_code != 401:
            for name, value in limit_state_cache.estimate_headers(key_id).items():
                response.setdefault(name, value)
        return response


class ReceivedBody:
    """The bytes of a body, which are parsed when its request starts."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw

    def take(self) -> bytes:
        """Return the bytes, once. DRF's request keeps this object, and must not keep a large body in memory."""
        raw, self._raw = self._raw, b""
        return raw


class ReceivedBodyParser(BaseParser):
    """Receives a JSON body, however slowly it comes, and parses nothing: a slow client must not occupy a start of its key."""

    media_type = "application/json"

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> Any:
        assert parser_context is not None
        return ReceivedBody(strict_json.read_body(stream, parser_context["view"].body_arrived))


class ChatCompletionsView(RatedView):
    """One chat request. Authentication identifies the caller from a cache; admission checks whether its key may spend."""

    authentication_classes = [CallerAuthentication]
    parser_classes = [ReceivedBodyParser]
    dispatched: Dispatch | None = None
    body_arrived: Arrived = staticmethod(strict_json.uncounted)

    def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> HttpResponseBase:
        try:
            return super().dispatch(request, *args, **kwargs)
        finally:
            # DRF's request and its view refer to each other through this. Without it they are freed now, not by the collector.
            self.request.parser_context.clear()

    @extend_schema(
        operation_id="createChatCompletion",
        summary="Generate a reply",
        description=_COMPLETION_DESCRIPTION,
        auth=_AUTH,
        parameters=[_IDEMPOTENCY_KEY, *_COMPLETION_HEADERS],
        request=ChatCompletionRequestSerializer,
        responses={
            (200, "application/json"): ChatCompletionSerializer,
            (200, "text/event-stream"): OpenApiTypes.STR,
            **openapi.error_responses(*_COMPLETION_ERRORS),
        },
    )
    def post(self, request: Request) -> HttpResponseBase:
        caller = request.user
        assert isinstance(caller, Caller)
        length = strict_json.content_length(request)
        idempotency_value = request.META.get("HTTP_IDEMPOTENCY_KEY")
        try:
            with _take_slot(caller, idempotency_value) as slot:
                if length <= large_work.LARGE_BYTES:
                    return self._answer(request, caller, slot)
                preadmission.require_admissible(caller, idempotency_value)
                with process_bodies.counted(caller.account_id, length) as self.body_arrived:
                    return self._answer(request, caller, slot)
        except errors.TooManyInFlight:
            if length <= large_work.LARGE_BYTES:  # a larger body must not stay in memory
                slots.process_slots.hold_back(caller.key_id, request.META.get("gunicorn.socket"))
            raise

    def _answer(self, request: Request, caller: Caller, slot: Slot) -> HttpResponseBase:
        """Relay a request, whose body has not been read. Return the whole reply, or one that streams the rest of it."""
        received = request.data
        assert isinstance(received, ReceivedBody)  # the parser raises on anything else
        with fair_queue.process_queue.start(caller.key_id):
            chat, admitted = self._admit(request, caller, received.take())
        if isinstance(admitted, Replay):
            replayed = _reply(admitted.body, is_stream=admitted.is_stream, headers={"Idempotent-Replayed": "true"})
            return _kept_until_sent(replayed, caller, slot)
        self.dispatched = dispatch = Dispatch(admitted, request.META.get("gunicorn.socket"))
        request._request.completion_id = admitted.completion.id  # type: ignore[attr-defined]  # for the log
        if chat.stream:
            return _reply(ReplyStream(dispatch, slot.transfer()), is_stream=True, headers=admitted.headers)
        return _kept_until_sent(_reply(whole.relay(dispatch), is_stream=False, headers=admitted.headers), caller, slot)

    def _admit(self, request: Request, caller: Caller, raw: bytes) -> tuple[ChatRequest, Admitted | Replay]:
        work_bytes = strict_json.work_bytes(raw)
        if work_bytes > large_work.LARGE_BYTES >= len(raw):  # larger bodies were looked at before they were received
            preadmission.require_admissible(caller, request.META.get("HTTP_IDEMPOTENCY_KEY"))
        with large_work.turn(work_bytes) as pause:
            fields = strict_json.loads(raw, syntax_max=settings.REQUEST_SYNTAX_MAX, pause=pause)
            request._request.model_id = fields.get("model")  # type: ignore[attr-defined]  # for the history of refusals
            chat = schema.parse(RequestBody(fields, raw if len(raw) > _SMALL_BYTES else None), pause)
        with refusal_cache.replay_or_record_before_admission(
            caller.key_id, chat.model, *(model_id for _, model_id in chat.fallbacks)
        ):
            offers = eligibility.eligible_offers(chat)
        with large_work.turn(work_bytes):
            idempotency_key = idempotency.read_key(request, chat.fields)
        request_id = request._request.id  # type: ignore[attr-defined]
        return chat, admission.admit(chat, offers, caller, idempotency_key, request_id=request_id)

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        """Add the headers about the dispatch, also to an error after the first attempt."""
        response = super().finalize_response(request, response, *args, **kwargs)
        if self.dispatched and self.dispatched.attempts:
            for name, value in self.dispatched.headers().items():
                response[name] = value
        return response


def _take_slot(caller: Caller, idempotency_value: str | None) -> Slot:
    """Take a slot, by the key's own maximum where that is needed. Raises as admission would, if the key is refused anyway."""
    is_repeatable = idempotency_value is not None
    try:
        return slots.process_slots.take(caller.key_id, caller.account_id, is_repeatable=is_repeatable)
    except errors.TooManyInFlight:
        if limit_state_cache.in_flight(caller.key_id):
            raise
    preadmission.require_admissible(caller, idempotency_value)
    return slots.process_slots.take(caller.key_id, caller.account_id, is_repeatable=is_repeatable)


def _reply(body: bytes | ReplyStream, *, is_stream: bool, headers: dict[str, str]) -> HttpResponseBase:
    response = HttpResponse if isinstance(body, bytes) else StreamingHttpResponse
    if is_stream:
        return response(body, content_type="text/event-stream", headers={**_STREAM_HEADERS, **headers})
    return response(body, content_type="application/json", headers={"Cache-Control": "no-store", **headers})


def _kept_until_sent(response: HttpResponseBase, caller: Caller, slot: Slot) -> HttpResponseBase:
    """Let a large whole reply keep its slot, and count its bytes, until the server has sent it or its connection has ended.

    It stays in memory until then, and a client may take its time to read it. A small one fits into the buffers of sockets.
    """
    assert isinstance(response, HttpResponse)
    if (size_bytes := len(response.content)) > large_work.LARGE_BYTES:
        kept = ExitStack()
        kept.enter_context(slot.transfer())
        kept.enter_context(process_bodies.counted_reply(caller.account_id, size_bytes))
        response._resource_closers.append(kept.close)  # type: ignore[attr-defined]  # Django closes iterators so
    return response


class ModelListView(RatedView):
    @extend_schema(
        operation_id="listModels",
        summary="List the models",
        description="Models with their prices and limits, by id. A key that is restricted to some models sees only those.",
        parameters=[_AVAILABLE_PARAMETER],
        responses={
            200: ModelListSerializer,
            **openapi.error_responses(errors.InvalidRequest, errors.InvalidApiKey, errors.RateLimitExceeded),
        },
    )
    def get(self, request: Request) -> HttpResponse:
        allowed, available = _allowed(request), _available(request)
        parameters = (tuple(allowed) if allowed else None, available)
        rendered = _rendered_lists.get(parameters)
        if rendered is None:
            rendered = _render_list(lookup.list_models(allowed, available=available))
            _rendered_lists.put(parameters, rendered)
        return HttpResponse(rendered, content_type="application/json")


# By the models that a key may use (None: all), and the parameter ``available``. To make a list takes longer than a completion.
_rendered_lists: TTLCache[tuple[tuple[str, ...] | None, bool | None], bytes] = TTLCache(
    seconds=settings.CATALOG_CACHE_SECONDS, entries_max=100
)


def _render_list(listings: list[Listing]) -> bytes:
    return bytes(JSONRenderer().render({"object": "list", "data": [model_object(listing) for listing in listings]}))


class ModelView(RatedView):
    @extend_schema(
        operation_id="retrieveModel",
        summary="Retrieve a model",
        description="One model. The slashes in its id are not encoded.",
        responses={
            200: ModelSerializer,
            **openapi.error_responses(errors.InvalidApiKey, errors.ModelNotFound, errors.RateLimitExceeded),
        },
    )
    def get(self, request: Request, model_id: str) -> Response:
        listing = lookup.find_listing(model_id, _allowed(request))
        return Response(model_object(listing))


class UsageView(RatedView):
    """What the key and its account have used and have left. Also replies when either is exhausted: then a caller asks."""

    @extend_schema(
        operation_id="retrieveUsage",
        summary="Retrieve the key's usage",
        description="What the key has used, its limits, and the account's balance. Also when one of them is used up.",
        responses={200: UsageSerializer, **openapi.error_responses(errors.InvalidApiKey, errors.RateLimitExceeded)},
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
    words = {**_AVAILABLE, **query_parameters.BOOLEANS}
    if given not in words:
        raise errors.wrong("available", "must be true, false or all")
    return words[given]


def _allowed(request: Request) -> list[str] | None:
    return _key(request).allowed_models or None
