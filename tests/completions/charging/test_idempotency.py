"""A retry with the same Idempotency-Key gets the same reply, and is charged once."""

import threading
from datetime import timedelta

import pytest
from cryptography.fernet import Fernet
from django.db import connection
from django.db.models.functions import Now

from billing import locks
from billing.ledger import audit
from billing.models import Account, Hold, LedgerEntry
from completions import tasks
from completions.charging import idempotency
from completions.charging.recovery import checkpoints
from completions.models import Completion, IdempotentRequest
from gateway_project import large_work, metrics
from gateway_project.db import pool
from keys.limits import reads
from tests import factories
from tests.completions.rows import abandon, disconnect
from tests.conftest import client_for
from tests.faults import fault
from tests.ledger_audit import assert_ledger_is_consistent
from tests.monotonic_clock import use_clock
from tests.waiting import meanwhile

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


@pytest.mark.parametrize(
    ("silence", "retry_after", "words"),
    [(9, "1", "still running"), (25, "60", "in about 100 sec"), (100, "25", "in about 25 sec"), (300, "1", "in about 1 sec")],
)
def test_a_retry_is_told_how_long_a_request_may_run_whose_process_seems_dead(api, silence, retry_after, words):
    running = ask(api, "a", stream=True)
    Completion.objects.update(checkpointed_at=Now() - timedelta(seconds=silence))
    refused = ask(api, "a", stream=True)
    assert (refused.status_code, refused["retry-after"]) == (409, retry_after)
    assert words in refused.json()["error"]["message"]
    disconnect(running)


# --- After the death of a process --------------------------------------------------------------------------------

LONG = {"stream": True, "max_tokens": 40, "echo": {"reply": "four bytes " * 18}}
LONG_NANOS = 6 * 500 + 36 * 1_500  # as the provider counts


def die(api, key, words):
    """Send a stream that dies after so many words of it were relayed, and is recovered."""
    running = ask(api, key, **LONG)
    assert running.status_code == 200
    Completion.objects.filter(settlement=None).update(
        checkpointed_at=Now() - checkpoints.ABANDONED_AFTER - timedelta(seconds=1), relayed_bytes=4 * words
    )
    assert tasks.release_expired_holds() == 1
    abandon(running)


def charges(account):
    entries = LedgerEntry.objects.filter(account=account, type="USAGE_DEBIT").order_by("seq")
    return [-nanos for nanos in entries.values_list("amount_nanos", flat=True)]


def recovered_nanos(words):
    return Completion.objects.order_by("id")[0].prompt_estimate * 500 + words * 1_500


@fault(
    "Client",
    "A client repeats a request whose process died",
    "It is told how long to wait. The request then runs again; both runs cost the price of one",
)
def test_a_request_whose_process_died_is_charged_once_in_all(api, alice):
    die(api, "a", 4)
    refused = ask(api, "a", **{**LONG, "max_tokens": 39})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "Idempotency-Key")
    other = client_for(factories.make_key(alice)[1])
    again = ask(other, "a", **LONG)
    first, second = Completion.objects.order_by("id")
    first_hold, second_hold = Hold.objects.order_by("reference")
    assert second_hold.amount_nanos == first_hold.amount_nanos - first.cost_nanos
    reply = content(again)
    assert (again.status_code, "Idempotent-Replayed" in again, reply[-14:]) == (200, False, b"data: [DONE]\n\n")
    assert charges(alice) == [recovered_nanos(4), LONG_NANOS - recovered_nanos(4)]
    entry = LedgerEntry.objects.get(reference=second.pk)
    assert (entry.metadata["repeats"], entry.metadata["completionTokens"]) == (first.pk, 36)
    assert entry.metadata["chargedBeforeInDollars"] == f"{recovered_nanos(4) / 10**9:.9f}".rstrip("0")
    assert content(ask(api, "a", **LONG)) == reply
    assert len(charges(alice)) == 2
    assert audit.verify(alice.pk) == []


def test_runs_that_die_again_and_again_cost_what_the_dearest_costs(api, alice):
    for words in (4, 2, 6):
        die(api, "a", words)
    loss_nanos = metrics.operator_loss_nanos._value.get()
    content(ask(api, "a", **LONG))
    assert charges(alice) == [recovered_nanos(4), 0, 2 * 1_500, LONG_NANOS - recovered_nanos(6)]
    assert metrics.operator_loss_nanos._value.get() - loss_nanos == recovered_nanos(6)  # of what the last run cost
    assert audit.verify(alice.pk) == []


def test_a_run_that_is_refused_or_fails_leaves_what_was_charged_to_the_next(api, alice, echo_model):
    die(api, "a", 4)
    Account.objects.filter(pk=alice.pk).update(is_active=False)
    assert ask(api, "a", **LONG).status_code == 401
    Account.objects.filter(pk=alice.pk).update(is_active=True)
    route = echo_model.routes.get()
    provider, route.provider = route.provider, factories.make_provider("gone", kind="openai", base_url="http://127.0.0.1:9")
    route.save()
    assert ask(api, "a", **LONG).status_code == 502
    route.provider = provider
    route.save()
    content(ask(api, "a", **LONG))
    assert charges(alice) == [recovered_nanos(4), LONG_NANOS - recovered_nanos(4)]
    assert audit.verify(alice.pk) == []


def test_money_for_one_run_pays_for_another_after_a_death(bob, echo_model):
    echo_model.prices.create(rates=factories.rates_of(input_nanos=500000000, output_nanos=240000000000))  # for a million
    factories.credit(bob, 1)
    api = client_for(factories.make_key(bob)[1])
    die(api, "a", 30)
    assert ask(api, "b", **LONG).status_code == 402
    assert content(ask(api, "a", **LONG)).endswith(b"data: [DONE]\n\n")
    assert sum(charges(bob)) == 6 * 500 + 36 * 240_000
    assert audit.verify(bob.pk) == []


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


@pytest.mark.parametrize("breaks", [1, 4, 30])
def test_a_retry_after_a_broken_stream_costs_its_own_reply_in_full_beside_what_had_arrived(api, alice, breaks):
    """Nothing of the broken stream counts for it, as what a dead process had charged does; it is itself charged once."""
    echo = {"reply": "four bytes " * 18, "break_after_tokens": breaks}
    assert b'"error"' in content(ask(api, "a", **{**LONG, "echo": echo}))
    [broken_nanos] = charges(alice)
    reply = content(ask(api, "a", **LONG))
    assert content(ask(api, "a", **LONG)) == reply
    assert broken_nanos > 0
    assert charges(alice) == [broken_nanos, LONG_NANOS]
    metadata = LedgerEntry.objects.filter(type="USAGE_DEBIT").order_by("seq").values_list("metadata", flat=True)
    assert ["repeats" in each for each in metadata] == [False, False]
    assert list(Completion.objects.order_by("created_at").values_list("settlement", flat=True)) == ["partial", "reported"]
    assert audit.verify(alice.pk) == []


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


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("impatient")
def test_a_locked_account_keeps_no_other_accounts_keys_from_being_deleted(api, alice, charlie, caplog):
    ask(api, "a")
    ask(client_for(factories.make_key(charlie)[1]), "a")
    IdempotentRequest.objects.update(expires_at=pool.database_time())
    with meanwhile(lambda: locks.lock_account(alice.pk)):
        assert tasks.forget_idempotent_requests() == 1
    assert IdempotentRequest.objects.get().account == alice
    assert caplog.text.count(f"account {alice.pk} is locked by another session") == 1
    assert tasks.forget_idempotent_requests() == 1
    assert_ledger_is_consistent()


def test_a_stored_reply_is_encrypted(api):
    ask(api, "a")
    assert "Say it once" not in IdempotentRequest.objects.get().sealed_reply
    with connection.cursor() as cursor:
        cursor.execute("SELECT row_to_json(r)::text FROM completions_idempotentrequest r")
        assert "Say it once" not in cursor.fetchone()[0]


def test_the_batch_that_finds_a_stored_reply_does_not_read_it(api, monkeypatch):
    """It holds the locks of others, too."""
    ask(api, "a")
    found = []
    build = idempotency.build_stored
    monkeypatch.setattr(idempotency, "build_stored", lambda rows: build([found.append(dict(row)) or row for row in rows]))
    assert ask(api, "a")["Idempotent-Replayed"] == "true"
    sealed_reply = IdempotentRequest.objects.get().sealed_reply
    assert [row["has_reply"] for row in found] == [True]
    assert sealed_reply not in str(found)


def test_a_large_stored_reply_is_decrypted_in_a_turn(api, monkeypatch):
    ask(api, "a")
    turns = []
    take_turn = large_work.turn
    monkeypatch.setattr(large_work, "turn", lambda size_bytes: turns.append(size_bytes) or take_turn(size_bytes))
    assert ask(api, "a").status_code == 200
    assert len(IdempotentRequest.objects.get().sealed_reply) in turns


def test_a_reply_that_is_deleted_while_it_is_repeated_asks_to_try_again(api, monkeypatch):
    ask(api, "a")
    find = idempotency.check

    def find_and_expire(*args):
        found = find(*args)
        IdempotentRequest.objects.all().delete()
        return found

    with monkeypatch.context() as patch:
        patch.setattr(idempotency, "check", find_and_expire)
        assert ask(api, "a").status_code == 503
    assert debits() == 1


def test_so_many_repetitions_a_minute_get_the_stored_reply_and_the_next_a_429(api, settings, monkeypatch):
    clock = use_clock(monkeypatch, reads)
    clock.stop()
    settings.KEY_READS_PER_MINUTE = 3
    ask(api, "a")
    assert [ask(api, "a").status_code for _ in range(5)] == [200] * 3 + [429] * 2
    assert ask(api, "a")["retry-after"] == "20"
    assert (api.get("/v1/usage").status_code, ask(api, "b").status_code) == (200, 200)
    clock.move_on(20)
    assert ask(api, "a")["Idempotent-Replayed"] == "true"
    assert debits() == 2


@pytest.mark.parametrize("stream", [False, True])
def test_a_reply_too_large_to_store_is_charged_once_and_not_repeated(api, settings, stream):
    settings.IDEMPOTENT_REPLY_BYTES_MAX = 100
    assert ask(api, "a", stream=stream).status_code == 200 if not stream else content(ask(api, "a", stream=True))
    refused = ask(api, "a", stream=stream)
    error = refused.json()["error"]
    assert (refused.status_code, error["param"]) == (400, "Idempotency-Key")
    assert f"ran as {Completion.objects.get().pk} and was charged once" in error["message"]
    assert debits() == 1


@pytest.mark.parametrize("stream", [False, True])
def test_a_stored_reply_that_cannot_be_decrypted_is_a_conflict_and_not_charged_again(api, alice, settings, caplog, stream):
    content(ask(api, "a", stream=stream))
    completion = Completion.objects.get()
    settings.ENCRYPTION_KEYS = [Fernet.generate_key().decode()]

    refused = ask(api, "a", stream=stream)
    error = refused.json()["error"]
    assert (refused.status_code, error["code"], error["param"]) == (409, "reply_unreadable", "Idempotency-Key")
    assert refused["x-should-retry"] == "false"
    assert f"ran as {completion.pk} and was charged once" in error["message"]
    assert completion.pk in caplog.text
    assert (debits(), Completion.objects.count()) == (1, 1)
    assert ask(api, "b").status_code == 200
    assert audit.verify(alice.pk) == []


@pytest.fixture
def room(api, alice, settings):
    """Room for two small replies and a half."""
    ask(api, "to measure")
    settings.IDEMPOTENT_ACCOUNT_BYTES_MAX = stored_bytes(alice) * 5 // 2
    IdempotentRequest.objects.update(expires_at=pool.database_time() - timedelta(seconds=1))
    tasks.forget_idempotent_requests()


def stored_bytes(account):
    account.refresh_from_db()
    return account.stored_reply_bytes


@pytest.mark.usefixtures("room")
def test_the_oldest_reply_is_not_kept_when_the_account_has_no_room_for_another(api, alice, charlie, settings):
    replies = {key: content(ask(api, key)) for key in "abc"}
    assert stored_bytes(alice) <= settings.IDEMPOTENT_ACCOUNT_BYTES_MAX
    refused = ask(api, "a")
    error = refused.json()["error"]
    assert (refused.status_code, error["param"], refused["Idempotent-Stored"]) == (400, "Idempotency-Key", "false")
    assert f"ran as {IdempotentRequest.objects.get(key='a').completion_id} and was charged once" in error["message"]
    assert {key: content(ask(api, key)) for key in "bc"} == {key: replies[key] for key in "bc"}
    assert ask(client_for(factories.make_key(charlie)[1]), "a").status_code == 200
    assert debits() == 5
    assert_ledger_is_consistent()


@pytest.mark.usefixtures("room")
def test_replies_of_concurrent_requests_never_take_more_room_than_there_is(api, alice, settings):
    running = [ask(api, key, stream=True) for key in "abcdefgh"]
    for each in running:
        content(each)
    assert 0 < stored_bytes(alice) <= settings.IDEMPOTENT_ACCOUNT_BYTES_MAX
    stored = IdempotentRequest.objects.exclude(sealed_reply=None).count()
    assert 0 < stored < len(running)
    assert [ask(api, key, stream=True).status_code for key in "abcdefgh"] == [400] * (len(running) - stored) + [200] * stored
    assert debits() == len(running) + 1
    assert audit.verify(alice.pk) == []


@pytest.mark.parametrize("stream", [False, True])
def test_a_reply_larger_than_the_room_is_not_stored_and_evicts_nothing(api, alice, settings, stream):
    kept = content(ask(api, "a"))
    settings.IDEMPOTENT_ACCOUNT_BYTES_MAX = stored_bytes(alice)
    content(ask(api, "b", messages=[{"role": "user", "content": "word " * 500}], stream=stream))
    assert content(ask(api, "a")) == kept
    assert stored_bytes(alice) == settings.IDEMPOTENT_ACCOUNT_BYTES_MAX
    assert audit.verify(alice.pk) == []


@pytest.mark.usefixtures("room")
@pytest.mark.parametrize("is_deleted", [True, False], ids=["by the task", "used again"])
def test_deleted_keys_give_their_room_back(api, alice, is_deleted):
    ask(api, "a")
    IdempotentRequest.objects.update(expires_at=pool.database_time() - timedelta(seconds=1))
    if is_deleted:
        assert tasks.forget_idempotent_requests() == 1
        assert stored_bytes(alice) == 0
    assert "Idempotent-Stored" not in ask(api, "a")
    assert stored_bytes(alice) == IdempotentRequest.objects.get().reply_bytes > 0
    assert audit.verify(alice.pk) == []


def test_a_whole_reply_too_large_to_store_says_so(api, settings):
    settings.IDEMPOTENT_REPLY_BYTES_MAX = 100
    assert ask(api, "a")["Idempotent-Stored"] == "false"


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
    abandon(unread)
    again = ask(api, "a", stream=True)
    assert (again.status_code, content(again)[-14:], debits()) == (200, b"data: [DONE]\n\n", 1)
    first, second = Completion.objects.order_by("id")
    assert (first.settlement, second.repeats) == ("expired", first.pk)


@fault(
    "Client",
    "20 retries with one `Idempotency-Key` arrive at once",
    "One runs and is charged; the others get 409 or its reply",
)
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
