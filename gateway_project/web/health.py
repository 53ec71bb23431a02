"""Probes: alive (the process answers) and ready (it may be sent traffic)."""

from functools import cache

from django.db import Error, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse, JsonResponse

from gateway_project import errors, metrics
from gateway_project.db import pool


def alive(request: HttpRequest) -> HttpResponse:
    """200 as long as the process can answer at all."""
    return JsonResponse({"status": "alive"})


def ready(request: HttpRequest) -> HttpResponse:
    """200 when the database answers and its schema is the one this code was written for; 503 otherwise."""
    try:
        with pool.time_limit():
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1")
            _require_migrated()
    except (Error, _NotMigrated) as error:
        reason = "migrations are missing" if isinstance(error, _NotMigrated) else "the database does not answer"
        refusal = errors.ServiceUnavailable(f"Not ready: {reason}.")
        return JsonResponse(refusal.body(), status=refusal.status, headers=refusal.headers)
    return JsonResponse({"status": "ready"})


def metrics_text(request: HttpRequest) -> HttpResponse:
    """Prometheus text. Keep it from the public at the proxy."""
    return HttpResponse(metrics.render(), content_type="text/plain; version=0.0.4")


class _NotMigrated(Exception): ...


@cache  # only the success is remembered: a schema does not become older while we run
def _require_migrated() -> None:
    executor = MigrationExecutor(connection)
    if executor.migration_plan(executor.loader.graph.leaf_nodes()):
        raise _NotMigrated
