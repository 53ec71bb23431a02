"""The report of each running process: a row with its host, fingerprints of its secrets, and the measurements of the host."""

import logging
import os
import socket
import threading
import time
from typing import NoReturn

from django.conf import settings
from django.db.models import Q
from django.db.models.functions import Now

from gateway_project.db import pool, repetition
from gateway_project.monitoring import facts, rotation
from gateway_project.monitoring.models import Process

logger = logging.getLogger("gateway.processes")

INTERVAL_SECONDS = 10


def host() -> str:
    """Return the name by which other hosts know this one."""
    return socket.gethostname()


def measure() -> dict[str, int]:
    """Return what only this host can measure, by the name of the metric."""
    return {gauge.name: gauge.read() for gauge in facts.host_gauges()}


def this_process(role: str) -> Process:
    """Return the row of this process, which is not saved yet."""
    return Process(
        host=host(),
        role=role,
        pid=os.getpid(),
        encryption_keys=rotation.fingerprints(settings.ENCRYPTION_KEYS),
        peppers=rotation.fingerprints(settings.KEY_PEPPERS),
    )


def report_regularly(role: str) -> None:
    """Report this process every few seconds, for as long as it lives."""
    threading.Thread(target=_report_regularly, args=(this_process(role),), name="report of this process", daemon=True).start()


def _report_regularly(process: Process) -> NoReturn:
    warnings = rotation.Warnings(process)

    def report_and_warn() -> None:
        report(process)
        warnings.log(list(Process.objects.alive()))

    while True:
        repetition.attempt(report_and_warn, logger=logger, failure="cannot report this process")
        time.sleep(INTERVAL_SECONDS)


def report(process: Process) -> None:
    """Write the row, and delete those of this host that ended, or that are old. Raises the database's errors."""
    process.seen_at, process.gauges = Now(), measure()
    with pool.time_limit():
        Process.objects.bulk_create([process], update_conflicts=True, unique_fields=["id"], update_fields=["seen_at", "gauges"])
        ended = Q(host=process.host, seen_at__lt=Now() - Process.ALIVE) | Q(seen_at__lt=Now() - Process.KEPT)
        Process.objects.filter(ended).delete()
