"""How much is held for a request, how much it may generate, and that limits hold to the nanodollar.

The order of refusals is in ``tests/test_error_table.py``.
"""

import math
import re
from datetime import UTC, timedelta

import pytest
from django.db import transaction

from billing import money
from billing.ledger import writer
from billing.models import Account, Hold
from completions.models import Completion
from gateway_project.db import pool
from gateway_project.text import dollars
from keys import lifecycle
from keys.limits import limit_state_cache
from keys.models import ApiKey, Run, SpendingDay
from keys.spending_limit import SpendingLimit
from tests import chat, factories, usage
from tests.completions.charging.worst_cases import CENT, INPUT, OUTPUT, with_balance, worst_case
from tests.conftest import client_for


def caller(account: Account, **fields):
    key, secret = factories.make_key(account, **fields)
    return key, client_for(secret)


def tie_up(account: Account, nanos: int) -> None:
    later = pool.database_time() + timedelta(hours=1)
    usage.place(account, nanos, reference="running", expires_at=later)


def max_tokens_sent() -> int:
    """Return the max_tokens that the upstream received: the scripted reply is longer, so it is cut there."""
    return Completion.objects.get(pk__startswith="chatcmpl-").completion_tokens


def long_reply(tokens: int = 6_000) -> dict:
    return {"echo": {"reply": "word " * tokens}}


# --- With max_tokens ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("max_tokens", [1, 2, 4_096])
def test_with_max_tokens_the_worst_case_is_held_and_the_cost_is_charged(alice, echo_model, max_tokens, stream):
    key, client = caller(alice)
    raw = chat.body(max_tokens=max_tokens, stream=stream)
    reply = chat.send(client, raw)
    assert (reply.status_code, bool(reply.getvalue())) == (200, True)
    hold = Hold.objects.get()
    generated = min(max_tokens, 3)
    assert (hold.amount_nanos, hold.settled_nanos) == (worst_case(raw, max_tokens), 6 * INPUT + generated * OUTPUT)
    alice.refresh_from_db()
    assert (alice.balance_nanos, alice.held_nanos) == (1000 * CENT - hold.settled_nanos, 0)
    day = SpendingDay.objects.get(key=key)
    assert (day.spent_nanos, day.held_nanos, day.completions) == (hold.settled_nanos, 0, 1)


def test_the_hold_is_committed_while_the_upstream_replies(alice, echo_model):
    key, client = caller(alice, limit_cents=100, type="FIXED")
    raw = chat.body(max_tokens=10, stream=True)
    reply = chat.send(client, raw)
    alice.refresh_from_db()
    assert alice.held_nanos == worst_case(raw, 10)
    assert Hold.objects.get().state == Hold.State.HELD
    assert SpendingDay.objects.get(key=key).held_nanos == worst_case(raw, 10)
    assert reply.getvalue()
    alice.refresh_from_db()
    assert alice.held_nanos == 0


def test_a_hold_may_take_the_whole_balance(echo_model):
    raw = chat.body(max_tokens=10)
    assert chat.send(caller(with_balance(worst_case(raw, 10)))[1], raw).status_code == 200


def test_a_balance_one_nanodollar_short_is_refused(echo_model):
    raw = chat.body(max_tokens=10)
    client = caller(with_balance(worst_case(raw, 10) - 1))[1]
    before = chat.everything_written()
    chat.assert_error(chat.send(client, raw), 402, "insufficient_quota")
    assert chat.everything_written() == before


@pytest.mark.parametrize("balance_nanos", [200_000, 1_000_000, 1_234_567])
def test_a_refusal_for_funds_names_the_affordable_max_tokens(echo_model, balance_nanos):
    client = caller(with_balance(balance_nanos))[1]

    def ask(max_tokens: int):
        return chat.send(client, chat.body(max_tokens=max_tokens))

    error = chat.assert_error(ask(4_000), 402, "insufficient_quota")
    affordable = int(re.search(r"It affords max_tokens up to (\d+)\.", error["message"])[1])
    chat.assert_error(ask(affordable + 1), 402, "insufficient_quota")
    assert ask(affordable).status_code == 200


def test_affordable_max_tokens_exclude_what_running_requests_hold(alice, echo_model):
    raw = chat.body(max_tokens=4_096)
    tie_up(alice, 1000 * CENT - worst_case(raw, 100))
    error = chat.assert_error(chat.send(caller(alice)[1], raw), 429, "rate_limit_exceeded")
    assert error["message"].endswith("It affords max_tokens up to 100.")


def test_a_refusal_names_no_max_tokens_when_the_prompt_is_unaffordable(bob, echo_model):
    error = chat.assert_error(chat.ask(caller(bob)[1], max_tokens=1), 402, "insufficient_quota")
    assert "affords" not in error["message"]
    assert "the balance is $0.00" in error["message"]


@pytest.mark.parametrize(
    ("owed_nanos", "shown"),
    [
        (9 * 100 * CENT, "-$9.00"),
        (13_820_000, "-$0.01382"),
        (1, "-$0.000000001"),
        (1_234_500 * CENT, "-$12,345.00"),
        (0, "$0.00"),
        (-1, "$0.000000001"),
    ],
)
def test_a_refusal_writes_a_balance_as_pages_do(bob, echo_model, owed_nanos, shown):
    factories.credit(bob, 2_000_000)
    [credit] = bob.entries.all()
    usage.spend(bob, money.nanos(1_500_000))
    bob.refresh_from_db()
    with transaction.atomic():
        writer.correct_credit(bob, credit, amount_nanos=bob.balance_nanos + owed_nanos, reason="wrong", issued_by=None)
    error = chat.assert_error(chat.ask(caller(bob)[1], max_tokens=1), 402, "insufficient_quota")
    assert f"the balance is {shown}" in error["message"]
    assert "$-" not in error["message"]


# --- Without max_tokens: a share of the budget -----------------------------------------------------------------------


def test_without_max_tokens_a_rich_account_gets_the_models_maximum(alice, echo_model):
    chat.ask(caller(alice)[1], **long_reply())
    assert max_tokens_sent() == 4_096
    raw = chat.body(**long_reply())
    assert Hold.objects.get().amount_nanos == worst_case(raw, 4_096)


def test_the_models_maximum_bounds_the_reply(alice):
    factories.make_model("demo/echo", context_window=2_000, max_output_tokens=2_000)
    chat.ask(caller(alice)[1], **long_reply())
    assert max_tokens_sent() == 2_000


def test_without_max_tokens_a_request_holds_an_eighth_of_the_available_balance(echo_model):
    raw = chat.body(messages=[{"role": "user", "content": "hi"}], echo={"reply": "a b " * 2_000})
    free_nanos = 8 * worst_case(raw, 2_000)
    account = with_balance(free_nanos)
    chat.send(caller(account)[1], raw)
    assert max_tokens_sent() == 2_000
    assert Hold.objects.get().amount_nanos == free_nanos // 8


def test_the_eighth_excludes_what_other_requests_hold(echo_model):
    raw = chat.body(echo={"reply": "a b " * 2_000})
    account = with_balance(8 * worst_case(raw, 2_000) + 12_345)
    tie_up(account, 12_345)
    chat.send(caller(account)[1], raw)
    assert max_tokens_sent() == 2_000


def test_the_eighth_is_of_the_spending_window_when_that_is_smaller(alice, echo_model):
    raw = chat.body(echo={"reply": "a b " * 2_000})
    key, client = caller(alice, limit_cents=1_000, type="FIXED")
    budget_nanos = 8 * worst_case(raw, 1_500)
    SpendingDay.objects.create(key=key, day=pool.database_time().date(), spent_nanos=1_000 * CENT - budget_nanos)
    chat.send(client, raw)
    assert max_tokens_sent() == 1_500


def test_at_least_1024_tokens_are_held_when_affordable(echo_model):
    raw = chat.body(echo={"reply": "a b " * 2_000})
    account = with_balance(worst_case(raw, 1_024) + 1)
    assert chat.send(caller(account)[1], raw).status_code == 200
    assert max_tokens_sent() == 1_024


def test_a_small_balance_holds_the_tokens_that_it_pays_for(echo_model):
    raw = chat.body(echo={"reply": "a b " * 2_000})
    account = with_balance(worst_case(raw, 17))
    reply = chat.send(caller(account)[1], raw)
    assert (reply.status_code, reply.json()["choices"][0]["finish_reason"]) == (200, "length")
    assert max_tokens_sent() == 17
    account.refresh_from_db()
    assert account.balance_nanos >= 0


def test_a_model_with_a_small_maximum_gets_it_as_max_tokens(alice):
    factories.make_model("demo/echo", max_output_tokens=50)
    chat.ask(caller(alice)[1], **long_reply())
    assert max_tokens_sent() == 50


def test_a_balance_that_pays_for_no_token_is_refused(echo_model):
    raw = chat.body()
    account = with_balance(worst_case(raw, 1) - 1)
    chat.assert_error(chat.send(caller(account)[1], raw), 402, "insufficient_quota")
    assert not Hold.objects.exists()


def test_funds_that_would_pay_for_1024_tokens_are_reported_as_tied_up(echo_model):
    raw = chat.body()
    account = with_balance(worst_case(raw, 1_024))
    tie_up(account, 1)
    chat.assert_error(chat.send(caller(account)[1], raw), 429, "rate_limit_exceeded")


def test_a_small_account_can_run_several_requests_at_once(echo_model):
    account = with_balance(10 * CENT)
    client = caller(account)[1]
    running = [chat.ask(client, stream=True) for _ in range(5)]
    assert [reply.status_code for reply in running] == [200] * 5
    account.refresh_from_db()
    assert 0 < account.held_nanos <= account.balance_nanos
    assert all(reply.getvalue() for reply in running)


def test_a_free_model_needs_no_credit(bob):
    factories.make_model("demo/echo", input="0", output="0")
    assert chat.ask(caller(bob)[1]).status_code == 200
    bob.refresh_from_db()
    assert (bob.balance_nanos, bob.last_seq) == (0, 1)


def test_an_account_in_debt_runs_nothing_not_even_a_free_model(bob, echo_model):
    factories.make_model("demo/free", input="0", output="0")
    usage.refund(bob, 1, "r")
    client = caller(bob)[1]
    chat.assert_error(chat.ask(client, max_tokens=1), 402, "insufficient_quota")
    chat.assert_error(chat.ask(client, model="demo/free"), 402, "insufficient_quota")


# --- The key's spending limit ----------------------------------------------------------------------------------------

LIMITS = [("FIXED", None), ("RECURRING", "DAILY"), ("RECURRING", "WEEKLY"), ("RECURRING", "MONTHLY")]


@pytest.mark.parametrize(("type", "period"), LIMITS)
def test_a_spending_limit_is_exact_to_the_nanodollar(alice, echo_model, type, period):
    raw = chat.body(max_tokens=10)
    need_nanos = worst_case(raw, 10)
    for left_nanos, status in ((need_nanos, 200), (need_nanos - 1, 402)):
        key, client = caller(alice, limit_cents=1, type=type, period=period)
        SpendingDay.objects.create(key=key, day=pool.database_time().date(), spent_nanos=CENT - left_nanos)
        before = chat.everything_written()
        assert chat.send(client, raw).status_code == status
        assert (chat.everything_written() == before) == (status == 402)


def test_holds_count_against_the_spending_limit_to_the_nanodollar(alice, echo_model):
    raw = chat.body(max_tokens=10)
    need_nanos = worst_case(raw, 10)
    for held_nanos, status in ((CENT - need_nanos, 200), (CENT - need_nanos + 1, 429)):
        key, client = caller(alice, limit_cents=1, type="FIXED")
        usage.reserve(key, day=pool.database_time().date(), amount_nanos=held_nanos)
        reply = chat.send(client, raw)
        assert reply.status_code == status
    assert (reply["retry-after"], "x-should-retry" in reply) == ("1", False)  # tied up, not reached


@pytest.mark.parametrize(
    ("type", "period", "counts"),
    [("FIXED", None, True), ("RECURRING", "DAILY", False), ("RECURRING", "WEEKLY", False), ("RECURRING", "MONTHLY", False)],
)
def test_spending_before_the_window_counts_against_a_fixed_limit_only(alice, echo_model, type, period, counts):
    key, client = caller(alice, limit_cents=1, type=type, period=period)
    SpendingDay.objects.create(key=key, day=pool.database_time().date() - timedelta(days=31), spent_nanos=CENT)
    assert chat.ask(client, max_tokens=10).status_code == (402 if counts else 200)


@pytest.mark.parametrize("period", ["DAILY", "WEEKLY", "MONTHLY"])
def test_a_recurring_limit_counts_from_the_first_day_of_its_window(alice, echo_model, period):
    today = pool.database_time().date()
    first_days = {"DAILY": today, "WEEKLY": today - timedelta(days=today.weekday()), "MONTHLY": today.replace(day=1)}
    for day, status in ((first_days[period] - timedelta(days=1), 200), (first_days[period], 402)):
        key, client = caller(alice, limit_cents=1, type="RECURRING", period=period)
        SpendingDay.objects.create(key=key, day=day, spent_nanos=CENT)
        assert chat.ask(client, max_tokens=1).status_code == status


def test_a_completion_counts_on_the_utc_day_of_its_admission(alice, echo_model):
    key, client = caller(alice)
    assert chat.ask(client, max_tokens=1).status_code == 200
    completion = Completion.objects.get()
    assert completion.spending_day == completion.created_at.astimezone(UTC).date() == SpendingDay.objects.get(key=key).day


@pytest.mark.parametrize(("type", "period"), LIMITS[1:])
def test_a_refusal_by_a_recurring_limit_says_when_it_resets(alice, echo_model, type, period):
    client = caller(alice, limit_cents=0, type=type, period=period)[1]
    today, reply = pool.database_time().date(), chat.ask(client, max_tokens=1)
    first_days = {
        "DAILY": today + timedelta(days=1),
        "WEEKLY": today + timedelta(days=7 - today.weekday()),
        "MONTHLY": (today.replace(day=1) + timedelta(days=32)).replace(day=1),
    }
    error = chat.assert_error(reply, 402, "insufficient_quota")
    assert error["resets_at"] == f"{first_days[period]}T00:00:00.000Z"
    assert (reply["x-should-retry"], "retry-after" in reply) == ("false", False)


def test_a_limit_of_zero_allows_nothing(alice, echo_model):
    client = caller(alice, limit_cents=0, type="FIXED")[1]
    error = chat.assert_error(chat.ask(client), 402, "insufficient_quota")
    assert "spending limit of $0.00 is reached" in error["message"]


@pytest.mark.parametrize(("type", "period"), LIMITS)
def test_a_refusal_by_a_limit_that_has_some_left_names_what_fits(alice, echo_model, type, period):
    raw = chat.body(max_tokens=4_000)
    key, client = caller(alice, limit_cents=1, type=type, period=period)
    left_nanos = worst_case(raw, 100)
    SpendingDay.objects.create(key=key, day=pool.database_time().date(), spent_nanos=CENT - left_nanos)
    reply = chat.send(client, raw)
    error = chat.assert_error(reply, 402, "insufficient_quota")
    need, left = (dollars.format_plain(nanos) for nanos in (worst_case(raw, 4_000), left_nanos))
    assert error["message"] == (
        f"This request may cost up to ${need}, but the key's spending limit of $0.01 has only ${left} left."
        " It affords max_tokens up to 100."
    )
    assert reply["x-should-retry"] == "false"
    chat.assert_error(chat.ask(client, max_tokens=101), 402, "insufficient_quota")
    assert chat.ask(client, max_tokens=100).status_code == 200


def test_a_spent_limit_is_reached(alice, echo_model):
    key, client = caller(alice, limit_cents=1, type="FIXED")
    SpendingDay.objects.create(key=key, day=pool.database_time().date(), spent_nanos=CENT)
    error = chat.assert_error(chat.ask(client, max_tokens=1), 402, "insufficient_quota")
    assert error["message"] == "The key's spending limit of $0.01 is reached."


def test_a_limit_that_does_not_pay_for_the_prompt_names_no_max_tokens(alice, echo_model):
    key, client = caller(alice, limit_cents=1, type="FIXED")
    SpendingDay.objects.create(key=key, day=pool.database_time().date(), spent_nanos=CENT - 1)
    error = chat.assert_error(chat.ask(client, max_tokens=1), 402, "insufficient_quota")
    assert error["message"].endswith("has only $0.000000001 left.")


def test_what_fits_a_limit_is_no_more_than_the_account_affords(echo_model):
    raw = chat.body(max_tokens=4_000)
    key, client = caller(with_balance(worst_case(raw, 50)), limit_cents=1, type="FIXED")
    SpendingDay.objects.create(key=key, day=pool.database_time().date(), spent_nanos=CENT - worst_case(raw, 100))
    error = chat.assert_error(chat.send(client, raw), 402, "insufficient_quota")
    assert error["message"].endswith("It affords max_tokens up to 50.")


@pytest.mark.parametrize("limit", [{}, {"limit_cents": 1, "type": "FIXED"}], ids=["funds", "limit"])
def test_a_refusal_uses_the_callers_name_for_max_tokens(echo_model, limit):
    client = caller(with_balance(1_000_000), **limit)[1]
    error = chat.ask(client, max_completion_tokens=4_000, n=1).json()["error"]
    assert " It affords max_completion_tokens up to " in error["message"]


def test_without_max_tokens_a_nearly_spent_limit_shortens_the_reply(alice, echo_model):
    raw = chat.body(echo={"reply": "a b " * 2_000})
    key, client = caller(alice, limit_cents=1_000, type="FIXED")
    SpendingDay.objects.create(key=key, day=pool.database_time().date(), spent_nanos=1_000 * CENT - worst_case(raw, 16))
    assert chat.send(client, raw).status_code == 200
    assert max_tokens_sent() == 16


def test_fewer_tokens_than_a_provider_takes_are_refused_with_what_is_affordable(alice, api, echo_model):
    raw = chat.body(echo={"reply": "a b " * 2_000})
    Run.objects.create(key=ApiKey.objects.get(), name="nightly", budget_nanos=worst_case(raw, 16) - 1)
    before = chat.everything_written()
    error = chat.assert_error(chat.send(api, raw, headers={"x-gateway-run": "nightly"}), 402, "budget_exceeded")
    assert error["message"].endswith(" It affords max_tokens up to 15.")
    assert chat.everything_written() == before
    asked = chat.send(api, chat.body(echo={"reply": "a b " * 2_000}, max_tokens=15), headers={"x-gateway-run": "nightly"})
    assert (asked.status_code, max_tokens_sent()) == (200, 15)


def test_a_changed_limit_applies_to_the_next_request(alice, echo_model):
    key, client = caller(alice, limit_cents=0, type="FIXED")
    assert chat.ask(client, max_tokens=1).status_code == 402
    lifecycle.set_spending_limit(key, SpendingLimit(1, "FIXED"))
    assert chat.ask(client, max_tokens=1).status_code == 200
    lifecycle.set_spending_limit(key, SpendingLimit(0, "RECURRING", "DAILY"))
    assert chat.ask(client, max_tokens=1).status_code == 402
    lifecycle.set_spending_limit(key, SpendingLimit())
    assert chat.ask(client, max_tokens=1).status_code == 200


def test_a_limit_applies_to_its_own_key_only(alice, echo_model):
    limited, free = caller(alice, limit_cents=0, type="FIXED")[1], caller(alice)[1]
    assert chat.ask(limited, max_tokens=1).status_code == 402
    assert chat.ask(free, max_tokens=1).status_code == 200


# --- Requests and tokens per minute ----------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1, 2, 7])
def test_a_burst_admits_exactly_the_requests_per_minute(alice, echo_model, limit):
    key, client = caller(alice, requests_per_minute=limit)
    # Requests become available again during the burst, one in 60 / limit seconds: far longer than the burst takes.
    statuses = [chat.ask(client, max_tokens=1).status_code for _ in range(limit + 2)]
    assert statuses == [200] * limit + [429] * 2
    assert SpendingDay.objects.get(key=key).completions == limit


def test_a_refused_request_does_not_count_against_the_rate_limits(alice, echo_model):
    key, client = caller(alice, requests_per_minute=1, tokens_per_minute=1_000)
    for _ in range(3):
        assert chat.ask(client, max_tokens=4_097).status_code == 400
        assert chat.ask(client, model="demo/nobody").status_code == 404
        assert chat.ask(client, max_tokens=2_000).status_code == 429  # more than a minute's tokens
    assert chat.ask(client, max_tokens=1).status_code == 200


def test_an_unaffordable_request_does_not_count_against_the_rate_limits(bob, echo_model):
    client = caller(bob, requests_per_minute=1, tokens_per_minute=1_000)[1]
    before = chat.everything_written()
    chat.assert_error(chat.ask(client, max_tokens=900), 402, "insufficient_quota")
    assert chat.everything_written() == before
    factories.credit(bob, 100)
    assert chat.ask(client, max_tokens=900).status_code == 200


def test_the_request_allowance_returns_evenly(alice, echo_model):
    key, client = caller(alice, requests_per_minute=2)
    assert [chat.ask(client, max_tokens=1).status_code for _ in range(3)] == [200, 200, 429]
    ApiKey.objects.filter(pk=key.pk).update(
        requests_full_at=pool.database_time() + timedelta(seconds=30)
    )  # half a minute later
    limit_state_cache.forget(key.pk)
    assert [chat.ask(client, max_tokens=1).status_code for _ in range(2)] == [200, 429]


def test_the_headers_of_a_reply_tell_the_remaining_allowance(alice, echo_model):
    key, client = caller(alice, requests_per_minute=60, tokens_per_minute=1_000)
    reply = chat.ask(client, max_tokens=91)
    assert {name: value for name, value in reply.headers.items() if name.startswith("x-ratelimit")} == {
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-remaining-requests": "59",
        "x-ratelimit-reset-requests": "1s",
        "x-ratelimit-limit-tokens": "1000",
        "x-ratelimit-remaining-tokens": "905",  # 4 for the 13 bytes of the prompt, 91 that it may generate
        "x-ratelimit-reset-tokens": "6s",  # 95 of 1,000 come back in 5.7 seconds
        "x-ratelimit-limit-concurrent": "100",
        "x-ratelimit-remaining-concurrent": "99",
    }
    assert "retry-after" not in reply


def test_a_stream_has_the_same_headers(alice, echo_model):
    client = caller(alice, requests_per_minute=1)[1]
    reply = chat.ask(client, max_tokens=1, stream=True)
    assert reply["x-ratelimit-remaining-requests"] == "0"
    assert reply["x-ratelimit-reset-requests"] == "1m0s"
    assert reply.getvalue()


def test_a_client_that_waits_for_retry_after_is_admitted(alice, echo_model):
    key, client = caller(alice, requests_per_minute=7)
    refused = [chat.ask(client, max_tokens=1) for _ in range(8)][-1]
    assert refused.status_code == 429
    wait = timedelta(milliseconds=int(refused["retry-after-ms"]))
    assert int(refused["retry-after"]) == math.ceil(wait.total_seconds())
    key.refresh_from_db()
    ApiKey.objects.filter(pk=key.pk).update(requests_full_at=key.requests_full_at - wait)
    limit_state_cache.forget(key.pk)  # the cache must see that time has passed, too
    assert chat.ask(client, max_tokens=1).status_code == 200


def test_settlement_corrects_the_count_of_tokens(alice, echo_model):
    key, client = caller(alice, tokens_per_minute=1_000)
    chat.ask(client, max_tokens=900)  # counted as 904 tokens, uses 9
    reply = chat.ask(client, max_tokens=1)
    used = 1_000 - int(reply["x-ratelimit-remaining-tokens"])
    assert used <= 9 + 5
    assert used >= 5


def test_settlement_counts_tokens_beyond_the_estimate(alice, echo_model):
    key, client = caller(alice, tokens_per_minute=100)
    chat.ask(client, echo={"reply": "word " * 500})  # counted as 4 tokens, uses 506
    reply = chat.ask(client, max_tokens=1)
    chat.assert_error(reply, 429, "rate_limit_exceeded")
    assert int(reply["retry-after"]) > 60  # more than a minute's allowance was used
    assert reply["x-should-retry"] == "false"  # too long for a client to sleep


def test_a_release_returns_the_counted_tokens(alice, echo_model):
    key, client = caller(alice, tokens_per_minute=1_000)
    chat.ask(client, max_tokens=900, echo={"status": 500})
    reply = chat.ask(client, max_tokens=900)
    assert reply.status_code == 200
    assert int(reply["x-ratelimit-remaining-tokens"]) >= 96
