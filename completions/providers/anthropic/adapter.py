"""The adapter for Anthropic's Messages API: api.anthropic.com, or a server with the same wire format."""

from functools import partial

from completions.chat import Call, ChatRequest
from completions.providers import exchange, reading, reported_usage, sealed_reasoning
from completions.providers.anthropic import request as translated
from completions.providers.anthropic import untranslated
from completions.providers.anthropic.response import StreamReader, parse_message, parse_reply, read_refusal
from completions.providers.http_adapter import HttpAdapter
from completions.request.fields import Fields

_VERSION = "2023-06-01"  # of the wire format; there is no other


class AnthropicAdapter(HttpAdapter):
    """Uses Anthropic's own API: its OpenAI-compatible one reports less about caching, thinking and refusals."""

    speaks_messages = True
    switches_reasoning_off = staticmethod(translated.switches_reasoning_off)

    def check(self, request: ChatRequest) -> None:
        if request.messages_body is None:
            translated.check(request)

    def ignored_fields(self, call: Call) -> list[str]:
        given = call.request.messages_body
        return translated.ignored_fields(call) if given is None else untranslated.ignored_fields(call, given)

    def post(self, call: Call, *, stream: bool) -> exchange.Posted:
        betas = translated.headers(call) if call.request.messages_body is None else untranslated.headers(call)
        headers = {"anthropic-version": _VERSION, **betas}
        if call.route.api_key:
            headers["x-api-key"] = call.route.api_key
        return exchange.post(call, "/v1/messages", headers, _body, stream=stream, interpret=read_refusal)

    def readers(self, call: Call, *, stream: bool) -> tuple[reading.Parse, reading.MakeReader]:
        seal, of_call = partial(sealed_reasoning.seal, call), partial(reported_usage.of, call, reported_usage.MESSAGES)
        parse: reading.Parse = partial(parse_reply, seal=seal, report=of_call())
        make_reader = partial(StreamReader, seal=seal, report=of_call())
        if call.request.messages_body is None:
            return parse, make_reader
        if stream:
            return parse, partial(StreamReader, keeps_events=True, report=of_call())
        return partial(parse_message, report=of_call()), make_reader


def _body(call: Call, *, stream: bool) -> Fields:
    given = call.request.messages_body
    return translated.body(call, stream=stream) if given is None else untranslated.body(call, given, stream=stream)
