"""gunicorn in production and under `make run`: ``gunicorn -c deploy/gunicorn.conf.py``.

Imports nothing of the gateway or of the network: what the master has loaded, gevent can no longer patch in its workers.
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
bind = _host if _host.startswith("unix:") else f"{_host}:{os.environ.get('PORT') or 8000}"
backlog = 2048

worker_class = "gevent"
workers = int(os.environ.get("WEB_CONCURRENCY") or 2)
worker_connections = 4_000  # each open stream is one
worker_tmp_dir = "/dev/shm" if os.path.isdir("/dev/shm") else None  # noqa: S108  the heartbeat must not wait for a disk
timeout = 60
keepalive = 75  # longer than the proxy in front keeps its side open

# On SIGTERM workers accept nothing new and have this long to finish; then their streams are cut.
graceful_timeout = int(os.environ.get("GATEWAY_GRACEFUL_TIMEOUT_SECONDS") or 30)

limit_request_line = 8_190
limit_request_fields = 100
limit_request_field_size = 8_190

forwarder_headers = ""  # no header of a request may say what its path is

accesslog = None  # the gateway writes one line a request itself
errorlog = "-"
control_socket_disable = True  # it would write outside GATEWAY_VAR


def _raise_open_files() -> None:
    # A stream holds two sockets, and many systems begin at 1,024 files.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 3 * worker_connections
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


_raise_open_files()


def child_exit(server: Any, worker: Any) -> None:
    """Forget the live gauges of a worker that ended.

    What prometheus_client.multiprocess.mark_process_dead does; importing it here would load ssl before gevent patches it in
    the next worker.
    """
    if metrics := os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        for path in Path(metrics).glob(f"gauge_live*_{worker.pid}.db"):
            path.unlink(missing_ok=True)


def post_worker_init(worker: Any) -> None:
    """Told to stop, a worker lets its streams go on for most of the grace; then they end themselves, settled and saying so."""
    from completions import tasks
    from completions.charging import checkpoints, outbox, settlement
    from gateway_project.net import draining
    from gateway_project.web import malformed_requests

    # What is loaded now stays: the collector need not look through it again and again, nor as often at what a request leaves,
    # nearly all of which goes by itself. It is a sixth of the time of a completion.
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 100)
    # The thread, the process's name and the place in the source: found out for every line of the log, shown in none of ours.
    logging.logThreads = logging.logMultiprocessing = False
    logging._srcfile = None
    malformed_requests.answer_in_json()
    checkpoints.write_regularly()
    outbox.drain_regularly(settlement.resolve)
    tasks.sweep_at_start()
    draining.watch(lambda: worker.alive, graceful_timeout)
