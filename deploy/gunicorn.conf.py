"""Configures gunicorn, in production and under `make run`: ``gunicorn -c deploy/gunicorn.conf.py``.

It imports no module of the gateway and no network module: gevent cannot patch in the workers what the master has loaded.
"""

import codecs
import gc
import logging
import os
import re
import resource
import sys
from pathlib import Path
from typing import Any

from gunicorn import glogging
from gunicorn.workers.ggevent import GeventWorker
from pythonjsonlogger.json import JsonFormatter


def _integer(name: str, default: int, minimum: int, maximum: int) -> int:
    """Read a number as the settings do, with the same bounds and in the same words."""
    value = os.environ.get(name, str(default))
    if not re.fullmatch(r"-?[0-9]{1,40}", value.strip()):
        sys.exit(f"{name} must be a whole number; it is {value!r}.")
    number = int(value)
    if not minimum <= number <= maximum:
        sys.exit(f"{name} must be between {minimum} and {maximum}; it is {number}.")
    return number


wsgi_app = "gateway_project.wsgi:application"
proc_name = "gateway"

_host = os.environ.get("GATEWAY_BIND") or "127.0.0.1"
_port = _integer("PORT", 8_000, 1, 65_535)
_own = _host if _host.startswith("unix:") else f"{_host}:{_port}"
_metrics = (os.environ.get("GATEWAY_METRICS_BIND") or "").strip()
_metrics_host, _, _metrics_port = _metrics.rpartition(":")
if _metrics and not (_metrics_port.isascii() and _metrics_port.isdigit() and 1 <= int(_metrics_port) <= 65_535):
    sys.exit(f"GATEWAY_METRICS_BIND must be a port, or a host and a port such as 127.0.0.1:9464; it is {_metrics!r}.")
bind = [_own, *([f"{_metrics_host or '127.0.0.1'}:{_metrics_port}"] if _metrics else [])]
backlog = 2048


class Worker(GeventWorker):  # type: ignore[misc]
    """Serves as ``gateway_project.web.gunicorn.replies`` does, which it loads with the application: so a reload takes it up."""

    def load_wsgi(self) -> None:
        super().load_wsgi()
        from gateway_project.deadline import SilentDeadline
        from gateway_project.web.gunicorn import replies

        self.replies, self.deadline = replies, SilentDeadline

    def timeout_ctx(self) -> Any:  # for the head of the next request
        return self.deadline(keepalive)

    def handle_request(self, *request: Any) -> None:
        self.replies.answer(self, *request)

    def handle_error(self, *request_and_error: Any) -> None:
        self.replies.refuse(self, *request_and_error)


worker_class = Worker
workers = _integer("WEB_CONCURRENCY", 2, 1, 1_000)
worker_connections = _integer("GATEWAY_WORKER_CONNECTIONS", 4_000, 2, 100_000)  # each open stream takes one
worker_tmp_dir = "/dev/shm" if os.path.isdir("/dev/shm") else None  # noqa: S108  the workers' heartbeat must not wait for a disk
timeout = 60
# How long an idle connection stays open: longer than the proxy in front keeps it. The head of a request must arrive within the
# same time, however slowly it comes; bodies have GATEWAY_REQUEST_BODY_TIMEOUT.
keepalive = _integer("GATEWAY_KEEPALIVE_SECONDS", 75, 1, 3_600)

# On SIGTERM workers accept no new connections and have this long to finish; then gunicorn cuts their streams.
graceful_timeout = _integer("GATEWAY_GRACEFUL_TIMEOUT_SECONDS", 30, 1, 7_200)

# The head of a request is parsed before anybody knows who sends it: a quarter of a megabyte takes the process 30 ms.
limit_request_line = 8_190
limit_request_fields = 64
limit_request_field_size = 4_094

http_parser = "python"  # the one in C, if installed, answers some requests otherwise (docs/decisions/0042)
forwarder_headers = ""  # no request header may override the request's path

accesslog = None  # the gateway itself logs one line for each request
errorlog = "-"


class logger_class(glogging.Logger):  # type: ignore[misc]  # noqa: N801  gunicorn's name
    """Writes gunicorn's lines as the gateway writes its own: the master's, and those of workers until they load the gateway."""

    def setup(self, cfg: Any) -> None:
        super().setup(cfg)
        if os.environ.get("GATEWAY_DEVELOPMENT", "").strip().lower() in ("1", "true", "yes", "on"):
            form: logging.Formatter = logging.Formatter("%(asctime)s %(levelname)-7s %(name)s %(message)s", "%H:%M:%S")
        else:
            names = {"levelname": "level", "name": "logger"}
            form = JsonFormatter(
                "%(levelname)s %(name)s %(message)s", rename_fields=names, defaults={"request_id": "-"}, timestamp=True
            )
        for handler in self.error_log.handlers:
            handler.setFormatter(form)


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


def on_starting(server: Any) -> None:
    """Give the master our class: gunicorn has no setting for it."""
    from gateway_project.web.gunicorn.master import Master

    server.__class__ = Master


# --- Workers --------------------------------------------------------------------------------------------------------


def pre_fork(server: Any, worker: Any) -> None:
    """Note whether the worker joins others that serve: then it must not serve before the database has its migrations."""
    from gateway_project.web.gunicorn import master

    worker.joins_others = any(map(master.has_served, server.WORKERS.values()))


def post_fork(server: Any, worker: Any) -> None:
    """Install what is needed before gevent patches the modules of Python."""
    from gateway_project.speedups import libraries

    libraries.install("gevent")


def child_exit(server: Any, worker: Any) -> None:
    """Delete the live gauges of a worker that ended.

    prometheus_client.multiprocess.mark_process_dead does the same, but importing it here would load ssl before gevent patches
    it in the next worker.
    """
    if metrics := os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        for path in Path(metrics).glob(f"gauge_live*_{worker.pid}.db"):
            path.unlink(missing_ok=True)


def post_worker_init(worker: Any) -> None:
    """Tune the collector of a new worker, install the speedups, and start its background greenlets.

    The last one lets streams run for most of the grace period after SIGTERM. Then each ends with an error event, settled.
    """
    import gevent
    from django.conf import settings

    from completions.catalog import lookup
    from completions.charging.recovery import checkpoints, drains, journal, sweeper
    from gateway_project import logs, metrics
    from gateway_project.monitoring import processes
    from gateway_project.net import draining
    from gateway_project.speedups import libraries
    from gateway_project.web import health
    from keys.refusal_history import collector

    if worker.joins_others:
        health.require_migrated_if_reachable()
    # All modules are loaded and stay, so the collector need not scan them again.
    gc.collect()
    gc.freeze()
    # Without a free file descriptor no module can be loaded, and these are needed to connect, to refuse and to log that.
    for codec in ("idna", "unicode_escape"):
        codecs.lookup(codec)
    gevent.get_hub().resolver  # noqa: B018  loads it
    logging.setLogRecordFactory(logs.Record)
    libraries.install("django", "gunicorn")
    libraries.tell()
    if settings.TRACING_ENDPOINT:
        from completions import tracing

        tracing.install()
    checkpoints.write_regularly()
    drains.drain_regularly()
    journal.replay_regularly()
    sweeper.sweep_at_start()
    lookup.fetch_credentials_at_start()
    collector.write_regularly()
    metrics.write_regularly()
    processes.report_regularly("web")
    draining.watch(lambda: worker.alive, graceful_timeout)


def worker_exit(server: Any, worker: Any) -> None:
    """Write what a worker that served has collected last. Its connections to clients are closed by then."""
    if worker.booted:
        from gateway_project import metrics
        from keys.refusal_history import collector

        metrics.write()
        collector.write_last()
        if tracing := sys.modules.get("completions.tracing"):
            tracing.shut_down()
