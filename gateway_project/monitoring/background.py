"""Starts what reports on worker and beat, when Celery starts them."""

import logging
import threading
import time
from functools import partial
from typing import Any, NoReturn

from celery.signals import after_task_publish, beat_embedded_init, beat_init, task_prerun
from django.conf import settings

from gateway_project.db import pool, repetition
from gateway_project.monitoring import processes, task_runs, worker_endpoint

logger = logging.getLogger("gateway.processes")


def report_on_worker(worker: Any) -> None:
    """Report the worker. With prefork this is its parent: only the parent reports, and answers for its children."""
    from celery.concurrency.prefork import TaskPool  # here, because only a worker needs it

    if isinstance(worker.pool, TaskPool):
        pool.stop_pooling()
    processes.report_regularly("worker")
    if settings.WORKER_METRICS_ADDRESS:
        worker_endpoint.start(*settings.WORKER_METRICS_ADDRESS)


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
        record = partial(task_runs.record, task_runs.BEAT)
        repetition.attempt(record, logger=logger, failure="cannot record that beat sent a task")
        time.sleep(processes.INTERVAL_SECONDS)
