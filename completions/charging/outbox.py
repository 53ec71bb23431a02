"""What could not be settled because the database was away: a small file each, on disk, until it is back.

A file is written beside its name, synced, renamed, and its directory synced: after a power failure it is there, whole, or it
is not. It is deleted when its resolution is known to be committed. A hold resolves once, so any number of processes may drain
one directory, at once and again. Nothing in a file is secret: the reply for an Idempotency-Key is sealed before it comes here.
"""

import json
import logging
import os
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import Any, NoReturn

import gevent
from django.conf import settings
from django.db import DataError, IntegrityError, InternalError

from completions.charging.records import CompletionRecord, ServedBy
from completions.charging.resolution import ReplyRetention, Resolution
from completions.chat import Usage
from completions.models import Completion
from gateway_project import metrics
from gateway_project.db import pool
from gateway_project.db.group_commit import OutcomeUnknown, WaitTimedOut

logger = logging.getLogger("gateway.spool")

VERSION = 2
INTERVAL_SECONDS = 2
_PROGRESS_EVERY = 100

# Away, busy, or - InternalError - a standby that has not taken over yet. Anything else waiting would not mend.
AWAY = (*pool.UNAVAILABLE, InternalError, OutcomeUnknown, WaitTimedOut)

Resolve = Callable[[Resolution], int | None]  # commits it; None when the hold was resolved before


class Outcome(Enum):
    """What became of a file."""

    RESOLVED = "resolved"
    KNOWN = "resolved before"
    SET_ASIDE = "set aside"
    WAITING = "still waiting"
    GONE = "drained by somebody else"


# --- In ----------------------------------------------------------------------------------------------------------


def keep(resolution: Resolution, because: Exception) -> None:
    """Write it down for good; ``drain`` does the rest. Raises ``because`` when the disk refuses, too.

    The caller waits for the disk, and the event loop does not: a thread beside it does the syncing, because when a database
    goes, many completions end at once.
    """
    completion_id = resolution.completion.id
    path = settings.SPOOL_DIR / f"{completion_id}.json"
    if error := gevent.get_hub().threadpool.apply(_refusal, (path, _dumps(resolution))):
        logger.critical("%s is neither settled (%r) nor spooled: %s", completion_id, because, error)
        raise because from error
    metrics.spooled_total.inc()
    metrics.spool_waiting.set(len(waiting()))
    logger.error("%s is spooled, to be settled later: %r", completion_id, because, extra={"completion": completion_id})


def _refusal(path: Path, text: str) -> OSError | None:
    """Why the disk refused it, if it did. Not raised: gevent would print what a thread of its pool raises."""
    try:
        _write(path, text)
    except OSError as error:
        return error
    return None


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, draft = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".draft")  # only its owner may read it
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.rename(draft, path)
    except BaseException:
        os.unlink(draft)
        raise
    _sync(path.parent)


def _sync(directory: Path) -> None:
    """Make what was renamed in it last."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _dumps(resolution: Resolution) -> str:
    record = {
        "version": VERSION,
        "completion": resolution.completion.id,
        "served_by": list(resolution.served_by),
        "settlement": resolution.settlement,
        "usage": asdict(resolution.usage) if resolution.usage else None,
        "cost_nanos": resolution.cost_nanos,
        "reply_retention": asdict(resolution.reply_retention) if resolution.reply_retention else None,
    }
    return json.dumps(record)


# --- What is there -----------------------------------------------------------------------------------------------


def waiting() -> list[Path]:
    """The files, oldest completion first: ids sort by time."""
    return sorted(settings.SPOOL_DIR.glob("*.json"))


class _Unreadable(Exception):
    """A file that no resolution can be made of, and why."""


def _loaded(path: Path) -> Resolution:
    """The resolution in a file, with its completion as it is now. Raises _Unreadable, or what the database raises."""
    try:
        record = json.loads(path.read_text())
        if (record["version"], record["completion"]) != (VERSION, path.stem):
            raise _Unreadable(f"it is of version {record['version']}, for {record['completion']}")
        served_by = ServedBy(*record["served_by"])
        usage = Usage(**record["usage"]) if record["usage"] else None
        reply_retention = ReplyRetention(**record["reply_retention"]) if record["reply_retention"] else None
        settlement, cost_nanos = Completion.Settlement(record["settlement"]), record["cost_nanos"]
        _require_whole_numbers(usage, cost_nanos)
    except (ValueError, LookupError, TypeError) as error:
        raise _Unreadable(f"{type(error).__name__}: {error}") from error
    with pool.time_limit():
        completion = Completion.objects.filter(pk=path.stem).first()
    if completion is None:  # admitted without waiting for the disk, just before a crash of the database; or in another one
        raise _Unreadable(f"the database knows no such completion; it was to cost {cost_nanos or 0} nanodollars")
    return Resolution(CompletionRecord.from_row(completion), served_by, settlement, usage, cost_nanos, reply_retention)


def _require_whole_numbers(usage: Usage | None, cost_nanos: Any) -> None:
    """What is charged has a usage and a cost, what is released neither. Raises ValueError."""
    if usage is None and cost_nanos is None:
        return
    numbers = [cost_nanos, *asdict(usage).values()] if usage else [None]
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise ValueError("usage and cost are no whole numbers")


# --- Out ---------------------------------------------------------------------------------------------------------


def drain(resolve: Resolve, progress: Callable[[str], None] = lambda line: None) -> Counter[Outcome]:
    """Resolve what waits. What cannot be yet, or never, holds up no other. Raises what a database that is away raises."""
    found: Counter[Outcome] = Counter()
    paths = waiting()
    try:
        for number, path in enumerate(paths, start=1):
            found[_drained(path, resolve)] += 1
            if number % _PROGRESS_EVERY == 0:
                progress(f"{number} of {len(paths)}")
    finally:
        metrics.spool_waiting.set(len(waiting()))
    return found


def drain_regularly(resolve: Resolve) -> None:
    """In each worker, as long as it lives: it looks after what it spooled, and after what others left when they ended."""
    gevent.spawn(_drain_regularly, resolve)


def _drain_regularly(resolve: Resolve) -> NoReturn:
    while True:
        try:
            drain(resolve)
        except (*pool.DATABASE_ERRORS, OSError) as error:
            logger.warning("cannot drain the spool yet: %s", error)
        finally:
            pool.release_connection()
        gevent.sleep(INTERVAL_SECONDS)


def _drained(path: Path, resolve: Resolve) -> Outcome:
    try:
        resolution = _loaded(path)
    except FileNotFoundError:
        return Outcome.GONE
    except OSError as error:
        logger.error("cannot read %s: %s", path, error)
        return Outcome.WAITING
    except _Unreadable as error:
        return _set_aside(path, error)
    try:
        is_resolved = resolve(resolution) is not None
    except (DataError, IntegrityError) as error:
        return _set_aside(path, error)
    except (*pool.DATABASE_ERRORS, OutcomeUnknown, WaitTimedOut) as error:  # an account may be locked, and the next one not
        logger.warning("cannot settle %s yet: %r", path.stem, error)
        return Outcome.WAITING
    except Exception as error:  # a fault of ours, which will not mend by itself
        return _set_aside(path, error)
    if not is_resolved:
        compare(resolution)
    path.unlink(missing_ok=True)
    return Outcome.RESOLVED if is_resolved else Outcome.KNOWN


def _set_aside(path: Path, error: Exception) -> Outcome:
    """Out of the way, and never deleted: somebody must look at it, and may give it its name back."""
    try:
        path.rename(path.with_suffix(".bad"))
    except FileNotFoundError:
        return Outcome.GONE
    metrics.spool_set_aside_total.inc()
    logger.error("%s is set aside as %s.bad: %s", path.name, path.stem, error, exc_info=error, extra={"completion": path.stem})
    return Outcome.SET_ASIDE


def compare(resolution: Resolution) -> None:
    """Say so when somebody who knew less came first: the sweeper, which took a process that could not write for dead."""
    with pool.time_limit():
        completion = Completion.objects.get(pk=resolution.completion.id)
    if completion.settlement == resolution.settlement:
        return
    cost_nanos, charged_nanos = resolution.cost_nanos or 0, completion.cost_nanos or 0
    metrics.operator_loss_nanos.inc(max(cost_nanos - charged_nanos, 0))
    logger.error(
        "%s was %s for %s nanodollars before it could be %s for %s",
        completion.pk,
        completion.settlement,
        charged_nanos,
        resolution.settlement,
        cost_nanos,
        extra={"completion": completion.pk},
    )
