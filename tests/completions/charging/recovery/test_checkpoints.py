"""The sweeper charges what a dead process had relayed by its last checkpoint, and frees the rest of its holds soon."""

import pytest
from django.db.models.functions import Now

from billing.ledger import audit
from billing.models import Account, Hold, LedgerEntry
from completions import tasks
from completions.catalog import lookup
from completions.charging import admission
from completions.charging.recovery import checkpoints
from completions.models import Completion
from completions.request import schema
from keys.authentication import Caller
from tests import factories
from tests.completions.charging.recovery.checkpoint_rows import FIELDS, grow_old
from tests.completions.rows import assert_released, disconnect


@pytest.fixture(autouse=True)
def _model(echo_model):
    pass


def begin(api, **headers):
    """Begin a stream, and read the role and one word of it."""
    reply = api.post("/v1/chat/completions", {**FIELDS}, headers=headers)
    chunks = iter(reply.streaming_content)
    next(chunks), next(chunks)
    return reply


def test_a_running_completion_gets_a_checkpoint_of_its_relayed_bytes(api):
    reply = begin(api)
    checkpoints.write()
    written = Completion.objects.get()
    assert (written.relayed_bytes, written.settlement) == (5, None)
    assert written.checkpointed_at >= written.created_at
    disconnect(reply)


def test_an_ended_completion_gets_no_checkpoint(api):
    disconnect(begin(api))
    checkpoints.write()
    assert Completion.objects.get().checkpointed_at is None
    assert Completion.objects.get().pk not in checkpoints._running


def test_an_old_checkpoint_is_charged_and_the_rest_of_the_hold_is_freed(api, alice):
    reply = begin(api)
    checkpoints.write()
    grow_old()
    assert tasks.release_expired_holds() == 1
    done = Completion.objects.get()
    assert (done.settlement, done.prompt_tokens, done.completion_tokens) == ("recovered", done.prompt_estimate, 2)
    assert done.cost_nanos == done.prompt_estimate * 500 + 2 * 1_500
    assert LedgerEntry.objects.get(reference=done.pk).amount_nanos == -done.cost_nanos
    alice.refresh_from_db()
    assert (alice.held_nanos, Hold.objects.get().state) == (0, "SETTLED")
    disconnect(reply)  # the process still runs, and its settlement comes late
    corrected = Completion.objects.get(repeats=done.pk)
    assert (corrected.settlement, corrected.completion_tokens) == ("corrected", 40)
    assert audit.verify(alice.pk) == []


def test_a_recovered_completion_is_charged_at_its_admitted_price(api, echo_model):
    reply = begin(api)
    checkpoints.write()
    grow_old()
    echo_model.prices.create(rates=factories.rates_of(input_nanos=1, output_nanos=1))
    assert tasks.release_expired_holds() == 1
    done = Completion.objects.get()
    assert done.cost_nanos == done.prompt_estimate * 500 + 2 * 1_500
    disconnect(reply)


def test_the_sweeper_ignores_a_fresh_checkpoint(api):
    reply = begin(api)
    checkpoints.write()
    assert tasks.release_expired_holds() == 0
    assert Completion.objects.get().settlement is None
    disconnect(reply)


def test_a_completion_that_relayed_nothing_expires_without_a_charge(api, alice):
    reply = begin(api)
    checkpoints.write()
    grow_old()
    Completion.objects.update(relayed_bytes=None)
    assert tasks.release_expired_holds() == 1
    assert (Completion.objects.get().settlement, Hold.objects.get().state) == ("expired", "EXPIRED")
    assert not LedgerEntry.objects.filter(type="USAGE_DEBIT").exists()
    disconnect(reply)
    assert audit.verify(alice.pk) == []


def test_sweeping_twice_charges_once(api):
    reply = begin(api)
    checkpoints.write()
    grow_old()
    assert [tasks.release_expired_holds() for _ in range(2)] == [1, 0]
    assert LedgerEntry.objects.filter(type="USAGE_DEBIT").count() == 1
    disconnect(reply)


def test_the_sweeper_finds_a_process_that_died_before_its_first_checkpoint(api, alice, echo_model):
    admitted_long_ago()
    assert tasks.release_expired_holds() == 1
    assert_released(alice, settlement="expired")


def test_the_sweeper_rechecks_a_process_that_could_not_write(api, alice, echo_model, monkeypatch):
    admitted_long_ago()

    def come_back(seconds):
        Completion.objects.update(checkpointed_at=Now(), relayed_bytes=40)

    monkeypatch.setattr("completions.charging.recovery.sweeper.time.sleep", come_back)
    assert tasks.release_expired_holds() == 0
    assert Completion.objects.get().settlement is None


def admitted_long_ago():
    [account] = Account.objects.filter(name="Alice")
    key, _ = factories.make_key(account)
    fields = {"model": "demo/echo", "messages": [{"role": "user", "content": "hello"}], "max_tokens": 100}
    offers = [lookup.find_offer("demo/echo")]
    admitted = admission.admit(admission.prepare(schema.parse(fields), offers, Caller(key.pk, account.pk)))
    Completion.objects.update(created_at=Now() - 2 * checkpoints.ABANDONED_AFTER)
    return admitted
