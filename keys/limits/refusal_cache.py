"""Replays recent refusals from memory, so that a flood of refused requests costs few transactions.

For each key, in each process, and for one second at most:

- A refusal by requests per minute is exact: the allowance returns with time alone, so the cached rate-limit state says when the
  next request is allowed. It is replayed at once.
- Any other refusal is decided by admission until FLOOD_REFUSALS were decided within the second. From then to the end of that
  second it is replayed to similar requests: any request of a key that is refused itself or has too many requests in flight;
  requests for the same models, if a model is refused or the key has too many in flight for it, and with the same choice of
  providers, if none of them promises what is demanded about data; those of them that need at least as much money, if money is
  refused, of the same run if its budget refuses. Tokens per minute are refused as long as the cached rate-limit state
  refuses them.

A settlement in this process makes the cache forget at once that too many requests of its key are in flight, or that they tie up
funds. A raised limit or added credit takes effect within a second. A request with an Idempotency-Key may have a stored reply
waiting: before a flood it is never refused from memory, and in a flood a refusal for money or requests in flight is replayed as
'try again in a second'.

A refusal for money says what its request may cost. It is replayed word for word to a request that needs the same, and to any
other without figures.
"""

import copy
import time
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import product
from types import TracebackType

import msgspec

from gateway_project import errors
from gateway_project.cache import TTLCache
from keys.limits import limit_state_cache
from keys.limits.limit_state_cache import CachedRateLimit

FLOOD_REFUSALS = 20  # refusals of one key within a second that make a flood
_TTL_SECONDS = 1
_KEYS_MAX = 10_000
_KINDS_MAX = 50  # kinds of refusals for each key: one for each model, Idempotency-Key and so on

# Two requests that have this in common get the same refusal.
RefusalKind = tuple[Hashable, ...]


class AdmissionDemand(msgspec.Struct, frozen=True):
    """The needs of a request at admission, as far as refusals depend on them."""

    model_ids: tuple[str, ...] = ()
    tokens: int = 0  # as counted against tokens per minute
    amount_nanos: int = 0  # the least that it must be able to pay
    is_capped: bool = False  # the caller set max_tokens; otherwise the amount depends on the balance
    idempotency_key: Hashable | None = None
    preferences: Hashable | None = None  # which providers may answer
    run: str | None = None


@dataclass(slots=True)
class _RecentRefusals:
    """A key's refusals within a second: how many admission decided, and for each kind the one for the least money."""

    decided: int = 0
    by_kind: dict[RefusalKind, tuple[AdmissionDemand, errors.ApiError]] = field(default_factory=dict)


class RefusalCache:
    """The refusals of the last second, by key. ``clock`` returns seconds; tests pass their own."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._recent: TTLCache[str, _RecentRefusals] = TTLCache(seconds=_TTL_SECONDS, entries_max=_KEYS_MAX, clock=clock)

    def replay(self, key_id: str, demand: AdmissionDemand, cached: CachedRateLimit | None = None) -> None:
        """Raise the refusal that admission would decide again, if any. ``cached`` is the key's last-read rate-limit state."""
        recent = self._flood(key_id)
        if recent:
            _replay(recent, (_KEY, _MODELS, _DATA, _IDEMPOTENCY_KEY), demand)
        if cached and cached.age(self._clock()) < _TTL_SECONDS and (recent or demand.idempotency_key is None):
            # Tokens are replayed in a flood only: a settlement that used less than was counted gives tokens back early.
            cached.count_request(demand.tokens if recent else None, self._clock())
        if recent:
            _replay(recent, (_IN_FLIGHT, _IN_FLIGHT_OF_MODEL, _MONEY, _TIED_UP), demand)

    def replay_for_models(self, key_id: str, demand: AdmissionDemand) -> None:
        """Raise a refusal of the key or the models, for requests that are not yet at admission."""
        if recent := self._flood(key_id):
            _replay(recent, (_KEY, _MODELS), demand)

    def record(self, key_id: str, refusal: errors.ApiError, demand: AdmissionDemand) -> None:
        """Record a refusal that was decided just now."""
        recent = self._recent.get(key_id)
        if recent is None:
            recent = _RecentRefusals()
            self._recent.put(key_id, recent)
        recent.decided += 1
        cause = next((cause for error, cause in _CAUSES.items() if isinstance(refusal, error)), None)
        if cause is None or (cause == _IDEMPOTENCY_KEY and not demand.idempotency_key):
            return
        kind = _kind(cause, demand, demand.run if getattr(refusal, "limit_source", None) == "run" else None)
        if previous := recent.by_kind.get(kind):
            is_news = cause not in _ABOUT_MONEY or demand.amount_nanos <= previous[0].amount_nanos
        else:
            is_news = len(recent.by_kind) < _KINDS_MAX
        if is_news:
            recent.by_kind[kind] = demand, _copy(refusal)

    def forget_held(self, key_id: str) -> None:
        """Forget refusals for requests in flight and 'tied up' funds: a request ended, and its hold with it."""
        if recent := self._recent.get(key_id):
            recent.by_kind = {kind: entry for kind, entry in recent.by_kind.items() if kind[0] not in _HELD}

    def clear(self) -> None:
        self._recent.clear()

    def _flood(self, key_id: str) -> _RecentRefusals | None:
        recent = self._recent.get(key_id)
        return recent if recent and recent.decided >= FLOOD_REFUSALS else None


_KEY, _MODELS, _DATA, _IDEMPOTENCY_KEY, _MONEY, _TIED_UP = "key", "models", "data", "idempotency key", "money", "tied up"
_IN_FLIGHT, _IN_FLIGHT_OF_MODEL = "in flight", "in flight of a model"
_SHARED = {  # by cause: the fields of the demand that another request of the key must share to get the same refusal
    _KEY: (),
    _MODELS: ("model_ids",),
    _DATA: ("model_ids", "preferences"),
    _IDEMPOTENCY_KEY: ("idempotency_key",),
    _IN_FLIGHT: (),
    _IN_FLIGHT_OF_MODEL: ("model_ids",),
    _MONEY: ("model_ids", "preferences", "is_capped"),  # an own key may serve one choice of providers, ours another
    _TIED_UP: ("model_ids", "preferences", "is_capped"),
}
_ABOUT_MONEY, _ABOUT_OTHERS = (_MONEY, _TIED_UP), (_IN_FLIGHT, _IN_FLIGHT_OF_MODEL)
_HELD = (*_ABOUT_OTHERS, _TIED_UP)
_CAUSES: dict[type[errors.ApiError], str | None] = {  # the first that fits; None: the refusal must not be replayed
    errors.SecretEnded: None,  # the key itself is not refused: its other secret works
    errors.InvalidApiKey: _KEY,
    errors.ModelNotFound: _MODELS,
    errors.DataDemandUnmet: _DATA,
    errors.InvalidRequest: _IDEMPOTENCY_KEY,  # its first request is still running, or had another body
    errors.TooManyInFlightOfModel: _IN_FLIGHT_OF_MODEL,
    errors.TooManyInFlight: _IN_FLIGHT,
    errors.TiedUp: _TIED_UP,
    errors.InsufficientQuota: _MONEY,
}
# For a request that needs another amount than the one that was refused.
_MESSAGES_WITHOUT_FIGURES: dict[type[errors.ApiError], str] = {
    errors.InsufficientQuota: "The account has too few credits for this request.",
    errors.SpendingLimitReached: "The key's spending limit leaves too little for this request.",
    errors.BudgetExceeded: "The run, or a monthly budget, leaves too little for this request. Sending it again does not help.",
    errors.TiedUp: "Running requests hold what this request needs. Try again in a moment.",
}


def _kind(cause: str, demand: AdmissionDemand, run: str | None = None) -> RefusalKind:
    """``run``: the one that refuses. A refusal of the account, its key or a month is one of every run."""
    return cause, run, *(getattr(demand, name) for name in _SHARED[cause])


def _replay(recent: _RecentRefusals, causes: Iterable[str], demand: AdmissionDemand) -> None:
    for cause, run in product(causes, {demand.run, None}):
        is_about_money = cause in _ABOUT_MONEY
        refused, refusal = recent.by_kind.get(_kind(cause, demand, run), (demand, None))
        if refusal is None or (is_about_money and demand.amount_nanos < refused.amount_nanos):
            continue
        if demand.idempotency_key is not None and (is_about_money or cause in _ABOUT_OTHERS):
            raise errors.RateLimitExceeded(
                "Too many requests with this key were refused just now. Try again in a moment.",
                headers=errors.retry_after(timedelta(seconds=_TTL_SECONDS)),
            )
        error = _copy(refusal)
        if is_about_money and (demand.amount_nanos, demand.tokens) != (refused.amount_nanos, refused.tokens):
            error.message = _MESSAGES_WITHOUT_FIGURES[type(error)]
        raise error


def _copy(refusal: errors.ApiError) -> errors.ApiError:
    return copy.copy(refusal)  # without tracebacks, which would grow with each raise and keep requests alive


process_cache = RefusalCache()


class _Recording:
    """Records the refusal that the block raises."""

    __slots__ = ("_demand", "_key_id")

    def __init__(self, key_id: str, demand: AdmissionDemand) -> None:
        self._key_id, self._demand = key_id, demand

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        if isinstance(error, errors.InvalidApiKey):
            limit_state_cache.forget(self._key_id)  # its next reply is this refusal, not one about its limits
        if isinstance(error, errors.ApiError):
            process_cache.record(self._key_id, error, self._demand)


def replay_or_record(key_id: str, demand: AdmissionDemand) -> _Recording:
    """Around admission: raise a replayed refusal without running the body, or record the refusal that the body raises."""
    process_cache.replay(key_id, demand, limit_state_cache.get(key_id))
    return _Recording(key_id, demand)


def replay_or_record_before_admission(key_id: str, *model_ids: str, preferences: Hashable | None = None) -> _Recording:
    """Like ``replay_or_record``, for the checks before admission: the key's status, and which models exist."""
    demand = AdmissionDemand(model_ids, preferences=preferences)
    process_cache.replay_for_models(key_id, demand)
    return _Recording(key_id, demand)
