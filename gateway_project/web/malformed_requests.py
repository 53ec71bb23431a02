"""Replies to bytes that are not an HTTP request: JSON instead of the HTML page that gunicorn sends.

Such a request reaches no view. gunicorn has no setting for the page, so the function that writes it is replaced.
"""

import json
from typing import Any

from gunicorn import util

from gateway_project import errors, identifiers


def install_json_errors() -> None:
    """Replace gunicorn's function. Call it once per worker."""
    util.write_error = _write_error


def _write_error(sock: Any, status: int, reason: str, message: str) -> None:
    kind = errors.InternalError if status == 500 else errors.InvalidRequest
    body = json.dumps(kind(f"{reason}: {message}" if message else reason).body())
    request_id = f"req_{identifiers.uuid7().hex}"
    head = (
        f"HTTP/1.1 {status} {reason}\r\nConnection: close\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nx-request-id: {request_id}\r\n\r\n"
    )
    util.write_nonblock(sock, (head + body).encode("latin-1", "replace"))
