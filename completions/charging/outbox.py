"""Stores settlements on disk while the database is unavailable, and applies them when it is back.

Each settlement is one small JSON file, named after its completion. It is written under a draft name, synced, renamed, and its
directory is synced: after a power failure the file is there whole, or not at all. A file is deleted only when its resolution
is known to be committed. A hold is resolved once, so several processes may drain one directory at the same time, and may
repeat it. No file contains a secret: a reply kept for an Idempotency-Key is sealed before it gets here.

A file that can never be applied becomes a dead letter: it is renamed to ``.dead`` and kept for an operator. So is the
settlement of a completion that the database does not know: admissions do not wait for the disk, so a crash of the database can
forget one whose reply is still relayed. What dead letters were to cost is counted as the operator's loss.
"""

import json
import logging
import os
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, replace
from enum import Enum
from pathlib import Path
from typing import Any, NoReturn
from uuid import UUID

import gevent
import msgspec
from django.conf import settings
from django.db import DataError, IntegrityError, InternalError

from completions.charging.batch import AdmissionLost
from completions.charging.records import CompletionRecord, ServedBy
from completions.charging.resolution import ReplyRetention, Resolution
from completions.chat import TIERS, Usage
from completions.models import Completion
from gateway_project import errors, metrics
from gateway_project.db import pool
from gateway_project.db.group_commit import OutcomeUnknown, WaitTimedOut

logger = logging.getLogger("gateway.outbox")

VERSION = 2  # of the file format
INTERVAL_SECONDS = 2  # between two drains by a worker
_PROGRESS_EVERY = 100

# The errors after which a settlement is worth repeating: the database is unavailable or busy, or it is a standby that has not
# been promoted yet (InternalError). Waiting would not cure any other error.
UNAVAILABLE = (*pool.UNAVAILABLE, InternalError, OutcomeUnknown, WaitTimedOut)

Resolve = Callable[[Resolution], int | None]  # commits a resolution; returns None when the hold was resolved before


class Outcome(Enum):
    """The result of draining one file."""

    RESOLVED = "resolved"
    ALREADY_RESOLVED = "already resolved"
    DEAD_LETTER = "moved to the dead letters"
    WAITING = "still waiting"
    GONE = "drained by another process"


# --- Store -------------------------------------------------------------------------------------------------------


def store(resolution: Resolution, cause: Exception) -> None:
    """Write a resolution to disk, durably; ``drain`` applies it later. Raises ``cause`` when the disk refuses, too.

    The caller waits for the disk, but the event loop does not: a thread does the syncing, because many completions end at
    once when a database goes down.
    """
    completion_id = resolution.completion.id
    facts, reason = {"completion": completion_id}, errors.reason(cause)
    path = settings.OUTBOX_DIR / f"{completion_id}.json"
    if error := gevent.get_hub().threadpool.apply(_write_error, (path, _dumps(resolution))):
        logger.critical("%s is neither settled (%s) nor stored in the outbox: %s", completion_id, reason, error, extra=facts)
        raise cause from error
    metrics.outbox_stored_total.inc()
    logger.error("%s is stored in the outbox, to be settled later: %s", completion_id, reason, extra=facts)


def store_dead_letter(resolution: Resolution, cause: AdmissionLost) -> None:
    """Write the resolution of a forgotten admission to disk for an operator, and count the loss. A release loses nothing.

    Does not raise: the client gets its reply even if the disk refuses, because nothing could charge it any more.
    """
    completion, cost_nanos = resolution.completion, resolution.cost_nanos
    facts = {"completion": completion.id, "account": str(completion.account_id), "key": completion.key_id}
    if cost_nanos is None:
        logger.warning("%s is not released: the database knows no such completion", completion.id, extra=facts)
        return
    if resolution.reply_retention:  # its Idempotency-Key is forgotten, too: nobody can ask for the reply again
        resolution = replace(resolution, reply_retention=ReplyRetention(None, is_kept=False))
    path = settings.OUTBOX_DIR / f"{completion.id}.dead"
    error = gevent.get_hub().threadpool.apply(_write_error, (path, _dumps(resolution)))
    _count_dead_letter(cost_nanos)
    where = f"cannot be stored ({error})" if error else f"is a dead letter now, {path.name}"
    logger.error("%s is not charged and %s: %s", completion.id, where, cause, extra={**facts, "cost_nanos": cost_nanos})


def _count_dead_letter(cost_nanos: int) -> None:
    metrics.outbox_dead_letters_total.inc()
    metrics.operator_loss_nanos.inc(cost_nanos)


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
    _sync_directory(path.parent)


def _sync_directory(directory: Path) -> None:
    """Make the renames in a directory durable."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _dumps(resolution: Resolution) -> str:
    record = {
        "version": VERSION,
        "completion": resolution.completion.id,
        "admission": asdict(resolution.completion),  # read only if the database has forgotten it
        "served_by": list(resolution.served_by),
        "settlement": resolution.settlement,
        "usage": asdict(resolution.usage) if resolution.usage else None,
        "cost_nanos": resolution.cost_nanos,
        "reply_retention": asdict(resolution.reply_retention) if resolution.reply_retention else None,
        "unpaid_nanos": resolution.unpaid_nanos,
    }
    return json.dumps(record, default=str)


# --- Read --------------------------------------------------------------------------------------------------------


def waiting_files() -> list[Path]:
    """Return the files that wait, oldest completion first: ids sort by time."""
    return sorted(settings.OUTBOX_DIR.glob("*.json"))


def dead_letters() -> list[Path]:
    """Return the dead letters, oldest completion first."""
    return sorted(settings.OUTBOX_DIR.glob("*.dead"))


class Unreadable(Exception):
    """A file that does not contain a valid resolution. The message says why."""


def load_forgotten(path: Path) -> Resolution:
    """Return the resolution in a file whose completion the database does not know, with the completion as it was admitted.

    Raises Unreadable, or an OSError.
    """
    try:
        admission = msgspec.convert(json.loads(path.read_text())["admission"], CompletionRecord)
    except (ValueError, LookupError, TypeError) as error:  # msgspec's error is a ValueError
        raise Unreadable(f"it does not say what was admitted: {type(error).__name__}: {error}") from error
    return _read(path, admission)


def load(path: Path) -> Resolution:
    """Return the resolution in a file, with its completion as the database has it now.

    Raises Unreadable, AdmissionLost, an OSError, or the database's errors.
    """
    with pool.time_limit():
        row = Completion.objects.filter(pk=path.stem).first()
    if row is not None:
        return _read(path, CompletionRecord.from_row(row))
    cost_nanos = _stated_cost_nanos(path)  # or the file belongs to another database
    raise AdmissionLost(f"the database knows no such completion; it was to cost {cost_nanos} nanodollars")


def _read(path: Path, completion: CompletionRecord) -> Resolution:
    try:
        record = json.loads(path.read_text())
        if (record["version"], record["completion"]) != (VERSION, path.stem):
            raise Unreadable(f"it is of version {record['version']}, for {record['completion']}")
        served_by = ServedBy(*record["served_by"])
        usage = Usage(**record["usage"]) if record["usage"] else None
        reply_retention = ReplyRetention(**record["reply_retention"]) if record["reply_retention"] else None
        settlement, cost_nanos = Completion.Settlement(record["settlement"]), record["cost_nanos"]
        unpaid_nanos = record.get("unpaid_nanos", 0)  # files of earlier releases do not have it
        _require_whole_numbers(usage, cost_nanos, unpaid_nanos)
    except (ValueError, LookupError, TypeError) as error:
        raise Unreadable(f"{type(error).__name__}: {error}") from error
    return Resolution(completion, served_by, settlement, usage, cost_nanos, reply_retention, unpaid_nanos)


def _require_whole_numbers(usage: Usage | None, cost_nanos: Any, unpaid_nanos: Any) -> None:
    """A charge has a usage and a cost, a release has neither. Raises ValueError for anything else."""
    if type(unpaid_nanos) is not int or unpaid_nanos < 0:
        raise ValueError("unpaid_nanos is no whole number")
    if usage is None and cost_nanos is None:
        return
    numbers = [cost_nanos, *(value for name, value in asdict(usage).items() if name != "tier")] if usage else [None]
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise ValueError("usage and cost are no whole numbers")
    if usage and usage.tier not in ("", *TIERS):
        raise ValueError("there is no such service tier")


# --- Drain -------------------------------------------------------------------------------------------------------


def drain(resolve: Resolve, progress: Callable[[str], None] = lambda line: None) -> Counter[Outcome]:
    """Resolve every file that waits, and count the outcomes.

    A file that cannot be resolved yet, or ever, does not hold up the others. Raises the database's error when it is
    unavailable.
    """
    outcomes: Counter[Outcome] = Counter()
    paths, reported_ids = waiting_files(), set[UUID]()
    for number, path in enumerate(paths, start=1):
        outcomes[_drain_file(path, resolve, reported_ids)] += 1
        if number % _PROGRESS_EVERY == 0:
            progress(f"{number} of {len(paths)}")
    return outcomes


def drain_regularly(resolve: Resolve) -> None:
    """Drain every few seconds for the life of this worker: its own files, and those of processes that ended."""
    gevent.spawn(_drain_regularly, resolve)


def _drain_regularly(resolve: Resolve) -> NoReturn:
    while True:
        try:
            drain(resolve)
        except (*pool.DATABASE_ERRORS, OSError) as error:
            logger.warning("cannot drain the outbox yet: %s", errors.reason(error))
        finally:
            pool.release_connection()
        gevent.sleep(INTERVAL_SECONDS)


def _drain_file(path: Path, resolve: Resolve, reported_ids: set[UUID]) -> Outcome:
    """Resolve one file. ``reported_ids`` are the accounts of which the log says that they cannot be settled yet."""
    try:
        resolution = load(path)
    except FileNotFoundError:
        return Outcome.GONE
    except OSError as error:
        logger.error("cannot read %s: %s", path, error)
        return Outcome.WAITING
    except (Unreadable, AdmissionLost) as error:
        return _move_to_dead_letters(path, error)
    try:
        is_resolved = resolve(resolution) is not None
    except (DataError, IntegrityError) as error:
        return _move_to_dead_letters(path, error)
    except (*pool.DATABASE_ERRORS, OutcomeUnknown, WaitTimedOut) as error:  # this account may be locked, and the next one not
        account_id = resolution.account_id
        if account_id not in reported_ids:
            reason, facts = errors.reason(error), {"completion": path.stem, "account": str(account_id)}
            logger.warning(
                "cannot settle %s, and perhaps others of account %s, yet: %s", path.stem, account_id, reason, extra=facts
            )
            reported_ids.add(account_id)
        return Outcome.WAITING
    except Exception as error:  # a bug of the gateway: trying again does not help
        return _move_to_dead_letters(path, error)
    if not is_resolved:
        report_discrepancy(resolution)
    path.unlink(missing_ok=True)
    return Outcome.RESOLVED if is_resolved else Outcome.ALREADY_RESOLVED


def _move_to_dead_letters(path: Path, error: Exception) -> Outcome:
    """Rename a file to ``.dead``. It is never deleted: an operator must look at it, and may rename it back."""
    try:
        path.rename(path.with_suffix(".dead"))
    except FileNotFoundError:
        return Outcome.GONE
    _count_dead_letter(_stated_cost_nanos(path.with_suffix(".dead")))
    logger.error(
        "%s is a dead letter now, %s.dead: %s",
        path.name,
        path.stem,
        errors.reason(error),
        exc_info=error,
        extra={"completion": path.stem},
    )
    return Outcome.DEAD_LETTER


def _stated_cost_nanos(path: Path) -> int:
    """Return what the file says that its completion costs; 0 if it does not say so."""
    try:
        cost_nanos = json.loads(path.read_text())["cost_nanos"]
    except (OSError, ValueError, LookupError, TypeError):
        return 0
    return cost_nanos if type(cost_nanos) is int and cost_nanos > 0 else 0


def report_discrepancy(resolution: Resolution) -> None:
    """Log when a completion was settled otherwise than ``resolution`` says, and count the loss.

    This happens when the sweeper settled by its estimate, because it took a process that could not write for dead.
    """
    with pool.time_limit():
        completion = Completion.objects.get(pk=resolution.completion.id)
    if completion.settlement == resolution.settlement:
        return
    cost_nanos, charged_nanos = resolution.cost_nanos or 0, completion.cost_nanos or 0
    metrics.operator_loss_nanos.inc(max(cost_nanos - charged_nanos, 0))
    logger.error(
        "%s was already settled: %s, %s nanodollars; this settlement was %s, %s nanodollars",
        completion.pk,
        completion.settlement,
        charged_nanos,
        resolution.settlement,
        cost_nanos,
        extra={"completion": completion.pk},
    )
