"""What the embedded PostgreSQL and Redis share."""

import time
from collections.abc import Callable

_WAIT_SECONDS_MAX = 10


class CannotStart(Exception):
    """The gateway cannot start. The message tells the developer why, in one line."""


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until a server has started or stopped. The wait is limited, so check the condition afterwards."""
    deadline = time.monotonic() + _WAIT_SECONDS_MAX
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
