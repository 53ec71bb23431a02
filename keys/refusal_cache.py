"""A flood of requests that are refused is answered from memory: what was decided a moment ago is not asked of a row again.

For each key, in each process, and for a second at most:

- requests per minute come back with time alone: where the key stood says no until their time has come, so the no is exact;
- any other refusal is decided DECIDED_MAX times within a second. From then to the end of that second it is repeated to
  requests that are like it: with the same key when the key is refused, for the same models when those are, where money is for
  as much money at least, and by tokens per minute as long as where the key stood says so.

What a request that ends gives back is noticed at once where it ends. A limit that is raised, or credit that is added, is
noticed within a second. A request with an Idempotency-Key may have its reply waiting for it: it is not refused from memory
before the flood has come, and then for money only so that it is tried again.
"""

import copy
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta

from gateway_project import errors
from gateway_project.cache import TTLCache
from keys import rate_limit_cache
from keys.rate_limit_cache import CachedRateLimit

DECIDED_MAX = 20
_KEPT_SECONDS = 1
_KEYS_MAX = 10_000
_KINDS_MAX = 50  # of a key: models of the catalog, Idempotency-Keys


RefusalKind = tuple[Hashable, ...]  # what requests share that are refused alike


@dataclass(frozen=True, slots=True)
class AdmissionDemand:
    """What a request asks for, as far as refusals depend on it."""

    model_ids: tuple[str, ...] = ()
    tokens: int = 0  # as they count against tokens per minute
    amount_nanos: int = 0  # that it must be able to pay, at least
    is_capped: bool = False  # by the caller: without a cap, what must be payable depends on what there is
    idempotency_key: Hashable | None = None


@dataclass(slots=True)
class _Second:
    """A key's refusals since the first of them: how many were decided, and of each kind the one for the least money."""

    decided: int = 0
    kinds: dict[RefusalKind, tuple[int, errors.ApiError]] = field(default_factory=dict)


class RefusalCache:
    """What was refused within the last second. The clock is this process's own, in seconds; tests bring theirs."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seconds: TTLCache[str, _Second] = TTLCache(seconds=_KEPT_SECONDS, entries_max=_KEYS_MAX, clock=clock)

    def replay(self, key_id: str, demand: AdmissionDemand, cached: CachedRateLimit | None = None) -> None:
        """Raises what would be decided again. ``cached`` is where the key stood when its row was read last."""
        second = self._flood(key_id)
        if second:
            _replay(second, [_KEY, _models(demand), _idempotency_key(demand)], demand)
        if cached and cached.age(self._clock()) < _KEPT_SECONDS and (second or demand.idempotency_key is None):
            # Tokens may come back sooner than time alone gives them: when less was used than was counted.
            cached.count_request(demand.tokens if second else None, self._clock())
        if second:
            _replay(second, [_money(demand), _tied_up(demand)], demand)

    def replay_for_models(self, key_id: str, demand: AdmissionDemand) -> None:
        """The same for who is not at the door yet: whether the key is refused, or the models, if there are any."""
        if second := self._flood(key_id):
            _replay(second, [_KEY, _models(demand)], demand)

    def record(self, key_id: str, refusal: errors.ApiError, demand: AdmissionDemand) -> None:
        """Remember what was decided just now."""
        second = self._seconds.get(key_id)
        if second is None:
            second = _Second()
            self._seconds.put(key_id, second)
        second.decided += 1
        if kind := _kind(refusal, demand):
            _keep(second, kind, refusal, demand.amount_nanos if kind in (_money(demand), _tied_up(demand)) else 0)

    def forget_tied_up(self, key_id: str) -> None:
        """Something gave back what it held: decide anew whether there is enough."""
        if second := self._seconds.get(key_id):
            second.kinds = {kind: said for kind, said in second.kinds.items() if kind[0] != _TIED_UP}

    def clear(self) -> None:
        self._seconds.clear()

    def _flood(self, key_id: str) -> _Second | None:
        second = self._seconds.get(key_id)
        return second if second and second.decided >= DECIDED_MAX else None


# --- Which requests are like one that was refused ------------------------------------------------------------------

_KEY: RefusalKind = ("key",)
_TIED_UP = "tied up"


def _models(demand: AdmissionDemand) -> RefusalKind:
    return "models", demand.model_ids


def _idempotency_key(demand: AdmissionDemand) -> RefusalKind:
    return "idempotency_key", demand.idempotency_key


def _money(demand: AdmissionDemand) -> RefusalKind:
    return "money", demand.model_ids, demand.is_capped


def _tied_up(demand: AdmissionDemand) -> RefusalKind:
    return _TIED_UP, demand.model_ids, demand.is_capped


def _kind(refusal: errors.ApiError, demand: AdmissionDemand) -> RefusalKind | None:
    """What a request must share to be refused alike; None where nobody can say."""
    match refusal:
        case errors.InvalidApiKey():
            return _KEY
        case errors.ModelNotFound():
            return _models(demand)
        case errors.InvalidRequest() if demand.idempotency_key:  # its request runs, or had another body
            return _idempotency_key(demand)
        case errors.TiedUp():
            return _tied_up(demand)
        case errors.InsufficientQuota() | errors.SpendingLimitReached():
            return _money(demand)
    return None


def _keep(second: _Second, kind: RefusalKind, refusal: errors.ApiError, amount_nanos: int) -> None:
    known = second.kinds.get(kind)
    if (known is None and len(second.kinds) < _KINDS_MAX) or (known is not None and amount_nanos <= known[0]):
        second.kinds[kind] = (amount_nanos, _again(refusal))


def _replay(second: _Second, kinds: list[RefusalKind], demand: AdmissionDemand) -> None:
    for kind in kinds:
        amount_nanos, refusal = second.kinds.get(kind, (0, None))
        if refusal is None or demand.amount_nanos < amount_nanos:
            continue
        if demand.idempotency_key is not None and kind in (_money(demand), _tied_up(demand)):
            raise errors.RateLimitExceeded(
                "Too many requests with this key were refused just now. Try again in a second.",
                headers=errors.retry_after(timedelta(seconds=_KEPT_SECONDS)),
            )
        raise _again(refusal)


def _again(refusal: errors.ApiError) -> errors.ApiError:
    return copy.copy(refusal)  # without its tracebacks, which would grow, and keep whole requests


# --- Of this process -----------------------------------------------------------------------------------------------

process_cache = RefusalCache()


@contextmanager
def replay_or_record(key_id: str, demand: AdmissionDemand) -> Iterator[None]:
    """Around the door: raises without entering what it would say again, and remembers what it says."""
    process_cache.replay(key_id, demand, rate_limit_cache.get(key_id))
    try:
        yield
    except errors.ApiError as refusal:
        _record(key_id, refusal, demand)
        raise


@contextmanager
def replay_or_record_for_models(key_id: str, *model_ids: str) -> Iterator[None]:
    """The same around what is asked before the door: a key's status, or models."""
    demand = AdmissionDemand(model_ids)
    process_cache.replay_for_models(key_id, demand)
    try:
        yield
    except errors.ApiError as refusal:
        _record(key_id, refusal, demand)
        raise


def _record(key_id: str, refusal: errors.ApiError, demand: AdmissionDemand) -> None:
    if isinstance(refusal, errors.InvalidApiKey):
        rate_limit_cache.forget(key_id)  # it must hear that, not of its limits
    process_cache.record(key_id, refusal, demand)
