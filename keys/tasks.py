"""Background work of keys; the settings schedule it by dotted path."""

from gateway_project.celery import app
from gateway_project.cells import everywhere
from gateway_project.db import pool
from gateway_project.monitoring import task_runs
from keys.key_api import idempotency
from keys.refusal_history import tables


@app.task(name="keys.tasks.forget_old_refusals", **pool.task_retries(3))
@task_runs.recorded
@everywhere.each
def forget_old_refusals() -> int:
    """Delete refusals that are no longer kept, and replies to management keys older than an hour. Return how many rows."""
    return tables.delete_old() + idempotency.delete_old()
