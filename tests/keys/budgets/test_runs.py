"""Requests that name a run share its budget and its deadline, to the nanodollar."""

from datetime import timedelta, timezone
from typing import Any, cast

import pytest

from billing.models import Hold
from completions.models import Completion
from gateway_project.db import pool
from gateway_project.text import dollars, timestamps
from keys.models import Run
from tests import chat, factories, usage
from tests.completions.charging.worst_cases import INPUT, OUTPUT, worst_case
from tests.conftest import client_for

COST = 6 * INPUT + 3 * OUTPUT  # of one reply
RAW = chat.body(max_tokens=10)


def send(client, run="nightly", budget="2.50", deadline=None, raw=RAW):
    names = {"x-gateway-run": run, "x-gateway-run-budget": budget, "x-gateway-run-deadline": deadline}
    return chat.send(client, raw, headers={name: value for name, value in names.items() if value is not None})


def in_force(reply):
    return {name: value for name, value in reply.headers.items() if name.startswith("x-gateway-run")}


def plain(nanos):
    return dollars.format_plain(nanos)


def test_a_request_counts_on_its_run_and_the_reply_says_what_is_left(api, echo_model):
    reply = send(api)
    assert reply.status_code == 200
    assert in_force(reply) == {
        "x-gateway-run": "nightly",
        "x-gateway-run-budget": "2.50",
        "x-gateway-run-left": plain(2_500_000_000 - COST),
    }
    run, completion = Run.objects.get(), Completion.objects.get()
    assert (run.name, run.budget_nanos, run.spent_nanos, run.held_nanos) == ("nightly", 2_500_000_000, COST, 0)
    assert (run.requests, run.deadline) == (1, None)
    assert (completion.run, completion.run_budget_nanos, completion.budgets) == ("nightly", 2_500_000_000, None)


def test_a_request_without_a_run_has_none_and_names_none(api, echo_model):
    reply = chat.send(api, RAW)
    assert (reply.status_code, in_force(reply)) == (200, {})
    assert (Run.objects.count(), Completion.objects.get().run) == (0, None)


def test_a_stream_says_what_is_left_beside_its_hold(api, echo_model):
    raw = chat.body(max_tokens=10, stream=True)
    reply = send(api, raw=raw)
    assert reply["x-gateway-run-left"] == plain(2_500_000_000 - worst_case(raw, 10))
    run = Run.objects.get()
    assert (run.spent_nanos, run.held_nanos) == (0, worst_case(raw, 10))
    assert reply.getvalue()
    run.refresh_from_db()
    assert (run.spent_nanos, run.held_nanos) == (COST, 0)


def test_the_first_request_decides_and_later_ones_change_nothing(api, echo_model):
    assert send(api, deadline="3600").status_code == 200
    decided = Run.objects.get()
    reply = send(api, budget="9", deadline="60")
    later = Run.objects.get()
    assert (later.budget_nanos, later.deadline, later.requests) == (decided.budget_nanos, decided.deadline, 2)
    assert reply["x-gateway-run-budget"] == "2.50"
    assert reply["x-gateway-run-deadline"] == timestamps.iso_millis(decided.deadline)
    assert send(api, budget=None).status_code == 200


def test_a_first_request_without_a_budget_is_refused_and_begins_nothing(api, echo_model):
    before = chat.everything_written()
    error = chat.assert_error(send(api, budget=None), 400, "invalid_request_error", "x-gateway-run-budget")
    assert "first request" in error["message"]
    assert chat.everything_written() == before


def test_a_request_that_does_not_fit_is_refused_with_what_is_left_and_writes_nothing(api, echo_model):
    hold = worst_case(RAW, 10)
    assert send(api, budget=plain(hold + COST)).status_code == 200
    assert send(api).status_code == 200
    before = chat.everything_written()
    reply = send(api)
    error = chat.assert_error(reply, 402, "budget_exceeded")
    left = plain(hold - COST)
    assert error["type"] == "insufficient_quota"
    assert (error["limit_source"], error["run_id"], error["budget"], error["left"]) == (
        "run",
        "nightly",
        plain(hold + COST),
        left,
    )
    assert (reply["x-should-retry"], reply["x-gateway-run-left"], "retry-after" in reply) == ("false", left, False)
    for words in ("budget of $", "Sending it again does not help.", "a new x-gateway-run"):
        assert words in error["message"]
    assert chat.everything_written() == before


def test_what_running_requests_hold_is_waited_for(alice, echo_model):
    key, secret = factories.make_key(alice)
    hold = worst_case(RAW, 10)
    Run.objects.create(key=key, name="nightly", budget_nanos=hold + 1, held_nanos=2)
    before = chat.everything_written()
    reply = send(client_for(secret))
    error = chat.assert_error(reply, 429, "rate_limit_exceeded")
    assert (error["limit_source"], error["left"], reply["retry-after"]) == ("run", plain(hold - 1), "1")
    assert chat.everything_written() == before


def test_the_tokens_that_the_gateway_chooses_fit_what_is_left(api, echo_model):
    raw = chat.body(echo={"reply": "word " * 6_000})
    budget = worst_case(raw, 100)
    assert send(api, budget=plain(budget), raw=raw).status_code == 200
    assert Hold.objects.get().amount_nanos == budget
    assert Completion.objects.get().completion_tokens == 100


def test_a_passed_deadline_refuses(alice, echo_model):
    key, secret = factories.make_key(alice)
    now = pool.database_time()
    Run.objects.create(key=key, name="nightly", budget_nanos=10**9, deadline=now - timedelta(seconds=1))
    reply = send(client_for(secret), deadline=(now + timedelta(hours=1)).isoformat())
    error = chat.assert_error(reply, 402, "budget_exceeded")
    assert "had time until" in error["message"]
    assert (reply["x-should-retry"], Completion.objects.count()) == ("false", 0)


def test_a_refused_first_request_names_nothing_as_in_force(alice, echo_model):
    client = client_for(factories.make_key(alice)[1])
    before = chat.everything_written()
    for budget, deadline in (("0.000001", "60"), ("2.50", "2020-01-01T00:00:00Z")):
        reply = send(client, budget=budget, deadline=deadline)
        error = chat.assert_error(reply, 402, "budget_exceeded")
        assert (error["limit_source"], error["run_id"], reply["x-should-retry"]) == ("run", "nightly", "false")
        assert in_force(reply) == {}
        chat.assert_error(client.get("/v1/runs/nightly"), 404, "invalid_request_error")
    assert chat.everything_written() == before
    assert in_force(send(client, deadline="60")).keys() == {
        "x-gateway-run",
        "x-gateway-run-budget",
        "x-gateway-run-left",
        "x-gateway-run-deadline",
    }
    assert Run.objects.get().budget_nanos == 2_500_000_000


@pytest.mark.parametrize("zone_hours", [None, 0, 14, 23, -23])
def test_a_deadline_is_a_time_of_any_zone_or_seconds_from_now(api, echo_model, zone_hours):
    now = pool.database_time()
    zone = timezone(timedelta(hours=zone_hours or 0))
    deadline = "90" if zone_hours is None else (now + timedelta(seconds=90)).astimezone(zone).isoformat()
    assert send(api, deadline=deadline).status_code == 200
    assert timedelta(seconds=89) < Run.objects.get().deadline - now < timedelta(seconds=120)


BAD = {
    "x-gateway-run": ["", "a b", ".hidden", "a/b", "a" * 101, "a,b", "\xe9"],
    "x-gateway-run-budget": ["", "0", "0.0", "-1", "$1", "1,5", "1e3", "1.0000000001", "1.", ".5", "1 ", "10000000000"],
    "x-gateway-run-deadline": ["", "0", "-5", "1.5", "soon", "2026-12-31", "2026-12-31T18:00:00", "2026-13-31T18:00:00Z"]
    + ["9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00"],
}


def test_a_bad_header_is_refused_by_its_name(api, echo_model, subtests):
    before = chat.everything_written()
    for name, values in BAD.items():
        for value in values:
            with subtests.test(f"{name}: {value!r}"):
                good = {"x-gateway-run": "nightly", "x-gateway-run-budget": "1"}
                error = chat.assert_error(
                    chat.send(api, RAW, headers={**good, name: value}), 400, "invalid_request_error", name
                )
                assert name in error["message"]
    assert chat.everything_written() == before


def test_a_bad_deadline_is_told_its_bounds(api, echo_model):
    for deadline in ("0", "-1", "1.5", "1000000000", "99999999999"):
        error = chat.assert_error(send(api, deadline=deadline), 400, "invalid_request_error", "x-gateway-run-deadline")
        assert "must be a whole number of seconds from now, from 1 to 999999999, or a time such as" in error["message"]
    for number, deadline in enumerate(("1", "999999999")):
        assert send(api, run=f"run-{number}", deadline=deadline).status_code == 200


def test_a_budget_or_a_deadline_needs_a_run(api, echo_model):
    for name, value in (("x-gateway-run-budget", "1"), ("x-gateway-run-deadline", "60")):
        chat.assert_error(chat.send(api, RAW, headers={name: value}), 400, "invalid_request_error", "x-gateway-run")
    assert Completion.objects.count() == 0


def test_keys_share_no_runs(alice, echo_model):
    for _ in range(2):
        assert send(client_for(factories.make_key(alice)[1])).status_code == 200
    assert sorted(Run.objects.values_list("requests", flat=True)) == [1, 1]


def test_a_replayed_reply_counts_nothing(api, echo_model):
    for _ in range(2):
        headers = {"x-gateway-run": "nightly", "x-gateway-run-budget": "2.50", "Idempotency-Key": "once"}
        assert chat.send(api, RAW, headers=headers).status_code == 200
    run = Run.objects.get()
    assert (run.requests, run.spent_nanos) == (1, COST)


def test_a_flood_of_refusals_of_one_run_is_not_replayed_to_another(alice, echo_model):
    key, secret = factories.make_key(alice)
    client = client_for(secret)
    Run.objects.create(key=key, name="spent", budget_nanos=10, spent_nanos=9)
    assert {send(client, "spent").status_code for _ in range(25)} == {402}
    assert send(client, "other").status_code == 200
    assert chat.send(client, RAW).status_code == 200


def test_the_run_can_be_read_by_its_key_alone(alice, echo_model):
    key, secret = factories.make_key(alice)
    client = client_for(secret)
    send(client, deadline="3600")
    run = Run.objects.get()
    assert client.get("/v1/runs/nightly").json() == {
        "id": "nightly",
        "object": "run",
        "created_at": timestamps.iso_millis(run.created_at),
        "deadline": timestamps.iso_millis(run.deadline),
        "budget": "2.50",
        "spent": plain(COST),
        "held": "0.00",
        "left": plain(2_500_000_000 - COST),
        "requests": 1,
        "models": [{"model": "demo/echo", "requests": 1, "spent": plain(COST), "provider_spent": "0.00"}],
    }
    for path in ("/v1/runs/other", "/v1/runs/a%00b"):
        chat.assert_error(client.get(path), 404, "invalid_request_error")
    chat.assert_error(client_for(factories.make_key(alice)[1]).get("/v1/runs/nightly"), 404, "invalid_request_error")


def test_a_quote_respects_the_run(alice, echo_model):
    key, secret = factories.make_key(alice)
    Run.objects.create(key=key, name="nightly", budget_nanos=10, spent_nanos=9)
    quote = client_for(secret).generic(
        "POST", "/v1/quote", cast(Any, RAW), content_type="application/json", headers={"x-gateway-run": "nightly"}
    )
    assert (quote.status_code, quote.json()["refusal"]["code"]) == (200, "budget_exceeded")
    assert str(quote.json()["available"]) == "1e-09"


def test_the_ledger_is_true_afterwards(alice, api, echo_model):
    send(api)
    usage.place(alice, 5, reference="running", expires_at=pool.database_time() + timedelta(hours=1))
    assert Run.objects.get().held_nanos == 0
