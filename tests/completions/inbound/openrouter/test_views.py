"""GET /v1/key and GET /v1/generation, and completions in OpenRouter's words."""

import json
from datetime import timedelta
from decimal import Decimal

import pytest

from billing.models import LedgerEntry
from completions.models import Completion
from keys.models import SpendingDay
from tests import chat, factories
from tests.chat import assert_error, everything_written
from tests.completions.routes import add
from tests.completions.rows import MESSAGES, ask, ask_streamed, events
from tests.conftest import client_for
from tests.upstream import DONE, FINISH, ROLE, chunk, refusal, stream, streamed, usage, whole, words


def read(client, path):
    """Return the member ``data`` of a reply, with its numbers as Decimals."""
    reply = client.get(path)
    assert (reply.status_code, reply["content-type"]) == (200, "application/json"), reply.content
    return json.loads(reply.content, parse_float=Decimal)["data"]


# --- The key ----------------------------------------------------------------------------------------------------------


def test_a_key_without_a_limit(api):
    told = read(api, "/v1/key")
    assert (told["label"], told["limit"], told["limit_remaining"], told["limit_reset"]) == ("test", None, None, None)
    assert (told["rate_limit"]["requests"], told["expires_at"], told["is_free_tier"]) == (-1, None, False)
    assert [told[name] for name in ("usage", "usage_daily", "usage_weekly", "usage_monthly")] == [0, 0, 0, 0]


def test_a_key_tells_its_limit_and_exactly_what_is_left(alice, large):
    key, secret = factories.make_key(alice, limit_cents=1, type="RECURRING", period="WEEKLY", requests_per_minute=7)
    client = client_for(secret)
    cost = Decimal(ask(client).headers["x-gateway-cost"])
    told = read(client, "/v1/key")
    assert (told["limit"], told["limit_remaining"], told["limit_reset"]) == (Decimal("0.01"), Decimal("0.01") - cost, "weekly")
    assert told["usage"] == told["usage_daily"] == told["usage_weekly"] == told["usage_monthly"] == cost
    assert told["rate_limit"]["requests"] == 7
    assert secret not in client.get("/v1/key").content.decode()


def test_usage_is_told_of_the_day_the_week_since_monday_and_the_month(api, alice, large):
    ask(api)
    spent = SpendingDay.objects.get()
    today, nanos = spent.day, spent.spent_nanos
    monday, first = today - timedelta(today.weekday()), today.replace(day=1)
    for day in {monday - timedelta(1), first - timedelta(1), today - timedelta(400)}:
        SpendingDay.objects.create(key=spent.key, day=day, spent_nanos=nanos)
    of = {"usage_weekly": monday, "usage_monthly": first, "usage_daily": today}
    told = read(api, "/v1/key")
    for name, since in of.items():
        days = SpendingDay.objects.filter(day__gte=since).count()
        assert told[name] == Decimal(days * nanos).scaleb(-9), name
    assert told["usage"] == Decimal(SpendingDay.objects.count() * nanos).scaleb(-9)


def test_a_key_that_is_used_up_is_told_too(alice, echo_model):
    client = client_for(factories.make_key(alice, limit_cents=0, type="FIXED")[1])
    assert chat.ask(client).status_code == 402
    told = read(client, "/v1/key")
    assert (told["limit"], told["limit_remaining"], told["limit_reset"]) == (0, 0, None)


@pytest.mark.parametrize("path", ["/v1/key", "/v1/generation?id=a"])
def test_a_key_is_needed(db, path):
    assert_error(client_for("mgw_live_wrong").get(path), 401, "invalid_api_key")


# --- Generations ------------------------------------------------------------------------------------------------------


def test_a_generation_is_what_was_charged(api, large):
    completion = ask(api, user="customer-7").json()
    told = read(api, f"/v1/generation?id={completion['id']}")
    assert (told["id"], told["model"], told["provider_name"], told["streamed"]) == (
        completion["id"],
        "acme/large",
        "scripted",
        False,
    )
    entry = LedgerEntry.objects.get(reference=completion["id"])
    assert told["total_cost"] == told["usage"] == Decimal(entry.metadata["costInDollars"]) == Decimal("0.000057")
    assert (told["tokens_prompt"], told["native_tokens_prompt"], told["tokens_completion"]) == (9, 9, 2)
    assert (told["external_user"], told["api_type"]) == ("customer-7", "completions")
    assert told["provider_responses"] == [{"provider_name": "scripted", "status": 200}]
    assert told["latency"] == told["generation_time"]


def test_a_generation_names_the_attempts_that_failed(api, large, upstream, spare):
    add(large, spare)
    upstream.will(refusal(503))
    spare.will(streamed())
    identifier = events(ask_streamed(api))[0]["id"]
    told = read(api, f"/v1/generation?id={identifier}")
    failed, answered = told["provider_responses"]
    assert (failed, answered) == (
        {"provider_name": "scripted", "status": 503},
        {"provider_name": "spare", "status": 200},
    )
    completion = Completion.objects.get()
    assert (told["latency"], told["generation_time"]) == (completion.first_token_ms, completion.streamed_ms)


def test_a_generation_that_failed_cost_nothing(api, large, upstream):
    upstream.will(refusal(400))
    assert ask(api).status_code == 400
    told = read(api, f"/v1/generation?id={Completion.objects.get().pk}")
    assert (told["usage"], told["tokens_completion"]) == (0, 0)
    assert told["provider_responses"] == [{"provider_name": "scripted", "status": 400}]


def test_a_generation_that_runs_is_not_found_yet(api, large, upstream):
    upstream.will(streamed())
    reply = ask_streamed(api)
    identifier = Completion.objects.get().pk
    assert_error(api.get(f"/v1/generation?id={identifier}"), 404, "invalid_request_error")
    events(reply)
    assert read(api, f"/v1/generation?id={identifier}")["tokens_completion"] == 2


def test_generations_of_others_are_not_found(api, bob, large):
    identifier = ask(api).json()["id"]
    others = client_for(factories.make_key(bob)[1])
    for client, path in ((others, identifier), (api, "chatcmpl-none"), (api, "%00")):
        assert_error(client.get(f"/v1/generation?id={path}"), 404, "invalid_request_error")


def test_a_generation_without_an_id_is_refused(api):
    assert_error(api.get("/v1/generation"), 400, "invalid_request_error", "id")


# --- Completions ------------------------------------------------------------------------------------------------------

THOUGHT = {"reasoning_content": "Let me think \U0001f914."}


def test_reasoning_reaches_an_upstream_as_its_effort(api, large, upstream):
    reply = ask(api, reasoning={"effort": "high", "summary": "auto"}, usage={"include": True})
    assert upstream.requests[0].body["reasoning_effort"] == "high"
    assert upstream.requests[0].body.keys().isdisjoint({"reasoning", "usage"})
    assert reply["x-gateway-ignored-fields"] == "reasoning.summary"


def test_a_reply_leaves_out_reasoning_that_is_excluded(api, large, upstream):
    upstream.will(whole(message={"role": "assistant", "content": "Hello you", **THOUGHT}))
    shown = ask(api, reasoning={"effort": "low"}).json()
    upstream.will(whole(message={"role": "assistant", "content": "Hello you", **THOUGHT}))
    hidden = ask(api, reasoning={"effort": "low", "exclude": True}).json()
    assert shown["choices"][0]["message"]["reasoning_content"] == THOUGHT["reasoning_content"]
    assert not [name for name in hidden["choices"][0]["message"] if "reasoning" in name]
    assert (hidden["choices"][0]["message"]["content"], hidden["usage"]) == ("Hello you", shown["usage"])


def test_a_stream_leaves_out_reasoning_that_is_excluded(api, large, upstream):
    upstream.will(stream(ROLE, chunk(THOUGHT), chunk({**THOUGHT, "content": "Hel"}), words("lo"), FINISH, usage(), DONE))
    reply = ask_streamed(api, reasoning={"exclude": True}, usage={"include": True})
    body = b"".join(reply.streaming_content)
    assert b"think" not in body
    chunks = [json.loads(line[6:]) for line in body.decode().split("\n\n") if line.startswith("data: {")]
    said = [choice["delta"].get("content") for each in chunks for choice in each["choices"]]
    assert said == ["", "Hel", "lo", None]
    assert chunks[-1]["usage"]["cost"] == float(Decimal(LedgerEntry.objects.latest("seq").metadata["costInDollars"]))


def test_usage_ends_a_stream_that_includes_it(api, large, upstream):
    upstream.will(streamed())
    *chunks, last, done = events(ask_streamed(api, usage={"include": True}))
    assert (last["usage"]["total_tokens"], done) == (11, "[DONE]")
    assert not [each for each in chunks if "usage" in each]


def test_the_first_of_the_models_is_asked_where_there_is_no_model(api, large, upstream):
    factories.make_model("acme/small", provider=factories.make_provider("elsewhere"))
    reply = api.post("/v1/chat/completions", {"models": ["acme/large", "acme/small"], "messages": MESSAGES})
    assert (reply.status_code, reply.json()["model"]) == (200, "acme/large")


@pytest.mark.parametrize("fields", [{"models": []}, {"models": None}, {"models": "acme/large"}, {}])
def test_a_request_without_any_model_is_refused(api, large, fields):
    before = everything_written()
    error = api.post("/v1/chat/completions", {**fields, "messages": MESSAGES})
    assert_error(error, 400, "invalid_request_error", "model")
    assert everything_written() == before
