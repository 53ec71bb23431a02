"""The one door out: a hold becomes a ledger entry or is given back, once, in one short transaction.

Locks in the order of ``billing.locks``: account, key, spending day, hold. Both functions may be called again, or by two at
a time: whoever comes second finds the hold resolved and changes nothing.
"""

import logging
from collections.abc import Callable
from typing import TypeVar
from uuid import UUID

import gevent
from django.db import InterfaceError, OperationalError
from django.db.models.functions import Now

from billing import holds, ledger
from billing import locks as account_locks
from completions import pricing
from completions.admission import Admitted
from completions.chat import Usage
from completions.models import Completion
from gateway_project import database, metrics
from keys import locks as key_locks
from keys import rate_limits, spending
from keys.models import ApiKey

logger = logging.getLogger("gateway.settlement")

T = TypeVar("T")
_PAUSES_SECONDS = (0.1, 0.4, 1.5, 4, 10)  # each try waits for a connection or a lock by itself, too


def settle(admitted: Admitted, usage: Usage, settlement: Completion.Settlement) -> int | None:
    """Charge ``usage`` at the admitted price, at most what was held. Returns the nanodollars, None if resolved before.

    Waits for a database that is away or busy, up to half a minute: what was relayed is not free because of that.
    """
    return _insist(lambda: _settle(admitted, usage, settlement))


def _settle(admitted: Admitted, usage: Usage, settlement: Completion.Settlement) -> int | None:
    cost_nanos = pricing.cost(usage, admitted.call.offer.price)
    with database.short_transaction():
        account = account_locks.account(admitted.account_id)
        key = key_locks.key(admitted.key_id)
        hold = holds.settle(account, admitted.completion_id, cost_nanos=cost_nanos)
        if hold is None:
            return None
        charged_nanos = hold.settled_nanos or 0
        completion = Completion.objects.get(pk=admitted.completion_id)
        spending.commit(
            key, day=completion.spending_day, held_nanos=hold.amount_nanos, spent_nanos=charged_nanos,
            prompt_tokens=usage.prompt_tokens, completion_tokens=usage.completion_tokens,
        )  # fmt: skip
        _correct_tokens_per_minute(key, usage.prompt_tokens + usage.completion_tokens - completion.counted_tokens)
        ledger.debit_usage(
            account, cost_nanos=charged_nanos, reference=completion.pk, model=completion.model_id,
            prompt_tokens=usage.prompt_tokens, completion_tokens=usage.completion_tokens, settlement=settlement,
        )  # fmt: skip
        _finish(completion.pk, settlement, usage, charged_nanos)
    _report(admitted, settlement, cost_nanos, charged_nanos)
    return charged_nanos


def release(completion_id: str, account_id: UUID, key_id: str, *, expired: bool = False) -> bool:
    """Give the hold back: nothing is charged. False when it was resolved before.

    Waits as ``settle`` does; not for an expired hold, to which the sweeper will come back.
    """
    if expired:
        return _release(completion_id, account_id, key_id, expired=True)
    return _insist(lambda: _release(completion_id, account_id, key_id, expired=False))


def _release(completion_id: str, account_id: UUID, key_id: str, *, expired: bool) -> bool:
    with database.short_transaction():
        account = account_locks.account(account_id)
        key = key_locks.key(key_id)
        hold = (holds.expire if expired else holds.release)(account, completion_id)
        if hold is None:
            return False
        completion = Completion.objects.get(pk=completion_id)
        spending.release(key, day=completion.spending_day, held_nanos=hold.amount_nanos)
        _correct_tokens_per_minute(key, -completion.counted_tokens)
        _finish(completion_id, Completion.Settlement.EXPIRED if expired else Completion.Settlement.RELEASED, None, 0)
    return True


def _insist(resolve: Callable[[], T]) -> T:
    """Try again while the database refuses. It is safe when only the answer to a COMMIT was lost: a hold resolves once."""
    for pause_seconds in _PAUSES_SECONDS:
        try:
            return resolve()
        except (OperationalError, InterfaceError) as error:
            logger.warning("cannot settle yet, trying again in %s s: %s", pause_seconds, error)
        gevent.sleep(pause_seconds)
    return resolve()


def _finish(completion_id: str, settlement: Completion.Settlement, usage: Usage | None, cost_nanos: int) -> None:
    Completion.objects.filter(pk=completion_id).update(
        settlement=settlement,
        prompt_tokens=usage.prompt_tokens if usage else 0,
        cached_tokens=usage.cached_tokens if usage else 0,
        completion_tokens=usage.completion_tokens if usage else 0,
        cost_nanos=cost_nanos,
        finished_at=Now(),
    )


def _correct_tokens_per_minute(key: ApiKey, difference: int) -> None:
    if key.tokens_per_minute is None or key.tokens_full_at is None:
        return
    now = database.now()
    full_at = rate_limits.correct(limit=key.tokens_per_minute, full_at=key.tokens_full_at, now=now, difference=difference)
    ApiKey.objects.filter(pk=key.pk).update(tokens_full_at=full_at)


def _report(admitted: Admitted, settlement: Completion.Settlement, cost_nanos: int, charged_nanos: int) -> None:
    metrics.completions_total.labels(admitted.call.offer.model_id, settlement).inc()
    if cost_nanos > charged_nanos:
        metrics.operator_loss_nanos.inc(cost_nanos - charged_nanos)
    logger.info(
        "settled %s: %s, %s nanodollars", admitted.completion_id, settlement, charged_nanos,
        extra={"completion": admitted.completion_id, "model": admitted.call.offer.model_id, "cost_nanos": charged_nanos},
    )  # fmt: skip
