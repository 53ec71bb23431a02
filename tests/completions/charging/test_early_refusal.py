"""A request with a large body is refused before its body is read, if admission would refuse it whatever the body says."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from completions.charging import early_refusal
from completions.models import Completion, LanguageModel
from gateway_project.web.bodies_in_flight import process_bodies
from keys import lifecycle
from keys.limits.refusal_cache import FLOOD_REFUSALS
from tests import chat, factories
from tests.conftest import client_for
from tests.error_table import TABLE, Request, assert_headers, scenario
from tests.keys.limits.stopped_keys import no_query_of_keys_or_accounts, stopped

__all__ = ["scenario", "stopped"]

UNREADABLE = b"{" * 70_000  # whoever parses it replies with 400
# Less than 64 KB, but parsing them takes as long as parsing much more text.
TINY_VALUES = b'{"model": "demo/echo", "a": [' + b"{}, " * 9_000 + b"{}]}"
LONG = [{"role": "user", "content": "x" * 70_000}]

REFUSED = [
    *["deleted", "revoked", "expired", "account closed", "requests a minute", "account tied up", "window tied up"],
    *["requests of the key at a time", "requests of the account at a time"],
    *["FIXED limit", "DAILY limit", "too few credits", "in debt"],
]


@pytest.mark.parametrize("raw", [UNREADABLE, TINY_VALUES], ids=["large", "tiny values"])
@pytest.mark.parametrize("condition", REFUSED)
def test_a_body_that_takes_long_to_parse_is_refused_as_the_table_says(scenario, condition, raw):
    arrange, status, type, code, param, headers = TABLE[condition]
    request: Request = arrange(scenario)
    request.raw = raw
    before = chat.everything_written()
    error = chat.assert_error(request.send(), status, code, param)
    assert error["type"] == type
    assert_headers(request.send(), headers)
    assert chat.everything_written() == before
    assert process_bodies.total_bytes == 0


def test_used_up_tokens_per_minute_are_refused_unread(scenario):
    scenario.set_key(tokens_per_minute=1, tokens_full_at=Now() + timedelta(seconds=50))
    request = scenario.request(raw=UNREADABLE)
    assert "tokens per minute" in chat.assert_error(request.send(), 429, "rate_limit_exceeded")["message"]


def test_a_caller_who_can_pay_has_its_body_read(scenario):
    assert scenario.request(raw=UNREADABLE).send().status_code == 400
    assert scenario.request(fields={"messages": LONG, "max_tokens": 1}).send().status_code == 200
    assert process_bodies.total_bytes == 0


def test_an_account_without_credits_may_call_free_models(scenario):
    factories.make_model("demo/free", input="0", output="0")
    request = TABLE["too few credits"][0](scenario)
    request.fields = {"model": "demo/free", "messages": LONG, "max_tokens": 1}
    assert request.send().status_code == 200


@pytest.mark.parametrize("end", ["its model is disabled", "it was replaced", "it is not in force yet"])
def test_a_price_of_nothing_that_nobody_pays_admits_no_account_without_credits(scenario, end):
    model = factories.make_model("demo/free", input="0", output="0")
    if end == "its model is disabled":
        LanguageModel.objects.filter(pk=model.pk).update(is_enabled=False)
    elif end == "it was replaced":
        factories.change_prices(model.prices, effective_from=Now() - timedelta(days=1))
        model.prices.create(rates=factories.rates_of(input_nanos=1, output_nanos=1))
    else:
        factories.change_prices(model.prices, effective_from=Now() + timedelta(days=1))
    request = TABLE["too few credits"][0](scenario)
    request.raw = UNREADABLE
    assert request.send().status_code == 402


@pytest.mark.parametrize("exhaust", ["too few credits", "requests a minute"])
def test_a_stored_reply_is_repeated_although_nothing_else_is_admitted(scenario, exhaust):
    ask = {"fields": {"messages": LONG, "max_tokens": 1}, "headers": {"HTTP_IDEMPOTENCY_KEY": "once"}}
    assert scenario.request(**ask).send().status_code == 200
    if exhaust == "requests a minute":
        scenario.exceed_rate_limit(requests_per_minute=1)
    else:
        TABLE[exhaust][0](scenario)
    early_refusal._passed.clear()  # instead of a second's wait
    assert scenario.request(**ask).send().headers["Idempotent-Replayed"] == "true"
    refused = scenario.request(raw=UNREADABLE, headers={"HTTP_IDEMPOTENCY_KEY": "twice"}).send()
    assert refused.status_code in (402, 429)


def test_a_flood_of_large_bodies_with_a_revoked_key_costs_no_queries(scenario, stopped):
    lifecycle.revoke_key(scenario.key)
    request = scenario.request(raw=UNREADABLE)
    for _ in range(FLOOD_REFUSALS + 1):  # the first also looks the secret up
        chat.assert_error(request.send(), 401, "invalid_api_key")
    with no_query_of_keys_or_accounts():
        chat.assert_error(request.send(), 401, "invalid_api_key")


def test_bytes_in_flight_are_bounded_for_each_account(scenario, bob, settings):
    settings.ACCOUNT_BYTES_IN_FLIGHT_MAX = 140_000
    request = scenario.request(raw=UNREADABLE)
    with process_bodies.counted(scenario.account.pk, 70_001):
        refused = request.send()
        factories.credit(bob, 1)
        assert Request(factories.make_key(bob)[1], raw=UNREADABLE).send().status_code == 400
    assert "bytes of bodies" in chat.assert_error(refused, 429, "rate_limit_exceeded")["message"]
    assert_headers(refused, {"retry-after": "1", "retry-after-ms": "1000"})
    assert request.send().status_code == 400
    assert not Completion.objects.exists()


def test_bytes_in_flight_are_bounded_for_each_process(scenario, settings):
    settings.BYTES_IN_FLIGHT_MAX = 140_000
    with process_bodies.counted("another account", 70_001):
        refused = scenario.request(raw=UNREADABLE).send()
        assert client_for(scenario.secret).post(chat.PATH, {"model": "demo/echo"}).status_code == 400  # small: not counted
    chat.assert_error(refused, 503, "service_unavailable")
    assert refused["retry-after"] == "2"
    assert process_bodies.total_bytes == 0


def test_a_stream_gives_its_bytes_back_when_it_begins(scenario):
    reply = scenario.request(fields={"messages": LONG, "max_tokens": 1}).send(stream=True)
    assert process_bodies.total_bytes == 0
    assert chat.events(reply)[-1] == "[DONE]"
