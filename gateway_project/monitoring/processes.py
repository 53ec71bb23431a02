"""The report of each running process: a row with its host, fingerprints of its secrets, and the measurements of the host.

Processes compare fingerprints, from which no secret can be found: W009 tells of a secret that one uses and another does not
have, as in a rotation that skipped a step. The second cannot read what the first encrypts: repetitions of its requests fail
there, as do its new API keys.
"""

import hmac
import logging
import os
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn

from django.conf import settings
from django.core.checks import CheckMessage, Tags, Warning, register
from django.db import ProgrammingError, transaction
from django.db.models import Q
from django.db.models.functions import Now

from gateway_project.db import pool, repetition
from gateway_project.monitoring import facts
from gateway_project.monitoring.models import Process

logger = logging.getLogger("gateway.processes")
_secrets_logger = logging.getLogger("gateway.secrets")

INTERVAL_SECONDS = 10
_SECRETS = {"encryption_keys": "GATEWAY_ENCRYPTION_KEYS", "peppers": "GATEWAY_KEY_PEPPERS"}  # the settings, by column


def host() -> str:
    """Return the name by which other hosts know this one."""
    return socket.gethostname()


def measure() -> dict[str, int]:
    """Return what only this host can measure, by the name of the metric."""
    return {gauge.name: gauge.read() for gauge in facts.declared(facts.HostGauge)}


def this_process(role: str) -> Process:
    """Return the row of this process, which is not saved yet."""
    keys, peppers = fingerprints(settings.ENCRYPTION_KEYS), fingerprints(settings.KEY_PEPPERS)
    return Process(host=host(), role=role, pid=os.getpid(), encryption_keys=keys, peppers=peppers)


def fingerprints(secrets: Iterable[str]) -> list[str]:
    """Return a fingerprint of each: 16 hexadecimal digits of an HMAC whose key is the secret itself."""
    return [hmac.digest(secret.encode(), b"gateway: fingerprint of a secret", "sha256").hex()[:16] for secret in secrets]


def report_regularly(role: str) -> None:
    """Report this process every few seconds, for as long as it lives."""
    threading.Thread(target=_report_regularly, args=(this_process(role),), name="report of this process", daemon=True).start()


def _report_regularly(process: Process) -> NoReturn:
    logged: list[str] = []

    def report_and_warn() -> None:
        nonlocal logged
        report(process)
        logged = warn(process, Process.objects.alive(), logged)

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


def warn(process: Process, running: Iterable[Process], logged: list[str]) -> list[str]:
    """Log which secrets of ``process`` others lack, unless this is what was ``logged`` last. Return it."""
    found = [warning for users, warning in _missing_secrets(list(running)) if process in users]
    if found != logged:
        for line in found or ["Every running process has the secrets that this one uses."]:
            _secrets_logger.warning("gateway.W009: %s", line)
    return found


@register(Tags.database)
def check_secrets(databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """W009: a process, or this command, uses a secret first that another process does not have."""
    if "default" not in (databases or []):
        return []
    try:
        with transaction.atomic():
            running = list(Process.objects.alive())
    except ProgrammingError:  # not migrated yet
        return []
    found = _missing_secrets([*running, this_process("this command")])
    return [Warning(warning, hint=_HINT, id="gateway.W009") for _, warning in found]


_HINT = (
    "Put the secret at the end of the list there and restart those processes: step 1 of rotating secrets in"
    " docs/operating/deploying.md comes before step 2, on every host."
)


def _missing_secrets(processes: Sequence[Process]) -> Iterator[tuple[list[Process], str]]:
    """Yield the users of each secret that one process uses for what is new and another lacks, and a warning in words."""
    for column, setting in _SECRETS.items():
        lists = [(process, getattr(process, column)) for process in processes]
        for used in sorted({secrets[0] for _, secrets in lists if secrets}):
            users = [process for process, secrets in lists if secrets and secrets[0] == used]
            without = [process for process, secrets in lists if used not in secrets]
            if without:
                yield users, f"The first of {setting} at {_names(users)} is missing at {_names(without)}."


def _names(processes: Iterable[Process]) -> str:
    return ", ".join(sorted({str(process) for process in processes}))
