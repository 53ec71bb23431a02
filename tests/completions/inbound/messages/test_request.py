"""A Messages request becomes a chat request, and translated back it is the same. What cannot be said is refused."""

import json
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from completions.inbound.messages import request
from completions.providers.anthropic import request as anthropic_request
from completions.request import schema
from gateway_project.errors import InvalidRequest
from tests.completions.offers import make_call, make_offer

PNG = "iVBORw0KGgo="
MARK = {"cache_control": {"type": "ephemeral"}}
HOUR: Any = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
TOOL = {"name": "add", "description": "Adds.", "input_schema": {"type": "object", "properties": {}}}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
DOCUMENT = {
    "type": "document",
    "title": "a.pdf",
    "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="},
}
BASH = {"type": "bash_20250124", "name": "bash"}
COMPUTER = {"type": "computer_20251124", "name": "computer", "display_width_px": 1_024, "display_height_px": 768}
SEARCH_RESULT = {
    "type": "search_result",
    "title": "Tides",
    "source": "https://example.org/tides",
    "content": [{"type": "text", "text": "Twice a day."}],
}
USER = {"role": "user", "content": "Hello"}
SEARCH: Any = {"type": "web_search_20250305", "name": "web_search", "max_uses": 1}
SEARCHED = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "tides"}}
FOUND_NOTHING = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1"}
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
marks = st.sampled_from([{}, MARK, HOUR])
text_blocks = st.builds(lambda text, mark: {"type": "text", "text": text, **mark}, texts, marks)
images = st.builds(lambda mark: {**IMAGE, **mark}, marks)
documents = st.builds(lambda mark: {**DOCUMENT, **mark}, marks)
names = st.from_regex(r"[a-zA-Z0-9_-]{1,20}", fullmatch=True)
inputs = st.dictionaries(
    names, st.one_of(st.integers(-(2**53), 2**53), texts, st.booleans(), st.lists(texts, max_size=2)), max_size=3
)


def numbered(turns):
    """Return the turns with an id for each call, and that of a call for each result."""
    ids = {"tool_use": count(), "tool_result": count()}
    names = {"tool_use": "id", "tool_result": "tool_use_id"}
    return [
        {
            **turn,
            "content": [
                _numbered(block, names[block["type"]], ids[block["type"]]) if block["type"] in ids else block
                for block in turn["content"]
            ],
        }
        for turn in turns
    ]


def _numbered(block, name, ids):
    return {**block, name: f"call_{next(ids)}"}


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
    st.lists(calls, min_size=2, max_size=2),
    st.lists(results, min_size=2, max_size=2),
    st.lists(text_blocks, max_size=1),
)
conversations = st.builds(
    lambda first, rest: [{"role": "user", "content": first}, *numbered([turn for pair in rest for turn in pair])],
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


@settings(max_examples=40)  # to draw a conversation takes a tenth of a second
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


TEXTS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "document in text": (
        {"type": "document", "context": "Of 1880.", "source": {"type": "text", "media_type": "text/plain", "data": "Once."}},
        ["Of 1880.\n\nOnce."],
    ),
    "divided document": (
        {"type": "document", "title": "A", "source": {"type": "content", "content": [{"type": "text", "text": "Once."}]}},
        ["A", "Once."],
    ),
    "undivided document": ({"type": "document", "source": {"type": "content", "content": "Once."}}, ["Once."]),
    "search result": (SEARCH_RESULT, ["Tides\nhttps://example.org/tides\n\nTwice a day."]),
}


@pytest.mark.parametrize("kind", TEXTS)
def test_what_has_a_block_of_its_own_only_at_anthropic_is_text(kind):
    block, texts = TEXTS[kind]
    [message] = translated(body({**block, **MARK}))["messages"]
    assert [part["text"] for part in message["content"]] == texts
    assert message["content"][-1]["cache_control"] == MARK["cache_control"]


def test_the_context_of_a_file_is_text_before_it():
    [message] = translated(body({**DOCUMENT, "context": "Of 1880."}))["messages"]
    assert [part["type"] for part in message["content"]] == ["text", "file"]
    assert message["content"][0]["text"] == "Of 1880."


def test_a_tool_that_was_found_is_told_by_its_name():
    [message] = translated(body({**RESULT, "content": [{"type": "tool_reference", "tool_name": "add"}]}))["messages"]
    assert message["content"] == [{"type": "text", "text": "The tool add is there."}]


CITED = {"type": "text", "text": "Once.", "citations": [{"type": "char_location", "cited_text": "Once upon a time"}]}
NOTED: dict[str, dict[str, Any]] = {
    "messages.citations": body({**SEARCH_RESULT, "citations": {"enabled": True}}),
    "tools.input_examples": body(tools=[{**TOOL, "input_examples": [{"a": 1}]}]),
    "tools.defer_loading": body(tools=[{**TOOL, "defer_loading": True}]),
    "messages.toolset_name": body({**RESULT, "toolset_name": "computer"}),
}


@pytest.mark.parametrize("name", NOTED)
def test_a_field_that_only_anthropic_takes_is_noted(name):
    assert request.parse(NOTED[name])[0].block_fields == {name}


def test_citations_of_a_reply_are_noted_where_it_is_sent_back():
    turns = [{"role": "user", "content": "Tell."}, {"role": "assistant", "content": [CITED]}]
    plain = {name: value for name, value in CITED.items() if name != "citations"}
    asked, bare = ({**body(), "messages": [turns[0], {"role": "assistant", "content": [each]}]} for each in (CITED, plain))
    chat, without = request.parse(asked)[0], request.parse(bare)[0]
    assert chat.block_fields == {"messages.citations"}
    assert chat.prompt_tokens_max - without.prompt_tokens_max > len("Once upon a time")


@pytest.mark.parametrize(
    ("block", "counted_again"),
    [
        (SEARCH_RESULT, "Twice a day."),
        ({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "Once."}}, "Once."),
        ({"type": "document", "source": {"type": "content", "content": "Once."}}, "Once."),
    ],
    ids=["search result", "text", "content"],
)
def test_what_may_be_cited_counts_once_more_for_the_hold(block, counted_again):
    def tokens_max(enabled: bool) -> int:
        return request.parse(body({**block, "citations": {"enabled": enabled}}))[0].prompt_tokens_max

    assert tokens_max(True) - tokens_max(False) >= 1_024 + len(counted_again)


# --- Anthropic's own tools --------------------------------------------------------------------------------------------

OWN = [
    BASH,
    {"type": "text_editor_20250728", "name": "str_replace_based_edit_tool", "max_characters": 10_000},
    {"type": "memory_20250818", "name": "memory", "defer_loading": True, "input_examples": [{"command": "view"}]},
    {**COMPUTER, "enable_zoom": True, "display_number": 0},
    {"type": "computer_toolset_20260801", "configs": {"zoom": {"enabled": False}}},
]


@pytest.mark.parametrize("tool", OWN, ids=lambda tool: tool["type"])
def test_a_tool_of_anthropics_own_is_for_its_models_only_and_its_instructions_are_held_for(tool):
    chat, _ = request.parse(body(tools=[TOOL, tool]))
    without, _ = request.parse(body(tools=[TOOL]))
    assert chat.messages_only_at == "tools[1].type"
    assert without.messages_only_at == ""
    assert chat.prompt_tokens_max - without.prompt_tokens_max >= 4_096


@pytest.mark.parametrize(
    ("kind", "beta"),
    [
        ("computer_20251124", "computer-use-2025-11-24"),
        ("computer_20250124", "computer-use-2025-01-24"),
        ("bash_20241022", "computer-use-2024-10-22"),
        ("bash_20250124", None),
        ("memory_20250818", None),
    ],
)
def test_the_beta_that_a_tool_needs_is_asked_for(kind, beta):
    chat, _ = request.parse(body(tools=[{"type": kind, "name": "it"}]), betas="effort-2025-11-24")
    assert chat.betas == tuple(filter(None, ("effort-2025-11-24", beta)))


def test_a_beta_that_the_caller_asks_for_is_asked_for_once():
    chat, _ = request.parse(body(tools=[COMPUTER]), betas="computer-use-2025-11-24")
    assert chat.betas == ("computer-use-2025-11-24",)


# --- An hour in the cache ---------------------------------------------------------------------------------------------

MARKED: dict[str, dict[str, Any]] = {
    "body": body(**HOUR),
    "system": body(system=[{"type": "text", "text": "x", **HOUR}]),
    "tool": body(tools=[{**TOOL, **HOUR}]),
    "own tool": body(tools=[{**BASH, **HOUR}]),
    "text": body({"type": "text", "text": "x", **HOUR}),
    "image": body({**IMAGE, **HOUR}),
    "document": body({**DOCUMENT, **HOUR}),
    "divided document": body({"type": "document", "source": {"type": "content", "content": [{**IMAGE, **HOUR}]}}),
    "search result": body({**SEARCH_RESULT, **HOUR}),
    "result": body({**RESULT, **HOUR}),
    "in a result": body({**RESULT, "content": [{"type": "tool_reference", "tool_name": "add", **HOUR}]}),
    "call": {**body(), "messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": [{**CALL, **HOUR}]}]},
    "reminder": {**body(), "messages": [{"role": "system", "content": [{"type": "text", "text": "x", **HOUR}]}]},
}


@pytest.mark.parametrize("place", MARKED)
def test_an_hour_in_the_cache_is_found_wherever_it_is_asked_for(place):
    given = MARKED[place]
    brief = json.loads(json.dumps(given).replace("1h", "5m"))
    assert [request.parse(each)[0].wants_hour_cache for each in (given, brief)] == [True, False]


def test_a_result_that_is_an_error_and_a_mark_of_the_cache_are_kept():
    [message] = translated(body({**RESULT, "is_error": True, **MARK}))["messages"]
    assert (message["is_error"], message["cache_control"]) == (True, {"type": "ephemeral"})


# --- What is refused, by the caller's name of the field ---------------------------------------------------------------

KEEP = {"type": "clear_thinking_20251015", "keep": "all"}
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
    "context_management": {"context_management": []},
    "context_management.strange": {"context_management": {"strange": 1}},
    "context_management.edits[1]": {"context_management": {"edits": [KEEP, {"type": "clear_tool_uses_20250919"}]}},
    "context_management.edits[0].keep": {"context_management": {"edits": [{"type": "clear_thinking_20251015"}]}},
    "context_management.edits[0].type": {"context_management": {"edits": [{}]}},
    "metadata.team": {"metadata": {"team": "x"}},
    "thinking.budget_tokens": {"thinking": {"type": "enabled", "budget_tokens": 1_000}},
    "thinking.type": {"thinking": {"type": "on"}},
    "thinking.display": {"thinking": {"type": "adaptive", "display": "all"}},
    "output_config.effort": {"output_config": {"effort": "some"}},
    "output_config.task_budget": {"output_config": {"task_budget": 1}},
    "output_config.format.type": {"output_config": {"format": {"type": "json"}}},
    "tools[0].type": {"tools": [{"type": "code_execution_20250825", "name": "code_execution"}]},
    "tools[0].max_uses": {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
    "tools[0].user_location": {"tools": [{**SEARCH, "user_location": "Bern"}]},
    "tools[0].allowed_domains[0]": {"tools": [{**SEARCH, "allowed_domains": [1]}]},
    "messages[1].content[0].name": {"messages": [USER, {"role": "assistant", "content": [{**SEARCHED, "name": "bash"}]}]},
    "messages[1].content[0].content": {"messages": [USER, {"role": "assistant", "content": [FOUND_NOTHING]}]},
    "tools[0].input_schema": {"tools": [{"name": "add"}]},
    "tools[0].name": {"tools": [{"name": "a b", "input_schema": {}}]},
    "tools[0].defer_loading": {"tools": [{**TOOL, "defer_loading": "yes"}]},
    "tools[0].input_examples[1]": {"tools": [{**TOOL, "input_examples": [{}, "a"]}]},
    "tools[0].allowed_callers": {"tools": [{**TOOL, "allowed_callers": ["direct", "code_execution_20260120"]}]},
    "tools[0].display_width_px": {"tools": [{**COMPUTER, "display_width_px": "1024"}]},
    "tools[0].max_characters": {"tools": [{**BASH, "max_characters": 10}]},
    "tools[0].description": {"tools": [{**BASH, "description": "A shell."}]},
    "tools[0].cache_control.ttl": {"tools": [{**TOOL, "cache_control": {"type": "ephemeral", "ttl": "2h"}}]},
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
    "type": {"type": "video"},
    "text": {"type": "text", "text": 1},
    "citations[0]": {"type": "text", "text": "x", "citations": [1]},
    "citations.enabled": {**DOCUMENT, "citations": {"enabled": "yes"}},
    "citations.style": {**DOCUMENT, "citations": {"style": "mla"}},
    "content": {**SEARCH_RESULT, "content": "Twice a day."},
    "content[0].cache_control": {**SEARCH_RESULT, "content": [{"type": "text", "text": "Twice.", **MARK}]},
    "source.content[0].type": {"type": "document", "source": {"type": "content", "content": [DOCUMENT]}},
    "source.content": {"type": "document", "source": {"type": "content", "content": []}},
    "cache_control.type": {"type": "text", "text": "x", "cache_control": {"type": "forever"}},
    "source.type": {"type": "image", "source": {"type": "file", "file_id": "f"}},
    "source": {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "not base64!"}},
    "source.media_type": {"type": "document", "source": {"type": "text", "media_type": "text/html", "data": "x"}},
    "context": {**DOCUMENT, "context": 1},
    "tool_use_id": {"type": "tool_result", "content": "x"},
    "content[0].type": {**RESULT, "content": [{"type": "tool_use"}]},
    "content[0].tool_name": {**RESULT, "content": [{"type": "tool_reference"}]},
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
    assert found.rename("messages[2].content[1].file.file_data") == "messages[0].content[2].source"
    assert found.rename("messages[1].tool_call_id") == "messages[0].content[0].tool_use_id"
    assert found.rename("messages[0].content[0].text") == "system[0].text"
    assert found.rename("tools[3].function.parameters") == "tools[3].input_schema"


def test_a_released_body_is_restored():
    raw = json.dumps(body({"type": "text", "text": "x" * 10_000})).encode()
    chat, _ = request.parse(json.loads(raw), raw)
    before, original = chat.fields, chat.messages_body
    chat.body.release()
    assert chat.messages_body == {}
    chat.body.restore()
    assert (chat.fields, chat.messages_body) == (before, original)
