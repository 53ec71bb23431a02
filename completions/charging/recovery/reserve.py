"""Reserves room on the disk for settlements: none is lost when something else fills the disk.

A file of zeros in the outbox's directory takes the room. When the disk is full, the file shrinks by the size of a settlement,
which is then stored without its reply or response. When file and disk have no room left, or the disk takes no writes, requests
are refused before anything is held (``refusal``): without the database, their cost could be recorded nowhere.
"""

import errno
import fcntl
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import gevent
from django.conf import settings

from gateway_project import errors

logger = logging.getLogger("gateway.outbox")

FULL = (errno.ENOSPC, errno.EDQUOT)
_BYTES = 2**24  # some thousand settlements: more than run in the processes of a host
_STEP_BYTES = 2**16  # given up at a time: a settlement takes a few blocks, and its directory perhaps one

_had_bytes = 0  # the maximum of the reserve since this process began
refusal: OSError | None = None  # why no settlement can be kept on disk at present


def keep() -> None:
    """Fill up the reserve, and find out whether the disk takes writes. A thread waits for it."""
    global refusal
    error: OSError | None = gevent.get_hub().threadpool.apply(_keep)
    if error and not refusal:
        logger.critical("requests are refused, as no settlement can be kept in %s: %s", settings.OUTBOX_DIR, error)
    refusal = error


def _keep() -> OSError | None:
    """Return the error because of which nothing can be kept. (gevent would print what a thread of its pool raises.)"""
    try:
        settings.OUTBOX_DIR.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _locked_reserve() as descriptor:
            os.utime(descriptor)  # a disk that takes no writes refuses it
            _fill_up(descriptor)
            has_room = sum(_room_bytes(descriptor)) >= _STEP_BYTES
    except OSError as error:
        return error
    return None if has_room else OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _fill_up(descriptor: int) -> None:
    """Allocate the reserve, or half of the room that the disk has if that is less. All that was given up is taken back."""
    global _had_bytes
    size_bytes, free_bytes = _room_bytes(descriptor)
    has_bytes = size_bytes + free_bytes
    wanted_bytes = max(min(_BYTES, has_bytes // 2), min(_had_bytes, has_bytes))
    if wanted_bytes >= size_bytes + _STEP_BYTES:
        try:
            os.posix_fallocate(descriptor, 0, wanted_bytes)
        except OSError as error:
            if error.errno not in FULL:  # else others were faster
                raise
    _had_bytes = max(_had_bytes, os.fstat(descriptor).st_size)


def _room_bytes(descriptor: int) -> tuple[int, int]:
    disk = os.fstatvfs(descriptor)
    return os.fstat(descriptor).st_size, disk.f_bavail * disk.f_frsize


def spend(write: Callable[[], None]) -> OSError | None:
    """Call ``write``, and give up room until the full disk takes it. Return its last error. Call it in a thread: it waits."""
    global refusal
    try:
        with _locked_reserve() as descriptor:
            while size_bytes := os.fstat(descriptor).st_size:
                os.ftruncate(descriptor, max(size_bytes - _STEP_BYTES, 0))
                try:
                    write()
                except OSError as error:
                    if error.errno not in FULL:
                        return error
                else:
                    return None
        refusal = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError as error:
        refusal = error
    return refusal


@contextmanager
def _locked_reserve() -> Iterator[int]:
    """Open the reserve for one process: another one must not fill it up with the room that this one gives up."""
    descriptor = os.open(settings.OUTBOX_DIR / ".reserve", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def require() -> None:
    if refusal:
        raise errors.HostUnavailable("The gateway cannot take requests at present, because its disk is full. Try again.")
