"""System check of the secrets of all running processes. It reads the database: ``check --database default``."""

from collections.abc import Sequence
from typing import Any

from django.core.checks import CheckMessage, Tags, Warning, register
from django.db import ProgrammingError, transaction

from gateway_project.monitoring import processes, rotation
from gateway_project.monitoring.models import Process


@register(Tags.database)
def check_rotation(databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """W009: a process, or this command, uses a secret first that another process does not have."""
    if "default" not in (databases or []):
        return []
    try:
        with transaction.atomic():
            running = list(Process.objects.alive())
    except ProgrammingError:  # not migrated yet
        return []
    found = rotation.missing([*running, processes.this_process("this command")])
    return [Warning(str(each), hint=_HINT, id="gateway.W009") for each in found]


_HINT = (
    "Put the secret at the end of the list there and restart those processes: step 1 of rotating secrets in"
    " docs/operating/deploying.md comes before step 2, on every host."
)
