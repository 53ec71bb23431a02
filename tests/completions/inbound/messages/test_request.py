"""A Messages request becomes a chat request, and translated back it is the same. What cannot be said is refused."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from completions.inbound.messages import places, request
from completions.providers.anthropic import request as anthropic_request
from completions.request import schema
from gateway_project.errors import InvalidRequest
from tests.completions.offers import make_call, make_offer

PNG = "iVBORw0KGgo="
MARK = {"cache_control": {"type": "ephemeral"}}
TOOL = {"name": "add", "description": "Adds.", "input_schema": {"type": "object", "properties": {}}}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
DOCUMENT = {
    "type": "document",
    "title": "a.pdf",
    "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="},
}
CALL = {"type": "tool_use", "id": "call_1", "name": "add", "input": {"a": 1}}
RESULT = {"type": "tool_result", "tool_use_id": "call_1", "content": [{"type": "text", "text": "3"}]}


def body(*content: Any, **fields: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": list(content) or "Hello"}]
    return {"model": "acme/large", "max_tokens": 4_000, "messages": messages, **fields}


def translated(given: dict[str, Any]) -> dict[str, Any]:
    return request.parse(given)[0].fields


def translated_back(given: dict[str, Any]) -> dict[str, Any]:
    """Return what a provider of Anthropic's would be sent of the chat request, if it came as one."""
    chat = schema.parse(translated(given))
    call = make_call(chat, make_offer("anthropic", "claude-sonnet-4-5"), max_tokens=chat.max_tokens)
    return anthropic_request.body(call, stream=chat.stream)


# --- There and back -------------------------------------------------------------------------------------------------

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1).map(lambda text: f"{text}.")
marks = st.sampled_from([{}, MARK])
text_blocks = st.builds(lambda text, mark: {"type": "text", "text": text, **mark}, texts, marks)
images = st.builds(lambda mark: {**IMAGE, **mark}, marks)
documents = st.builds(lambda mark: {**DOCUMENT, **mark}, marks)
names = st.from_regex(r"[a-zA-Z0-9_-]{1,20}", fullmatch=True)
inputs = st.dictionaries(
    names, st.one_of(st.integers(-(2**53), 2**53), texts, st.booleans(), st.lists(texts, max_size=2)), max_size=3
)
calls = st.builds(lambda name, given: {"type": "tool_use", "id": "call_1", "name": name, "input": given}, names, inputs)
results = st.builds(
    lambda texts: {"type": "tool_result", "tool_use_id": "call_1", "content": texts},
    st.lists(text_blocks, min_size=1, max_size=2),
)
asked = st.lists(st.one_of(text_blocks, images, documents), min_size=1, max_size=3)
exchanges = st.builds(
    lambda said, calls, results, more: [
        {"role": "assistant", "content": [*said, *calls]},
        {"role": "user", "content": [*results, *more]},
    ],
    st.lists(text_blocks, max_size=2),
    st.lists(calls, min_size=1, max_size=2),
    st.lists(results, min_size=1, max_size=2),
    st.lists(text_blocks, max_size=1),
)
conversations = st.builds(
    lambda first, rest: [{"role": "user", "content": first}, *(turn for pair in rest for turn in pair)],
    asked,
    st.lists(exchanges, max_size=2),
)
tools = st.builds(
    lambda name, mark: {"name": name, "description": "Does.", "input_schema": {"type": "object", "properties": {}}, **mark},
    names,
    marks,
)
optional_fields = st.fixed_dictionaries(
    {},
    optional={
        "system": st.lists(text_blocks, min_size=1, max_size=2),
        "tools": st.lists(tools, min_size=1, max_size=3),
        "stop_sequences": st.lists(texts, min_size=1, max_size=4),
        "temperature": st.sampled_from([0.0, 0.5, 1.0]),
        "metadata": st.builds(lambda user: {"user_id": user}, texts.filter(lambda text: len(text) <= 512)),
        "output_config": st.just({"format": {"type": "json_schema", "schema": {"type": "object"}}}),
        "cache_control": st.just({"type": "ephemeral"}),
    },
)


@given(conversations, optional_fields, st.booleans())
def test_a_request_is_the_same_there_and_back(messages, fields, is_streamed):
    original = {"model": "acme/large", "max_tokens": 4_000, "messages": messages, "stream": is_streamed, **fields}
    assert translated_back(original) == {**original, "model": "claude-sonnet-4-5"}


CHOICES = [
    {"type": "auto", "disable_parallel_tool_use": True},
    {"type": "any"},
    {"type": "any", "disable_parallel_tool_use": True},
    {"type": "tool", "name": "add"},
    {"type": "none"},
]


@pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: "-".join(map(str, choice.values())))
def test_a_choice_of_tools_is_the_same_there_and_back(choice):
    assert translated_back(body(tools=[TOOL], tool_choice=choice))["tool_choice"] == choice


# --- What a chat request says in other words --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "effort"),
    [
        ({"thinking": {"type": "disabled"}}, "none"),
        ({"thinking": {"type": "adaptive"}}, "high"),
        ({"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}}, "max"),
        ({"thinking": {"type": "enabled", "budget_tokens": 1_024}, "max_tokens": 20_000}, "minimal"),
        ({"thinking": {"type": "enabled", "budget_tokens": 2_000}}, "medium"),
        ({"thinking": {"type": "enabled", "budget_tokens": 3_999}}, "xhigh"),
        ({"output_config": {"effort": "low"}}, "low"),
        ({}, None),
    ],
)
def test_thinking_becomes_an_effort(fields, effort):
    assert translated(body(**fields)).get("reasoning_effort") == effort


def test_thinking_that_is_sent_back_is_apart_from_the_text():
    turn = {
        "role": "assistant",
        "content": [{"type": "thinking", "thinking": "Hm.", "signature": "abc"}, {"type": "text", "text": "Hi"}],
    }
    [_, answer, _] = translated({**body(), "messages": [*body()["messages"], turn, *body()["messages"]]})["messages"]
    assert answer == {"role": "assistant", "content": [{"type": "text", "text": "Hi"}], "reasoning_content": "Hm."}


def test_signatures_count_for_the_hold():
    def turns(signature):
        turn = {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm.", "signature": signature}]}
        return request.parse({**body(), "messages": [turn, *body()["messages"]]})[0].prompt_tokens_max

    assert turns("s" * 100) - turns("") == 100


def test_an_image_in_a_result_follows_the_results():
    given = [
        {**RESULT, "content": [{"type": "text", "text": "3"}, IMAGE]},
        {**RESULT, "tool_use_id": "call_2"},
        {"type": "text", "text": "So?"},
    ]
    first, second, rest = translated(body(*given))["messages"]
    assert [first["role"], second["role"], rest["role"]] == ["tool", "tool", "user"]
    label, image, question = rest["content"]
    assert "call_1" in label["text"]
    assert image["image_url"]["url"] == f"data:image/png;base64,{PNG}"
    assert question == {"type": "text", "text": "So?"}


def test_a_document_in_text_is_text_after_its_title():
    source = {"type": "text", "media_type": "text/plain", "data": "Once."}
    [message] = translated(body({"type": "document", "source": source, "title": "A tale"}))["messages"]
    assert message["content"] == [{"type": "text", "text": "A tale\n\nOnce."}]


def test_a_result_that_is_an_error_and_a_mark_of_the_cache_are_kept():
    [message] = translated(body({**RESULT, "is_error": True, **MARK}))["messages"]
    assert (message["is_error"], message["cache_control"]) == (True, {"type": "ephemeral"})


# --- What is refused, by the caller's name of the field ---------------------------------------------------------------

REFUSED: dict[str, Any] = {
    "max_tokens": {"max_tokens": None},
    "messages": {"messages": None},
    "messages[0].role": {"messages": [{"role": "developer", "content": "x"}]},
    "messages[0].name": {"messages": [{"role": "user", "content": "x", "name": "y"}]},
    "temperature": {"temperature": 1.5},
    "top_k": {"top_k": 0},
    "container": {"container": "c"},
    "mcp_servers": {"mcp_servers": [{}]},
    "speed": {"speed": "fast"},
    "service_tier": {"service_tier": "priority"},
    "context_management": {"context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]}},
    "metadata.team": {"metadata": {"team": "x"}},
    "thinking.budget_tokens": {"thinking": {"type": "enabled", "budget_tokens": 1_000}},
    "thinking.type": {"thinking": {"type": "on"}},
    "thinking.display": {"thinking": {"type": "adaptive", "display": "all"}},
    "output_config.effort": {"output_config": {"effort": "some"}},
    "output_config.task_budget": {"output_config": {"task_budget": 1}},
    "output_config.format.type": {"output_config": {"format": {"type": "json"}}},
    "tools[0].type": {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
    "tools[0].input_schema": {"tools": [{"name": "add"}]},
    "tools[0].name": {"tools": [{"name": "a b", "input_schema": {}}]},
    "tools[0].defer_loading": {"tools": [{**TOOL, "defer_loading": True}]},
    "tools[0].cache_control.ttl": {"tools": [{**TOOL, "cache_control": {"type": "ephemeral", "ttl": "1h"}}]},
    "tool_choice.type": {"tools": [TOOL], "tool_choice": {"type": "required"}},
    "tool_choice.name": {"tools": [TOOL], "tool_choice": {"type": "tool", "name": "other"}},
    "stop_sequences": {"stop_sequences": ["x"] * 17},
    "stop_sequences[1]": {"stop_sequences": ["x", 1]},
    "system[0].type": {"system": [IMAGE]},
    "system[1].text": {"system": [{"type": "text", "text": "x"}, {"type": "text"}]},
    "models": {"models": "x"},
}


@pytest.mark.parametrize("param", REFUSED)
def test_a_field_that_is_refused_is_named(param):
    given = {name: value for name, value in {**body(), **REFUSED[param]}.items() if value is not None}
    with pytest.raises(InvalidRequest) as refused:
        request.parse(given)
    assert refused.value.param == param
    assert refused.value.message.startswith(f"{param} ")


LISTS = [{"tools": [], "stop_sequences": []}, {"tools": None, "stop_sequences": None}]


@pytest.mark.parametrize("fields", LISTS, ids=["empty", "null"])
def test_an_empty_list_is_as_none(fields):
    assert translated(body(**fields)) == translated(body())


# By the path of a field: a request in which it is to be replaced.
TYPED: dict[str, Any] = {
    "tools": lambda value: {"tools": value},
    "stop_sequences": lambda value: {"stop_sequences": value},
    "tools[0].description": lambda value: {"tools": [{**TOOL, "description": value}]},
    "metadata.user_id": lambda value: {"metadata": {"user_id": value}},
    "messages[0].content[0].title": lambda value: body({**DOCUMENT, "title": value}),
    "tool_choice": lambda value: {"tool_choice": value},
    "thinking": lambda value: {"thinking": value},
    "output_config": lambda value: {"output_config": value},
}


@pytest.mark.parametrize("value", [{}, [], "", 0, False], ids=repr)
@pytest.mark.parametrize("param", TYPED)
def test_an_empty_value_of_another_type_is_refused_by_name(param, value):
    wanted = list if param in ("tools", "stop_sequences") else str if "." in param else dict
    if isinstance(value, wanted):
        value = 1  # its own type may be empty
    with pytest.raises(InvalidRequest) as refused:
        request.parse({**body(), **TYPED[param](value)})
    assert refused.value.param == param


BLOCKS: dict[str, Any] = {
    "type": {"type": "search_result"},
    "text": {"type": "text", "text": 1},
    "citations": {"type": "text", "text": "x", "citations": [{}]},
    "cache_control.type": {"type": "text", "text": "x", "cache_control": {"type": "forever"}},
    "source.type": {"type": "image", "source": {"type": "file", "file_id": "f"}},
    "source": {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "not base64!"}},
    "source.media_type": {"type": "document", "source": {"type": "text", "media_type": "text/html", "data": "x"}},
    "context": {**DOCUMENT, "context": "x"},
    "tool_use_id": {"type": "tool_result", "content": "x"},
    "content[0].type": {**RESULT, "content": [{"type": "tool_reference", "tool_name": "x"}]},
    "is_error": {**RESULT, "is_error": "yes"},
}


@pytest.mark.parametrize("member", BLOCKS)
def test_a_block_that_is_refused_is_named(member):
    with pytest.raises(InvalidRequest) as refused:
        request.parse(body({"type": "text", "text": "x"}, BLOCKS[member]))
    assert refused.value.param == f"messages[0].content[1].{member}"


def test_what_an_adapter_refuses_is_named_by_its_own_block():
    turns = [{"role": "user", "content": [RESULT, {"type": "text", "text": "x"}, DOCUMENT]}]
    _, found = request.parse({**body(), "messages": turns, "system": [{"type": "text", "text": "s"}]})
    assert places.rename("messages[2].content[1].file.file_data", found) == "messages[0].content[2].source"
    assert places.rename("messages[1].tool_call_id", found) == "messages[0].content[0].tool_use_id"
    assert places.rename("messages[0].content[0].text", found) == "system[0].text"
    assert places.rename("tools[3].function.parameters", found) == "tools[3].input_schema"


def test_a_released_body_is_restored():
    raw = json.dumps(body({"type": "text", "text": "x" * 10_000})).encode()
    chat, _ = request.parse(json.loads(raw), raw)
    before, original = chat.fields, chat.messages_body
    chat.body.release()
    assert chat.messages_body == {}
    chat.body.restore()
    assert (chat.fields, chat.messages_body) == (before, original)
