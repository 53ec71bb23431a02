"""Requests that are in the language of the Messages API already: they are sent as they came, and so are their replies. Pure.

``completions.inbound.messages`` has checked them field by field, so that they have nothing that no price covers.
"""

from completions.chat import Call
from completions.request.fields import Fields

_NOT_SENT = frozenset({"context_management", "echo", "models", "provider"})  # the gateway's own, and what asks for nothing
# The betas that change neither the price nor what is kept. Others do: a longer context window, a longer time in the cache.
_PASSED_BETAS = frozenset(
    {
        "claude-code-20250219",
        "effort-2025-11-24",
        "fine-grained-tool-streaming-2025-05-14",
        "interleaved-thinking-2025-05-14",
        "output-128k-2025-02-19",
        "pdfs-2024-09-25",
        "prompt-caching-2024-07-31",
        "structured-outputs-2025-11-13",
        "token-efficient-tools-2025-02-19",
    }
)


def body(call: Call, given: Fields, *, stream: bool) -> Fields:
    """Return the body of POST /v1/messages: the caller's, with the model's name there and the tokens that the hold pays for."""
    fields = {name: value for name, value in given.items() if value is not None and name not in _NOT_SENT}
    return {**fields, "model": call.route.upstream_model, "max_tokens": call.max_tokens, "stream": stream}


def headers(call: Call) -> dict[str, str]:
    """Return the header with the betas that are passed on."""
    passed = [beta for beta in call.request.betas if beta in _PASSED_BETAS]
    return {"anthropic-beta": ",".join(passed)} if passed else {}


def ignored_fields(call: Call) -> list[str]:
    """Return the betas that are not passed on, and what only the gateway's own echo reads."""
    betas = [f"anthropic-beta.{beta}" for beta in call.request.betas if beta not in _PASSED_BETAS]
    return [*betas, *(name for name in ("echo",) if name in call.request.fields)]
