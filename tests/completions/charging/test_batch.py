"""A batch waits for other writers' locks and sees what they wrote, and each of its decisions sees those before it."""

import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from typing import Any

import psycopg
import pytest
from django.db import OperationalError, connection, transaction
from django.db.models.functions import Now

from billing import locks
from billing.models import Account, AccountAlert, Hold, LedgerEntry
from completions.charging import batch
from completions.charging.recovery import drains, outbox
from completions.models import Completion, IdempotentRequest, LanguageModel
from gateway_project.db import durability, pipelined_transaction, pool
from gateway_project.db.group_commit import Unavailable
from gateway_project.db.pipelined_transaction import PipelinedConnection, PipelinedTransaction, Statement, _Pipeline
from keys import lifecycle, rotation
from keys import locks as key_locks
from keys.models import ApiKey, SpendingDay
from tests import cells, chat, factories, usage
from tests.completions import settlements
from tests.completions.charging.worst_cases import CENT, INPUT, OUTPUT, with_balance, worst_case
from tests.conftest import client_for
from tests.faults import fault
from tests.ledger_audit import assert_ledger_is_consistent
from tests.waiting import SECONDS_MAX, meanwhile, somebody_waits, until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("echo_model")]

COMMITTER = batch._committers[cells.NUMBER]
GROUP_COMMIT = COMMITTER.group_commit


WHOLE = chat.body(max_tokens=10).ljust(200)
STREAMED = chat.body(max_tokens=10, stream=True).ljust(200)
NEED_NANOS = worst_case(WHOLE, 10)  # of either
COST_NANOS = 6 * INPUT + 3 * OUTPUT


@pytest.fixture(autouse=True)
def _fresh_connection():
    """Close connections, which may have another test's time limits."""
    PipelinedConnection.close_all()


@pytest.fixture
def threads():
    with ThreadPoolExecutor(20) as threads:
        yield threads


@pytest.fixture
def other():
    """A key of another account, for a request that keeps the group commit busy."""
    return factories.make_key(factories.make_account("Other", cents=100))


def begin(threads: ThreadPoolExecutor, work: Callable[[], Any]) -> "Future[Any]":
    """Run ``work`` in a thread, on a connection of its own."""

    def run() -> Any:
        try:
            return work()
        finally:
            connection.close()

    return threads.submit(run)


def ask(secret: str, raw: bytes = WHOLE, **extra: Any) -> Any:
    return chat.send(client_for(secret), raw, **extra)


def lock_model() -> None:
    """Keep every batch that inserts a completion from its commit."""
    LanguageModel.objects.select_for_update().get()


def in_one_batch(threads: ThreadPoolExecutor, other: tuple[ApiKey, str], *works: Callable[[], Any]) -> list["Future[Any]"]:
    """Submit operations while another request's batch waits for a lock, so that they share the next batch, in this order."""
    with meanwhile(lock_model):
        begin(threads, lambda: ask(other[1]))
        until(somebody_waits)
        begun = []
        for work in works:
            begun.append(begin(threads, work))
            until(lambda: len(GROUP_COMMIT._waiting) == len(begun))
        waiting = list(GROUP_COMMIT._waiting)
        assert len(waiting) == len(works)
    until(lambda: not any(each in GROUP_COMMIT._waiting for each in waiting))
    return begun


def statuses(asked: list["Future[Any]"]) -> list[int]:
    return [each.result().status_code for each in asked]


# --- Other writers -----------------------------------------------------------------------------------------------------


def test_admission_waits_for_a_locked_account_and_sees_its_holds(threads, alice):
    secret = factories.make_key(alice)[1]
    with transaction.atomic():
        usage.place(alice, alice.balance_nanos, reference="all of it")
        asking = begin(threads, lambda: ask(secret))
        until(lambda: asking.done() or somebody_waits())
    chat.assert_error(asking.result(), 429, "rate_limit_exceeded")
    assert [hold.pk for hold in Hold.objects.all()] == ["all of it"]
    assert usage.violations() == []


def test_admission_waits_for_a_locked_key_and_sees_its_revocation(threads, alice):
    key, secret = factories.make_key(alice)
    with transaction.atomic():
        key_locks.lock_key(key.pk)
        ApiKey.objects.filter(pk=key.pk).update(revoked_at=Now())
        asking = begin(threads, lambda: ask(secret))
        until(lambda: asking.done() or somebody_waits())
    chat.assert_error(asking.result(), 401, "invalid_api_key")
    assert not Hold.objects.exists()


@pytest.mark.parametrize("owner", ["key", "account"])
def test_admission_waits_for_a_locked_row_and_sees_its_demand_about_data(threads, alice, owner):
    key, secret = factories.make_key(alice)
    with transaction.atomic():
        row = ApiKey.objects.filter(pk=key.pk) if owner == "key" else Account.objects.filter(pk=alice.pk)
        row.update(data_regions=["eu"])
        asking = begin(threads, lambda: ask(secret))
        until(lambda: asking.done() or somebody_waits())
    error = chat.assert_error(asking.result(), 404, "data_demand_unmet", "model")
    assert error["demands"] == {owner: {"region": ["eu"]}}
    assert not Hold.objects.exists()


@pytest.mark.parametrize("act", ["pause", "rotate"])
def test_admission_waits_for_a_key_that_is_paused_or_rotated_and_refuses_it(threads, alice, act):
    key, secret = factories.make_key(alice)
    with transaction.atomic():
        if act == "pause":
            lifecycle.pause_key(key)
        else:
            rotation.rotate_secret(key, grace=timedelta(0))
        asking = begin(threads, lambda: ask(secret))
        until(lambda: asking.done() or somebody_waits())
    chat.assert_error(asking.result(), 401, "invalid_api_key")
    assert not Hold.objects.exists()


def test_a_batch_locks_accounts_before_keys(threads, alice):
    key, secret = factories.make_key(alice)
    with transaction.atomic():
        locks.lock_account(alice.pk)
        asking = begin(threads, lambda: ask(secret))
        until(somebody_waits)
        assert ApiKey.objects.select_for_update(nowait=True).get(pk=key.pk)  # the batch has not locked it yet
    assert asking.result().status_code == 200


# --- Locked by a session that was forgotten ------------------------------------------------------------------------------


def assert_charged_once(*accounts: Account) -> None:
    entries = LedgerEntry.objects.filter(type="USAGE_DEBIT").values_list("account_id", "amount_nanos")
    assert sorted(entries) == sorted((account.pk, -COST_NANOS) for account in accounts)
    assert set(Hold.objects.values_list("state", flat=True)) == {"SETTLED"}
    assert_ledger_is_consistent()


@fault(
    "Database",
    "A session locks the row of an account or a key for ever",
    "All other accounts are served",
)
@pytest.mark.parametrize("lock", ["account", "key"])
def test_other_accounts_are_served_while_one_is_locked(threads, alice, charlie, lock):
    locked, secret = factories.make_key(alice)
    lock_row = partial(locks.lock_account, alice.pk) if lock == "account" else partial(key_locks.lock_key, locked.pk)
    streamed = ask(secret, STREAMED)
    with meanwhile(lock_row):
        waiting = [begin(threads, work) for work in (lambda: ask(secret), lambda: ask(secret), streamed.getvalue)]
        until(somebody_waits)
        assert ask(factories.make_key(charlie)[1]).status_code == 200
        assert LedgerEntry.objects.get(type="USAGE_DEBIT").account_id == charlie.pk
        assert not any(each.done() for each in waiting)
    assert statuses(waiting[:2]) == [200, 200]
    assert b"[DONE]" in waiting[2].result()
    assert_charged_once(alice, alice, alice, charlie)


@fault(
    "Database",
    "Sessions lock the rows of many accounts",
    "All other accounts are served",
)
def test_other_accounts_are_served_while_more_are_locked_than_wait_on_connections_of_their_own(threads, charlie):
    accounts = [factories.make_account(f"Locked {number}", cents=100) for number in range(GROUP_COMMIT._isolated_max + 2)]
    secrets = [factories.make_key(account)[1] for account in accounts]
    with meanwhile(lambda: [locks.lock_account(pk) for pk in sorted(account.pk for account in accounts)]):
        waiting = [begin(threads, partial(ask, secret)) for secret in secrets]
        until(lambda: len(GROUP_COMMIT._isolated) == GROUP_COMMIT._isolated_max)
        assert ask(factories.make_key(charlie)[1]).status_code == 200
        assert not any(each.done() for each in waiting)
    assert statuses(waiting) == [200] * len(accounts)
    assert_charged_once(*accounts, charlie)


@fault(
    "Database",
    "The row of an account stays locked",
    "Its requests get 503 with `Retry-After`; others are served, and nothing is charged twice",
)
def test_requests_of_an_account_that_stays_locked_are_refused_and_nothing_else_is(impatient, threads, alice, charlie):
    secret = factories.make_key(alice)[1]
    with meanwhile(lambda: locks.lock_account(alice.pk)):
        refused = [begin(threads, lambda: ask(secret)) for _ in range(3)]
        assert ask(factories.make_key(charlie)[1]).status_code == 200
        for each in refused:
            chat.assert_error(each.result(), 503, "service_unavailable")
            assert each.result()["retry-after"] == "2"
    assert_charged_once(charlie)
    assert ask(secret).status_code == 200
    assert_charged_once(charlie, alice)


# --- In one batch ------------------------------------------------------------------------------------------------------


def key_with_balance_left(left_nanos: int) -> str:
    return factories.make_key(with_balance(left_nanos))[1]


def key_with_limit_left(left_nanos: int) -> str:
    key, secret = factories.make_key(factories.make_account("Limited", cents=1_000), limit_cents=1, type="FIXED")
    SpendingDay.objects.create(key=key, day=pool.database_time().date(), spent_nanos=CENT - left_nanos)
    return secret


MONEY = pytest.mark.parametrize("with_left", [key_with_balance_left, key_with_limit_left], ids=["balance", "limit"])


@MONEY
def test_a_batch_admits_as_many_requests_as_the_money_covers(threads, other, with_left):
    secret = with_left(3 * NEED_NANOS)
    asked = in_one_batch(threads, other, *[lambda: ask(secret)] * 6)
    assert Counter(statuses(asked)) == {200: 3, 429: 3}
    assert {each.result()["retry-after"] for each in asked if each.result().status_code == 429} == {"1"}
    assert Hold.objects.exclude(account=other[0].account_id).count() == 3


def test_a_batch_admits_as_many_requests_as_the_rate_limit_allows(threads, other, alice):
    key, secret = factories.make_key(alice, requests_per_minute=3)
    asked = in_one_batch(threads, other, *[lambda: ask(secret)] * 6)
    assert Counter(statuses(asked)) == {200: 3, 429: 3}
    assert SpendingDay.objects.get(key=key).completions == 3


def test_a_batch_admits_as_many_requests_for_a_model_as_its_maximum(threads, other, alice):
    LanguageModel.objects.update(requests_in_flight_max=2)
    _, secret = factories.make_key(alice)
    asked = in_one_batch(threads, other, *[lambda: ask(secret)] * 3)
    assert statuses(asked) == [200, 200, 429]


def test_a_batch_admits_one_request_per_idempotency_key(threads, other, alice):
    secret = factories.make_key(alice)[1]
    asked = in_one_batch(threads, other, *[lambda: ask(secret, HTTP_IDEMPOTENCY_KEY="a")] * 3)
    assert Counter(statuses(asked)) == {200: 1, 409: 2}
    assert Completion.objects.filter(account=alice).count() == 1


@MONEY
def test_an_admission_can_hold_what_a_settlement_of_its_batch_frees(threads, other, with_left):
    secret = with_left(2 * NEED_NANOS - 1)
    running = ask(secret, STREAMED)
    asked, streamed = in_one_batch(threads, other, lambda: ask(secret), running.getvalue)
    assert b"[DONE]" in streamed.result()
    assert asked.result().status_code == 200


@MONEY
def test_an_admission_cannot_hold_what_a_settlement_of_its_batch_spent(threads, other, with_left):
    secret = with_left(NEED_NANOS + COST_NANOS - 1)
    running = ask(secret, STREAMED)
    asked, streamed = in_one_batch(threads, other, lambda: ask(secret), running.getvalue)
    assert b"[DONE]" in streamed.result()
    assert asked.result().status_code in (402, 429)


def test_settlements_at_once_tell_each_crossing_once(threads):
    """Of twenty, the tenth takes the balance below its threshold, and the sixteenth the key to 80 % of its limit."""
    account = factories.make_account(cents=100)
    Account.objects.update(warning_threshold_cents=99)
    usage.debit(account, CENT - 9 * COST_NANOS - 1, "before")
    key, secret = factories.make_key(account, limit_cents=1, type="FIXED")
    SpendingDay.objects.create(key=key, day=pool.database_time().date(), spent_nanos=CENT * 80 // 100 - 15 * COST_NANOS - 1)
    assert statuses([begin(threads, lambda: ask(secret)) for _ in range(20)]) == [200] * 20
    assert Counter(AccountAlert.objects.values_list("kind", flat=True)) == {"BALANCE_LOW": 1, "KEY_NEAR_LIMIT": 1}


def test_the_time_of_a_batch_is_read_after_its_locks(threads, alice, monkeypatch):
    secret, rows, read = factories.make_key(alice)[1], [], batch._lock_and_read
    monkeypatch.setattr(batch, "_lock_and_read", lambda *given: rows.append(read(*given)) or rows[-1])
    with transaction.atomic():
        locks.lock_account(alice.pk)
        asking = begin(threads, lambda: ask(secret))
        until(somebody_waits)
        held_until = pool.database_time()
    assert asking.result().status_code == 200
    assert next(each for each in rows if each.accounts).now > held_until


def test_only_the_commit_of_a_settlement_alone_waits_for_the_disk(monkeypatch, alice):
    settings, write = [], PipelinedTransaction.write

    def written(steps: PipelinedTransaction, statements: Any) -> None:
        settings.extend(steps._pipeline.run([Statement("SELECT to_json(current_setting('synchronous_commit'))")])[0])
        write(steps, statements)

    monkeypatch.setattr(PipelinedTransaction, "write", written)
    assert ask(factories.make_key(alice)[1]).status_code == 200
    assert settings == ["off", "on"]


def test_an_admission_of_an_account_that_was_locked_does_not_wait_for_the_disk(threads, alice, monkeypatch):
    """It has a batch of its own, and there is no session that flushes."""
    durability._connection.close()
    secret, is_durable, run = factories.make_key(alice)[1], [], PipelinedConnection.run

    def note(self: PipelinedConnection, work: Any, **options: Any) -> Any:
        if self is not COMMITTER._connection:
            is_durable.append(options["is_durable"])
        return run(self, work, **options)

    monkeypatch.setattr(PipelinedConnection, "run", note)
    with transaction.atomic():
        locks.lock_account(alice.pk)
        asking = begin(threads, lambda: ask(secret, STREAMED))
        until(lambda: GROUP_COMMIT._isolated)
    assert asking.result().status_code == 200
    assert is_durable == [False]


def test_settlements_together_let_go_of_their_rows_and_then_wait_for_the_disk(threads, other, alice, monkeypatch):
    secrets = [factories.make_key(alice)[1] for _ in range(2)]
    assert durability.open_session()
    running, is_on_disk, flush = [ask(secret, STREAMED) for secret in secrets], threading.Event(), durability._flushes._run

    def flush_late(numbers: list[int | None], is_rerun: bool) -> list[Any]:
        assert numbers == [durability._ANY_SESSION] or is_on_disk.wait(SECONDS_MAX)
        return flush(numbers, is_rerun)

    monkeypatch.setattr(durability._flushes, "_run", flush_late)
    streamed = in_one_batch(threads, other, *(reply.getvalue for reply in running))
    until(lambda: LedgerEntry.objects.filter(account=alice, type="USAGE_DEBIT").count() == 2)
    with transaction.atomic():
        locks.lock_account(alice.pk)  # nothing keeps it locked
    assert not any(each.done() for each in streamed)
    is_on_disk.set()
    assert all(b"[DONE]" in each.result() for each in streamed)


def test_settlements_without_a_session_that_flushes_wait_in_their_commit_and_one_is_opened(threads, other, alice):
    durability._connection.close()
    running = [ask(factories.make_key(alice)[1], STREAMED) for _ in range(2)]
    streamed = in_one_batch(threads, other, *(reply.getvalue for reply in running))
    assert all(b"[DONE]" in each.result() for each in streamed)
    assert durability.session() == durability._connection.sessions


def test_a_settlement_that_is_found_charged_waits_for_the_disk(alice, monkeypatch):
    """It may have been charged by an earlier try, whose flush failed."""
    assert ask(factories.make_key(alice)[1]).status_code == 200
    flushed, flush = [], durability._flushes._run
    monkeypatch.setattr(durability._flushes, "_run", lambda *given: flushed.append(given) or flush(*given))
    durability._connection.close()
    assert not settlements.expire(Completion.objects.get())
    assert [numbers for numbers, _ in flushed] == [[durability._ANY_SESSION], [durability._connection.sessions]]


def test_a_settlement_whose_wait_for_the_disk_fails_is_charged_once(threads, other, alice, monkeypatch):
    assert durability.open_session()
    running, flush, flushed = [ask(factories.make_key(alice)[1], STREAMED) for _ in range(2)], durability._flushes._run, []

    def fail_once(numbers: list[int | None], is_rerun: bool) -> list[Any]:
        if numbers == [durability._ANY_SESSION] or flushed:
            return flush(numbers, is_rerun)
        flushed.extend(numbers)
        raise Unavailable from OperationalError("the connection was lost")

    monkeypatch.setattr(durability._flushes, "_run", fail_once)
    streamed = in_one_batch(threads, other, *(reply.getvalue for reply in running))
    assert all(b"[DONE]" in each.result() for each in streamed)
    assert flushed
    monkeypatch.undo()
    until(lambda: not durability._flushes._all_refused_until or time.monotonic() > durability._flushes._all_refused_until)
    drains.drain()  # what could not be proved in time is on disk there
    assert not outbox.has_waiting()
    assert LedgerEntry.objects.filter(account=alice, type="USAGE_DEBIT").count() == 2
    assert_ledger_is_consistent()


# --- A COMMIT whose answer is lost -------------------------------------------------------------------------------------


def cut_off(monkeypatch: pytest.MonkeyPatch, number: int) -> list[PipelinedTransaction]:
    """Lose the connection right after the transaction of that number was committed. Return the written transactions."""
    write, written = PipelinedTransaction.write, []

    def write_and_be_cut_off(self: PipelinedTransaction, *args: Any, **options: Any) -> None:
        write(self, *args, **options)
        written.append(self)
        if len(written) == number:
            assert isinstance(self._pipeline, _Pipeline)
            self._pipeline._libpq.finish()
            raise psycopg.OperationalError("the connection was lost")

    monkeypatch.setattr(PipelinedTransaction, "write", write_and_be_cut_off)
    return written


@fault(
    "Network",
    "The connection breaks between a COMMIT and its answer",
    "The transaction takes effect once",
)
@pytest.mark.parametrize("number", [1, 2], ids=["admission", "settlement"])
def test_a_commit_whose_answer_is_lost_takes_effect_once(alice, monkeypatch, number):
    written = cut_off(monkeypatch, number)
    assert ask(factories.make_key(alice)[1]).status_code == 200
    assert len(written) == 2  # nothing was written again
    assert [hold.settled_nanos for hold in Hold.objects.all()] == [COST_NANOS]
    assert Completion.objects.get().settlement == "reported"
    assert LedgerEntry.objects.get(type="USAGE_DEBIT").amount_nanos == -COST_NANOS
    assert_ledger_is_consistent()


@fault(
    "Network",
    "A COMMIT is answered after the time limit",
    "The transaction takes effect once",
)
@pytest.mark.parametrize("number", [1, 2], ids=["admission", "settlement"])
def test_a_commit_that_is_answered_too_late_takes_effect_once(alice, monkeypatch, number):
    """The connection works, but the wait for the answer exceeds its time limit."""
    run, committed = _Pipeline.run, []

    def run_and_time_out(self: _Pipeline, statements: Any) -> Any:
        answers = run(self, statements)
        if statements[-1].sql == "COMMIT" and statements[1] != durability._MESSAGE:
            committed.append(statements)
            if len(committed) == number:
                raise OperationalError("the database did not answer within 10 seconds")
        return answers

    monkeypatch.setattr(_Pipeline, "run", run_and_time_out)
    assert ask(factories.make_key(alice)[1]).status_code == 200
    assert len(committed) == 2  # nothing was written again
    assert [hold.settled_nanos for hold in Hold.objects.all()] == [COST_NANOS]
    assert LedgerEntry.objects.get(type="USAGE_DEBIT").amount_nanos == -COST_NANOS
    assert_ledger_is_consistent()


def test_a_refused_request_is_refused_again_when_its_batch_is_rerun(threads, other, alice, bob, monkeypatch):
    secrets = [factories.make_key(account)[1] for account in (alice, bob)]
    cut_off(monkeypatch, 2)  # the first is of the request that keeps the group commit busy
    asked = in_one_batch(threads, other, *(lambda secret=secret: ask(secret) for secret in secrets))
    assert statuses(asked) == [200, 402]
    assert LedgerEntry.objects.filter(account__in=[alice, bob], type="USAGE_DEBIT").count() == 1


# --- Model instances ----------------------------------------------------------------------------------------------


def test_instances_of_locked_rows_equal_those_of_django(alice):
    chat.send(client_for(factories.make_key(alice)[1]), chat.body(), HTTP_IDEMPOTENCY_KEY="once")
    for model in (Account, ApiKey, Hold, Completion, IdempotentRequest):
        [expected_instance] = model.objects.filter(pk__in=_ids_of(model, alice))
        [made] = pipelined_transaction.instances(
            model, pipelined_transaction.execute(pipelined_transaction.lock_rows_statement(model, [expected_instance.pk]))
        ).values()
        expected, found = vars(expected_instance), vars(made)
        assert (made._state.fields_cache, expected_instance._state.fields_cache) == ({}, {})  # reading the attribute makes it
        assert vars(found.pop("_state")) == vars(expected.pop("_state"))
        assert (model, found) == (model, expected)


def _ids_of(model: Any, account: Account) -> Any:
    rows = model.objects.filter(pk=account.pk) if model is Account else model.objects.filter(account=account)
    return rows.values("pk")
