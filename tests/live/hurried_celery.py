"""Celery as in production, with short pauses between what its processes do regularly: ``--app tests.live.hurried_celery``."""

from typing import Any

from celery.signals import beat_init, celeryd_init

from gateway_project.celery import app
from tests.live import pauses

__all__ = ["app"]


@celeryd_init.connect
@beat_init.connect
def shorten_pauses(**kwargs: Any) -> None:
    pauses.shorten()
