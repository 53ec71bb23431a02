"""The adapter for servers that speak OpenAI's Responses."""

from functools import partial

from completions.chat import Call
from completions.providers import exchange, reading, reported_usage, sealed_reasoning
from completions.providers.openai.adapter import OpenAIAdapter, post
from completions.providers.openai.responses import request
from completions.providers.openai.responses.response import StreamReader, parse_reply


class OpenAIResponsesAdapter(OpenAIAdapter):
    """Sends back what a model reasoned, and searches the web, which chat completions cannot."""

    speaks_responses = True
    check = staticmethod(request.check)
    ignored_fields = staticmethod(request.ignored_fields)

    def post(self, call: Call, *, stream: bool) -> exchange.Posted:
        return post(call, "/responses", request.body, stream=stream)

    def readers(self, call: Call, *, stream: bool) -> tuple[reading.Parse, reading.MakeReader]:
        seal, report = partial(sealed_reasoning.seal, call), reported_usage.of(call)
        searches = call.request.web_search is not None
        parse = partial(parse_reply, seal=seal, searches=searches, report=report)
        return parse, partial(StreamReader, seal, searches=searches, report=report)
