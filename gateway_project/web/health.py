"""Probes for liveness and readiness, and the metrics page."""

from functools import cache

from django.db import Error, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse, JsonResponse

from gateway_project import errors, metrics
from gateway_project.db import pool


def alive(request: HttpRequest) -> HttpResponse:
    """Reply 200, as long as the process can reply."""
    return JsonResponse({"status": "alive"})


def ready(request: HttpRequest) -> HttpResponse:
    """Reply 200 when the database answers and has all migrations, otherwise 503."""
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
    """Reply with the metrics in Prometheus' text format. The proxy must not expose this path to the public."""
    return HttpResponse(metrics.render(), content_type="text/plain; version=0.0.4")


class _NotMigrated(Exception): ...


@cache  # caches success only: a schema does not lose migrations while the process runs
def _require_migrated() -> None:
    executor = MigrationExecutor(connection)
    if executor.migration_plan(executor.loader.graph.leaf_nodes()):
        raise _NotMigrated
