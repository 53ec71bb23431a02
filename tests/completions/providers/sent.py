"""What each kind of provider is sent for a request in one of the callers' languages: asked of the code, without a database."""

from typing import Any

from completions.chat import ChatRequest
from completions.inbound.messages import request as messages
from completions.inbound.responses import request as responses
from completions.providers import ADAPTERS
from completions.providers.http_adapter import HttpAdapter
from completions.request import schema
from tests.completions.offers import make_call, make_offer

# A provider -> its kind, its address, and a model of it.
PROVIDERS = {
    "anthropic": ("anthropic", "https://api.anthropic.com", "claude-haiku-4-5"),
    "gemini": ("gemini", "https://generativelanguage.googleapis.com", "gemini-3.5-flash"),
    "gemini 2.5": ("gemini", "https://generativelanguage.googleapis.com", "gemini-2.5-flash"),
    "gemini 1.5": ("gemini", "https://generativelanguage.googleapis.com", "gemini-1.5-flash"),
    "openai": ("openai", "https://api.openai.com/v1", "gpt-4.1"),
    "responses": ("openai-responses", "https://api.openai.com/v1", "gpt-5"),
    "mistral": ("openai", "https://api.mistral.ai/v1", "mistral-large"),
    "own": ("openai", "http://127.0.0.1:9", "m"),
}


def sent(provider: str, language: str = "chat", **fields: Any) -> tuple[dict[str, Any], str]:
    """Return the body that a provider is sent, and the fields that it is not sent, as the header names them to the caller.

    Raises InvalidRequest, in the words of the chat request for chat and of the adapters.
    """
    request, rename = _READERS[language]({"model": "acme/m", **fields})
    kind, base_url, model = PROVIDERS[provider]
    call, adapter = make_call(request, make_offer(kind, model, base_url=base_url), 4_000), ADAPTERS[kind]
    assert isinstance(adapter, HttpAdapter)
    adapter.check(request)
    ignored = adapter.ignored_fields(call)
    return adapter.body(call, stream=False), ", ".join(dict.fromkeys(rename(name) for name in ignored))


def _chat(body: dict[str, Any]) -> tuple[ChatRequest, Any]:
    return schema.parse(body), str


def _messages(body: dict[str, Any]) -> tuple[ChatRequest, Any]:
    request, found = messages.parse({"max_tokens": 4_000, **body})
    return request, found.rename


def _responses(body: dict[str, Any]) -> tuple[ChatRequest, Any]:
    request, found, _ = responses.parse(body)
    return request, found.rename


_READERS = {"chat": _chat, "messages": _messages, "responses": _responses}
