"""The adapter for Google's Gemini API: generateContent and streamGenerateContent."""

from functools import partial
from urllib.parse import quote

from completions.chat import Call
from completions.providers import exchange, reading, reported_usage, sealed_reasoning
from completions.providers.gemini import request
from completions.providers.gemini.response import StreamReader, parse_reply, read_refusal
from completions.providers.http_adapter import HttpAdapter


class GeminiAdapter(HttpAdapter):
    """Uses Gemini's own API: its OpenAI-compatible one has fewer features and reports less of the usage."""

    check = staticmethod(request.check)
    ignored_fields = staticmethod(request.ignored_fields)
    switches_reasoning_off = staticmethod(request.switches_reasoning_off)

    def post(self, call: Call, *, stream: bool) -> exchange.Posted:
        method = "streamGenerateContent?alt=sse" if stream else "generateContent"
        return post(call, method, request.body, stream=stream)

    def readers(self, call: Call, *, stream: bool) -> tuple[reading.Parse, reading.MakeReader]:
        seal, report = partial(sealed_reasoning.seal, call), reported_usage.of(call, reported_usage.GEMINI)
        return partial(parse_reply, seal=seal, report=report), partial(StreamReader, seal, report)


def post(call: Call, method: str, build_fields: exchange.BodyBuilder, *, stream: bool) -> exchange.Posted:
    """Call a method of the model. The key is not in the address, because access logs would keep it. Raises ProviderFailed."""
    headers = {"x-goog-api-key": call.route.api_key} if call.route.api_key else {}
    path = f"/v1beta/models/{quote(call.route.upstream_model, safe='')}:{method}"
    return exchange.post(call, path, headers, build_fields, stream=stream, interpret=read_refusal)
