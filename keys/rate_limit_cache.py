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
from keys.rate_limits import Count, Standing


@dataclass(frozen=True, slots=True)
class Sighting:
    """A key's standing, and when it was that: by the database's clock, and by this process's."""

    standing: Standing
    now: datetime
    clock_seconds: float

    def count(self, tokens: int | None, clock_seconds: float) -> Count:
        """Count one request of ``tokens``, or without looking at them, had nothing happened since. Raises RateLimitExceeded."""
        return self.standing.count(self._moment(clock_seconds), tokens)

    def age(self, clock_seconds: float) -> float:
        """In seconds."""
        return clock_seconds - self.clock_seconds

    def headers(self, clock_seconds: float) -> dict[str, str]:
        """The x-ratelimit-* headers, had nothing happened since."""
        return self.standing.peek(self._moment(clock_seconds)).headers()

    def _moment(self, clock_seconds: float) -> datetime:
        return self.now + timedelta(seconds=self.age(clock_seconds))


_sightings: TTLCache[str, Sighting] = TTLCache(seconds=60, entries_max=65_536)  # by key id; of keys that have a limit


def see(key: ApiKey, account: Account, now: datetime) -> None:
    """Remember where the key stands, as its row is ``now``, by the database's clock."""
    standing = rate_limits.standing(key, account)
    if standing.limits.requests is None and standing.limits.tokens is None:
        _sightings.discard(key.pk)
    else:
        _sightings.put(key.pk, Sighting(standing, now, time.monotonic()))


def forget(key_id: str) -> None:
    """Nobody may use this key."""
    _sightings.discard(key_id)


def last(key_id: str) -> Sighting | None:
    """What was seen last, if it was within a minute."""
    return _sightings.get(key_id)


def headers(key_id: str) -> dict[str, str]:
    """The x-ratelimit-* headers by what was seen last; none when nothing was."""
    sighting = last(key_id)
    return sighting.headers(time.monotonic()) if sighting else {}
