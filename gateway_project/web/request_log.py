"""Request ids and the request log. The id is in the reply, in error messages and in all log lines of the request.

Headers, query strings and bodies are never logged, as they may hold secrets, nor is the message of a caller's error, which
may quote the request.
"""

import logging
import time
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from django.http import HttpRequest, HttpResponse

from gateway_project import errors, identifiers, logs, metrics
from gateway_project.db import cell, pool
from gateway_project.web import request_notes
from gateway_project.web.hosts import Layer, without_conversion

logger = logging.getLogger("gateway.request")
_quoted = lru_cache(maxsize=256)(quote)
_refusals = logs.Repetitions()


class RequestLogMiddleware:
    """Gives each request an id and logs its reply. It comes first, so that replies of all other middleware are logged, too."""

    def __init__(self, get_response: Layer) -> None:
        self.get_response = without_conversion(get_response)

    def __call__(self, request: HttpRequest) -> HttpResponse:
        started = time.monotonic()
        notes = request_notes.RequestNotes(f"req_{identifiers.uuid7_hex()}")
        vars(request)["notes"] = notes
        line = logs.begin_request(notes.id)
        cell.enter(cell.FIRST)
        response = self.get_response(request)
        # The reply is complete. A client that reads it slowly must not keep a connection that other requests wait for.
        pool.release_connection()
        response.headers["x-request-id"] = notes.id
        if not (response.streaming or "Content-Length" in response.headers or response.status_code in (204, 304)):
            # Without this header gunicorn sends the reply in chunks, which takes three writes instead of one.
            response.headers["Content-Length"] = str(len(response.content))
        seconds = time.monotonic() - started
        route = metrics.route(request)
        metrics.observe_request(route, request.method, response.status_code, seconds)
        _write(line, request, response, route, seconds)
        return response


def _write(line: logs.RequestLine, request: HttpRequest, response: HttpResponse, route: str, seconds: float) -> None:
    line.is_written = True
    failure: dict[str, Any] = {}
    words, level = "", logging.INFO
    if response.status_code >= 400 or line.failures:
        failure = _failure(line, response, route)
        words = "".join(f": {failure[name]}" for name in ("error", "reason") if name in failure)
        words += f" [{'; '.join(line.failures)}]" if line.failures else ""
        level = _level(line, response, failure)
    path = _quoted(request.path)  # so that a line break in the path does not start a new log line
    notes = request_notes.notes_of(request)
    facts = {
        "method": request.method,
        "path": path,
        "route": route,
        "status": response.status_code,
        "duration_ms": round(seconds * 1000, 1),
        "streaming": response.streaming,
        "key": notes.key_id or notes.management_key_id,
        # The completion and its cost, if there is one. For a stream a later line logs the cost.
        "completion": notes.completion_id,
        "cost": response.headers.get("x-gateway-cost"),
        **failure,
    }
    arguments = (request.method, path, response.status_code, seconds * 1000, words)
    logs.write(logger, level, "%s %s %s %.1fms%s", arguments, facts, line.cause if line.is_unexpected else None)


def _level(line: logs.RequestLine, response: HttpResponse, failure: dict[str, Any]) -> int:
    if response.status_code >= 500:
        is_one_of_many = isinstance(line.cause, errors.NoRoom) and "repeated" not in failure
        return logging.INFO if is_one_of_many else logging.ERROR
    return logging.WARNING if line.failures else logging.INFO


def _failure(line: logs.RequestLine, response: HttpResponse, route: str) -> dict[str, Any]:
    """Return the class of the ``error``, its ``reason`` unless it is the caller's fault, and the ``failures`` on the way."""
    facts: dict[str, Any] = {}
    if response.status_code >= 400:
        facts["error"] = type(line.cause).__name__ if line.cause else response.reason_phrase
    if response.status_code >= 500:
        facts["reason"] = errors.reason(line.cause) if line.cause else response.reason_phrase
    if isinstance(line.cause, errors.NoRoom) and (repeated := _refusals.count(route)) is not None:
        facts["repeated"] = repeated  # since the last line, which is at least a minute ago
    if line.failures:
        facts["failures"] = line.failures
    return facts
