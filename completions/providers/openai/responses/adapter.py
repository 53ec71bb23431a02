"""The adapter for servers that speak OpenAI's Responses."""

from functools import partial

from completions.chat import Call
from completions.providers import reading, reported_usage, sealed_reasoning
from completions.providers.endpoints import Endpoint
from completions.providers.openai.adapter import OpenAIAdapter
from completions.providers.openai.responses import request
from completions.providers.openai.responses.response import StreamReader, parse_reply


class OpenAIResponsesAdapter(OpenAIAdapter):
    """Sends back what a model reasoned, and searches the web, which chat completions cannot."""

    endpoint = Endpoint("/responses")
    speaks_responses = True
    check = staticmethod(request.check)
    body = staticmethod(request.body)
    ignored_fields = staticmethod(request.ignored_fields)

    def readers(self, call: Call, *, stream: bool) -> tuple[reading.Parse, reading.MakeReader]:
        seal, report = partial(sealed_reasoning.seal, call), reported_usage.of(call)
        asked = {"seal": seal, "searches": call.request.web_search is not None, "report": report}
        return partial(parse_reply, **asked), partial(StreamReader, **asked)
