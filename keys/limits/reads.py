"""Reads per minute of a key: of anything but a new completion; and apart from these, replies that are stored for repetitions.

The count is in the memory of the process: a read is cheap, and a row would cost as much as many reads. So each web process
allows the whole limit. A refused read costs no query.

The limit lets a minute's reads come in one burst. All requests of a process share one event loop, so only a few reads of an
account are in flight at a time, and the next wait: what others send is not behind the whole burst.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from uuid import UUID
from weakref import WeakValueDictionary

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from gevent.lock import Semaphore

from gateway_project import errors
from gateway_project.cache import TTLCache
from keys.limits import gcra
from keys.limits.gcra import Decision
from keys.limits.rate_limits import go_duration

_WAIT_SECONDS = 1.0  # for one's turn; a client that asks again and again is refused once a second on each connection

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


class ReadsInFlight:
    """The reads that this process has begun and not answered, by account: another key is no way around the maximum."""

    def __init__(self) -> None:
        # An entry lasts as long as a request of its account refers to it. The maximum is that of the time when it was made.
        self._free_by_account = WeakValueDictionary[UUID, Semaphore]()

    def begin(self, request: HttpRequest, account_id: UUID) -> None:
        """Count a read until ``end``. One more than ACCOUNT_READS_IN_FLIGHT waits for a second; then RateLimitExceeded."""
        maximum = settings.ACCOUNT_READS_IN_FLIGHT
        free = self._free_by_account.setdefault(account_id, Semaphore(maximum))
        if not free.acquire(timeout=_WAIT_SECONDS):
            raise errors.RateLimitExceeded(
                f"The account has as many requests for {reads.kind} in flight as it may have ({maximum})."
                " Try again when one has ended.",
                headers=errors.retry_after(timedelta(seconds=1)),
            )
        request.read_in_flight = free  # type: ignore[attr-defined]

    def end(self, request: HttpRequest) -> None:
        """Count the request's read no longer, if it began one."""
        free: Semaphore | None = getattr(request, "read_in_flight", None)
        if free is not None:
            free.release()


in_flight = ReadsInFlight()


class ReadsInFlightMiddleware:
    """Ends the read that authentication began, when the view has answered."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        try:
            return self._get_response(request)
        finally:
            in_flight.end(request)
