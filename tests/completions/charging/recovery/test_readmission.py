"""What the database forgot, of requests with an Idempotency-Key: each is charged once, whenever its caller repeats it."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now
from msgspec import structs

from billing.models import Account
from completions.catalog import lookup
from completions.charging import admission, idempotency
from completions.charging.admission import Admitted
from completions.charging.batch import AdmissionLost
from completions.charging.idempotency import IdempotencyKey
from completions.charging.recovery import journal, outbox
from completions.charging.recovery.drains import Outcome
from completions.charging.recovery.journal import Found
from completions.charging.resolution import ReplyRetention, Resolution
from completions.models import Completion, IdempotentRequest
from completions.pricing.usage import Usage
from completions.request import schema
from gateway_project import metrics
from keys.authentication import Caller
from keys.budgets.runs import AskedRun
from keys.models import Run
from tests import factories
from tests.completions import settlements
from tests.completions.charging.recovery.outbox_files import drain, files, forget, total
from tests.faults import fault
from tests.ledger_audit import assert_ledger_is_consistent

BODY = {"model": "demo/echo", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 10}
REPLY = b'{"id": "first"}'
COST_NANOS = 20_000  # of 10 tokens of prompt and 10 of reply


@pytest.fixture(autouse=True)
def _outbox(settings, tmp_path, echo_model, alice):
    settings.OUTBOX_DIR = tmp_path / "outbox"
    factories.make_key(alice)


@pytest.fixture
def sealed() -> str:
    return idempotency.seal(REPLY)


@pytest.fixture
def forgotten(alice, sealed) -> str:
    """The id of a completion that the database has forgotten, and whose settlement is on disk."""
    return store_forgotten(forget(lambda: admit(alice)), sealed)


def idempotency_key() -> IdempotencyKey:
    request: Any = type("", (), {"META": {"HTTP_IDEMPOTENCY_KEY": "once"}})
    key = idempotency.read_key(request, BODY)
    assert key
    return key


def admit(account: Account, run: AskedRun | None = None) -> Admitted:
    key = account.keys.order_by("pk")[0]
    caller, offer = Caller(key_id=key.pk, account_id=account.pk), lookup.find_offer("demo/echo")
    admitted = admission.admit(admission.prepare(schema.parse(BODY), [offer], caller, idempotency_key(), run=run))
    assert isinstance(admitted, Admitted)
    return admitted


def store_forgotten(admitted: Admitted, sealed: str) -> str:
    retention = ReplyRetention(sealed, True, idempotency_key())
    ending = (Completion.Settlement.REPORTED, Usage(10, 10), COST_NANOS, retention)
    ended = Resolution(admitted.completion, settlements.served_by(admitted), *ending)
    outbox.store_forgotten(ended, AdmissionLost("lost"))
    return admitted.completion.id


def repeat(api):
    return api.post("/v1/chat/completions", BODY, headers={"Idempotency-Key": "once"})


def spent(account: Account) -> int:
    assert_ledger_is_consistent()
    account.refresh_from_db()
    return 10_000_000_000 - account.balance_nanos


@fault(
    "Client",
    "A database crash forgets a request with an Idempotency-Key, and its caller repeats it",
    "One is charged: the first, whose reply the repetition gets, or the repetition, if it came before the first was"
    " admitted again",
)
@pytest.mark.parametrize("is_before", [False, True], ids=["afterwards", "before"])
def test_a_forgotten_request_is_charged_once_whenever_it_is_repeated(api, alice, forgotten, settings, is_before):
    loss = total(metrics.operator_loss_nanos)
    if is_before:
        again = repeat(api)
        charged_nanos = spent(alice)
        assert (again.status_code, charged_nanos > 0, "Idempotent-Replayed" in again) == (200, True, False)
        assert drain() == {Outcome.DEAD_LETTER: 1}
        assert total(metrics.operator_loss_nanos) - loss == COST_NANOS
        assert (spent(alice), files(settings)) == (charged_nanos, [f"{forgotten}.dead"])
    else:
        assert drain() == {Outcome.RESOLVED: 1}
        again = repeat(api)
        assert (again.status_code, again.content, again["Idempotent-Replayed"]) == (200, REPLY, "true")
        assert (spent(alice), files(settings), total(metrics.operator_loss_nanos)) == (COST_NANOS, [], loss)


@pytest.mark.parametrize("budget_nanos", [None, 2 * COST_NANOS, COST_NANOS - 1])
def test_a_forgotten_request_counts_on_its_run_also_if_another_began_it_since(alice, sealed, budget_nanos):
    store_forgotten(forget(lambda: admit(alice, AskedRun("nightly", 10**9, None))), sealed)
    Run.objects.all().delete()
    if budget_nanos:
        Run.objects.create(key=alice.keys.get(), name="nightly", budget_nanos=budget_nanos)
    assert drain() == {Outcome.RESOLVED: 1}
    run, charged_nanos = Run.objects.get(), min(COST_NANOS, budget_nanos or COST_NANOS)
    assert (run.budget_nanos, run.spent_nanos, run.held_nanos) == (budget_nanos or 10**9, charged_nanos, 0)
    assert (Completion.objects.get().run_budget_nanos, spent(alice)) == (run.budget_nanos, charged_nanos)


def test_a_repetition_after_a_failover_is_told_that_the_first_was_charged(api, alice, settings, monkeypatch):
    settings.SETTLEMENT_JOURNAL_MINUTES = 5
    monkeypatch.setattr(journal, "_open", None)

    def serve() -> Admitted:
        admitted = admit(alice)
        settlements.settle(admitted, Usage(10, 10), Completion.Settlement.REPORTED, reply=REPLY)
        return admitted

    forget(serve)
    assert journal.replay() == {Found.LOST: 1}
    assert drain() == {Outcome.RESOLVED: 1}
    again = repeat(api)
    assert (again.status_code, again["Idempotent-Stored"]) == (400, "false")
    assert spent(alice) == COST_NANOS
    assert journal._open
    journal._open[1].close()


def test_a_repetition_that_runs_is_not_charged_beside_the_forgotten_one(alice, forgotten, sealed):
    running = admit(alice)
    assert drain() == {Outcome.DEAD_LETTER: 1}
    assert settlements.settle(running, Usage(10, 10), Completion.Settlement.REPORTED, reply=REPLY) == COST_NANOS
    assert spent(alice) == COST_NANOS


def test_a_forgotten_run_that_followed_an_earlier_one_is_charged(alice, sealed):
    """The database forgot, too, that the key led to it: the key leads to the earlier run again, which is no repetition."""
    lost, earlier = forget(lambda: admit(alice)), admit(alice)
    assert settlements.expire(Completion.objects.get(pk=earlier.completion.id))
    store_forgotten(replace_completion(lost, repeats=earlier.completion.id), sealed)
    assert drain() == {Outcome.RESOLVED: 1}
    assert spent(alice) == COST_NANOS


def test_of_two_forgotten_runs_of_a_request_one_is_charged(alice, forgotten, sealed):
    store_forgotten(forget(lambda: admit(alice)), sealed)
    assert drain() == {Outcome.RESOLVED: 1, Outcome.DEAD_LETTER: 1}
    assert spent(alice) == COST_NANOS


def test_it_is_left_to_an_operator_when_a_repetition_may_have_been_deleted(alice, sealed):
    admitted = forget(lambda: admit(alice))
    long_ago = admitted.completion.created_at - idempotency.RETENTION + timedelta(minutes=30)
    store_forgotten(replace_completion(admitted, created_at=long_ago), sealed)
    assert drain() == {Outcome.DEAD_LETTER: 1}
    assert spent(alice) == 0


def replace_completion(admitted: Admitted, **changed: Any) -> Admitted:
    return Admitted(
        structs.replace(admitted.completion, **changed), *[getattr(admitted, name) for name in Admitted.__struct_fields__[1:]]
    )


def test_an_expired_key_is_replaced_with_its_reply(alice, forgotten, sealed):
    IdempotentRequest.objects.create(
        account=alice,
        key="once",
        fingerprint="of another request",
        completion_id=settled(alice),
        is_stream=False,
        sealed_reply="x" * 100,
        reply_bytes=100,
        expires_at=Now() - timedelta(seconds=1),
    )
    Account.objects.update(stored_reply_bytes=100)
    assert drain() == {Outcome.RESOLVED: 1}
    alice.refresh_from_db()
    stored = IdempotentRequest.objects.get()
    assert (stored.completion_id, stored.sealed_reply, alice.stored_reply_bytes) == (forgotten, sealed, len(sealed))


def settled(account: Account) -> str:
    """Return the id of a completion whose key is deleted."""
    admitted = admit(account)
    settlements.release(admitted)
    return admitted.completion.id


def test_a_process_of_the_former_release_reads_the_file(forgotten, settings):
    record = json.loads((settings.OUTBOX_DIR / f"{forgotten}.json").read_text())
    assert set(record["reply_retention"]) == {"sealed_reply", "is_kept"}
    assert record["idempotency_key"]["value"] == "once"
