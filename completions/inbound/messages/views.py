"""POST /v1/messages, and its quote and count_tokens. Each reply has Anthropic's headers, and each error its shape."""

import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from completions.chat import ChatRequest
from completions.inbound import descriptions, quotes
from completions.inbound.chat_completions.serializers import Quote
from completions.inbound.completion_view import CompletionView, QuoteView, TranslatedView
from completions.inbound.messages import reply, serializers, tools
from completions.inbound.messages import request as messages_request
from completions.request import schema
from completions.request.fields import Fields
from gateway_project import errors
from gateway_project.text import compact_json
from gateway_project.web.request_notes import notes_of_api

_DURATION = re.compile(r"(?:(\d+)m(?!s))?(?:(\d+)s)?(?:(\d+)ms)?", re.ASCII)  # as ``go_duration`` of keys writes it
_DESCRIPTION = (
    "Anthropic's Messages, for every model. A stream has Anthropic's events. Errors have Anthropic's shape: "
    '`{"type": "error", "error": {"type", "message"}, "request_id"}`.'
)


class _ReadsMessages(TranslatedView):
    """Reads requests, adds Anthropic's headers to every reply, and writes errors in its shape."""

    def error_reply(self, error: errors.ApiError) -> Any:
        response = super().error_reply(error)
        request_id = notes_of_api(self.request).id
        response.content = compact_json.dumps(reply.error_object(error, request_id))
        response.status_code = reply.error_status(error)
        return response

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        response = super().finalize_response(request, response, *args, **kwargs)
        response["request-id"] = notes_of_api(request).id
        for name, value in _rate_limits(response.headers, datetime.now(UTC)).items():
            response[name] = value
        return response

    def read(self, fields: Fields, raw: bytes | None, pause: Callable[[], None]) -> ChatRequest:
        request, self.places = messages_request.parse(fields, raw, self.request.META.get("HTTP_ANTHROPIC_BETA", ""), pause)
        return request


@descriptions.completion(
    "createMessage",
    "Generate a reply, in Anthropic's Messages",
    _DESCRIPTION,
    request=serializers.MessageRequest,
    reply=serializers.Message,
    event=serializers.STREAM_EVENT,
    headers=[descriptions.MAX_TOKENS],
)
class MessagesView(_ReadsMessages, CompletionView):
    """One request in the language of Anthropic's Messages. It goes the way of every completion."""

    reply_format = reply.MessagesFormat()
    fingerprinted_path = "/v1/messages"

    def read(self, fields: Fields, raw: bytes | None, pause: Callable[[], None]) -> ChatRequest:
        request = super().read(fields, raw, pause)
        if names := tools.long_names(fields.get("tools") or []):
            self.reply_format = reply.MessagesFormat(names)
        return request


@descriptions.reading(
    "createMessageQuote",
    "Quote a completion, in Anthropic's Messages",
    serializers.MessageRequest,
    Quote,
    auth=descriptions.AUTH,
)
class MessageQuoteView(_ReadsMessages, QuoteView):
    """The hold and the maximum cost of a request in Anthropic's Messages."""


class CountTokensView(_ReadsMessages):
    """Estimates the prompt of a request, and asks no provider. It counts as a read of the key."""

    def read(self, fields: Fields, raw: bytes | None, pause: Callable[[], None]) -> ChatRequest:
        chat, self.places = messages_request.parse({"max_tokens": schema.MAX_TOKENS_MAX, **fields}, raw, pause=pause)
        return chat

    @descriptions.reading(
        "countMessageTokens",
        "Estimate the tokens of a prompt, in Anthropic's Messages",
        serializers.MessageTokensCountRequest,
        serializers.MessageTokensCount,
        descriptions.ESTIMATE,
        auth=descriptions.AUTH,
    )
    def post(self, request: Request) -> Response:
        with self.reading(request) as (key, chat):
            return Response({"input_tokens": quotes.likely_prompt_tokens(key, chat)})


def _rate_limits(ours: Mapping[str, str], now: datetime) -> dict[str, str]:
    """Return anthropic-ratelimit-* for the x-ratelimit-* of a reply. A reset is a time there, in whole seconds, rounded up."""
    named = {}
    for what in ("requests", "tokens"):
        if (limit := ours.get(f"x-ratelimit-limit-{what}")) is None:
            continue
        reset_at = now + _duration(ours[f"x-ratelimit-reset-{what}"])
        named[f"anthropic-ratelimit-{what}-limit"] = limit
        named[f"anthropic-ratelimit-{what}-remaining"] = ours[f"x-ratelimit-remaining-{what}"]
        named[f"anthropic-ratelimit-{what}-reset"] = reset_at.strftime("%Y-%m-%dT%H:%M:%SZ")
    return named


def _duration(text: str) -> timedelta:
    found = _DURATION.fullmatch(text)
    minutes, seconds, milliseconds = (int(number or 0) for number in found.groups()) if found else (0, 0, 0)
    return timedelta(minutes=minutes, seconds=seconds + math.ceil(milliseconds / 1000))
