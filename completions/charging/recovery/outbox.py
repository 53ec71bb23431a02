"""Stores settlements on disk while the database is unavailable. ``drains`` applies them when it is back.

Each settlement is one small JSON file (``record``), named after its completion. It is written under a draft name, synced,
renamed, and its directory is synced: after a power failure the file is there whole, or not at all. No file contains a secret: a
reply kept for an Idempotency-Key, or a response, is sealed before it gets here.

A file that can never be applied becomes a dead letter: it is renamed to ``.dead`` and kept for an operator. Its cost counts
as the operator's loss.
"""

import logging
import os
import tempfile
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import gevent
from django.conf import settings
from django.db import InternalError

from completions.charging.batch import AdmissionLost
from completions.charging.recovery import file_lock, record, reserve
from completions.charging.resolution import Resolution
from gateway_project import errors, metrics
from gateway_project.db import pool
from gateway_project.db.group_commit import OutcomeUnknown, WaitTimedOut

logger = logging.getLogger("gateway.outbox")

# The errors after which a settlement is worth repeating: the database is unavailable or busy, or it is a standby that has not
# been promoted yet (InternalError). Waiting would not cure any other error.
UNAVAILABLE = (*pool.UNAVAILABLE, InternalError, OutcomeUnknown, WaitTimedOut)


def store(resolution: Resolution, cause: Exception) -> None:
    """Write a resolution to disk, durably. Raises ``cause`` when the disk refuses, too.

    A thread does the syncing, so that the event loop does not wait: many completions end at once when a database goes down.
    """
    completion_id, reason = resolution.completion.id, errors.reason(cause)
    facts = {"completion": completion_id}
    if error := _keep(resolution):
        logger.critical("%s is neither settled (%s) nor stored in the outbox: %s", completion_id, reason, error, extra=facts)
        raise cause from error
    metrics.outbox_stored_total.inc()
    logger.error("%s is stored in the outbox, to be settled later: %s", completion_id, reason, extra=facts)


def store_forgotten(resolution: Resolution, cause: AdmissionLost) -> None:
    """Write the resolution of an admission that a crash of the database forgot, to be admitted again. A release is of no use.

    Does not raise: the client gets its reply even if the disk refuses, and then the loss is counted.
    """
    completion, cost_nanos = resolution.completion, resolution.cost_nanos
    facts: dict[str, Any] = {"completion": completion.id, "account": str(completion.account_id), "key": completion.key_id}
    if cost_nanos is None:
        logger.warning("%s is not released: the database knows no such completion", completion.id, extra=facts)
        return
    facts["cost_nanos"] = cost_nanos
    if error := _keep(resolution):
        count_dead_letter(cost_nanos)
        logger.error("%s is not charged and cannot be stored (%s): %s", completion.id, error, cause, extra=facts)
        return
    metrics.outbox_stored_total.inc()
    logger.error("%s is stored in the outbox, to be admitted again: %s", completion.id, cause, extra=facts)


def count_dead_letter(cost_nanos: int) -> None:
    metrics.outbox_dead_letters_total.inc()
    metrics.operator_loss_nanos.inc(cost_nanos)


def put_back(completion_id: str, text: str) -> None:
    """Write a record, durably, to be settled again. A thread waits for the disk. Raises an OSError."""
    if error := gevent.get_hub().threadpool.apply(_write_error, (_path(completion_id), text)):
        raise error


def _path(completion_id: str) -> Path:
    return Path(settings.OUTBOX_DIR, f"{completion_id}.json")


def _keep(resolution: Resolution) -> OSError | None:
    """Write the file. On a full disk use the room that is kept for it, without the reply. Return the error if there is none."""
    path, threads = _path(resolution.completion.id), gevent.get_hub().threadpool
    error: OSError | None = threads.apply(_write_error, (path, record.dumps(resolution)))
    if error and error.errno in reserve.FULL:
        if retention := resolution.reply_retention:
            resolution = replace(resolution, reply_retention=replace(retention, sealed_reply=None))
        error = threads.apply(reserve.spend, (partial(_write, path, record.dumps(replace(resolution, response=None))),))
    return error


def _write_error(path: Path, text: str) -> OSError | None:
    """Write the file. Return the error instead of raising it: gevent would print what a thread of its pool raises."""
    try:
        _write(path, text)
    except OSError as error:
        return error
    return None


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".draft")  # readable by its owner only
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.rename(draft, path)
    except BaseException:
        os.unlink(draft)
        raise
    file_lock.sync_directory(path.parent)


def waiting_files() -> list[Path]:
    """Return the files that wait, oldest completion first: ids sort by time."""
    return sorted(settings.OUTBOX_DIR.glob("*.json"))


def has_waiting() -> bool:
    return any(settings.OUTBOX_DIR.glob("*.json"))


def dead_letters() -> list[Path]:
    return sorted(settings.OUTBOX_DIR.glob("*.dead"))
