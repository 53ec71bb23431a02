"""OpenAI's official SDK against a running gateway."""

import html
import re
from typing import Any

import openai
import pytest

from completions.models import Provider
from keys import lifecycle
from keys.spending_limit import SpendingLimit
from tests import factories
from tests.completions.routes import let_providers_cancel
from tests.completions.rows import assert_charged
from tests.live.gateway import QUESTION, wait_until_settled
from tests.shown_code import uncoloured
from tests.upstream import HANG, ROLE, event, refusal, reply, stream, streamed, words

pytestmark = pytest.mark.usefixtures("gateway", "echo_model")
POST = "POST /v1/chat/completions"


@pytest.fixture
def key(alice: Any) -> Any:
    return factories.make_key(alice)


@pytest.fixture
def sdk(gateway: Any, key: Any) -> Any:
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key=key[1]) as client:
        yield client


def test_it_returns_a_whole_completion(sdk, alice):
    answer = sdk.chat.completions.create(model="demo/echo", messages=QUESTION)
    assert answer.choices[0].message.content == "one two three"
    assert answer.choices[0].finish_reason == "stop"
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.cost) == (6, 3, 0.0000075)
    assert answer._request_id.startswith("req_")
    assert_charged(alice, "reported", prompt=6, completion=3, nanos=6 * 500 + 3 * 1_500, model="demo/echo")


def test_it_reads_the_provider_and_the_cost(sdk):
    raw = sdk.chat.completions.with_raw_response.create(model="demo/echo", messages=QUESTION)
    values = [raw.headers[f"x-gateway-{name}"] for name in ("provider", "attempts", "cost")]
    assert values == ["echo", "1", "0.0000075"]


def test_it_reads_embeddings_in_base64_and_as_numbers(sdk, alice):
    factories.make_model("demo/embed", kind="embedding", input="0.10", output="0", max_output_tokens=1)
    asked = {"model": "demo/embed", "input": ["one two", "three"], "dimensions": 8}
    by_default, numbers = sdk.embeddings.create(**asked), sdk.embeddings.create(**asked, encoding_format="float")
    assert [item.embedding for item in by_default.data] == [pytest.approx(item.embedding) for item in numbers.data]
    assert (numbers.usage.prompt_tokens, numbers.usage.cost, len(numbers.data[1].embedding)) == (3, 0.0000003, 8)


def test_it_quotes_what_a_completion_then_holds(sdk):
    large = [{"role": "user", "content": "word " * 15_000}]  # above 64 KB, from where on bodies are counted
    quoted = sdk.post("/quote", body={"model": "demo/echo", "messages": large, "max_tokens": 5}, cast_to=object)
    raw = sdk.chat.completions.with_raw_response.create(model="demo/echo", messages=large, max_tokens=5)
    assert raw.headers["x-gateway-max-cost"] == f"{quoted['max_cost']:.9f}".rstrip("0")


def test_the_example_of_a_models_page_runs(gateway, key, alice, monkeypatch, capsys):
    page = uncoloured(gateway.request("GET", "/models/demo/echo").body.decode())
    example = html.unescape(re.search(r'<code id="example-python">(.*?)</code>', page, re.DOTALL)[1])
    monkeypatch.setenv("GATEWAY_API_KEY", key[1])
    exec(example, {})  # noqa: S102  it is ours
    assert capsys.readouterr().out == "Hello\n"
    assert_charged(alice, "reported", prompt=4, completion=1, nanos=4 * 500 + 1_500, model="demo/echo")


def test_it_streams(sdk, alice):
    with sdk.chat.completions.create(model="demo/echo", messages=QUESTION, stream=True) as chunks:
        received = list(chunks)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in received) == "one two three"
    assert all(chunk.usage is None for chunk in received)
    wait_until_settled(alice)
    assert_charged(alice, "reported", prompt=6, completion=3, nanos=7_500, model="demo/echo")


def test_it_streams_with_usage(sdk):
    options = {"include_usage": True}
    with sdk.chat.completions.create(model="demo/echo", messages=QUESTION, stream=True, stream_options=options) as chunks:
        *_, last = chunks
    assert last.choices == []
    assert (last.usage.total_tokens, last.usage.cost) == (9, 0.0000075)
    assert sdk.get(f"/completions/{last.id}", cast_to=object)["usage"]["cost"] == last.usage.cost  # as soon as it has ended


def test_it_completes_and_streams_through_an_upstream(sdk, alice, large, upstream):
    assert sdk.chat.completions.create(model="acme/large", messages=QUESTION).choices[0].message.content == "Hello you"
    upstream.will(streamed("Hel", "lo é😀"))
    with sdk.chat.completions.create(model="acme/large", messages=QUESTION, stream=True) as chunks:
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "Hello é😀"
    wait_until_settled(alice)
    alice.refresh_from_db()
    assert alice.balance_nanos == 10_000_000_000 - 2 * 57_000


def test_it_raises_at_an_error_within_a_stream(sdk, alice, large, upstream):
    upstream.will(stream(ROLE, words("Hel"), 0.1, event({"error": {"message": "gone"}})))
    received = []
    with (
        pytest.raises(openai.APIError, match="provider failed") as raised,
        sdk.chat.completions.create(model="acme/large", messages=QUESTION, stream=True) as chunks,
    ):
        received.extend(chunk.choices[0].delta.content for chunk in chunks)  # keeps those before the error
    assert raised.value.code == "upstream_error"
    assert received == ["", "Hel"]  # the error is no chunk
    wait_until_settled(alice)


def test_it_lists_and_retrieves_models(sdk):
    assert [model.id for model in sdk.models.list()] == ["demo/echo"]
    model = sdk.models.retrieve("demo/echo")
    assert (model.id, model.owned_by, model.context_window) == ("demo/echo", "Demo", 128_000)
    with pytest.raises(openai.NotFoundError):
        sdk.models.retrieve("demo/none")


# --- What it raises, and how often it tries ----------------------------------------------------------------------


def refused(gateway: Any, sdk: Any, error: type[openai.APIStatusError], **fields: Any) -> tuple[Any, int]:
    """Return the error that the SDK raises, and the number of requests it made."""
    since = len(gateway.log())
    with pytest.raises(error) as raised:
        sdk.chat.completions.create(**{"model": "demo/echo", "messages": QUESTION, **fields})
    return raised.value, gateway.answered(f"{POST} {raised.value.status_code}", since)


def test_an_unknown_key_is_tried_once(gateway, sdk):
    error, attempts = refused(gateway, sdk.with_options(api_key="sk-nobody"), openai.AuthenticationError)
    assert (error.code, error.type, attempts) == ("invalid_api_key", "invalid_request_error", 1)


def test_an_unknown_model_is_tried_once(gateway, sdk):
    error, attempts = refused(gateway, sdk, openai.NotFoundError, model="demo/none")
    assert (error.code, error.param, attempts) == ("model_not_found", "model", 1)


@pytest.mark.parametrize("stream", [False, True])
def test_a_malformed_request_is_tried_once(gateway, sdk, stream):
    error, attempts = refused(gateway, sdk, openai.BadRequestError, temperature=3, stream=stream)
    assert (error.code, error.param, attempts) == ("invalid_request_error", "temperature", 1)


def test_a_prompt_that_is_too_long_has_the_code_that_clients_look_for(gateway, sdk, alice, large, upstream):
    upstream.will(reply(b'{"object":"error","message":"The maximum context length is 9 tokens.","code":400}', status=400))
    error, attempts = refused(gateway, sdk, openai.BadRequestError, model="acme/large")
    assert (error.code, error.type, attempts) == ("context_length_exceeded", "invalid_request_error", 1)
    wait_until_settled(alice)


@pytest.mark.parametrize("stream", [False, True])
def test_an_empty_account_is_tried_once(gateway, sdk, bob, stream):
    poor = sdk.with_options(api_key=factories.make_key(bob)[1])
    error, attempts = refused(gateway, poor, openai.APIStatusError, stream=stream)
    assert (error.status_code, error.code, attempts) == (402, "insufficient_quota", 1)


@pytest.mark.parametrize(("type", "period"), [("FIXED", None), ("RECURRING", "MONTHLY")])
@pytest.mark.parametrize("stream", [False, True])
def test_a_reached_spending_limit_is_tried_once(gateway, sdk, key, type, period, stream):
    lifecycle.set_spending_limit(key[0], SpendingLimit(0, type, period))
    error, attempts = refused(gateway, sdk, openai.APIStatusError, stream=stream)
    assert (error.status_code, error.code, error.body["limit_source"], attempts) == (402, "insufficient_quota", "key", 1)
    assert ("resets_at" in error.body) == (type == "RECURRING")


def test_tied_up_funds_are_retried(gateway, sdk, bob, large, upstream):
    factories.make_model("demo/dear", provider=Provider.objects.get(pk="scripted"), output="100", input="0")
    let_providers_cancel()
    factories.credit(bob, 1)
    secret = factories.make_key(bob)[1]
    upstream.will(stream(ROLE, words("Hel"), HANG))
    with gateway.open_stream(secret, model="demo/dear", messages=QUESTION, max_tokens=100) as client:
        client.recv(1)
        error, attempts = refused(
            gateway, sdk.with_options(api_key=secret), openai.RateLimitError, model="demo/dear", max_tokens=9
        )
        assert (error.code, error.response.headers["retry-after"], attempts) == ("rate_limit_exceeded", "1", 3)
    wait_until_settled(bob)


def test_a_failing_upstream_is_retried_and_costs_nothing(gateway, sdk, alice, large, upstream):
    upstream.will(refusal(500))
    error, attempts = refused(gateway, sdk, openai.InternalServerError, model="acme/large")
    assert (error.status_code, error.code, attempts) == (502, "upstream_error", 3)
    assert len(upstream.requests) == 5  # two attempts per request, until the circuit opens
    assert alice.entries.filter(type="USAGE_DEBIT").count() == 0
    wait_until_settled(alice)


@pytest.mark.parametrize(
    ("path", "advice"),
    [
        ("", "Set base_url to {}/v1,"),
        ("/v1/v1", "Set base_url to {}/v1,"),
        ("//v1", "it has a slash too many. Send the request to {}/v1/models."),
    ],
)
def test_it_shows_what_to_set_when_its_base_url_is_wrong(gateway, key, path, advice):
    client = openai.OpenAI(base_url=f"{gateway.url}{path}", api_key=key[1])
    with client, pytest.raises(openai.NotFoundError) as raised:
        client.models.list()
    assert advice.format(gateway.url) in raised.value.message
