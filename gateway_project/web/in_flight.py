"""Requests that this process has begun and not answered, by owner: each owner has a maximum, and one more waits for a second.

All requests of a process share one event loop. Who computes holds up everybody, so no owner may compute much at the same time.

Owners of pages are also paced: their pages get the time of one page after another, however many are in flight, and half of that
when there are others all the time. What an owner used beyond that is waited for by the owner's next pages. A page counts under
its client's address until it is known who asks, and then under that user, so that the people behind one address are not one
owner.
"""

import time
from collections.abc import Callable, Hashable
from datetime import timedelta
from weakref import WeakValueDictionary

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from gevent.lock import Semaphore

from gateway_project import errors
from gateway_project.cache import TTLCache
from gateway_project.db import pool

_WAIT_SECONDS = 1.0  # for a place; a client that asks again and again is refused once a second on each connection
# What a page counts at least, for each part of its reply: it stands for what the server does beside the page, and for sending.
_PART_SECONDS, _PART_BYTES = 0.008, 65_536
_PAGE_SECONDS_MAX = 0.25  # it may have waited for others
_AHEAD_SECONDS = 1.0  # of pages that an owner may use at once, such as those of a page with its style sheets


class InFlight:
    """Counts requests of one kind. ``setting`` names the maximum of each owner; ``owner`` and ``kind`` word the refusal."""

    def __init__(self, setting: str, owner: str, kind: str) -> None:
        self._setting, self._owner, self._kind = setting, owner, kind
        # An entry lasts as long as a request of its owner refers to it. The maximum is that of the time when it was made.
        self._free_by_owner = WeakValueDictionary[Hashable, Semaphore]()

    def begin(self, request: HttpRequest, owner: Hashable) -> None:
        """Count the request, and no longer under any other owner, until ``end``. Raises RateLimitExceeded after a second."""
        end(request)
        free = self._free_by_owner.setdefault(owner, Semaphore(self._maximum()))
        if not free.acquire(blocking=False):
            pool.release_connection()  # others need it, who may be those that this waits for
            if not free.acquire(timeout=_WAIT_SECONDS):
                raise self._refusal()
        request.end_in_flight = lambda reply_bytes: free.release()  # type: ignore[attr-defined]

    def _maximum(self) -> int:
        return int(getattr(settings, self._setting))

    def _refusal(self) -> errors.RateLimitExceeded:
        return errors.RateLimitExceeded(
            f"The {self._owner} has as many {self._kind} in flight as it may have ({self._maximum()})."
            " Try again when one has ended.",
            headers=errors.retry_after(timedelta(seconds=1)),
        )


class PagesInFlight(InFlight):
    """Counts pages, and paces them."""

    def __init__(self, setting: str, owner: str) -> None:
        super().__init__(setting, owner, "pages")
        # By owner: when the time that its pages used would have passed, had they come one after another.
        self._used_until: TTLCache[Hashable, float] = TTLCache(seconds=60, entries_max=65_536)

    def begin(self, request: HttpRequest, owner: Hashable) -> None:
        super().begin(request, owner)
        release = request.end_in_flight  # type: ignore[attr-defined]
        self._wait_for_pace(owner)
        began = time.monotonic()

        def end_page(reply_bytes: int) -> None:
            release(reply_bytes)
            seconds = max(time.monotonic() - began, _PART_SECONDS * (1 + reply_bytes // _PART_BYTES))
            self._note(owner, min(seconds, _PAGE_SECONDS_MAX))

        request.end_in_flight = end_page  # type: ignore[attr-defined]

    def _wait_for_pace(self, owner: Hashable) -> None:
        wait_seconds = (self._used_until.get(owner) or 0) - _AHEAD_SECONDS - time.monotonic()
        if wait_seconds <= 0:
            return
        pool.release_connection()
        time.sleep(min(wait_seconds, _WAIT_SECONDS))
        if wait_seconds > _WAIT_SECONDS:
            raise self._refusal()

    def _note(self, owner: Hashable, seconds: float) -> None:
        counted_seconds = seconds * (2 if self._has_others(owner) else 1)
        self._used_until.put(owner, max(self._used_until.get(owner) or 0, time.monotonic()) + counted_seconds)

    def _has_others(self, owner: Hashable) -> bool:
        """Return whether another page of the owner is in flight: as one computes, the next one waits."""
        free = self._free_by_owner.get(owner)
        return free is not None and free.counter < self._maximum()


def end(request: HttpRequest, reply_bytes: int = 0) -> None:
    """Count the request no longer, if it was counted. ``reply_bytes`` has its reply."""
    end_one: Callable[[int], None] | None = request.__dict__.pop("end_in_flight", None)
    if end_one is not None:
        end_one(reply_bytes)


pages_of_address = PagesInFlight("ADDRESS_PAGES_IN_FLIGHT", "address")
pages_of_user = PagesInFlight("USER_PAGES_IN_FLIGHT", "user")


class InFlightMiddleware:
    """Ends what counted the request, when it is answered."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        try:
            response = self.get_response(request)
            if "end_in_flight" in request.__dict__:
                end(request, 0 if response.streaming else len(response.content))
            return response
        finally:
            end(request)  # also if the request was killed
