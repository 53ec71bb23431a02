"""Why a model stopped, in OpenAI's words: ``stop``, ``length``, ``tool_calls``, ``function_call``, ``content_filter``. Pure.

Servers with OpenAI's format have words of their own for it. A word that is in no table is ``stop``, and is counted.
"""

from typing import Any

FAILURE = "failure"  # the reply is not complete, whatever of it came before
OWN = ("stop", "length", "tool_calls", "function_call", "content_filter")

# OpenAI's word, who says otherwise, and their words in lower case. Sources: each server's reference, or the report named.
ROWS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("stop", "Together, Hugging Face TGI, Cohere, relays of Claude and Gemini", ("eos", "eos_token", "complete", "completed")),
    ("stop", "relays of Claude", ("end_turn", "stop_sequence")),
    ("stop", "LM Studio, Ollama: github.com/earendil-works/pi/issues/2142", ("end",)),
    ("length", "Mistral", ("model_length",)),
    ("length", "relays of Claude, Gemini and OpenAI's Responses", ("max_tokens", "max_output_tokens")),
    ("length", "Z.ai, Claude: docs.z.ai/api-reference", ("model_context_window_exceeded",)),
    ("length", "relays of Claude: github.com/BerriAI/litellm/issues/17478", ("pause_turn", "compaction")),
    ("tool_calls", "relays of Claude, Cohere", ("tool_use", "tool_call")),
    ("content_filter", "Z.ai", ("sensitive",)),
    ("content_filter", "relays of Claude", ("refusal",)),
    ("content_filter", "Bedrock", ("content_filtered", "guardrail_intervened")),
    ("content_filter", "relays of Gemini", ("safety", "recitation", "blocklist", "prohibited_content", "spii")),
    (FAILURE, "OpenRouter, Mistral", ("error",)),
    (FAILURE, "Z.ai", ("network_error",)),
    (FAILURE, "DeepSeek: api-docs.deepseek.com", ("insufficient_system_resource",)),
    (FAILURE, "Google: github.com/googleapis/python-genai/issues/1836", ("function_call_filter: malformed_function_call",)),
    (FAILURE, "vLLM, SGLang, when they end a request themselves", ("abort",)),
)
OPENAI = {word: meaning for meaning, _, words in ROWS for word in words} | {word: word for word in OWN}

ANTHROPIC = {
    **dict.fromkeys(("end_turn", "stop_sequence"), "stop"),
    **dict.fromkeys(("max_tokens", "model_context_window_exceeded", "pause_turn"), "length"),
    **{"tool_use": "tool_calls", "refusal": "content_filter"},
}
GEMINI = {
    "stop": "stop",
    "max_tokens": "length",
    **dict.fromkeys(
        (
            *("safety", "recitation", "language", "blocklist", "prohibited_content", "spii", "other", "model_armor"),
            *("image_safety", "image_prohibited_content", "image_recitation", "image_other"),
        ),
        "content_filter",
    ),
    # An empty reply that looks whole ends an agent's work: github.com/NousResearch/hermes-agent/issues/83869
    **dict.fromkeys(
        (
            *("malformed_function_call", "malformed_response", "unexpected_tool_call", "too_many_tool_calls"),
            "missing_thought_signature",
        ),
        FAILURE,
    ),
}


def read(given: Any, table: dict[str, str]) -> tuple[str, str]:
    """Return a finish reason in OpenAI's words, or FAILURE; and the provider's word if that is unknown: a stop, as is none."""
    if given in (None, ""):
        return "stop", ""
    known = (table.get(given) or table.get(given.lower())) if isinstance(given, str) else None
    return (known, "") if known else ("stop", str(given))
