"""Request ids and the request log. The id is in the reply, in error messages and in all log lines of the request.

The log line has only the fields listed here. Headers, query strings and bodies are never logged, as they may hold secrets.
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
    """Gives each request an id and logs its reply. It comes first, so that replies of all other middleware are logged, too."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        started = time.monotonic()
        request.id = f"req_{identifiers.uuid7().hex}"  # type: ignore[attr-defined]
        _request_id.set(request.id)  # type: ignore[attr-defined]
        response = self.get_response(request)
        # The reply is complete. A client that reads it slowly must not keep a connection that other requests wait for.
        pool.release_connection()
        response["x-request-id"] = request.id  # type: ignore[attr-defined]
        if not (response.streaming or response.has_header("Content-Length") or response.status_code in (204, 304)):
            # Without this header gunicorn sends the reply in chunks, which takes three writes instead of one.
            response["Content-Length"] = str(len(response.content))
        seconds = time.monotonic() - started
        metrics.observe_request(request, response, seconds)
        path = quote(request.path)  # so that a line break in the path does not start a new log line
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
        # The id of the API key, if a view authenticated one. The id is not secret.
        "key": getattr(request, "key_id", None),
        # The completion and its cost, if there is one. For a stream a later line logs the cost.
        "completion": getattr(request, "completion_id", None),
        "cost": response.get("x-gateway-cost"),
    }


class ContextFilter(logging.Filter):
    """Adds the id of the current request to log records."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.request_id = _request_id.get()
        record.__dict__.pop("request", None)  # Django adds the request to its own records, and its text shows the query string
        return True


class JsonLineFormatter(JsonFormatter):
    """A formatter that writes one line of JSON: timestamp, level, logger, message, request_id and the fields of ``extra``."""

    def __init__(self) -> None:
        super().__init__(
            "%(levelname)s %(name)s %(message)s %(request_id)s",
            rename_fields={"levelname": "level", "name": "logger"},
            timestamp=True,
        )
