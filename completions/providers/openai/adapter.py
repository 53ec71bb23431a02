"""The adapter for servers that speak OpenAI's chat completions: OpenAI, vLLM, Ollama, Groq, OpenRouter and many more."""

from collections.abc import Generator
from functools import partial

from completions.chat import Call, ChatRequest, Chunk, Route, WholeReply
from completions.providers import exchange, reading, reported_usage, sealed_reasoning
from completions.providers.openai import request as openai_request
from completions.providers.openai.response import StreamReader, parse_reply, read_refusal


class OpenAIAdapter:
    """Speaks the format of this gateway's own API, so the choices of a stream are passed on as the bytes they arrived in."""

    # Chat templates of open models explain how to call a tool in 100 to 500 tokens.
    preamble_tokens_max = 1_024
    speaks_messages = False
    speaks_responses = False

    def check(self, request: ChatRequest) -> None:
        openai_request.check(request)

    def ignored_fields(self, call: Call) -> list[str]:
        return openai_request.ignored_fields(call)

    def takes_tiers(self, route: Route) -> bool:
        return openai_request.takes_tiers(route)

    def switches_reasoning_off(self, call: Call) -> bool:
        return openai_request.switches_reasoning_off(call)

    def complete(self, call: Call) -> WholeReply:
        seal, report = partial(sealed_reasoning.seal, call), reported_usage.of(call)
        parse = partial(parse_reply, seal=seal, report=report)
        make_reader = partial(StreamReader, call.request.choices, seal, report)
        return reading.read_whole(_post(call, stream=False), parse, make_reader)

    def stream(self, call: Call) -> Generator[list[Chunk], None, None]:
        seal, report = partial(sealed_reasoning.seal, call), reported_usage.of(call)
        parse = partial(parse_reply, seal=seal, report=report)
        make_reader = partial(StreamReader, call.request.choices, seal, report)
        return reading.read_stream(partial(_post, call, stream=True), make_reader, parse)


def post(call: Call, path: str, build_fields: exchange.BodyBuilder, *, stream: bool) -> exchange.Posted:
    """Send a request with the provider's key. Raises ProviderFailed."""
    headers = {"Authorization": f"Bearer {call.route.api_key}"} if call.route.api_key else {}
    return exchange.post(call, path, headers, build_fields, stream=stream, interpret=read_refusal)


def _post(call: Call, *, stream: bool) -> exchange.Posted:
    return post(call, "/chat/completions", openai_request.body, stream=stream)
