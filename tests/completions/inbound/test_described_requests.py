"""The OpenAPI description of a request is what its parser takes, in all languages: its fields, their nulls and their bounds."""

from functools import partial
from typing import Any

import pytest

from completions.inbound.chat_completions.serializers import ChatCompletionRequest
from completions.inbound.embeddings import request as embeddings
from completions.inbound.embeddings.serializers import EmbeddingRequest
from completions.inbound.messages import request as messages
from completions.inbound.messages.serializers import MessageRequest
from completions.inbound.responses import request as responses
from completions.inbound.responses.serializers import ModelResponseRequest
from completions.request import schema
from gateway_project import errors
from gateway_project.web.openapi import specification

HELLO = [{"role": "user", "content": "Hello"}]
# With a field of each kind: of the others, the parser looks only for those whose kind is there.
CHAT = {"model": "demo/echo", "messages": HELLO, "temperature": 1, "stop": "x", "tools": [{"type": "custom"}], "moderation": {}}
MESSAGES = {"model": "demo/echo", "messages": HELLO, "max_tokens": 100}
RESPONSES = {"model": "demo/echo", "input": "Hello"}
EMBEDDINGS = {"model": "demo/embed", "input": "Hello"}
NOT_OF_EMBEDDINGS = {"safety_identifier", "prompt_cache_key", "store"}
ECHO = "echo"  # of the provider for development


class Body(dict[str, Any]):
    """A body that notes which of its fields are looked at."""

    def __init__(self, fields: dict[str, Any]) -> None:
        super().__init__(fields)
        self.seen: set[str] = set()

    def get(self, name: str, default: Any = None) -> Any:
        self.seen.add(name)
        return super().get(name, default)

    def __getitem__(self, name: str) -> Any:
        self.seen.add(name)
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        self.seen.add(str(name))
        return super().__contains__(name)


@pytest.mark.parametrize(
    ("parse", "fields", "serializer", "refused"),
    [
        (schema.parse, CHAT, ChatCompletionRequest, {"audio"}),
        (messages.parse, MESSAGES, MessageRequest, {"thread"}),
        (responses.parse, RESPONSES, ModelResponseRequest, {"conversation"}),
        (partial(embeddings.parse, raw=None), EMBEDDINGS, EmbeddingRequest, NOT_OF_EMBEDDINGS),
    ],
    ids=["chat", "messages", "responses", "embeddings"],
)
def test_described_fields_of_a_request_are_exactly_those_that_its_parser_reads(parse, fields, serializer, refused):
    body = Body(fields)
    parse(body)
    assert body.seen - refused - {ECHO} == set(serializer().fields)


# --- Nulls and bounds -------------------------------------------------------------------------------------------------

Fields = dict[str, Any]
FUNCTION = {"name": "find"}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "answer"}}
CALL = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": "{}"}}
CALLED = {"role": "assistant", "content": "x", "tool_calls": [CALL], "refusal": "no"}
# Not checked in every message or tool, but in those that they are for; and what clients keep of a reply.
UNCHECKED = {("ChatCompletionRequestMessage", name) for name in ("tool_call_id", "reasoning_content", "reasoning")}
UNCHECKED |= {("ChatCompletionTool", "custom")}
PARSERS: dict[str, Any] = {
    "chat": (lambda body: schema.parse({"model": "m", "messages": HELLO, **body})),
    "messages": (lambda body: messages.parse({**MESSAGES, **body})),
    "responses": (lambda body: responses.parse({**RESPONSES, **body})),
    "embeddings": (lambda body: embeddings.parse({**EMBEDDINGS, **body}, raw=None)),
}
# A described object -> its language, and the body that has these members of it.
PLACES: dict[str, tuple[str, Any]] = {
    "ChatCompletionRequest": ("chat", lambda given: {**beside(given), **given}),
    "ChatCompletionRequestMessage": ("chat", lambda given: {"messages": [{**CALLED, **given}]}),
    "ChatCompletionTool": ("chat", lambda given: {"tools": [{"type": "function", "function": FUNCTION, **given}]}),
    "FunctionDefinition": ("chat", lambda given: {"tools": [{"type": "function", "function": {**FUNCTION, **given}}]}),
    "ReplyFormat": ("chat", lambda given: {"response_format": {"type": "text", **given}}),
    "JsonSchemaFormat": ("chat", lambda given: {"response_format": {**SCHEMA, "json_schema": {"name": "answer", **given}}}),
    "StreamOptions": ("chat", lambda given: {"stream": True, "stream_options": given}),
    "ProviderPreferences": ("chat", lambda given: {"provider": given}),
    "ReasoningOptions": ("chat", lambda given: {"reasoning": given}),
    "UsageOptions": ("chat", lambda given: {"usage": given}),
    "CacheControl": ("responses", lambda given: {"cache_control": {"type": "ephemeral", **given}}),
    "PromptCacheOptions": ("chat", lambda given: {"prompt_cache_options": given}),
    "Moderation": ("chat", lambda given: {"moderation": given}),
    "ModerationPolicy": ("chat", lambda given: {"moderation": {"policy": given}}),
    "ModerationRule": ("chat", lambda given: {"moderation": {"policy": {"input": given}}}),
    "Prediction": ("chat", lambda given: {"prediction": {"type": "content", "content": "x", **given}}),
    "WebSearchOptions": ("chat", lambda given: {"web_search_options": given}),
    "ModelResponseRequest": ("responses", lambda given: given),
    "ContextManagement": ("responses", lambda given: {"context_management": [{"type": "compaction", **given}]}),
    "ModelResponseReasoning": ("responses", lambda given: {"reasoning": given}),
    "ModelResponseText": ("responses", lambda given: {"text": given}),
    "MessageRequest": ("messages", lambda given: given),
    "EmbeddingRequest": ("embeddings", lambda given: given),
}
MEMBERS = [
    (name, member) for name in PLACES for member in specification.read_document()["components"]["schemas"][name]["properties"]
]


def beside(given: Fields) -> Fields:
    """Return what a field of a chat request may only stand with."""
    needed = {"top_logprobs": {"logprobs": True}, "stream_options": {"stream": True}}
    return {name: value for field in given for name, value in needed.get(field, {}).items()}


def described(name: str, member: str) -> Fields:
    field: Fields = specification.read_document()["components"]["schemas"][name]["properties"][member]
    return field


def takes_null(field: Fields) -> bool:
    return "null" in field.get("type", []) or any("null" in each.get("type", "") for each in field.get("oneOf", ()))


def is_taken(name: str, member: str, value: Any) -> bool:
    language, body = PLACES[name]
    try:
        PARSERS[language](body({member: value}))
    except errors.InvalidRequest:
        return False
    return True


def values(field: Fields) -> tuple[list[Any], list[Any]]:
    """Return values at the bounds that a field is described with, and values beyond them."""
    within: list[Any] = [*field.get("enum", ()), *([field["const"]] if "const" in field else [])]
    beyond: list[Any] = ["strange", 10**40] if within else []
    for bound, step in (("minimum", -1), ("maximum", 1)):
        if bound in field:
            within, beyond = [*within, field[bound]], [*beyond, field[bound] + step]
    if "maxLength" in field:
        within, beyond = [*within, "x" * field["maxLength"]], [*beyond, "x" * (field["maxLength"] + 1)]
    if "maxProperties" in field:
        within.append({str(number): "x" for number in range(field["maxProperties"])})
        beyond.append({str(number): "x" for number in range(field["maxProperties"] + 1)})
    kinds = {"boolean": 1, "integer": "1", "number": "1", "string": 5, "array": "x", "object": "x"}
    of_kind = [field["type"]] if isinstance(field.get("type"), str) else field.get("type", [])
    return within, beyond + [
        kinds[each] for each in of_kind if len([kind for kind in of_kind if kind != "null"]) == 1 and each in kinds
    ]


@pytest.mark.parametrize(("name", "member"), MEMBERS)
def test_a_member_may_be_null_where_its_description_says_so(name, member):
    assert is_taken(name, member, None) == takes_null(described(name, member))


@pytest.mark.parametrize(("name", "member"), MEMBERS)
def test_a_member_has_the_type_and_the_bounds_of_its_description(name, member):
    within, beyond = values(described(name, member))
    assert [value for value in within if value is not None and not is_taken(name, member, value)] == []
    if (name, member) not in UNCHECKED:
        assert [value for value in beyond if is_taken(name, member, value)] == []
