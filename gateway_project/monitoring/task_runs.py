"""Records when a periodic task last ended, and its result, in the database: the worker's memory ends with the worker."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from django.db.models.functions import Now

from gateway_project.monitoring.models import TaskRun

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

BEAT = "beat"


def recorded(task: Callable[Parameters, Result], name: str) -> Callable[Parameters, Result]:
    """Record under this name each run of the task that ends without an error. ``celery.periodic`` applies it."""

    @wraps(task)
    def run(*args: Parameters.args, **options: Parameters.kwargs) -> Result:
        result = task(*args, **options)
        record(name, result if isinstance(result, int) else None)
        return result

    return run


def record(name: str, result: int | None = None) -> None:
    """Write that the task ended now, by the database's clock. Raises the database's errors."""
    run = TaskRun(name=name, finished_at=Now(), result=result)
    TaskRun.objects.bulk_create([run], update_conflicts=True, unique_fields=["name"], update_fields=["finished_at", "result"])
