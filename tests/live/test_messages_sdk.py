"""Anthropic's official SDK, with its own accumulator of streams, against a running gateway, over every kind of provider."""

from typing import Any

import anthropic
import pytest

from tests import factories
from tests.completions.providers.anthropic import scripts as claude
from tests.live.gateway import QUESTION, wait_until_settled
from tests.live.provider_kinds import CALLED, PNG, STREAMED, kind
from tests.upstream import FINISH, KEY_ENV, ROLE, event, stream, words

__all__ = ["kind"]

pytestmark = pytest.mark.usefixtures("gateway", "echo_model")
TOOL = {"name": "add", "description": "Adds.", "input_schema": {"type": "object", "properties": {"a": {"type": "integer"}}}}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}


@pytest.fixture
def secret(alice: Any) -> str:
    return factories.make_key(alice)[1]


@pytest.fixture
def sdk(gateway: Any, secret: str) -> Any:
    with anthropic.Anthropic(base_url=gateway.url, api_key=secret, max_retries=0) as client:
        yield client


def ask(sdk: Any, is_streamed: bool, **fields: Any) -> Any:
    """Return the message that the SDK reads, or puts together from its stream."""
    request = {"model": "acme/large", "max_tokens": 100, "messages": QUESTION, **fields}
    if not is_streamed:
        return sdk.messages.create(**request)
    with sdk.messages.stream(**request) as events:
        return events.get_final_message()


@STREAMED
def test_text_over_every_kind(sdk, upstream, kind, is_streamed):
    upstream.will(kind.streamed_text if is_streamed else kind.text)
    message = ask(sdk, is_streamed, system="Be brief.")
    assert [(block.type, block.text) for block in message.content] == [("text", "Hello you")]
    assert (message.type, message.role, message.model, message.stop_reason) == (
        "message",
        "assistant",
        "acme/large",
        "end_turn",
    )
    assert message.usage.input_tokens > 0
    assert message.usage.output_tokens > 0


@STREAMED
def test_a_call_of_a_tool_over_every_kind(sdk, upstream, kind, is_streamed):
    upstream.will(kind.streamed_call if is_streamed else kind.call)
    message = ask(sdk, is_streamed, tools=[TOOL], tool_choice={"type": "any"})
    text, call = (block for block in message.content if block.type != "redacted_thinking")  # which Gemini's signature is
    assert text.text == "Let me see."
    assert (call.type, call.name, call.input) == ("tool_use", "add", CALLED)
    assert message.stop_reason == "tool_use"


@STREAMED
def test_a_result_and_an_image_over_every_kind(sdk, upstream, kind, is_streamed):
    upstream.will(kind.streamed_text if is_streamed else kind.text)
    turns = [
        {"role": "user", "content": [{"type": "text", "text": "What is this?"}, IMAGE]},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "call_1", "name": "add", "input": CALLED}]},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "call_1", "content": [{"type": "text", "text": "3"}, IMAGE]}],
        },
    ]
    assert ask(sdk, is_streamed, messages=turns, tools=[TOOL]).content[0].text == "Hello you"
    assert str(upstream.requests[0].body).count(PNG) == 2


@STREAMED
def test_the_echo(sdk, alice, is_streamed):
    message = ask(sdk, is_streamed, model="demo/echo")
    assert message.content[0].text == "one two three"
    assert (message.usage.input_tokens, message.usage.output_tokens) == (6, 3)
    wait_until_settled(alice)
    alice.refresh_from_db()
    assert alice.balance_nanos == 10_000_000_000 - 7_500


def test_the_events_of_a_stream_come_in_order(sdk, alice):
    with sdk.messages.create(model="demo/echo", max_tokens=9, messages=QUESTION, stream=True) as events:
        kinds = [event.type for event in events]
    deltas = ["content_block_delta"] * 3
    assert kinds == ["message_start", "content_block_start", *deltas, "content_block_stop", "message_delta", "message_stop"]
    wait_until_settled(alice)


def test_it_counts_tokens(sdk, alice):
    counted = sdk.messages.count_tokens(model="demo/echo", messages=QUESTION)
    with_more = sdk.messages.count_tokens(model="demo/echo", messages=QUESTION, system="Be brief.", tools=[TOOL])
    assert 0 < counted.input_tokens < with_more.input_tokens


def test_a_bearer_token_and_an_unknown_key(gateway, secret, alice):
    with anthropic.Anthropic(base_url=gateway.url, auth_token=secret, max_retries=0) as client:
        assert ask(client, False, model="demo/echo").content[0].text == "one two three"
    wait_until_settled(alice)
    with (
        anthropic.Anthropic(base_url=gateway.url, api_key="sk-nobody") as client,
        pytest.raises(anthropic.AuthenticationError) as raised,
    ):
        ask(client, False)
    body: Any = raised.value.body
    assert body["error"]["type"] == "authentication_error"
    assert raised.value.request_id.startswith("req_")


def test_the_beta_client_of_coding_agents(sdk, alice):
    message = sdk.beta.messages.create(
        model="demo/echo", max_tokens=9, messages=QUESTION, betas=["claude-code-20250219"], metadata={"user_id": "u"}
    )
    assert message.content[0].text == "one two three"
    wait_until_settled(alice)


def test_coding_agents_list_the_models(sdk):
    listed = sdk.get("/v1/models?limit=1000", cast_to=object)
    assert [model["id"] for model in listed["data"]] == ["demo/echo"]


@STREAMED
def test_a_refusal_for_money_is_tried_once(gateway, alice, is_streamed, kind):
    key, secret = factories.make_key(alice, limit_cents=0, type="FIXED")
    since = len(gateway.log())
    with anthropic.Anthropic(base_url=gateway.url, api_key=secret) as client, pytest.raises(anthropic.APIStatusError) as raised:
        ask(client, is_streamed)
    body: Any = raised.value.body
    assert (raised.value.status_code, body["error"]["type"]) == (402, "billing_error")
    assert body["error"]["details"]["limit_source"] == "key"
    assert gateway.answered("POST /v1/messages 402", since) == 1


@STREAMED
def test_an_overloaded_provider(sdk, upstream, kind, is_streamed):
    upstream.will(claude.refusal(529, "overloaded_error"))
    with pytest.raises(anthropic.APIStatusError) as raised:
        ask(sdk, is_streamed)
    body: Any = raised.value.body
    assert (raised.value.status_code, body["error"]["type"]) == (529, "overloaded_error")


def test_an_error_within_a_stream_is_raised(sdk, upstream, alice):
    provider = factories.make_provider("scripted", kind="openai", base_url=upstream.url, api_key_env=KEY_ENV)
    factories.make_model("acme/large", provider=provider, upstream_model="large-2026")
    upstream.will(stream(ROLE, words("Hel"), 0.1, event({"error": {"message": "gone"}}), FINISH))
    with pytest.raises(anthropic.APIStatusError, match="provider failed"):
        ask(sdk, True)
    wait_until_settled(alice)
