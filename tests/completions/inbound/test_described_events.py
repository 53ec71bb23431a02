"""What the OpenAPI description says of replies and events is what is served, to the last member, in all three languages."""

import json
from typing import Any

import jsonschema
import pytest

from gateway_project.web.openapi import specification
from tests import factories
from tests.completions.providers.anthropic import scripts as claude
from tests.completions.providers.openai.responses import scripts as gpt
from tests.upstream import CLOSE, DONE, KEY_ENV, ROLE, chunk, event, stream, usage, whole, words

CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
HELLO = [{"role": "user", "content": "Hello"}]
FUNCTION = {"name": "add", "parameters": {"type": "object", "properties": {}}}
ASKED: dict[str, dict[str, Any]] = {
    CHAT: {"messages": HELLO, "tools": [{"type": "function", "function": FUNCTION}], "stream_options": {"include_usage": True}},
    MESSAGES: {"messages": HELLO, "max_tokens": 100, "tools": [{"name": "add", "input_schema": FUNCTION["parameters"]}]},
    RESPONSES: {
        "input": "Hello",
        "tools": [
            {"type": "function", **FUNCTION},
            {"type": "custom", "name": "run"},
            {"type": "local_shell"},
            {"type": "computer"},
        ],
        "text": {"format": {"type": "json_schema", "name": "sum", "schema": {}}, "verbosity": "low"},
        "reasoning": {"effort": "low"},
    },
}


def call(name: str, kind: str = "function", text: str = "{}") -> dict[str, Any]:
    return {"id": f"call_{name}", "type": kind, kind: {"name": name, "arguments" if kind == "function" else "input": text}}


FUNCTION_CALL = call("add")
CALLS = [
    FUNCTION_CALL,
    call("run", "custom", "ls"),
    call("local_shell", text='{"command": ["ls"]}'),
    call("computer", text='{"actions": [{"type": "wait"}]}'),
]
MESSAGE = {"role": "assistant", "content": "Hello you", "refusal": "I will not.", "reasoning_content": "Hm."}
LOGPROBS = {"content": [{"token": "Hello", "logprob": -0.1, "bytes": None, "top_logprobs": []}], "refusal": None}
SAID = [ROLE, chunk({"reasoning_content": "Hm."}), words("Hello ", "you"), chunk({"refusal": "I will not."})]


def called(*calls: dict[str, Any]) -> list[bytes]:
    return [chunk({"tool_calls": [{"index": index, **each}]}) for index, each in enumerate(calls)]


def ended(finish_reason: str) -> list[bytes]:
    return [chunk(finish_reason=finish_reason), usage(), DONE]


def closed(part: Any) -> Any:
    """Return schemas that forbid every member that they do not describe."""
    if isinstance(part, list):
        return [closed(item) for item in part]
    if not isinstance(part, dict):
        return part
    found = {name: closed(value) for name, value in part.items()}
    return {"additionalProperties": False, **found} if part.get("type") == "object" and "properties" in part else found


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return specification.read_document()


@pytest.fixture(scope="module")
def check(document: dict[str, Any]) -> Any:
    """A function that validates a reply, or an event, of an endpoint. Returns it."""
    components = closed(document["components"])

    def validate(path: str, kind: str, value: Any) -> Any:
        described = document["paths"][path]["post"]["responses"]["200"]["content"][kind]["schema"]
        jsonschema.validate(value, {**described, "components": components})
        return value

    return validate


@pytest.fixture
def ask(api: Any, check: Any, large: Any, upstream: Any) -> Any:
    """A function that returns the valid events of a stream, or with ``stream=False`` the valid reply."""
    large.function_calling = True
    large.save()

    def reply(path: str, script: Any, **fields: Any) -> Any:
        upstream.will(script)
        answer = api.post(path, {"model": "acme/large", "stream": True, **ASKED[path], **fields})
        assert answer.status_code == 200, answer.content
        if not answer.streaming:
            return check(path, "application/json", answer.json())
        lines = b"".join(answer.streaming_content).decode().splitlines()
        data = [line.removeprefix("data: ") for line in lines if line.startswith("data: {")]
        return [check(path, "text/event-stream", json.loads(each)) for each in data]

    return reply


def types(document: dict[str, Any], component: str) -> set[str]:
    """Return the types of the objects that a component chooses from."""
    return set(document["components"]["schemas"][component]["discriminator"]["mapping"])


def test_whole_replies_have_the_members_that_are_described(ask):
    message = whole(message={**MESSAGE, "tool_calls": [FUNCTION_CALL]}, logprobs=LOGPROBS, finish_reason="tool_calls")
    assert ask(CHAT, message, stream=False, stream_options=None)["choices"][0]["message"]["content"] == "Hello you"
    said = ask(MESSAGES, message, stream=False)["content"]
    assert [block["type"] for block in said] == ["thinking", "text", "text", "tool_use"]
    message = whole(message={**MESSAGE, "tool_calls": CALLS}, logprobs=LOGPROBS, finish_reason="tool_calls")
    output = ask(RESPONSES, message, stream=False)["output"]
    assert [item["type"] for item in output] == [
        *("reasoning", "message", "message", "function_call", "custom_tool_call", "local_shell_call", "computer_call")
    ]


def test_every_member_of_a_whole_response_is_served(document, ask):
    reply = ask(RESPONSES, whole(), stream=False)
    assert set(document["components"]["schemas"]["ModelResponse"]["required"]) == set(reply)
    assert set(reply["text"]) == {"format", "verbosity"}


def test_chunks_are_those_that_are_described(ask):
    *_, last = ask(CHAT, stream(*SAID, *called(FUNCTION_CALL), *ended("tool_calls")))
    assert (last["choices"], last["usage"]["total_tokens"]) == ([], 11)
    *_, last = ask(CHAT, stream(*SAID, CLOSE))
    assert last["error"]["code"] == "upstream_error"


def test_nulls_of_a_provider_are_described(ask):
    nulls = {"tool_calls": None, "refusal": None, "reasoning_content": None}
    message = {"role": "assistant", "content": None, **nulls}
    assert ask(CHAT, whole(message=message), stream=False, stream_options=None)["choices"][0]["message"] == message
    _, second, *_ = ask(CHAT, stream(ROLE, chunk({"role": None, "content": "Hi", **nulls}), *ended("stop")))
    assert second["choices"][0]["delta"] == {"content": "Hi", **nulls}


def test_every_event_of_a_message_is_described_and_served(document, api, ask, check, upstream):
    found = ask(MESSAGES, stream(*SAID, *called(FUNCTION_CALL), *ended("tool_calls")))
    broken = ask(MESSAGES, stream(*SAID, CLOSE))
    assert {each["type"] for each in found + broken} == types(document, "MessageStreamEvent")
    factories.make_model("acme/claude", provider=claude_at(upstream), upstream_model="claude-sonnet-4-5", function_calling=True)
    blocks_of_claude: list[dict[str, Any]] = [
        {"type": "redacted_thinking", "data": "EmwKAhgB"},
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []},
    ]
    others = [claude.block_start(index, each) + claude.block_stop(index) for index, each in enumerate(blocks_of_claude, 1)]
    steps = claude.thoughts("Hm."), *others, claude.text("Hi", index=4), claude.tool("toolu_1", "add", "{}", index=5)
    found += ask(MESSAGES, claude.streamed(*steps), model="acme/claude")
    blocks = {each["content_block"]["type"] for each in found if each["type"] == "content_block_start"}
    assert blocks == types(document, "ContentBlock")
    deltas = {each["delta"]["type"] for each in found if each["type"] == "content_block_delta"}
    assert deltas == types(document, "ContentBlockDelta") - {"citations_delta"}  # of Anthropic, for citations


def claude_at(upstream: Any) -> Any:
    base_url = upstream.url.removesuffix("/v1")
    return factories.make_provider("claude", kind="anthropic", base_url=base_url, api_key_env=KEY_ENV)


def test_every_event_of_a_response_is_described_and_served(document, ask, large):
    found = ask(RESPONSES, stream(*SAID, *called(*CALLS), *ended("tool_calls")))
    found += ask(RESPONSES, stream(*SAID, *ended("length")))
    found += ask(RESPONSES, stream(*SAID, CLOSE))
    found += ask(RESPONSES, searched(large), tools=[{"type": "web_search"}], max_tool_calls=1)
    assert {each["type"] for each in found} == types(document, "ResponseStreamEvent")


def searched(model: Any) -> Any:
    """Let the model be asked by Responses, and search the web. Return the script of a reply that cites what it found."""
    model.routes.update(api="responses")
    factories.change_prices(model.prices, web_search_nanos=10_000_000)
    search = {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "tides"}}
    cited = {"type": "url_citation", "url": "https://example.org", "title": "Tides", "start_index": 0, "end_index": 2}
    events = [
        {"type": "response.output_item.done", "output_index": 0, "item": search},
        {"type": "response.output_text.delta", "output_index": 1, "delta": "Hi"},
        {"type": "response.output_text.annotation.added", "output_index": 1, "annotation": cited},
    ]
    return stream(gpt.begun(), *map(event, events), gpt.ended(search, gpt.message("Hi")))
