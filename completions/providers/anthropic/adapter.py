"""The adapter for Anthropic's Messages API: api.anthropic.com, or a server with the same wire format."""

from functools import partial

from completions.chat import Call, ChatRequest
from completions.providers import exchange, reading, reported_usage, sealed_reasoning
from completions.providers.anthropic import request as translated
from completions.providers.anthropic import untranslated
from completions.providers.anthropic.response import StreamReader, parse_message, parse_reply, read_refusal
from completions.providers.endpoints import Endpoint
from completions.providers.http_adapter import HttpAdapter
from completions.request.fields import Fields

_VERSION = "2023-06-01"  # of the wire format; there is no other


class AnthropicAdapter(HttpAdapter):
    """Uses Anthropic's own API: its OpenAI-compatible one reports less about caching, thinking and refusals."""

    endpoint = Endpoint("/v1/messages", key_header="x-api-key", key_form="{}")
    speaks_messages = True
    read_refusal = staticmethod(read_refusal)
    switches_reasoning_off = staticmethod(translated.switches_reasoning_off)

    def check(self, request: ChatRequest) -> None:
        if request.messages_body is None:
            translated.check(request)

    def ignored_fields(self, call: Call) -> list[str]:
        given = call.request.messages_body
        return translated.ignored_fields(call) if given is None else untranslated.ignored_fields(call, given)

    def body(self, call: Call, *, stream: bool) -> Fields:
        given = call.request.messages_body
        return translated.body(call, stream=stream) if given is None else untranslated.body(call, given, stream=stream)

    def post(self, call: Call, *, stream: bool, headers: dict[str, str] | None = None) -> exchange.Posted:
        betas = translated.headers(call) if call.request.messages_body is None else untranslated.headers(call)
        return super().post(call, stream=stream, headers={"anthropic-version": _VERSION, **betas})

    def readers(self, call: Call, *, stream: bool) -> tuple[reading.Parse, reading.MakeReader]:
        report, is_untranslated = reported_usage.of(call, reported_usage.MESSAGES), call.request.messages_body is not None
        seal = partial(sealed_reasoning.seal, call)
        parse: reading.Parse = partial(parse_reply, seal=seal, report=report)
        if not is_untranslated:
            return parse, partial(StreamReader, seal=seal, report=report)
        if stream:
            return parse, partial(StreamReader, keeps_events=True, report=report)
        return partial(parse_message, report=report), partial(StreamReader, seal=seal, report=report)
