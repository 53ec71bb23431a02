"""The last run of each periodic task, and the running processes as they last reported."""

from datetime import timedelta
from typing import ClassVar, Self

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Now

from gateway_project import identifiers


class TaskRun(models.Model):
    """When a periodic task last ended without an error, and its result: the worker's memory ends with the worker.

    ``beat`` is there, too: when it last sent a task.
    """

    BEAT: ClassVar[str] = "beat"

    name = models.CharField(max_length=100, primary_key=True, db_collation="C")
    finished_at = models.DateTimeField()
    result = models.IntegerField(null=True, help_text="Of verify_ledger: its findings. Empty: the task returns no number.")

    class Meta:
        default_permissions = ()

    @staticmethod
    def record(name: str, result: int | None = None) -> None:
        """Write that the task ended now, by the database's clock. Raises the database's errors."""
        run = TaskRun(name=name, finished_at=Now(), result=result)
        changed = ["finished_at", "result"]
        TaskRun.objects.bulk_create([run], update_conflicts=True, unique_fields=["name"], update_fields=changed)


class ProcessQuerySet(models.QuerySet["Process"]):
    def alive(self) -> Self:
        """Select those that reported recently, by the database's clock."""
        return self.filter(seen_at__gt=Now() - Process.ALIVE)


class Process(models.Model):
    """A process of the gateway, as it last reported. The secrets are fingerprints, in the order of the settings."""

    ALIVE: ClassVar[timedelta] = timedelta(seconds=30)  # after its last report, a process counts as alive for so long
    KEPT: ClassVar[timedelta] = timedelta(days=7)

    id = models.UUIDField(primary_key=True, default=identifiers.uuid7)
    host = models.CharField(max_length=255)
    role = models.CharField(max_length=10, help_text="web, worker or beat.")
    pid = models.IntegerField()
    encryption_keys: ClassVar = ArrayField(models.CharField(max_length=16))
    peppers: ClassVar = ArrayField(models.CharField(max_length=16))
    gauges = models.JSONField(default=dict, help_text="What only its host can measure, by the name of the metric.")
    seen_at = models.DateTimeField()

    objects = ProcessQuerySet.as_manager()

    class Meta:
        default_permissions = ()
        verbose_name_plural = "processes"

    def __str__(self) -> str:
        return f"{self.host} ({self.role})"
