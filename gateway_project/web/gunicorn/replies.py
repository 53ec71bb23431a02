"""What gunicorn does by itself with replies: those for bytes that are not an HTTP request, the header ``Server``, and sending.

gunicorn has no settings for these, so its functions are replaced. It would wait for ever for a client that does not read.
"""

import errno
import json
import logging
import sys
from collections.abc import Callable
from typing import Any

import gevent
from django.conf import settings
from gunicorn import util
from gunicorn.http.wsgi import Response

from gateway_project import errors, identifiers, logs
from gateway_project.net import sockets
from gateway_project.net.disconnects import last_replies
from gateway_project.web import security_headers

logger = logging.getLogger("gateway.request")

_BUFFERED_BYTES = 65_536
_SEND_SECONDS, _SENT_BYTES_PER_SECOND_MIN = 15, 100_000

# Nothing is known of such a request. Where a proxy terminates TLS, it came over TLS.
_IS_SECURE = settings.SECURE_PROXY_SSL_HEADER is not None
_SECURITY_HEADERS = "".join(f"{name}: {value}\r\n" for name, value in security_headers.headers(is_secure=_IS_SECURE))


def install() -> None:
    """Replace gunicorn's functions. Call it once per worker."""
    util.write_error = _write_error
    Response.default_headers = _without_server(Response.default_headers)
    Response.write = _write_in_time(Response.write)
    Response.close = _close_at_once(Response.close)
    logging.getLogger("gunicorn.error").addFilter(_is_news)


def _write_in_time(write: Callable[[Any, bytes], None]) -> Callable[[Any, bytes], None]:
    """Return the function with a deadline for more than fits into the buffers of sockets. ConnectionError ends the connection.

    Less is sent at once, with what frames it: a whole reply with its head, and each part of a stream, which has deadlines of
    its own.
    """

    def write_in_time(response: Any, data: bytes) -> None:
        if 0 < len(data) <= _BUFFERED_BYTES and response.headers_sent and response.chunked and not response._omits_body:
            response.sent += len(data)
            return sockets.send_all(response.sock, b"%X\r\n%b\r\n" % (len(data), data))  # a further part of a stream
        if len(data) <= _BUFFERED_BYTES:
            framed = _framed(response, data)
            if framed is None:
                return write(response, data)
            response.headers_sent = True
            response.sent += len(data)
            return sockets.send_all(response.sock, framed)
        deadline_seconds = _SEND_SECONDS + len(data) / _SENT_BYTES_PER_SECOND_MIN
        with gevent.Timeout(deadline_seconds, ConnectionAbortedError(errno.EPIPE, "the client does not read the reply")):
            return write(response, data)

    return write_in_time


def _framed(response: Any, data: bytes) -> bytes | None:
    """Return the head of a reply with ``data``, the whole reply or the first part of a stream, as gunicorn sends them.

    Return None for anything else.
    """
    if not data or response._omits_body or response.headers_sent:
        return None
    if response.chunked:
        body = b"%X\r\n%b\r\n" % (len(data), data)
    elif response.response_length == len(data):
        body = data
    else:
        return None
    lines = [*response.default_headers(), *[f"{name}: {value}\r\n" for name, value in response.headers], "\r\n"]
    return "".join(lines).encode("latin-1") + body


def _close_at_once(close: Callable[[Any], None]) -> Callable[[Any], None]:
    """Return the function that ends a reply, with one system call for the end of a stream."""

    def close_at_once(response: Any) -> None:
        if response.chunked and response.headers_sent:
            sockets.send_all(response.sock, b"0\r\n\r\n")
        else:
            close(response)

    return close_at_once


def _write_error(sock: Any, status: int, reason: str, message: str) -> None:
    """Reply with JSON instead of gunicorn's HTML page, and log the request."""
    kind = errors.InternalError if status == 500 else errors.InvalidRequest
    body = json.dumps(kind(f"{reason}: {message}" if message else reason).body())
    request_id = f"req_{identifiers.uuid7_hex()}"
    _log(request_id, status)
    head = (
        f"HTTP/1.1 {status} {reason}\r\nConnection: close\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nx-request-id: {request_id}\r\n{_SECURITY_HEADERS}\r\n"
    )
    util.write_nonblock(sock, (head + body).encode("latin-1", "replace"))


def _log(request_id: str, status: int) -> None:
    """Write the line of such a request. Of what the client sent it has nothing: it may be a header with a key."""
    line = logs.begin_request(request_id)
    line.is_written = True
    exception = sys.exception()  # which gunicorn handles
    error = type(exception).__name__
    facts: dict[str, Any] = {"method": None, "path": None, "route": "unknown", "status": status, "error": error}
    is_ours = status >= 500 and status != 501  # 501 is an unknown transfer coding
    if is_ours:
        facts["reason"] = errors.reason(exception) if exception else "unknown"
    logger.log(
        logging.ERROR if is_ours else logging.INFO,
        "a request that reached no view %s: %s",
        status,
        error,
        extra=facts,
        exc_info=exception if is_ours else None,
    )


def _is_news(record: logging.LogRecord) -> bool:
    """Return whether a line of gunicorn is not about a request that ``_write_error`` logs."""
    return not str(record.msg).startswith(("Invalid request from ip=", "Error handling request "))


def _without_server(default_headers: Callable[[Any], list[str]]) -> Callable[[Any], list[str]]:
    """Return the function without the line that names gunicorn. A ``Server`` of the application would be dropped.

    So would its ``Connection: close``, which clients are told here.
    """

    def without_server(response: Any) -> list[str]:
        if response.sock in last_replies:
            response.force_close()
        lines = default_headers(response)
        if lines[1].startswith("Server:"):  # a test notices if another version writes it elsewhere
            del lines[1]
        return lines

    return without_server
