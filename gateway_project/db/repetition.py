"""Work in the background: an error of the database or of the disk ends one attempt, and the next one follows."""

import logging
from collections.abc import Callable
from typing import NoReturn

import gevent

from gateway_project import errors
from gateway_project.db import pool


def attempt(work: Callable[[], object], *, logger: logging.Logger, failure: str) -> None:
    """Do the work, and give the connection back. ``failure`` says in the log what could not be done."""
    try:
        work()
    except (*pool.DATABASE_ERRORS, OSError) as error:
        logger.warning("%s: %s", failure, errors.reason(error))
    finally:
        pool.release_connection()


def spawn_write(write: Callable[[], object], *, logger: logging.Logger, failure: str) -> None:
    """Attempt a short write in a greenlet of its own: no request waits for it."""

    def write_in_time() -> None:
        with pool.time_limit():
            write()

    gevent.spawn(attempt, write_in_time, logger=logger, failure=failure)


def repeat(work: Callable[[], object], seconds: float, *, logger: logging.Logger, failure: str) -> None:
    """Attempt the work after each pause of so many seconds, in a greenlet of its own, for the life of this process."""

    def run() -> NoReturn:
        while True:
            gevent.sleep(seconds)
            attempt(work, logger=logger, failure=failure)

    gevent.spawn(run)
