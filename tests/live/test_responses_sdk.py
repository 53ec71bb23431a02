"""OpenAI's official SDK in the language of Responses, with its own accumulator, over every kind of provider."""

import json
import threading
from typing import Any

import openai
import pytest
from pydantic import BaseModel

from tests import factories, waiting
from tests.completions.content_parts import IMAGE_URL
from tests.live.gateway import wait_until_settled
from tests.live.provider_kinds import CALLED, PNG, STREAMED, kind
from tests.upstream import KEY_ENV, ROLE, chunk, event, stream, streamed, usage, whole, words

__all__ = ["kind"]

pytestmark = pytest.mark.usefixtures("gateway", "echo_model")
TOOL = {
    "type": "function",
    "name": "add",
    "description": "Adds.",
    "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}},
    "strict": False,
}
IMAGE = {"type": "input_image", "image_url": IMAGE_URL, "detail": "auto"}


@pytest.fixture
def sdk(gateway: Any, alice: Any) -> Any:
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=factories.make_key(alice)[1], max_retries=0) as client:
        yield client


@pytest.fixture
def large(upstream: Any, alice: Any) -> Any:
    provider = factories.make_provider("scripted", kind="openai", base_url=upstream.url, api_key_env=KEY_ENV)
    yield factories.make_model("acme/large", provider=provider, upstream_model="large-2026", function_calling=True)
    wait_until_settled(alice)


def ask(sdk: Any, is_streamed: bool, **fields: Any) -> Any:
    """Return the response that the SDK reads, or puts together from its stream. Its items are those of the events."""
    request = {"model": "acme/large", "input": "one two three", **fields}
    if not is_streamed:
        return sdk.responses.create(**request)
    with sdk.responses.stream(**request) as events:
        done = [event.item for event in events if event.type == "response.output_item.done"]
        response = events.get_final_response()
    assert [item.id for item in response.output] == [item.id for item in done]
    return response


@STREAMED
def test_text_over_every_kind(sdk, upstream, kind, is_streamed):
    upstream.will(kind.streamed_text if is_streamed else kind.text)
    response = ask(sdk, is_streamed, instructions="Be brief.", max_output_tokens=100, store=False)
    assert (response.output_text, response.status, response.model) == ("Hello you", "completed", "acme/large")
    assert response.store is False
    assert response.usage.input_tokens > 0
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens
    assert response.usage.cost > 0


@STREAMED
def test_a_call_of_a_tool_over_every_kind(sdk, upstream, kind, is_streamed):
    upstream.will(kind.streamed_call if is_streamed else kind.call)
    response = ask(sdk, is_streamed, tools=[TOOL], tool_choice="required", parallel_tool_calls=True)
    text, call = [item for item in response.output if item.type != "reasoning"]  # Gemini signs its calls
    assert text.content[0].text == "Let me see."
    assert (call.type, call.name, call.status) == ("function_call", "add", "completed")
    assert json.loads(call.arguments) == CALLED


@STREAMED
def test_a_result_and_an_image_over_every_kind(sdk, upstream, kind, is_streamed):
    upstream.will(kind.streamed_text if is_streamed else kind.text)
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "What is this?"}, IMAGE]},
        {"type": "function_call", "call_id": "call_1", "name": "add", "arguments": '{"a":1,"b":[2]}'},
        {"type": "function_call_output", "call_id": "call_1", "output": [{"type": "input_text", "text": "3"}, IMAGE]},
    ]
    assert ask(sdk, is_streamed, input=items, tools=[TOOL]).output_text == "Hello you"
    assert str(upstream.requests[0].body).count(PNG) == 2


@STREAMED
def test_a_conversation_goes_on_with_the_items_of_the_reply(sdk, upstream, kind, is_streamed):
    upstream.will(kind.streamed_call if is_streamed else kind.call, kind.text)
    asked = [{"role": "user", "content": "What is 1 + 2?"}]
    first = ask(sdk, is_streamed, input=asked, tools=[TOOL], include=["reasoning.encrypted_content"])
    items = [item.model_dump(exclude_none=True) for item in first.output]
    result = {"type": "function_call_output", "call_id": first.output[-1].call_id, "output": "3"}
    assert ask(sdk, False, input=[*asked, *items, result], tools=[TOOL]).output_text == "Hello you"


@STREAMED
def test_the_echo(sdk, alice, is_streamed):
    response = ask(sdk, is_streamed, model="demo/echo")
    assert response.output_text == "one two three"
    assert (response.usage.input_tokens, response.usage.output_tokens, response.usage.cost) == (6, 3, 0.0000075)
    wait_until_settled(alice)
    alice.refresh_from_db()
    assert alice.balance_nanos == 10_000_000_000 - 7_500


class Sum(BaseModel):
    total: int


@STREAMED
def test_a_reply_in_a_schema_is_parsed(sdk, upstream, large, is_streamed):
    upstream.will(streamed('{"total"', ":3}") if is_streamed else whole('{"total":3}'))
    if is_streamed:
        with sdk.responses.stream(model="acme/large", input="1 + 2", text_format=Sum) as events:
            response = events.get_final_response()
    else:
        response = sdk.responses.parse(model="acme/large", input="1 + 2", text_format=Sum)
    assert response.output_parsed == Sum(total=3)
    assert upstream.requests[0].body["response_format"]["json_schema"]["name"] == "Sum"


@STREAMED
def test_a_custom_tool_and_reasoning(sdk, upstream, large, is_streamed):
    call = {"id": "call_1", "type": "custom", "custom": {"name": "patch", "input": "*** Begin Patch"}}
    message = {"role": "assistant", "content": None, "reasoning_content": "Hm.", "tool_calls": [call]}
    deltas = [chunk({"reasoning_content": "Hm."}), chunk({"tool_calls": [{"index": 0, **call}]})]
    upstream.will(
        stream(ROLE, *deltas, chunk(finish_reason="tool_calls"), usage(), b"data: [DONE]\n\n")
        if is_streamed
        else whole(message=message, finish_reason="tool_calls")
    )
    reasoning, called = ask(sdk, is_streamed, tools=[{"type": "custom", "name": "patch"}], reasoning={"summary": "auto"}).output
    assert (reasoning.type, reasoning.summary[0].text) == ("reasoning", "Hm.")
    assert (called.type, called.name, called.input) == ("custom_tool_call", "patch", "*** Begin Patch")


def test_an_error_within_a_stream_is_raised(sdk, upstream, large):
    upstream.will(stream(ROLE, words("Hel"), 0.1, event({"error": {"message": "gone"}})))
    with pytest.raises(openai.APIError, match="provider failed") as raised:
        ask(sdk, True)
    assert raised.value.code == "upstream_error"


@STREAMED
def test_a_response_is_gone_on_from_read_and_deleted(sdk, upstream, kind, is_streamed):
    upstream.will(*[kind.streamed_call if is_streamed else kind.call, kind.text, kind.text])
    question = [{"role": "user", "content": "What is 1 + 2?"}]
    first = ask(sdk, is_streamed, input=question, tools=[TOOL])
    result = {"type": "function_call_output", "call_id": first.output[-1].call_id, "output": "3"}
    second = ask(sdk, False, input=[result], previous_response_id=first.id, tools=[TOOL])
    assert (second.output_text, second.previous_response_id, second.store) == ("Hello you", first.id, True)
    references = [{"type": "item_reference", "id": item.id} for item in first.output]
    assert ask(sdk, False, input=[*question, *references, result], tools=[TOOL]).output_text == "Hello you"
    named, referred = upstream.requests[1].body, upstream.requests[2].body
    assert named == referred
    assert sdk.responses.retrieve(second.id) == second
    assert [item.role for item in sdk.responses.input_items.list(first.id)] == ["user"]
    assert sdk.responses.input_tokens.count(model="acme/large", input="Hello").input_tokens > 0
    sdk.responses.delete(first.id)
    with pytest.raises(openai.NotFoundError):
        sdk.responses.retrieve(first.id)
    with pytest.raises(openai.BadRequestError) as raised:
        ask(sdk, False, previous_response_id=second.id)
    assert (raised.value.code, raised.value.param) == ("previous_response_not_found", "previous_response_id")


def test_a_response_runs_in_the_background_once_it_is_answered(sdk, upstream, large, alice):
    may_go_on = threading.Event()
    upstream.will([may_go_on, *whole("Hello you")])
    queued = ask(sdk, False, background=True)
    assert (queued.status, queued.background) == ("queued", True)
    assert sdk.responses.retrieve(queued.id).status == "in_progress"
    may_go_on.set()
    waiting.until(lambda: sdk.responses.retrieve(queued.id).status == "completed", waiting.PROCESS_SECONDS_MAX)
    assert sdk.responses.retrieve(queued.id).output_text == "Hello you"
    assert sdk.responses.cancel(queued.id).status == "completed"
