"""The way of a completion through the gateway, the same for every language in which one can be asked for.

A language adds how a request is read, and how replies are written.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from functools import cache, partial
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from rest_framework.exceptions import UnsupportedMediaType
from rest_framework.parsers import BaseParser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from completions.catalog import data_demands, eligibility
from completions.charging import admission, early_refusal, idempotency
from completions.charging.admission import Admitted
from completions.charging.idempotency import Replay
from completions.chat import ChatRequest, RequestBody
from completions.inbound.caller_errors import Places
from completions.inbound.quotes import describe_quote
from completions.relay import charge, fair_queue, image_fetches, slots, whole
from completions.relay.reply_format import ReplyFormat, WholeFormat
from completions.relay.running import Running
from completions.relay.slots import Slot
from completions.relay.stream import ReplyStream
from completions.request import schema
from completions.request.fields import Fields
from gateway_project import errors, large_work
from gateway_project.db import pool
from gateway_project.monitoring.steps import step
from gateway_project.net import disconnects
from gateway_project.text import compact_json
from gateway_project.web import error_replies, strict_json
from gateway_project.web.bodies_in_flight import Arrived, process_bodies
from gateway_project.web.request_notes import notes_of_api
from gateway_project.web.strict_json import Body
from keys.authentication import Caller, CallerAuthentication
from keys.budgets import runs
from keys.limits import limit_state_cache, refusal_cache
from keys.models import ApiKey

_STREAM_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
_IGNORED = "x-gateway-ignored-fields"
_RATE_HEADER = "x-ratelimit-limit-concurrent"  # all replies with rate limits have it
INVALID_CHARACTERS = "invalid_characters"  # in the header: no field has this name, U+FFFD stands for some characters
SMALL_BYTES = 8_192  # a body of up to so many bytes stays parsed while its request waits


class RatedView(APIView):
    """Sends the rate-limit headers with every reply to a key: as admission counted, or else from the last-read state."""

    @property
    def key(self) -> ApiKey:
        """The key that authenticated the request, with its current state. A completion has a Caller instead."""
        key = self.request.auth
        assert isinstance(key, ApiKey)
        return key

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        response = super().finalize_response(request, response, *args, **kwargs)
        key_id = notes_of_api(request).key_id
        if key_id and _RATE_HEADER not in response.headers and response.status_code != 401:
            for name, value in limit_state_cache.estimate_headers(key_id).items():
                response.setdefault(name, value)
        return response


def json_reply(described: object) -> HttpResponse:
    return HttpResponse(compact_json.dumps(described), content_type="application/json")


class ReceivedBodyParser(BaseParser):
    """Receives a JSON body, however slowly it comes, and parses nothing: a slow client must not occupy a start of its key."""

    media_type = "application/json"

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Any = None) -> Any:
        body: Body = parser_context["view"].body
        body.receive(stream)
        return body


def receive_body(request: Request, body: Body) -> None:
    """Wait until the body has arrived. Raises an ApiError."""
    plain = request._request
    is_chunked = "HTTP_TRANSFER_ENCODING" in plain.META  # REST framework reads no body without a Content-Length
    if plain.META.get("CONTENT_TYPE") == ReceivedBodyParser.media_type or (
        is_chunked and request.negotiator.select_parser(request, request.parsers)  # type: ignore[union-attr, arg-type]
    ):
        body.receive(plain)  # what REST framework would do, after some thirty calls
    elif is_chunked:
        raise UnsupportedMediaType(request.content_type)
    else:
        request.data  # noqa: B018  its parser receives the body, and raises for another type


class RequestView(RatedView):
    """A request with the body of a completion."""

    parser_classes = [ReceivedBodyParser]
    body: Body
    syntax_max: int | None = None  # instead of REQUEST_SYNTAX_MAX
    uncounted_syntax = b""
    has_replaced_text = False  # its body had characters that cannot be kept

    def read(self, fields: Fields, raw: bytes | None, pause: Callable[[], None]) -> ChatRequest:
        """Return the checked request, here of chat. ``raw``: the bytes of a body that is not small. Raises InvalidRequest."""
        return schema.parse(RequestBody(fields, raw), pause)

    def parse(self, request: Request, raw: bytes, work_bytes: int) -> tuple[Fields, ChatRequest]:
        """Return the fields of a body, and the checked request. Raises InvalidRequest."""
        with large_work.turn(work_bytes) as pause:
            fields, raw = self.load(raw, pause)
            notes_of_api(request).model_id = fields.get("model")
            return fields, self.read(fields, raw if len(raw) > SMALL_BYTES else None, pause)

    def load(self, raw: bytes, pause: Callable[[], None]) -> tuple[Fields, bytes]:
        """Return the fields of a body, and the body as it was read: mended, where it would be refused otherwise."""
        load = partial(
            strict_json.loads,
            syntax_max=self.syntax_max or settings.REQUEST_SYNTAX_MAX,
            uncounted=self.uncounted_syntax,
            pause=pause,
        )
        try:
            return load(raw), raw
        except errors.InvalidRequest:
            mended, self.has_replaced_text = strict_json.mended(raw, pause)
            if mended == raw:
                raise
            return load(mended), mended

    @contextmanager
    def reading(self, request: Request) -> Iterator[tuple[ApiKey, ChatRequest]]:
        """Receive and parse a body that no provider is asked with. The block runs in the turn of the key's requests."""
        key = self.key
        pool.release_connection()  # the body may come slowly
        self.body = body = Body(request._request)
        counting: AbstractContextManager[Arrived] = nullcontext(body.arrived)
        if body.bytes_max > large_work.LARGE_BYTES:
            counting = process_bodies.counted(key.account_id, body.bytes_max)
        with counting as body.arrived:
            receive_body(request, body)
            with fair_queue.process_queue.start(key.pk):
                raw = body.take()
                yield key, self.parse(request, raw, strict_json.work_bytes(raw))[1]

    def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> HttpResponseBase:
        try:
            return super().dispatch(request, *args, **kwargs)
        finally:
            # DRF's request and its view refer to each other through this. Without it they are freed now, not by the collector.
            self.request.parser_context.clear()


class QuoteView(RequestView):
    """The hold and the highest cost of a request. It is a read of its key, and takes no slot of its completions."""

    def post(self, request: Request) -> HttpResponse:
        with self.reading(request) as (key, chat):
            caller = Caller(key.pk, key.account_id)
            demands = data_demands.in_force(chat.provider_preferences, key, key.account)
            run = runs.read_headers(request._request.META)
            described = describe_quote(chat, eligibility.eligible_offers(chat, caller, demands), caller, run)
        return json_reply(described)


class TranslatedView(RequestView):
    """A request in another language than chat completions. Errors and headers have the caller's names of its fields."""

    places: Places | None = None  # of a request that has been read; until then errors have the caller's names

    def handle_exception(self, exc: Exception) -> Any:
        error = error_replies.translate(exc)
        return self.error_reply(self.places.renamed(error) if self.places else error)

    def error_reply(self, error: errors.ApiError) -> Any:
        return super().handle_exception(error)

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        response = super().finalize_response(request, response, *args, **kwargs)
        if self.places and (ignored := response.get(_IGNORED)):
            response[_IGNORED] = self.places.rename_list(ignored)
        return response


class CompletionView(RequestView):
    """One request for a completion. Authentication identifies the caller from a cache; admission checks what its key may."""

    authentication_classes = [CallerAuthentication]
    takes_when_admitted = True  # before it has a completion, a refusal has taken nothing
    reply_format: WholeFormat
    fingerprinted_path = ""
    running: Running | None = None
    read_on: ReplyStream | None = None  # once the reply is sent, which is the error of a stream that began too late

    def initialize_request(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Request:
        """Wrap the request as REST framework does, with parsers and the like that are made once: they have no state."""
        parts = _parts(self.__class__)  # type: ignore[arg-type]  # any class has a hash
        wrapped = Request(request, **parts, parser_context={"view": self, "args": args, "kwargs": kwargs})
        wrapped.method = request.method  # REST framework looks up attributes of Django's request in Python, each time
        return wrapped

    @property
    def default_response_headers(self) -> dict[str, str]:
        return _default_headers(self.__class__).copy()  # type: ignore[arg-type]

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Authenticate the caller, and no more: errors choose a renderer later, and there are no versions."""
        request._authenticate()  # type: ignore[attr-defined]

    def fingerprinted(self, fields: Fields) -> Fields:
        """Return the fields that a repetition must have, under the path: another endpoint may take the same."""
        return {self.fingerprinted_path: fields} if self.fingerprinted_path else fields

    @step("request")
    def post(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Return the reply to a request, whose body has not been read."""
        caller = request.user
        assert isinstance(caller, Caller)
        plain = request._request  # REST framework's request looks for each attribute in itself first
        self.body = body = Body(plain)
        idempotency_value = plain.META.get("HTTP_IDEMPOTENCY_KEY")
        try:
            with _take_slot(caller, idempotency_value) as slot:
                if body.bytes_max <= large_work.LARGE_BYTES:
                    return self._answer(request, caller, slot)
                early_refusal.require_admissible(caller, idempotency_value)
                with process_bodies.counted(caller.account_id, body.bytes_max) as body.arrived:
                    return self._answer(request, caller, slot)
        except (errors.TooManyInFlight, errors.InvalidRequest) as refusal:
            if body.bytes_max <= large_work.LARGE_BYTES and not self.running:  # large ones take turns already
                refusal.__traceback__ = refusal.__context__ = None  # their frames keep the body in memory
                slots.process_slots.hold_back(caller.key_id, request.META.get("gunicorn.socket"))
            raise

    def _answer(self, request: Request, caller: Caller, slot: Slot) -> HttpResponseBase:
        """Relay a request, whose body has not been read. Return the whole reply, or one that streams the rest of it."""
        receive_body(request, self.body)
        with fair_queue.process_queue.start(caller.key_id):
            admitted = self._admit(request, caller)
        if isinstance(admitted, Replay):
            replayed = _reply(admitted.body, is_stream=admitted.is_stream, headers={"Idempotent-Replayed": "true"})
            return _kept_until_sent(replayed, caller, slot)
        self.running = running = Running(admitted, request._request.META.get("gunicorn.socket"))
        notes_of_api(request).completion_id = admitted.completion.id
        chat = admitted.request
        if not chat.contents.remote_images:
            return self._relay(chat, caller, slot, running)
        with ExitStack() as images:
            try:
                arrived = images.enter_context(process_bodies.counted(caller.account_id, image_fetches.bytes_max()))
                image_fetches.fetch(chat, arrived)
            except BaseException:
                charge.release(running)
                raise
            self.running = running = Running(admitted, running.client)  # the time for attempts begins now
            return self._relay(chat, caller, slot, running)

    def _relay(self, chat: ChatRequest, caller: Caller, slot: Slot, running: Running) -> HttpResponseBase:
        """Return the whole reply of an admitted request, or one that streams the rest of it."""
        admitted = running.admitted
        if chat.stream:
            assert isinstance(self.reply_format, ReplyFormat)
            stream = ReplyStream(running, slot.transfer(), self.reply_format)
            if stream.failure:
                self.read_on = stream
                raise stream.failure
            return _reply(stream, is_stream=True, headers=admitted.headers)
        reply = whole.relay(running, self.reply_format)
        return _kept_until_sent(_reply(reply, is_stream=False, headers=admitted.headers), caller, slot)

    def _admit(self, request: Request, caller: Caller) -> Admitted | Replay:
        meta = request._request.META
        run = runs.read_headers(meta) if runs.META_NAMES & meta.keys() else None
        raw = self.body.take()
        work_bytes = strict_json.work_bytes(raw)
        if work_bytes > large_work.LARGE_BYTES >= len(raw):  # larger bodies were looked at before they were received
            early_refusal.require_admissible(caller, request.META.get("HTTP_IDEMPOTENCY_KEY"))
        fields, chat = self.parse(request, raw, work_bytes)
        with refusal_cache.replay_or_record_before_admission(
            caller.key_id, chat.model, *[model_id for _, model_id in chat.fallbacks], preferences=chat.provider_preferences
        ):
            offers = eligibility.eligible_offers(chat, caller)
        idempotency_key = None
        if "HTTP_IDEMPOTENCY_KEY" in request._request.META:
            with large_work.turn(work_bytes):
                idempotency_key = idempotency.read_key(request, self.fingerprinted(fields))
        request_id = notes_of_api(request).id
        try:
            return admission.admit(admission.prepare(chat, offers, caller, idempotency_key, request_id=request_id, run=run))
        except errors.DataDemandUnmet as unmet:  # by the model that an alias stood for, or by the one provider to ask
            # The demands of the key are read under its lock. In a flood, the refusal cache spares the first admission.
            offers = eligibility.eligible_offers(chat, caller, unmet.demands)
            with suppress(errors.ModelNotAllowed):
                return admission.admit(admission.prepare(chat, offers, caller, idempotency_key, request_id=request_id, run=run))
            raise

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        """Add the headers that say how it was served, also to an error after the first attempt."""
        # An admitted reply has its rate limits and needs no renderer: REST framework would only add these headers.
        if _RATE_HEADER in response.headers and not isinstance(response, Response) and "Vary" not in self.headers:
            added = self.headers
        else:
            response, added = super().finalize_response(request, response, *args, **kwargs), {}
        if self.running and self.running.attempts:
            if self.has_replaced_text:
                self.running.ignored_fields.append(INVALID_CHARACTERS)
            added |= self.running.reply_headers()
        if self.running and (run := self.running.admitted.run):
            added |= run.headers(freed_nanos=self.running.freed_nanos)
        for name, value in added.items():
            response.headers[name] = value
        if self.read_on:
            run_once_sent(request, response, self.read_on.close)
        return response


@cache
def _parts(view: Callable[[], CompletionView]) -> dict[str, Any]:
    made = view()
    return {
        "parsers": made.get_parsers(),
        "authenticators": made.get_authenticators(),
        "negotiator": made.get_content_negotiator(),
    }


@cache
def _default_headers(view: Callable[[], CompletionView]) -> dict[str, str]:
    return dict(super(CompletionView, view()).default_response_headers)


def run_once_sent(request: Request, response: Any, run: Callable[[], None]) -> None:
    """Let the server call ``run`` when it has sent the whole response. The connection ends before."""
    client = request.META.get("gunicorn.socket")
    disconnects.end_with_reply(client)
    response._resource_closers += [partial(disconnects.hang_up, client), run]  # called in this order


def _take_slot(caller: Caller, idempotency_value: str | None) -> Slot:
    """Take a slot. If the deployment's maximum refuses it, and the key's own is not known yet, read the key and try again."""
    is_repeatable = idempotency_value is not None
    try:
        return slots.process_slots.take(caller.key_id, caller.account_id, is_repeatable=is_repeatable)
    except errors.TooManyInFlight:
        if limit_state_cache.in_flight(caller.key_id):
            raise
    early_refusal.require_admissible(caller, idempotency_value)
    return slots.process_slots.take(caller.key_id, caller.account_id, is_repeatable=is_repeatable)


class _StreamedResponse(StreamingHttpResponse):
    """A reply in parts that are bytes already: Django would make bytes of each."""

    def __iter__(self) -> Iterator[bytes]:
        return self._iterator  # type: ignore[attr-defined, no-any-return]


def _reply(body: bytes | ReplyStream, *, is_stream: bool, headers: dict[str, str]) -> HttpResponseBase:
    response = HttpResponse if isinstance(body, bytes) else _StreamedResponse
    if is_stream:
        return response(body, headers={**_STREAM_HEADERS, **headers, "Content-Type": "text/event-stream"})
    assert isinstance(body, bytes)
    length = {"Content-Length": str(len(body))}  # here, because RequestLogMiddleware would read the content once more for it
    return response(body, headers={"Cache-Control": "no-store", **headers, "Content-Type": "application/json", **length})


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
