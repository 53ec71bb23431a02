"""Keeps other processes of this host from doing the same with a directory, and makes durable what was renamed in it."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PAUSE_SECONDS = 0.1


@contextmanager
def locked(directory: Path, wait_seconds: float = 0) -> Iterator[bool]:
    """Lock the directory, as long as this process lives. Yield whether that was possible after waiting."""
    descriptor = os.open(directory, os.O_RDONLY)
    gives_up_at = time.monotonic() + wait_seconds
    try:
        while not (is_locked := _try_lock(descriptor)) and time.monotonic() < gives_up_at:
            time.sleep(_PAUSE_SECONDS)
        yield is_locked
    finally:
        os.close(descriptor)


def sync_directory(directory: Path) -> None:
    """Make the renames in a directory durable."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
