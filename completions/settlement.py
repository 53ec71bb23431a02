"""The one door out: a hold becomes a ledger entry or is given back, once, in a transaction shared by whoever settles too.

Both functions may be called again, or by two at a time: whoever comes second finds the hold resolved and changes nothing.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import gevent
from django.db import InterfaceError, OperationalError

from billing import holds, ledger
from billing import locks as account_locks
from billing.models import Account, Hold, LedgerEntry
from completions import catalog, idempotency, pricing
from completions.admission import Admitted
from completions.chat import Usage
from completions.models import Completion
from gateway_project import database, metrics
from gateway_project.database import Statement, TwoSteps
from gateway_project.group_commit import GroupCommit, Lost, TooLate
from keys import locks as key_locks
from keys import rates, spending
from keys.models import ApiKey
from keys.spending import Movement

logger = logging.getLogger("gateway.settlement")

_PAUSES_SECONDS = (0.1, 0.4, 1.5, 4, 10)  # each try waits for a connection or a lock by itself, too


@dataclass(frozen=True, slots=True)
class Retry:
    """What becomes of its Idempotency-Key: the sealed reply (None: too large to keep) is kept, or the key is forgotten."""

    sealed_reply: str | None
    is_kept: bool


@dataclass(frozen=True, slots=True)
class Resolution:
    """How a completion ends: at a cost, or, with no usage, without one."""

    completion: Completion
    settlement: Completion.Settlement
    usage: Usage | None = None
    cost_nanos: int | None = None
    retry: Retry | None = None


def settle(admitted: Admitted, usage: Usage, settlement: Completion.Settlement, *, reply: bytes | None = None
           ) -> int | None:  # fmt: skip
    """Charge ``usage`` at the admitted price, at most what was held. Returns the nanodollars, None if resolved before.

    ``reply`` is what the caller gets, and gets again for the same Idempotency-Key. Without one it may try again.
    Waits for a database that is away or busy, up to half a minute: what was relayed is not free because of that.
    """
    cost_nanos = pricing.cost(usage, admitted.call.offer.price)
    retry = Retry(None if reply is None else idempotency.seal(reply), reply is not None) if admitted.attempt else None
    charged_nanos = _insist(Resolution(admitted.completion, settlement, usage, cost_nanos, retry))
    if charged_nanos is not None:
        _report(admitted.completion, settlement, cost_nanos, charged_nanos)
    return charged_nanos


def release(completion: Completion) -> bool:
    """Give the hold back: nothing is charged. False when it was resolved before. Waits as ``settle`` does."""
    return _insist(Resolution(completion, Completion.Settlement.RELEASED)) is not None


def recover(completion: Completion, relayed_bytes: int) -> bool:
    """Charge what its process had noted before it died: the prompt, estimated, and what was relayed. Does not wait."""
    usage = Usage(completion.prompt_estimate, pricing.estimate(relayed_bytes))
    cost_nanos = pricing.cost(usage, catalog.price_list(completion.price))
    resolution = Resolution(completion, Completion.Settlement.RECOVERED, usage, cost_nanos, Retry(None, is_kept=False))
    return _door.submit(resolution) is not None


def expire(completion: Completion) -> bool:
    """Give the hold back because nobody resolved it in time. Does not wait: the sweeper will come back to it."""
    return _door.submit(Resolution(completion, Completion.Settlement.EXPIRED)) is not None


def _insist(resolution: Resolution) -> int | None:
    """Try again while the database refuses. It is safe when only the answer to a COMMIT was lost: a hold resolves once."""
    for pause_seconds in _PAUSES_SECONDS:
        try:
            return _door.submit(resolution)
        except (OperationalError, InterfaceError, Lost, TooLate) as error:
            logger.warning("cannot settle yet, trying again in %s s: %s", pause_seconds, error)
        gevent.sleep(pause_seconds)
    return _door.submit(resolution)


_STATES = {Completion.Settlement.RELEASED: Hold.State.RELEASED, Completion.Settlement.EXPIRED: Hold.State.EXPIRED}


def _resolve_batch(resolutions: list[Resolution], again: bool) -> list[int | None | Exception]:
    with _connection.transaction() as steps:
        return _decide_batch(steps, resolutions)


def _decide_batch(steps: TwoSteps, resolutions: list[Resolution]) -> list[int | None | Exception]:
    completions = [one.completion for one in resolutions]
    found_accounts, found_keys, found_holds, [(now,)] = steps.read(
        account_locks.accounts({completion.account_id for completion in completions}),
        key_locks.keys({completion.key_id for completion in completions}),
        account_locks.holds([completion.pk for completion in completions]),
        database.CLOCK,
    )
    rows = _Rows(
        database.made(Account, found_accounts), database.made(ApiKey, found_keys), database.made(Hold, found_holds), now
    )
    outcomes = [_resolve(one, rows) for one in resolutions]
    resolved = [one for one, outcome in zip(resolutions, outcomes, strict=True) if outcome is not None]
    if resolved:
        steps.write(*_written(resolved, rows))
    return list(outcomes)


@dataclass(frozen=True, slots=True)
class _Rows:
    """What a batch has locked, by id, and when."""

    accounts: dict[UUID, Account]
    keys: dict[str, ApiKey]
    holds: dict[str, Hold]
    now: datetime


def _resolve(one: Resolution, rows: _Rows) -> int | None:
    """What is charged; None when the hold was resolved before."""
    completion = one.completion
    hold = rows.holds[completion.pk]
    state = _STATES.get(one.settlement, Hold.State.SETTLED)
    if not holds.resolve(rows.accounts[completion.account_id], hold, state, cost_nanos=one.cost_nanos):
        return None
    tokens = one.usage.prompt_tokens + one.usage.completion_tokens if one.usage else 0
    rates.correct(rows.keys[completion.key_id], rows.now, tokens - completion.counted_tokens)
    return hold.settled_nanos or 0


def _written(resolved: Sequence[Resolution], rows: _Rows) -> list[Statement]:
    keys = [rows.keys[key_id] for key_id in {one.completion.key_id for one in resolved}]
    entries = [entry for one in resolved if (entry := _entry(one, rows))]
    return [
        *rates.counted(keys),
        spending.moved([_movement(one, rows.holds[one.completion.pk]) for one in resolved]),
        holds.resolved([rows.holds[one.completion.pk] for one in resolved]),
        *([ledger.appended(entries)] if entries else []),
        _finished(resolved, rows.holds),
        *_replies(resolved),
    ]


def _replies(resolved: Sequence[Resolution]) -> list[Statement]:
    """What was answered is repeated to who asks again; what was not may be tried again."""
    kept = [(one.completion.pk, one.retry.sealed_reply) for one in resolved if one.retry and one.retry.is_kept]
    forgotten = [one.completion.pk for one in resolved if not one.usage or (one.retry and not one.retry.is_kept)]
    return [
        *([idempotency.kept(kept)] if kept else []),
        *([idempotency.forgotten(forgotten)] if forgotten else []),
    ]


def _entry(one: Resolution, rows: _Rows) -> LedgerEntry | None:
    if one.usage is None:
        return None
    completion = one.completion
    return ledger.debit_usage(
        rows.accounts[completion.account_id], cost_nanos=rows.holds[completion.pk].settled_nanos or 0,
        reference=completion.pk, model=completion.model_id, prompt_tokens=one.usage.prompt_tokens,
        completion_tokens=one.usage.completion_tokens, settlement=one.settlement,
        spender=completion.key_id,
    )  # fmt: skip


def _movement(one: Resolution, hold: Hold) -> Movement:
    key_id, day = one.completion.key_id, one.completion.spending_day
    if one.usage is None:
        return Movement(key_id, day, hold.amount_nanos)
    return Movement(
        key_id, day, hold.amount_nanos, spent_nanos=hold.settled_nanos or 0, completions=1,
        prompt_tokens=one.usage.prompt_tokens, completion_tokens=one.usage.completion_tokens,
    )  # fmt: skip


def _finished(resolved: Sequence[Resolution], held: dict[str, Hold]) -> Statement:
    usages = [one.usage or Usage(0, 0) for one in resolved]
    return Statement(
        """
        UPDATE completions_completion SET settlement = ended.settlement, prompt_tokens = ended.prompt_tokens,
            cached_tokens = ended.cached_tokens, completion_tokens = ended.completion_tokens, cost_nanos = ended.cost_nanos,
            finished_at = statement_timestamp()
        FROM unnest(%s::text[], %s::text[], %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[]) AS ended
            (id, settlement, prompt_tokens, cached_tokens, completion_tokens, cost_nanos)
        WHERE completions_completion.id = ended.id
        """,
        (
            [one.completion.pk for one in resolved],
            [one.settlement for one in resolved],
            [usage.prompt_tokens for usage in usages],
            [usage.cached_tokens for usage in usages],
            [usage.completion_tokens for usage in usages],
            [held[one.completion.pk].settled_nanos or 0 for one in resolved],
        ),
    )


_connection = database.TwoStepConnection(synchronous_commit=True)
_door: GroupCommit[Resolution, int | None] = GroupCommit(_resolve_batch)


def _report(completion: Completion, settlement: str, cost_nanos: int, charged_nanos: int) -> None:
    metrics.completions_total.labels(completion.model_id, settlement).inc()
    if cost_nanos > charged_nanos:
        metrics.operator_loss_nanos.inc(cost_nanos - charged_nanos)
    logger.info(
        "settled %s: %s, %s nanodollars", completion.pk, settlement, charged_nanos,
        extra={"completion": completion.pk, "model": completion.model_id, "cost_nanos": charged_nanos},
    )  # fmt: skip
