"""The adapter for servers that speak OpenAI's Responses."""

from collections.abc import Generator
from functools import partial

from completions.chat import Call, ChatRequest, Chunk, WholeReply
from completions.providers import exchange, reported_usage, sealed_reasoning
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
        seal, searches = partial(sealed_reasoning.seal, call), call.request.web_search is not None
        parse = partial(parse_reply, seal=seal, tier=call.request.tier, searches=searches, report=reported_usage.of(call))
        return exchange.read_whole(_post(call, stream=False), parse)

    def stream(self, call: Call) -> Generator[list[Chunk], None, None]:
        searches = call.request.web_search is not None
        seal, report = partial(sealed_reasoning.seal, call), reported_usage.of(call)
        reader = StreamReader(seal, call.request.tier, searches=searches, report=report)
        return exchange.read_stream(partial(_post, call, stream=True), reader)


def _post(call: Call, *, stream: bool) -> exchange.Posted:
    return post(call, "/responses", responses_request.body, stream=stream)
