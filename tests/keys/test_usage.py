"""GET /v1/usage: the key, its limit, its usage and the balance. It also replies when nothing is left."""

from datetime import UTC, datetime, timedelta

import pytest

from gateway_project.db import pool
from keys import lifecycle
from keys.models import SpendingDay
from keys.spending_limit import SpendingLimit
from tests import chat, factories, usage
from tests.conftest import client_for

USAGE = "/v1/usage"
PER_MINUTE = {"requestsPerMinute": None, "tokensPerMinute": None}
NOTHING = {"completions": 0, "promptTokens": 0, "completionTokens": 0, "totalTokens": 0, "costInDollars": "0.00"}


def usage_of(client) -> dict:
    reply = client.get(USAGE)
    assert reply.status_code == 200
    return reply.json()


@pytest.fixture
def key(alice):
    return factories.make_key(alice)


@pytest.fixture
def program(key):
    return client_for(key[1])


def test_a_new_key_has_used_nothing(key, program):
    usage = usage_of(program)
    created = usage["key"].pop("createdAt")
    assert datetime.fromisoformat(created) == key[0].created_at.replace(
        microsecond=key[0].created_at.microsecond // 1000 * 1000
    )
    assert created.endswith("Z")
    assert len(created) == len("2026-11-21T11:43:00.123Z")
    assert usage == {
        "object": "usage",
        "key": {"id": key[0].pk, "name": "test", "expiresAt": None},
        "limit": None,
        "rateLimits": {**PER_MINUTE, "requestsInFlight": 100, "accountRequestsInFlight": 400},
        "usage": {"today": NOTHING, "thisMonth": NOTHING, "total": NOTHING},
        "balance": {
            "balanceInCents": 1000,
            "balanceInDollars": 10.0,
            "heldInDollars": "0.00",
            "availableInDollars": "10.00",
        },
    }
    assert key[1] not in program.get(USAGE).content.decode()


def test_a_completion_is_counted_in_every_span(program, echo_model):
    reply = chat.ask(program).json()["usage"]
    # 6 tokens at $0.50 and 3 at $1.50 per million
    expected = {
        "completions": 1,
        "promptTokens": reply["prompt_tokens"],
        "completionTokens": reply["completion_tokens"],
        "totalTokens": reply["total_tokens"],
        "costInDollars": "0.0000075",
    }
    assert usage_of(program)["usage"] == {"today": expected, "thisMonth": expected, "total": expected}
    assert usage_of(program)["balance"] == {
        "balanceInCents": 999,
        "balanceInDollars": 9.99,
        "heldInDollars": "0.00",
        "availableInDollars": "9.9999925",
    }


def test_spans_are_days_and_months_of_utc(key, program):
    today = pool.database_time().date()
    first = today.replace(day=1)
    for day, cost in ((today, 1), (first - timedelta(days=1), 1_000), (first - timedelta(days=400), 1_000_000)):
        SpendingDay.objects.create(key=key[0], day=day, completions=1, prompt_tokens=2, completion_tokens=3, spent_nanos=cost)
    if today != first:
        SpendingDay.objects.create(key=key[0], day=first, completions=1, prompt_tokens=2, completion_tokens=3, spent_nanos=10)
    usage = usage_of(program)["usage"]
    this_month = 1 if today == first else 11
    assert usage["today"]["costInDollars"] == "0.000000001"
    assert usage["thisMonth"]["costInDollars"] == f"0.{this_month:09d}"
    assert usage["total"]["costInDollars"] == f"0.{1_001_000 + this_month:09d}"
    assert usage["total"]["totalTokens"] == 5 * usage["total"]["completions"]


def test_usage_is_of_the_key_and_the_balance_of_the_account(alice, program, echo_model):
    other = client_for(factories.make_key(alice)[1])
    chat.ask(other)
    assert usage_of(program)["usage"]["total"] == NOTHING
    assert usage_of(program)["balance"] == usage_of(other)["balance"]
    assert usage_of(program)["balance"]["balanceInCents"] == 999


def test_running_requests_are_reported_as_held(alice, key, program):
    lifecycle.set_spending_limit(key[0], SpendingLimit(100, "FIXED"))
    now = pool.database_time()
    usage.place(alice, 1, reference="running", expires_at=now + timedelta(hours=1))
    usage.reserve(key[0], day=now.date(), amount_nanos=1)
    reported = usage_of(program)
    assert reported["balance"] == {
        "balanceInCents": 1000,
        "balanceInDollars": 10.0,
        "heldInDollars": "0.000000001",
        "availableInDollars": "9.999999999",
    }
    assert reported["limit"]["heldInDollars"] == "0.000000001"
    assert reported["limit"]["remainingInDollars"] == "0.999999999"
    assert reported["limit"]["remainingInCents"] == 99


def test_a_fixed_limit_counts_all_days_and_never_resets(key, program):
    lifecycle.set_spending_limit(key[0], SpendingLimit(500, "FIXED"))
    SpendingDay.objects.create(key=key[0], day=pool.database_time().date() - timedelta(days=4_000), spent_nanos=10_000_001)
    assert usage_of(program)["limit"] == {
        "spendingLimit": 500,
        "spendingType": "FIXED",
        "spendingPeriod": None,
        "spentInDollars": "0.010000001",
        "heldInDollars": "0.00",
        "remainingInCents": 498,
        "remainingInDollars": "4.989999999",
        "resetsAt": None,
    }


@pytest.mark.parametrize("period", ["DAILY", "WEEKLY", "MONTHLY"])
def test_a_recurring_limit_counts_its_window_and_says_when_it_resets(key, program, period):
    lifecycle.set_spending_limit(key[0], SpendingLimit(500, "RECURRING", period))
    today = pool.database_time().date()
    SpendingDay.objects.create(key=key[0], day=today, spent_nanos=7)
    SpendingDay.objects.create(key=key[0], day=today - timedelta(days=31), spent_nanos=1_000)
    limit = usage_of(program)["limit"]
    assert (limit["spendingType"], limit["spendingPeriod"], limit["spentInDollars"]) == ("RECURRING", period, "0.000000007")
    resets = datetime.fromisoformat(limit["resetsAt"])
    assert limit["resetsAt"].endswith("T00:00:00.000Z")
    assert {"DAILY": True, "WEEKLY": resets.weekday() == 0, "MONTHLY": resets.day == 1}[period]
    longest = {"DAILY": 1, "WEEKLY": 7, "MONTHLY": 31}[period]
    assert timedelta(0) < resets - datetime.combine(today, datetime.min.time(), UTC) <= timedelta(days=longest)


def test_it_answers_when_limit_and_account_are_exhausted(bob, echo_model):
    key, secret = factories.make_key(bob, limit_cents=1, type="FIXED", requests_per_minute=1)
    SpendingDay.objects.create(key=key, day=pool.database_time().date(), spent_nanos=10_000_000)
    client = client_for(secret)
    assert chat.ask(client).status_code == 402
    for _ in range(3):  # requests per minute do not apply either
        usage = usage_of(client)
    assert (usage["limit"]["remainingInCents"], usage["balance"]["balanceInCents"]) == (0, 0)


def test_a_limit_lowered_below_what_is_spent_leaves_nothing(key, program):
    SpendingDay.objects.create(key=key[0], day=pool.database_time().date(), spent_nanos=50_000_000)
    lifecycle.set_spending_limit(key[0], SpendingLimit(1, "FIXED"))
    limit = usage_of(program)["limit"]
    assert (limit["remainingInCents"], limit["remainingInDollars"], limit["spentInDollars"]) == (0, "0.00", "0.05")


def test_the_expiry_of_a_key_is_reported(alice):
    expires = datetime(2999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)
    client = client_for(factories.make_key(alice, expires_at=expires)[1])
    assert usage_of(client)["key"]["expiresAt"] == "2999-12-31T23:59:59.999Z"


def test_reading_usage_writes_nothing(program):
    before = chat.everything_written()
    usage_of(program)
    assert chat.everything_written() == before
