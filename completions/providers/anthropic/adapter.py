"""The adapter for Anthropic's Messages API: api.anthropic.com, or a server with the same wire format."""

from collections.abc import Generator

from completions.chat import Call, ChatRequest, Chunk, WholeReply
from completions.providers import base, exchange
from completions.providers.anthropic import request as anthropic_request
from completions.providers.anthropic.response import StreamReader, is_account_error, parse_reply
from completions.providers.base import ProviderFailed
from gateway_project.net import http

_VERSION = "2023-06-01"  # of the wire format; there is no other


class AnthropicAdapter:
    """Uses Anthropic's own API: its OpenAI-compatible one reports less about caching, thinking and refusals."""

    def check(self, request: ChatRequest) -> None:
        anthropic_request.check(request)

    def ignored_fields(self, call: Call) -> list[str]:
        return anthropic_request.ignored_fields(call)

    def complete(self, call: Call) -> WholeReply:
        return exchange.read_whole(call, _post(call, stream=False), parse_reply)

    def stream(self, call: Call) -> Generator[list[Chunk], None, None]:
        yield from exchange.read_stream(call, _post(call, stream=True), StreamReader())


def _post(call: Call, *, stream: bool) -> http.UpstreamResponse:
    headers = {"anthropic-version": _VERSION}
    if call.route.api_key:
        headers["x-api-key"] = call.route.api_key
    try:
        return exchange.post(call, "/v1/messages", headers, anthropic_request.body(call, stream=stream), stream=stream)
    except ProviderFailed as failure:
        if is_account_error(failure.error.message):  # with status 400 it would read as the caller's fault
            raise ProviderFailed(base.status_error(402), upstream_worked=False) from failure
        raise
