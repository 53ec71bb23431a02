"""The adapter for servers that speak OpenAI's chat completions: OpenAI, vLLM, Ollama, Groq, OpenRouter and many more."""

from functools import partial

from completions.chat import Call
from completions.providers import reading, reported_usage, sealed_reasoning
from completions.providers.endpoints import Endpoint
from completions.providers.http_adapter import HttpAdapter
from completions.providers.openai import request
from completions.providers.openai.response import StreamReader, parse_reply, read_refusal


class OpenAIAdapter(HttpAdapter):
    """Passes the choices of a stream on as their bytes. It accepts every request: a provider refuses what it cannot do."""

    endpoint = Endpoint("/chat/completions")
    body = staticmethod(request.body)
    read_refusal = staticmethod(read_refusal)
    ignored_fields = staticmethod(request.ignored_fields)
    takes_tiers = staticmethod(request.takes_tiers)
    switches_reasoning_off = staticmethod(request.switches_reasoning_off)

    def readers(self, call: Call, *, stream: bool) -> tuple[reading.Parse, reading.MakeReader]:
        seal, report = partial(sealed_reasoning.seal, call), reported_usage.of(call)
        parse = partial(parse_reply, seal=seal, report=report)
        return parse, partial(StreamReader, call.request.choices, seal, report)
