"""Providers, a file each, behind the one small interface of ``base``. This dict is the registry: kind -> adapter.

To add one: write ``<kind>.py`` with an Adapter, name it here and in ``Provider.Kind``, and give it a test that runs it
against a real HTTP server speaking its wire format. ``docs/providers.md`` is the checklist.
"""

from completions.providers.anthropic.adapter import AnthropicAdapter
from completions.providers.base import Adapter
from completions.providers.echo import EchoAdapter
from completions.providers.gemini.adapter import GeminiAdapter
from completions.providers.openai.adapter import OpenAIAdapter

ADAPTERS: dict[str, Adapter] = {
    "openai": OpenAIAdapter(),
    "anthropic": AnthropicAdapter(),
    "gemini": GeminiAdapter(),
    "echo": EchoAdapter(),
}
