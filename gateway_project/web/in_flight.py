"""Requests that this process has begun and not answered, by owner: each owner has a maximum, and more wait in order.

All requests of a process share one event loop: a computation holds up all. So no owner may compute much at a time. Owners of
pages are also paced: over time, they get a third of the processor, and a slow query counts as if it computed. A page counts
under its client's address until the user is known, and then under the user: so people behind one address do not share a
maximum.
"""

import time
from collections import deque
from collections.abc import Callable, Hashable
from datetime import timedelta
from threading import Event
from weakref import WeakValueDictionary

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from gateway_project import errors
from gateway_project.cache import TTLCache
from gateway_project.db import pool
from gateway_project.web.hosts import Layer, without_conversion

_WAIT_SECONDS = 1.0  # for a place; a client that asks again and again is refused once per second on each connection
_PAGE_WAIT_SECONDS = 10.0  # for a place and the pace, such as that of the last of many tabs that a browser opens at once
_PAGES_WAITING_MAX = 64  # of an owner
# What a page counts at least, for each part of its reply: it stands for what the server does beside the page, and for sending.
_PART_SECONDS, _PART_BYTES = 0.008, 65_536
_PER_SECOND = 3  # what a second of the processor counts: so an owner gets a third of it
_PAGE_SECONDS_MAX = 0.5  # that a page counts: others may have computed while it waited for the database
_QUICK_SECONDS = 0.005  # of a query, which the database need not have worked on
_AHEAD_SECONDS = 1.0  # of pages that an owner may use at once, such as those of several tabs


class _Places:
    """The places of one owner. They are given to those who wait in the order of their asking."""

    def __init__(self, count: int) -> None:
        self.free = count
        self.waiting: deque[Event] = deque()
        self.counted_until = 0.0  # the processor time up to which the owner's pages were counted

    def take(self, wait_seconds: float) -> bool:
        if self.free:  # no request waits
            self.free -= 1
            return True
        given = Event()
        self.waiting.append(given)
        try:
            pool.release_connection()  # other requests need it, perhaps the ones that hold the places
            given.wait(wait_seconds)
        except BaseException:  # the request is killed
            if self._leave(given):
                self.give_back()
            raise
        return self._leave(given)

    def give_back(self) -> None:
        if self.waiting:
            self.waiting.popleft().set()
        else:
            self.free += 1

    def _leave(self, given: Event) -> bool:
        if not given.is_set():
            self.waiting.remove(given)
        return given.is_set()


class InFlight:
    """Counts requests of one kind. ``setting`` names the maximum of each owner; ``owner`` and ``kind`` word the refusal."""

    def __init__(self, setting: str, owner: str, kind: str) -> None:
        self._setting, self._owner, self._kind = setting, owner, kind
        # An entry lasts as long as a request of its owner refers to it. The maximum is that of the time when it was made.
        self._places_by_owner = WeakValueDictionary[Hashable, _Places]()

    def begin(self, request: HttpRequest, owner: Hashable) -> None:
        """Count the request, and no longer under any other owner, until ``end``. Raises RateLimitExceeded after a second."""
        end(request)
        places = self._places_of(owner)
        if not places.take(_WAIT_SECONDS):
            raise self._refusal()
        vars(request)["end_in_flight"] = lambda reply_bytes: places.give_back()

    def _places_of(self, owner: Hashable) -> _Places:
        return self._places_by_owner.setdefault(owner, _Places(getattr(settings, self._setting)))

    def _refusal(self) -> errors.RateLimitExceeded:
        return errors.RateLimitExceeded(
            f"The {self._owner} has as many {self._kind} in flight as it may have ({getattr(settings, self._setting)})."
            " Try again when one has ended.",
            headers=errors.retry_after(timedelta(seconds=1)),
        )


class PagesInFlight(InFlight):
    """Counts pages, and paces them."""

    def __init__(self, setting: str, owner: str) -> None:
        super().__init__(setting, owner, "pages")
        # By owner: when its pages would have ended, had each taken as long as it counts and begun after the one before.
        self._used_until: TTLCache[Hashable, float] = TTLCache(seconds=60, entries_max=65_536)

    def begin(self, request: HttpRequest, owner: Hashable) -> None:
        """Count the page until ``end``. It waits for a place, and there for its pace. Raises RateLimitExceeded."""
        end(request, None)
        refused_at = time.monotonic() + _PAGE_WAIT_SECONDS
        places = self._places_of(owner)
        if len(places.waiting) >= _PAGES_WAITING_MAX:
            pool.release_connection()
            time.sleep(_WAIT_SECONDS)  # refused at once, clients that ask again and again would take all of the time
            raise self._refusal()
        if not places.take(_PAGE_WAIT_SECONDS):
            raise self._refusal()
        vars(request)["end_in_flight"] = lambda reply_bytes: places.give_back()
        self._wait_for_pace(owner, refused_at)
        began = time.thread_time()

        def end_page(reply_bytes: int | None) -> None:
            places.give_back()
            self._count(owner, _seconds(places, began, reply_bytes, vars(request).get("queried_seconds", 0.0)))

        vars(request)["end_in_flight"] = end_page

    def _count(self, owner: Hashable, seconds: float) -> None:
        self._used_until.put(owner, max(self._used_until.get(owner) or 0, time.monotonic()) + seconds)

    def _wait_for_pace(self, owner: Hashable, refused_at: float) -> None:
        now = time.monotonic()
        begins_at = (self._used_until.get(owner) or 0) - _AHEAD_SECONDS
        if begins_at <= now:
            return
        pool.release_connection()
        time.sleep(max(min(begins_at, refused_at) - now, 0))
        if begins_at > refused_at:
            raise self._refusal()


def count_query(request: HttpRequest, seconds: float) -> None:
    """Count the time of a query of a page, but of one that is quick: there may have been no turn for its answer."""
    vars(request)["queried_seconds"] = vars(request).get("queried_seconds", 0.0) + max(seconds - _QUICK_SECONDS, 0.0)


def _seconds(places: _Places, began: float, reply_bytes: int | None, queried_seconds: float) -> float:
    """Return what a page counts. One that continues under another owner counts there.

    The processor time since it began includes what others computed while it waited, so none counts for two pages of an owner.
    The page's own work is not known: to add it up at each switch of greenlets would slow down completions.
    """
    if reply_bytes is None:
        return _PART_SECONDS
    now = time.thread_time()
    computed_seconds = now - max(began, places.counted_until)
    places.counted_until = now
    parts_seconds = _PART_SECONDS * (1 + reply_bytes // _PART_BYTES)
    return min(max((computed_seconds + queried_seconds) * _PER_SECOND, parts_seconds), _PAGE_SECONDS_MAX)


def end(request: HttpRequest, reply_bytes: int | None = 0) -> None:
    """End what counts the request. ``reply_bytes`` has its reply; None: it continues under another owner."""
    end_one: Callable[[int | None], None] | None = vars(request).pop("end_in_flight", None)
    if end_one is not None:
        end_one(reply_bytes)


pages_of_address = PagesInFlight("ADDRESS_PAGES_IN_FLIGHT", "address")
pages_of_user = PagesInFlight("USER_PAGES_IN_FLIGHT", "user")


class InFlightMiddleware:
    def __init__(self, get_response: Layer) -> None:
        self.get_response = without_conversion(get_response)

    def __call__(self, request: HttpRequest) -> HttpResponse:
        try:
            response = self.get_response(request)
            if "end_in_flight" in vars(request):
                end(request, 0 if response.streaming else len(response.content))
            return response
        finally:
            end(request)  # also if the request was killed
