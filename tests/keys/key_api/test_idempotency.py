"""A POST under an Idempotency-Key is done once, also when several are sent at the same time."""

import threading
from datetime import timedelta

import pytest
from cryptography.fernet import Fernet
from django.db import connection
from django.utils import timezone

from gateway_project.activity.models import Activity
from keys import management_keys, tasks
from keys.models import ApiKey, FormerSecret, ManagementReply
from tests import factories
from tests.conftest import client_for

KEYS = "/api/keys"


def make(client, idempotency_key="a", **fields):
    return client.post(KEYS, {"name": "build", **fields}, headers={"idempotency-key": idempotency_key})


def test_a_repetition_gets_the_reply_of_the_first_with_the_same_secret(api):
    first, again = make(api), make(api)
    assert (again.status_code, again.json()) == (201, first.json())
    assert ("Idempotent-Replayed" in first, again["Idempotent-Replayed"]) == (False, "true")
    assert ApiKey.objects.count() == Activity.objects.count() == 1


def test_the_secret_is_stored_encrypted_only(api):
    made = make(api).json()
    stored = str(ManagementReply.objects.values().get()) + str(Activity.objects.values().get())
    assert made["secret"] not in stored
    assert made["secret"][:40] not in stored


def test_a_repeated_rotation_rotates_once(api, alice):
    key, _ = factories.make_key(alice)
    headers = {"idempotency-key": "a"}
    first, again = (api.post(f"{KEYS}/{key.pk}/rotate", headers=headers).json() for _ in range(2))
    assert first == again
    assert FormerSecret.objects.count() == 1


@pytest.mark.parametrize("other", [{"name": "other"}, {"tags": ["web"]}])
def test_another_request_under_the_same_key_is_refused(api, other):
    make(api)
    refused = make(api, **other)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "Idempotency-Key")
    assert ApiKey.objects.count() == 1


def test_without_a_key_or_with_another_each_request_is_done(api):
    make(api, "a")
    make(api, "b")
    api.post(KEYS, {"name": "build"})
    api.post(KEYS, {"name": "build"})
    assert ApiKey.objects.count() == 4


def test_a_refusal_is_not_stored(api):
    assert make(api, expiresAt="2020-01-01T00:00:00Z").status_code == 400
    assert make(api).status_code == 201


@pytest.mark.parametrize("value", ["", "x" * 256, "é", "a\tb"])
def test_a_malformed_idempotency_key_is_refused(api, value):
    reply = api.post(KEYS, {"name": "build"}, HTTP_IDEMPOTENCY_KEY=value)
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, "Idempotency-Key")
    assert not ApiKey.objects.exists()


def test_another_management_key_has_idempotency_keys_of_its_own(api, alice):
    other = client_for(management_keys.issue(alice, name="other", created_by=alice.members.get())[1])
    assert make(api).json()["id"] != make(other).json()["id"]


def test_a_reply_is_kept_for_an_hour_and_then_deleted(api):
    first = make(api).json()
    ManagementReply.objects.update(at=timezone.now() - timedelta(minutes=59))
    tasks.forget_old_refusals()
    assert make(api).json() == first
    ManagementReply.objects.update(at=timezone.now() - timedelta(minutes=61))
    assert make(api).json()["id"] != first["id"]
    ManagementReply.objects.update(at=timezone.now() - timedelta(minutes=61))
    tasks.forget_old_refusals()
    assert not ManagementReply.objects.exists()


def test_a_reply_that_cannot_be_decrypted_is_refused_and_nothing_is_done_again(api, settings):
    make(api)
    settings.ENCRYPTION_KEYS = [Fernet.generate_key().decode()]
    refused = make(api)
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "reply_unreadable")
    assert ApiKey.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_sent_four_times_at_once_a_request_is_done_once(alice):
    _, minted = management_keys.issue(alice, name="terraform", created_by=alice.members.get())
    start, replies = threading.Barrier(4), []

    def send():
        start.wait()
        replies.append(make(client_for(minted)).json())
        connection.close()

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(replies) == 4
    assert len({reply["secret"] for reply in replies}) == ApiKey.objects.count() == 1
