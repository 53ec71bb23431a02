"""Rotated keys: which of their secrets work until when, over HTTP, and in processes that know the former one."""

import threading
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from billing.models import LedgerEntry
from gateway_project import identifiers
from gateway_project.cache import TTLCache
from gateway_project.db import pool
from keys import authentication, lifecycle, rotation, secret
from keys.limits import refusal_cache
from keys.models import ApiKey, FormerSecret, SpendingDay
from tests import factories
from tests.conftest import client_for

HOUR = timedelta(hours=1)
AT_ONCE = timedelta(0)
CHAT = {"model": "demo/echo", "messages": [{"role": "user", "content": "Hello"}]}


@pytest.fixture(autouse=True)
def _empty_caches(monkeypatch):
    monkeypatch.setattr(authentication, "_callers", {})
    monkeypatch.setattr(authentication, "_unknown_secrets", TTLCache(seconds=10, entries_max=10))
    authentication._failed_lookup_times.clear()
    refusal_cache.process_cache.clear()


@pytest.fixture
def key(alice, echo_model):
    return factories.make_key(alice, limit_cents=500, type="FIXED")


def complete(minted):
    return client_for(minted).post("/v1/chat/completions", CHAT)


def statuses(*secrets):
    return [complete(minted).status_code for minted in secrets]


def end(key, minted, ago=timedelta(seconds=1)):
    """Let time pass the end of a former secret."""
    ends_at = timezone.now() - ago
    key.refresh_from_db()
    digests = key.former_digests | {authentication._identify(minted).digest: ends_at.isoformat()}
    ApiKey.objects.filter(pk=key.pk).update(former_digests=digests)


def test_both_secrets_are_of_the_same_key_and_spend_from_the_same_limit(key):
    former = key[1]
    assert statuses(former) == [200]
    new = rotation.rotate_secret(key[0], grace=HOUR)
    assert statuses(former, new) == [200, 200]
    assert secret.key_id(new) == secret.key_id(former) == key[0].pk
    assert SpendingDay.objects.get().completions == LedgerEntry.objects.filter(type="USAGE_DEBIT").count() == 3
    row = ApiKey.objects.get()
    assert (row.spending_limit_cents, row.last_four, row.revoked_at) == (500, new[-4:], None)


@pytest.mark.parametrize("is_cached", [True, False])
def test_a_secret_that_ends_at_once_is_refused_at_once(key, is_cached):
    if is_cached:
        assert statuses(key[1]) == [200]
    new = rotation.rotate_secret(key[0], grace=AT_ONCE)
    refused = complete(key[1])
    assert (refused.status_code, refused.json()["error"]["code"]) == (401, "invalid_api_key")
    assert statuses(new, key[1]) == [200, 401]
    assert ApiKey.objects.get().former_digests is None


def test_a_secret_stops_at_its_end_in_a_process_that_has_it_cached(key):
    rotation.rotate_secret(key[0], grace=HOUR)
    assert statuses(key[1]) == [200]
    end(*key)
    assert statuses(key[1]) == [401]


def test_rotation_costs_a_request_no_query(key):
    assert statuses(key[1]) == [200]
    with CaptureQueriesContext(connection) as before:
        complete(key[1])
    new = rotation.rotate_secret(key[0], grace=HOUR)
    complete(new)  # looks the secret up
    for minted in (key[1], new):
        with CaptureQueriesContext(connection) as after:
            assert complete(minted).status_code == 200
        assert len(after) == len(before)


def test_a_flood_of_an_ended_secret_costs_no_query_and_refuses_no_request_of_the_new_one(key, django_assert_num_queries):
    assert statuses(key[1]) == [200]
    new = rotation.rotate_secret(key[0], grace=AT_ONCE)
    assert statuses(key[1], new) == [401, 200]
    with django_assert_num_queries(0):
        assert set(statuses(*[key[1]] * (refusal_cache.FLOOD_REFUSALS + 1))) == {401}
    assert statuses(new) == [200]


def test_a_flood_that_admission_refuses_does_not_refuse_the_new_secret(key):
    """Requests of an ended secret that were under way already when it ended."""
    caller = authentication._identify(key[1])
    new = rotation.rotate_secret(key[0], grace=AT_ONCE)
    for _ in range(refusal_cache.FLOOD_REFUSALS + 1):
        authentication._callers[caller.cached_under] = caller
        authentication._unknown_secrets.clear()
        assert statuses(key[1]) == [401]
    assert statuses(new) == [200]


def test_a_second_rotation_leaves_the_first_secret_its_time(key):
    second = rotation.rotate_secret(key[0], grace=HOUR)
    third = rotation.rotate_secret(key[0], grace=7 * 24 * HOUR)
    assert statuses(key[1], second, third) == [200, 200, 200]
    first, last = FormerSecret.objects.order_by("id")
    assert last.ends_at - first.ends_at > 6 * 24 * HOUR


def test_a_second_rotation_ends_the_first_secret_earlier_if_it_ends_all(key):
    second = rotation.rotate_secret(key[0], grace=7 * 24 * HOUR)
    third = rotation.rotate_secret(key[0], grace=AT_ONCE)
    assert statuses(key[1], second, third) == [401, 401, 200]
    assert not FormerSecret.objects.filter(ends_at__gt=timezone.now()).exists()


def test_no_more_than_five_former_secrets_work(key):
    minted = [key[1], *(rotation.rotate_secret(key[0], grace=HOUR) for _ in range(rotation.WORKING_MAX))]
    with pytest.raises(rotation.TooManySecrets, match="5 former secrets"):
        rotation.rotate_secret(key[0], grace=HOUR)
    assert set(statuses(*minted)) == {200}
    last = rotation.rotate_secret(key[0], grace=AT_ONCE)
    assert statuses(*minted, last) == [401] * 6 + [200]


def test_former_secrets_are_ended_early(key):
    new = rotation.rotate_secret(key[0], grace=HOUR)
    assert rotation.end_former_secrets(key[0]) is True
    assert rotation.end_former_secrets(key[0]) is False
    assert statuses(key[1], new) == [401, 200]


def test_a_revoked_key_has_no_secret_that_works(key):
    new = rotation.rotate_secret(key[0], grace=HOUR)
    assert statuses(key[1], new) == [200, 200]
    lifecycle.revoke_key(key[0])
    assert statuses(key[1], new) == [401, 401]


def test_a_paused_key_is_refused_in_words_with_each_of_its_secrets_until_it_is_resumed(key):
    new = rotation.rotate_secret(key[0], grace=HOUR)
    lifecycle.pause_key(key[0])
    for minted in (key[1], new):
        reply = complete(minted)
        assert (reply.status_code, reply.json()["error"]["code"]) == (401, "invalid_api_key")
        assert "it is paused" in reply.json()["error"]["message"]
        assert client_for(minted).get("/api/billing/balance").status_code == 401
    lifecycle.resume_key(key[0])
    refusal_cache.process_cache.clear()
    assert statuses(key[1], new) == [200, 200]


@pytest.mark.parametrize("grace", [HOUR, AT_ONCE])
def test_every_secret_finds_its_key(key, grace):
    minted = [key[1], *(rotation.rotate_secret(key[0], grace=grace) for _ in range(2))]
    assert [rotation.find_key(each) for each in minted] == [key[0]] * 3
    for unknown in (secret.mint(key[0].pk), secret.mint(identifiers.short_uuid7()), "mgw_live_", ""):
        assert rotation.find_key(unknown) is None


def test_a_former_secret_under_a_former_pepper_works_and_stops(key, settings):
    settings.KEY_PEPPERS = ["a new pepper, which is long enough to be one", *settings.KEY_PEPPERS]
    assert statuses(key[1]) == [200]
    new = rotation.rotate_secret(key[0], grace=HOUR)
    assert statuses(key[1], new) == [200, 200]
    rotation.end_former_secrets(key[0])
    assert statuses(key[1], new, key[1]) == [401, 200, 401]


@pytest.mark.django_db(transaction=True)
def test_rotated_and_revoked_at_once_a_key_ends_revoked_and_whole(alice):
    """Both take the locks of admission: neither overwrites what the other wrote."""
    key, _ = factories.make_key(alice)
    acts = [
        *(lambda: rotation.rotate_secret(ApiKey.objects.get(pk=key.pk), grace=HOUR),) * 3,
        lambda: lifecycle.revoke_key(ApiKey.objects.get(pk=key.pk)),
        lambda: lifecycle.pause_key(ApiKey.objects.get(pk=key.pk)),
    ]
    start = threading.Barrier(len(acts))

    def run(act):
        start.wait()
        act()
        connection.close()

    threads = [threading.Thread(target=run, args=[act]) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    row = ApiKey.objects.get()
    assert row.revoked_at is not None
    assert row.paused_at is not None
    former = set(FormerSecret.objects.values_list("digest", flat=True))
    assert former == set(row.working_former_digests(pool.database_time()))
    assert len(former | {key.digest, row.digest}) == 4
