"""What of each language of callers reaches each kind of provider: asked of the code that reads and sends requests."""

from collections.abc import Callable
from typing import Any

from completions.catalog import eligibility
from completions.chat import ChatRequest
from completions.inbound.messages import request as messages
from completions.inbound.responses import request as responses
from completions.providers import ADAPTERS
from completions.request import schema
from gateway_project.errors import InvalidRequest
from tests.completions.content_parts import IMAGE, IMAGE_URL, PDF, SOUND
from tests.completions.offers import make_call, make_offer

DATA = IMAGE_URL.partition(",")[2]
USER, ASSISTANT = {"role": "user"}, {"role": "assistant"}
PARAMETERS = {"type": "object", "properties": {"a": {"type": "integer"}}}
SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}}
GRAMMAR = {"syntax": "regex", "definition": "a"}

FUNCTION = {"name": "add", "parameters": PARAMETERS}
CHAT_TOOLS = {"tools": [{"type": "function", "function": FUNCTION}]}
CHAT_CALL = {"id": "c", "type": "function", "function": {"name": "add", "arguments": "{}"}}
TOOLS = {"tools": [{"name": "add", "input_schema": PARAMETERS}]}
ADDRESS = "https://example.org/a.png"
BLOCK_IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": DATA}}
TEXT_SOURCE = {"type": "text", "media_type": "text/plain", "data": "Once."}
TOOL_USE = {"type": "tool_use", "id": "c", "name": "add", "input": {}}
ITEM_TOOLS = {"tools": [{"type": "function", **FUNCTION}]}
ITEM_CALL = {"type": "function_call", "call_id": "c", "name": "add", "arguments": "{}"}
ITEM_IMAGE = {"type": "input_image", "image_url": IMAGE_URL}


def chat_turns(*turns: Any) -> dict[str, Any]:
    return {"messages": [{**USER, "content": "x"}, *turns]}


def blocks(*content: Any) -> dict[str, Any]:
    return {"messages": [{**USER, "content": [{"type": "text", "text": "x"}, *content]}]}


def turns(*turns: Any) -> dict[str, Any]:
    return {"messages": [{**USER, "content": "x"}, *turns]}


def items(*given: Any) -> dict[str, Any]:
    return {"input": [{**USER, "content": "x"}, *given]}


def parts(*given: Any) -> dict[str, Any]:
    return items({**USER, "content": [*given]})


Fields = dict[str, Any]
# A feature -> how it is asked for in each language that has words for it.
FEATURES: dict[str, dict[str, Fields]] = {
    "Text": {"chat": {}, "messages": {}, "responses": {}},
    "Instructions": {
        "chat": chat_turns({"role": "developer", "content": "x"}),
        "messages": {"system": "x"},
        "responses": {"instructions": "x"},
    },
    "Images": {
        "chat": chat_turns({**USER, "content": [IMAGE]}),
        "messages": blocks(BLOCK_IMAGE),
        "responses": parts(ITEM_IMAGE),
    },
    "Images by address": {
        "chat": chat_turns({**USER, "content": [{"type": "image_url", "image_url": {"url": ADDRESS}}]}),
        "messages": blocks({"type": "image", "source": {"type": "url", "url": ADDRESS}}),
        "responses": parts({"type": "input_image", "image_url": ADDRESS}),
    },
    "PDF files": {
        "chat": chat_turns({**USER, "content": [PDF]}),
        "messages": blocks(
            {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}}
        ),
        "responses": parts({"type": "input_file", "file_data": "data:application/pdf;base64,JVBERi0="}),
    },
    "Sound": {"chat": chat_turns({**USER, "content": [SOUND]}), "responses": parts(SOUND)},
    "Tools": {"chat": CHAT_TOOLS, "messages": TOOLS, "responses": ITEM_TOOLS},
    "A tool that must be called": {
        "chat": {**CHAT_TOOLS, "tool_choice": {"type": "function", "function": {"name": "add"}}},
        "messages": {**TOOLS, "tool_choice": {"type": "tool", "name": "add"}},
        "responses": {**ITEM_TOOLS, "tool_choice": {"type": "function", "name": "add"}},
    },
    "One call at a time": {
        "chat": {**CHAT_TOOLS, "parallel_tool_calls": False},
        "messages": {**TOOLS, "tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
        "responses": {**ITEM_TOOLS, "parallel_tool_calls": False},
    },
    "Results of tools": {
        "chat": chat_turns(
            {**ASSISTANT, "content": None, "tool_calls": [CHAT_CALL]}, {"role": "tool", "tool_call_id": "c", "content": "3"}
        ),
        "messages": turns(
            {**ASSISTANT, "content": [TOOL_USE]},
            {**USER, "content": [{"type": "tool_result", "tool_use_id": "c", "content": "3"}]},
        ),
        "responses": items(ITEM_CALL, {"type": "function_call_output", "call_id": "c", "output": "3"}),
    },
    "Images in results": {
        "messages": turns(
            {**ASSISTANT, "content": [TOOL_USE]},
            {**USER, "content": [{"type": "tool_result", "tool_use_id": "c", "content": [BLOCK_IMAGE]}]},
        ),
        "responses": items(ITEM_CALL, {"type": "function_call_output", "call_id": "c", "output": [ITEM_IMAGE]}),
    },
    "Results that are errors": {
        "messages": turns(
            {**ASSISTANT, "content": [TOOL_USE]},
            {**USER, "content": [{"type": "tool_result", "tool_use_id": "c", "content": "3", "is_error": True}]},
        ),
    },
    "Custom tools": {
        "chat": {"tools": [{"type": "custom", "custom": {"name": "p", "format": {"type": "grammar", "grammar": GRAMMAR}}}]},
        "responses": {"tools": [{"type": "custom", "name": "p", "format": {"type": "grammar", **GRAMMAR}}]},
    },
    "Deferred tools": {"messages": {"tools": [{"name": "add", "input_schema": PARAMETERS, "defer_loading": True}]}},
    "Anthropic's own tools of the caller": {"messages": {"tools": [{"type": "bash_20250124", "name": "bash"}]}},
    "OpenAI's own tools of the caller": {"responses": {"tools": [{"type": "apply_patch"}, {"type": "computer"}]}},
    "Citations": {"messages": blocks({"type": "document", "source": TEXT_SOURCE, "citations": {"enabled": True}})},
    "How much to reason": {
        "chat": {"reasoning_effort": "medium"},
        "messages": {"thinking": {"type": "enabled", "budget_tokens": 2_000}},
        "responses": {"reasoning": {"effort": "medium"}},
    },
    "Reasoning sent back": {
        "chat": chat_turns({**ASSISTANT, "content": "x", "reasoning_content": "Hm."}, {**USER, "content": "x"}),
        "messages": turns(
            {
                **ASSISTANT,
                "content": [{"type": "thinking", "thinking": "Hm.", "signature": "s"}, {"type": "text", "text": "x"}],
            },
            {**USER, "content": "x"},
        ),
        "responses": items(
            {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "Hm."}]},
            {**ASSISTANT, "content": "x"},
            {**USER, "content": "x"},
        ),
    },
    "JSON by a schema": {
        "chat": {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}},
        "messages": {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
        "responses": {"text": {"format": {"type": "json_schema", "name": "a", "schema": SCHEMA}}},
    },
    "JSON without a schema": {
        "chat": {"response_format": {"type": "json_object"}},
        "responses": {"text": {"format": {"type": "json_object"}}},
    },
    "Verbosity": {"chat": {"verbosity": "low"}, "responses": {"text": {"verbosity": "low"}}},
    "Stop sequences": {"chat": {"stop": ["x"]}, "messages": {"stop_sequences": ["x"]}},
    "`temperature`": {name: {"temperature": 0.5} for name in ("chat", "messages", "responses")},
    "`top_k`": {"chat": {"top_k": 5}, "messages": {"top_k": 5}},
    "Seeds and penalties": {"chat": {"seed": 1, "presence_penalty": 0.5}},
    "Several choices": {"chat": {"n": 2}},
    "Probabilities": {
        "chat": {"logprobs": True, "top_logprobs": 2},
        "responses": {"include": ["message.output_text.logprobs"], "top_logprobs": 2},
    },
    "Service tiers": {"chat": {"service_tier": "flex"}, "responses": {"service_tier": "flex"}},
    "The id of an end user": {
        "chat": {"user": "u"},
        "messages": {"metadata": {"user_id": "u"}},
        "responses": {"user": "u"},
    },
}
LANGUAGES: dict[str, Callable[[Fields], ChatRequest]] = {
    "chat": lambda fields: schema.parse({"messages": [{**USER, "content": "x"}], **fields}),
    "messages": lambda fields: messages.parse({"max_tokens": 4_000, "messages": [{**USER, "content": "x"}], **fields})[0],
    "responses": lambda fields: responses.parse({"input": "x", **fields})[0],
}
MODELS = {
    "openai": "gpt-5",
    "openai-responses": "gpt-5",
    "anthropic": "claude-sonnet-4-5",
    "gemini": "gemini-3.5-flash",
}
URLS = dict.fromkeys(("openai", "openai-responses"), "https://api.openai.com/v1")
YES, NAMED, REFUSED, NO_WORDS = "yes", "named", "refused", "-"


def outcome(feature: str, language: str, kind: str) -> str:
    """Return what happens to a feature that a caller asks for in a language, at a provider of a kind."""
    fields = FEATURES[feature].get(language)
    if fields is None:
        return NO_WORDS
    request = LANGUAGES[language]({"model": "acme/m", **fields})
    call = make_call(request, make_offer(kind, MODELS[kind], base_url=URLS.get(kind, "http://127.0.0.1:9")), max_tokens=4_000)
    try:
        eligibility._check(request, call.route)
    except InvalidRequest:
        return REFUSED
    return NAMED if ADAPTERS[kind].ignored_fields(call) else YES


def table() -> str:
    """Return the table as Markdown: a feature in each row, and each language with each kind of provider in the columns.

    Features that reach every provider from every language stand before it.
    """
    columns = [(language, kind) for language in LANGUAGES for kind in MODELS]
    head = [f"{language} to {kind}" for language, kind in columns]
    rows = [[feature, *(outcome(feature, *column) for column in columns)] for feature in FEATURES]
    everywhere = ", ".join(feature for feature, *cells in rows if {*cells} == {YES})
    lines = [["", *head], ["---"] * (len(head) + 1), *(row for row in rows if {*row[1:]} != {YES})]
    return f"Everywhere **yes**: {everywhere}.\n\n" + "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
