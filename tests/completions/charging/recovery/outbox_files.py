"""The files of an outbox, and completions that the database lost."""

import os
from collections.abc import Callable
from typing import Any

import pytest
from django.db import OperationalError, transaction

from completions.charging.admission import Admitted
from completions.charging.recovery import drains, outbox
from completions.charging.recovery.drains import Outcome
from completions.charging.resolution import Resolution
from completions.models import Completion
from completions.pricing.usage import Usage
from tests.completions import settlements

UNAVAILABLE = OperationalError("the database is unavailable")


@pytest.fixture(autouse=True)
def _outbox(settings, tmp_path, echo_model):
    settings.OUTBOX_DIR = tmp_path / "outbox"


def files(settings) -> list[str]:
    return sorted(os.listdir(settings.OUTBOX_DIR)) if settings.OUTBOX_DIR.exists() else []


def store(admitted, *ending: Any) -> str:
    """Store a settlement of 20 tokens for 20,000 nanodollars, or the given one."""
    ending = ending or (Completion.Settlement.REPORTED, Usage(10, 10), 20_000)
    outbox.store(Resolution(admitted.completion, settlements.served_by(admitted), *ending), UNAVAILABLE)
    return admitted.completion.id


def drain() -> dict[Outcome, int]:
    return drains.drain()


def total(counter) -> float:
    return counter._value.get()


def forget(admit: Callable[[], Admitted]) -> Admitted:
    """Admit a completion, and lose it as a crash of the database does."""
    savepoint = transaction.savepoint()
    admitted = admit()
    transaction.savepoint_rollback(savepoint)
    return admitted
