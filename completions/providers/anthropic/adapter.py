"""The adapter for Anthropic's Messages API: api.anthropic.com, or a server with the same wire format."""

from collections.abc import Generator
from functools import partial

from completions.chat import Call, ChatRequest, Chunk, Route, WholeReply
from completions.providers import custom_tools, exchange, reading, reported_usage, sealed_reasoning
from completions.providers.anthropic import request as anthropic_request
from completions.providers.anthropic import untranslated
from completions.providers.anthropic.response import StreamReader, parse_message, parse_reply, read_refusal
from completions.providers.reported_usage import MESSAGES
from completions.request.fields import Fields

_VERSION = "2023-06-01"  # of the wire format; there is no other


class AnthropicAdapter:
    """Uses Anthropic's own API: its OpenAI-compatible one reports less about caching, thinking and refusals."""

    # Its reference lists 159 to 530 by model and tool_choice (docs.anthropic.com/en/docs/tool-use-pricing-and-tokens), and says
    # that a JSON schema adds more. The rest is for models to come.
    preamble_tokens_max = 1_024
    speaks_messages = True
    speaks_responses = False

    def check(self, request: ChatRequest) -> None:
        if request.messages_body is None:
            anthropic_request.check(custom_tools.as_functions(request))

    def ignored_fields(self, call: Call) -> list[str]:
        given = call.request.messages_body
        return anthropic_request.ignored_fields(call) if given is None else untranslated.ignored_fields(call, given)

    def takes_tiers(self, route: Route) -> bool:
        return False

    def switches_reasoning_off(self, call: Call) -> bool:
        return anthropic_request.switches_reasoning_off(call)

    def complete(self, call: Call) -> WholeReply:
        seal, report = partial(sealed_reasoning.seal, call), reported_usage.of(call, MESSAGES)
        parse = partial(parse_reply, seal=seal) if call.request.messages_body is None else parse_message
        make_reader = partial(StreamReader, seal=seal, report=reported_usage.of(call, MESSAGES))
        return reading.read_whole(_post(call, stream=False), partial(parse, report=report), make_reader)

    def stream(self, call: Call) -> Generator[list[Chunk], None, None]:
        seal, report = partial(sealed_reasoning.seal, call), reported_usage.of(call, MESSAGES)
        parse = partial(parse_reply, seal=seal, report=reported_usage.of(call, MESSAGES))
        make_reader = partial(StreamReader, report=report)
        if call.request.messages_body is None:
            return reading.read_stream(partial(_post, call, stream=True), partial(make_reader, seal=seal), parse)
        return reading.read_stream(partial(_post, call, stream=True), partial(make_reader, keeps_events=True), parse)


def _post(call: Call, *, stream: bool) -> exchange.Posted:
    betas = anthropic_request.headers(call) if call.request.messages_body is None else untranslated.headers(call)
    headers = {"anthropic-version": _VERSION, **betas}
    if call.route.api_key:
        headers["x-api-key"] = call.route.api_key
    return exchange.post(call, "/v1/messages", headers, _body, stream=stream, interpret=read_refusal)


def _body(call: Call, *, stream: bool) -> Fields:
    given = call.request.messages_body
    if given is None:
        return anthropic_request.body(custom_tools.in_call(call), stream=stream)
    return untranslated.body(call, given, stream=stream)
