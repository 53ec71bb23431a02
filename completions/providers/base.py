"""What a provider must do: answer whole, answer in chunks, and fail in one way."""

from collections.abc import Generator
from typing import Any, Protocol, TypeGuard

from completions.chat import Answer, Call, ChatRequest, Chunk, Usage
from gateway_project import errors

TOKENS_MAX = 1_000_000_000  # no reply has more; a larger figure is not a usage


class ProviderFailed(Exception):
    """The upstream did not answer, or not to the end.

    ``error`` is what the caller is told. ``upstream_worked``: its 2xx says that inference began, so the prompt is charged;
    unless nothing that followed could be read.
    """

    def __init__(self, error: errors.ApiError, *, upstream_worked: bool) -> None:
        super().__init__(error.message)
        self.error = error
        self.upstream_worked = upstream_worked


class Adapter(Protocol):
    def check(self, request: ChatRequest) -> None:
        """Raise InvalidRequest for what this provider cannot do, before any money is held."""

    def complete(self, call: Call) -> Answer:
        """The whole reply. Raises ProviderFailed."""

    def stream(self, call: Call) -> Generator[list[Chunk], None, None]:
        """The reply as it arrives: each list is what one read brought. An empty list says that nothing came for a while.

        Raises ProviderFailed, also in the middle; ends only after a finish reason. Closing the iterator frees the upstream.
        """


def usage_from_openai(value: Any) -> Usage | None:
    """OpenAI's usage object, or None when it is not one that can be true. Zeros are honoured."""
    if not isinstance(value, dict):
        return None
    prompt, completion = value.get("prompt_tokens"), value.get("completion_tokens")
    if not (is_count(prompt) and is_count(completion)):
        return None
    cached = _detail(value, "prompt_tokens_details", "cached_tokens")
    reasoning = _detail(value, "completion_tokens_details", "reasoning_tokens")
    return Usage(prompt, completion, cached_tokens=min(cached, prompt), reasoning_tokens=min(reasoning, completion))


def is_count(value: Any) -> TypeGuard[int]:
    """A whole number of tokens that some model could have read or written."""
    return type(value) is int and 0 <= value <= TOKENS_MAX


def _detail(usage: dict[str, Any], group: str, name: str) -> int:
    details = usage.get(group)
    value = details.get(name) if isinstance(details, dict) else None
    return value if is_count(value) else 0
