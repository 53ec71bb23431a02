"""LEAF. What the two embedded servers, PostgreSQL and Redis, have in common."""

import time
from collections.abc import Callable

_PATIENCE_SECONDS = 10


class CannotStart(Exception):
    """What this machine lacks, in one line."""


def wait_until(condition: Callable[[], bool]) -> None:
    """Be patient with a server that comes up or goes down; not for ever, so ask again afterwards."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
