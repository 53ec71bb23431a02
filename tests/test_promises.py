"""The contract with callers: every field, type, bound, default and enumeration that they may rely on."""

import re
import time
from typing import Any

import pytest

from billing import locks, money
from billing.ledger import writer
from billing.models import LedgerEntry
from completions.models import LanguageModel
from completions.request import schema
from gateway_project import errors
from gateway_project.db import pool
from keys.models import ApiKey, SpendingDay
from keys.spending_limit import InvalidLimit, SpendingPeriod, SpendingType
from rankings.models import Source
from rankings.publishing import publication
from tests import chat, factories
from tests.chat import TIMESTAMP
from tests.conftest import client_for
from tests.rankings import entries

LEDGER = "/api/billing/ledger"


def types(value: dict) -> dict:
    """Return the same object with types in place of values."""
    return {name: types(item) if isinstance(item, dict) else type(item) for name, item in value.items()}


# --- POST /v1/chat/completions: requests --------------------------------------------------------------------------

ACCEPTED: list[dict[str, Any]] = [
    {"max_tokens": 1},
    {"max_tokens": 4_096},
    {"temperature": 0},
    {"temperature": 0.0},
    {"temperature": 2},
    {"temperature": 2.0},
    {"temperature": 1.999},
    {"top_p": 0},
    {"top_p": 1},
    {"top_p": 1.0},
    {"top_p": 0.5},
    {"stream": False},
    {"stream": True},
    *({name: None} for name in ("max_tokens", "temperature", "top_p", "stream")),  # null counts as absent
    *({"messages": [{"role": role, "content": "hi"}]} for role in ("developer", "system", "user", "assistant")),
    {"messages": [{"role": "tool", "tool_call_id": "call_1", "content": "hi"}]},
    {"messages": [{"role": "function", "name": "find", "content": "hi"}]},
    {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]},
    {"n": 1},
    {"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}]},
    {"messages": [{"role": "user", "content": ""}]},
]


def test_a_request_within_the_bounds_is_served(api, echo_model, subtests):
    for fields in ACCEPTED:
        with subtests.test(str(fields)):
            reply = chat.ask(api, **fields)
            assert reply.status_code == 200
            assert reply["content-type"] == ("text/event-stream" if fields.get("stream") else "application/json")
            assert reply.getvalue()


# The bounds of the fields above, and the type of each. ``tests/completions/request/`` proves that a refusal over HTTP says the
# same, writes nothing and asks no provider, and has the bounds of all other fields.
REFUSED = [
    *(("model", value) for value in (None, 1, True, [], {}, "")),
    *(("messages", value) for value in (None, "hi", {}, [], 1)),
    ("messages[0]", ["hi"]),
    *(("messages[0].role", [{"role": role, "content": "hi"}]) for role in ("USER", "", None, 1, [])),
    ("messages[0].tool_call_id", [{"role": "tool", "content": "hi"}]),
    ("messages[0].name", [{"role": "function", "content": "hi"}]),
    *(("messages[0].content", [{"role": "user", "content": content}]) for content in (None, 1, True, [], {})),
    *(("max_tokens", value) for value in (0, -1, 1.0, 1.5, True, "1", [], {}, 2**31, 2**63)),
    *(("temperature", value) for value in (-0.0001, 2.0001, 3, True, "1", [], {})),
    *(("top_p", value) for value in (-0.0001, 1.0001, 2, False, "0.5", [], {})),
    *(("stream", value) for value in (1, 0, "true", [], {})),
]


@pytest.mark.parametrize(("param", "value"), REFUSED, ids=str)
def test_a_request_out_of_bounds_is_refused_with_the_name_of_the_field(param, value):
    fields = {"model": "demo/echo", "messages": [{"role": "user", "content": "hi"}], param.partition("[")[0]: value}
    with pytest.raises(errors.InvalidRequest) as refusal:
        schema.parse(fields)
    assert refusal.value.param == param
    assert refusal.value.message.startswith(f"{param} ")


def test_model_and_messages_are_required(api, echo_model):
    fields = {"model": "demo/echo", "messages": [{"role": "user", "content": "hi"}]}
    for name in fields:
        given = {other: value for other, value in fields.items() if other != name}
        error = chat.assert_error(api.post(chat.PATH, given), 400, "invalid_request_error", name)
        assert error["message"] == f"{name} is required."


# --- POST /v1/chat/completions: replies ---------------------------------------------------------------------------


def test_a_completion_has_every_field_with_its_type(api, echo_model):
    before = int(time.time())
    reply = chat.ask(api)
    completion = reply.json()
    assert types(completion) == {
        "id": str,
        "object": str,
        "created": int,
        "model": str,
        "provider": str,
        "system_fingerprint": type(None),
        "choices": list,
        "usage": {
            "prompt_tokens": int,
            "completion_tokens": int,
            "total_tokens": int,
            "prompt_tokens_details": {"cached_tokens": int, "cache_write_tokens": int},
            "completion_tokens_details": {"reasoning_tokens": int},
            "cost": float,
        },
    }
    assert re.fullmatch(r"chatcmpl-[0-9a-f]{32}", completion["id"])
    assert (completion["object"], completion["model"]) == ("chat.completion", "demo/echo")
    assert before - 60 <= completion["created"] <= time.time() + 60
    assert completion["choices"] == [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "one two three", "refusal": None},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ]
    usage = completion["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"] == 9
    assert reply["cache-control"] == "no-store"


def test_every_completion_has_a_unique_id(api, echo_model):
    assert len({chat.ask(api).json()["id"] for _ in range(3)}) == 3


def test_a_truncated_reply_has_finish_reason_length(api, echo_model):
    [choice] = chat.ask(api, max_tokens=2).json()["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("one two ", "length")


def test_a_stream_is_chunks_and_a_terminator(api, echo_model):
    reply = chat.ask(api, stream=True)
    assert (reply["cache-control"], reply["x-accel-buffering"]) == ("no-cache", "no")
    *chunks, done = chat.events(reply)
    assert done == "[DONE]"
    [head] = {tuple(map(chunk.pop, ("id", "object", "created", "model", "provider"))) for chunk in chunks}
    assert re.fullmatch(r"chatcmpl-[0-9a-f]{32}", head[0])
    assert (head[1], type(head[2]), *head[3:]) == ("chat.completion.chunk", int, "demo/echo", "echo")
    assert chunks == [
        {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        for delta in ({"role": "assistant", "content": ""}, {"content": "one "}, {"content": "two "}, {"content": "three"})
    ] + [{"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}]


@pytest.mark.parametrize(
    ("asked", "before"),
    [({"stream_options": {"include_usage": True}}, {"usage": None}), ({"usage": {"include": True}}, {})],
    ids=["openai", "openrouter"],
)
def test_a_stream_reports_its_usage_on_request(api, echo_model, asked, before):
    *chunks, last, done = chat.events(chat.ask(api, stream=True, **asked))
    assert done == "[DONE]"
    assert [{name: chunk[name] for name in chunk if name == "usage"} for chunk in chunks] == [before] * 5
    assert last["choices"] == []
    assert last["usage"] == chat.ask(api).json()["usage"]


# --- GET /v1/models, /v1/usage ------------------------------------------------------------------------------------


def test_the_model_list_has_openais_format(api, echo_model):
    models = api.get("/v1/models").json()
    assert (models["object"], len(models["data"]), models["links"]) == ("list", models["total_count"], {"next": None})
    assert types(models["data"][0]) == {
        "id": str,
        "object": str,
        "created": int,
        "owned_by": str,
        "name": str,
        "canonical_slug": str,
        "kind": str,
        "available": bool,
        "category": str,
        "context_window": int,
        "max_output_tokens": int,
        "pricing": {
            **dict.fromkeys(("prompt", "completion", "input_cache_read", "input_cache_write", "image"), str),
            "service_tiers": {},
        },
        "architecture": {"modality": str, "input_modalities": list, "output_modalities": list},
        "context_length": int,
        "top_provider": {"context_length": int, "max_completion_tokens": int, "is_moderated": bool},
        "supported_parameters": list,
        "default_parameters": type(None),
        "per_request_limits": type(None),
        "supported_voices": type(None),
        "expiration_date": type(None),
        "successor": type(None),
        "links": {"details": str},
        "capabilities": {"image_support": bool, "function_calling": bool},
        "commercial_use": bool,
        "license": type(None),
    }


def test_usage_reports_key_limit_spending_and_balance(alice, echo_model):
    client = client_for(factories.make_key(alice, limit_cents=1, type="RECURRING", period="DAILY")[1])
    sums = {"completions": int, "promptTokens": int, "completionTokens": int, "totalTokens": int, "costInDollars": str}
    assert types(client.get("/v1/usage").json()) == {
        "object": str,
        "key": {"id": str, "name": str, "createdAt": str, "expiresAt": type(None)},
        "limit": {
            "spendingLimit": int,
            "spendingType": str,
            "spendingPeriod": str,
            "spentInDollars": str,
            "heldInDollars": str,
            "remainingInCents": int,
            "remainingInDollars": str,
            "resetsAt": str,
        },
        "rateLimits": {
            "requestsPerMinute": type(None),
            "tokensPerMinute": type(None),
            "requestsInFlight": int,
            "accountRequestsInFlight": int,
        },
        "usage": {"today": sums, "thisMonth": sums, "total": sums},
        "balance": {"balanceInCents": int, "balanceInDollars": float, "heldInDollars": str, "availableInDollars": str},
    }


# --- GET /api/billing ---------------------------------------------------------------------------------------------


def test_the_balance_is_two_numbers(api):
    reply = api.get("/api/billing/balance")
    assert (reply.status_code, reply.json()) == (200, {"balanceInCents": 1000, "balanceInDollars": 10.0})
    assert types(reply.json()) == {"balanceInCents": int, "balanceInDollars": float}


def test_an_entry_has_every_field_with_its_type(api, echo_model):
    chat.ask(api)
    reply = api.get(LEDGER).json()
    assert types(reply) == {"entries": list, "limit": int, "offset": int, "count": int}
    newest, oldest = reply["entries"]
    for entry in reply["entries"]:
        metadata = entry.pop("metadata")
        assert type(metadata) is dict
        assert types(entry) == {"id": str, "type": str, "amountInCents": int, "balanceAfterInCents": int, "createdAt": str}
        assert TIMESTAMP.fullmatch(entry["createdAt"])
    assert (newest["type"], newest["amountInCents"], newest["balanceAfterInCents"]) == ("USAGE_DEBIT", -1, 999)
    assert (oldest["type"], oldest["amountInCents"], oldest["balanceAfterInCents"]) == ("SUPPORT_CREDIT", 1000, 1000)


def test_a_usage_entry_names_model_and_tokens(api, echo_model):
    completion = chat.ask(api).json()
    metadata = api.get(LEDGER).json()["entries"][0]["metadata"]
    assert metadata == {
        "model": "demo/echo",
        "tokens": 9,
        "completionId": completion["id"],
        "promptTokens": 6,
        "completionTokens": 3,
        "costInDollars": "0.0000075",
        "settlement": "reported",
    }


def test_a_purchase_entry_names_the_payment(alice, api):
    writer.credit_purchase(locks.lock_account(alice.pk), amount_cents=500, processor="stripe", payment_id="pi_1")
    entry = api.get(LEDGER).json()["entries"][0]
    assert (entry["type"], entry["metadata"]) == ("CREDIT_PURCHASE", {"stripePaymentId": "pi_1"})


PAGES = {  # a query: limit, offset and count
    "": (10, 0, 10),
    "?limit=1": (1, 0, 1),
    "?limit=100": (100, 0, 13),
    "?offset=0": (10, 0, 10),
    "?offset=12": (10, 12, 1),
    "?offset=13": (10, 13, 0),
    "?limit=2&offset=3": (2, 3, 2),
}


def test_the_ledger_applies_defaults_and_returns_its_parameters(alice, api, subtests):
    for _ in range(12):
        factories.credit(alice, 1)
    newest_first = [str(entry.pk) for entry in LedgerEntry.objects.order_by("-seq")]
    for query, (limit, offset, count) in PAGES.items():
        with subtests.test(query):
            page = api.get(LEDGER + query).json()
            assert (page["limit"], page["offset"], page["count"]) == (limit, offset, count)
            assert [entry["id"] for entry in page["entries"]] == newest_first[offset : offset + limit]


OUT_OF_BOUNDS = {"limit": ("0", "101", "ten", "", "-1"), "offset": ("-1", "x", "1.5")}


def test_ledger_parameters_out_of_bounds_are_refused(api, subtests):
    for name, values in OUT_OF_BOUNDS.items():
        for value in values:
            with subtests.test(f"{name}={value}"):
                chat.assert_error(api.get(f"{LEDGER}?{name}={value}"), 400, "invalid_request_error", name)


# --- GET /api/rankings --------------------------------------------------------------------------------------------


def test_a_ranking_entry_has_these_fields(echo_model):
    publication.publish(Source.INTERNAL)
    entries.forget()
    body = client_for(None).get("/api/rankings").json()
    [entry] = body["rankings"]
    assert types(entry) == {
        "rank": int,
        "categoryRank": int,
        "change": int,
        "model": {
            "id": str,
            "name": str,
            "provider": str,
            "category": str,
            "contextWindow": int,
            "imageSupport": bool,
            "functionCalling": bool,
            "commercialUse": bool,
            "license": type(None),
        },
        "scores": {
            "overall": float,
            "quality": type(None),
            "speed": type(None),
            "cost": float,
            "elo": type(None),
            "benchmarks": {"mmlu": type(None), "hellaswag": type(None), "humanEval": type(None)},
        },
        "metadata": {"confidence": float, "available": bool, "lastUpdated": str, "dataFreshnessHours": float},
    }
    assert TIMESTAMP.fullmatch(entry["metadata"]["lastUpdated"])
    assert types(body["pagination"]) == {"total": int, "limit": int, "offset": int, "hasMore": bool}
    assert [types(each) for each in body["sources"]][0] == {"source": str, "isHealthy": bool, "lastSyncAt": str}
    assert TIMESTAMP.fullmatch(body["timestamp"])


def test_the_category_of_a_model_is_the_same_in_both_apis(api, echo_model):
    LanguageModel.objects.update(category="MATH")
    publication.publish(Source.INTERNAL)
    entries.forget()
    [listed] = [model for model in api.get("/v1/models").json()["data"] if model["id"] == echo_model.pk]
    [ranked] = client_for(None).get("/api/rankings?category=MATH").json()["rankings"]
    assert (listed["category"], ranked["model"]["category"]) == ("MATH", "MATH")
    assert client_for(None).get("/api/rankings?category=CODING").json()["rankings"] == []


# --- Enumerations -------------------------------------------------------------------------------------------------


def test_ledger_types_are_the_documented_ones():
    assert set(LedgerEntry.Type.values) == {"CREDIT_PURCHASE", "USAGE_DEBIT", "SUPPORT_CREDIT", "REFUND_DEBIT"}


def test_spending_types_and_periods_are_the_documented_ones():
    assert set(SpendingType.values) == {"FIXED", "RECURRING"}
    assert set(SpendingPeriod.values) == {"DAILY", "WEEKLY", "MONTHLY"}


@pytest.mark.parametrize(
    ("type", "period"),
    [(None, None), ("FIXED", "DAILY"), ("RECURRING", None), ("RECURRING", "YEARLY"), ("fixed", None), ("MONTHLY", "MONTHLY")],
)
def test_a_spending_limit_without_a_matching_type_and_period_is_refused(alice, type, period):
    with pytest.raises(InvalidLimit):
        factories.make_key(alice, limit_cents=1, type=type, period=period)
    assert not ApiKey.objects.exists()


@pytest.mark.parametrize("limit_cents", [-1, 2**63, money.CENTS_MAX + 1])
def test_a_spending_limit_out_of_bounds_is_refused(alice, limit_cents):
    with pytest.raises(InvalidLimit):
        factories.make_key(alice, limit_cents=limit_cents, type="FIXED")


def test_a_spending_limit_is_in_cents(alice, echo_model):
    key, secret = factories.make_key(alice, limit_cents=7, type="FIXED")
    SpendingDay.objects.create(key=key, day=pool.database_time().date(), spent_nanos=60_000_000)
    limit = client_for(secret).get("/v1/usage").json()["limit"]
    assert (limit["spendingLimit"], limit["remainingInCents"]) == (7, 1)


def test_the_error_codes_are_exactly_the_documented_ones():
    codes = {error.code for error in vars(errors).values() if isinstance(error, type) and issubclass(error, errors.ApiError)}
    assert codes == {
        "invalid_api_key",
        "model_not_found",
        "data_demand_unmet",
        "invalid_request_error",
        "rate_limit_exceeded",
        "insufficient_quota",
        "budget_exceeded",
        "request_in_progress",
        "reply_unreadable",
        "previous_response_not_found",
        "upstream_error",
        "service_unavailable",
        "internal_error",
        "own_key_refused",
        "own_key_exhausted",
    }


# --- Authentication -----------------------------------------------------------------------------------------------

AUTHENTICATED = ["/v1/models", "/v1/models/demo/echo", "/v1/usage", "/api/billing/balance", LEDGER]


def test_a_bearer_key_authenticates_on_every_path(alice, echo_model, subtests):
    secret, client = factories.make_key(alice)[1], client_for(None)
    for path in AUTHENTICATED:
        for scheme in ("Bearer", "bearer", "BEARER"):
            with subtests.test(f"{scheme} for {path}"):
                assert client.get(path, HTTP_AUTHORIZATION=f"{scheme} {secret}").status_code == 200


HEADERS = ["", "Bearer", "Bearer ", "Basic {}", "{}", "Bearer {} {}", "Bearer {}x", "Token {}"]


def test_any_other_authorization_header_is_refused(alice, echo_model, subtests):
    secret, client = factories.make_key(alice)[1], client_for(None)
    for path in AUTHENTICATED:
        for header in HEADERS:
            with subtests.test(f"{header!r} for {path}"):
                reply = client.get(path, HTTP_AUTHORIZATION=header.format(secret, secret))
                assert secret not in str(chat.assert_error(reply, 401, "invalid_api_key"))
                assert reply["www-authenticate"] == "Bearer"
