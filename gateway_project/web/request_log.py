"""LEAF. Every request gets an id, which its reply, its log lines and its errors carry; and one line when it is answered.

Only what is named here is logged: never a header, a query string or a body, so no secret can be.
"""

import logging
import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any
from urllib.parse import quote

from django.http import HttpRequest, HttpResponse
from pythonjsonlogger.json import JsonFormatter

from gateway_project import identifiers, metrics
from gateway_project.db import pool

logger = logging.getLogger("gateway.request")
_request_id: ContextVar[str] = ContextVar("request_id", default="-")


class RequestLogMiddleware:
    """First in the list, so that whatever any other layer answers is numbered and logged."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        started = time.monotonic()
        request.id = f"req_{identifiers.uuid7().hex}"  # type: ignore[attr-defined]
        _request_id.set(request.id)  # type: ignore[attr-defined]
        response = self.get_response(request)
        # The reply is made. A client that does not read it must not keep a connection that others wait for.
        pool.release_connection()
        response["x-request-id"] = request.id  # type: ignore[attr-defined]
        if not (response.streaming or response.has_header("Content-Length") or response.status_code in (204, 304)):
            # Without it the server sends whole replies in chunks, which takes three writes instead of one.
            response["Content-Length"] = str(len(response.content))
        seconds = time.monotonic() - started
        metrics.observe_request(request, response, seconds)
        path = quote(request.path)  # a line break in it must not begin a line of the log
        logger.info(
            "%s %s %s %.1fms",
            request.method,
            path,
            response.status_code,
            seconds * 1000,
            extra=_facts(request, response, path, seconds),
        )
        return response


def _facts(request: HttpRequest, response: HttpResponse, path: str, seconds: float) -> dict[str, Any]:
    return {
        "method": request.method,
        "path": path,
        "status": response.status_code,
        "duration_ms": round(seconds * 1000, 1),
        "streaming": response.streaming,
        # The id of the key, where a view authenticated one: it identifies and opens nothing.
        "key": getattr(request, "key_id", None),
        # ... and of the completion, and what it cost, where there was one. A stream is settled on a later line.
        "completion": getattr(request, "completion_id", None),
        "cost": response.get("x-gateway-cost"),
    }


class ContextFilter(logging.Filter):
    """Adds the id of the request in whose course a line was logged."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.request_id = _request_id.get()
        record.__dict__.pop("request", None)  # Django adds it to its own lines, and its text has the query string
        return True


class JsonLineFormatter(JsonFormatter):
    """One line of JSON: timestamp, level, logger, message, request_id and what ``extra`` gave."""

    def __init__(self) -> None:
        super().__init__(
            "%(levelname)s %(name)s %(message)s %(request_id)s",
            rename_fields={"levelname": "level", "name": "logger"},
            timestamp=True,
        )
