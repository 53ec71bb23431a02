"""The adapter for servers that speak OpenAI's Responses."""

from collections.abc import Generator
from functools import partial

from completions.chat import Call, ChatRequest, Chunk, WholeReply
from completions.providers import exchange, reading, reported_usage, sealed_reasoning
from completions.providers.openai.adapter import OpenAIAdapter, post
from completions.providers.openai.responses import request as responses_request
from completions.providers.openai.responses.response import StreamReader, parse_reply


class OpenAIResponsesAdapter(OpenAIAdapter):
    """Sends back what a model reasoned, and searches the web, which chat completions cannot."""

    speaks_responses = True

    def check(self, request: ChatRequest) -> None:
        responses_request.check(request)

    def ignored_fields(self, call: Call) -> list[str]:
        return responses_request.ignored_fields(call)

    def complete(self, call: Call) -> WholeReply:
        return reading.read_whole(_post(call, stream=False), *_readers(call))

    def stream(self, call: Call) -> Generator[list[Chunk], None, None]:
        parse, make_reader = _readers(call)
        return reading.read_stream(partial(_post, call, stream=True), make_reader, parse)


def _readers(call: Call) -> tuple[reading.Parse, reading.MakeReader]:
    """Return what reads a whole reply, and what makes the reader of a stream."""
    seal, report = partial(sealed_reasoning.seal, call), reported_usage.of(call)
    searches = call.request.web_search is not None
    parse = partial(parse_reply, seal=seal, searches=searches, report=report)
    return parse, partial(StreamReader, seal, searches=searches, report=report)


def _post(call: Call, *, stream: bool) -> exchange.Posted:
    return post(call, "/responses", responses_request.body, stream=stream)
