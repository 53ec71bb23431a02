"""Support asks whether a request with a key would be served now: the real decision, of which nothing is written or counted."""

import re

import pytest
from django.utils.html import escape

from billing.models import Account, Hold
from completions.models import LanguageModel
from gateway_project.activity.models import Activity
from gateway_project.text import dollars
from keys import lifecycle
from keys.limits import refusal_cache
from keys.models import ApiKey
from keys.refusal_history.collector import process_collector
from keys.spending_limit import SpendingLimit
from tests import chat, factories
from tests.completions.conftest import impatient
from tests.conftest import client_for
from tests.error_table import TABLE, scenario
from tests.keys.refusal_history.conftest import _nothing_collected
from tests.pages.conftest import SUPPORT_PERMISSIONS, make_staff, signed_in
from tests.pages.dashboard_pages import text
from tests.pages.desk_pages import key_page
from tests.upstream import refusal, upstream
from tests.waiting import meanwhile

__all__ = ["_nothing_collected", "impatient", "scenario", "upstream"]

PROMPT_TOKENS = 10
MESSAGES = [{"role": "user", "content": 4 * PROMPT_TOKENS * "x"}]
SAME = [
    *["revoked", "expired", "account closed", "above the model"],
    *["unknown", "disabled", "unpriced", "no route", "provider disabled", "not for this key"],
    *["requests a minute", "tokens a minute", "more than a minute's tokens"],
    *["requests of the key at a time", "requests of the account at a time"],
    *["account tied up", "window tied up", "FIXED limit", "FIXED limit has too little left", "DAILY limit", "MONTHLY limit"],
    *["too few credits", "in debt"],
]
MOMENT = re.compile(r"try again in \S+")  # which passes


def try_it(client, key, model="demo/echo", **fields):
    return client.get(key_page(key, "trial"), {"model": model, "prompt_tokens": PROMPT_TOKENS, **fields})


@pytest.mark.parametrize("condition", SAME)
def test_a_trial_says_what_the_request_is_told_and_writes_nothing(support, scenario, condition):
    arrange, status, _, code, _, _ = TABLE[condition]
    request = arrange(scenario)
    refusal_cache.process_cache.clear()
    process_collector.take()
    before, acts = chat.everything_written(), Activity.objects.count()
    reply = try_it(support, scenario.key, **request.fields)
    assert (chat.everything_written(), Activity.objects.count()) == (before, acts)
    assert not process_collector.take().by_key
    assert not refusal_cache.process_cache._recent
    tried = reply.context["trial"].refusal
    error = chat.assert_error(request.send(messages=MESSAGES), status, code, tried.param)
    assert MOMENT.sub("", tried.message) == MOMENT.sub("", error["message"])
    page = text(reply)
    assert f"No: {status} {code}" in page
    assert escape(reply.context["trial"].decided_by) in page


@pytest.mark.parametrize("max_tokens", [100, None])
def test_what_would_be_held_is_what_the_request_then_holds(support, alice, echo_model, max_tokens):
    key, secret = factories.make_key(alice)
    given = {} if max_tokens is None else {"max_tokens": max_tokens}
    before = chat.everything_written()
    page = text(try_it(support, key, **given))
    assert chat.everything_written() == before
    assert chat.ask(client_for(secret), messages=MESSAGES, **given).status_code == 200
    held = dollars.format_usd(Hold.objects.get(account=alice, reference__startswith="chatcmpl-").amount_nanos)
    assert f"Yes It would hold {held} of $10.00 available, for up to {max_tokens or 4_096} output tokens." in page


def test_the_figures_behind_it_are_shown(support, alice, echo_model):
    key, _ = factories.make_key(alice)
    lifecycle.set_spending_limit(key, SpendingLimit(250, "RECURRING", "DAILY"))
    lifecycle.change_key(key, requests_per_minute=60, tokens_per_minute=1_000, requests_in_flight_max=7)
    LanguageModel.objects.update(requests_in_flight_max=2)
    page = text(try_it(support, key, max_tokens=100))
    assert "Key Active, for every model" in page
    assert "Account Open, balance $10.00, $0.00 held by running requests, $10.00 available" in page
    assert "$2.50 per day: $0.00 spent, $0.00 held by running requests, $2.50 left, resets " in page
    assert "0 of 7 requests of the key run, 0 of 400 of the account, 0 of 2 of the key for demo/echo" in page
    assert "60 of 60 requests left, 1,000 of 1,000 tokens left; this request counts 110 tokens" in page
    assert "of $2.50 available" in page


def test_the_rule_that_refuses_a_model_is_the_catalog_or_the_key(support, alice, echo_model):
    key, _ = factories.make_key(alice)
    assert "The model does not exist, or is not offered." in text(try_it(support, key, "demo/nobody"))
    ApiKey.objects.filter(pk=key.pk).update(allowed_models=["a/b"])
    page = text(try_it(support, key))
    assert "The key may not use the model." in page
    assert "Key Active, for a/b" in page


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"model": ""}, "This field is required."),
        ({"max_tokens": "0"}, "greater than or equal to 1"),
        ({"prompt_tokens": "nonsense"}, "Enter a whole number."),
        ({"prompt_tokens": str(10**9)}, "A body may have 1,250,000 tokens at most."),
        ({"model": "x" * 300}, "at most 200 characters"),
        ({"model": "\u202e"}, "does not exist"),
    ],
)
def test_wrong_input_is_told_at_its_field(support, alice, echo_model, fields, words):
    key, _ = factories.make_key(alice)
    assert words in text(try_it(support, key, **fields))


def test_an_empty_form_tries_nothing(support, alice):
    reply = support.get(key_page(factories.make_key(alice)[0], "trial"))
    assert "trial" not in reply.context
    assert 'name="csrfmiddlewaretoken"' not in reply.content.decode().partition("<main")[2]  # it would get into the address


def test_it_takes_the_permission_to_see_keys(alice, echo_model, powerless):
    key, _ = factories.make_key(alice)
    reader = signed_in(make_staff("reader@example.org", ["billing.view_account"]))
    assert [try_it(client, key).status_code for client in (powerless, reader)] == [403, 403]


def test_a_key_that_does_not_exist_is_not_found(support, db):
    assert support.get("/admin/keys/apikey/nobody/trial/").status_code == 404


@pytest.mark.django_db(transaction=True)
def test_a_locked_account_is_told(impatient, alice, echo_model):
    support = signed_in(make_staff("support@example.org", SUPPORT_PERMISSIONS))
    key, _ = factories.make_key(alice)
    with meanwhile(lambda: Account.objects.select_for_update().get(pk=alice.pk)):
        page = text(try_it(support, key))
    assert "It would wait Another session has locked the account or key" in page


# --- Failed attempts on the key's page -------------------------------------------------------------------------------


def test_a_keys_page_shows_attempts_at_providers_that_failed(support, alice, upstream):
    provider = factories.make_provider("scripted", kind="openai", base_url=upstream.url)
    factories.make_model("acme/large", provider=provider)
    key, secret = factories.make_key(alice)
    upstream.will(refusal(401, "your key is wrong"))
    reply = chat.ask(client_for(secret), model="acme/large")
    page = support.get(key_page(key))
    assert "scripted: 401, your key is wrong" in text(page)
    assert reply["x-request-id"] in text(page)
    assert "/admin/completions/completion/" not in page.content.decode()
    may_see = signed_in(make_staff("more@example.org", ["keys.view_apikey", "completions.view_completion"]))
    link = re.search(r'href="(/admin/completions/completion/[^"?]+)"', may_see.get(key_page(key)).content.decode())[1]
    assert "(status 401): your key is wrong" in text(may_see.get(link))
