"""What a process that dies had noted is charged; what nobody attends any more is not held for long."""

from datetime import timedelta

import pytest
from django.db.models.functions import Now

from billing import audit
from billing.models import Hold, LedgerEntry
from completions import checkpoints, tasks
from completions.models import Completion, IdempotentRequest
from tests.completions.rows import leave

FIELDS = {
    "model": "demo/echo",
    "messages": [{"role": "user", "content": "Say a lot"}],
    "stream": True,
    "max_tokens": 50,
    "echo": {"reply": "four bytes " * 20},
}


@pytest.fixture(autouse=True)
def _model(echo_model):
    pass


def begin(api, **headers):
    """A stream of which the role and one word have been read."""
    reply = api.post("/v1/chat/completions", {**FIELDS}, headers=headers)
    chunks = iter(reply.streaming_content)
    next(chunks), next(chunks)
    return reply


def grow_old():
    old = Now() - checkpoints.ABANDONED_AFTER - timedelta(seconds=1)
    Completion.objects.exclude(checkpointed_at=None).update(checkpointed_at=old)


def test_what_runs_is_noted_with_what_it_relayed(api):
    reply = begin(api)
    checkpoints.write()
    noted = Completion.objects.get()
    assert (noted.relayed_bytes, noted.settlement) == (5, None)
    assert noted.checkpointed_at >= noted.created_at
    leave(reply)


def test_what_has_ended_is_noted_no_more(api):
    leave(begin(api))
    checkpoints.write()
    assert Completion.objects.get().checkpointed_at is None
    assert checkpoints._running == {}


def test_an_old_note_is_charged_and_the_rest_of_the_hold_is_free(api, alice):
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
    leave(reply)  # the process was not dead after all: it comes too late
    assert LedgerEntry.objects.filter(type="USAGE_DEBIT").count() == 1
    assert audit.verify(alice.pk) == []


def test_what_is_recovered_costs_what_it_cost_when_it_was_admitted(api, echo_model):
    reply = begin(api)
    checkpoints.write()
    grow_old()
    echo_model.prices.create(input_nanos=1, output_nanos=1)
    assert tasks.release_expired_holds() == 1
    done = Completion.objects.get()
    assert done.cost_nanos == done.prompt_estimate * 500 + 2 * 1_500
    leave(reply)


def test_a_fresh_note_is_left_alone(api):
    reply = begin(api)
    checkpoints.write()
    assert tasks.release_expired_holds() == 0
    assert Completion.objects.get().settlement is None
    leave(reply)


def test_what_had_not_begun_costs_nothing(api, alice):
    reply = begin(api)
    checkpoints.write()
    grow_old()
    Completion.objects.update(relayed_bytes=None)
    assert tasks.release_expired_holds() == 1
    assert (Completion.objects.get().settlement, Hold.objects.get().state) == ("expired", "EXPIRED")
    assert not LedgerEntry.objects.filter(type="USAGE_DEBIT").exists()
    leave(reply)
    assert audit.verify(alice.pk) == []


def test_sweeping_again_charges_nothing_more(api):
    reply = begin(api)
    checkpoints.write()
    grow_old()
    assert [tasks.release_expired_holds() for _ in range(2)] == [1, 0]
    leave(reply)
    assert LedgerEntry.objects.filter(type="USAGE_DEBIT").count() == 1


def test_what_was_recovered_may_be_asked_for_again(api):
    reply = begin(api, **{"Idempotency-Key": "a"})
    checkpoints.write()
    grow_old()
    tasks.release_expired_holds()
    assert not IdempotentRequest.objects.exists()
    leave(reply)
