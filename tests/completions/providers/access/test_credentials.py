"""Credentials that expire, from a request's point of view: no caller notices that they are fetched, renewed, refused."""

import html
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import gevent
import pytest
from django.db import connection
from django.db.models.functions import Now

from billing.models import LedgerEntry
from completions.catalog import lookup
from completions.models import Completion, Provider
from gateway_project.monitoring import collector, facts
from tests import factories, sessions, waiting
from tests.chat import assert_error
from tests.completions.providers.access import google_servers
from tests.completions.routes import assert_answered
from tests.completions.rows import ask, assert_charged, events, text
from tests.conftest import client_for
from tests.ledger_audit import assert_ledger_is_consistent
from tests.upstream import refusal, streamed, whole

TABLE = 'kind = "openai"\nbase_url = "{}"\nauth = {{ type = "google", env = "VERTEX_ACCOUNT" }}'
COST_NANOS = 57_000
REVOKED = (
    "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other valid credential."
)


@pytest.fixture
def account(cloud, keys, load, monkeypatch, upstream):
    """A service account in the environment, and a provider that accepts its access keys while they are good."""
    cloud.answer = google_servers.answer_assertions(keys)
    monkeypatch.setenv("VERTEX_ACCOUNT", google_servers.service_account(f"{cloud.url}/token"))

    def answer(received):
        if not keys.accepts(received.headers["authorization"]):
            return refusal(401, REVOKED)
        return streamed() if received.body["stream"] else whole()

    upstream.will_answer(answer)
    load(cloud=TABLE.format(upstream.url))


def catalog_is_read_again():
    gevent.sleep(0)
    lookup._offers.clear()


def metric():
    [fact] = [fact for fact in facts.declared(facts.Fact) if fact.name == "gateway_provider_key_refused"]
    return {sample.labels["provider"]: sample.value for sample in collector.read(fact).samples}


def page(admin_client, admin_user, slug):
    sessions.sign_in(admin_client, admin_user)
    return html.unescape(admin_client.get(f"/admin/completions/provider/{slug}/change/").content.decode())


# --- Refused, and renewed ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
def test_a_key_that_is_refused_is_renewed_and_the_caller_notices_nothing(api, alice, account, keys, upstream, is_streamed):
    lookup.find_offer("acme/large").routes[0].target.credential.proof()
    keys.revoke()
    answer = ask(api, stream=is_streamed)
    assert not is_streamed or text(events(answer)) == "Hello you"
    assert_answered(answer, "cloud", 2)
    shown = [asked.headers["authorization"] for asked in upstream.requests]
    assert shown == [f"Bearer {secret}" for secret in keys.issued]
    assert len(keys.issued) == 2
    [failed] = Completion.objects.get().failed_attempts
    assert (failed["provider"], failed["status"]) == ("cloud", 401)
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=COST_NANOS)
    catalog_is_read_again()
    assert metric() == {"cloud": 0}


def test_many_that_are_refused_at_once_share_one_renewal(account, alice, keys, transactional_db):
    assert lookup.find_offer("acme/large").routes[0].target.credential.proof()
    keys.revoke()
    secret = factories.make_key(alice, requests_in_flight_max=20)[1]

    def one(_):
        try:
            return ask(client_for(secret)).status_code
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(one, range(24))) == [200] * 24
    assert len(keys.issued) == 2
    assert LedgerEntry.objects.filter(type="USAGE_DEBIT").count() == 24
    assert not Provider.objects.exclude(refused_key="").exists()


def test_a_successor_that_is_refused_too_counts_as_a_refused_key(api, account, keys, load, upstream, spare, said):
    load(cloud=TABLE.format(upstream.url), spare=f'kind = "openai"\nbase_url = "{spare.url}"')
    upstream.will_answer(lambda received: refusal(401, f"{REVOKED} {received.headers['authorization']}"))
    for attempts in (3, 2, 2):  # the first one renews
        answer = ask(api)
        assert_answered(answer, "spare", attempts)
        catalog_is_read_again()
    assert metric() == {"cloud": 1, "spare": 0}
    assert_answered(ask(api), "spare", 1)
    assert "provider cloud refuses its API key (401)" in said.text
    assert not [secret for secret in keys.issued if secret in said.text]


def test_callers_of_a_provider_that_refuses_its_keys_get_no_401(api, account, keys, upstream):
    upstream.will_answer(lambda received: refusal(401, REVOKED))
    for status in (502, 502, 502, 503):
        assert_error(ask(api), status, "upstream_error")
        catalog_is_read_again()
    assert not LedgerEntry.objects.filter(type="USAGE_DEBIT").exists()
    assert_ledger_is_consistent()


# --- Not there ---------------------------------------------------------------------------------------------------


def test_a_server_of_keys_that_is_down_is_told_to_staff_and_a_request_succeeds_as_soon_as_it_is_back(
    api, account, cloud, keys, load, upstream, said, admin_client, admin_user
):
    load(vertex=TABLE.format(upstream.url))
    cloud.answer = lambda asked: (503, {"error": "unavailable", "error_description": "try again, Bearer ya29.of-theirs-012"})
    asked = ask(api)
    assert_error(asked, 503, "upstream_error")
    catalog_is_read_again()
    assert metric()["vertex"] == 1
    shown = page(admin_client, admin_user, "vertex")
    assert "there was no credential on some host: RefreshError: unavailable: try again, ***" in shown
    cloud.answer = google_servers.answer_assertions(keys)
    waiting.until(lambda: keys.issued)
    waiting.until(lambda: "has a credential again" in said.text)
    assert_answered(ask(api), "vertex", 1)
    Provider.objects.update(key_refused_at=Now() - timedelta(minutes=4))
    assert metric()["vertex"] == 0
    everywhere = [said.text, shown, asked.content.decode(), page(admin_client, admin_user, "vertex")]
    everywhere += [json.dumps(row.failed_attempts) for row in Completion.objects.all()]
    assert "there was no credential" not in everywhere[3]
    secrets = ["ya29.of-theirs-012", keys.issued[0], *_private_lines(cloud)]
    assert not [secret for secret in secrets if secret in "".join(everywhere)]


def _private_lines(cloud):
    return json.loads(google_servers.service_account(cloud.url))["private_key"].splitlines()[1:-1]


def test_another_provider_serves_while_there_is_no_credential(api, alice, account, cloud, load, upstream, spare):
    load(cloud=TABLE.format(upstream.url), spare=f'kind = "openai"\nbase_url = "{spare.url}"')
    cloud.is_down = True
    assert_answered(ask(api), "spare", 2)
    assert upstream.requests == []
    [failed] = Completion.objects.get().failed_attempts
    assert (failed["provider"], failed["status"]) == ("cloud", None)
    assert_charged(alice, "reported", prompt=9, completion=2, nanos=COST_NANOS)


def test_requests_go_on_with_the_last_key_while_it_is_good(api, account, cloud, keys):
    keys.seconds = 4
    assert ask(api).status_code == 200
    cloud.is_down = True
    waiting.until(lambda: len(cloud.asked) >= 2)  # it has tried to renew
    assert ask(api).status_code == 200
    assert len(keys.issued) == 1


# --- Other catalogs ----------------------------------------------------------------------------------------------


def test_another_account_in_the_environment_is_used_at_once(api, account, cloud, keys, monkeypatch, upstream):
    assert ask(api).status_code == 200
    monkeypatch.setenv("VERTEX_ACCOUNT", google_servers.service_account(f"{cloud.url}/token", project_id="other"))
    catalog_is_read_again()
    assert ask(api).status_code == 200
    assert len(keys.issued) == 2
    assert upstream.requests[1].headers["authorization"] == f"Bearer {keys.issued[1]}"


def test_another_auth_in_the_catalog_is_used_at_once(api, account, load, monkeypatch, upstream):
    assert ask(api).status_code == 200
    monkeypatch.setenv("BEARER", "a-bearer")
    load(cloud=f'kind = "openai"\nbase_url = "{upstream.url}"\nauth = {{ type = "bearer", env = "BEARER" }}')
    upstream.will_answer(lambda received: whole())
    assert ask(api).status_code == 200
    assert upstream.requests[1].headers["authorization"] == "Bearer a-bearer"


# --- Many, for a while -------------------------------------------------------------------------------------------


def _serve_through(renewals, requests, *, secret, keys):
    """Send so many requests from eight threads, evenly over so many renewals. Return the statuses."""
    done = threading.Semaphore(0)

    def one(number):
        waiting.until(lambda: len(keys.issued) > number * renewals // requests)
        try:
            return ask(client_for(secret)).status_code
        finally:
            done.release()
            connection.close()

    with ThreadPoolExecutor(8) as threads:
        return list(threads.map(one, range(requests)))


@pytest.mark.parametrize(
    ("renewals", "requests"), [(2, 60), pytest.param(20, 1_000, marks=pytest.mark.long)], ids=["few", "many"]
)
def test_no_request_is_refused_while_keys_of_two_seconds_are_renewed(
    account, alice, keys, transactional_db, renewals, requests
):
    keys.seconds = 2
    lookup.find_offer("acme/large").routes[0].target.credential.proof()
    secret = factories.make_key(alice, requests_in_flight_max=20)[1]
    assert _serve_through(renewals, requests, secret=secret, keys=keys) == [200] * requests
    assert len(keys.issued) >= renewals
    assert keys.refusals == 0
    assert LedgerEntry.objects.filter(type="USAGE_DEBIT").count() == requests
    assert_ledger_is_consistent()
