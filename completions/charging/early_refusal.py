"""Refuses a request with a large body before the body is read, for what admission would refuse whatever the body says.

A large body takes milliseconds to receive and to parse, and megabytes to hold. So the rows of its key are read first, without
locks; requests that wait at the same time share the queries. The refusals and their order are those of ``admission``, which
decides again with the rows locked. Nothing is written here. A key that passed is not read again for a second.
"""

from collections.abc import Collection
from functools import partial, reduce
from operator import or_
from typing import Any, NamedTuple

from django.conf import settings
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


class _Found(NamedTuple):
    key: Any  # an ApiKey as it was just read, with its account, and the time, ``now``
    window: SpendingWindow | None
    is_repeated: bool  # a reply may be stored, which is never refused
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
        key, account = found.key, found.key.account
        require_active(key, account, key.now, caller)
        limit_state_cache.store(key, account, key.now)
        if found.is_repeated:
            return
        rate_limits.count_request(key, account, key.now, _LEAST_TOKENS)
        requests_in_flight.require_room(key, account)
        if not (found.is_free_possible or account.has_own_keys and settings.OWN_KEY_FEE_BASIS_POINTS == 0):
            try:
                _require_any_money(account, found.window)
            except errors.MoneyRefused as refusal:
                oldest_hold.tell(refusal, caller)
                raise
        _passed.put(caller.key_id, True)


def _look_up(caller: Caller, idempotency_value: str | None) -> _Found | None:
    found = _look_ups[cell.current()].submit(_LookUp(caller, idempotency_value))
    if found is None and caller.follow():
        return _look_up(caller, idempotency_value)
    return found


def _require_any_money(account: Account, window: SpendingWindow | None) -> None:
    spending.require_available(window, _LEAST_NANOS)
    if account.balance_nanos < _LEAST_NANOS:
        message = f"The account has too few credits: the balance is {dollars.format_usd(account.balance_nanos)}."
        raise errors.InsufficientQuota(message, held_nanos=account.held_nanos)
    holds.require_available(account, _LEAST_NANOS)


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
    found: list[_Found | None] = []
    for caller, value in look_ups:
        key = keys.get(caller.key_id)
        is_repeated = (caller.account_id, value) in repeated
        found.append(_Found(key, windows.get(caller.key_id), is_repeated, is_free_possible) if key else None)
    return found


def _read_repeated(look_ups: Collection[_LookUp]) -> set[Any]:
    wanted = [Q(account_id=caller.account_id, key=value) for caller, value in look_ups if value is not None]
    rows = IdempotentRequest.objects.filter(reduce(or_, wanted)) if wanted else IdempotentRequest.objects.none()
    return set(rows.values_list("account_id", "key"))


_look_ups = cell.ByCell[GroupCommit[_LookUp, _Found | None]](lambda number: GroupCommit(partial(_look_up_batch, number)))
