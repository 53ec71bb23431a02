"""A retry with the same Idempotency-Key gets the same reply, and is charged once."""

import threading
from datetime import timedelta

import pytest
from django.db import connection

from billing import audit
from billing.models import Hold, LedgerEntry
from completions import tasks
from completions.models import Completion, IdempotentRequest
from gateway_project.db import pool
from tests import factories
from tests.completions.rows import disconnect
from tests.conftest import client_for

BODY = {"model": "demo/echo", "messages": [{"role": "user", "content": "Say it once"}], "max_tokens": 10}


@pytest.fixture(autouse=True)
def _model(echo_model):
    pass


def ask(client, key, **fields):
    return client.post("/v1/chat/completions", {**BODY, **fields}, headers={"Idempotency-Key": key})


def content(reply):
    return b"".join(reply.streaming_content) if reply.streaming else reply.content


def debits():
    return LedgerEntry.objects.filter(type="USAGE_DEBIT").count()


@pytest.mark.parametrize("stream", [False, True])
def test_a_retry_gets_the_same_reply_and_is_charged_once(api, alice, stream):
    first = ask(api, "a", stream=stream)
    first_content = content(first)
    again = ask(api, "a", stream=stream)
    assert (again.status_code, again["content-type"]) == (first.status_code, first["content-type"])
    assert content(again) == first_content
    assert (again["Idempotent-Replayed"], "Idempotent-Replayed" in first) == ("true", False)
    assert (debits(), Hold.objects.count(), Completion.objects.count()) == (1, 1, 1)
    assert audit.verify(alice.pk) == []


def test_a_repeated_request_without_a_key_runs_again(api):
    assert [api.post("/v1/chat/completions", BODY).status_code for _ in range(2)] == [200, 200]
    assert debits() == 2
    assert not IdempotentRequest.objects.exists()


@pytest.mark.parametrize("fields", [{"max_tokens": 9}, {"stream": True}, {"messages": [{"role": "user", "content": "Other"}]}])
def test_another_body_under_the_same_key_is_refused(api, fields):
    content(ask(api, "a"))
    refused = ask(api, "a", **fields)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "Idempotency-Key")
    assert debits() == 1


def test_an_idempotency_key_is_scoped_to_its_account(api, charlie):
    other = client_for(factories.make_key(charlie)[1])
    assert ask(api, "a").json()["id"] != ask(other, "a").json()["id"]
    assert debits() == 2


def test_another_api_key_of_the_account_gets_the_same_reply(api, alice):
    other = client_for(factories.make_key(alice)[1])
    assert ask(api, "a").json() == ask(other, "a").json()
    assert debits() == 1


@pytest.mark.parametrize("key", ["", "x" * 256, "naïve", "a\tb"])
def test_a_malformed_idempotency_key_is_refused(api, key):
    refused = ask(api, key)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "Idempotency-Key")
    assert not Completion.objects.exists()


def test_a_retry_conflicts_while_its_request_runs(api):
    running = ask(api, "a", stream=True)
    refused = ask(api, "a", stream=True)
    error = refused.json()["error"]
    assert (refused.status_code, error["code"], refused["retry-after"]) == (409, "request_in_progress", "1")
    assert (Completion.objects.count(), debits()) == (1, 0)
    first_content = content(running)
    assert content(ask(api, "a", stream=True)) == first_content
    assert debits() == 1


def test_a_refused_request_does_not_use_up_its_key(api, alice, bob):
    poor = client_for(factories.make_key(bob)[1])
    assert ask(poor, "a").status_code == 402
    assert not IdempotentRequest.objects.exists()
    factories.credit(bob, 100)
    answered = ask(poor, "a")
    assert (answered.status_code, "Idempotent-Replayed" in answered) == (200, False)


def test_a_retry_runs_after_a_provider_failure(api):
    assert ask(api, "a", echo={"status": 500}).status_code == 502
    assert not IdempotentRequest.objects.exists()
    assert (ask(api, "a").status_code, debits()) == (200, 1)


def test_a_retry_runs_after_a_broken_stream(api):
    assert b'"error"' in content(ask(api, "a", stream=True, echo={"break_after_tokens": 1}))
    assert not IdempotentRequest.objects.exists()
    again = ask(api, "a", stream=True)
    assert "Idempotent-Replayed" not in again
    assert content(again).endswith(b"data: [DONE]\n\n")


def test_a_retry_after_a_disconnect_gets_the_whole_reply(api, alice):
    stream = ask(api, "a", stream=True)
    next(iter(stream.streaming_content))
    disconnect(stream)
    assert Completion.objects.get().settlement == "reported"
    again = ask(api, "a", stream=True)
    first_content = content(again)
    assert again["Idempotent-Replayed"] == "true"
    assert first_content.count(b"data: ") == 6  # the role, three words, the finish reason, [DONE]
    assert first_content.endswith(b"data: [DONE]\n\n")
    assert debits() == 1
    assert audit.verify(alice.pk) == []


def test_an_expired_key_admits_a_new_request(api):
    first = ask(api, "a").json()["id"]
    IdempotentRequest.objects.update(expires_at=pool.database_time())
    second = ask(api, "a")
    assert ("Idempotent-Replayed" in second, second.json()["id"] == first) == (False, False)
    assert ask(api, "a").json() == second.json()
    assert debits() == 2


def test_a_key_is_stored_for_a_day_and_then_deleted(api):
    ask(api, "a")
    stored = IdempotentRequest.objects.get()
    assert stored.expires_at - stored.completion.created_at == timedelta(hours=24)
    assert tasks.forget_idempotent_requests() == 0
    IdempotentRequest.objects.update(expires_at=pool.database_time())
    assert tasks.forget_idempotent_requests() == 1
    assert not IdempotentRequest.objects.exists()


def test_a_stored_reply_is_encrypted(api):
    ask(api, "a")
    assert "Say it once" not in IdempotentRequest.objects.get().sealed_reply
    with connection.cursor() as cursor:
        cursor.execute("SELECT row_to_json(r)::text FROM completions_idempotentrequest r")
        assert "Say it once" not in cursor.fetchone()[0]


@pytest.mark.parametrize("stream", [False, True])
def test_a_reply_too_large_to_store_is_charged_once_and_not_repeated(api, settings, stream):
    settings.IDEMPOTENT_REPLY_BYTES_MAX = 100
    assert ask(api, "a", stream=stream).status_code == 200 if not stream else content(ask(api, "a", stream=True))
    refused = ask(api, "a", stream=stream)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "Idempotency-Key")
    assert debits() == 1


def test_a_replay_uses_neither_money_nor_rate_limit(alice):
    api = client_for(factories.make_key(alice, requests_per_minute=1)[1])
    first = ask(api, "a")
    assert ask(api, "a").json() == first.json()
    assert ask(api, "b").status_code == 429


def test_a_revoked_api_key_gets_no_replay(alice):
    key, secret = factories.make_key(alice)
    api = client_for(secret)
    ask(api, "a")
    key.__class__.objects.filter(pk=key.pk).update(revoked_at=pool.database_time())
    assert ask(api, "a").status_code == 401


def test_a_retry_runs_after_the_hold_of_a_dead_process_expired(api):
    unread = ask(api, "a", stream=True)
    Hold.objects.update(expires_at=pool.database_time() - timedelta(seconds=1))
    assert tasks.release_expired_holds() == 1
    assert (ask(api, "a").status_code, debits()) == (200, 1)
    disconnect(unread)


@pytest.mark.django_db(transaction=True)
def test_of_twenty_concurrent_retries_one_runs(echo_model):
    account = factories.make_account("Eager", cents=100)
    secret = factories.make_key(account)[1]
    replies = []

    def one():
        replies.append(ask(client_for(secret), "a", echo={"delay_seconds": 0.05}))
        connection.close()

    threads = [threading.Thread(target=one) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    statuses = [reply.status_code for reply in replies]
    assert set(statuses) <= {200, 409}
    assert len({reply.json()["id"] for reply in replies if reply.status_code == 200}) == 1
    assert debits() == 1
    assert audit.verify(account.pk) == []
