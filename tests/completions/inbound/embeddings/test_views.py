"""POST /v1/embeddings over HTTP: replies, errors, charges, and what reaches a provider."""

import base64
import json
import struct
from typing import Any

import pytest

from billing.models import Hold, LedgerEntry
from completions.models import Completion
from tests import factories
from tests.completions.inbound.embeddings.embedders import found, make_embedder
from tests.completions.rows import assert_charged, assert_released
from tests.conftest import client_for
from tests.upstream import KEY, KEY_ENV, refusal, reply

PATH = "/v1/embeddings"
TWO = [[0.5, -0.25], [1.0, 0.125]]


def ask(api: Any, **fields: Any) -> Any:
    return api.post(PATH, {"model": "acme/embed", "input": ["red", "blue"], **fields})


@pytest.fixture
def embedder(upstream, db):
    """A model that makes embeddings, at 20 nanodollars a token, of an upstream in OpenAI's format."""
    return make_embedder("scripted", "openai", upstream.url)


@pytest.fixture
def gemini(upstream, db):
    return make_embedder("google", "gemini", upstream.url.removesuffix("/v1"))


def assert_refused(answer: Any, param: str, message: str, status: int = 400) -> None:
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (status, param), error
    assert message in error["message"]
    assert not Completion.objects.exists()
    assert not Hold.objects.exists()


# --- Replies ----------------------------------------------------------------------------------------------------------


def test_each_input_has_its_embedding_and_the_tokens_are_charged(api, alice, embedder, upstream):
    upstream.will(found(*TWO))
    answer = ask(api, dimensions=2, user="end-user", metadata={"team": "search"})
    done = Completion.objects.get()
    assert answer.json() == {
        "id": done.pk,
        "object": "list",
        "data": [
            {"object": "embedding", "index": 0, "embedding": TWO[0]},
            {"object": "embedding", "index": 1, "embedding": TWO[1]},
        ],
        "model": "acme/embed",
        "usage": {"prompt_tokens": 7, "total_tokens": 7, "cost": 0.00000014},
    }
    [sent] = upstream.requests
    assert sent.path == "/v1/embeddings"
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert sent.body == {
        "model": "e-3", "input": ["red", "blue"], "dimensions": 2, "user": "end-user", "encoding_format": "float"
    }  # fmt: skip
    assert (answer["x-gateway-provider"], answer["x-gateway-attempts"], answer["x-gateway-cost"]) == (
        "scripted",
        "1",
        "0.00000014",
    )
    assert (done.end_user, done.tags) == ("end-user", {"team": "search"})
    assert_charged(alice, "reported", prompt=7, completion=0, nanos=140, model="acme/embed")


def test_base64_has_numbers_of_32_bits(api, embedder, upstream):
    upstream.will(found(*TWO))
    data = ask(api, encoding_format="base64").json()["data"]
    assert [list(struct.unpack("<2f", base64.b64decode(item["embedding"]))) for item in data] == TWO
    assert upstream.requests[0].body["encoding_format"] == "float"


@pytest.mark.parametrize(
    ("given", "number", "held_tokens"),
    [("red", 1, 3 + 4), ([1, 2, 3], 1, 3 + 4), ([[1, 2], [3]], 2, 3 + 8), (["rosé"], 1, 5 + 4), ([[7]], 1, 1 + 4)],
)
def test_an_input_is_a_text_or_tokens_or_many(api, alice, embedder, upstream, given, number, held_tokens):
    upstream.will(found(*TWO[:number]))
    answer = ask(api, input=given)
    assert len(answer.json()["data"]) == number
    assert upstream.requests[0].body["input"] == given
    assert Hold.objects.get().amount_nanos == held_tokens * 20


def test_embeddings_come_in_the_order_of_their_indexes(api, embedder, upstream):
    data = [{"index": 1, "embedding": TWO[1]}, {"index": 0, "embedding": TWO[0]}]
    upstream.will(found(data=data))
    assert [item["embedding"] for item in ask(api).json()["data"]] == TWO


def test_without_reported_usage_the_tokens_are_estimated(api, alice, embedder, upstream):
    upstream.will(found(*TWO, usage=None))
    assert ask(api).json()["usage"]["prompt_tokens"] == 2  # 7 bytes
    assert_charged(alice, "estimated", prompt=2, completion=0, nanos=40, model="acme/embed")


@pytest.mark.parametrize("usage", [{"prompt_tokens": 0, "total_tokens": 0}, {"total_tokens": 0}])
def test_a_reported_zero_is_charged_as_zero(api, alice, embedder, upstream, usage):
    upstream.will(found(*TWO, usage=usage))
    assert ask(api).json()["usage"]["prompt_tokens"] == 0
    assert_charged(alice, "reported", prompt=0, completion=0, nanos=0, model="acme/embed")


def test_tokens_that_only_the_total_tells_are_charged(api, alice, embedder, upstream):
    upstream.will(found(*TWO, usage={"prompt_tokens": 0, "total_tokens": 9}))
    assert ask(api).json()["usage"]["prompt_tokens"] == 9
    assert_charged(alice, "reported", prompt=9, completion=0, nanos=180, model="acme/embed")


def test_gemini_embeds_a_batch_of_texts(api, alice, gemini, upstream):
    upstream.will(reply(json.dumps({"embeddings": [{"values": vector} for vector in TWO]}).encode()))
    answer = ask(api, dimensions=2)
    assert [item["embedding"] for item in answer.json()["data"]] == TWO
    [sent] = upstream.requests
    assert sent.path == "/v1beta/models/e-3:batchEmbedContents"
    assert sent.headers["x-goog-api-key"] == KEY
    asked = {"model": "models/e-3", "outputDimensionality": 2}
    assert sent.body == {"requests": [{**asked, "content": {"parts": [{"text": text}]}} for text in ("red", "blue")]}
    assert_charged(alice, "estimated", prompt=2, completion=0, nanos=40, model="acme/embed")


def test_the_echo_embeds_equal_inputs_equally(api, alice):
    factories.make_model("demo/embed", kind="embedding", input="0.10", output="0", max_output_tokens=1)
    data = ask(api, model="demo/embed", input=["one two", "three", "one two"], dimensions=8).json()["data"]
    first, second, third = (item["embedding"] for item in data)
    assert first == third != second
    assert len(first) == 8
    assert sum(number**2 for number in first) == pytest.approx(1)
    assert_charged(alice, "reported", prompt=5, completion=0, nanos=500, model="demo/embed")


def test_a_repetition_gets_the_same_reply_and_is_charged_once(api, alice, embedder, upstream):
    upstream.will(found(*TWO))
    first, second = (api.post(PATH, {"model": "acme/embed", "input": ["red", "blue"]}, HTTP_IDEMPOTENCY_KEY="k") for _ in "12")
    assert second.content == first.content
    assert second["Idempotent-Replayed"] == "true"
    assert_charged(alice, "reported", prompt=7, completion=0, nanos=140, model="acme/embed")
    other = api.post("/v1/chat/completions", {"model": "acme/embed", "input": ["red", "blue"]}, HTTP_IDEMPOTENCY_KEY="k")
    assert other.status_code == 400  # it has no messages


def test_what_happened_is_told_by_the_id_of_the_reply(api, embedder, upstream):
    upstream.will(found(*TWO))
    told = api.get(f"/v1/completions/{ask(api).json()['id']}").json()
    assert (told["model"], told["usage"]["prompt_tokens"], told["usage"]["completion_tokens"]) == ("acme/embed", 7, 0)


# --- Refusals ---------------------------------------------------------------------------------------------------------


BAD: list[tuple[dict[str, Any], str, str]] = [
    ({"input": None}, "input", "is required"),
    ({"input": ""}, "input", "must not be empty"),
    ({"input": []}, "input", "must be a string, an array of tokens, or an array of 1 to 2048 of either"),
    ({"input": 7}, "input", "must be a string, an array of tokens"),
    ({"input": ["red", ""]}, "input[1]", "must not be empty"),
    ({"input": ["red", [1]]}, "input[1]", "must be a string as the first"),
    ({"input": [[1], "red"]}, "input[1]", "must be an array of tokens as the first"),
    ({"input": ["red", None]}, "input[1]", "must be a string or an array of tokens"),
    ({"input": [1, -1]}, "input", "must have integers from 0 to 2147483647 only"),
    ({"input": [1, True]}, "input", "must have integers"),
    ({"input": [[1, 1.5]]}, "input[0]", "must have integers"),
    ({"input": ["x"] * 2_049}, "input", "1 to 2048"),
    ({"input": "x" * 1_200_001}, "input", "has about 300001 tokens; one request may have 300000"),
    ({"dimensions": 0}, "dimensions", "must be between 1 and 16384"),
    ({"dimensions": True}, "dimensions", "must be an integer"),
    ({"encoding_format": "hex"}, "encoding_format", "must be one of float, base64"),
    ({"stream": True}, "stream", "is not known"),
    ({"models": ["acme/other"]}, "models", "is not known"),
    ({"user": 5}, "user", "must be a string"),
    ({"model": ""}, "model", "must have 1 to 200 characters"),
]


def test_bad_input_is_refused_by_the_name_of_its_field(api, embedder, upstream, subtests):
    for fields, param, message in BAD:
        with subtests.test(str(fields)[:60]):
            assert_refused(ask(api, **fields), param, message)
            assert upstream.requests == []


def test_a_model_that_writes_text_makes_no_embeddings(api, large, upstream):
    assert_refused(ask(api, model="acme/large"), "model", "is acme/large, which writes text and makes no embeddings")


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/quote"])
def test_a_model_that_makes_embeddings_writes_no_text(api, embedder, upstream, path):
    answer = api.post(path, {"model": "acme/embed", "messages": [{"role": "user", "content": "hi"}]})
    assert_refused(answer, "model", "is acme/embed, which makes embeddings: send it to /v1/embeddings")


def test_gemini_reads_no_tokens_and_at_most_a_hundred_texts(api, gemini, upstream):
    assert_refused(ask(api, input=[[1, 2]]), "input", "must be text for acme/embed")
    assert_refused(ask(api, input=["x"] * 101), "input", "must have at most 100 items for acme/embed")


def test_a_provider_without_embeddings_is_not_asked(api, upstream, db):
    make_embedder("claude", "anthropic", upstream.url)
    assert_refused(ask(api), "model", "has no provider that makes embeddings")


def test_an_unknown_model_is_not_found(api):
    assert_refused(ask(api, model="acme/none"), "model", "does not exist", status=404)


def test_an_account_without_money_is_refused(bob, embedder, upstream):
    answer = ask(client_for(factories.make_key(bob)[1]))
    assert (answer.status_code, answer.json()["error"]["code"]) == (402, "insufficient_quota")
    assert "max_tokens" not in answer.json()["error"]["message"]
    assert not Completion.objects.exists()


# --- Failures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "script",
    [
        found(TWO[0]),  # one for two inputs
        found(TWO[0], [1.0]),  # of two sizes
        found([], []),
        found(data=[{"index": 0, "embedding": [1.0]}, {"index": 0, "embedding": [2.0]}]),
        found(data=[{"index": 5, "embedding": [1.0]}, {"index": 0, "embedding": [2.0]}]),
        found(data=[{"embedding": "AAAA"}, {"embedding": "AAAA"}]),  # not of 32 bits each
        found(data=[{"embedding": "AADAfw=="}, {"embedding": "AADAfw=="}]),  # not a number
        found(data=[{"embedding": "$$$$"}, {"embedding": "$$$$"}]),
        reply(b"no JSON"),
    ],
)
def test_a_reply_that_does_not_fit_costs_nothing(api, alice, embedder, upstream, script):
    upstream.will(script)
    answer = ask(api)
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "upstream_error")
    assert_released(alice)


def test_embeddings_of_another_size_than_asked_for_are_not_passed_on(api, alice, embedder, upstream):
    upstream.will(found(*TWO))
    assert ask(api, dimensions=3).status_code == 502
    assert_released(alice)


def test_a_refusal_of_the_provider_is_passed_on(api, alice, embedder, upstream):
    upstream.will(refusal(400, "dimensions is not supported"))
    answer = ask(api, dimensions=5)
    assert answer.status_code == 400
    assert "dimensions is not supported" in answer.json()["error"]["message"]
    assert_released(alice)


def test_another_route_answers_when_the_first_fails(api, alice, embedder, upstream, spare):
    provider = factories.make_provider("spare", kind="openai", base_url=spare.url, api_key_env=KEY_ENV)
    embedder.routes.create(provider=provider, upstream_model="e-3-spare", priority=2)
    upstream.will(refusal(503))
    upstream.will(refusal(503))
    spare.will(found(*TWO))
    answer = ask(api)
    assert (answer.status_code, answer["x-gateway-provider"]) == (200, "spare")
    assert LedgerEntry.objects.filter(account=alice, type="USAGE_DEBIT").count() == 1


def test_the_body_is_sent_whole_to_a_second_route(api, embedder, upstream, spare):
    """A large body is released while its request waits, and restored for a further attempt."""
    provider = factories.make_provider("spare", kind="openai", base_url=spare.url, api_key_env=KEY_ENV)
    embedder.routes.create(provider=provider, upstream_model="e-3", priority=2)
    texts = [f"text {number} " * 50 for number in range(40)]
    upstream.will(refusal(500))
    upstream.will(refusal(500))
    spare.will(found(*([[0.5]] * 40)))
    assert ask(api, input=texts).status_code == 200
    assert spare.requests[0].body["input"] == texts


# --- The list of models -----------------------------------------------------------------------------------------------


def test_the_list_of_models_says_the_kind(api, large, embedder):
    kinds = {model["id"]: (model["kind"], model["architecture"]["modality"]) for model in api.get("/v1/models").json()["data"]}
    assert kinds["acme/embed"] == ("embedding", "text->embeddings")
    assert kinds["acme/large"] == ("chat", "text->text")


# --- Large batches ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [[99_999] * 30_000, [[99_999] * 300] * 100])
def test_as_many_tokens_as_documented_are_read(api, embedder, upstream, given):
    upstream.will(found(*([[0.5]] * (100 if isinstance(given[0], list) else 1))))
    assert ask(api, input=given).status_code == 200
    assert upstream.requests[0].body["input"] == given


@pytest.mark.parametrize("values", [[[]] * 200_000, [1] * 400_000])
def test_too_many_values_are_refused_before_they_are_parsed(api, embedder, upstream, values):
    answer = ask(api, input=values)
    assert answer.status_code == 400
    assert "too many values" in answer.json()["error"]["message"]


def test_a_batch_that_is_too_large_in_numbers_is_asked_for_in_base64(api, embedder, upstream):
    vector = base64.b64encode(struct.pack("<3072f", *([0.5, -0.25] * 1_536))).decode()
    upstream.will(found(*[vector] * 2_048))
    answer = ask(api, input=["x"] * 2_048)
    assert upstream.requests[0].body["encoding_format"] == "base64"
    [first, *_, last] = answer.json()["data"]
    assert first["embedding"] == last["embedding"] == [0.5, -0.25] * 1_536
    assert last["index"] == 2_047


def test_numbers_are_read_where_base64_was_asked_for(api, embedder, upstream):
    upstream.will(found(*[[0.5]] * 2_048))
    answer = ask(api, input=["x"] * 2_048, encoding_format="base64")
    assert [base64.b64decode(item["embedding"]) for item in answer.json()["data"]] == [struct.pack("<f", 0.5)] * 2_048


def test_a_reply_has_a_bounded_number_of_numbers(api, alice):
    factories.make_model("demo/embed", kind="embedding", input="0.10", output="0", max_output_tokens=1)
    answer = ask(api, model="demo/embed", input=["x"] * 2_048, dimensions=3_073)
    assert_refused(answer, "dimensions", "is 3073, for each of 2048 inputs; one reply may have 6291456 numbers")


# --- What a provider is not sent --------------------------------------------------------------------------------------


def test_no_field_that_is_honoured_is_told_to_be_ignored(api, embedder, upstream):
    upstream.will(found(*TWO))
    answer = ask(api, dimensions=2, encoding_format="base64", user="u", metadata={"team": "search"}, provider={"order": ["x"]})
    assert "x-gateway-ignored-fields" not in answer, answer["x-gateway-ignored-fields"]


def test_what_gemini_is_not_sent_is_named(api, gemini, upstream):
    upstream.will(reply(json.dumps({"embeddings": [{"values": vector} for vector in TWO]}).encode()))
    assert ask(api, user="u", dimensions=2)["x-gateway-ignored-fields"] == "user"
