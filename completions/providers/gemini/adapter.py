"""The adapter for Google's Gemini API: generateContent and streamGenerateContent."""

from collections.abc import Generator
from functools import partial
from urllib.parse import quote

from completions.chat import Call, ChatRequest, Chunk, Route, WholeReply
from completions.providers import custom_tools, exchange, reading, reported_usage, sealed_reasoning
from completions.providers.gemini import request as gemini_request
from completions.providers.gemini import response
from completions.providers.gemini.response import StreamReader
from completions.providers.reported_usage import GEMINI
from completions.request.fields import Fields


class GeminiAdapter:
    """Uses Gemini's own API: its OpenAI-compatible one has fewer features and reports less of the usage."""

    preamble_tokens_max = 1_024  # its reference says nothing of it: as much as of the others
    speaks_messages = False
    speaks_responses = False

    def check(self, request: ChatRequest) -> None:
        gemini_request.check(custom_tools.as_functions(request))

    def ignored_fields(self, call: Call) -> list[str]:
        return gemini_request.ignored_fields(call)

    def takes_tiers(self, route: Route) -> bool:
        return False

    def switches_reasoning_off(self, call: Call) -> bool:
        return gemini_request.switches_reasoning_off(call)

    def complete(self, call: Call) -> WholeReply:
        seal, report = partial(sealed_reasoning.seal, call), reported_usage.of(call, GEMINI)
        parse = partial(response.parse_reply, seal=seal, report=report)
        return reading.read_whole(_post(call, "generateContent", stream=False), parse, partial(StreamReader, seal, report))

    def stream(self, call: Call) -> Generator[list[Chunk], None, None]:
        seal, report = partial(sealed_reasoning.seal, call), reported_usage.of(call, GEMINI)
        post = partial(_post, call, "streamGenerateContent?alt=sse", stream=True)
        parse = partial(response.parse_reply, seal=seal, report=report)
        return reading.read_stream(post, partial(StreamReader, seal, report), parse)


def _post(call: Call, method: str, *, stream: bool) -> exchange.Posted:
    # Not in the address, because access logs would keep it.
    headers = {"x-goog-api-key": call.route.api_key} if call.route.api_key else {}
    path = f"/v1beta/models/{quote(call.route.upstream_model, safe='')}:{method}"
    return exchange.post(call, path, headers, _body, stream=stream, interpret=response.read_refusal)


def _body(call: Call, *, stream: bool) -> Fields:
    return gemini_request.body(custom_tools.in_call(call), stream=stream)
