"""A settlement that comes after the sweeper resolved its hold: the difference is booked, once, in either direction."""

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models.functions import Now
from msgspec import structs

from billing import locks, money
from billing.ledger import audit
from billing.models import Account, Hold, LedgerEntry, ManualEntry
from completions.charging import batch, idempotency
from completions.charging.records import ServedBy
from completions.charging.recovery import corrections, drains, outbox, owed, record
from completions.charging.recovery.drains import Outcome
from completions.charging.resolution import ReplyRetention, Resolution
from completions.models import Completion, IdempotentRequest
from completions.pricing.usage import Usage
from completions.usage import sums
from completions.usage.runs import by_model
from gateway_project import metrics
from gateway_project.db.group_commit import Skipped
from keys.budgets import monthly
from keys.budgets.runs import AskedRun
from keys.limits import spending
from keys.models import BudgetMonth, Run, SpendingDay
from tests import factories
from tests.cases import raising
from tests.completions import settlements
from tests.completions.admitted import admit
from tests.completions.charging.recovery.outbox_files import files, store, total
from tests.faults import fault
from tests.usage import refund
from tests.waiting import meanwhile

EXACT_NANOS = 20_000  # of 10 tokens of prompt and 10 of reply
ESTIMATED_NANOS = 2 * 500 + 1_500
FULL_NANOS = 10_000_000_000


@pytest.fixture(autouse=True)
def _outbox(settings, tmp_path, echo_model):
    settings.OUTBOX_DIR = tmp_path / "outbox"


@pytest.fixture
def key(alice):
    return factories.make_key(alice, limit_cents=10, type="RECURRING", period="DAILY")[0]


def sweep(relayed_bytes: int = 0) -> None:
    """Resolve the hold as another host does: release it, or charge an estimate."""
    completion = Completion.objects.get()
    assert settlements.recover(completion, relayed_bytes) if relayed_bytes else settlements.expire(completion)


def drain() -> dict[Outcome, int]:
    return drains.drain()


def spent(account: Account) -> int:
    """Return what the balance says that was spent. All sums of the account agree with it."""
    sums.sum_up()
    assert audit.verify(account.pk) == []
    account.refresh_from_db()
    [day] = SpendingDay.objects.filter(key__account=account)
    assert (day.spent_nanos, day.held_nanos, account.held_nanos) == (FULL_NANOS - account.balance_nanos, 0, 0)
    return FULL_NANOS - account.balance_nanos


@fault(
    "Disk",
    "A settlement appears on disk after another host swept its process as dead",
    "The sweeper's charge is corrected to the exact cost, once",
)
def test_a_charge_of_the_sweeper_is_corrected_to_what_the_disk_says(alice, key, settings):
    admitted = admit(key)
    completion_id = store(admitted)
    text = (settings.OUTBOX_DIR / f"{completion_id}.json").read_text()
    sweep(relayed_bytes=4)
    assert spent(alice) == ESTIMATED_NANOS
    loss = total(metrics.operator_loss_nanos)
    assert drain() == {Outcome.RESOLVED: 1}
    assert (spent(alice), files(settings), total(metrics.operator_loss_nanos)) == (EXACT_NANOS, [], loss)
    recovered, corrected = Completion.objects.order_by("id")
    assert (recovered.settlement, recovered.cost_nanos) == ("recovered", ESTIMATED_NANOS)
    assert (corrected.settlement, corrected.repeats) == ("corrected", completion_id)
    assert (corrected.prompt_tokens, corrected.completion_tokens) == (10, 10)
    assert corrected.cost_nanos == EXACT_NANOS - ESTIMATED_NANOS
    entry = LedgerEntry.objects.get(reference=corrected.pk)
    assert (entry.metadata["settlement"], entry.metadata["repeats"]) == ("corrected", completion_id)
    outbox.put_back(completion_id, text)
    assert drain() == {Outcome.ALREADY_RESOLVED: 1}
    assert (spent(alice), files(settings), Completion.objects.count()) == (EXACT_NANOS, [], 2)


def test_a_reply_that_was_given_away_is_charged(alice, key):
    admitted = admit(key)
    completion_id = store(admitted)
    sweep()
    assert spent(alice) == 0
    assert drain() == {Outcome.RESOLVED: 1}
    assert spent(alice) == EXACT_NANOS
    [entry] = LedgerEntry.objects.filter(type="USAGE_DEBIT")
    assert (entry.amount_nanos, entry.metadata["repeats"]) == (-EXACT_NANOS, completion_id)
    assert entry.spender == key.pk


def test_what_was_charged_too_much_is_given_back(alice, key, settings):
    completion_id = store(admit(key))
    text = (settings.OUTBOX_DIR / f"{completion_id}.json").read_text()
    sweep(relayed_bytes=4 * 80)
    assert spent(alice) == 2 * 500 + 80 * 1_500
    assert drain() == {Outcome.RESOLVED: 1}
    outbox.put_back(completion_id, text)
    assert drain() == {Outcome.ALREADY_RESOLVED: 1}
    assert spent(alice) == EXACT_NANOS
    [credit] = LedgerEntry.objects.filter(reference=f"overcharge:{completion_id}")
    assert (credit.type, credit.title, credit.amount_nanos) == ("SUPPORT_CREDIT", "Usage given back", 121_000 - EXACT_NANOS)
    assert (credit.metadata["completionId"], credit.metadata["model"]) == (completion_id, "demo/echo")
    assert ManualEntry.objects.filter(entry=credit).exists()
    corrected = Completion.objects.get(repeats=completion_id)
    assert (corrected.settlement, corrected.completion_tokens, corrected.cost_nanos) == ("corrected", 10, 0)
    window = spending.read_window(key)
    assert window
    assert window.spent_nanos == EXACT_NANOS


@pytest.mark.parametrize(
    ("relayed_bytes", "others"), [(0, None), (4, None), (4 * 80, None), (0, Usage(40, 100)), (4, Usage(40, 100))]
)
def test_a_correction_takes_what_its_run_has_left_at_most_and_gives_back_to_it(alice, key, relayed_bytes, others):
    monthly.set_budget(alice, amount_cents=1, action="STOP")
    run, loss = AskedRun("nightly", 180_000, None), total(metrics.operator_loss_nanos)
    store(admit(key, run))
    sweep(relayed_bytes)
    if others:
        settlements.settle(admit(key, run), others, Completion.Settlement.REPORTED)
    assert drain() == {Outcome.RESOLVED: 1}
    due_nanos, spent_nanos, in_force = EXACT_NANOS + (170_000 if others else 0), spent(alice), Run.objects.get()
    assert spent_nanos == min(due_nanos, 180_000)
    assert total(metrics.operator_loss_nanos) - loss == due_nanos - spent_nanos
    assert (in_force.spent_nanos, in_force.held_nanos, in_force.requests) == (spent_nanos, 0, 2 if others else 1)
    assert [each["requests"] for each in by_model(in_force)] == [in_force.requests]  # the correction is none
    assert BudgetMonth.objects.get().spent_nanos == spent_nanos


def test_what_was_charged_for_a_reply_that_costs_nothing_is_given_back(alice, key):
    store(admit(key), Completion.Settlement.RELEASED)
    sweep(relayed_bytes=4)
    assert drain() == {Outcome.RESOLVED: 1}
    assert spent(alice) == 0


def test_a_process_that_was_frozen_corrects_what_another_host_charged_meanwhile(alice, key):
    admitted = admit(key)
    sweep(relayed_bytes=4)
    loss = total(metrics.operator_loss_nanos)
    usage = Usage(10, 10)
    charged = [settlements.settle(admitted, usage, Completion.Settlement.REPORTED) for _ in range(2)]
    assert charged == [None, None]  # the reply does not tell what was charged in two parts
    assert (spent(alice), total(metrics.operator_loss_nanos)) == (EXACT_NANOS, loss)


@fault(
    "Worker",
    "A settlement comes after its process was swept as dead and the account spent the money",
    "The correction takes the available money; the rest is counted as a loss, once",
)
def test_a_correction_takes_what_the_balance_has_and_the_rest_is_lost_once(alice, key, settings):
    store(admit(key))
    sweep()
    another = Hold(reference="another", account=alice, amount_nanos=FULL_NANOS - 5_000, state="HELD", expires_at=Now())
    another.save(force_insert=True)
    Account.objects.filter(pk=alice.pk).update(held_nanos=another.amount_nanos, open_holds=1)
    loss = total(metrics.operator_loss_nanos)
    assert drain() == {Outcome.RESOLVED: 1}
    assert total(metrics.operator_loss_nanos) - loss == EXACT_NANOS - 5_000
    assert Completion.objects.get(settlement="corrected").cost_nanos == 5_000


def test_an_account_that_was_refunded_meanwhile_is_not_charged_below_zero(alice, key):
    store(admit(key))
    sweep()
    refund(alice, 1_100, "gone")
    loss = total(metrics.operator_loss_nanos)
    assert drain() == {Outcome.RESOLVED: 1}
    assert total(metrics.operator_loss_nanos) - loss == EXACT_NANOS
    alice.refresh_from_db()
    assert (alice.balance_nanos, alice.held_nanos) == (money.nanos(-100), 0)
    assert audit.verify(alice.pk) == []


def test_a_correction_costs_at_most_what_was_held(alice, key):
    admitted = admit(key)
    held_nanos = Hold.objects.get().amount_nanos
    store(admitted, Completion.Settlement.REPORTED, Usage(10, 1_000), 10 * 500 + 1_000 * 1_500)
    sweep(relayed_bytes=4)
    loss = total(metrics.operator_loss_nanos)
    assert drain() == {Outcome.RESOLVED: 1}
    assert spent(alice) == held_nanos
    assert total(metrics.operator_loss_nanos) - loss == 10 * 500 + 1_000 * 1_500 - held_nanos


@pytest.mark.django_db(transaction=True)
def test_a_correction_waits_for_a_locked_account(alice, key, settings):
    store(admit(key))
    sweep()
    with meanwhile(lambda: locks.lock_account(alice.pk)):
        assert drain() == {Outcome.WAITING: 1}
    assert drain() == {Outcome.RESOLVED: 1}
    assert (spent(alice), files(settings)) == (EXACT_NANOS, [])


@pytest.mark.parametrize("is_swept", [True, False])
def test_a_correction_whose_process_dies_in_the_middle_is_ended_or_made_again(alice, key, monkeypatch, is_swept):
    completion_id = store(admit(key))
    sweep(relayed_bytes=4)
    commit_together, commits = batch.commit_together, []

    def die(operations):
        commits.append(operations)  # the settlement, then the hold of its correction, and then its charge
        if len(commits) == 3:
            raise KeyboardInterrupt
        return commit_together(operations)

    with monkeypatch.context() as patch:
        patch.setattr(batch, "commit_together", die)
        with pytest.raises(KeyboardInterrupt):
            drain()
    begun = Completion.objects.get(repeats=completion_id)
    if is_swept:
        assert settlements.expire(begun)
    assert drain() == {Outcome.RESOLVED: 1}
    assert spent(alice) == EXACT_NANOS
    assert Completion.objects.latest("pk").settlement == "corrected"
    assert Completion.objects.count() == 2 + is_swept


@pytest.mark.django_db(transaction=True)
def test_a_correction_that_is_locked_out_in_the_middle_is_ended_by_the_next_try(alice, key, monkeypatch):
    store(admit(key))
    sweep(relayed_bytes=4)
    commit_together = batch.commit_together

    def lock_when_it_is_begun(operations):
        if not isinstance(operations[0], corrections.Correction):
            return commit_together(operations)
        with meanwhile(lambda: locks.lock_account(alice.pk)):
            return commit_together(operations)

    with monkeypatch.context() as patch:
        patch.setattr(batch, "commit_together", lock_when_it_is_begun)
        assert drain() == {Outcome.WAITING: 1}
    assert drain() == {Outcome.RESOLVED: 1}
    assert (spent(alice), Completion.objects.count()) == (EXACT_NANOS, 2)


@pytest.mark.django_db(transaction=True)
def test_of_two_processes_that_correct_at_once_one_does(alice, key, settings, monkeypatch):
    late = record.load(settings.OUTBOX_DIR / f"{store(admit(key))}.json", None)
    sweep(relayed_bytes=4)
    read = corrections._runs

    def read_and_be_overtaken(completion_id: str) -> list[Completion]:
        runs = read(completion_id)
        monkeypatch.setattr(corrections, "_runs", read)
        assert owed.resolve_all([late]) == [EXACT_NANOS - ESTIMATED_NANOS]
        return runs

    monkeypatch.setattr(corrections, "_runs", read_and_be_overtaken)
    [outcome] = owed.resolve_all([late])
    assert isinstance(outcome, Skipped)
    assert owed.resolve_all([late]) == [None]
    assert (spent(alice), Completion.objects.count()) == (EXACT_NANOS, 2)


@pytest.mark.django_db(transaction=True)
def test_a_sweeper_and_a_late_settlement_at_once_charge_the_exact_cost(alice, key):
    admitted, completion = admit(key), Completion.objects.get()

    def settle() -> None:
        settlements.settle(admitted, Usage(10, 10), Completion.Settlement.REPORTED)
        connection.close()

    def recover() -> None:
        settlements.recover(completion, 4)
        connection.close()

    with ThreadPoolExecutor(3) as threads:
        for ended in [threads.submit(work) for work in (settle, recover, settle)]:
            ended.result()
    drain()  # a settlement that found the other correcting
    assert spent(alice) == EXACT_NANOS


def test_a_correction_that_is_impossible_is_a_dead_letter_and_holds_up_no_other(alice, key, settings, monkeypatch):
    completion_id = store(admit(key))
    sweep(relayed_bytes=4)
    other_id = store(admit(key))
    monkeypatch.setattr(corrections, "correct", raising(LookupError("a bug")))
    assert drain() == {Outcome.DEAD_LETTER: 1, Outcome.RESOLVED: 1}
    assert files(settings) == [f"{completion_id}.dead"]
    assert Completion.objects.get(pk=other_id).cost_nanos == EXACT_NANOS


def test_an_estimate_corrects_no_other(alice, key):
    store(admit(key), Completion.Settlement.RECOVERED)
    sweep(relayed_bytes=4)
    assert drain() == {Outcome.ALREADY_RESOLVED: 1}
    assert spent(alice) == ESTIMATED_NANOS


# --- Under an Idempotency-Key ------------------------------------------------------------------------------------

BODY = {"model": "demo/echo", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 100}
HEADERS = {"Idempotency-Key": "once"}
FINGERPRINT = hashlib.sha256(json.dumps(BODY, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


@pytest.fixture
def late(alice, api, settings):
    """Run a request whose settlement goes to the disk only. Return its file's text, to be put back."""
    reply = b'{"id": "first"}'

    def begin(*, is_kept: bool = True, cost: tuple[Usage, int] = (Usage(10, 10), EXACT_NANOS)) -> Completion:
        key = alice.keys.get()
        admitted = admit(key)
        IdempotentRequest.objects.create(
            account=alice,
            key="once",
            fingerprint=FINGERPRINT,
            completion_id=admitted.completion.id,
            is_stream=False,
            expires_at=Now() + timedelta(hours=1),
        )
        retention = ReplyRetention(idempotency.seal(reply) if is_kept else None, is_kept=is_kept)
        store(admitted, Completion.Settlement.REPORTED, *cost, retention)
        return Completion.objects.get()

    return begin


def repeat(api):
    return api.post("/v1/chat/completions", BODY, headers=HEADERS)


@pytest.mark.parametrize("relayed_bytes", [0, 4])
def test_a_repetition_after_the_correction_gets_the_reply_and_pays_nothing(api, alice, late, relayed_bytes):
    late()
    sweep(relayed_bytes)
    assert drain() == {Outcome.RESOLVED: 1}
    again = repeat(api)
    assert (again.status_code, again.json(), again["Idempotent-Replayed"]) == (200, {"id": "first"}, "true")
    assert spent(alice) == EXACT_NANOS


@pytest.mark.parametrize("relayed_bytes", [0, 4])
def test_a_repetition_before_the_correction_costs_with_it_what_the_dearest_costs(api, alice, late, relayed_bytes):
    late()
    sweep(relayed_bytes)
    assert repeat(api).status_code == 200
    rerun_nanos = spent(alice)
    assert drain() == {Outcome.RESOLVED: 1}
    assert spent(alice) == max(rerun_nanos, EXACT_NANOS)
    assert repeat(api)["Idempotent-Replayed"] == "true"
    assert spent(alice) == max(rerun_nanos, EXACT_NANOS)


def test_a_repetition_that_runs_is_waited_for(api, alice, late):
    first = late()
    sweep(relayed_bytes=4)
    running = api.post("/v1/chat/completions", {**BODY, "stream": True}, headers={"Idempotency-Key": "other"})
    Completion.objects.filter(settlement=None).update(
        repeats=first.pk, charged_before_nanos=first.cost_nanos or ESTIMATED_NANOS
    )
    assert drain() == {Outcome.WAITING: 1}
    b"".join(running.streaming_content)
    assert drain() == {Outcome.RESOLVED: 1}


@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize(
    ("tokens", "relayed_bytes"), [((10, 30), (80, 160)), ((30, 10), (160, 320)), ((90, 30), (4, 80)), ((30, 90), (40, 4))]
)
def test_two_runs_that_both_were_swept_cost_with_their_corrections_what_the_dearest_costs(
    alice, key, settings, tokens, relayed_bytes, is_reversed
):
    """Both processes were frozen, and both settlements come late, in either order."""
    ids: list[str] = []
    for count, relayed in zip(tokens, relayed_bytes, strict=True):
        completion = admit(key).completion
        known: dict[str, Any] = {"request_id": f"req_{count}"}
        if ids:
            known |= {"repeats": ids[0], "charged_before_nanos": Completion.objects.get(pk=ids[0]).cost_nanos}
        Completion.objects.filter(pk=completion.id).update(**known)
        row = Completion.objects.select_related("price").get(pk=completion.id)
        usage, cost_nanos = Usage(10, count), 5_000 + 1_500 * count
        late = Resolution(
            structs.replace(completion, **known), ServedBy.from_row(row), Completion.Settlement.REPORTED, usage, cost_nanos
        )
        outbox.store(late, TimeoutError())
        ids.append(completion.id)
        assert settlements.recover(row, relayed)
    texts = {each: (settings.OUTBOX_DIR / f"{each}.json").read_text() for each in ids}
    for path in outbox.waiting_files():
        path.unlink()
    for completion_id in reversed(ids) if is_reversed else ids:
        outbox.put_back(completion_id, texts[completion_id])
        assert drain() == {Outcome.RESOLVED: 1}
    assert spent(alice) == 5_000 + 1_500 * max(tokens)
    for completion_id in ids:
        outbox.put_back(completion_id, texts[completion_id])
    assert drain() == {Outcome.ALREADY_RESOLVED: 2}


def test_a_request_without_a_kept_reply_runs_again_after_its_correction(api, alice, late):
    late(is_kept=False)
    sweep(relayed_bytes=4)
    assert drain() == {Outcome.RESOLVED: 1}
    assert "Idempotent-Replayed" not in repeat(api)
    assert Completion.objects.order_by("-id")[0].repeats is None
    assert spent(alice) > EXACT_NANOS
