"""The Celery application: configuration from the settings, tasks from each app's ``tasks`` module."""

import logging
import os
import sys
from typing import Any

import click
from celery import Celery
from celery.signals import setup_logging
from django.conf import settings

from gateway_project import installation

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway_project.settings")

_search_path = sys.path.copy()
app = Celery("gateway")
# Celery has put the current directory first, where anybody's modules may have the names of ours.
sys.path[:] = list(dict.fromkeys([str(installation.CODE), *_search_path]))
app.config_from_object(settings, namespace="CELERY")  # not by name: Celery would import it from the current directory
app.autodiscover_tasks()


def start_command(**kwargs: Any) -> None:
    """Before a command of Celery reads the settings, let it start as web processes do, or refuse to.

    Celery itself ignores what the system checks find. Other processes read the settings through here, too, but run no command.
    """
    command = click.get_current_context(silent=True)
    if command is None:
        return
    from celery.apps import worker

    from gateway_project import startup

    startup.start()
    if command.info_name in ("worker", "beat"):
        command.obj.quiet = True  # the banner is no line of the log
        worker.safe_say = _log_within_signal_handler  # type: ignore[attr-defined]


def _log_within_signal_handler(message: str, *args: object) -> None:
    """Write a line of the log as Celery writes its own there: at once, because what was interrupted may hold a lock."""
    [handler] = logging.getLogger().handlers
    record = logging.LogRecord("celery.worker", logging.INFO, "", 0, message.strip(), None, None)
    handler.filter(record)
    os.write(sys.stderr.fileno(), f"{handler.format(record)}\n".encode())


app.on_configure.connect(start_command)


@setup_logging.connect
def keep_logging_configuration(**kwargs: Any) -> None:
    """Keep LOGGING of the settings: Celery replaces it unless this signal has a receiver."""
