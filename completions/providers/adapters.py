"""The adapters of chat over HTTP: for each wire format where it is asked, what it is sent, and what reads its replies."""

from functools import partial

from completions.chat import Call, ChatRequest, Route
from completions.providers import exchange, reading, reported_usage, sealed_reasoning
from completions.providers.access import endpoints
from completions.providers.anthropic import fallbacks, untranslated
from completions.providers.anthropic import request as anthropic_request
from completions.providers.anthropic import response as anthropic_response
from completions.providers.gemini import request as gemini_request
from completions.providers.gemini import response as gemini_response
from completions.providers.http_adapter import HttpAdapter
from completions.providers.openai import request as openai_request
from completions.providers.openai import response as openai_response
from completions.providers.openai.responses import request as responses_request
from completions.providers.openai.responses import response as responses_response
from completions.request.fields import Fields


class OpenAIAdapter(HttpAdapter):
    """For servers that speak OpenAI's chat completions: OpenAI, vLLM, Ollama, Groq, OpenRouter and many more.

    Passes the choices of a stream on as their bytes. It accepts every request: a provider refuses what it cannot do.
    """

    endpoint = endpoints.OPENAI
    body = staticmethod(openai_request.body)
    read_refusal = staticmethod(openai_response.read_refusal)
    ignored_fields = staticmethod(openai_request.ignored_fields)
    takes_tiers = staticmethod(openai_request.takes_tiers)
    switches_reasoning_off = staticmethod(openai_request.switches_reasoning_off)

    def readers(self, call: Call, *, stream: bool) -> tuple[reading.Parse, reading.MakeReader]:
        seal, report = partial(sealed_reasoning.seal, call), reported_usage.of(call)
        parse = partial(openai_response.parse_reply, seal=seal, report=report)
        return parse, partial(openai_response.StreamReader, call.request.choices, seal, report)


class OpenAIResponsesAdapter(OpenAIAdapter):
    """Sends back what a model reasoned, and searches the web, which chat completions cannot."""

    endpoint = endpoints.OPENAI_RESPONSES
    speaks_responses = True
    check = staticmethod(responses_request.check)
    body = staticmethod(responses_request.body)
    ignored_fields = staticmethod(responses_request.ignored_fields)

    def readers(self, call: Call, *, stream: bool) -> tuple[reading.Parse, reading.MakeReader]:
        seal, report = partial(sealed_reasoning.seal, call), reported_usage.of(call)
        searches = call.request.web_search is not None
        parse = partial(responses_response.parse_reply, seal=seal, searches=searches, report=report)
        return parse, partial(responses_response.StreamReader, seal, searches=searches, report=report)


class AnthropicAdapter(HttpAdapter):
    """For Anthropic's own API: its OpenAI-compatible one reports less about caching, thinking and refusals."""

    endpoint = endpoints.ANTHROPIC
    speaks_messages = True
    read_refusal = staticmethod(anthropic_response.read_refusal)
    switches_reasoning_off = staticmethod(anthropic_request.switches_reasoning_off)

    def check(self, request: ChatRequest) -> None:
        if request.messages_body is None:
            anthropic_request.check(request)

    def ignored_fields(self, call: Call) -> list[str]:
        given = call.request.messages_body
        ignored = anthropic_request.ignored_fields(call) if given is None else untranslated.ignored_fields(call, given)
        return [*ignored, *(name for name in fallbacks.lacking_fields(call) if name not in ignored)]

    def body(self, call: Call, *, stream: bool) -> Fields:
        given = call.request.messages_body
        body = anthropic_request.body(call, stream=stream) if given is None else untranslated.body(call, given, stream=stream)
        return fallbacks.without_lacking(body, call.route.target.lacks)

    def post(self, call: Call, *, stream: bool, headers: dict[str, str] | None = None) -> exchange.Posted:
        betas = anthropic_request.headers(call) if call.request.messages_body is None else untranslated.headers(call)
        return super().post(call, stream=stream, headers={**betas, **(headers or {})})

    def readers(self, call: Call, *, stream: bool) -> tuple[reading.Parse, reading.MakeReader]:
        report, is_untranslated = reported_usage.of(call, reported_usage.MESSAGES), call.request.messages_body is not None
        seal = partial(sealed_reasoning.seal, call)
        parse: reading.Parse = partial(anthropic_response.parse_reply, seal=seal, report=report)
        make_reader = partial(anthropic_response.StreamReader, seal=seal, report=report)
        if is_untranslated and stream:
            make_reader = partial(anthropic_response.StreamReader, keeps_events=True, report=report)
        elif is_untranslated:
            parse = partial(anthropic_response.parse_message, report=report)
        return parse, make_reader


class GeminiAdapter(HttpAdapter):
    """For Gemini's own API: its OpenAI-compatible one has fewer features and reports less of the usage."""

    endpoint = endpoints.GEMINI
    check = staticmethod(gemini_request.check)
    body = staticmethod(gemini_request.body)
    read_refusal = staticmethod(gemini_response.read_refusal)
    switches_reasoning_off = staticmethod(gemini_request.switches_reasoning_off)

    def takes_tiers(self, route: Route) -> bool:
        return bool(route.target.tier_header)

    def ignored_fields(self, call: Call) -> list[str]:
        ignored = gemini_request.ignored_fields(call)
        return [name for name in ignored if name != "service_tier" or not self._tier(call)]

    def post(self, call: Call, *, stream: bool, headers: dict[str, str] | None = None) -> exchange.Posted:
        return super().post(call, stream=stream, headers={**self._tier(call), **(headers or {})})

    def _tier(self, call: Call) -> dict[str, str]:
        tier, header = call.request.tier, call.route.target.tier_header
        return {header: tier} if tier and header else {}

    def readers(self, call: Call, *, stream: bool) -> tuple[reading.Parse, reading.MakeReader]:
        seal, report = partial(sealed_reasoning.seal, call), reported_usage.of(call, reported_usage.GEMINI)
        parse = partial(gemini_response.parse_reply, seal=seal, report=report)
        return parse, partial(gemini_response.StreamReader, seal, report)
