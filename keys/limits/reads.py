"""Reads per minute of a key: of anything but a new completion; and apart from these, replies that are stored for repetitions.

The count is in the memory of the process, because a read is cheap: each web process allows the whole limit. A refused read
costs no query. A minute's reads may come in one burst, of which only a few of an account are in flight at a time.
"""

import time
from datetime import UTC, datetime, timedelta

from django.conf import settings

from gateway_project import errors
from gateway_project.cache import TTLCache
from gateway_project.web.in_flight import InFlight
from keys.limits import gcra
from keys.limits.gcra import Decision
from keys.limits.rate_limits import go_duration

_EPOCH = datetime.fromtimestamp(0, UTC)


class ReadLimit:
    """KEY_READS_PER_MINUTE for the reads of one kind, which refusals name: ``kind``."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        # By key id: when the whole allowance is back, which is within a minute. Times are monotonic, from _EPOCH on.
        self._full_at: TTLCache[str, datetime] = TTLCache(seconds=60, entries_max=65_536)

    def require_allowed(self, key_id: str) -> None:
        """Raises RateLimitExceeded when the key may not read now. Counts nothing."""
        self._decide(key_id)

    def count(self, key_id: str) -> None:
        """Count a read. Raises RateLimitExceeded."""
        self._full_at.put(key_id, self._decide(key_id).full_at)

    def _decide(self, key_id: str) -> Decision:
        limit, now = settings.KEY_READS_PER_MINUTE, _EPOCH + timedelta(seconds=time.monotonic())
        decision = gcra.decide(limit=limit, full_at=self._full_at.get(key_id), now=now)
        if decision.retry_in is not None:
            raise errors.RateLimitExceeded(
                f"The key is limited to {limit} requests per minute for {self.kind}:"
                f" try again in {go_duration(decision.retry_in)}.",
                headers=errors.retry_after(decision.retry_in),
            )
        return decision


reads = ReadLimit("models, past completions, quotes, usage, balance and ledger")
replays = ReadLimit("replies that are stored for repetitions")
in_flight = InFlight("ACCOUNT_READS_IN_FLIGHT", "account", f"requests for {reads.kind}")
