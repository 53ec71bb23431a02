"""Settlements that the database cannot take are stored on disk, and charged exactly once when it is back."""

import io
import json
import os
import re
import stat
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core.checks import run_checks
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import InternalError, connection, transaction
from django.db.models.functions import Now
from msgspec import structs

from billing import locks
from billing.models import Account, Hold, LedgerEntry
from completions import tasks
from completions.charging.admission import Admitted
from completions.charging.batch import AdmissionLost
from completions.charging.records import CompletionRecord
from completions.charging.recovery import checkpoints, drains, file_lock, outbox, owed
from completions.charging.recovery.drains import Outcome
from completions.charging.resolution import ReplyRetention, Resolution
from completions.models import Completion, IdempotentRequest
from completions.pricing.usage import Usage
from gateway_project import metrics
from gateway_project.db import pool
from gateway_project.db.pipelined_transaction import PipelinedConnection
from keys.budgets.runs import AskedRun
from keys.models import Run
from tests import factories
from tests.cases import raising
from tests.chat import everything_written
from tests.completions import settlements
from tests.completions.admitted import admit, at_once, expire
from tests.completions.charging.recovery.checkpoint_rows import FIELDS, grow_old
from tests.completions.charging.recovery.outbox_files import _outbox, drain, files, forget, store, total
from tests.completions.rows import assert_charged, assert_released, parsed
from tests.faults import fault
from tests.ledger_audit import assert_ledger_is_consistent
from tests.outage import with_the_database_unavailable
from tests.waiting import meanwhile

__all__ = ["_outbox"]


@pytest.fixture
def key(alice):
    return factories.make_key(alice)[0]


def ask(api, **headers: str) -> Any:
    """Begin a stream without reading any of it."""
    return api.post("/v1/chat/completions", FIELDS, headers=headers)


def read_during_outage(reply) -> bytes:
    PipelinedConnection.close_all()
    return with_the_database_unavailable(lambda: b"".join(reply.streaming_content))


# --- In an outage ------------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_a_stream_that_ends_in_an_outage_is_completed_and_its_settlement_stored(api, settings):
    reply = ask(api, **{"Idempotency-Key": "once"})
    before, stored = everything_written(), total(metrics.outbox_stored_total)
    body = read_during_outage(reply)
    assert parsed(body)[-1] == "[DONE]"
    assert everything_written() == before
    [completion] = Completion.objects.all()
    path = settings.OUTBOX_DIR / f"{completion.pk}.json"
    assert files(settings) == [path.name]
    assert [stat.S_IMODE(each.stat().st_mode) for each in (settings.OUTBOX_DIR, path)] == [0o700, 0o600]
    record = json.loads(path.read_text())
    sealed_reply, prompt_tokens = record["reply_retention"].pop("sealed_reply"), record["usage"]["prompt_tokens"]
    *_, first_token_ms, streamed_ms, _, _ = record["served_by"]
    assert min(first_token_ms, streamed_ms) >= 0
    assert "four bytes" not in path.read_text()
    assert len(sealed_reply) > len(body)
    assert record == {
        "version": 2,
        "completion": completion.pk,
        "admission": json.loads(json.dumps(structs.asdict(CompletionRecord.from_row(completion)), default=str)),
        "served_by": ["demo/echo", completion.price_id, "echo", 1, first_token_ms, streamed_ms, None, None],
        "settlement": "reported",
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": 40,
            "cached_tokens": 0,
            "cache_write_tokens": 0,
            "reasoning_tokens": 0,
            "cache_write_1h_tokens": 0,
            "tier": "",
        },
        "cost_nanos": prompt_tokens * 500 + 40 * 1_500,
        "reply_retention": {"is_kept": True},
        "idempotency_key": {"value": "once", "fingerprint": IdempotentRequest.objects.get().fingerprint},
        "unpaid_nanos": 0,
    }
    assert total(metrics.outbox_stored_total) - stored == 1


@pytest.mark.django_db(transaction=True)
def test_a_stored_settlement_is_charged_exactly_once_and_its_reply_replayed(api, alice, settings):
    body = read_during_outage(ask(api, **{"Idempotency-Key": "once"}))
    [path] = outbox.waiting_files()
    record = json.loads(path.read_text())
    assert tasks.release_expired_holds() == 0
    assert_charged(
        alice, "reported", prompt=record["usage"]["prompt_tokens"], completion=40, nanos=record["cost_nanos"], model="demo/echo"
    )
    assert files(settings) == []
    settled = everything_written()
    again = ask(api, **{"Idempotency-Key": "once"})
    assert (again.status_code, again["Idempotent-Replayed"], again.content) == (200, "true", body)
    assert drains.drain() == {}
    assert everything_written() == settled


@fault(
    "Disk",
    "The database is unavailable, and the outbox not writable",
    "The stream ends with an error event; the log names its completion as neither settled nor stored",
)
@pytest.mark.django_db(transaction=True)
def test_a_stream_ends_in_an_error_when_the_disk_refuses_its_settlement(api, settings, tmp_path, caplog, capfd):
    (tmp_path / "file").write_text("")
    settings.OUTBOX_DIR = tmp_path / "file" / "outbox"
    *_, last = parsed(read_during_outage(ask(api)))
    assert last["error"]["code"] == "service_unavailable"
    assert Hold.objects.get().state == "HELD"
    assert not LedgerEntry.objects.filter(type="USAGE_DEBIT").exists()
    assert_ledger_is_consistent()
    assert "is neither settled" in caplog.text
    assert "Traceback" not in capfd.readouterr().err


def test_a_stored_file_and_its_directory_are_synced(key, settings, monkeypatch):
    done = []

    def watched(name):
        act = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *args: (done.append((name, what(args[0]))), act(*args))[1])

    def what(place: Any) -> str:
        kind = os.fstat(place).st_mode if isinstance(place, int) else os.stat(place).st_mode
        return "directory" if stat.S_ISDIR(kind) else "file"

    watched("fsync")
    watched("rename")
    store(admit(key))
    assert done == [("fsync", "file"), ("rename", "file"), ("fsync", "directory")]


# --- Draining ----------------------------------------------------------------------------------------------------


def test_a_stored_release_frees_its_hold(alice, key, settings):
    store(admit(key), Completion.Settlement.RELEASED)
    assert drains.drain() == {Outcome.RESOLVED: 1}
    assert files(settings) == []
    assert_released(alice)


@pytest.mark.parametrize("is_old", [False, True], ids=["with", "of an earlier release"])
def test_a_stored_release_counts_what_it_left_unpaid(alice, key, settings, is_old):
    completion_id = store(admit(key), Completion.Settlement.RELEASED, None, None, None, 20_000)
    path = settings.OUTBOX_DIR / f"{completion_id}.json"
    record = json.loads(path.read_text())
    assert record["unpaid_nanos"] == 20_000
    if is_old:
        del record["unpaid_nanos"]
        path.write_text(json.dumps(record))
    assert drains.drain() == {Outcome.RESOLVED: 1}
    assert_released(alice)
    assert (alice.unpaid_until is None) == is_old


@fault(
    "Worker",
    "Several processes drain one outbox at once",
    "Each settlement is charged once",
)
@pytest.mark.django_db(transaction=True)
def test_concurrent_drains_charge_once(alice, key, settings):
    for _ in range(6):
        store(admit(key))
    at_once(*[drains.drain] * 2)
    assert files(settings) == []
    alice.refresh_from_db()
    assert (alice.balance_nanos, alice.held_nanos) == (10_000_000_000 - 6 * 20_000, 0)
    assert LedgerEntry.objects.filter(type="USAGE_DEBIT").count() == 6
    assert set(Completion.objects.values_list("settlement", "cost_nanos")) == {("reported", 20_000)}
    assert_ledger_is_consistent()


def test_a_file_whose_settlement_is_committed_charges_nothing(alice, key, settings, caplog):
    admitted = admit(key)
    store(admitted)
    assert settlements.settle(admitted, Usage(10, 10), Completion.Settlement.REPORTED) == 20_000
    loss = total(metrics.operator_loss_nanos)
    assert drains.drain() == {Outcome.ALREADY_RESOLVED: 1}
    assert files(settings) == []
    assert total(metrics.operator_loss_nanos) == loss
    assert "is corrected" not in caplog.text
    assert_charged(alice, "reported", prompt=10, completion=10, nanos=20_000, model="demo/echo")


@fault(
    "Worker",
    "A settlement waits on one host's disk until its hold has expired, and another host sweeps",
    "It is charged exactly, not estimated",
)
def test_another_host_leaves_a_settlement_that_waits_on_disk_alone(alice, key, settings, tmp_path):
    completion_id = store(admit(key))
    Hold.objects.update(expires_at=Now())
    Completion.objects.update(checkpointed_at=Now() - timedelta(minutes=10))
    checkpoints.announce([completion_id])
    own, settings.OUTBOX_DIR = settings.OUTBOX_DIR, tmp_path / "another-host"
    assert tasks.release_expired_holds() == 0
    settings.OUTBOX_DIR = own
    assert drains.drain() == {Outcome.RESOLVED: 1}
    assert_charged(alice, "reported", prompt=10, completion=10, nanos=20_000, model="demo/echo")


def test_a_settlement_is_announced_by_one_worker_of_its_host_and_not_once_settled(key):
    waiting, settled = admit(key), admit(key)
    Completion.objects.update(checkpointed_at=Now() - timedelta(minutes=10))
    settlements.release(settled)
    rows = {completion.pk: completion.checkpointed_at for completion in Completion.objects.all()}
    checkpoints.announce(list(rows))
    announced = Completion.objects.get(pk=waiting.completion.id).checkpointed_at
    assert announced > rows[waiting.completion.id]
    checkpoints.announce(list(rows))
    assert Completion.objects.get(pk=waiting.completion.id).checkpointed_at == announced
    assert Completion.objects.get(pk=settled.completion.id).checkpointed_at == rows[settled.completion.id]


def test_the_sweeper_drains_the_outbox_before_it_estimates(alice, key):
    admitted = admit(key)
    with checkpoints.track(admitted.completion) as checkpoint:
        checkpoint.relayed_bytes = 4
        checkpoints.write()
    grow_old()
    store(admitted)
    assert tasks.release_expired_holds() == 0
    assert_charged(alice, "reported", prompt=10, completion=10, nanos=20_000, model="demo/echo")


BROKEN = {
    "empty": lambda record: "",
    "cut off": lambda record: json.dumps(record)[:-9],
    "no object": lambda record: "[1]",
    "of another version": lambda record: json.dumps({**record, "version": 3}),
    "for another completion": lambda record: json.dumps({**record, "completion": "chatcmpl-other"}),
    "a settlement unknown": lambda record: json.dumps({**record, "settlement": "free"}),
    "a cost that is a float": lambda record: json.dumps({**record, "cost_nanos": 1.5}),
    "a cost that is no number": lambda record: json.dumps({**record, "cost_nanos": True}),
    "a cost below zero": lambda record: json.dumps({**record, "cost_nanos": -1}),
    "unpaid work below zero": lambda record: json.dumps({**record, "unpaid_nanos": -1}),
    "a cost without a usage": lambda record: json.dumps({**record, "usage": None}),
    "a usage of something else": lambda record: json.dumps({**record, "usage": {"prompt_tokens": 1, "apples": 2}}),
}


@fault(
    "Disk",
    "A file in the outbox is damaged",
    "It becomes a dead letter and holds up no other",
)
@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_an_unreadable_file_becomes_a_dead_letter_and_holds_up_no_other(alice, key, settings, caplog, broken):
    bad, good = store(admit(key)), store(admit(key))
    path = settings.OUTBOX_DIR / f"{bad}.json"
    path.write_text(broken(json.loads(path.read_text())))
    dead_letters = total(metrics.outbox_dead_letters_total)
    assert drains.drain() == {Outcome.DEAD_LETTER: 1, Outcome.RESOLVED: 1}
    assert files(settings) == [f"{bad}.dead"]
    assert total(metrics.outbox_dead_letters_total) - dead_letters == 1
    assert f"{bad}.json is a dead letter" in caplog.text
    assert Completion.objects.get(pk=bad).settlement is None
    assert [entry.reference for entry in LedgerEntry.objects.filter(type="USAGE_DEBIT")] == [good]
    assert_ledger_is_consistent()


def store_forgotten(admit: Callable[[], Admitted], tokens: int = 10, retention: ReplyRetention | None = None) -> str:
    """Store the settlement of a completion that the database has forgotten."""
    admitted = forget(admit)
    ending = (Completion.Settlement.REPORTED, Usage(10, tokens), 5_000 + tokens * 1_500, retention)
    outbox.store_forgotten(Resolution(admitted.completion, settlements.served_by(admitted), *ending), AdmissionLost("lost"))
    return admitted.completion.id


def test_a_forgotten_completion_is_admitted_again_and_charged(alice, key, settings):
    completion_id, loss = store_forgotten(lambda: admit(key)), total(metrics.operator_loss_nanos)
    text = (settings.OUTBOX_DIR / f"{completion_id}.json").read_text()
    known = store(admit(key))
    assert drain() == {Outcome.RESOLVED: 2}
    assert files(settings) == []
    assert set(LedgerEntry.objects.filter(type="USAGE_DEBIT").values_list("reference", "amount_nanos")) == {
        (completion_id, -20_000),
        (known, -20_000),
    }
    assert total(metrics.operator_loss_nanos) == loss
    assert_ledger_is_consistent()
    outbox.put_back(completion_id, text)
    assert drain() == {Outcome.ALREADY_RESOLVED: 1}
    alice.refresh_from_db()
    assert (alice.balance_nanos, alice.held_nanos) == (10_000_000_000 - 2 * 20_000, 0)


def test_a_forgotten_run_begins_again_with_its_budget_and_deadline(alice, key):
    deadline = pool.database_time() + timedelta(hours=1)
    completion_id = store_forgotten(lambda: admit(key, AskedRun("nightly", 10**9, deadline)))
    assert not Run.objects.exists()
    assert drain() == {Outcome.RESOLVED: 1}
    run = Run.objects.get()
    assert (run.budget_nanos, run.spent_nanos, run.held_nanos, run.requests) == (10**9, 20_000, 0, 1)
    assert run.deadline == deadline
    assert Completion.objects.get().pk == completion_id
    assert_ledger_is_consistent()


def test_a_readmission_whose_process_dies_before_its_charge_is_charged_later(alice, key, settings, monkeypatch):
    store_forgotten(lambda: admit(key))
    with monkeypatch.context() as patch:
        patch.setattr(owed, "resolve_all", raising(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            drains.drain()
    assert settlements.expire(Completion.objects.get())  # the sweeper takes it for abandoned
    assert drain() == {Outcome.RESOLVED: 1}
    alice.refresh_from_db()
    assert (alice.balance_nanos, alice.held_nanos, files(settings)) == (10_000_000_000 - 20_000, 0, [])
    assert_ledger_is_consistent()


def test_a_forgotten_completion_waits_for_money_that_running_requests_hold(alice, key, settings):
    completion_id = store_forgotten(lambda: admit(key))
    Hold(reference="running", account=alice, amount_nanos=9_999_990_000, state="HELD", expires_at=Now()).save(force_insert=True)
    Account.objects.filter(pk=alice.pk).update(held_nanos=9_999_990_000, open_holds=1)
    assert drain() == {Outcome.WAITING: 1}
    assert files(settings) == [f"{completion_id}.json"]
    Hold.objects.all().update(state="RELEASED", resolved_at=Now())
    Account.objects.filter(pk=alice.pk).update(held_nanos=0, open_holds=0)
    assert drain() == {Outcome.RESOLVED: 1}


def test_a_standby_that_is_not_promoted_yet_forgets_nothing(alice, key, settings):
    completion_id = store_forgotten(lambda: admit(key))
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION READ ONLY")
        pytest.raises(InternalError, drain)
        transaction.set_rollback(True)
    assert files(settings) == [f"{completion_id}.json"]
    assert drain() == {Outcome.RESOLVED: 1}


def test_a_file_of_another_database_becomes_a_dead_letter(alice, key, settings, caplog):
    completion_id = store(admit(key))
    path = settings.OUTBOX_DIR / f"{completion_id}.json"
    for other, text in (
        ("chatcmpl-account", path.read_text().replace(str(alice.pk), "00000000-0000-7000-8000-000000000000")),
        ("chatcmpl-tokens", re.sub(r'"prompt_estimate": \d+', f'"prompt_estimate": {10**30}', path.read_text())),
    ):
        (settings.OUTBOX_DIR / f"{other}.json").write_text(text.replace(completion_id, other))
    path.unlink()
    before, loss = everything_written(), total(metrics.operator_loss_nanos)
    assert drain() == {Outcome.DEAD_LETTER: 2}
    assert files(settings) == ["chatcmpl-account.dead", "chatcmpl-tokens.dead"]
    assert "it was to cost 20000 nanodollars" in caplog.text
    assert total(metrics.operator_loss_nanos) - loss == 40_000
    assert everything_written() == before


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("impatient")
def test_a_locked_account_is_reported_once_in_a_drain_however_many_files_it_has(alice, key, settings, caplog):
    for _ in range(3):
        store(admit(key))
    caplog.clear()
    with meanwhile(lambda: locks.lock_account(alice.pk)):
        assert drains.drain() == {Outcome.WAITING: 3}
    reports = [record for record in caplog.records if record.name == "gateway.outbox"]
    assert [str(alice.pk) in record.getMessage() for record in reports] == [True]
    assert drains.drain() == {Outcome.RESOLVED: 3}


@pytest.mark.django_db(transaction=True)
@fault(
    "Worker",
    "Many settlements wait on disk after an outage",
    "They share transactions, within bounds",
)
def test_files_share_a_transaction_within_its_bounds(alice, key, settings, monkeypatch):
    """The first is tried alone; then few large ones, or many small ones."""
    for _ in range(6):
        store(admit(key))
    sizes = [path.stat().st_size for path in outbox.waiting_files()]
    monkeypatch.setattr(drains, "_BYTES_MAX", sum(sizes[1:3]))
    monkeypatch.setattr(drains, "_FILES_MAX", 4)
    batches, resolve_all = [], owed.resolve_all
    monkeypatch.setattr(owed, "resolve_all", lambda ready: batches.append(len(ready)) or resolve_all(ready))
    assert drains.drain() == {Outcome.RESOLVED: 6}
    assert batches == [1, 2, 2, 1]
    for _ in range(6):
        store(admit(key))
    monkeypatch.setattr(drains, "_BYTES_MAX", 10**9)
    assert drains.drain() == {Outcome.RESOLVED: 6}
    assert batches[4:] == [1, 4, 1]


@pytest.mark.django_db(transaction=True)
def test_a_drain_that_hangs_keeps_no_sweeper_waiting_and_gives_nothing_away(alice, key, charlie, settings, monkeypatch):
    monkeypatch.setattr(drains, "_LOCK_SECONDS", 0)
    waiting, lost = admit(key), admit(factories.make_key(charlie)[0])
    store(waiting)
    expire(waiting, lost)
    with file_lock.locked(settings.OUTBOX_DIR) as is_locked:
        assert is_locked
        assert drains.drain() == {Outcome.WAITING: 1}
        assert tasks.release_expired_holds() == 1
    assert Completion.objects.get(pk=lost.completion.id).settlement == "expired"
    assert drains.drain() == {Outcome.RESOLVED: 1}
    assert_charged(alice, "reported", prompt=10, completion=10, nanos=20_000, model="demo/echo")


@fault(
    "Database",
    "The row of an account is locked while settlements wait on disk",
    "Other accounts' settlements are charged, then its own",
)
@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("impatient")
def test_a_locked_account_holds_up_no_other_file(alice, key, charlie, settings):
    store(admit(key))
    store(admit(factories.make_key(charlie)[0]))
    with meanwhile(lambda: locks.lock_account(alice.pk)):
        assert drains.drain() == {Outcome.WAITING: 1, Outcome.RESOLVED: 1}
        assert Completion.objects.get(account=charlie).settlement == "reported"
        assert len(files(settings)) == 1
    assert drains.drain() == {Outcome.RESOLVED: 1}
    assert_charged(alice, "reported", prompt=10, completion=10, nanos=20_000, model="demo/echo")


# --- What operators see ------------------------------------------------------------------------------------------


def run(*arguments: str, name: str = "drain_outbox") -> Any:
    printed = io.StringIO()
    try:
        call_command(name, *arguments, stdout=printed, stderr=io.StringIO())
    except CommandError as error:
        return printed.getvalue(), str(error)
    return printed.getvalue(), None


def test_the_command_drains_and_reports(alice, key, settings):
    store(admit(key))
    printed, error = run("--json")
    assert (json.loads(printed), error) == ({"resolved": 1, "alreadyResolved": 0, "deadLetters": 0, "waiting": 0}, None)
    assert_charged(alice, "reported", prompt=10, completion=10, nanos=20_000, model="demo/echo")
    assert run() == ("0 settled, 0 were settled before.\n", None)


def test_the_command_fails_when_something_is_left(key, settings):
    completion_id = store(admit(key))
    (settings.OUTBOX_DIR / f"{completion_id}.json").write_text("{")
    printed, error = run("--json")
    assert json.loads(printed)["deadLetters"] == 1
    assert "0 still wait, 1 became dead letters" in error


@pytest.mark.django_db(transaction=True)
def test_the_command_changes_nothing_while_the_database_is_unavailable(key, settings):
    completion_id = store(admit(key))
    _, error = with_the_database_unavailable(run)
    assert error.startswith("The database is unavailable: ")
    assert files(settings) == [f"{completion_id}.json"]


def test_dead_letters_are_booked_or_discarded_by_hand(bob, settings):
    factories.credit(bob, 1)
    key = factories.make_key(bob)[0]
    booked, discarded = (store_forgotten(lambda: admit(key), tokens=10_000) for _ in range(2))
    repeatable = store_forgotten(lambda: admit(key), retention=ReplyRetention("encrypted", is_kept=True))
    before = everything_written()
    assert drain() == {Outcome.DEAD_LETTER: 3}  # the account cannot pay two, and may have paid one already
    assert everything_written() == before
    (settings.OUTBOX_DIR / "chatcmpl-damaged.dead").write_text("{")

    listed = json.loads(run("--json", name="dead_letters")[0])["deadLetters"]
    kinds = {each["completion"]: each["kind"] for each in listed}
    assert kinds == {booked: "forgotten", repeatable: "repeatable", discarded: "forgotten", "chatcmpl-damaged": "unreadable"}
    costs = {each["completion"]: (each["account"], each["costNanos"]) for each in listed if "account" in each}
    assert costs[booked] == (str(bob.pk), 15_005_000)

    assert run("--discard", discarded, name="dead_letters")[1] is None
    assert "stays: The account has too few credits" in run("--book", booked, name="dead_letters")[1]
    factories.credit(bob, 1)
    printed, error = run("--json", "--book", "all", name="dead_letters")
    assert json.loads(printed)["booked"] == {booked: 15_005_000}
    assert f"{repeatable} stays: the database forgot its admission, and its caller may" in error
    assert files(settings) == [f"{repeatable}.dead", "chatcmpl-damaged.dead"]
    [entry] = LedgerEntry.objects.filter(type="USAGE_DEBIT")
    assert (entry.reference, entry.amount_nanos, entry.spender) == (booked, -15_005_000, key.pk)
    assert_ledger_is_consistent()
    assert run("--book", booked, name="dead_letters") == ("", f"There is no such dead letter: {booked}.")
    assert run("--discard", "all", name="dead_letters")[1] is None
    assert run(name="dead_letters") == ("There are no dead letters.\n", None)


def test_an_outbox_that_cannot_be_written_fails_a_check(settings, tmp_path):
    assert [each.id for each in run_checks() if each.id == "gateway.E009"] == []
    assert stat.S_IMODE(settings.OUTBOX_DIR.stat().st_mode) == 0o700
    (tmp_path / "file").write_text("")
    settings.OUTBOX_DIR = tmp_path / "file" / "outbox"
    assert [each.id for each in run_checks() if each.id == "gateway.E009"] == ["gateway.E009"]
