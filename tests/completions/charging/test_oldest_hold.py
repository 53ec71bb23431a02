"""A refusal for money says whose money it is, how much of it running requests hold, and since when the oldest runs."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from billing.models import Account, Hold
from completions.models import Completion, LanguageModel, Price
from gateway_project.db import pool
from gateway_project.text import timestamps
from keys import lifecycle
from keys.models import ApiKey
from keys.spending_limit import SpendingLimit
from tests import chat, factories, usage
from tests.conftest import client_for

CENT = 10_000_000
TOO_LITTLE, TIED_UP = (402, "insufficient_quota"), (429, "rate_limit_exceeded")
FOREVER = timedelta(days=1)


def run(account: Account, key: ApiKey, nanos: int, *, minutes: int) -> datetime:
    """Let a request of the key hold money for as long. Return since when."""
    now, price = pool.database_time(), Price.objects.get()
    completion = Completion.objects.create(
        id=f"chatcmpl-{nanos}-{minutes}",
        account=account,
        key=key,
        model=LanguageModel.objects.get(),
        price=price,
        provider_id="echo",
        is_stream=False,
        spending_day=now.date(),
        counted_tokens=1,
        created_at=now,
    )
    usage.place(account, nanos, reference=completion.id, expires_at=now + FOREVER)
    usage.reserve(key, day=now.date(), amount_nanos=nanos)
    since = now - timedelta(minutes=minutes)
    Hold.objects.filter(pk=completion.id).update(created_at=since)
    return since


def nothing_left(account: Account, key: ApiKey) -> None:
    usage.refund(account, 2000, "all")


def fixed_limit(account: Account, key: ApiKey) -> None:
    lifecycle.set_spending_limit(key, SpendingLimit(0, "FIXED"))


def limit_of_the_month(account: Account, key: ApiKey) -> None:
    lifecycle.set_spending_limit(key, SpendingLimit(0, "RECURRING", "MONTHLY"))


def all_funds_held(account: Account, key: ApiKey) -> None:
    account.refresh_from_db()
    usage.place(account, account.available_nanos, reference="by another key", expires_at=pool.database_time() + FOREVER)


def all_of_the_limit_held(account: Account, key: ApiKey) -> None:
    lifecycle.set_spending_limit(key, SpendingLimit(5, "FIXED"))


def first_of_next_month() -> str:
    today = datetime.now(UTC)
    first = (today.replace(day=1) + timedelta(days=32)).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    return timestamps.iso_millis(first)


Break = Callable[[Account, ApiKey], None]
# What is wrong while the key holds 5 cents and another of the account 3 -> status, code, whose money, what is held. None: all.
REFUSALS: dict[str, tuple[Break, tuple[int, str], str, float | None]] = {
    "no credits": (nothing_left, TOO_LITTLE, "account", 0.08),
    "a limit without a reset": (fixed_limit, TOO_LITTLE, "key", 0.05),
    "a limit that resets": (limit_of_the_month, TOO_LITTLE, "key", 0.05),
    "tied up credits": (all_funds_held, TIED_UP, "account", None),
    "a tied up limit": (all_of_the_limit_held, TIED_UP, "key", 0.05),
}
LARGE = b"{" * 70_000  # is refused before it is read
MESSAGES = b'{"model": "demo/echo", "max_tokens": 100, "messages": [{"role": "user", "content": "Hello"}]}'
RESPONSES = b'{"model": "demo/echo", "input": "Hello"}'
REQUESTS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "whole": (chat.PATH, lambda: chat.body(max_tokens=100)),
    "streamed": (chat.PATH, lambda: chat.body(max_tokens=100, stream=True)),
    "unread": (chat.PATH, lambda: LARGE),
    "Responses": ("/v1/responses", lambda: RESPONSES),
}


def post(secret: str, path: str, raw: bytes) -> Any:
    return client_for(secret).generic("POST", path, raw, content_type="application/json")  # type: ignore[arg-type]


@pytest.fixture
def running(alice, echo_model):
    """A key with a request that has run for 7 minutes and one for 5, and another key's for 90. Gives key, secret, sinces."""
    (key, secret), (other, _) = factories.make_key(alice), factories.make_key(alice)
    since = run(alice, key, 4 * CENT, minutes=7)
    run(alice, key, CENT, minutes=5)
    return key, secret, {"key": since, "account": run(alice, other, 3 * CENT, minutes=90)}


@pytest.mark.parametrize(("path", "raw"), REQUESTS.values(), ids=REQUESTS.keys())
@pytest.mark.parametrize(("break_it", "refusal", "source", "held"), REFUSALS.values(), ids=REFUSALS.keys())
def test_a_refusal_for_money_says_what_is_held_and_since_when(alice, running, break_it, refusal, source, held, path, raw):
    key, secret, since = running
    break_it(alice, key)
    alice.refresh_from_db()
    before = chat.everything_written()
    reply = post(secret, path, raw())
    error = chat.assert_error(reply, *refusal)
    expected_nanos = alice.held_nanos if held is None else int(held * 1e9)
    assert (error["limit_source"], error["held"]) == (source, expected_nanos / 1e9)
    assert error["held_since"] == timestamps.iso_millis(since[source])
    assert error.get("resets_at") == (first_of_next_month() if break_it is limit_of_the_month else None)
    assert f" hold ${held or 10:.2f}, the oldest since {timestamps.in_words(since[source])}." in error["message"]
    assert (reply.get("x-should-retry"), reply.get("retry-after")) == (
        ("false", None) if refusal == TOO_LITTLE else (None, "1")
    )
    assert chat.everything_written() == before


@pytest.mark.parametrize(("break_it", "refusal", "source", "held"), REFUSALS.values(), ids=REFUSALS.keys())
def test_messages_have_it_in_details(alice, running, break_it, refusal, source, held):
    key, secret, since = running
    break_it(alice, key)
    reply = post(secret, "/v1/messages", MESSAGES)
    error = reply.json()["error"]
    assert (reply.status_code, error["type"]) == (refusal[0], {402: "billing_error", 429: "rate_limit_error"}[refusal[0]])
    assert (error["details"]["limit_source"], error["details"]["held_since"]) == (source, timestamps.iso_millis(since[source]))


@pytest.mark.parametrize(("break_it", "refusal", "source", "held"), REFUSALS.values(), ids=REFUSALS.keys())
def test_a_quote_has_it_in_its_refusal(alice, running, break_it, refusal, source, held):
    key, secret, since = running
    break_it(alice, key)
    told = post(secret, "/v1/quote", chat.body(max_tokens=100)).json()["refusal"]
    assert (told["status"], told["code"], told["limit_source"]) == (*refusal, source)
    assert told["held_since"] == timestamps.iso_millis(since[source])


@pytest.mark.parametrize("break_it", [nothing_left, fixed_limit])
def test_where_nothing_runs_nothing_is_held(alice, echo_model, break_it):
    key, secret = factories.make_key(alice)
    break_it(alice, key)
    error = chat.assert_error(post(secret, chat.PATH, chat.body(max_tokens=100)), *TOO_LITTLE)
    assert (error["held"], error["held_since"]) == (0, None)
    assert "hold" not in error["message"]
