"""The quickstart at /docs: what to send, in curl, Python and TypeScript, and the lines that other programs need.

Each piece of code is a file in ``templates/docs/snippets``, with the address of the API and the ids of two models to fill in.
``tests/live/test_quickstart.py`` runs them.
"""

from collections.abc import Mapping
from typing import Any

from django.template.loader import render_to_string

from completions.public.facts import Facts

LANGUAGES = {"curl": "curl", "python": "Python", "typescript": "TypeScript"}
_CONTEXT_WINDOW, _OUTPUT_TOKENS_MAX = 128_000, 4_096  # of a model that the catalog does not have
# What a request can do: each has an example in each language.
TOPICS = ("chat", "streaming", "tools", "messages", "responses", "embeddings", "errors")


def page(current: Facts, api_url: str) -> dict[str, Any]:
    values = values_of(current, api_url)
    return {
        "api_url": api_url,
        "examples": {topic: examples(topic, values) for topic in TOPICS},
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


def examples(topic: str, values: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return the code of a topic in each language, after the name and the title of the language."""
    return [(language, title, code(f"{topic}.{language}", values)) for language, title in LANGUAGES.items()]


def code(name: str, values: Mapping[str, Any]) -> str:
    """Return the snippet of this name, filled in. It is plain text: whoever shows it escapes it."""
    return str(render_to_string(f"docs/snippets/{name}", dict(values))).rstrip("\n")
