"""POST /v1/responses, its quote and its input_tokens. Errors have the shape of all errors, and the caller's names of fields."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from functools import partial
from typing import Any
from uuid import UUID

from django.conf import settings
from django.http import HttpResponse
from django.http.response import HttpResponseBase
from rest_framework.request import Request
from rest_framework.response import Response

from completions.charging import admission, early_refusal, idempotency, stored_responses
from completions.charging.admission import Admitted
from completions.charging.idempotency import Replay
from completions.chat import ChatRequest
from completions.inbound import descriptions, quotes
from completions.inbound.chat_completions.serializers import Quote
from completions.inbound.completion_view import SMALL_BYTES, CompletionView, QuoteView, TranslatedView, run_once_sent
from completions.inbound.responses import background, compaction, history, keeping, reply, serializers
from completions.inbound.responses import request as responses_request
from completions.inbound.responses.keeping import Keeping
from completions.inbound.responses.tools import Called
from completions.relay import charge
from completions.relay.running import Running
from completions.relay.slots import Slot
from completions.request.fields import Fields, refuse
from gateway_project import errors, large_work
from gateway_project.db import pool
from gateway_project.text import compact_json
from gateway_project.web import strict_json
from gateway_project.web.bodies_in_flight import process_bodies
from gateway_project.web.request_notes import notes_of_api
from keys.authentication import Caller
from keys.models import ApiKey

_DESCRIPTION = (
    "OpenAI's Responses, for every model. A response is stored unless `store` is false, and a later request can continue "
    "from it. A stream has OpenAI's events."
)


class _ReadsResponses(TranslatedView):
    """Reads requests together with the stored items that they name."""

    called: Mapping[str, Called]  # of a request that has been read: ``ResponsePlaces.called``
    repeated: Fields  # of it: what the reply repeats
    earlier = 0  # items of its input that are of earlier responses
    unresolved: Fields | None = None  # while what the request names is read

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.in_memory = ExitStack()  # counts what the request named, until its reply begins

    def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> HttpResponseBase:
        with self.in_memory:
            return super().dispatch(request, *args, **kwargs)

    def parse(self, request: Request, raw: bytes, work_bytes: int) -> tuple[Fields, ChatRequest]:
        with large_work.turn(work_bytes) as pause:
            fields, raw = self.prepared(*self.load(raw, pause))
            notes_of_api(request).model_id = fields.get("model")
            if not history.names_any(fields):
                return fields, self.read(fields, raw if len(raw) > SMALL_BYTES else None, pause)
        return fields, self._read_resolved(fields, work_bytes)

    def _read_resolved(self, fields: Fields, own_bytes: int) -> ChatRequest:
        """Read a request of ``own_bytes`` together with the stored items that it names."""
        self.unresolved = fields
        named = history.measure(fields, self.account_id)
        if named.size_bytes > large_work.LARGE_BYTES:
            self.require_admissible()
            self.in_memory.enter_context(process_bodies.counted(self.account_id, named.size_bytes))(named.size_bytes)
        found = named.read()
        pool.release_connection()  # it may wait for its turn
        with large_work.turn(named.size_bytes + own_bytes):
            raw, self.earlier = found.resolve(fields)
        with large_work.turn(strict_json.work_bytes(raw)) as pause:
            try:
                resolved = strict_json.loads(raw, syntax_max=settings.REQUEST_SYNTAX_MAX, pause=pause)
            except errors.InvalidRequest as error:
                raise errors.wrong(history.PREVIOUS if self.earlier else "input", f"is too much: {error.message}") from None
            request = self.read(resolved, raw if len(raw) > SMALL_BYTES else None, pause)
        self.unresolved = None
        return request

    def prepared(self, fields: Fields, raw: bytes) -> tuple[Fields, bytes]:
        """Return the body to read, parsed and as bytes."""
        return fields, raw

    def read(self, fields: Fields, raw: bytes | None, pause: Callable[[], None]) -> ChatRequest:
        request, places, self.repeated = responses_request.parse(
            fields, raw, pause, earlier=self.earlier, account_id=self.account_id
        )
        self.places, self.called = places, places.called
        return request

    @property
    def account_id(self) -> UUID:
        key = self.request.auth  # also of a Caller
        assert isinstance(key, ApiKey | Caller)
        return key.account_id

    def require_admissible(self) -> None:
        """Raise the refusal of a key before stored responses are read for it. A read was authenticated with its key."""


@descriptions.completion(
    "createResponse",
    "Generate a reply, in OpenAI's Responses",
    _DESCRIPTION,
    request=serializers.ModelResponseRequest,
    reply=serializers.ModelResponse,
    event=serializers.STREAM_EVENT,
)
class ResponsesView(_ReadsResponses, CompletionView):
    """One request in the language of OpenAI's Responses. It goes the way of every completion."""

    fingerprinted_path = "/v1/responses"
    reply_format: reply.ResponsesFormat
    keeping: Keeping | None = None
    is_background = False
    run_on: Callable[[], None] | None = None  # once the reply is sent, which says that the response will run

    def require_admissible(self) -> None:
        caller = self.request.user
        assert isinstance(caller, Caller)
        early_refusal.require_admissible(caller, self.request.META.get("HTTP_IDEMPOTENCY_KEY"))

    def read(self, fields: Fields, raw: bytes | None, pause: Callable[[], None]) -> ChatRequest:
        request = super().read(fields, raw, pause)
        compacts = compaction.is_asked_for(fields["input"])  # its conversation ends here: nothing is stored
        if fields.get("store") is not False and stored_responses.are_kept() and not compacts:
            own = fields["input"][self.earlier :] if self.earlier else fields["input"]
            previous_id, self.is_background = fields.get(history.PREVIOUS), fields.get("background") is True
            self.keeping = keeping.keep(self.account_id, own, previous_id, is_background=self.is_background)
            self.in_memory.enter_context(self._counting_input())
        if fields.get("background") and self.keeping is None:
            why = "because it is a compaction, too large, or none is"
            refuse("background", f"must be false: the response could not be stored, {why}")
        if self.is_background and request.contents.remote_images:
            refuse("background", "must be false with images by address: send them as data URLs")
        self.reply_format = reply.ResponsesFormat(
            self.repeated,
            self.called,
            searches=request.web_search is not None,
            encrypts_reasoning=responses_request.ENCRYPTED in (fields.get("include") or ()),
            kept=self.keeping,
            compacts=compacts,
        )
        return request

    def _admit(self, request: Request, caller: Caller) -> Admitted | Replay:
        try:
            return super()._admit(request, caller)
        except errors.InvalidRequest:
            if replay := self._find_replay(request, caller):
                return replay
            raise

    def _find_replay(self, request: Request, caller: Caller) -> Replay | None:
        """Return the stored reply to a repetition whose request cannot be resolved, because a response it names was deleted."""
        fields, self.unresolved = self.unresolved, None
        if fields is None or not isinstance(fields.get("model"), str):
            return None
        idempotency_key = idempotency.read_key(request, self.fingerprinted(fields))
        return admission.replay(fields["model"], caller, idempotency_key) if idempotency_key else None

    def _relay(self, chat: ChatRequest, caller: Caller, slot: Slot, running: Running) -> HttpResponseBase:
        if self.is_background:
            return self._begin(slot, running)
        response = super()._relay(chat, caller, slot, running)
        if response.streaming and self.keeping:
            kept = ExitStack()
            kept.enter_context(self._counting_input())
            response._resource_closers.append(kept.close)  # type: ignore[attr-defined]  # Django closes iterators so
        return response

    def _counting_input(self) -> AbstractContextManager[None]:
        """Count a large input that is to be stored during the block: it stays in memory until then."""
        size_bytes = len(self.keeping.sealed_input) if self.keeping else 0
        is_large = size_bytes > large_work.LARGE_BYTES
        return process_bodies.counted_reply(self.account_id, size_bytes) if is_large else nullcontext()

    def _begin(self, slot: Slot, running: Running) -> HttpResponseBase:
        """Reply that an admitted request is queued. It runs when the server has sent this reply."""
        try:
            if (kept := self.reply_format.keeping(running)) is None:
                raise errors.wrong("background", "must be false: the account stores no responses, or zdr is demanded")
            body = background.begin(running, self.reply_format, kept)
        except BaseException:
            charge.release(running)
            raise
        running.client, running.has_replied = None, True  # the client may leave
        self.run_on = partial(background.run, running, self.reply_format, slot.transfer(), len(kept.sealed_input))
        headers = {"Cache-Control": "no-store", **running.admitted.headers}
        return HttpResponse(body, content_type="application/json", headers=headers)

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        response = super().finalize_response(request, response, *args, **kwargs)
        if self.run_on:
            run_once_sent(request, response, self.run_on)
        return response


@descriptions.completion(
    "compactResponse",
    "Compact a conversation, in OpenAI's Responses",
    "The model sums the conversation up. Send the output as the beginning of the next input.",
    request=serializers.ModelResponseRequest,
    reply=serializers.CompactedResponse,
)
class CompactionView(ResponsesView):
    """Sums a conversation up: a request for a response whose last item asks for that, with a reply of its own."""

    fingerprinted_path = "/v1/responses/compact"

    def prepared(self, fields: Fields, raw: bytes) -> tuple[Fields, bytes]:
        for name in ("background", "stream"):
            if fields.get(name):
                refuse(name, "must be false: a compaction is replied to as a whole")
        items = keeping.as_items(fields.get("input") or [])
        if not isinstance(items, list):
            refuse("input", "must be a string or an array of items")
        asking = {**fields, "input": [*items, {"type": compaction.TRIGGER}]}
        return asking, compact_json.dumps(asking) if len(raw) > SMALL_BYTES else raw

    def read(self, fields: Fields, raw: bytes | None, pause: Callable[[], None]) -> ChatRequest:
        request = super().read(fields, raw, pause)
        of_user = compaction.messages_of_user(fields["input"])
        if (size_bytes := len(bytes(of_user))) > large_work.LARGE_BYTES:
            self.in_memory.enter_context(process_bodies.counted_reply(self.account_id, size_bytes))
        self.reply_format = reply.CompactedFormat({}, {}, compacts=True, of_user=of_user)
        return request


@descriptions.reading(
    "createResponseQuote", "Quote a completion, in OpenAI's Responses", serializers.ModelResponseRequest, Quote
)
class ResponseQuoteView(_ReadsResponses, QuoteView):
    """The hold and the maximum cost of a request in OpenAI's Responses."""


class InputTokensView(_ReadsResponses):
    """Estimates the input of a request, and asks no provider. It counts as a read of the key."""

    @descriptions.reading(
        "countResponseInputTokens",
        "Estimate the tokens of an input, in OpenAI's Responses",
        serializers.ModelResponseRequest,
        serializers.InputTokensCount,
        descriptions.ESTIMATE,
        auth=descriptions.AUTH,
    )
    def post(self, request: Request) -> Response:
        with self.reading(request) as (key, chat):
            return Response({"object": "response.input_tokens", "input_tokens": quotes.likely_prompt_tokens(key, chat)})
