"""The completion interface under /v1. Each view translates and makes one call inward."""

from collections.abc import Callable
from typing import Any

from django.http import HttpResponse
from msgspec import structs
from rest_framework.request import Request
from rest_framework.response import Response

from completions.chat import ChatRequest, RequestBody
from completions.inbound import descriptions
from completions.inbound.chat_completions import clients, serializers
from completions.inbound.chat_completions.completion_object import describe_completion
from completions.inbound.completion_view import CompletionView, QuoteView, RatedView, json_reply
from completions.relay.reply_format import ChatFormat
from completions.request import schema
from completions.request.fields import Fields
from gateway_project import errors
from gateway_project.web import wrong_paths
from keys.authentication import AnyCallerAuthentication
from keys.usage import describe_usage

_COMPLETION_DESCRIPTION = (
    "Sends a conversation to a model and returns its reply, whole or as a stream of server-sent events. Each event of a stream "
    "is `data: ` and a chat.completion.chunk; the last is `data: [DONE]`. A stream that fails after its beginning ends with "
    '`data: {"error": {...}}` instead.'
)


@descriptions.completion(
    "createChatCompletion",
    "Generate a reply",
    _COMPLETION_DESCRIPTION,
    request=serializers.ChatCompletionRequest,
    reply=serializers.ChatCompletion,
    event=serializers.CHAT_COMPLETION_STREAM_EVENT,
)
class ChatCompletionsView(CompletionView):
    """One chat request, in OpenAI's language, which is also the gateway's own."""

    reply_format = ChatFormat()

    def read(self, fields: Fields, raw: bytes | None, pause: Callable[[], None]) -> ChatRequest:
        chat = schema.parse(RequestBody(fields, raw), pause)
        if chat.stream and clients.expects_usage(chat, self.request._request.META):
            return structs.replace(chat, include_usage=True, has_null_usage=False)
        return chat


@descriptions.reading("createQuote", "Quote a completion", serializers.ChatCompletionRequest, serializers.Quote)
class ChatQuoteView(QuoteView):
    """The hold and the maximum cost of a chat request."""


class PastCompletionView(RatedView):
    """The history of one completion of the account, from the moment on in which its reply has ended."""

    @descriptions.key_read(
        "retrieveCompletion",
        "Retrieve what happened to a completion",
        "Who answered a completion of the account, its tokens, its exact cost and how it was settled.",
        serializers.PastCompletion,
        errors.PathNotFound,
    )
    def get(self, request: Request, completion_id: str) -> HttpResponse:
        return json_reply(describe_completion(completion_id, self.key.account_id))


class UsageView(RatedView):
    """The used and remaining amounts of the key and its account. Also replies when either is exhausted: then a caller asks."""

    @descriptions.key_read(
        "retrieveUsage",
        "Retrieve the key's usage",
        "What the key has used, its limits, and the account's balance. Also when one of them is used up.",
        serializers.KeyUsage,
    )
    def get(self, request: Request) -> Response:
        return Response(describe_usage(self.key))


class UnknownPathView(RatedView):
    """Every other path under /v1: 404 for any caller, with what to use instead."""

    authentication_classes = [AnyCallerAuthentication]
    permission_classes = []
    schema = None

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        raise errors.PathNotFound(wrong_paths.message(request._request))
