"""Requesting a provider's list: with its key, conditionally, and not too often.

Retries, limits and redirects are tested in ``tests/gateway_project/net/test_background_http.py``.
"""

from datetime import timedelta

import pytest
from django.core.management import CommandError, call_command
from django.db.models.functions import Now

from completions.catalog import route_calls
from completions.models import Price, Provider, UpstreamList
from tests import factories
from tests.completions.catalog.sync.lists import ListServer, entry, listing, proposed
from tests.document_server import reply, serving

pytestmark = pytest.mark.django_db


def test_the_list_is_requested_at_the_providers_address_with_its_key(large, lists, sync, monkeypatch):
    monkeypatch.setenv("BARN_KEY", "sk-barn-0123456789")
    Provider.objects.update(api_key_env="BARN_KEY")

    sync()

    [received] = lists.received
    assert received.path == "/v1/models"
    assert received.headers["authorization"] == "Bearer sk-barn-0123456789"


def test_the_identity_of_the_host_does_not_stand_in_for_a_key_that_is_missing(large, lists, sync):
    Provider.objects.update(api_key_env="BARN_KEY", access={"auth": {"type": "google"}})
    with pytest.raises(CommandError, match="barn has no key: BARN_KEY is not set"):
        sync()
    assert not lists.received
    assert route_calls.call(large.routes.get()).failure == "it has no key: BARN_KEY is not set"


_LIST_HEADERS = {
    "anthropic": ("/v1/v1/models?limit=1000", {"x-api-key": "sk-barn-0123456789", "anthropic-version": "2023-06-01"}),
    "gemini": ("/v1/v1beta/models?pageSize=1000", {"x-goog-api-key": "sk-barn-0123456789"}),
}


@pytest.mark.parametrize("kind", _LIST_HEADERS)
def test_each_kind_is_asked_as_its_api_says(large, lists, sync, monkeypatch, kind):
    monkeypatch.setenv("BARN_KEY", "sk-barn-0123456789")
    Provider.objects.update(api_key_env="BARN_KEY", kind=kind)

    sync()

    [received] = lists.received
    path, headers = _LIST_HEADERS[kind]
    assert received.path == path
    assert headers.items() <= {name.lower(): value for name, value in received.headers.items()}.items()


def test_a_path_a_header_and_a_query_of_the_catalog_are_used(large, lists, sync):
    access = {"paths": {"models": "/list"}, "headers": {"x-team": "a"}, "query": {"api-version": "2024-10-21"}}
    Provider.objects.update(access=access)

    sync()

    [received] = lists.received
    assert (received.path, received.headers["x-team"]) == ("/v1/list?api-version=2024-10-21", "a")


@pytest.mark.parametrize("changed", [{"base_url": "http://127.0.0.1:9/{model}"}, {"access": {"platform": "vertex"}}])
def test_a_provider_without_a_list_says_so_on_its_page(large, lists, changed):
    Provider.objects.update(**changed)

    with pytest.raises(CommandError, match=r"^barn has no list of its models\.$"):
        call_command("sync_catalog")

    assert (lists.received, UpstreamList.objects.get().failure) == ([], "has no list of its models")


def test_a_redirect_is_not_followed(large, lists, caplog):
    with serving(ListServer) as elsewhere:
        elsewhere.lists(entry())
        lists.will(reply(status=302, Location=f"{elsewhere.url}/models"))

        with pytest.raises(CommandError, match=r"^barn answered 302\.$"):
            call_command("sync_catalog")

        assert elsewhere.received == []
    assert "the list of barn was not taken: it answered 302" in caplog.text


def test_an_unchanged_list_is_not_sent_again_and_is_compared_again(large, lists, sync):
    lists.lists(entry(), ETag='"v1"')
    sync()
    Price.objects.create(model=large, rates=factories.rates_of(input_nanos=1, output_nanos=1))
    lists.will(reply(status=304))

    report = sync()

    assert "if-none-match" not in lists.received[0].headers
    assert lists.received[1].headers["if-none-match"] == '"v1"'
    assert (report["listed"], report["isUnchanged"]) == (1, True)
    assert [kind for kind, *_ in proposed()] == ["price"]


def test_the_list_of_a_new_address_is_requested_unconditionally(large, lists, sync):
    lists.lists(entry(), entry("acme/a"), entry("acme/b"), ETag='"v1"')
    sync()
    Provider.objects.update(base_url=lists.url.replace("/v1", "/v2"))
    lists.lists(entry())

    assert sync()["listed"] == 1  # it is not compared with the list of the old address
    assert "if-none-match" not in lists.received[1].headers


def test_a_stored_list_that_cannot_be_parsed_is_requested_unconditionally(large, lists, sync):
    lists.lists(entry(), ETag='"v1"')
    sync()
    UpstreamList.objects.update(body="no list")

    assert sync()["isUnchanged"] is False
    assert "if-none-match" not in lists.received[1].headers


def test_a_failure_that_may_pass_is_retried(large, lists, sync):
    lists.will(reply(status=500), listing(entry()))

    assert sync()["listed"] == 1


@pytest.mark.parametrize(("status", "asked"), [(500, 4), (401, 1), (403, 1), (404, 1), (304, 1)])
def test_a_lasting_failure_is_reported_and_the_stored_list_stays(large, lists, sync, status, asked):
    sync()
    kept = UpstreamList.objects.get()
    lists.received.clear()
    lists.will(reply(status=status))

    with pytest.raises(CommandError, match=rf"^barn answered {status}\.$"):
        sync()

    assert len(lists.received) == asked
    now = UpstreamList.objects.get()
    assert (now.body, now.confirmed_at, now.failure) == (kept.body, kept.confirmed_at, f"answered {status}")


@pytest.mark.parametrize("retry_after", ["3600", "Fri, 31 Dec 2100 23:59:59 GMT"])
def test_a_provider_that_requests_a_long_wait_gets_no_request_before(large, lists, sync, retry_after):
    lists.will(reply(status=429, Retry_After=retry_after), listing(entry()))

    with pytest.raises(CommandError, match="barn answered 429"):
        sync()
    with pytest.raises(CommandError, match="barn asked to wait until 20"):
        sync()
    assert len(lists.received) == 1

    UpstreamList.objects.update(retry_at=Now() - timedelta(seconds=1))
    assert sync()["listed"] == 1
    assert UpstreamList.objects.get().retry_at is None


def test_a_provider_that_cannot_be_reached_is_reported(large, lists):
    Provider.objects.update(base_url="http://127.0.0.1:9/v1")

    with pytest.raises(CommandError, match=r"^barn cannot be reached: the connection failed\.$"):
        call_command("sync_catalog")


def test_a_key_that_cannot_be_decrypted_or_sent_is_reported_without_it(large, lists, monkeypatch, caplog):
    Provider.objects.update(sealed_api_key="gAAA-not-ours")
    with pytest.raises(CommandError, match=r"^barn has a key that cannot be read\.$"):
        call_command("sync_catalog")

    monkeypatch.setenv("BARN_KEY", "sk-barn\nX-Evil: 1")
    Provider.objects.update(sealed_api_key="", api_key_env="BARN_KEY")
    with pytest.raises(CommandError, match=r"^barn cannot be asked: its address or its key fits no request\.$"):
        call_command("sync_catalog")
    assert lists.received == []
    assert "sk-barn" not in caplog.text
