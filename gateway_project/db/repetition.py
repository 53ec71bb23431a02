"""Work that a process repeats every few seconds in the background, in a greenlet of its own."""

import logging
from collections.abc import Callable
from typing import NoReturn

import gevent

from gateway_project import errors
from gateway_project.db import pool


def repeat(work: Callable[[], object], seconds: float, *, logger: logging.Logger, failure: str) -> None:
    """Do the work after each pause of so many seconds, for the life of this process.

    An error of the database or of the disk ends one turn only: ``failure`` says in the log what could not be done.
    """
    gevent.spawn(_repeat, work, seconds, logger, failure)


def _repeat(work: Callable[[], object], seconds: float, logger: logging.Logger, failure: str) -> NoReturn:
    while True:
        gevent.sleep(seconds)
        try:
            work()
        except (*pool.DATABASE_ERRORS, OSError) as error:
            logger.warning("%s: %s", failure, errors.reason(error))
        finally:
            pool.release_connection()
