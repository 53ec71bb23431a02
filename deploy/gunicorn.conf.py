"""Configures gunicorn, in production and under `make run`: ``gunicorn -c deploy/gunicorn.conf.py``.

It imports no module of the gateway and no network module: gevent cannot patch in the workers what the master has loaded.
"""

import gc
import logging
import os
import resource
from pathlib import Path
from typing import Any

wsgi_app = "gateway_project.wsgi:application"
proc_name = "gateway"

_host = os.environ.get("GATEWAY_BIND") or "127.0.0.1"
_own = _host if _host.startswith("unix:") else f"{_host}:{os.environ.get('PORT') or 8000}"
_metrics = (os.environ.get("GATEWAY_METRICS_BIND") or "").strip()
_metrics_host, _, _metrics_port = _metrics.rpartition(":")
bind = [_own, *([f"{_metrics_host or '127.0.0.1'}:{_metrics_port}"] if _metrics else [])]
backlog = 2048

worker_class = "gevent"
workers = int(os.environ.get("WEB_CONCURRENCY") or 2)
worker_connections = int(os.environ.get("GATEWAY_WORKER_CONNECTIONS") or 4_000)  # each open stream takes one
worker_tmp_dir = "/dev/shm" if os.path.isdir("/dev/shm") else None  # noqa: S108  the workers' heartbeat must not wait for a disk
timeout = 60
# How long an idle connection stays open: longer than the proxy in front keeps it. The head of a request must arrive within the
# same time, however slowly it comes; bodies have GATEWAY_REQUEST_BODY_TIMEOUT.
keepalive = int(os.environ.get("GATEWAY_KEEPALIVE_SECONDS") or 75)

# On SIGTERM workers accept no new connections and have this long to finish; then gunicorn cuts their streams.
graceful_timeout = int(os.environ.get("GATEWAY_GRACEFUL_TIMEOUT_SECONDS") or 30)

limit_request_line = 8_190
limit_request_fields = 100
limit_request_field_size = 8_190

forwarder_headers = ""  # no request header may override the request's path

accesslog = None  # the gateway itself logs one line for each request
errorlog = "-"
control_socket_disable = True  # gunicorn would create it outside GATEWAY_VAR


def _raise_open_files() -> None:
    # A stream holds two sockets, and many systems allow 1,024 open files by default.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 3 * worker_connections
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


_raise_open_files()


def post_request(worker: Any, req: Any, environ: Any, resp: Any) -> None:
    """Discard what was not read of a body, so that the client sees the reply and the connection can be used again."""
    if getattr(req.body.reader, "length", 0):
        from gateway_project.web import gunicorn_bodies

        gunicorn_bodies.discard(req, environ.get("gunicorn.socket"))


def child_exit(server: Any, worker: Any) -> None:
    """Delete the live gauges of a worker that ended.

    prometheus_client.multiprocess.mark_process_dead does the same, but importing it here would load ssl before gevent patches
    it in the next worker.
    """
    if metrics := os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        for path in Path(metrics).glob(f"gauge_live*_{worker.pid}.db"):
            path.unlink(missing_ok=True)


def post_worker_init(worker: Any) -> None:
    """Tune the collector and logging of a new worker, and start its background greenlets.

    The last one lets streams run for most of the grace period after SIGTERM. Then each ends with an error event, settled.
    """
    from completions import tasks
    from completions.charging import checkpoints, outbox, settlement
    from gateway_project.net import draining
    from gateway_project.web import gunicorn_replies

    # All modules are loaded and stay, so the collector need not scan them again. It may also run less often: reference counts
    # free nearly all objects of a request. The collector took a sixth of the time of a completion.
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)
    # Logging would look up the thread, the process name and the source line for every record; our log lines show none of them.
    logging.logThreads = logging.logMultiprocessing = False
    logging._srcfile = None
    gunicorn_replies.install()
    checkpoints.write_regularly()
    outbox.drain_regularly(settlement.resolve)
    tasks.sweep_at_start()
    draining.watch(lambda: worker.alive, graceful_timeout)
