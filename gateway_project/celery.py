"""The Celery application, which web processes load when a page of staff first starts a task."""

import logging
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import time
from functools import wraps
from typing import Any

import click
from celery import Celery, bootsteps
from celery.beat import EmbeddedService
from celery.schedules import crontab
from celery.signals import setup_logging
from django.conf import settings

from gateway_project import installation

Declare = Callable[[Callable[[], Any]], Any]  # a decorator, which makes a task of a function

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway_project.settings")

_search_path = sys.path.copy()
app = Celery("gateway")
# Celery has put the current directory first, where anybody's modules may have the names of ours.
sys.path[:] = list(dict.fromkeys([str(installation.CODE), *_search_path]))
app.config_from_object(settings, namespace="CELERY")  # not by name: Celery would import it from the current directory
app.add_defaults(lambda: {"beat_schedule": _beat_schedule()})
app.autodiscover_tasks()


def _beat_schedule() -> dict[str, dict[str, Any]]:
    schedule = {name: dict(entry) for name, entry in settings.PERIODIC_TASKS.items()}
    for entry in schedule.values():
        if isinstance(due := entry["schedule"], time):
            entry["schedule"] = crontab(hour=due.hour, minute=due.minute)
    return schedule


def periodic(name: str = "", *, retries: int, each_cell: bool = False, also_after: tuple[type[Exception], ...] = ()) -> Declare:
    """Declare a task of the schedule, by the name of the function unless one is given. Each run without an error is recorded.

    It runs again, up to ``retries`` times, if the database is unavailable, or after an error of ``also_after``: 3 pauses take
    half a minute, 20 more than two hours. With ``each_cell`` it runs in each cell, and returns the sum of the results.
    """
    from gateway_project.db import everywhere, pool
    from gateway_project.monitoring.models import TaskRun

    def declare(work: Callable[[], Any]) -> Any:
        task_name = name or f"{work.__module__}.{work.__name__}"
        run = everywhere.each(work) if each_cell else work

        @wraps(work)
        def run_and_record() -> Any:
            result = run()
            TaskRun.record(task_name, result if isinstance(result, int) else None)
            return result

        reasons = (*pool.UNAVAILABLE, *also_after)
        pauses: Any = {"retry_backoff": 5, "retry_backoff_max": 600, "retry_jitter": False}  # seconds, doubled each time
        task: Any = app.task
        return task(name=task_name, autoretry_for=reasons, max_retries=retries, **pauses)(run_and_record)

    return declare


def start_command(**kwargs: Any) -> None:
    """Before a command of Celery reads the settings, let it start as web processes do: Celery ignores the system checks."""
    command = click.get_current_context(silent=True)
    if command is None:  # another process reads the settings
        return
    from celery.apps import worker

    from gateway_project import startup

    startup.start()
    from gateway_project.monitoring import background  # noqa: F401  listens for what Celery says of its processes

    if command.info_name in ("worker", "beat"):
        command.obj.quiet = True  # the banner is no line of the log
        worker.safe_say = _log_within_signal_handler  # type: ignore[attr-defined]


def _log_within_signal_handler(message: str, *args: object) -> None:
    """Write a line of the log as Celery writes its own there: at once, because what was interrupted may hold a lock."""
    [handler] = logging.getLogger().handlers
    record = logging.LogRecord("celery.worker", logging.INFO, "", 0, message.strip(), None, None)
    handler.filter(record)
    with suppress(OSError):  # the reader is gone
        os.write(sys.stderr.fileno(), f"{handler.format(record)}\n".encode())


app.on_configure.connect(start_command)


class BeatThread(bootsteps.StartStopStep):
    """Beat as a thread of the worker, which Celery itself has only where there are no processes: ``--beat-thread``."""

    conditional = True

    def __init__(self, worker: Any, beat_thread: bool = False, **options: Any) -> None:
        self.enabled = beat_thread
        super().__init__(worker, **options)

    def create(self, worker: Any) -> Any:
        return EmbeddedService(worker.app, thread=True, schedule_filename=worker.schedule_filename)


class Report(bootsteps.StartStopStep):
    """Reports the worker before it connects to the broker, which may be unavailable for hours: its metrics tell that."""

    requires = ("celery.worker.components:Pool",)

    def start(self, worker: Any) -> None:
        from gateway_project.monitoring import background  # loads models, which Django must be ready for

        background.report_on_worker(worker)


app.steps["worker"].update((BeatThread, Report))
app.user_options["worker"].add(click.Option(["--beat-thread"], is_flag=True, help="Also run beat, as a thread."))


@setup_logging.connect
def keep_logging_configuration(**kwargs: Any) -> None:
    """Keep LOGGING of the settings: Celery replaces it unless this signal has a receiver."""
