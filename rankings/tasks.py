"""Celery tasks. Each source is a task of its own, so that a slow or broken one does not delay the others."""

import threading
from contextlib import closing

from django.conf import settings
from django.db import connection

from gateway_project.celery import app, periodic
from rankings import refresh as refreshing
from rankings.models import Source

CHECK_SECONDS = 60


@periodic(retries=3)
def refresh_due_sources() -> None:
    """Start a task for each source. Runs often: the row of each source says when its next run is due."""
    for source in Source:
        refresh_if_due.apply_async((source.value,), expires=CHECK_SECONDS)


@app.task(name="rankings.tasks.refresh_if_due")
def refresh_if_due(source: str) -> str:
    return _run(source, only_if_due=True)


@app.task(name="rankings.tasks.refresh")
def refresh(source: str) -> str:
    """Read a source now."""
    return _run(source, only_if_due=False)


@app.task(name="rankings.tasks.republish")
def republish() -> str:
    """Publish again what is stored, because an alias has changed."""
    return _run(Source.INTERNAL, only_if_due=False)


def _run(name: str, *, only_if_due: bool) -> str:
    source = Source(name)

    def run() -> str:
        return str(refreshing.refresh(source, only_if_due=only_if_due).result)

    def run_and_close() -> None:
        with closing(connection):  # that of the thread
            run()

    if not settings.CELERY_TASK_ALWAYS_EAGER or source is Source.INTERNAL:
        return run()
    # Without a worker this runs in beat or in a request, and neither may wait for a source.
    threading.Thread(target=run_and_close, name=f"refresh {source}", daemon=True).start()
    return "started"
