"""Where keys stood with their limits per minute when this process last read their rows: for replies that read none.

Rows are read anyway, by admission and where a key is authenticated with its status; here is what they said, for a minute.
Another process may have counted since. What decides is the row; this is told, and ``refusals`` may repeat a no by it.
"""

import time
from dataclasses import dataclass
from datetime import datetime, timedelta

from billing.models import Account
from gateway_project.cache import TTLCache
from keys import rate_limits
from keys.models import ApiKey
from keys.rate_limits import CountedRequest, RateLimitState


@dataclass(frozen=True, slots=True)
class CachedRateLimit:
    """A key's standing, and when it was that: by the database's clock, and by this process's."""

    state: RateLimitState
    now: datetime
    clock_seconds: float

    def count_request(self, tokens: int | None, clock_seconds: float) -> CountedRequest:
        """Count one request of ``tokens``, or without looking at them, had nothing happened since. Raises RateLimitExceeded."""
        return self.state.count_request(self._moment(clock_seconds), tokens)

    def age(self, clock_seconds: float) -> float:
        """In seconds."""
        return clock_seconds - self.clock_seconds

    def headers(self, clock_seconds: float) -> dict[str, str]:
        """The x-ratelimit-* headers, had nothing happened since."""
        return self.state.inspect(self._moment(clock_seconds)).headers()

    def _moment(self, clock_seconds: float) -> datetime:
        return self.now + timedelta(seconds=self.age(clock_seconds))


_cache: TTLCache[str, CachedRateLimit] = TTLCache(seconds=60, entries_max=65_536)  # by key id; of keys that have a limit


def store(key: ApiKey, account: Account, now: datetime) -> None:
    """Remember where the key stands, as its row is ``now``, by the database's clock."""
    state = rate_limits.read_state(key, account)
    if state.limits.requests is None and state.limits.tokens is None:
        _cache.discard(key.pk)
    else:
        _cache.put(key.pk, CachedRateLimit(state, now, time.monotonic()))


def forget(key_id: str) -> None:
    """Nobody may use this key."""
    _cache.discard(key_id)


def get(key_id: str) -> CachedRateLimit | None:
    """What was seen last, if it was within a minute."""
    return _cache.get(key_id)


def estimate_headers(key_id: str) -> dict[str, str]:
    """The x-ratelimit-* headers by what was seen last; none when nothing was."""
    cached = get(key_id)
    return cached.headers(time.monotonic()) if cached else {}
