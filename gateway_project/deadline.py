"""Deadlines of many waits, for the price of one timer: all of them are looked at a few times per second.

A timer of gevent for each wait is exact, but costs a completion more than the wait. A deadline noted here is never early,
and up to TICK_SECONDS late.
"""

import math
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any

from gevent import Greenlet, get_hub, getcurrent

TICK_SECONDS = 0.1


def ends_within(greenlet: Greenlet, seconds: float) -> bool:
    """Wait for the greenlet; return whether it ended. Time in which the event loop did not turn does not count."""
    for _ in range(round(seconds / TICK_SECONDS)):
        greenlet.join(TICK_SECONDS)
        if greenlet.ready():
            return True
    return False


class Alarm:
    """Calls ``function``, which must not wait, from the event loop if the block takes longer than ``seconds``."""

    __slots__ = ("_action", "_ticker", "at")

    def __init__(self, seconds: float, function: Callable[[], object]) -> None:
        self.at = time.monotonic() + seconds
        self._action: Any = function

    def __enter__(self) -> None:
        hub = get_hub()
        self._ticker = ticker = vars(hub).get("ticker") or vars(hub).setdefault("ticker", _Ticker(hub))
        ticker.alarms[self] = None
        if self.at < ticker.next_at:
            ticker.wake(self.at)

    def begin(self, seconds: float) -> None:
        self.at = time.monotonic() + seconds
        if self.at < self._ticker.next_at:
            self._ticker.wake(self.at)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._ticker.alarms.pop(self, None)

    def ring(self) -> None:
        self._action()


class Deadline(Alarm):
    """Raises ``exception`` in the block, where it waits, if it takes longer than ``seconds``."""

    __slots__ = ("_waiter",)

    def __init__(self, seconds: float, exception: BaseException) -> None:
        self.at = time.monotonic() + seconds
        self._action = exception
        self._waiter = getcurrent()

    def ring(self) -> None:
        self._waiter.throw(self._action)


class SilentDeadline(Deadline):
    """Ends the block, where it waits, if it takes longer than ``seconds``."""

    __slots__ = ()

    def __init__(self, seconds: float) -> None:
        self.at = time.monotonic() + seconds
        self._action = _Expired()
        self._waiter = getcurrent()

    def __exit__(  # type: ignore[override]
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        self._ticker.alarms.pop(self, None)
        return error is self._action


class _Expired(BaseException):
    """Ends a block. No code in it takes this for an error of its own."""


class _Ticker:
    """The alarms of one event loop. Each thread has its own loop."""

    def __init__(self, hub: Any) -> None:
        self.alarms: dict[Alarm, None] = {}
        self.next_at = math.inf  # no alarm rings before
        self._timer = hub.loop.timer(TICK_SECONDS, TICK_SECONDS)

    def wake(self, at: float) -> None:
        """Look at the alarms from now on, until there are none. None rings before ``at``."""
        self.next_at = at
        if not self._timer.active:
            self._timer.start(self._tick)

    def _tick(self) -> None:
        now = time.monotonic()
        if now < self.next_at:
            return
        for alarm in [alarm for alarm in self.alarms if alarm.at <= now]:
            if alarm in self.alarms:  # its block may end while others ring
                del self.alarms[alarm]
                alarm.ring()
        self.next_at = min((alarm.at for alarm in self.alarms), default=math.inf)
        if not self.alarms:
            self._timer.stop()
