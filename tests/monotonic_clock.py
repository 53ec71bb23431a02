"""A monotonic clock for modules of the gateway that a test stops or moves on: so no test waits, or fails on a slow machine."""

import time
from types import ModuleType
from typing import Any

import pytest


class MonotonicClock:
    """Stands in for the module ``time``. It runs like the real clock until it is stopped, plus the seconds it was moved on.

    Stopped, it moves by a microsecond at each reading.
    """

    def __init__(self) -> None:
        self._moved_seconds = 0.0
        self._stopped_at: float | None = None

    def monotonic(self) -> float:
        if self._stopped_at is None:
            return time.monotonic() + self._moved_seconds
        self._stopped_at += 1e-6  # so that the later of two readings is greater
        return self._stopped_at + self._moved_seconds

    def stop(self) -> None:
        self._stopped_at = time.monotonic()

    def move_on(self, seconds: float) -> None:
        self._moved_seconds += seconds

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


def use_clock(monkeypatch: pytest.MonkeyPatch, *modules: ModuleType) -> MonotonicClock:
    """Give these modules one clock of their own until the test ends. Timers of gevent still go by the real one."""
    clock = MonotonicClock()
    for module in modules:
        monkeypatch.setattr(module, "time", clock)
    return clock
