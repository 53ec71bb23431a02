"""The adapter for Google's Gemini API: generateContent and streamGenerateContent."""

from functools import partial

from completions.chat import Call
from completions.providers import reading, reported_usage, sealed_reasoning
from completions.providers.endpoints import Endpoint
from completions.providers.gemini import request
from completions.providers.gemini.response import StreamReader, parse_reply, read_refusal
from completions.providers.http_adapter import HttpAdapter


def endpoint_of(method: str, stream_method: str = "") -> Endpoint:
    """Return where a method of a model is called."""
    path = "/v1beta/models/{model}:"
    return Endpoint(path + method, stream_method and path + stream_method, key_header="x-goog-api-key", key_form="{}")


class GeminiAdapter(HttpAdapter):
    """Uses Gemini's own API: its OpenAI-compatible one has fewer features and reports less of the usage."""

    endpoint = endpoint_of("generateContent", "streamGenerateContent?alt=sse")
    check = staticmethod(request.check)
    body = staticmethod(request.body)
    read_refusal = staticmethod(read_refusal)
    ignored_fields = staticmethod(request.ignored_fields)
    switches_reasoning_off = staticmethod(request.switches_reasoning_off)

    def readers(self, call: Call, *, stream: bool) -> tuple[reading.Parse, reading.MakeReader]:
        seal, report = partial(sealed_reasoning.seal, call), reported_usage.of(call, reported_usage.GEMINI)
        return partial(parse_reply, seal=seal, report=report), partial(StreamReader, seal, report)
