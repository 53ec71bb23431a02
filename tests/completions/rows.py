"""Requests to the gateway, and assertions about all the rows that a completion leaves behind."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from billing.models import Account, Hold, LedgerEntry
from completions.models import Completion
from completions.relay import charge
from gateway_project import metrics
from keys.models import SpendingDay
from tests.ledger_audit import assert_ledger_is_consistent

MESSAGES = [{"role": "user", "content": "Say hello, please."}]
PROMPT_ESTIMATE = 5  # tokens, of the 18 bytes above


def ask(api: Any, **fields: Any) -> Any:
    return api.post("/v1/chat/completions", {"model": "acme/large", "messages": MESSAGES, **fields})


def ask_streamed(api: Any, **fields: Any) -> Any:
    return ask(api, stream=True, **fields)


def events(reply: Any) -> list[Any]:
    """Read a streamed reply to its end; return the data of every event: parsed JSON, or the text "[DONE]"."""
    assert (reply.status_code, reply["Content-Type"]) == (200, "text/event-stream")
    return parsed(b"".join(reply.streaming_content))


def begin(reply: Any, wanted: str) -> tuple[bytes, Iterator[bytes]]:
    """Read a streamed reply until its text is the wanted one, however it arrives. Return what was read, and the rest."""
    body, raw = iter(reply.streaming_content), b""
    while text(parsed(raw)) != wanted:
        raw += next(body)
    return raw, body


def disconnect(reply: Any) -> None:
    """Close a reply, as the server does when its client has disconnected.

    (``close`` would close the test's own database connection as well.)
    """
    for close in reply._resource_closers:
        close()


def abandon(reply: Any) -> None:
    """Close a reply as if its process had died: nothing of it is settled."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(charge, "commit_or_store", lambda resolution: None)
        disconnect(reply)


def parsed(body: bytes) -> list[Any]:
    *blocks, rest = body.split(b"\n\n")
    assert rest == b""
    data = [block.removeprefix(b"data: ").decode() for block in blocks if not block.startswith(b":")]
    return [each if each == "[DONE]" else json.loads(each) for each in data]


def text(events: list[Any]) -> str:
    chunks = [event for event in events if event != "[DONE]"]
    return "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk.get("choices", []))


def assert_charged(
    account: Account, settlement: str, *, prompt: int, completion: int, nanos: int, cached: int = 0, model: Any = "acme/large"
) -> None:
    """Assert that the only completion is settled in this way, has one entry, and holds nothing more."""
    before_nanos = account.balance_nanos
    account.refresh_from_db()
    [done] = Completion.objects.filter(account=account)
    assert (done.settlement, done.prompt_tokens, done.cached_tokens, done.completion_tokens, done.cost_nanos) == (
        settlement,
        prompt,
        cached,
        completion,
        nanos,
    )
    [hold] = Hold.objects.filter(account=account)
    assert (hold.pk, hold.state, hold.settled_nanos) == (done.pk, Hold.State.SETTLED, nanos)
    [entry] = LedgerEntry.objects.filter(account=account, type=LedgerEntry.Type.USAGE_DEBIT)
    assert (entry.reference, entry.amount_nanos, entry.balance_after_nanos) == (done.pk, -nanos, before_nanos - nanos)
    assert (entry.metadata["model"], entry.metadata["tokens"]) == (model, prompt + completion)
    assert entry.metadata["settlement"] == settlement
    assert (account.balance_nanos, account.held_nanos) == (before_nanos - nanos, 0)
    [day] = SpendingDay.objects.filter(key__account=account)
    assert (day.spent_nanos, day.held_nanos, day.completions) == (nanos, 0, 1)
    assert (day.prompt_tokens, day.completion_tokens) == (prompt, completion)
    assert_ledger_is_consistent()


def lost_nanos(provider: str = "") -> float:
    """Return what the gateway has counted as its loss so far, in all or at one provider."""
    counter = metrics.provider_loss_nanos.labels(provider) if provider else metrics.operator_loss_nanos
    value: float = counter._value.get()
    return value


def assert_released(account: Account, settlement: str = "released") -> None:
    """Assert that the only completion cost nothing: its hold is released, and it has no entry."""
    before_nanos = account.balance_nanos
    account.refresh_from_db()
    [done] = Completion.objects.filter(account=account)
    assert (done.settlement, done.cost_nanos) == (settlement, 0)
    [hold] = Hold.objects.filter(account=account)
    assert (hold.pk, hold.state, hold.settled_nanos) == (done.pk, settlement.upper(), None)
    assert not LedgerEntry.objects.filter(account=account, type=LedgerEntry.Type.USAGE_DEBIT).exists()
    assert (account.balance_nanos, account.held_nanos) == (before_nanos, 0)
    for day in SpendingDay.objects.filter(key__account=account):
        assert (day.spent_nanos, day.held_nanos, day.completions) == (0, 0, 0)
    assert_ledger_is_consistent()
