"""Finds a secret that one process uses and another does not have, as in a rotation that skipped a step.

The second cannot read what the first encrypts: repetitions of its requests fail there, as do its new API keys. Processes
compare fingerprints, from which no secret can be found.
"""

import hmac
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from gateway_project.monitoring.models import Process

logger = logging.getLogger("gateway.secrets")

_SETTINGS = {"encryption_keys": "GATEWAY_ENCRYPTION_KEYS", "peppers": "GATEWAY_KEY_PEPPERS"}


def fingerprints(secrets: Iterable[str]) -> list[str]:
    """Return a fingerprint of each: 16 hexadecimal digits of an HMAC whose key is the secret itself."""
    return [hmac.digest(secret.encode(), b"gateway: fingerprint of a secret", "sha256").hex()[:16] for secret in secrets]


@dataclass(frozen=True)
class Missing:
    """A secret that ``users`` use for what is new, and ``without`` do not have."""

    setting: str
    users: list[Process]
    without: list[Process]

    def __str__(self) -> str:
        return f"The first of {self.setting} at {_names(self.users)} is missing at {_names(self.without)}."


def _names(processes: Iterable[Process]) -> str:
    return ", ".join(sorted({str(process) for process in processes}))


def missing(processes: Sequence[Process]) -> Iterator[Missing]:
    """Yield each secret that one of the processes uses and another lacks."""
    for field, setting in _SETTINGS.items():
        lists = [(process, getattr(process, field)) for process in processes]
        for used in sorted({secrets[0] for _, secrets in lists if secrets}):
            users = [process for process, secrets in lists if secrets and secrets[0] == used]
            without = [process for process, secrets in lists if used not in secrets]
            if without:
                yield Missing(setting, users, without)


class Warnings:
    """Logs once which secrets of ``process`` other processes lack, and again when this changes."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._logged: list[str] = []

    def log(self, processes: Sequence[Process]) -> None:
        found = [str(each) for each in missing(processes) if self._process in each.users]
        if found != self._logged:
            for line in found or ["Every running process has the secrets that this one uses."]:
                logger.warning("gateway.W009: %s", line)
        self._logged = found
