"""A provider that refuses our API key: its models are not available until the key is changed or accepted again."""

import logging
import time
from datetime import timedelta

import gevent
import pytest
from django.db.models.functions import Now

from completions.catalog import lookup
from completions.models import Provider, RoutableAlias
from completions.providers import error_meanings
from completions.relay import circuit_breaker, route_health
from gateway_project import secretbox
from rankings.models import Source
from rankings.publishing import publication
from tests import factories, sessions
from tests.chat import assert_error
from tests.completions.routes import add, assert_answered
from tests.completions.rows import MESSAGES, ask, ask_streamed, events, text
from tests.conftest import client_for
from tests.faults import fault
from tests.ledger_audit import assert_ledger_is_consistent
from tests.monotonic_clock import use_clock
from tests.rankings import entries
from tests.upstream import KEY, KEY_ENV, refusal, reply, streamed, whole

pytestmark = pytest.mark.usefixtures("large")

BAD_KEY = refusal(401, f"Incorrect API key provided: {KEY}")
NOT_OURS = b'{"error": {"message": "Your API key was reported as leaked.", "status": "PERMISSION_DENIED"}}'
# An aggregator relays that the provider behind the model refuses the aggregator's own key.
PROVIDER_BEHIND = (
    b'{"error": {"message": "Provider returned error", "code": 401, "metadata": {'
    b'"raw": "{\\"error\\": {\\"message\\": \\"invalid x-api-key\\"}}", "provider_name": "Acme"}}}'
)
GEMINI_BLOCKED = (
    '{"error": {"code": 403, "status": "PERMISSION_DENIED", "message": "Requests to this API generativelanguage.googleapis.com '
    'method google.ai.generativelanguage.v1beta.GenerativeService.GenerateContent are blocked.", '
    '"details": [{"reason": "%s"}]}}'
)


@pytest.fixture(autouse=True)
def _fresh():
    route_health._refusals.clear()
    route_health._probes.clear()
    yield
    gevent.sleep(0)  # what is still to be written to the provider's row is written while there is a database


@pytest.fixture
def other(charlie):
    """A client of another account."""
    return client_for(factories.make_key(charlie)[1])


def catalog_is_read_again():
    gevent.sleep(0)  # a greenlet of its own writes the row
    lookup._offers.clear()


def fail(*clients, status=502):
    for client in clients:
        catalog_is_read_again()
        assert ask(client).status_code == status
    catalog_is_read_again()


def listed(client, **parameters):
    return [model["id"] for model in client.get("/v1/models", parameters).json()["data"]]


def let_the_pause_pass():
    gevent.sleep(0)
    Provider.objects.update(key_refused_at=Now() - timedelta(seconds=lookup.PROBE_SECONDS))
    route_health._probes.clear()
    lookup._offers.clear()


@pytest.fixture
def refused(api, upstream):
    """The scripted provider has refused its key, and every model of it is not available."""
    upstream.will(BAD_KEY)
    fail(api, api, api)
    upstream.requests.clear()


# --- Until when a provider is available ---------------------------------------------------------------------------


@fault(
    "Provider",
    "A provider refuses the gateway's API key",
    "Its models are listed as not available and get 503 until it accepts the key; the log says why",
)
def test_models_of_a_provider_whose_key_is_refused_are_not_available(api, upstream, caplog):
    RoutableAlias.objects.create(id="cheapest/coding", model_ids=["acme/large", "demo/echo"])
    factories.make_model("demo/echo")
    publication.publish(Source.INTERNAL)
    RoutableAlias.objects.update(model_ids=["acme/large", "demo/echo"])
    upstream.will(BAD_KEY)
    fail(api, api)
    assert "acme/large" in listed(api)
    with caplog.at_level(logging.WARNING, logger="gateway.provider_keys"):
        fail(api)
    assert "acme/large" not in listed(api)
    assert "acme/large" in listed(api, available="false")
    assert api.get("/v1/models/acme/large").json()["available"] is False
    entries.forget()
    ranked = client_for(None).get("/api/rankings").json()["rankings"]
    available = {entry["model"]["id"]: entry["metadata"]["available"] for entry in ranked}
    assert available == {"acme/large": False, "demo/echo": True}
    assert api.get("/v1/models/cheapest/coding").json()["alias_of"] == "demo/echo"
    asked = len(upstream.requests)
    refused = ask(api)
    assert_error(refused, 503, "upstream_error")
    assert 0 < int(refused["Retry-After"]) <= lookup.PROBE_SECONDS
    assert len(upstream.requests) == asked
    [line] = [record.getMessage() for record in caplog.records if record.name == "gateway.provider_keys"]
    assert line.startswith("provider scripted refuses its API key (401): its models are not available")
    assert "answered 401: its words are shown with the completion" in caplog.text
    assert "Incorrect API key" not in caplog.text  # some providers repeat a part of the key
    assert_ledger_is_consistent()


def test_refusals_of_two_accounts_are_enough(api, other, upstream):
    upstream.will(BAD_KEY)
    fail(api, other)
    assert listed(api) == []


def test_one_good_reply_between_two_refusals_begins_the_count_anew(api, upstream):
    upstream.will(BAD_KEY, BAD_KEY, whole(), BAD_KEY, BAD_KEY)
    fail(api, api)
    fail(api, status=200)
    fail(api, api)
    assert listed(api) == ["acme/large"]


def test_refusals_of_streams_count_too(api, upstream):
    upstream.will(BAD_KEY)
    for _ in range(3):
        catalog_is_read_again()
        assert ask_streamed(api).status_code == 502
    catalog_is_read_again()
    assert listed(api) == []


@pytest.mark.usefixtures("upstream")
def test_disabled_organization_at_anthropic_counts(api, large, upstream, caplog):
    Provider.objects.update(kind="anthropic")
    upstream.will(refusal(400, "This organization has been disabled."))
    fail(*[api] * 5)
    assert listed(api) == []


@pytest.mark.parametrize(
    ("script", "refusals"),
    [
        (reply(NOT_OURS, status=403), 5),
        (reply(b"", status=401), 3),
    ],
    ids=["403 about the key", "401 without a word"],
)
def test_every_kind_of_refusal_counts(api, upstream, script, refusals):
    upstream.will(script)
    for _ in range(refusals):
        assert listed(api) == ["acme/large"]
        fail(api)
    assert listed(api) == []


@pytest.mark.parametrize(
    "script",
    [
        refusal(401, "key not allowed to access model. This key can only access models=['small']. Tried to access large"),
        reply(PROVIDER_BEHIND, status=401),
        reply(PROVIDER_BEHIND),
        refusal(403, "This content is not for your organization."),
        refusal(403, "Your account does not have access to model large-2026."),
        refusal(403, "Forbidden"),
        reply(b"<html>blocked by the firewall</html>", status=403),
        refusal(404, "Incorrect API key provided"),
        refusal(500, "Incorrect API key provided"),
    ],
    ids=[
        "401 for a model",
        "provider behind",
        "provider behind, in band",
        "content",
        "model",
        "no reason",
        "firewall",
        "404",
        "500",
    ],
)
def test_other_refusals_leave_the_provider_available(api, other, upstream, script, settings):
    settings.CIRCUIT_FAILURES, settings.UPSTREAM_ATTEMPTS_MAX = 1_000, 1
    upstream.will(script)
    fail(*[api, other] * 4)
    assert listed(api) == ["acme/large"]


def test_another_route_serves_the_model(api, large, upstream, spare):
    add(large, spare, api_key_env=KEY_ENV)
    upstream.will(BAD_KEY)
    for _ in range(3):
        catalog_is_read_again()
        assert_answered(ask(api), "spare", 2)
    catalog_is_read_again()
    assert listed(api) == ["acme/large"]
    assert_answered(ask(api), "spare", 1)


# --- Until somebody changes it ------------------------------------------------------------------------------------


def set_environment(monkeypatch, upstream):
    monkeypatch.setenv(KEY_ENV, "sk-another")


def enter_key(monkeypatch, upstream):
    sealed = secretbox.encrypt(KEY, purpose="provider:scripted")
    Provider.objects.filter(pk="scripted").update(sealed_api_key=sealed)


def change_address(monkeypatch, upstream):
    Provider.objects.filter(pk="scripted").update(base_url=upstream.url.replace("127.0.0.1", "localhost"))


@pytest.mark.parametrize("change", [set_environment, enter_key, change_address])
def test_another_key_or_address_makes_its_models_available_at_once(api, upstream, refused, monkeypatch, change):
    upstream.will(whole())
    assert listed(api) == []
    change(monkeypatch, upstream)
    assert listed(api) == ["acme/large"]
    lookup._offers.clear()
    assert_answered(ask(api), "scripted", 1)


def test_late_refusal_of_the_old_key_says_nothing_of_the_new_one(api, alice, monkeypatch):
    old = lookup.find_offer("acme/large").routes[0]
    monkeypatch.setenv(KEY_ENV, "sk-another")
    for _ in range(3):
        route_health.record_refused_key(old, alice.pk, status=401, reason="no such key")
    catalog_is_read_again()
    assert Provider.objects.get(pk="scripted").key_refusal == "401: no such key"
    assert listed(api) == ["acme/large"]


# --- Until it answers again ---------------------------------------------------------------------------------------


def test_probes_are_rarer_the_longer_the_key_is_refused(api, upstream, refused, monkeypatch):
    clock = use_clock(monkeypatch, route_health)
    clock.stop()
    clock.move_on(2 * lookup.PROBE_SECONDS)
    for pause_seconds in (5, 10, 20, 40, 60, 60):
        fail(api)
        beside = ask(api)
        assert_error(beside, 503, "upstream_error")
        assert (int(beside["Retry-After"]), len(upstream.requests)) == (pause_seconds, 1)
        upstream.requests.clear()
        clock.move_on(pause_seconds)
    assert listed(api) == []


def test_an_alias_of_models_whose_key_is_refused_asks_to_try_again(api, upstream, refused):
    RoutableAlias.objects.create(id="cheapest/coding", model_ids=["acme/large"])
    assert_error(ask(api, model="cheapest/coding"), 503, "upstream_error")
    assert upstream.requests == []
    assert api.get("/v1/models/cheapest/coding").status_code == 404


def test_requests_beside_the_probe_do_not_reach_the_provider(api, upstream, refused):
    let_the_pause_pass()
    upstream.will(refusal(500))
    assert ask(api).status_code == 502
    beside = ask(api)  # of the same reading of the catalog
    assert_error(beside, 503, "upstream_error")
    assert 0 < int(beside["Retry-After"]) <= lookup.PROBE_SECONDS
    assert len(upstream.requests) == 1


def test_request_that_the_circuit_refuses_does_not_use_up_the_probe(api, alice, upstream, refused):
    let_the_pause_pass()
    [route] = lookup.find_offer("acme/large").routes
    circuit_breaker.record_failure(route, alice.pk, attempted_at=time.monotonic(), wait_seconds=9)
    assert_error(ask(api), 503, "upstream_error")
    assert upstream.requests == []
    circuit_breaker.record_success(route, alice.pk)
    upstream.will(whole())
    assert_answered(ask(api), "scripted", 1)


def test_request_that_the_key_refuses_does_not_use_up_the_probe_of_the_circuit(api, alice, upstream, refused, settings):
    settings.CIRCUIT_FAILURES = 1
    let_the_pause_pass()
    [route] = lookup.find_offer("acme/large").routes
    circuit_breaker.record_failure(route, alice.pk, attempted_at=time.monotonic())
    circuit_breaker._routes[route.id].by_account[alice.pk].open_until = 0.0
    assert route_health._may_probe_key(route)  # another request probes the key
    assert_error(ask(api), 503, "upstream_error")
    assert upstream.requests == []
    assert circuit_breaker.allows_request(route, alice.pk)


@pytest.mark.parametrize("status", [400, 413, 422])
def test_request_that_the_provider_finds_invalid_shows_that_it_accepts_the_key(api, upstream, refused, status):
    let_the_pause_pass()
    upstream.will(refusal(status))
    assert ask(api).status_code in (400, 413)
    catalog_is_read_again()
    assert listed(api) == ["acme/large"]


def test_good_reply_to_a_probe_makes_the_models_available_again(api, upstream, refused, caplog):
    let_the_pause_pass()
    upstream.will(streamed())
    with caplog.at_level(logging.WARNING, logger="gateway.provider_keys"):
        assert text(events(ask_streamed(api))) == "Hello you"
        catalog_is_read_again()
    assert "provider scripted accepts its API key again" in caplog.text
    assert listed(api) == ["acme/large"]
    provider = Provider.objects.get(pk="scripted")
    assert (provider.refused_key, provider.key_refused_at, provider.key_refusal) == ("", None, "")
    upstream.will(whole())
    assert_answered(ask(api), "scripted", 1)


def test_probe_costs_the_caller_nothing_where_another_route_answers(api, large, upstream, spare, refused):
    add(large, spare, api_key_env=KEY_ENV)
    lookup._offers.clear()
    assert_answered(ask(api), "spare", 1)
    let_the_pause_pass()
    assert_answered(ask(api), "spare", 2)


def test_caller_who_may_not_spend_does_not_use_up_the_probe(api, bob, upstream, refused):
    let_the_pause_pass()
    poor = client_for(factories.make_key(bob)[1])
    assert poor.post("/v1/chat/completions", {"model": "acme/large", "messages": MESSAGES}).status_code == 402
    upstream.will(whole())
    lookup._offers.clear()
    assert_answered(ask(api), "scripted", 1)


# --- What staff see -----------------------------------------------------------------------------------------------


def test_admin_says_that_the_key_is_refused_and_can_use_it_again(api, upstream, refused, admin_client, admin_user):
    sessions.sign_in(admin_client, admin_user)
    page = admin_client.get("/admin/completions/provider/").content.decode()
    assert "the provider refused it on" in page
    assert "401: Incorrect API key provided: ***" in page
    assert KEY not in page
    assert "scripted" in page
    action = {"action": "forget_refusals", "_selected_action": ["scripted"]}
    done = admin_client.post("/admin/completions/provider/", action, follow=True).content.decode()
    assert "1 refused keys are used again." in done
    assert "the provider refused it on" not in done
    assert listed(api) == ["acme/large"]


@pytest.mark.parametrize(
    ("status", "words", "is_about_key"),
    [
        (401, "", True),
        (403, "Country, region, or territory not supported", True),
        (403, "Generative Language API has not been used in project 1 before or it is disabled.", True),
        (403, "Your API key does not have permission to use the specified resource", True),
        (403, GEMINI_BLOCKED % "API_KEY_SERVICE_BLOCKED", True),
        (403, GEMINI_BLOCKED % "SOMETHING_ELSE", True),
        (403, '{"error": {"message": "no model for this project", "code": "API_KEY_INVALID"}}', True),
        (403, r'{"error": {"message": "account: the content \"code\": \"API_KEY_INVALID\" is not allowed"}}', False),
        (403, "content_policy_violation for this account", False),
        (403, "Your organization may not use these models.", False),
        (403, "", False),
        (403, "x" * 5_000 + "api key", False),
        (401, '{"error": {"message": "key not allowed to access model.", "type": "key_model_access_denied"}}', False),
        (401, '{"error": {"message": "Not yours.", "code": "model_not_found"}}', False),
        (
            401,
            '{"error": {"code": 401, "message": "x", "metadata": {"raw": "invalid x-api-key", "provider_name": "Acme"}}}',
            False,
        ),
        (403, '{"error": {"message": "Provider returned error", "metadata": {"raw": "account suspended"}}}', False),
        (401, r'{"error": {"message": "no \"provider_name\": such API key for these models"}}', True),
        (402, "API key without credit", False),
        (400, "invalid API key", False),
    ],
)
def test_words_tell_a_refused_key_from_a_refused_request(status, words, is_about_key):
    assert error_meanings.is_about_key(status, words) is is_about_key
