"""The Celery application: configuration from the settings, tasks from each app's ``tasks`` module."""

import os
from typing import Any

from celery import Celery
from celery.signals import setup_logging

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "gateway_project.settings")

app = Celery("gateway")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@setup_logging.connect
def keep_logging_configuration(**kwargs: Any) -> None:
    """Keep LOGGING of the settings: Celery replaces it unless this signal has a receiver."""
