"""Caches the last-read rate-limit state and requests in flight of each key, for headers of replies that do not read its row.

Another process may have counted requests since: the row decides about a request. ``refusal_cache`` repeats refusals by it.
"""

import time
from datetime import datetime, timedelta

import msgspec

from billing.models import Account
from gateway_project.cache import TTLCache
from keys.limits import rate_limits, requests_in_flight
from keys.limits.rate_limits import CountedRequest, RateLimitState
from keys.limits.requests_in_flight import RequestsInFlight
from keys.models import ApiKey


class CachedRateLimit(msgspec.Struct, frozen=True):
    """A key's rate-limit state and when it was read: by the database's clock (``now``) and by this process's (monotonic)."""

    state: RateLimitState
    now: datetime
    clock_seconds: float

    def count_request(self, tokens: int | None, clock_seconds: float) -> CountedRequest:
        """Count one request of ``tokens`` (None: without tokens), as if nothing was counted since. Raises RateLimitExceeded."""
        return self.state.count_request(self._moment(clock_seconds), tokens)

    def age(self, clock_seconds: float) -> float:  # in seconds
        return clock_seconds - self.clock_seconds

    def headers(self, clock_seconds: float) -> dict[str, str]:
        """Return the x-ratelimit-* headers, as if nothing was counted since."""
        return self.state.inspect(self._moment(clock_seconds)).headers()

    def _moment(self, clock_seconds: float) -> datetime:
        return self.now + timedelta(seconds=self.age(clock_seconds))


_cache: TTLCache[str, CachedRateLimit] = TTLCache(seconds=60, entries_max=65_536)  # by key id; only keys that have a limit
_in_flight: TTLCache[str, RequestsInFlight] = TTLCache(seconds=60, entries_max=65_536)  # by key id
get, in_flight = _cache.get, _in_flight.get  # what was read of a key within a minute, or None


def store(key: ApiKey, account: Account, now: datetime) -> None:
    """Cache the state of a row just read; ``now`` is the database's clock at the read."""
    if state_in_flight := requests_in_flight.read_state(key, account):
        _in_flight.put(key.id, state_in_flight)
    limits = rate_limits.effective_limits(key, account)
    if limits.requests is None and limits.tokens is None:
        _cache.discard(key.id)
    else:
        _cache.put(key.id, CachedRateLimit(rate_limits.read_state(key, account), now, time.monotonic()))


def forget(key_id: str) -> None:
    """Remove the key: it is refused, and its replies show no limits."""
    _cache.discard(key_id)
    _in_flight.discard(key_id)


def estimate_headers(key_id: str) -> dict[str, str]:
    """Return the x-ratelimit-* headers by the cached state; empty without one."""
    cached, state_in_flight = get(key_id), in_flight(key_id)
    headers = cached.headers(time.monotonic()) if cached else {}
    return headers | state_in_flight.headers() if state_in_flight else headers
