"""Bounds the bytes of the large request bodies that this process receives, parses or holds, in all and for each account.

A body counts with its Content-Length from before it is read until its reply begins, because further attempts may need it. A
body that trickles in counts no longer than REQUEST_BODY_TIMEOUT_SECONDS.
"""

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from django.conf import settings

from gateway_project import errors


class BodiesInFlight:
    """The bytes in flight, by owner. Counting never waits, so greenlets need no lock."""

    def __init__(self) -> None:
        self.total_bytes = 0
        self._bytes_by_owner: dict[Hashable, int] = {}

    @contextmanager
    def counted(self, owner: Hashable, length_bytes: int) -> Iterator[None]:
        """Count a body during the block. Raises RateLimitExceeded beyond the owner's bound, ServiceUnavailable beyond all."""
        owned_bytes = self._bytes_by_owner.get(owner, 0)
        if owned_bytes + length_bytes > settings.ACCOUNT_BYTES_IN_FLIGHT_MAX:
            raise errors.RateLimitExceeded(
                f"The account's running requests have {owned_bytes} bytes of bodies, of at most"
                f" {settings.ACCOUNT_BYTES_IN_FLIGHT_MAX}: try again when one of them is answered.",
                headers=errors.retry_after(timedelta(seconds=1)),
            )
        if self.total_bytes + length_bytes > settings.BYTES_IN_FLIGHT_MAX:
            raise errors.ServiceUnavailable("The gateway holds too many large requests at the moment. Try again.")
        self._add(owner, length_bytes)
        try:
            yield
        finally:
            self._add(owner, -length_bytes)

    def _add(self, owner: Hashable, length_bytes: int) -> None:
        self.total_bytes += length_bytes
        self._bytes_by_owner[owner] = self._bytes_by_owner.get(owner, 0) + length_bytes
        if not self._bytes_by_owner[owner]:
            del self._bytes_by_owner[owner]


process_bodies = BodiesInFlight()
