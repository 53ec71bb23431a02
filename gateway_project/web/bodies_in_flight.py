"""Bounds the bytes of the large request bodies that this process receives, parses or holds, in all and for each account.

A body counts with what has arrived of it and AHEAD_BYTES more, its Content-Length at most: to announce five megabytes takes
nothing from others. It counts until its reply begins, because further attempts may need it. Large whole replies count, too,
until they are sent: they are paid, so none is refused.
"""

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from django.conf import settings

from gateway_project import errors

AHEAD_BYTES = 262_144  # what a body may take of memory before it is counted

Arrived = Callable[[int], None]


class BodiesInFlight:
    """The bytes in flight, by owner. Counting never waits, so greenlets need no lock."""

    def __init__(self) -> None:
        self.total_bytes = 0
        self._bytes_by_owner: dict[Hashable, int] = {}

    @contextmanager
    def counted(self, owner: Hashable, length_bytes: int) -> Iterator[Arrived]:
        """Count a body during the block. Its reader tells the value, ``arrived``, how many bytes have arrived.

        Both raise RateLimitExceeded when the body takes more than the owner's bound, ServiceUnavailable beyond that of all.
        """
        counted_bytes = 0

        def arrived(arrived_bytes: int) -> None:
            nonlocal counted_bytes
            more_bytes = min(arrived_bytes + AHEAD_BYTES, length_bytes) - counted_bytes
            if more_bytes:
                self._require_room(owner, more_bytes)
                self._add(owner, more_bytes)
                counted_bytes += more_bytes

        arrived(0)
        try:
            yield arrived
        finally:
            self._add(owner, -counted_bytes)

    @contextmanager
    def counted_reply(self, owner: Hashable, length_bytes: int) -> Iterator[None]:
        """Count a reply during the block, within the bounds or not."""
        self._add(owner, length_bytes)
        try:
            yield
        finally:
            self._add(owner, -length_bytes)

    def _require_room(self, owner: Hashable, more_bytes: int) -> None:
        owned_bytes = self._bytes_by_owner.get(owner, 0)
        if owned_bytes + more_bytes > settings.ACCOUNT_BYTES_IN_FLIGHT_MAX:
            raise errors.RateLimitExceeded(
                f"The account's running requests have {owned_bytes} bytes of bodies, of at most"
                f" {settings.ACCOUNT_BYTES_IN_FLIGHT_MAX}: try again when one of them is answered.",
                headers=errors.retry_after(timedelta(seconds=1)),
            )
        if self.total_bytes + more_bytes > settings.BYTES_IN_FLIGHT_MAX:
            raise errors.NoRoom("The gateway holds too many large requests at the moment. Try again.")

    def _add(self, owner: Hashable, more_bytes: int) -> None:
        self.total_bytes += more_bytes
        self._bytes_by_owner[owner] = self._bytes_by_owner.get(owner, 0) + more_bytes
        if not self._bytes_by_owner[owner]:
            del self._bytes_by_owner[owner]


process_bodies = BodiesInFlight()
