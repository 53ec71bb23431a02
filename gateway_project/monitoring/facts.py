"""Facts about the whole gateway, each with the SQL that reads it: metrics that no process keeps in its memory.

A statement must be short however many rows there are: it reads an index or a small table. A process measures the gauges of its
host when it reports.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from django.conf import settings

from gateway_project import app_config
from gateway_project.monitoring.models import Process, TaskRun


@dataclass(frozen=True)
class Fact:
    """A gauge, and the SQL that selects its rows: the labels' values, then the number.

    Of owned tables it is read in each cell. ``across_cells`` makes one number of those of the cells, such as ``sum``.
    """

    name: str
    help: str
    sql: str
    labels: tuple[str, ...] = ()
    across_cells: Callable[[list[Any]], Any] | None = None


@dataclass(frozen=True)
class HostGauge:
    """A gauge with the label ``host``, and the function that measures it on its own host."""

    name: str
    help: str
    read: Callable[[], int]


Kind = TypeVar("Kind", Fact, HostGauge)


def declared(kind: type[Kind]) -> list[Kind]:
    """Return what all apps declare of this kind, in the apps' order."""
    return [fact for app in app_config.installed() for fact in app.facts() if isinstance(fact, kind)]


def last_end_statement(task: str) -> str:
    """Return SQL for when the task last ended, in seconds since 1970; 0 if it never did."""
    return f"SELECT coalesce((SELECT extract(epoch FROM finished_at) FROM monitoring_taskrun WHERE name = '{task}'), 0)"  # noqa: S608  a name of this code


def last_result_statement(task: str) -> str:
    """Return SQL for the number that the task last returned; 0 if it never did."""
    return f"SELECT coalesce((SELECT result FROM monitoring_taskrun WHERE name = '{task}'), 0)"  # noqa: S608  a name of this code


_SCHEDULED = ", ".join(sorted({f"('{entry['task']}')" for entry in settings.PERIODIC_TASKS.values()}))

FACTS = [
    Fact(
        "gateway_task_timestamp_seconds",
        "When a periodic task last ended without an error; 0 if it never did.",
        f"SELECT name, coalesce(extract(epoch FROM finished_at), 0) FROM (VALUES {_SCHEDULED}) AS scheduled (name)"  # noqa: S608  names of this code
        " LEFT JOIN monitoring_taskrun USING (name)",
        ("task",),
    ),
    Fact("gateway_beat_timestamp_seconds", "When beat last sent a task; 0 if it never did.", last_end_statement(TaskRun.BEAT)),
    Fact(
        "gateway_secrets_missing",
        "Running processes that lack a secret with which another one encrypts, or makes the digests of new keys.",
        f"""
        WITH alive AS (
            SELECT * FROM monitoring_process WHERE seen_at > now() - interval '{Process.ALIVE.total_seconds()} s'
        )
        SELECT 'encryption_key', count(*) FROM alive
        WHERE NOT encryption_keys @> (
            SELECT array_agg(each.encryption_keys[1]) FROM alive AS each WHERE cardinality(each.encryption_keys) > 0
        )
        UNION ALL
        SELECT 'pepper', count(*) FROM alive
        WHERE NOT peppers @> (SELECT array_agg(each.peppers[1]) FROM alive AS each WHERE cardinality(each.peppers) > 0)
        """,  # noqa: S608  a constant of this code
        ("secret",),
    ),
]
