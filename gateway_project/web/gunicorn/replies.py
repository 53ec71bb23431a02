"""How a worker answers: replies without ``Server``, sent in time, and errors for bytes that are not an HTTP request."""

import copy
import errno
import html
import json
import logging
import socket
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import gevent
from django.conf import settings
from gunicorn import util
from gunicorn.http.wsgi import FileWrapper, Response, create
from gunicorn.workers.base import Worker

from gateway_project import errors, identifiers, logs
from gateway_project.db import pool
from gateway_project.net.disconnects import last_replies
from gateway_project.web import security_headers
from gateway_project.web.gunicorn import bodies

logger = logging.getLogger("gateway.request")

BUFFERED_BYTES = 65_536  # what the buffers of sockets take at once
_SEND_SECONDS, _SENT_BYTES_PER_SECOND_MIN = 15, 100_000

# Nothing is known of such a request. Where a proxy terminates TLS, it came over TLS.
_IS_SECURE = settings.SECURE_PROXY_SSL_HEADER is not None
_SECURITY_HEADERS = "".join(f"{name}: {value}\r\n" for name, value in security_headers.headers(is_secure=_IS_SECURE))


class Reply(Response):  # type: ignore[misc]
    """A reply without the line that names gunicorn. It drops the application's ``Connection: close``, which is said here."""

    def default_headers(self) -> list[str]:
        if self.sock in last_replies:
            self.force_close()
        lines: list[str] = super().default_headers()
        if lines[1].startswith("Server:"):  # a test notices if another version writes it elsewhere
            del lines[1]
        return lines


def answer(worker: Any, listener_name: Any, request: Any, client: Any, address: Any) -> None:
    """Let the application answer, as gunicorn's worker does, but with a ``Reply`` and without hooks before and after."""
    reply = None
    try:
        reply, environ = create(request, client, address, listener_name, worker.cfg, response_class=Reply)
        environ["wsgi.multithread"] = True
        worker.nr += 1
        if worker.nr >= worker.max_requests:
            worker.alive = False
        if not worker.alive or not worker.cfg.keepalive:
            reply.force_close()
        _send(reply, worker.wsgi(environ, reply.start_response))
        if reply.should_close():
            raise StopIteration
    except (OSError, StopIteration):
        raise
    except (Exception, SystemExit) as error:
        if reply is not None and reply.headers_sent:  # an error now would be part of the reply
            worker.log.exception("Error handling request")
            with suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)
            raise StopIteration from None
        if not isinstance(error, SystemExit):
            raise
    except gevent.GreenletExit:
        pass
    finally:
        pool.release_connection()  # of what used the database while its reply was sent
        bodies.end(request, client)


def _send(reply: Reply, parts: Any) -> None:
    try:
        if isinstance(parts, FileWrapper):
            reply.write_file(parts)
        else:
            for part in parts:
                if len(part) <= BUFFERED_BYTES:  # a part of a stream has deadlines of its own
                    reply.write(part)
                    continue
                gone = ConnectionAbortedError(errno.EPIPE, "the client does not read the reply")  # which ends the connection
                with gevent.Timeout(_SEND_SECONDS + len(part) / _SENT_BYTES_PER_SECOND_MIN, gone):
                    reply.write(part)
        reply.close()
    finally:
        if hasattr(parts, "close"):
            parts.close()


_SILENT = SimpleNamespace(**dict.fromkeys(("access", "debug", "exception", "warning"), lambda *_: None))


class _Page:
    """Takes the place of a client, and receives gunicorn's page about an error."""

    status, reason, message = 500, "Internal Server Error", ""

    def gettimeout(self) -> float:
        return 0.0

    def sendall(self, data: bytes) -> None:
        head, _, page = data.decode("latin-1").partition("\r\n\r\n")
        _, status, self.reason = head.partition("\r\n")[0].split(" ", 2)
        self.status = int(status)
        self.message = html.unescape(page.partition("</h1>\n    ")[2].rpartition("\n  </body>")[0])


def refuse(worker: Worker, request: Any, client: Any, address: Any, error: BaseException) -> None:
    """Reply with JSON instead of gunicorn's page, whose status it has, and log the request: gunicorn logs nothing."""
    page, quiet = _Page(), copy.copy(worker)
    quiet.log = _SILENT
    Worker.handle_error(quiet, request, page, address, error)
    kind = errors.InternalError if page.status == 500 else errors.InvalidRequest
    body = json.dumps(kind(f"{page.reason}: {page.message}" if page.message else page.reason).body())
    request_id = f"req_{identifiers.uuid7_hex()}"
    _log(request_id, page.status, error)
    head = (
        f"HTTP/1.1 {page.status} {page.reason}\r\nConnection: close\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nx-request-id: {request_id}\r\n{_SECURITY_HEADERS}\r\n"
    )
    with suppress(Exception):  # it has left
        util.write_nonblock(client, (head + body).encode("latin-1", "replace"))


def _log(request_id: str, status: int, exception: BaseException) -> None:
    """Write the line of such a request, without what the client sent: it may be a header with a key."""
    line = logs.begin_request(request_id)
    line.is_written = True
    error = type(exception).__name__
    facts: dict[str, Any] = {"method": None, "path": None, "route": "unknown", "status": status, "error": error}
    level, cause = logging.INFO, None
    if status >= 500 and status != 501:  # an unknown transfer coding
        level, cause, facts["reason"] = logging.ERROR, exception, errors.reason(exception)
    logger.log(level, "a request that reached no view %s: %s", status, error, extra=facts, exc_info=cause)
