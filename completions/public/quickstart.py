"""The quickstart at /docs: what to send, in curl, Python and TypeScript, and the lines that other programs need.

Each piece of code is a file in ``templates/docs/snippets``, with the address of the API and the ids of two models to fill in.
``tests/live/test_quickstart.py`` runs them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.template.loader import render_to_string

from completions.public.facts import Facts

LANGUAGES = {"curl": "curl", "python": "Python", "typescript": "TypeScript"}
_CONTEXT_WINDOW, _OUTPUT_TOKENS_MAX = 128_000, 4_096  # of a model that the catalog does not have


@dataclass(frozen=True)
class Topic:
    """Something that a request can do, with an example in each language. ``reference`` is the operation to read on at."""

    id: str
    title: str
    words: str
    reference: str


TOPICS = (
    Topic("chat", "Send a message", "The request and the reply of OpenAI’s chat completions.", "createChatCompletion"),
    Topic(
        "streaming",
        "Stream the reply",
        "Words arrive as the model writes them. The last chunk has the tokens that are charged.",
        "createChatCompletion",
    ),
    Topic(
        "tools",
        "Let the model call your functions",
        "The model names a function and its arguments. Call it, send the result, and ask again until it answers.",
        "createChatCompletion",
    ),
    Topic(
        "messages",
        "Anthropic’s Messages",
        "Anthropic’s SDKs work with every model, not only with Claude. Their base URL ends before /v1.",
        "createMessage",
    ),
    Topic("responses", "OpenAI’s Responses", "The newer API of OpenAI, with every model.", "createResponse"),
    Topic("embeddings", "Embeddings", "A text as numbers, for search and comparison.", "createEmbedding"),
    Topic(
        "errors",
        "Errors and retries",
        "Try again after a 408, 429, 502, 503 or 504, and wait as long as Retry-After says: the SDKs do so by themselves. With "
        "an Idempotency-Key a repetition gets the first reply again and costs nothing more.",
        "errors",
    ),
)


@dataclass(frozen=True)
class Example:
    """Code in one language."""

    language: str
    title: str
    code: str


def page(current: Facts, api_url: str) -> dict[str, Any]:
    """Return what the page shows."""
    values = values_of(current, api_url)
    return {
        "api_url": api_url,
        "topics": [(topic, examples(topic.id, values)) for topic in TOPICS],
        "install": code("install.sh", values),
        "moving": code("moving.sh", values),
        "claude_code": code("claude-code.sh", values),
        "codex": code("codex.toml", values),
        "aider": code("aider.sh", values),
        "opencode": code("opencode.json", values),
    }


def values_of(current: Facts, api_url: str) -> dict[str, Any]:
    """Return what the snippets are filled in with: models that can be called now, if there are such."""
    model_id, embedding_id = current.example, current.embedding_example
    model = current.models[model_id].model if model_id in current.models else None
    return {
        "api_url": api_url,
        "model_id": model_id,
        "tools_model_id": current.tools_example,
        "embedding_id": embedding_id,
        "context_window": model.context_window if model else _CONTEXT_WINDOW,
        "max_output_tokens": model.max_output_tokens if model else _OUTPUT_TOKENS_MAX,
    }


def examples(topic: str, values: Mapping[str, Any]) -> list[Example]:
    return [Example(language, title, code(f"{topic}.{language}", values)) for language, title in LANGUAGES.items()]


def code(name: str, values: Mapping[str, Any]) -> str:
    """Return the snippet of this name, filled in. It is plain text: whoever shows it escapes it."""
    return str(render_to_string(f"docs/snippets/{name}", dict(values))).rstrip("\n")
