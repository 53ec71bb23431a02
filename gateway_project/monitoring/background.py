"""Starts what reports on worker and beat, when Celery starts them, and ``/metrics`` at an address of the worker."""

import logging
import threading
import time
from collections.abc import Iterable
from functools import partial
from typing import Any, NoReturn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer
from wsgiref.types import StartResponse, WSGIEnvironment

from celery.signals import after_task_publish, beat_embedded_init, beat_init, task_prerun
from django.conf import settings
from django.core.servers.basehttp import ThreadedWSGIServer

from gateway_project import metrics
from gateway_project.db import pool, repetition
from gateway_project.monitoring import processes
from gateway_project.monitoring.models import TaskRun
from gateway_project.web import health, hosts

logger = logging.getLogger("gateway.processes")
_metrics_logger = logging.getLogger("gateway.metrics")


def report_on_worker(worker: Any) -> None:
    """Report the worker. With prefork this is its parent: only the parent reports, and answers for its children."""
    from celery.concurrency.prefork import TaskPool  # here, because only a worker needs it

    if isinstance(worker.pool, TaskPool):
        pool.stop_pooling()
    processes.report_regularly("worker")
    if settings.WORKER_METRICS_ADDRESS:
        serve_metrics(*settings.WORKER_METRICS_ADDRESS)


_task_sent = threading.Event()


@beat_embedded_init.connect
@beat_init.connect
def report_on_beat(**kwargs: Any) -> None:
    """Report beat, and when it last sent a task; without a broker, when it last began to run one."""
    processes.report_regularly("beat")
    after_task_publish.connect(_note_sent_task)
    task_prerun.connect(_note_sent_task)
    # A thread of its own: beat must not wait for the database.
    threading.Thread(target=_record_sent_tasks, name="record of sent tasks", daemon=True).start()


def _note_sent_task(**kwargs: Any) -> None:
    _task_sent.set()


def _record_sent_tasks() -> NoReturn:
    while True:
        _task_sent.wait()
        _task_sent.clear()
        record = partial(TaskRun.record, TaskRun.BEAT)
        repetition.attempt(record, logger=logger, failure="cannot record that beat sent a task")
        time.sleep(processes.INTERVAL_SECONDS)


# --- The worker's endpoint, for hosts without a web process: nothing but /metrics is there ----------------------------------


def serve_metrics(host: str, port: int) -> WSGIServer | None:
    """Serve the address in a thread. Return None if that fails: it is logged, and background work continues."""
    try:
        server = ThreadedWSGIServer((host, port), _QuietHandler, ipv6=":" in host)
    except OSError as error:
        _metrics_logger.error("the worker cannot serve /metrics at %s:%s: %s", host, port, error)
        return None
    server.set_app(_application)
    threading.Thread(target=server.serve_forever, name="metrics of the worker", daemon=True).start()
    return server


class _QuietHandler(WSGIRequestHandler):
    timeout = 10  # a client that sends nothing does not keep a thread

    def log_message(self, format: str, *args: Any) -> None:
        pass


def _application(request: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
    """Reply with the metrics. GATEWAY_METRICS_SECRET is asked for where it is set, as at the other addresses."""
    if request.get("PATH_INFO") != f"/{hosts.METRICS}" or request["REQUEST_METHOD"] not in {"GET", "HEAD"}:
        return _reply(start_response, "404 Not Found")
    if settings.METRICS_SECRET and not health.has_metrics_secret(request.get("HTTP_AUTHORIZATION", "")):
        return _reply(start_response, "401 Unauthorized", ("WWW-Authenticate", "Bearer"))
    return _reply(start_response, "200 OK", ("Content-Type", health.METRICS_CONTENT_TYPE), body=metrics.render())


def _reply(start_response: StartResponse, status: str, *headers: tuple[str, str], body: bytes = b"") -> list[bytes]:
    start_response(status, [*headers, ("Content-Length", str(len(body)))])
    return [body]
