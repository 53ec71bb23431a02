"""Every error reply to a known key is in its history, with the words that the caller got, if these are the gateway's own."""

import json

import pytest

from keys import secret
from keys.limits.refusal_cache import FLOOD_REFUSALS
from keys.models import ApiKey, RefusalCount, RefusedRequest
from keys.refusal_history import collector
from tests import chat, factories
from tests.completions.conftest import large  # noqa: F401  fixture
from tests.conftest import client_for
from tests.error_table import TABLE, scenario
from tests.upstream import refusal, upstream

__all__ = ["scenario", "upstream"]

# Of these, nobody knows the key, or it does not exist any more.
WITHOUT_A_KEY = {
    *("no key", "another scheme", "not like a key", "mistyped", "never given out", "of no key", "deleted"),
    *("no key for models", "no key for a model", "no key for usage", "no key for balance", "no key for ledger"),
    "no such /api path",  # no view of the API, so nobody authenticates
}
QUOTING = {"twice the same name"}


@pytest.mark.parametrize("condition", sorted(set(TABLE) - WITHOUT_A_KEY))
def test_a_refusal_is_counted_and_kept_with_the_message_of_its_reply(scenario, condition):
    arrange, status, _, code, _, _ = TABLE[condition]
    reply = arrange(scenario).send()
    collector.write()
    count = RefusalCount.objects.get()
    assert (count.key, count.status, count.code, count.number) == (scenario.key, status, code, 1)
    kept = RefusedRequest.objects.get()
    assert (kept.key, kept.request_id, kept.status, kept.code) == (scenario.key, reply["x-request-id"], status, code)
    assert kept.error == count.error
    assert kept.message == ("" if condition in QUOTING else reply.json()["error"]["message"])


@pytest.mark.parametrize("condition", sorted(WITHOUT_A_KEY))
def test_a_request_without_a_known_key_is_not_kept(scenario, condition):
    arrange, *_ = TABLE[condition]
    arrange(scenario).send()
    collector.write()
    assert not RefusedRequest.objects.exists()
    assert not RefusalCount.objects.exists()


def test_a_served_request_collects_nothing(api, echo_model):
    assert chat.ask(api).status_code == 200
    assert collector.process_collector.take().by_key == {}


def test_replays_from_the_refusal_cache_are_counted_too(scenario):
    request = TABLE["too few credits"][0](scenario)
    for _ in range(FLOOD_REFUSALS + 30):
        assert request.send().status_code == 402
    collector.write()
    assert RefusalCount.objects.get().number == FLOOD_REFUSALS + 30
    assert RefusedRequest.objects.count() == collector.LATEST_MAX


def test_a_refusal_before_the_body_is_read_names_no_model(scenario):
    request = TABLE["too few credits"][0](scenario)
    request.raw = b"{" * 70_000
    assert request.send().status_code == 402
    collector.write()
    assert RefusedRequest.objects.get().model == ""


def test_the_model_is_the_one_that_was_asked_for(scenario):
    scenario.request(fields={"model": "demo/nobody"}).send()
    scenario.request(fields={"temperature": 3}).send()
    collector.write()
    assert list(RefusedRequest.objects.order_by("at").values_list("model", flat=True)) == ["demo/nobody", "demo/echo"]


def test_a_failure_of_a_provider_is_kept(api, large, upstream):  # noqa: F811
    upstream.will(refusal(503, "we are overloaded"))
    reply = chat.ask(api, model="acme/large")
    collector.write()
    kept = RefusedRequest.objects.get()
    assert (kept.status, kept.code, kept.error, kept.model) == (503, "upstream_error", "UpstreamOverloaded", "acme/large")
    assert kept.message == reply.json()["error"]["message"]


# --- What is never kept --------------------------------------------------------------------------------------------

PROMPT = "my confidential prompt"
ASKED = {"model": "demo/echo", "messages": [{"role": "user", "content": PROMPT}], "max_tokens": 10}
QUOTES = {
    "a name that occurs twice": f'{{"{PROMPT}": 1, "{PROMPT}": 2}}',
    "broken JSON": json.dumps(ASKED)[:-2],
    "a number": '{"max_tokens": ' + 400 * "9" + "}",
    "a name in metadata": json.dumps({**ASKED, "metadata": {PROMPT: 1}}),
    "a token in logit_bias": json.dumps({**ASKED, "logit_bias": {PROMPT: 1_000}}),
    "a name in echo": json.dumps({**ASKED, "echo": {PROMPT: 1}}),
    "messages that are text": json.dumps({**ASKED, "messages": PROMPT}),
    "a role": json.dumps({**ASKED, "messages": [{"role": PROMPT, "content": PROMPT}]}),
    "a field": json.dumps({**ASKED, "reasoning_effort": PROMPT}),
}


@pytest.mark.parametrize("raw", QUOTES.values(), ids=QUOTES.keys())
def test_nothing_of_a_prompt_is_kept(api, echo_model, raw):
    assert chat.send(api, raw.encode()).status_code == 400
    collector.write()
    kept = RefusedRequest.objects.values().get()
    assert PROMPT not in str(kept)
    assert "999" not in kept["message"]


def test_what_a_provider_says_about_a_request_is_not_kept(api, large, upstream):  # noqa: F811
    upstream.will(refusal(400, f"I do not like {PROMPT}"))
    assert PROMPT in chat.ask(api, model="acme/large").json()["error"]["message"]
    collector.write()
    kept = RefusedRequest.objects.get()
    assert (kept.status, kept.message) == (400, "")


def test_a_secret_sent_as_a_model_is_not_kept(alice, echo_model):
    _, own = factories.make_key(alice)
    assert chat.ask(client_for(own), model=own).status_code == 404
    collector.write()
    kept = RefusedRequest.objects.get()
    assert kept.model == f"{secret.PREFIX}..."
    assert own[len(secret.PREFIX) : -6] not in kept.message


@pytest.mark.parametrize("model", ["a\nb\u202ec", 300 * "m", 5, None, ["a"], {"a": 1}])
def test_an_odd_model_is_kept_as_text_of_a_line_or_not_at_all(api, echo_model, model):
    assert chat.ask(api, model=model).status_code in (400, 404)
    collector.write()
    kept = RefusedRequest.objects.get().model
    assert kept.isprintable()
    assert len(kept) <= 200


def test_a_key_that_was_deleted_meanwhile_does_not_hold_up_the_others(scenario):
    other, own = factories.make_key(scenario.account)
    for each in (own, scenario.secret):
        assert chat.ask(client_for(each), model="demo/nobody").status_code == 404
    ApiKey.objects.filter(pk=other.pk).delete()
    collector.write()
    assert RefusedRequest.objects.get().key == scenario.key
