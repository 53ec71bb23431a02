"""Applies the settlements that wait in the outbox, many in a transaction.

A file is deleted only when its resolution is known to be committed. One process at a time drains a directory, and may repeat
it: a hold is resolved once.
"""

import logging
import math
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from functools import partial
from pathlib import Path
from uuid import UUID

import gevent
from django.conf import settings

from completions.charging.recovery import checkpoints, file_lock, outbox, owed, record, reserve
from completions.charging.resolution import Resolution
from gateway_project import errors
from gateway_project.cells import directory
from gateway_project.db import cell, repetition
from gateway_project.db.group_commit import Skipped

logger = logging.getLogger("gateway.outbox")

INTERVAL_SECONDS = 2  # between two drains by a worker
_FILES_MAX = 100  # in a transaction
_BYTES_MAX = 2**22  # of files in a transaction; one that is larger has its own
_LOCK_SECONDS = 10


class Outcome(Enum):
    RESOLVED = "resolved"
    ALREADY_RESOLVED = "already resolved"
    DEAD_LETTER = "moved to the dead letters"
    WAITING = "still waiting"
    GONE = "drained by another process"


def drain_regularly() -> None:
    """Drain, announce what waits, and keep room on the disk every few seconds for the life of this worker, each by itself."""
    reserve.keep()
    repeat = partial(repetition.repeat, logger=logger)
    repeat(reserve.keep, INTERVAL_SECONDS, failure="cannot keep room for the outbox")
    repeat(drain, INTERVAL_SECONDS, failure="cannot drain the outbox yet")
    repeat(_announce, checkpoints.INTERVAL_SECONDS, failure="cannot announce what waits in the outbox")


def _announce() -> None:
    checkpoints.announce([path.stem for path in outbox.waiting_files()])


def drain(progress: Callable[[str], None] = lambda line: None, *, waits_for_others: bool = False) -> Counter[Outcome]:
    """Settle every file that waits, many in a transaction, and count the outcomes. None holds up another.

    Where another process drains the directory, waits for a while and leaves the files to it, unless ``waits_for_others``.
    Raises the error of an unavailable database: that of one cell after the others are drained.
    """
    outcomes: Counter[Outcome] = Counter()
    if not outbox.has_waiting():
        return outcomes
    with file_lock.locked(settings.OUTBOX_DIR, math.inf if waits_for_others else _LOCK_SECONDS) as is_locked:
        if not is_locked:
            logger.warning("another process has drained the outbox for more than %s seconds", _LOCK_SECONDS)
            return Counter({Outcome.WAITING: len(outbox.waiting_files())})
        failures = []
        for number, paths in _by_cell(outbox.waiting_files()).items():
            with cell.use(number):
                try:
                    _drain_cell(paths, outcomes, progress)
                except Exception as error:
                    failures.append(error)
        if failures:
            raise failures[0]
    return outcomes


def _by_cell(paths: list[Path]) -> dict[int, deque[Path]]:
    if not cell.are_several():
        return {cell.FIRST: deque(paths)}
    found: dict[int, deque[Path]] = {}
    places: dict[UUID, int] = {}
    for path in paths:
        account_id = record.account_of(path)
        if account_id not in places:
            places[account_id] = directory.find_again(account_id)
        found.setdefault(places[account_id], deque()).append(path)
        gevent.sleep(0)  # there may be thousands
    return found


def _drain_cell(paths: deque[Path], outcomes: Counter[Outcome], progress: Callable[[str], None]) -> None:
    reported_ids = set[UUID]()
    number, files_max = len(paths), 1  # the first file finds out alone whether the database takes settlements
    while paths:
        outcomes.update(_drain_files(_take_batch(paths, files_max), reported_ids))
        progress(f"{number - len(paths)} of {number}")
        files_max = _FILES_MAX


def _take_batch(paths: deque[Path], files_max: int) -> list[Path]:
    """Take the next files for a transaction: at least one, and no more than its bounds allow."""
    batch = [paths.popleft()]
    size_bytes = _size_bytes(batch[0])
    while paths and len(batch) < files_max and (size_bytes := size_bytes + _size_bytes(paths[0])) <= _BYTES_MAX:
        batch.append(paths.popleft())
    return batch


def _size_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # the batch finds that, too
        return 0


def _drain_files(paths: Sequence[Path], reported_ids: set[UUID]) -> Iterator[Outcome]:
    """Settle the files together. ``reported_ids`` are the accounts of which the log says that they cannot be settled yet."""
    rows, resolutions = owed.find_rows([path.stem for path in paths]), dict[Path, Resolution]()
    for path in paths:
        try:
            resolutions[path] = record.load(path, rows.get(path.stem))
        except FileNotFoundError:
            yield Outcome.GONE
        except OSError as error:
            logger.error("cannot read %s: %s", path, error)
            yield Outcome.WAITING
        except record.Unreadable as error:
            yield _move_to_dead_letters(path, error)
    outcomes = owed.settle_all(list(resolutions.values()), known_ids=rows)
    for (path, resolution), outcome in zip(resolutions.items(), outcomes, strict=True):
        if isinstance(outcome, (Skipped, errors.TiedUp)):  # this account is locked, and the next one may not be
            _report_waiting(resolution, outcome, reported_ids)
            yield Outcome.WAITING
        elif isinstance(outcome, Exception):
            yield _move_to_dead_letters(path, outcome)
        else:
            path.unlink(missing_ok=True)
            yield Outcome.ALREADY_RESOLVED if outcome is None else Outcome.RESOLVED


def _report_waiting(resolution: Resolution, cause: Skipped | errors.TiedUp, reported_ids: set[UUID]) -> None:
    completion_id, account_id = resolution.completion.id, resolution.account_id
    if account_id not in reported_ids:
        why = "another session keeps its rows locked" if isinstance(cause, Skipped) else "running requests hold its credits"
        message = "cannot settle %s, and perhaps others of account %s, yet: %s"
        facts = {"completion": completion_id, "account": str(account_id)}
        logger.warning(message, completion_id, account_id, why, extra=facts)
    reported_ids.add(account_id)


def _move_to_dead_letters(path: Path, error: Exception) -> Outcome:
    """Rename a file to ``.dead``. It is never deleted: an operator must look at it, and may rename it back."""
    try:
        path.rename(path.with_suffix(".dead"))
    except FileNotFoundError:
        return Outcome.GONE
    outbox.count_dead_letter(record.stated_cost_nanos(path.with_suffix(".dead")))
    message, reason = "%s is a dead letter now, %s.dead: %s", errors.reason(error)
    logger.error(message, path.name, path.stem, reason, exc_info=error, extra={"completion": path.stem})
    return Outcome.DEAD_LETTER
