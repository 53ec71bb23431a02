"""Refuses a request with a large body before the body is read, for what admission would refuse whatever the body says.

A large body takes milliseconds to receive and to parse, and megabytes to hold: too much for a caller whose key is revoked,
whose requests per minute are used up, who has as many requests in flight as it may, or who has no money at all. So their rows
are read first, without locks; requests that wait at the same time share the queries. The refusals and their order are those of
``admission``, which decides again with the rows locked. Nothing is counted or written here.

A key that passed is not looked at again for a second, and refusals are replayed from the refusal cache.
"""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

from django.db.models import Q
from django.db.models.functions import Now

from billing.ledger import holds
from billing.models import Account
from completions.charging import oldest_hold
from completions.models import IdempotentRequest, Price
from gateway_project import errors
from gateway_project.cache import TTLCache
from gateway_project.db import cell, pool
from gateway_project.db.group_commit import GroupCommit
from gateway_project.text import dollars
from keys.authentication import INVALID_KEY_MESSAGE, Caller, require_active
from keys.limits import limit_state_cache, rate_limits, refusal_cache, requests_in_flight, spending
from keys.limits.refusal_cache import AdmissionDemand
from keys.limits.spending import SpendingWindow
from keys.models import ApiKey

_LEAST_NANOS = _LEAST_TOKENS = 1  # no request needs less, unless its model is free


class _LookUp(NamedTuple):
    caller: Caller
    idempotency_value: str | None  # of the Idempotency-Key


@dataclass(frozen=True, slots=True)
class _Found:
    """A key as it was just read, and what else decides. ``is_repeated``: a reply may be stored, which is never refused."""

    key: ApiKey
    account: Account
    window: SpendingWindow | None
    now: datetime
    is_repeated: bool
    is_free_possible: bool


_passed: TTLCache[str, bool] = TTLCache(seconds=1, entries_max=10_000)  # by key id


def require_admissible(caller: Caller, idempotency_value: str | None) -> None:
    """Raise the refusal that admission would decide for every body, if there is one."""
    demand = AdmissionDemand(tokens=_LEAST_TOKENS, amount_nanos=_LEAST_NANOS, idempotency_key=idempotency_value)
    with refusal_cache.replay_or_record(caller.key_id, demand):
        if _passed.get(caller.key_id):
            return
        found = _look_up(caller, idempotency_value)
        if found is None:
            raise errors.InvalidApiKey(INVALID_KEY_MESSAGE)
        require_active(found.key, found.account, found.now, caller)
        limit_state_cache.store(found.key, found.account, found.now)
        if found.is_repeated:
            return
        rate_limits.count_request(found.key, found.account, found.now, _LEAST_TOKENS)
        requests_in_flight.require_room(found.key, found.account)
        if not found.is_free_possible:
            try:
                _require_any_money(found)
            except errors.MoneyRefused as refusal:
                oldest_hold.tell(refusal, caller)
                raise
        _passed.put(caller.key_id, True)


def _look_up(caller: Caller, idempotency_value: str | None) -> _Found | None:
    found = _look_ups[cell.current()].submit(_LookUp(caller, idempotency_value))
    if found is None and caller.follow():
        return _look_up(caller, idempotency_value)
    return found


def _require_any_money(found: _Found) -> None:
    spending.require_available(found.window, _LEAST_NANOS)
    if found.account.balance_nanos < _LEAST_NANOS:
        message = f"The account has too few credits: the balance is {dollars.format_usd(found.account.balance_nanos)}."
        raise errors.InsufficientQuota(message, held_nanos=found.account.held_nanos)
    holds.require_available(found.account, _LEAST_NANOS)


def _look_up_batch(number: int, look_ups: list[_LookUp], is_rerun: bool) -> list[_Found | None | Exception]:
    try:
        with cell.use(number):
            found = pool.read(lambda: _read(look_ups))
    except pool.UNAVAILABLE as error:
        return [error] * len(look_ups)  # trying each of them alone would only take longer
    finally:
        pool.release_connection()  # the bodies are yet to arrive
    return list(found)


def _read(look_ups: Collection[_LookUp]) -> list[_Found | None]:
    ids = {look_up.caller.key_id for look_up in look_ups}
    rows = ApiKey.objects.select_related("account").annotate(now=Now(), running=requests_in_flight.OPEN_HOLDS)
    keys: dict[str, Any] = rows.in_bulk(ids)
    for key in keys.values():
        key.open_holds = key.running
    limited = [key for key in keys.values() if key.spending_limit_nanos is not None]
    windows = spending.read_windows(limited) if limited else {}
    repeated = _read_repeated(look_ups)
    available = [key.account.available_nanos for key in keys.values()]
    available += [window.available_nanos for window in windows.values() if window]
    enabled = Price.objects.filter(model__is_enabled=True).in_force()
    is_free_possible = (
        min(available, default=_LEAST_NANOS) >= _LEAST_NANOS
        or Price.objects.free().filter(pk__in=enabled.values("pk")).exists()
    )
    return [
        _Found(
            key=key,
            account=key.account,
            window=windows.get(key.pk),
            now=key.now,
            is_repeated=(look_up.caller.account_id, look_up.idempotency_value) in repeated,
            is_free_possible=is_free_possible,
        )
        if (key := keys.get(look_up.caller.key_id))
        else None
        for look_up in look_ups
    ]


def _read_repeated(look_ups: Collection[_LookUp]) -> set[Any]:
    given = [look_up for look_up in look_ups if look_up.idempotency_value is not None]
    wanted = Q()
    for look_up in given:
        wanted |= Q(account_id=look_up.caller.account_id, key=look_up.idempotency_value)
    return set(IdempotentRequest.objects.filter(wanted).values_list("account_id", "key")) if given else set()


_look_ups = cell.ByCell[GroupCommit[_LookUp, _Found | None]](lambda number: GroupCommit(partial(_look_up_batch, number)))
