"""Starts Django in a process that serves, or ends the process: a line of the log says what is wrong with its configuration."""

import logging
import logging.config
import sys
import threading
from types import TracebackType
from typing import Any, NoReturn

import django
import gevent.hub
from django.core.checks import CheckMessage, run_checks
from django.core.exceptions import ImproperlyConfigured

from gateway_project import environment, logs

logger = logging.getLogger("gateway.startup")

EXIT_STATUS = 3  # gunicorn's own for a worker that cannot start


def start(*, checks_code: bool = False) -> None:
    """Read the settings, load the apps and check the configuration: the same in web processes, the worker and beat.

    Django's own checks are of the code, and load all of it, with every page: they run if ``checks_code``, and in `make lint`.
    An error or exception ends the process: whatever the servers would print of it is no line of the log.
    """
    try:
        is_readable = environment.boolean("GATEWAY_DEVELOPMENT", default=False)
    except ImproperlyConfigured:
        is_readable = False
    logging.config.dictConfig(logs.configuration(is_readable=is_readable))  # until the settings are read
    logging.captureWarnings(True)
    log_uncaught_exceptions()
    try:
        django.setup(set_prefix=False)
        found = run_checks(tags=None if checks_code else [environment.CHECK_TAG])
        findings = [finding for finding in found if not finding.is_silenced()]
        if not any(finding.is_serious() for finding in findings):  # there is a database to ask, which one check must do
            findings += run_checks(tags=["pooler"], databases=["default"])
    except ImproperlyConfigured as error:
        _refuse(str(error))
    except Exception as error:
        _refuse(f"{type(error).__name__}: {error}", exception=error)
    for finding in findings:
        logger.log(finding.level, "%s", describe(finding), extra={"check": finding.id})
    if any(finding.is_serious() for finding in findings):
        _refuse("the system checks found errors")


def log_uncaught_exceptions() -> None:
    """Log what ends a process, a thread or a greenlet. Python and gevent would print it."""
    sys.excepthook = _log_uncaught
    threading.excepthook = lambda thread: _log_uncaught(*thread[:3])
    gevent.hub.Hub.print_exception = lambda hub, context, *exception: _log_uncaught(*exception)


def _log_uncaught(kind: Any, exception: Any, traceback: TracebackType | None) -> None:
    logger.critical("unexpected %s, which nothing handles", kind.__name__, exc_info=(kind, exception, traceback))


def describe(finding: CheckMessage) -> str:
    """Return the finding of a check in one line that begins with its number."""
    return " ".join(f"{finding.id}: {finding.msg} {finding.hint or ''}".split())


def _refuse(reason: str, *, exception: Exception | None = None) -> NoReturn:
    logger.critical("the gateway does not start: %s", reason, exc_info=exception)
    sys.exit(EXIT_STATUS)
