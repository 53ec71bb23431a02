"""A chat request says the same in Responses: turned into one and back it is what it was. What cannot be said is refused."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from completions.inbound.responses import request
from completions.providers.anthropic import request as anthropic_request
from completions.providers.gemini import request as gemini_request
from completions.request import schema
from gateway_project.errors import InvalidRequest
from tests.completions.content_parts import IMAGE, IMAGE_URL, PDF, SOUND
from tests.completions.offers import make_call, make_offer

HELLO = {"role": "user", "content": "Hello"}
TOOL = {"type": "function", "name": "add", "description": "Adds.", "parameters": {"type": "object", "properties": {}}}
CUSTOM = {"type": "custom", "name": "patch", "format": {"type": "grammar", "syntax": "lark", "definition": "start: /a/"}}
CALL = {"type": "function_call", "call_id": "call_1", "name": "add", "arguments": '{"a":1}'}
RESULT = {"type": "function_call_output", "call_id": "call_1", "output": "3"}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]}
INPUT_IMAGE = {"type": "input_image", "image_url": IMAGE_URL, "detail": "low"}
INPUT_FILE = {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="}


def body(*items: Any, **fields: Any) -> dict[str, Any]:
    return {"model": "acme/large", "input": list(items) or "Hello", **fields}


def translated(given: dict[str, Any]) -> dict[str, Any]:
    return request.parse(given)[0].fields


# --- There and back -------------------------------------------------------------------------------------------------


def as_items(message: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the items of a Responses request that say what a message of a chat request says."""
    if message["role"] == "tool":
        return [{"type": "function_call_output", "call_id": message["tool_call_id"], "output": message["content"]}]
    items: list[dict[str, Any]] = []
    if message.get("reasoning_content"):
        items.append(
            {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": message["reasoning_content"]}]}
        )
    if message["content"] is not None:
        items.append({"type": "message", "role": message["role"], "content": as_content(message["content"])})
    return items + [as_call(call) for call in message.get("tool_calls", [])]


def as_content(content: Any) -> Any:
    return content if isinstance(content, str) else [as_part(part) for part in content]


def as_part(part: dict[str, Any]) -> dict[str, Any]:
    match part["type"]:
        case "text":
            return {"type": "input_text", "text": part["text"]}
        case "image_url":
            return {
                "type": "input_image",
                "image_url": part["image_url"]["url"],
                **({"detail": part["image_url"]["detail"]} if "detail" in part["image_url"] else {}),
            }
        case "file":
            return {"type": "input_file", **part["file"]}
        case _:
            return part


def as_call(call: dict[str, Any]) -> dict[str, Any]:
    if call["type"] == "custom":
        return {"type": "custom_tool_call", "call_id": call["id"], **call["custom"]}
    return {"type": "function_call", "call_id": call["id"], **call["function"]}


def as_tool(tool: dict[str, Any]) -> dict[str, Any]:
    return {"type": tool["type"], **tool[tool["type"]]}


def as_response_request(chat: dict[str, Any]) -> dict[str, Any]:
    """Return the Responses request that says what a chat request says."""
    others = ("model", "stream", "temperature", "top_p", "metadata", "user", "models", "provider", "parallel_tool_calls")
    given = {name: chat[name] for name in others if name in chat}
    messages = chat["messages"]
    if messages[0]["role"] == "system":
        given["instructions"], messages = messages[0]["content"], messages[1:]
    given["input"] = [item for message in messages for item in as_items(message)]
    if "max_tokens" in chat:
        given["max_output_tokens"] = chat["max_tokens"]
    if "reasoning_effort" in chat:
        given["reasoning"] = {"effort": chat["reasoning_effort"]}
    if "tools" in chat:
        given["tools"] = [as_tool(tool) for tool in chat["tools"]]
    if "tool_choice" in chat:
        choice = chat["tool_choice"]
        given["tool_choice"] = choice if isinstance(choice, str) else as_tool(choice)
    text = {"verbosity": chat["verbosity"]} if "verbosity" in chat else {}
    if "response_format" in chat:
        wanted = chat["response_format"]
        text["format"] = {"type": wanted["type"], **wanted.get("json_schema", {})}
    return {**given, **({"text": text} if text else {})}


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), min_size=1, max_size=30)
text_parts = st.builds(lambda text: {"type": "text", "text": text}, texts)
parts = st.one_of(
    text_parts,
    st.sampled_from([IMAGE, {"type": "image_url", "image_url": {"url": IMAGE_URL, "detail": "high"}}, PDF, SOUND]),
)
names = st.from_regex(r"[a-zA-Z0-9_-]{1,20}", fullmatch=True)
asked = st.builds(
    lambda role, text, several: {"role": role, "content": several if role == "user" and several else text},
    st.sampled_from(["user", "developer", "system"]),
    texts,
    st.none() | st.lists(parts, min_size=2, max_size=3),
)
functions = st.builds(
    lambda name, arguments: {"type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}},
    names,
    st.dictionaries(names, texts | st.integers(), max_size=2),
)
customs = st.builds(lambda name, given: {"type": "custom", "custom": {"name": name, "input": given}}, names, texts)


def exchange(thought: str | None, said: str | None, calls: list[dict[str, Any]], answer: str) -> list[dict[str, Any]]:
    """Return a turn of the assistant, and the results of its calls."""
    numbered = [{"id": f"call_{index}", **call} for index, call in enumerate(calls)]
    turn: dict[str, Any] = {"role": "assistant", "content": said if said or calls else "."}
    turn |= {"reasoning_content": thought} if thought else {}
    turn |= {"tool_calls": numbered} if calls else {}
    return [turn, *({"role": "tool", "tool_call_id": call["id"], "content": answer} for call in numbered)]


exchanges = st.builds(exchange, st.none() | texts, st.none() | texts, st.lists(functions | customs, max_size=3), texts)
conversations = st.builds(
    lambda first, pairs: [*first, *(message for answered, more in pairs for message in (*answered, *more))],
    st.lists(asked, min_size=1, max_size=2),
    st.lists(st.tuples(exchanges, st.lists(asked, min_size=1, max_size=1)), max_size=3),
)
declared = st.builds(
    lambda name, strict: {
        "type": "function",
        "function": {"name": name, "description": "Does.", "parameters": {"type": "object"}, "strict": strict},
    },
    names,
    st.booleans(),
)
optional_fields = st.fixed_dictionaries(
    {},
    optional={
        "max_tokens": st.integers(1, 10_000),
        "temperature": st.sampled_from([0.0, 0.5, 2.0]),
        "top_p": st.sampled_from([0.5, 1.0]),
        "metadata": st.dictionaries(names, texts, max_size=2),
        "user": texts,
        "models": st.just(["acme/small"]),
        "provider": st.just({"only": ["acme"]}),
        "reasoning_effort": st.sampled_from(schema.REASONING_EFFORTS),
        "verbosity": st.sampled_from(schema.VERBOSITIES),
        "response_format": st.sampled_from(
            [
                {"type": "json_object"},
                {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}, "strict": True}},
            ]
        ),
    },
)


@given(
    conversations,
    st.booleans(),
    st.lists(declared, max_size=2),
    st.sampled_from([None, "auto", "required", 0]),
    optional_fields,
)
def test_a_chat_request_is_the_same_there_and_back(messages, is_streamed, tools, choice, fields):
    chat = {"model": "acme/large", "messages": messages, "stream": is_streamed, **fields}
    if tools:
        named = {"type": "function", "function": {"name": tools[0]["function"]["name"]}}
        chat |= {"tools": tools, "parallel_tool_calls": False}
        chat |= {} if choice is None else {"tool_choice": choice or named}
    schema.parse(chat)
    assert translated(as_response_request(chat)) == chat


# --- What chat says in other words ------------------------------------------------------------------------------------


def test_a_text_is_the_message_of_a_user_after_the_instructions():
    given = body(instructions="Be brief.")
    assert translated(given)["messages"] == [{"role": "system", "content": "Be brief."}, HELLO]


def test_items_of_one_turn_are_one_message_and_results_follow():
    said = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Let me see."}]}
    second = {**CALL, "call_id": "call_2"}
    turn, *results = translated(body(REASONING, said, CALL, second, RESULT, {**RESULT, "call_id": "call_2"}))["messages"]
    assert (turn["reasoning_content"], turn["content"]) == ("Hm.", "Let me see.")
    assert [call["id"] for call in turn["tool_calls"]] == [result["tool_call_id"] for result in results] == ["call_1", "call_2"]


def test_what_is_said_after_calls_stays_before_their_results():
    said = {"role": "assistant", "content": "Wait."}
    [turn, result] = translated(body(CALL, REASONING, said, RESULT))["messages"]
    assert (turn["role"], turn["content"], len(turn["tool_calls"]), result["role"]) == ("assistant", "Wait.", 1, "tool")


def test_a_second_text_of_the_assistant_is_a_message_of_its_own():
    said = {"role": "assistant", "content": "Wait."}
    first, second = translated(body(said, REASONING, {**said, "content": "Now."}))["messages"]
    assert (first["content"], second["content"], second["reasoning_content"]) == ("Wait.", "Now.", "Hm.")


def test_images_in_results_follow_all_results_of_the_turn():
    shown = {**RESULT, "output": [{"type": "input_text", "text": "3"}, INPUT_IMAGE]}
    items = body(CALL, {**CALL, "call_id": "b"}, shown, {**RESULT, "call_id": "b"}, HELLO)
    _, first, second, image, question = translated(items)["messages"]
    assert [first["role"], second["role"], image["role"], question["role"]] == ["tool", "tool", "user", "user"]
    assert first["content"] == "3"
    assert "call_1" in image["content"][0]["text"]
    assert image["content"][1]["image_url"] == {"url": IMAGE_URL, "detail": "low"}


def test_custom_tools_are_not_lost():
    """litellm#31571: they were dropped."""
    call = {"type": "custom_tool_call", "call_id": "c", "name": "patch", "input": "a"}
    result = {"type": "custom_tool_call_output", "call_id": "c", "output": "done"}
    fields = translated(body(call, result, tools=[TOOL, CUSTOM], tool_choice={"type": "custom", "name": "patch"}))
    grammar = {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: /a/"}}
    assert fields["tools"][1] == {"type": "custom", "custom": {"name": "patch", "format": grammar}}
    assert fields["tool_choice"] == {"type": "custom", "custom": {"name": "patch"}}
    assert fields["messages"][0]["tool_calls"] == [{"id": "c", "type": "custom", "custom": {"name": "patch", "input": "a"}}]
    assert fields["messages"][1] == {"role": "tool", "tool_call_id": "c", "content": "done"}


def test_some_of_the_tools_may_be_allowed():
    choice = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "add"}]}
    named = [{"type": "function", "function": {"name": "add"}}]
    expected = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": named}}
    assert translated(body(tools=[TOOL], tool_choice=choice))["tool_choice"] == expected


def test_without_tools_nothing_is_said_of_them():
    fields = translated(body(tools=[], tool_choice="auto", parallel_tool_calls=True))
    assert fields.keys().isdisjoint({"tools", "tool_choice", "parallel_tool_calls"})


def test_probabilities_are_included():
    fields = translated(body(include=["message.output_text.logprobs", "reasoning.encrypted_content"], top_logprobs=2))
    assert (fields["logprobs"], fields["top_logprobs"]) == (True, 2)
    assert "logprobs" not in translated(body(include=["reasoning.encrypted_content"], top_logprobs=0))


def test_what_no_provider_is_sent_is_kept_to_be_named():
    items = ({**REASONING, "encrypted_content": "gAAA"}, {"role": "assistant", "content": "Hi", "phase": "final_answer"})
    chat, *_ = request.parse(body(*items, reasoning={"summary": "detailed"}))
    assert chat.contents.message_fields == {"reasoning_content", "encrypted_content", "phase"}
    assert chat.fields["reasoning_summary"] == "detailed"
    assert "reasoning_summary" not in translated(body(reasoning={"summary": "auto"}))


def test_what_codex_sends_is_read():
    given = body(
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be careful."}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Fix it."}]},
        {**REASONING, "encrypted_content": None},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "I look."}],
            "phase": "commentary",
        },
        CALL,
        RESULT,
        instructions="You are a coding agent.",
        tools=[{**TOOL, "strict": False}],
        tool_choice="auto",
        parallel_tool_calls=True,
        reasoning={"effort": "medium", "summary": "auto", "context": "all_turns"},
        store=False,
        stream=True,
        include=["reasoning.encrypted_content"],
        prompt_cache_key="0199",
        text={"verbosity": "low"},
        client_metadata={"x-codex-installation-id": "a"},
    )
    fields = translated(given)
    assert [message["role"] for message in fields["messages"]] == ["system", "developer", "user", "assistant", "tool"]
    assert (fields["reasoning_effort"], fields["verbosity"], fields["stream"]) == ("medium", "low", True)


def test_the_prompt_can_be_cached_at_anthropic():
    chat, *_ = request.parse(body(cache_control={"type": "ephemeral"}))
    call = make_call(chat, make_offer("anthropic", "claude-sonnet-4-5"), max_tokens=9)
    assert anthropic_request.body(call, stream=False)["cache_control"] == {"type": "ephemeral"}


def test_reasoning_that_says_nothing_is_no_message():
    assert translated(body({**REASONING, "summary": []}, HELLO))["messages"] == [HELLO]


def test_the_reply_repeats_the_request():
    _, _, repeated = request.parse(body(tools=[TOOL], temperature=0.5, text={"verbosity": "low"}))
    read = {name: json.loads(bytes(value)) for name, value in repeated.items()}
    assert (read["tools"], read["tool_choice"]) == ([TOOL], "auto")
    assert (read["temperature"], read["text"]) == (0.5, {"format": {"type": "text"}, "verbosity": "low"})


def test_a_long_field_is_not_repeated():
    _, _, repeated = request.parse(body(instructions="x" * 65_534, prompt_cache_key="x" * 65_535))
    assert (len(bytes(repeated["instructions"])), bytes(repeated["prompt_cache_key"])) == (65_536, b"null")


# --- What is refused, by the caller's name of the field ---------------------------------------------------------------

REFUSED: dict[str, Any] = {
    "model": {"model": None},
    "input": {"input": None},
    "input[0].role": {"input": [{"role": "tool", "content": "x"}]},
    "input[0].name": {"input": [{**HELLO, "name": "y"}]},
    "instructions": {"instructions": [HELLO]},
    "store": {"store": "yes"},
    "background": {"background": "yes"},
    "background ": {"background": True, "store": False},
    "conversation": {"conversation": {"id": "conv_1"}},
    "previous_response_id": {"previous_response_id": "resp_1"},
    "prompt": {"prompt": {"id": "pmpt_1"}},
    "max_output_tokens": {"max_output_tokens": 0},
    "temperature": {"temperature": 3},
    "top_p": {"top_p": 2},
    "top_logprobs": {"top_logprobs": 21},
    "truncation": {"truncation": "auto"},
    "service_tier": {"service_tier": "ultrafast"},
    "service_tier ": {"service_tier": ["flex"]},
    "prompt_cache_retention": {"prompt_cache_retention": "1y"},
    "prompt_cache_options": {"prompt_cache_options": "explicit"},
    "prompt_cache_options.ttl": {"prompt_cache_options": {"ttl": "12h"}},
    "prompt_cache_options.comparison_response_id": {"prompt_cache_options": {"comparison_response_id": "resp_1"}},
    "context_management": {"context_management": "auto"},
    "moderation": {"moderation": "block"},
    "moderation.policy.input.mode": {"moderation": {"model": "m", "policy": {"input": {"mode": "on"}}}},
    "stop": {"stop": "x"},
    "stream": {"stream": "yes"},
    "stream_options.include_usage": {"stream_options": {"include_usage": True}},
    "include[1]": {"include": ["reasoning.encrypted_content", "file_search_call.results"]},
    "client_metadata": {"client_metadata": "x"},
    "cache_control.ttl": {"cache_control": {"type": "ephemeral", "ttl": "2h"}},
    "metadata.team": {"metadata": {"team": 1}},
    "user": {"user": 1},
    "reasoning.effort": {"reasoning": {"effort": "some"}},
    "reasoning.summary": {"reasoning": {"summary": "long"}},
    "reasoning.context": {"reasoning": {"context": "current_turn"}},
    "reasoning.mode": {"reasoning": {"mode": "pro"}},
    "reasoning.budget": {"reasoning": {"budget": 1}},
    "text.verbosity": {"text": {"verbosity": "some"}},
    "text.stop": {"text": {"stop": "x"}},
    "text.format.type": {"text": {"format": {"type": "grammar"}}},
    "text.format.name": {"text": {"format": {"type": "json_schema", "name": "a b", "schema": {}}}},
    "text.format.schema": {"text": {"format": {"type": "json_schema", "name": "a"}}},
    "text.format.strict": {"text": {"format": {"type": "json_schema", "name": "a", "schema": {}, "strict": 1}}},
    "tools": {"tools": [TOOL] * 1_001},
    "tools[0].type": {"tools": [{"type": "file_search"}]},
    "max_tool_calls": {"tools": [{"type": "web_search"}]},
    "max_tool_calls ": {"max_tool_calls": 0},
    "tools[1].type": {"tools": [{"type": "web_search"}] * 2, "max_tool_calls": 1},
    "tools[0].search_context_size": {"tools": [{"type": "web_search", "search_context_size": "all"}], "max_tool_calls": 1},
    "tools[0].external_web_access": {"tools": [{"type": "web_search", "external_web_access": 1}], "max_tool_calls": 1},
    "tools[0].filters": {"tools": [{"type": "web_search", "filters": "x"}], "max_tool_calls": 1},
    "tools[1].name": {"tools": [TOOL, {**TOOL, "name": "a b"}]},
    "tools[0].parameters": {"tools": [{**TOOL, "parameters": "x"}]},
    "tools[0].description": {"tools": [{**TOOL, "description": 0}]},
    "tools[0].strict": {"tools": [{**TOOL, "strict": "yes"}]},
    "tools[0].defer_loading": {"tools": [{**TOOL, "defer_loading": True}]},
    "tools[0].format.type": {"tools": [{**CUSTOM, "format": {"type": "json"}}]},
    "tools[0].format.syntax": {"tools": [{**CUSTOM, "format": {"type": "grammar", "syntax": "peg", "definition": "x"}}]},
    "tool_choice": {"tool_choice": "required"},
    "tool_choice.type": {"tools": [TOOL], "tool_choice": {"type": "mcp", "server_label": "x"}},
    "tool_choice.name": {"tools": [TOOL], "tool_choice": {"type": "function", "name": "other"}},
    "tool_choice.mode": {"tools": [TOOL], "tool_choice": {"type": "allowed_tools", "mode": "none", "tools": []}},
    "models": {"models": "x"},
}


@pytest.mark.parametrize("param", REFUSED)
def test_a_field_that_is_refused_is_named(param):
    given = {name: value for name, value in {**body(), **REFUSED[param]}.items() if value is not None}
    assert_refused(given, param.strip())


def assert_refused(given: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        request.parse(given)
    assert refused.value.param == param
    assert refused.value.message.startswith(f"{param} ")


def test_an_earlier_response_is_refused_and_not_ignored():
    """mlx-vlm#1046: it is ignored. Here it is part of the input before the request is read."""
    with pytest.raises(InvalidRequest, match="previous_response_id is not supported here"):
        request.parse(body(previous_response_id="resp_1"))
    assert translated(body(store=False, previous_response_id=None, background=False))["messages"] == [HELLO]


ITEMS: dict[str, Any] = {
    "type": {"type": "item_reference", "id": "msg_1"},
    "type ": {"type": "file_search_call", "id": "fs_1"},
    "action": {"type": "web_search_call", "id": "ws_1", "action": "search"},
    "type  ": {"id": "msg_1"},
    "role": {"type": "message", "content": "x"},
    "content": {"role": "user", "content": 1},
    "content ": {"role": "user", "content": []},
    "content[0].type": {"role": "user", "content": [{"type": "text", "text": "x"}]},
    "content[0].type ": {"role": "assistant", "content": [{"type": "input_text", "text": "x"}]},
    "content[0].type  ": {"role": "system", "content": [INPUT_IMAGE]},
    "content[0].text": {"role": "user", "content": [{"type": "input_text"}]},
    "content[0].annotations[0].type": {
        "role": "assistant",
        "content": [{"type": "output_text", "text": "x", "annotations": [{"type": "file_citation"}]}],
    },
    "content[0].image_url": {"role": "user", "content": [{"type": "input_image", "image_url": "ftp://example.org/a.png"}]},
    "content[0].image_url ": {"role": "user", "content": [{"type": "input_image"}]},
    "content[0].detail": {"role": "user", "content": [{**INPUT_IMAGE, "detail": "best"}]},
    "content[0].file_id": {"role": "user", "content": [{"type": "input_image", "file_id": "f"}]},
    "content[0].file_id ": {"role": "user", "content": [{"type": "input_file", "file_id": "f"}]},
    "content[0].file_url": {"role": "user", "content": [{"type": "input_file", "file_url": "https://example.org/a.pdf"}]},
    "content[0].file_data": {"role": "user", "content": [{"type": "input_file"}]},
    "content[0].input_audio.format": {
        "role": "user",
        "content": [{"type": "input_audio", "input_audio": {"data": "", "format": "mid"}}],
    },
    "content[0].prompt_cache_breakpoint": {
        "role": "user",
        "content": [{"type": "input_text", "text": "x", "prompt_cache_breakpoint": {"mode": "explicit"}}],
    },
    "content[0].refusal": {"role": "assistant", "content": [{"type": "refusal"}]},
    "name": {**CALL, "name": None},
    "name ": {**CALL, "name": "a b"},
    "arguments": {**CALL, "arguments": {"a": 1}},
    "call_id": {**CALL, "call_id": None},
    "call_id ": {**RESULT, "call_id": None},
    "caller": {**CALL, "caller": {"type": "program", "caller_id": "x"}},
    "namespace": {**CALL, "namespace": 1},
    "input": {"type": "custom_tool_call", "call_id": "c", "name": "patch"},
    "output": {**RESULT, "output": None},
    "output ": {**RESULT, "output": []},
    "output[0].type": {**RESULT, "output": [{"type": "output_text", "text": "x"}]},
    "summary[0].text": {**REASONING, "summary": [{"type": "summary_text"}]},
    "content  ": {**REASONING, "content": "x"},
    "content[0].type   ": {**REASONING, "content": [{"type": "summary_text", "text": "x"}]},
    "encrypted_content": {**REASONING, "encrypted_content": 1},
}


@pytest.mark.parametrize("member", ITEMS)
def test_an_item_that_is_refused_is_named(member):
    items = [HELLO, REASONING, CALL, RESULT, {k: v for k, v in ITEMS[member].items() if v is not None}]
    assert_refused(body(*items, instructions="x"), f"input[4].{member.rstrip()}")


junk: Any = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "x", "auto", "function", "message", "user", "text"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "role", "content", "name", "text", "format", "summary", "output", "call_id", "tools", "x"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)
known = sorted(request._FIELDS)


@given(st.dictionaries(st.sampled_from(known), junk, max_size=6), st.lists(junk, max_size=4))
def test_whatever_comes_is_read_or_refused_by_the_name_of_its_field(fields, items):
    given = {"model": "acme/large", "input": items or "Hello", **fields}
    assert_names_a_field(given, refusal_of(lambda: request.parse(given)))


@given(conversations, st.lists(declared, max_size=2), optional_fields, st.sampled_from([anthropic_request, gemini_request]))
def test_what_a_provider_cannot_do_is_refused_by_the_name_of_its_field(messages, tools, fields, provider):
    chat = {"model": "acme/large", "messages": messages, "stream": False, **fields, **({"tools": tools} if tools else {})}
    given = as_response_request(chat)
    read, found, _ = request.parse(given)
    param = refusal_of(lambda: provider.check(read))
    assert_names_a_field(given, param and found.rename(param))


def refusal_of(call: Any) -> str | None:
    """Return the field that a request is refused for, or None. Raises anything but a refusal."""
    try:
        call()
    except InvalidRequest as refused:
        return refused.param or ""
    return None


def assert_names_a_field(given: dict[str, Any], param: str | None) -> None:
    """Assert that there is such a field, or could be: what it is a member of is there."""
    if param is None:
        return
    *parents, last = [name or int(index) for name, index in re.findall(r"([^.\[\]]+)|\[(\d+)\]", param)]
    value: Any = given
    for part in parents:
        value = value[part]
    assert isinstance(value, list if isinstance(last, int) else dict), param


def test_what_an_adapter_refuses_is_named_by_its_own_item():
    image = {"role": "user", "content": [{"type": "input_text", "text": "x"}, INPUT_FILE]}
    _, found, _ = request.parse(body(HELLO, CALL, RESULT, image, instructions="s"))
    assert found.rename("messages[4].content[1].file.file_data") == "input[3].content[1].file_data"
    assert found.rename("messages[4].content[1].type") == "input[3].content[1].type"
    assert found.rename("messages[2].tool_calls[0].function.arguments") == "input[1].arguments"
    assert found.rename("messages[3].tool_call_id") == "input[2].call_id"
    assert found.rename("messages[0].content") == "instructions"
    assert found.rename("tools[3].function.parameters") == "tools[3].parameters"
    assert found.rename("response_format.json_schema.schema") == "text.format.schema"
    assert found.rename("messages") == "input"


def test_a_released_body_is_restored_and_sent_in_no_other_language():
    raw = json.dumps(body({"role": "user", "content": "x" * 10_000})).encode()
    chat, *_ = request.parse(json.loads(raw), raw)
    before = chat.fields
    chat.body.release()
    chat.body.restore()
    assert chat.fields == before
    assert chat.messages_body is None
