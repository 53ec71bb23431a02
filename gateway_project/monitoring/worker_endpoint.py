"""``/metrics`` at an address of the worker, for hosts without a web process. Nothing else is there."""

import logging
import socket
import threading
from collections.abc import Iterable
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from django.conf import settings

from gateway_project import metrics
from gateway_project.web import health, hosts

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

logger = logging.getLogger("gateway.metrics")


def start(host: str, port: int) -> WSGIServer | None:
    """Serve the address in a thread. Return None if that fails: it is logged, and background work continues."""
    try:
        server = make_server(host, port, application, _Server if ":" not in host else _ServerV6, _QuietHandler)
    except OSError as error:
        logger.error("the worker cannot serve /metrics at %s:%s: %s", host, port, error)
        return None
    threading.Thread(target=server.serve_forever, name="metrics of the worker", daemon=True).start()
    return server


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _ServerV6(_Server):
    address_family = socket.AF_INET6


class _QuietHandler(WSGIRequestHandler):
    timeout = 10  # a client that sends nothing does not keep a thread

    def log_message(self, format: str, *args: Any) -> None:
        pass


def application(request: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
    """Reply with the metrics. GATEWAY_METRICS_SECRET is asked for where it is set, as at the other addresses."""
    if request.get("PATH_INFO") != f"/{hosts.METRICS}" or request["REQUEST_METHOD"] not in {"GET", "HEAD"}:
        return _reply(start_response, "404 Not Found")
    if settings.METRICS_SECRET and not health.has_metrics_secret(request.get("HTTP_AUTHORIZATION", "")):
        return _reply(start_response, "401 Unauthorized", ("WWW-Authenticate", "Bearer"))
    return _reply(start_response, "200 OK", ("Content-Type", health.METRICS_CONTENT_TYPE), body=metrics.render())


def _reply(start_response: "StartResponse", status: str, *headers: tuple[str, str], body: bytes = b"") -> list[bytes]:
    start_response(status, [*headers, ("Content-Length", str(len(body)))])
    return [body]
