"""Who may manage keys by API, and what a management key cannot do."""

import pytest
from django.utils import timezone

from billing.models import Account
from gateway_project import identifiers
from keys import management_keys, secret
from keys.key_api import authentication
from keys.models import ApiKey, ManagementKey
from tests import factories
from tests.conftest import client_for

KEYS = "/api/keys"
CHAT = {"model": "demo/echo", "messages": [{"role": "user", "content": "Hello"}]}


def assert_refused(reply, words):
    assert (reply.status_code, reply["WWW-Authenticate"]) == (401, "Bearer")
    error = reply.json()["error"]
    assert (error["type"], error["code"], error["param"]) == ("invalid_request_error", "invalid_api_key", None)
    assert error["message"].startswith("Incorrect API key provided")
    assert words in error["message"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("post", "/v1/chat/completions"),
        ("post", "/v1/messages"),
        ("post", "/v1/quote"),
        ("get", "/v1/models"),
        ("get", "/v1/usage"),
        ("get", "/api/billing/balance"),
        ("get", "/api/billing/ledger"),
    ],
)
def test_a_management_key_cannot_complete_or_read_and_is_told_so(api, method, path, django_assert_num_queries):
    with django_assert_num_queries(0):
        reply = getattr(api, method)(path, CHAT if method == "post" else None)
    message = reply.json()["error"]["message"]
    assert reply.status_code == 401
    assert "this is a management key, which can only manage keys at /api/keys and export usage at /v1/usage/export." in message


def test_a_completion_key_cannot_manage_and_is_told_what_it_is(alice, django_assert_num_queries):
    key, minted = factories.make_key(alice)
    client = client_for(minted)
    with django_assert_num_queries(0):
        for reply in (client.get(KEYS), client.post(KEYS, {"name": "x"}), client.post(f"{KEYS}/{key.pk}/revoke")):
            assert_refused(reply, "this is an API key, which cannot manage keys")
    assert ApiKey.objects.get().revoked_at is None


def test_an_unknown_management_key_is_refused(db):
    for given in ("", "nonsense", secret.mint("0" * 22, secret.MANAGEMENT_PREFIX)):
        assert client_for(given).get(KEYS).status_code == 401


def test_another_secret_for_a_known_management_key_is_refused_and_a_flood_costs_one_query(manager, django_assert_num_queries):
    client = client_for(secret.mint(manager[0].pk, secret.MANAGEMENT_PREFIX))
    with django_assert_num_queries(1):
        for _ in range(3):
            assert_refused(client.get(KEYS), "this is not an active management key")


def test_a_revoked_management_key_stops_at_once(manager, api):
    assert api.get(KEYS).status_code == 200
    management_keys.revoke(manager[0])
    assert_refused(api.get(KEYS), "this is not an active management key")


def test_the_management_keys_of_a_closed_account_stop_at_once(api):
    Account.objects.update(is_active=False)
    assert_refused(api.get(KEYS), "its account is closed")


def test_when_a_management_key_was_used_is_noted_once_a_minute(manager, api, django_assert_num_queries):
    before = timezone.now()
    api.get(KEYS)
    noted = ManagementKey.objects.get().last_used_at
    assert noted >= before
    api.get(KEYS)
    assert ManagementKey.objects.get().last_used_at == noted


def test_requests_of_a_management_key_are_limited_per_minute(api, settings):
    settings.KEY_READS_PER_MINUTE = 2
    statuses = [api.get(KEYS).status_code for _ in range(3)]
    assert statuses == [200, 200, 429]
    refused = api.get(KEYS)
    assert "2 requests per minute for managing keys" in refused.json()["error"]["message"]
    assert int(refused["Retry-After"]) >= 1


def test_the_digest_is_stored_and_the_secret_is_not(manager):
    key, minted = manager
    assert minted.startswith(f"mgw_manage_{key.pk}_")
    assert minted not in str(ManagementKey.objects.values().get())
    assert management_keys.find(minted) == key
    assert secret.key_id(minted) is None
    assert secret.mask_all(f"a {minted} b") == "a mgw_manage_... b"
    assert minted[34:-4] not in secret.conceal_all(minted)


def test_a_management_key_is_named_in_the_log_of_requests(manager, api, caplog):
    with caplog.at_level("INFO", logger="gateway.requests"):
        api.get(KEYS)
    assert any(getattr(record, "key", None) == manager[0].pk for record in caplog.records)


def test_a_well_formed_secret_of_a_deleted_key_is_refused(db):
    minted = secret.mint(identifiers.short_uuid7(), secret.MANAGEMENT_PREFIX)
    assert_refused(client_for(minted).get(KEYS), authentication.INVALID_MESSAGE)
