"""Recognizes the clients of OpenRouter, whose streams end with their usage whether or not it was asked for. Pure.

Sources: openrouter.ai's pages on app attribution and usage accounting, and what these send: ``openrouter`` 1.3.84 of PyPI and
``@openrouter/sdk`` 1.3 of npm name themselves at the end of their User-Agent, ``@openrouter/ai-sdk-provider`` 3.1 as
ai-sdk/openrouter.
"""

from collections.abc import Mapping
from typing import Any

from completions.chat import ChatRequest
from completions.request.fields import Fields

_HEADERS = {
    "HTTP_HTTP_REFERER",  # not Referer: OpenRouter's own
    *("HTTP_X_OPENROUTER_CATEGORIES", "HTTP_X_OPENROUTER_EXPERIMENTAL_METADATA", "HTTP_X_OPENROUTER_METADATA"),
    *("HTTP_X_OPENROUTER_TITLE", "HTTP_X_TITLE"),
}
# Beside ``provider`` and ``models``, which the documentation offers to OpenAI's clients, too.
_FIELDS = {"plugins", "preset", "reasoning", "route", "transforms"}


def expects_usage(chat: ChatRequest, meta: Mapping[str, Any]) -> bool:
    """Return whether a stream is for such a client, and does not say that it wants no usage."""
    fields = chat.fields
    if not (
        "openrouter" in meta.get("HTTP_USER_AGENT", "").lower()
        or not _HEADERS.isdisjoint(meta)
        or not _FIELDS.isdisjoint(fields)
    ):
        return False
    return not (_declines(fields.get("stream_options"), "include_usage") or _declines(fields.get("usage"), "include"))


def _declines(options: Fields | None, name: str) -> bool:
    return options is not None and options.get(name) is False
