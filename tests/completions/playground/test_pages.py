"""The playground: who may use it, as which key it spends, and that it is charged as the API is."""

import json
import re
from html import unescape

import pytest
from django.test import Client
from django.utils import timezone

from billing.models import Account, LedgerEntry
from completions.models import Completion, Provider, RoutableAlias
from gateway_project.activity.models import Activity
from gateway_project.text import dollars
from keys import lifecycle
from keys.models import ApiKey, RefusedRequest, SpendingDay
from keys.refusal_history import collector
from keys.spending_limit import SpendingLimit
from tests import chat, factories
from tests.completions.playground.forms import PATH, STREAM, form, playground_keys
from tests.pages.conftest import owner_of, signed_in


@pytest.fixture(autouse=True)
def _model(db):
    factories.make_model("demo/echo", name="Echo")


@pytest.fixture
def owner(alice):
    return signed_in(owner_of(alice))


def text(reply):
    return " ".join(re.sub(r"<[^>]+>", " ", reply.content.decode()).split())


def nothing_is_held(account):
    return Account.objects.get(pk=account.pk).held_nanos == 0


def test_page_offers_the_models_that_can_be_called(owner):
    factories.make_model("acme/waits", provider=Provider.objects.create(slug="later", kind="openai", api_key_env="NO_SUCH_KEY"))
    page = owner.get(PATH, {"model": "demo/echo"}).content.decode()
    assert re.search(r'<input type="text" name="model" value="demo/echo"', page)
    assert '<option value="demo/echo" label="Echo, $0.50 in, $1.50 out per 1M tokens"' in page
    assert "acme/waits" not in page
    assert 'data-input-nanos="' in page
    assert not ApiKey.objects.exists()  # to look at it makes no key


def test_an_empty_playground_offers_examples_that_fill_the_prompt_without_scripts(owner):
    page = owner.get(PATH, {"model": "demo/echo"}).content.decode()
    examples = [unescape(address) for address in re.findall(r'<a class="button" href="(\?[^"]+)"\s+data-example', page)]
    assert len(examples) == 3
    filled = owner.get(f"{PATH}{examples[0]}").content.decode()
    assert re.search(r'<textarea name="prompt"[^>]*>\s*Explain a hash table in two sentences.</textarea>', filled)
    assert '<input type="text" name="model" value="demo/echo"' in filled
    assert "$0.50 in, $1.50 out per 1M tokens" in text(owner.get(PATH))


def test_whole_reply_is_shown_and_charged_to_the_key_playground(owner, alice):
    reply = owner.post(PATH, form(alice, system="Be brief."))
    assert reply.status_code == 200
    assert "one two three" in re.search(r'<pre class="reply.*?</pre>', reply.content.decode(), re.DOTALL)[0]
    [key] = playground_keys(alice)
    assert (key.spending_limit_cents, key.spending_type, key.spending_period) == (500, "RECURRING", "MONTHLY")
    completion, entry = Completion.objects.get(), LedgerEntry.objects.get(type="USAGE_DEBIT")
    assert (completion.key_id, entry.account_id, entry.reference) == (key.pk, alice.pk, completion.pk)
    assert SpendingDay.objects.get(key=key).spent_nanos == -entry.amount_nanos > 0
    assert f'<dd id="cost">{dollars.format_usd(-entry.amount_nanos)}</dd>' in reply.content.decode()
    assert f'<a href="/dashboard/requests/{completion.pk}/"' in reply.content.decode()
    spent = (
        f"{dollars.format_usd(-entry.amount_nanos)}, {completion.prompt_tokens} tokens in, {completion.completion_tokens} out"
    )
    assert spent in text(reply)
    assert nothing_is_held(alice)
    act = Activity.objects.get(act=Activity.Act.KEY_MADE)
    assert (act.object_id, act.actor_id) == (key.pk, owner_of(alice).pk)


def test_a_conversation_goes_on_with_what_was_said_before(owner, alice):
    first = owner.post(PATH, form(alice, system="Be brief.", prompt="Say <this>"))
    earlier = unescape(re.search(r'name="earlier" value="([^"]*)"', first.content.decode())[1])
    assert json.loads(earlier) == [{"role": role, "content": "Say <this>"} for role in ("user", "assistant")]
    assert re.search(r'<textarea name="prompt"[^>]*>\s*</textarea>', first.content.decode())  # for the next message
    second = owner.post(PATH, form(alice, system="Be brief.", prompt="And that", earlier=earlier))
    shown = second.content.decode().partition('id="side-2"')[0]  # of the first model
    assert re.findall(r'class="[^"]*turn (user|assistant)"', shown) == ["user", "assistant"] * 2
    sent = json.loads(unescape(re.search(r"<span data-request>(.*?)</span>", second.content.decode(), re.DOTALL)[1]))
    assert [each["content"] for each in sent["messages"]] == ["Be brief.", "Say <this>", "Say <this>", "And that"]
    [before, after] = Completion.objects.order_by("pk").values_list("prompt_tokens", flat=True)
    assert after > before  # the conversation is charged again
    assert 'name="earlier" value="[' in owner.post(PATH, form(alice, prompt="", earlier=earlier)).content.decode()


def test_a_conversation_that_nobody_can_read_is_refused(owner, alice, subtests):
    texts = ["{", "[1]", "7", '[{"role": "system", "content": "x"}]', '[{"role": "user", "content": []}]', "[" * 5_000]
    texts += [
        '[{"role": "user", "content": "\\ud800"}]',
        '[{"role": ["user"], "content": "x"}]',
        '[{"role": "user", "content": "\\u0000"}]',
    ]
    texts.append(json.dumps([{"role": "user", "content": "x"}] * 201))
    for earlier in texts:
        with subtests.test(earlier[:40]):
            refused = owner.post(PATH, form(alice, earlier=earlier), **STREAM)
            assert (refused.status_code, refused.json()["error"]["param"]) == (400, "earlier")
            assert "The conversation cannot be read." in text(owner.post(PATH, form(alice, earlier=earlier)))
    assert not Completion.objects.exists()


def test_stream_is_that_of_the_api_with_its_exact_cost(owner, alice):
    reply = owner.post(PATH, form(alice), **STREAM)
    assert reply["Content-Type"] == "text/event-stream"
    assert reply["x-gateway-max-cost"]
    *chunks, last, done = chat.events(reply)
    assert "".join(choice["delta"].get("content", "") for chunk in chunks for choice in chunk["choices"]) == "one two three"
    assert done == "[DONE]"
    entry = LedgerEntry.objects.get(type="USAGE_DEBIT")
    assert round(last["usage"]["cost"] * 10**9) == -entry.amount_nanos
    assert "access-control-allow-origin" not in reply
    assert nothing_is_held(alice)


def test_charge_is_told_when_it_is_settled(owner, alice, bob):
    started = owner.post(PATH, form(alice), **STREAM)
    pieces = iter(started.streaming_content)
    first = next(pieces)
    completion = Completion.objects.get()
    charge = f"{PATH}charge/{completion.pk}/"
    assert owner.get(charge).json() == {"isSettled": False}
    assert first + b"".join(pieces)
    told = {
        "isSettled": True,
        "costInDollars": "0.0000075",
        "promptTokens": 6,
        "completionTokens": 3,
        "balanceInDollars": "9.9999925",
    }
    assert owner.get(charge).json() == told
    assert LedgerEntry.objects.get(reference=completion.pk).amount_nanos == -7_500
    assert signed_in(owner_of(bob)).get(charge).status_code == 404
    assert Client().get(charge).status_code == 302


def test_every_request_of_an_account_uses_the_same_key(owner, alice):
    for _ in range(2):
        owner.post(PATH, form(alice))
    assert playground_keys(alice).count() == 1
    assert Activity.objects.filter(act=Activity.Act.KEY_MADE).count() == 1


def test_form_without_its_token_spends_nothing(alice):
    client = signed_in(owner_of(alice), enforce_csrf_checks=True)
    for headers in ({}, STREAM):
        assert client.post(PATH, form(alice), **headers).status_code == 403
    assert not Completion.objects.exists()
    assert not ApiKey.objects.exists()


def test_api_key_does_not_open_the_playground(alice):
    _, secret = factories.make_key(alice)
    reply = Client(headers={"Authorization": f"Bearer {secret}"}).post(PATH, form(alice), **STREAM)
    assert (reply.status_code, reply["Location"]) == (302, f"/accounts/login/?next={PATH}")
    assert not Completion.objects.exists()


def test_markup_in_a_reply_is_shown_as_text(owner, alice):
    evil = "</pre><script>alert(1)</script>"
    page = owner.post(PATH, form(alice, prompt=evil)).content.decode()
    assert "<script>alert" not in page
    assert (
        page.count("&lt;script&gt;alert(1)&lt;/script&gt;") == 6
    )  # what was asked and replied, both in the form, the two examples


def test_revoked_key_ends_the_playground_until_a_member_makes_another(owner, alice):
    owner.post(PATH, form(alice))
    lifecycle.revoke_key(playground_keys(alice).get())
    reply = owner.post(PATH, form(alice))
    assert reply.status_code == 200
    assert "The Playground key was revoked or has expired" in text(reply)
    refused = owner.post(PATH, form(alice), **STREAM)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "makes_key")
    assert (Completion.objects.count(), playground_keys(alice).count()) == (1, 1)
    assert owner.post(PATH, form(alice, makes_key="on")).status_code == 200
    _, another = playground_keys(alice)
    assert Completion.objects.order_by("pk").last().key_id == another.pk


def test_limit_of_the_key_ends_what_the_playground_spends(owner, alice):
    owner.post(PATH, form(alice))
    key = playground_keys(alice).get()
    lifecycle.set_spending_limit(key, SpendingLimit(0, "FIXED"))
    reply = owner.post(PATH, form(alice))
    assert reply.status_code == 402
    assert "spending limit" in text(reply)
    assert "Add credit" not in text(reply)
    refused = owner.post(PATH, form(alice), **STREAM)
    assert (refused.status_code, refused.json()["error"]["limit_source"]) == (402, "key")
    assert LedgerEntry.objects.filter(type="USAGE_DEBIT").count() == 1


def test_account_without_credit_is_led_to_add_some(bob):
    reply = signed_in(owner_of(bob)).post(PATH, form(bob))
    assert reply.status_code == 402
    assert "Add credit" in text(reply)
    assert nothing_is_held(bob)


def test_requests_in_flight_are_limited_as_those_of_any_key(owner, alice):
    owner.post(PATH, form(alice))
    key = playground_keys(alice).get()
    lifecycle.change_key(key, requests_per_minute=None, tokens_per_minute=None, requests_in_flight_max=1)
    running = owner.post(PATH, form(alice), **STREAM)
    try:
        refused = owner.post(PATH, form(alice), **STREAM)
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limit_exceeded")
    finally:
        assert chat.events(running)[-1] == "[DONE]"


def test_stream_goes_on_to_its_end_after_signing_out(owner, alice):
    reply = owner.post(PATH, form(alice), **STREAM)
    owner.logout()
    assert chat.events(reply)[-1] == "[DONE]"
    assert LedgerEntry.objects.filter(type="USAGE_DEBIT").count() == 1
    assert nothing_is_held(alice)
    assert owner.post(PATH, form(alice), **STREAM).status_code == 302


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model", "no/such"),
        ("prompt", ""),
        ("prompt", "x" * 100_001),
        ("prompt", "a\x00b"),
        ("max_tokens", "0"),
        ("max_tokens", "many"),
        ("temperature", "2.1"),
        ("temperature", "nan"),
    ],
)
def test_invalid_field_is_named_and_nothing_is_sent(owner, alice, name, value):
    given = form(alice, **{name: value})
    page = owner.post(PATH, given)
    assert 'class="errorlist"' in page.content.decode()
    refused = owner.post(PATH, given, **STREAM)
    assert refused.status_code == 400
    error = refused.json()["error"]
    assert (error["code"], error["param"]) == ("invalid_request_error", name)
    assert not Completion.objects.exists()
    assert not ApiKey.objects.exists()


def test_form_of_an_account_that_is_no_longer_selected_charges_nobody(owner, charlie):
    reply = owner.post(PATH, form(charlie))
    assert reply.status_code == 200
    assert "The selected account is now Alice." in text(reply)
    assert not Completion.objects.exists()


def test_request_is_shown_as_code(owner, alice):
    page = text(owner.post(PATH, form(alice, prompt="it's", temperature="0.5")))
    assert page.count('"temperature": 0.5'.replace('"', "&quot;")) == 2
    assert page.count("it&#x27;s") >= 2
    assert "http://testserver/v1/chat/completions" in page


def test_host_of_the_api_has_no_playground(owner, alice, settings):
    settings.GATEWAY_API_HOST, settings.GATEWAY_BASE_HOST = "api.example.org", "example.org"
    settings.ALLOWED_HOSTS = ["api.example.org", "example.org"]
    assert owner.post(PATH, form(alice), HTTP_HOST="api.example.org").status_code == 404
    assert not Completion.objects.exists()


def test_paused_key_spends_nothing_and_says_so(owner, alice):
    owner.post(PATH, form(alice))
    playground_keys(alice).update(paused_at=timezone.now())
    reply = owner.post(PATH, form(alice))
    assert reply.status_code == 401
    assert "it is paused" in text(reply)
    assert Completion.objects.count() == 1


def test_refusals_are_in_the_history_of_the_key(owner, alice):
    owner.post(PATH, form(alice))
    key = playground_keys(alice).get()
    lifecycle.set_spending_limit(key, SpendingLimit(0, "FIXED"))
    collector.process_collector.take()
    owner.post(PATH, form(alice))
    collector.write()
    assert RefusedRequest.objects.get(key=key).model == "demo/echo"


def test_aliases_say_which_model_they_mean_now(owner, alice):
    RoutableAlias.objects.create(id="best/general", model_ids=["gone/model", "demo/echo"])
    assert 'value="best/general" label="Best by ranking, now Echo, ' in owner.get(PATH).content.decode()
    reply = owner.post(PATH, form(alice, model="best/general"), **STREAM)
    assert {chunk["model"] for chunk in chat.events(reply)[:-1]} == {"demo/echo"}


def test_models_of_embeddings_are_not_offered(owner, alice):
    factories.make_model("demo/embed", kind="embedding")
    assert "demo/embed" not in owner.get(PATH).content.decode()
    refused = owner.post(PATH, form(alice, model="demo/embed"), **STREAM)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "model")
