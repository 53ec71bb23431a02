"""Stores settlements on disk while the database is unavailable, and applies them when it is back.

Each settlement is one small JSON file, named after its completion. It is written under a draft name, synced, renamed, and its
directory is synced: after a power failure the file is there whole, or not at all. A file is deleted only when its resolution
is known to be committed. One process at a time drains a directory, and may repeat it: a hold is resolved once. No file contains
a secret: a reply kept for an Idempotency-Key, or a response, is sealed before it gets here.

A file that can never be applied becomes a dead letter: it is renamed to ``.dead`` and kept for an operator. What dead letters
were to cost is counted as the operator's loss.

The settlement of a completion that the database does not know is stored, too: admissions do not wait for the disk, so a crash
of the database can forget one whose reply is still relayed. It is admitted again before it is settled (``readmission``), and is
a dead letter if that is refused.
"""

import json
import logging
import math
import os
import tempfile
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import gevent
import msgspec
from django.conf import settings
from django.db import InternalError
from msgspec import structs

from completions.charging.batch import AdmissionLost
from completions.charging.idempotency import IdempotencyKey
from completions.charging.records import CompletionRecord, ServedBy
from completions.charging.recovery import checkpoints, file_lock, readmission, reserve
from completions.charging.resolution import ReplyRetention, Resolution
from completions.charging.stored_responses import ResponseRecord
from completions.models import Completion
from completions.pricing import meters
from completions.pricing.usage import Usage
from gateway_project import errors, metrics
from gateway_project.cells import directory
from gateway_project.db import cell, pool, repetition
from gateway_project.db.group_commit import OutcomeUnknown, Skipped, WaitTimedOut

logger = logging.getLogger("gateway.outbox")

VERSION = 2  # of the file format
INTERVAL_SECONDS = 2  # between two drains by a worker
_FILES_MAX = 100  # in a transaction
_BYTES_MAX = 2**22  # of files in a transaction; one that is larger has its own
_LOCK_SECONDS = 10

# The errors after which a settlement is worth repeating: the database is unavailable or busy, or it is a standby that has not
# been promoted yet (InternalError). Waiting would not cure any other error.
UNAVAILABLE = (*pool.UNAVAILABLE, InternalError, OutcomeUnknown, WaitTimedOut)

# Commits resolutions, and corrects what the sweeper charged instead of them. Returns for each what was charged, None when that
# had been done before, Skipped when its account is locked, or the error because of which it can never be committed.
ResolveAll = Callable[[list[Resolution]], list[int | Exception | None]]


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
    if error := _keep(path, resolution):
        logger.critical("%s is neither settled (%s) nor stored in the outbox: %s", completion_id, reason, error, extra=facts)
        raise cause from error
    metrics.outbox_stored_total.inc()
    logger.error("%s is stored in the outbox, to be settled later: %s", completion_id, reason, extra=facts)


def store_forgotten(resolution: Resolution, cause: AdmissionLost) -> None:
    """Write the resolution of a forgotten admission to disk; ``drain`` admits it again. A release is of no use any more.

    Does not raise: the client gets its reply even if the disk refuses, and then the loss is counted.
    """
    completion, cost_nanos = resolution.completion, resolution.cost_nanos
    facts: dict[str, Any] = {"completion": completion.id, "account": str(completion.account_id), "key": completion.key_id}
    if cost_nanos is None:
        logger.warning("%s is not released: the database knows no such completion", completion.id, extra=facts)
        return
    facts["cost_nanos"] = cost_nanos
    if error := _keep(settings.OUTBOX_DIR / f"{completion.id}.json", resolution):
        _count_dead_letter(cost_nanos)
        logger.error("%s is not charged and cannot be stored (%s): %s", completion.id, error, cause, extra=facts)
        return
    metrics.outbox_stored_total.inc()
    logger.error("%s is stored in the outbox, to be admitted again: %s", completion.id, cause, extra=facts)


def _count_dead_letter(cost_nanos: int) -> None:
    metrics.outbox_dead_letters_total.inc()
    metrics.operator_loss_nanos.inc(cost_nanos)


def _keep(path: Path, resolution: Resolution) -> OSError | None:
    """Write the file. On a full disk use the room that is kept for it, without the reply. Return the error if there is none."""
    error: OSError | None = gevent.get_hub().threadpool.apply(_write_error, (path, dumps(resolution)))
    if error and error.errno in reserve.FULL:
        if retention := resolution.reply_retention:
            resolution = replace(resolution, reply_retention=replace(retention, sealed_reply=None))
        write = partial(_write, path, dumps(replace(resolution, response=None)))
        error = gevent.get_hub().threadpool.apply(reserve.spend, (write,))
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


def put_back(completion_id: str, text: str) -> None:
    """Write a resolution in the format of ``dumps``, durably, to be settled again. Raises an OSError.

    A thread waits for the disk, as in ``store``: a failover may have lost thousands, and the process serves meanwhile.
    """
    path = settings.OUTBOX_DIR / f"{completion_id}.json"
    if error := gevent.get_hub().threadpool.apply(_write_error, (path, text)):
        raise error


def dumps(resolution: Resolution) -> str:
    """Return a resolution as one line of JSON."""
    retention = resolution.reply_retention
    record = {
        "version": VERSION,
        "completion": resolution.completion.id,
        "admission": structs.asdict(resolution.completion),  # read only if the database has forgotten it
        "served_by": list(resolution.served_by),
        "settlement": resolution.settlement,
        "usage": _written(resolution.usage) if resolution.usage else None,
        "cost_nanos": resolution.cost_nanos,
        "reply_retention": {"sealed_reply": retention.sealed_reply, "is_kept": retention.is_kept} if retention else None,
        "unpaid_nanos": resolution.unpaid_nanos,
        # A process of the former release reads neither.
        **({"idempotency_key": asdict(retention.key)} if retention and retention.key else {}),
        **({"response": asdict(resolution.response)} if resolution.response else {}),
    }
    return json.dumps(record, default=str)


def _written(usage: Usage) -> dict[str, Any]:
    """Return the usage. Without searches and others, a process of the former release can read it, too."""
    return {name: value for name, value in structs.asdict(usage).items() if value or name not in ("web_searches", "others")}


# --- Read --------------------------------------------------------------------------------------------------------


def waiting_files() -> list[Path]:
    """Return the files that wait, oldest completion first: ids sort by time."""
    return sorted(settings.OUTBOX_DIR.glob("*.json"))


def has_waiting() -> bool:
    return any(settings.OUTBOX_DIR.glob("*.json"))


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
    with cell.use(directory.find_again(_account_of(path))):
        return _load(path, _rows([path]))


def _rows(paths: Sequence[Path]) -> dict[str, Completion]:
    with pool.time_limit():
        return Completion.objects.in_bulk([path.stem for path in paths])


def _load(path: Path, rows: dict[str, Completion]) -> Resolution:
    if row := rows.get(path.stem):
        return _read(path, CompletionRecord.from_row(row))
    raise AdmissionLost(f"the database knows no such completion; it was to cost {_stated_cost_nanos(path)} nanodollars")


def _read(path: Path, completion: CompletionRecord) -> Resolution:
    try:
        record = json.loads(path.read_text())
        if (record["version"], record["completion"]) != (VERSION, path.stem):
            raise Unreadable(f"it is of version {record['version']}, for {record['completion']}")
        served_by = ServedBy(*record["served_by"])
        usage = Usage(**record["usage"]) if record["usage"] else None
        key = IdempotencyKey(**record["idempotency_key"]) if "idempotency_key" in record else None
        reply_retention = ReplyRetention(**record["reply_retention"], key=key) if record["reply_retention"] else None
        settlement, cost_nanos = Completion.Settlement(record["settlement"]), record["cost_nanos"]
        unpaid_nanos = record.get("unpaid_nanos", 0)  # files of earlier releases do not have it
        response = ResponseRecord(**record["response"]) if record.get("response") else None
        _require_whole_numbers(usage, cost_nanos, unpaid_nanos)
    except (ValueError, LookupError, TypeError) as error:
        raise Unreadable(f"{type(error).__name__}: {error}") from error
    return Resolution(completion, served_by, settlement, usage, cost_nanos, reply_retention, unpaid_nanos, response)


def _require_whole_numbers(usage: Usage | None, cost_nanos: Any, unpaid_nanos: Any) -> None:
    """A charge has a usage and a cost, a release has neither. Raises ValueError for anything else."""
    if type(unpaid_nanos) is not int or unpaid_nanos < 0:
        raise ValueError("unpaid_nanos is no whole number")
    if usage is None and cost_nanos is None:
        return
    numbers = [cost_nanos, *_numbers(usage)] if usage else [None]
    if not all(type(number) is int and number >= 0 for number in numbers):
        raise ValueError("usage and cost are no whole numbers")
    if usage and usage.tier not in ("", *meters.TIERS):
        raise ValueError("there is no such service tier")


def _numbers(usage: Usage) -> list[Any]:
    counts = structs.asdict(usage)
    return [*counts.pop("others").values(), *(value for name, value in counts.items() if name != "tier")]


# --- Drain -------------------------------------------------------------------------------------------------------


def drain(
    resolve_all: ResolveAll, progress: Callable[[str], None] = lambda line: None, *, waits_for_others: bool = False
) -> Counter[Outcome]:
    """Resolve every file that waits, many in a transaction, and count the outcomes.

    A file that cannot be resolved yet, or ever, does not hold up the others. Where another process drains the same
    directory, waits for a while and leaves the files to it, unless ``waits_for_others``. Raises the database's error when it is
    unavailable.
    """
    outcomes: Counter[Outcome] = Counter()
    if not has_waiting():
        return outcomes
    with file_lock.locked(settings.OUTBOX_DIR, math.inf if waits_for_others else _LOCK_SECONDS) as is_locked:
        if not is_locked:
            logger.warning("another process has drained the outbox for more than %s seconds", _LOCK_SECONDS)
            return Counter({Outcome.WAITING: len(waiting_files())})
        _drain_all(resolve_all, outcomes, progress)
    return outcomes


def _drain_all(resolve_all: ResolveAll, outcomes: Counter[Outcome], progress: Callable[[str], None]) -> None:
    """Drain the files of each cell. That one cell is unavailable holds up no other, and is raised at the end."""
    failures = []
    for number, paths in _by_cell(waiting_files()).items():
        with cell.use(number):
            try:
                _drain_cell(paths, resolve_all, outcomes, progress)
            except Exception as error:
                failures.append(error)
    if failures:
        raise failures[0]


def _by_cell(paths: list[Path]) -> dict[int, deque[Path]]:
    if not cell.are_several():
        return {cell.FIRST: deque(paths)}
    found: dict[int, deque[Path]] = {}
    places: dict[UUID, int] = {}
    for path in paths:
        account_id = _account_of(path)
        if account_id not in places:
            places[account_id] = directory.find_again(account_id)
        found.setdefault(places[account_id], deque()).append(path)
        gevent.sleep(0)  # there may be thousands
    return found


def _account_of(path: Path) -> UUID:
    """Return the id of a file's account; of a file that cannot be read, that of none: it is no better found anywhere else."""
    try:
        return UUID(json.loads(path.read_text())["admission"]["account_id"])
    except (OSError, ValueError, LookupError, TypeError):
        return UUID(int=0)


def _drain_cell(
    paths: deque[Path], resolve_all: ResolveAll, outcomes: Counter[Outcome], progress: Callable[[str], None]
) -> None:
    reported_ids = set[UUID]()
    number, files_max = len(paths), 1  # the first file finds out alone whether the database takes settlements
    while paths:
        outcomes.update(_drain_files(_take_batch(paths, files_max), resolve_all, reported_ids))
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


def drain_regularly(resolve_all: ResolveAll) -> None:
    """Drain every few seconds for the life of this worker: its own files, and those of processes that ended.

    Others announce what waits meanwhile, because to drain takes long if each file waits for a lock, and keep room on the disk.
    """
    reserve.keep()
    repeat = partial(repetition.repeat, logger=logger)
    repeat(reserve.keep, INTERVAL_SECONDS, failure="cannot keep room for the outbox")
    repeat(partial(drain, resolve_all), INTERVAL_SECONDS, failure="cannot drain the outbox yet")
    repeat(_announce, checkpoints.INTERVAL_SECONDS, failure="cannot announce what waits in the outbox")


def _announce() -> None:
    checkpoints.announce([path.stem for path in waiting_files()])


def _drain_files(paths: Sequence[Path], resolve_all: ResolveAll, reported_ids: set[UUID]) -> Iterator[Outcome]:
    """Resolve the files together. ``reported_ids`` are the accounts of which the log says that they cannot be settled yet."""
    rows, resolutions, forgotten = _rows(paths), dict[Path, Resolution](), dict[Path, Resolution]()
    for path in paths:
        try:
            if path.stem in rows:
                resolutions[path] = _load(path, rows)
            else:
                forgotten[path] = load_forgotten(path)
        except FileNotFoundError:
            yield Outcome.GONE
        except OSError as error:
            logger.error("cannot read %s: %s", path, error)
            yield Outcome.WAITING
        except Unreadable as error:
            yield _move_to_dead_letters(path, error)
    for (path, resolution), readmitted in zip(
        forgotten.items(), readmission.readmit_all(list(forgotten.values())), strict=True
    ):
        if isinstance(readmitted, Exception):
            yield _end_file(path, resolution, readmitted, reported_ids)
        else:
            resolutions[path] = replace(resolution, completion=readmitted)
    resolved = resolve_all(list(resolutions.values()))
    for (path, resolution), outcome in zip(resolutions.items(), resolved, strict=True):
        yield _end_file(path, resolution, outcome, reported_ids)


def _end_file(path: Path, resolution: Resolution, outcome: int | Exception | None, reported_ids: set[UUID]) -> Outcome:
    if isinstance(outcome, (Skipped, errors.TiedUp)):  # this account is locked, and the next one may not be
        _report_waiting(resolution, outcome, reported_ids)
        return Outcome.WAITING
    if isinstance(outcome, Exception):
        return _move_to_dead_letters(path, outcome)
    path.unlink(missing_ok=True)
    return Outcome.ALREADY_RESOLVED if outcome is None else Outcome.RESOLVED


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
