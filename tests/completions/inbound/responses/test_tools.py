"""Tools of OpenAI's Responses that chat completions do not have: namespaces, and OpenAI's own that run at the caller."""

import json
from typing import Any

import pytest

from completions.inbound.responses import output, request
from completions.inbound.responses.output import Output
from completions.providers.adapters import AnthropicAdapter
from completions.providers.gemini import request as gemini_request
from completions.providers.openai import request as openai_request
from gateway_project.errors import InvalidRequest
from tests.completions.content_parts import IMAGE_URL
from tests.completions.inbound.responses.put_together import put_together
from tests.completions.offers import make_call, make_offer

HELLO = {"role": "user", "content": "Hello"}
PARAMETERS = {"type": "object", "properties": {"a": {"type": "integer"}}}
FUNCTION = {"type": "function", "name": "add", "description": "Adds.", "parameters": PARAMETERS}
NAMESPACE = {"type": "namespace", "name": "mcp__math", "description": "Mathematics.", "tools": [FUNCTION]}
PATCH = {"type": "custom", "name": "apply_patch", "format": {"type": "grammar", "syntax": "lark", "definition": "start: /a/"}}
SEARCH = {"type": "tool_search", "execution": "client", "description": "Searches.", "parameters": {"type": "object"}}


def read(*items: Any, **fields: Any) -> Any:
    return request.parse({"model": "acme/m", "input": [HELLO, *items], **fields})


def called(read_request: Any, name: str, arguments: str, **call: Any) -> dict[str, Any]:
    """Return the item that a call of the model becomes. In a stream it is the same, as OpenAI's SDK puts it together."""
    _, found, _ = read_request
    function = {"id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments}, **call}
    message = {"content": None, "tool_calls": [function]}
    said = output.Output("x_", found.called)
    said.read_whole({"message": message, "finish_reason": "tool_calls"})
    [item] = said.items()
    streamed = Output("x_", found.called)
    pieces = [arguments[:5], arguments[5:]] if "function" in function and "custom" not in call else []
    head = {"index": 0, **function, **({"function": {"name": name, "arguments": ""}} if pieces else {})}
    events = streamed.read({"delta": {"tool_calls": [head]}})
    for piece in pieces:
        events += streamed.read({"delta": {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}})
    events += streamed.read({"delta": {}, "finish_reason": "tool_calls"}) + streamed.end()
    plain = json.loads(json.dumps(item))
    assert put_together(json.loads(json.dumps(events)), [plain]) == [plain]
    return plain


# --- Namespaces -----------------------------------------------------------------------------------------------------


def test_a_namespace_is_flattened_and_set_on_the_calls():
    asked = read(tools=[NAMESPACE, FUNCTION])
    first, second = asked[0].fields["tools"]
    assert first["function"] == {
        "name": "mcp__math__add",
        "description": "mcp__math: Mathematics.\n\nAdds.",
        "parameters": PARAMETERS,
    }
    assert second["function"]["name"] == "add"
    call = called(asked, "mcp__math__add", '{"a":1}')
    assert (call["type"], call["namespace"], call["name"], call["arguments"]) == (
        "function_call",
        "mcp__math",
        "add",
        '{"a":1}',
    )
    assert "namespace" not in called(asked, "add", '{"a":1}')


def test_the_calls_are_taken_back():
    call = {"type": "function_call", "call_id": "c", "namespace": "mcp__math", "name": "add", "arguments": "{}"}
    chat, *_ = read(call, {"type": "function_call_output", "call_id": "c", "output": "3"}, tools=[NAMESPACE])
    assert chat.messages[1]["tool_calls"][0]["function"]["name"] == "mcp__math__add"


def test_names_that_are_too_long_end_in_a_digest_and_differ():
    long = {"type": "namespace", "name": "m" * 40, "tools": [{**FUNCTION, "name": "a" * 40 + end} for end in "bc"]}
    asked = read(tools=[long])
    names = [tool["function"]["name"] for tool in asked[0].fields["tools"]]
    assert [len(name) for name in names] == [64, 64]
    assert names[0] != names[1]
    assert called(asked, names[1], '{"a":1}')["name"] == "a" * 40 + "c"


@pytest.mark.parametrize("kind", ["function", "custom"])
def test_a_long_name_outside_of_a_namespace_is_shortened_too_and_comes_back_whole(kind):
    name = "a" * 100
    call = {"type": "function_call", "call_id": "c", "name": name, "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c", "output": "3"}
    asked = read(call, result, tools=[{"type": kind, "name": name}], tool_choice={"type": kind, "name": name})
    short = asked[0].fields["tools"][0][kind]["name"]
    assert len(short) == 64
    assert asked[0].messages[1]["tool_calls"][0]["function"]["name"] == short
    assert asked[0].fields["tool_choice"][kind]["name"] == short
    back = called(asked, short, '{"input":"1"}')
    assert (back["name"], "namespace" in back) == (name, False)


def test_errors_name_the_tool_in_its_namespace():
    with pytest.raises(InvalidRequest) as refused:
        read(tools=[FUNCTION, {**NAMESPACE, "tools": [FUNCTION, {**FUNCTION, "name": "b", "parameters": 1}]}])
    assert refused.value.param == "tools[1].tools[1].parameters"
    _, found, _ = read(tools=[NAMESPACE, FUNCTION])
    assert found.rename("tools[0].function.name") == "tools[0].tools[0].name"
    with pytest.raises(InvalidRequest) as refused:
        read(tools=[NAMESPACE, {**FUNCTION, "name": "mcp__math__add"}])
    assert refused.value.param == "tools[1].name"


# --- Tools that run at the caller -----------------------------------------------------------------------------------

CALLER_TOOLS = [
    (
        {"type": "local_shell"},
        "local_shell_call",
        {"action": {"type": "exec", "env": {}, "command": ["ls"]}},
        {"command": ["ls"]},
    ),
    ({"type": "shell", "environment": {"type": "local"}}, "shell_call", {"action": {"commands": ["ls"]}}, {"commands": ["ls"]}),
    (
        {"type": "apply_patch"},
        "apply_patch_call",
        {"operation": {"type": "create_file", "path": "a", "diff": "+b"}},
        {"type": "create_file", "path": "a", "diff": "+b"},
    ),
    (
        {"type": "computer"},
        "computer_call",
        {"actions": [{"type": "click", "button": "left", "x": 1, "y": 2}], "pending_safety_checks": []},
        {"actions": [{"type": "click", "button": "left", "x": 1, "y": 2}]},
    ),
    (SEARCH, "tool_search_call", {"arguments": {"query": "add"}, "execution": "client"}, {"query": "add"}),
]


@pytest.mark.parametrize(("tool", "kind", "members", "arguments"), CALLER_TOOLS)
def test_a_tool_of_the_callers_is_a_function_and_its_call_is_its_own(tool, kind, members, arguments):
    asked = read(tools=[tool])
    [function] = asked[0].fields["tools"]
    assert (function["type"], function["function"]["name"]) == ("function", tool["type"])
    call = called(asked, tool["type"], json.dumps(arguments))
    assert call == {"id": "ctc_x_0", **call, "type": kind, "call_id": "call_1", "status": "completed", **members}
    chat, *_ = read({"id": "i", "type": kind, "call_id": "c", "status": "completed", **members}, tools=[tool])
    [back] = chat.messages[1]["tool_calls"]
    assert json.loads(back["function"]["arguments"]) == arguments


RESULTS = [
    ({"type": "local_shell_call_output", "call_id": "c", "output": '{"output": "a"}'}, '{"output": "a"}'),
    ({"type": "local_shell_call_output", "id": "c", "output": "a"}, "a"),
    ({"type": "shell_call_output", "call_id": "c", "output": [{"stdout": "a"}]}, '[{"stdout":"a"}]'),
    ({"type": "apply_patch_call_output", "call_id": "c", "status": "failed", "output": "no file"}, "failed: no file"),
    ({"type": "apply_patch_call_output", "call_id": "c", "status": "completed"}, "completed: "),
]


@pytest.mark.parametrize(("item", "text"), RESULTS)
def test_what_it_returned_is_told_as_text(item, text):
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    chat, *_ = read(call, item)
    assert chat.messages[2] == {"role": "tool", "tool_call_id": "c", "content": text}


SHOWN = {"type": "computer_call_output", "call_id": "c", "output": {"type": "computer_screenshot", "image_url": IMAGE_URL}}


def test_a_screenshot_follows_the_results():
    call = {"type": "computer_call", "call_id": "c", "actions": [{"type": "screenshot"}]}
    chat, found, _ = read(call, SHOWN, tools=[{"type": "computer"}])
    label = {"type": "text", "text": "Shown by the result of c:"}
    assert chat.messages[2:] == [
        {"role": "tool", "tool_call_id": "c", "content": ""},
        {"role": "user", "content": [label, {"type": "image_url", "image_url": {"url": IMAGE_URL}}]},
    ]
    assert found.rename("messages[3].content[1].image_url.url") == "input[2].output.image_url"


@pytest.mark.parametrize(
    ("item", "param"),
    [
        ({**SHOWN, "output": "done"}, "output"),
        ({**SHOWN, "output": {"type": "computer_screenshot", "file_id": "f"}}, "output.file_id"),
        ({**SHOWN, "acknowledged_safety_checks": [{"id": "s"}]}, "acknowledged_safety_checks"),
        ({"type": "computer_call", "call_id": "c", "actions": {}}, "actions"),
        (
            {"type": "computer_call", "call_id": "c", "actions": [], "pending_safety_checks": [{"id": "s"}]},
            "pending_safety_checks",
        ),
        ({"type": "computer_call", "call_id": "c", "action": {"type": "screenshot"}}, "action"),
    ],
)
def test_what_is_unknown_of_a_computer_is_refused(item, param):
    call = {"type": "computer_call", "call_id": "c", "actions": [{"type": "screenshot"}]}
    with pytest.raises(InvalidRequest) as refused:
        read(call, item)
    assert refused.value.param == f"input[2].{param}"


@pytest.mark.parametrize("arguments", ["", "[]", '{"actions": 1}'])
def test_a_computer_that_is_called_without_actions_has_none(arguments):
    assert called(read(tools=[{"type": "computer"}]), "computer", arguments)["actions"] == []


def test_what_a_search_found_is_declared_once():
    search = {"type": "tool_search_call", "call_id": "c", "execution": "client", "arguments": {"query": "add"}}
    found = {"type": "tool_search_output", "call_id": "c", "execution": "client", "tools": [NAMESPACE]}
    deferred = {**NAMESPACE, "tools": [{**FUNCTION, "defer_loading": True}]}
    asked = read(search, found, {**search, "call_id": "d"}, {**found, "call_id": "d", "tools": [deferred]}, tools=[SEARCH])
    assert [tool["function"]["name"] for tool in asked[0].fields["tools"]] == ["tool_search", "mcp__math__add"]
    assert called(asked, "mcp__math__add", '{"a":1}')["namespace"] == "mcp__math"


@pytest.mark.parametrize("kind", ["web_search_preview", "file_search", "mcp", "code_interpreter", "image_generation"])
def test_tools_that_run_at_openai_are_refused_by_name(kind):
    with pytest.raises(InvalidRequest, match=rf"tools\[1\]\.type must not be {kind}: that tool runs at OpenAI") as refused:
        read(tools=[FUNCTION, {"type": kind}])
    assert refused.value.param == "tools[1].type"


@pytest.mark.parametrize(
    ("tool", "param"),
    [
        ({**SEARCH, "execution": "server"}, "execution"),
        ({"type": "shell", "environment": {"type": "container_auto"}}, "environment"),
        ({**FUNCTION, "allowed_callers": ["programmatic"]}, "allowed_callers"),
        ({"type": "computer_use_preview"}, "type"),
        ({"type": "other"}, "type"),
    ],
)
def test_what_would_run_at_openai_of_a_tool_is_refused(tool, param):
    with pytest.raises(InvalidRequest) as refused:
        read(tools=[tool])
    assert refused.value.param == f"tools[0].{param}"


# --- Custom tools ---------------------------------------------------------------------------------------------------


def test_a_custom_tool_is_a_function_where_a_provider_has_none_and_its_call_is_custom_again():
    history = {"type": "custom_tool_call", "call_id": "c", "name": "apply_patch", "input": "a"}
    result = {"type": "custom_tool_call_output", "call_id": "c", "output": "done"}
    asked = read(history, result, tools=[PATCH], tool_choice={"type": "custom", "name": "apply_patch"})
    to_anthropic = make_call(asked[0], make_offer("anthropic", "claude-haiku-4-5"), 100)
    anthropic = AnthropicAdapter().body(to_anthropic, stream=False)
    [tool] = anthropic["tools"]
    assert (tool["name"], tool["input_schema"]["required"]) == ("apply_patch", ["input"])
    assert "start: /a/" in tool["description"]
    assert anthropic["messages"][1]["content"][0]["input"] == {"input": "a"}
    assert anthropic["tool_choice"] == {"type": "tool", "name": "apply_patch"}
    gemini = gemini_request.body(make_call(asked[0], make_offer("gemini", "gemini-3.5-flash"), 100), stream=False)
    assert gemini["contents"][1]["parts"][0]["functionCall"]["args"] == {"input": "a"}
    call = called(asked, "apply_patch", '{"input":"a\\nb"}')
    assert (call["type"], call["name"], call["input"]) == ("custom_tool_call", "apply_patch", "a\nb")
    assert called(asked, "apply_patch", '"a"')["input"] == '"a"', "what is no object is not lost"


@pytest.mark.parametrize(
    ("base_url", "kind"),
    [("https://api.openai.com/v1", "custom"), ("http://127.0.0.1:9/v1", "custom"), ("https://api.groq.com/v1", "function")],
)
def test_servers_that_speak_openai_get_what_they_take(base_url, kind):
    chat, *_ = read(tools=[PATCH])
    body = openai_request.body(make_call(chat, make_offer("openai", "m", base_url=base_url), 100), stream=False)
    assert [tool["type"] for tool in body["tools"]] == [kind]
