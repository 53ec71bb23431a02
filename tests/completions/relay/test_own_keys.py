"""An account's own key of a provider serves its requests, for a fee, and tells nothing about ours."""

import logging
from copy import deepcopy
from typing import Any

import pytest

from billing.models import Account, Hold, LedgerEntry
from completions.catalog import lookup
from completions.charging.recovery import sweeper
from completions.models import Completion, OwnKey, Provider
from completions.relay import attempts, circuit_breaker, route_health
from keys.models import SpendingDay
from tests import factories
from tests.chat import everything_written
from tests.completions.own_key_rows import OURS, OWN, THEIRS, add_own_key
from tests.completions.routes import add
from tests.completions.rows import MESSAGES, abandon, ask, ask_streamed, assert_charged, begin, events, text
from tests.conftest import client_for
from tests.ledger_audit import assert_ledger_is_consistent
from tests.upstream import KEY, KEY_ENV, refusal, streamed

pytestmark = pytest.mark.usefixtures("large")


def shown(upstream):
    return [each.headers["authorization"] for each in upstream.requests]


def full_nanos():
    [done] = Completion.objects.all()
    return done.price.sheet.cost_nanos(done.usage, done.images)


def test_an_own_key_serves_for_the_fee_to_the_nanodollar(api, alice, upstream, settings):
    settings.OWN_KEY_FEE_BASIS_POINTS = 333
    add_own_key(alice)
    reply = ask(api)
    assert (reply.status_code, reply["x-gateway-own-key"]) == (200, "used")
    assert shown(upstream) == [THEIRS]
    fee_nanos = -(-full_nanos() * 333 // 10_000)
    assert reply.json()["usage"]["cost"] == fee_nanos / 1_000_000_000
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=fee_nanos)
    assert Completion.objects.get().own_key_fee == 333


def test_a_stream_is_served_by_an_own_key(api, alice, upstream):
    add_own_key(alice)
    upstream.will(streamed())
    reply = ask_streamed(api)
    assert (text(events(reply)), reply["x-gateway-own-key"]) == ("Hello you", "used")
    assert shown(upstream) == [THEIRS]
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=-(-full_nanos() * 5 // 100))


def test_of_two_accounts_each_shows_its_own_key_and_a_third_ours(api, alice, charlie, bob, upstream):
    add_own_key(alice)
    add_own_key(charlie, secret="own-secret-9876543210-of-charlie")
    for client in (api, client_for(factories.make_key(charlie)[1]), client_for(factories.make_key(bob)[1]), api):
        factories.credit(bob, 100)
        assert ask(client).status_code == 200
    assert shown(upstream) == [THEIRS, "Bearer own-secret-9876543210-of-charlie", OURS, THEIRS]
    assert_ledger_is_consistent()


def test_a_key_copied_to_another_account_opens_nothing(api, alice, charlie, upstream):
    key = add_own_key(charlie)
    OwnKey.objects.filter(pk=key.pk).update(account=alice)
    Account.objects.filter(pk=alice.pk).update(has_own_keys=True)
    reply = ask(api)
    assert (reply.status_code, reply.json()["error"]["code"]) == (424, "own_key_refused")
    assert "encrypted for another purpose" in reply.json()["error"]["message"]
    assert upstream.requests == []


def test_a_key_is_not_sent_to_another_address_than_that_which_it_was_entered_for(api, alice, upstream, spare):
    add_own_key(alice)
    Provider.objects.filter(pk="scripted").update(base_url=spare.url)
    lookup._offers.clear()
    reply = ask(api)
    assert (reply.status_code, reply.json()["error"]["code"]) == (424, "own_key_refused")
    assert "the provider has another address now" in reply.json()["error"]["message"]
    assert upstream.requests == spare.requests == []
    assert Completion.objects.get().cost_nanos == 0


@pytest.mark.parametrize(("secret", "shown_as"), [(None, KEY), (OWN, OWN)])
def test_a_key_that_a_provider_repeats_as_the_id_of_the_request_is_not_kept(api, alice, upstream, secret, shown_as):
    if secret:
        add_own_key(alice)
    upstream.will(refusal(400, "no", x_request_id=f"id-{shown_as}"))
    assert ask(api).status_code == 400
    assert Completion.objects.get().provider_request_id is None
    assert shown_as not in str(everything_written())


def test_a_refused_own_key_fails_the_request_and_ours_is_not_asked(api, alice, upstream, caplog):
    caplog.set_level(logging.DEBUG)
    add_own_key(alice)
    upstream.will(refusal(401, f"Incorrect API key provided: {OWN}"))
    reply = ask(api)
    assert reply.status_code == 424
    error = reply.json()["error"]
    assert (error["code"], error["message"]) == (
        "own_key_refused",
        "Your own key of scripted was refused by the provider (401).",
    )
    assert (reply["x-gateway-own-key"], reply["x-should-retry"]) == ("used", "false")
    assert shown(upstream) == [THEIRS]
    [done] = Completion.objects.all()
    assert (done.settlement, done.cost_nanos, done.own_key_fee) == ("released", 0, 500)
    [failed] = done.failed_attempts
    assert (failed["provider"], failed["status"], failed["own_key"]) == ("scripted", 401, True)
    assert OWN not in str(failed) + caplog.text + reply.content.decode()
    assert not LedgerEntry.objects.filter(type=LedgerEntry.Type.USAGE_DEBIT).exists()
    assert_ledger_is_consistent()


def test_where_the_owner_allows_it_ours_serves_at_the_full_price_and_says_so(api, alice, upstream):
    add_own_key(alice, falls_back=True)
    upstream.will_for(THEIRS, refusal(401))
    reply = ask(api)
    assert (reply.status_code, reply["x-gateway-own-key"]) == (200, "fallback")
    assert shown(upstream) == [THEIRS, OURS]
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=full_nanos())
    [done] = Completion.objects.all()
    assert (done.own_key_fee, done.failed_attempts[0]["own_key"], done.attempts) == (None, True, 2)


def test_the_hold_covers_the_dearer_of_both(api, alice, upstream):
    for falls_back in (False, True):
        OwnKey.objects.all().delete()
        add_own_key(alice, falls_back=falls_back)
        assert ask(api, max_tokens=100).status_code == 200
    fee, full = Hold.objects.order_by("pk").values_list("amount_nanos", flat=True)
    assert fee == -(-full * 5 // 100)


def test_an_exhausted_own_key_is_told_apart_from_our_limits(api, alice, upstream):
    add_own_key(alice)
    upstream.will(refusal(429, "You exceeded your current quota"))
    reply = ask(api)
    assert (reply.status_code, reply.json()["error"]["code"]) == (429, "own_key_exhausted")
    assert "Your own key of scripted" in reply.json()["error"]["message"]
    assert set(shown(upstream)) == {THEIRS}


def test_no_other_route_or_fallback_is_paid_for_without_permission(api, alice, large, upstream, spare):
    add(large, spare)
    add_own_key(alice)
    upstream.will(refusal(500))
    factories.make_model("acme/small")
    reply = ask(api, models=["acme/large", "acme/small"])
    assert (reply.status_code, spare.requests) == (502, [])
    assert set(shown(upstream)) == {THEIRS}
    assert Completion.objects.get().cost_nanos == 0


def test_where_its_provider_is_switched_off_or_left_out_ours_serves_elsewhere(api, alice, large, upstream, spare):
    add(large, spare)
    add_own_key(alice)
    assert ask(api, provider={"ignore": ["scripted"]})["x-gateway-provider"] == "spare"
    Provider.objects.filter(pk="scripted").update(is_enabled=False)
    lookup._offers.clear()
    reply = ask(api)
    assert (reply["x-gateway-provider"], "x-gateway-own-key" in reply, upstream.requests) == ("spare", False, [])
    assert set(Completion.objects.values_list("own_key_fee", flat=True)) == {None}


def test_a_key_of_some_models_serves_no_other(api, alice, upstream):
    add_own_key(alice, model_ids=["acme/other"])
    reply = ask(api)
    assert (reply.status_code, shown(upstream)) == (200, [OURS])
    assert "x-gateway-own-key" not in reply
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=full_nanos())


def test_a_removed_key_is_not_used_any_more(api, alice, upstream):
    key = add_own_key(alice)
    assert ask(api).status_code == 200
    key.delete()  # its account still says that it has keys
    assert ask(api).status_code == 200
    assert shown(upstream) == [THEIRS, OURS]


def test_without_a_fee_an_empty_account_is_served(alice, upstream, settings):
    settings.OWN_KEY_FEE_BASIS_POINTS = 0
    empty = factories.make_account("Empty")
    add_own_key(empty)
    client = client_for(factories.make_key(empty)[1])
    assert ask(client).status_code == 200
    assert ask(client, messages=[{"role": "user", "content": "x" * 100_000}]).status_code == 200
    entries = LedgerEntry.objects.filter(account=empty)
    assert [entry.amount_nanos for entry in entries] == [0, 0]
    assert_ledger_is_consistent()


def test_failing_own_keys_open_no_circuit_and_refuse_no_key_of_ours(api, alice, charlie, upstream):
    add_own_key(alice)
    other = client_for(factories.make_key(charlie)[1])
    before = {**circuit_breaker._routes}, deepcopy(route_health._refusals)
    for failure in (refusal(401), refusal(500), refusal(429, retry_after="30")):
        upstream.will_for(THEIRS, failure)
        for _ in range(8):
            assert ask(api).status_code != 200
    assert (circuit_breaker._routes, route_health._refusals) == before
    assert Provider.objects.get(pk="scripted").key_refused_at is None
    lookup._offers.clear()
    assert ask(other).status_code == 200


def test_a_refused_key_of_ours_and_its_open_circuit_stop_no_own_key(api, alice, charlie, large, upstream):
    upstream.will_for(OURS, refusal(401))
    other = client_for(factories.make_key(charlie)[1])
    for _ in range(4):
        assert ask(other).status_code != 200
    Provider.objects.filter(pk="scripted").update(refused_key=Provider.objects.get(pk="scripted").key_fingerprint)
    lookup._offers.clear()
    add_own_key(alice)
    assert ask(api).status_code == 200
    assert shown(upstream)[-1] == THEIRS


def test_replies_to_own_keys_are_not_measured(api, alice, upstream):
    attempts.reply_seconds.clear()
    add_own_key(alice)
    assert ask(api).status_code == 200
    assert not attempts.reply_seconds


def test_a_process_that_dies_leaves_the_fee_to_be_charged(api, alice, upstream):
    add_own_key(alice)
    upstream.will(streamed())
    reply = ask_streamed(api)
    begin(reply, "Hello you")
    abandon(reply)
    done = Completion.objects.get()
    Completion.objects.update(relayed_bytes=9)
    done.refresh_from_db()
    assert sweeper.resolve(done)
    done.refresh_from_db()
    assert (done.settlement, done.own_key_fee) == ("recovered", 500)
    assert done.cost_nanos == -(-full_nanos() * 5 // 100) > 0
    assert_ledger_is_consistent()


def test_the_fee_counts_against_the_limit_of_the_key(api, alice, upstream):
    add_own_key(alice)
    assert ask(api).status_code == 200
    [day] = SpendingDay.objects.all()
    assert day.spent_nanos == Completion.objects.get().cost_nanos == -(-full_nanos() * 5 // 100)


def test_a_provider_that_takes_no_own_keys_any_more_is_shown_none(api, alice, upstream):
    add_own_key(alice)
    Provider.objects.filter(pk="scripted").update(passes_unknown_fields=True)
    lookup._offers.clear()
    reply = ask(api)
    assert (reply.status_code, upstream.requests) == (424, [])
    assert "no longer takes keys of accounts" in reply.json()["error"]["message"]


@pytest.mark.parametrize(("kind", "header"), [("anthropic", "x-api-key"), ("gemini", "x-goog-api-key")])
def test_each_kind_of_provider_is_shown_the_own_key_in_its_own_header(api, alice, upstream, kind, header):
    provider = factories.make_provider(kind, kind=kind, base_url=upstream.url.removesuffix("/v1"), api_key_env=KEY_ENV)
    factories.make_model(f"acme/{kind}", provider=provider, upstream_model="name")
    add_own_key(alice, provider=kind)
    upstream.will(refusal(401))
    for stream in (False, True):
        assert ask(api, model=f"acme/{kind}", stream=stream).status_code == 424
    assert [each.headers[header] for each in upstream.requests] == [OWN, OWN]
    assert all(KEY not in str(each.headers) for each in upstream.requests)


def test_messages_and_responses_are_served_by_own_keys_and_tell_their_refusals(api, alice, upstream):
    add_own_key(alice)
    asked: dict[str, dict[str, Any]] = {
        "/v1/messages": {"max_tokens": 10, "messages": MESSAGES},
        "/v1/responses": {"input": "Say hello."},
    }
    for path, fields in asked.items():
        reply = api.post(path, {"model": "acme/large", **fields})
        assert (reply.status_code, reply["x-gateway-own-key"]) == (200, "used")
    upstream.will(refusal(403, "Your account is suspended"))
    for path, fields in asked.items():
        reply = api.post(path, {"model": "acme/large", **fields})
        assert (reply.status_code, "Your own key of scripted" in reply.content.decode()) == (424, True)
    assert set(shown(upstream)) == {THEIRS}
    assert_ledger_is_consistent()


def promise_nothing_is_kept():
    Provider.objects.filter(pk="scripted").update(retention_days=0, trains=False)
    lookup._offers.clear()


def test_a_demand_about_data_is_met_by_no_promise_of_our_contract(api, alice, upstream):
    promise_nothing_is_kept()
    assert ask(api, provider={"zdr": True}).status_code == 200
    add_own_key(alice)
    refused = ask(api, provider={"zdr": True})
    assert (refused.status_code, shown(upstream)) == (404, [OURS])
    error = refused.json()["error"]
    assert "acme/large at scripted with your own key lacks zdr of the request" in error["message"]
    assert error["routes"][0]["own_key"] is True


@pytest.mark.parametrize(
    ("promised", "demanded", "served"),
    [
        ("", {"data_collection": "deny"}, "unmet"),
        ("deny", {"data_collection": "deny"}, "used"),
        ("deny", {"zdr": True}, "unmet"),
        ("zdr", {"data_collection": "deny"}, "used"),
        ("zdr", {"zdr": True}, "used"),
    ],
)
def test_an_own_key_meets_what_its_contract_promises_and_a_header_says_if_it_does_not(
    api, alice, upstream, promised, demanded, served
):
    promise_nothing_is_kept()
    add_own_key(alice, promised=promised, falls_back=True)
    reply = ask(api, provider=demanded)
    assert (reply.status_code, reply["x-gateway-own-key"]) == (200, served)
    assert shown(upstream) == [THEIRS if served == "used" else OURS]
    done = Completion.objects.get()
    assert done.cost_nanos == (-(-full_nanos() * 5 // 100) if served == "used" else full_nanos())
    if served == "used":
        assert done.data_promised["retention_days"] == (0 if promised == "zdr" else None)


def test_a_flood_that_ours_was_to_serve_refuses_nothing_that_an_own_key_serves(alice, large, upstream, spare):
    add(large, spare)
    add_own_key(alice)
    limited = client_for(factories.make_key(alice, limit_cents=1, type="FIXED")[1])
    assert {ask(limited, max_tokens=4_000, provider={"only": ["spare"]}).status_code for _ in range(25)} == {402}
    assert ask(limited, max_tokens=4_000).status_code == 200


def test_a_quote_tells_the_fee(api, alice):
    fields = {"model": "acme/large", "messages": MESSAGES, "max_tokens": 100}
    full = api.post("/v1/quote", fields).json()
    add_own_key(alice)
    fee = api.post("/v1/quote", fields).json()
    assert round(fee["max_cost"] * 20, 9) == pytest.approx(full["max_cost"], abs=20e-9)
    assert float(fee["rates"]["completion"]) * 20 == pytest.approx(float(full["rates"]["completion"]))
