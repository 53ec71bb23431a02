"""Keeps the charges of the last minutes on disk, so that a failover to a standby loses none of them unseen.

A standby may lack the last commits of the primary that it replaces. With ``SETTLEMENT_JOURNAL_MINUTES`` each process appends
what it has committed to a file of its own for each minute, a ``record`` in a line. ``replay`` gives the outbox what the
database no longer has. Old files are deleted only while the database is the one that they were compared with: what was
charged in the minutes before a failover is there however long the failover takes.

A process does not wait for the disk: the journal outlives the database's host, not its own. A release is not recorded: the
sweeper releases a hold that is open again.
"""

import json
import logging
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from enum import Enum
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO

from django.conf import settings

from completions.charging.recovery import file_lock, outbox, record
from completions.charging.resolution import SWEPT, Resolution
from completions.models import Completion
from gateway_project import errors
from gateway_project.db import cell, everywhere, pool, repetition

logger = logging.getLogger("gateway.journal")

_SUFFIX = ".journal"
_INTERVAL_SECONDS = 5
_BATCH_LINES = 500  # for which the database is asked together


class Found(Enum):
    SETTLED = "still settled"
    LOST = "not settled any more"
    KEPT = "a dead letter already, or discarded"


_open: tuple[int, IO[str]] | None = None  # the minute of this process's latest file, and the file


def append(resolution: Resolution) -> None:
    """Write down a charge that is committed, where a journal is kept. Does not raise: its reply must not fail for it."""
    if resolution.reply_retention:  # a retry after a failover is told that the reply is not stored, and does not run
        resolution = replace(resolution, reply_retention=replace(resolution.reply_retention, sealed_reply=None))
    try:
        file = _file(int(time.time()) // 60)
        file.write(record.dumps(replace(resolution, response=None)) + "\n")
        file.flush()
    except OSError as error:
        facts = {"completion": resolution.completion.id}
        logger.error("%s is not in the journal: %s", resolution.completion.id, errors.reason(error), extra=facts)


def _file(minute: int) -> IO[str]:
    global _open
    if _open is None or _open[0] != minute or not Path(_open[1].name).exists():
        if _open is not None:
            _open[1].close()
        _directory().mkdir(mode=0o700, parents=True, exist_ok=True)
        path = _directory() / f"{minute}-{os.getpid()}{_SUFFIX}"
        _open = minute, open(path, "a", opener=lambda name, flags: os.open(name, flags, 0o600))  # noqa: SIM115
    return _open[1]


def _directory() -> Path:
    return Path(settings.OUTBOX_DIR, "journal")


def _files() -> list[Path]:
    return sorted(_directory().glob(f"*{_SUFFIX}"), key=_minute)


def _minute(path: Path) -> int:
    return int(path.name.partition("-")[0])


def replay(progress: Callable[[str], None] = lambda line: None) -> Counter[Found]:
    """Give the outbox each charge of this host's journal that the database no longer has. Count what was found. Safe to repeat.

    Waits for another process of this host that does the same: else it might give back what its dead letters have counted as
    lost.
    """
    if not _directory().exists():
        return Counter()
    with file_lock.locked(_directory(), math.inf):
        return _replay(progress)


def _replay(progress: Callable[[str], None]) -> Counter[Found]:
    found: Counter[Found] = Counter()
    every_line = _lines()
    while lines := list(islice(every_line, _BATCH_LINES)):
        charges = _charges(lines)
        settled: dict[str, str | None] = {}
        corrected_ids: set[str | None] = set()
        for settled_here, corrected_here in everywhere.run(partial(_find_settled, charges)):
            settled |= settled_here
            corrected_ids |= corrected_here
        for completion_id, (settlement, line) in charges.items():
            # The correction of a sweeper's estimate may be lost, and not the estimate.
            is_estimate_only = settled.get(completion_id) in SWEPT and completion_id not in corrected_ids
            is_settled = completion_id in settled and (settlement in SWEPT or not is_estimate_only)
            found[Found.SETTLED if is_settled else _give_back(completion_id, line)] += 1
        progress(f"{found.total()} charges read, {found[Found.LOST]} lost")
    if found[Found.LOST]:
        logger.error("the database has lost %s charges: they are given to the outbox again", found[Found.LOST])
    return found


def _find_settled(ids: Collection[str]) -> tuple[dict[str, str | None], set[str | None]]:
    """Return how those of the completions were settled that are in this cell, and of which the estimate was corrected."""
    with pool.time_limit():
        rows = Completion.objects.filter(pk__in=ids).exclude(settlement=None)
        corrections = Completion.objects.filter(repeats__in=ids, settlement=Completion.Settlement.CORRECTED)
        return dict(rows.values_list("pk", "settlement")), set(corrections.values_list("repeats", flat=True))


def _charges(lines: list[str]) -> dict[str, tuple[str, str]]:
    """Return how each completion was settled, and its line. A line that a full disk or a power failure damaged is left out."""
    charges = {}
    for line in lines:
        try:
            charge = json.loads(line)
            charges[charge["completion"]] = (charge["settlement"], line)
        except (ValueError, LookupError, TypeError) as error:
            logger.error("a line of the journal cannot be read, and its charge may be lost: %s", error)
    return charges


def _lines() -> Iterator[str]:
    for path in _files():
        with path.open(errors="replace") as file:
            yield from (line for line in file if line.endswith("\n"))  # the last one may be half written


def _give_back(completion_id: str, line: str) -> Found:
    if (settings.OUTBOX_DIR / f"{completion_id}.dead").exists() or _discarded(completion_id).exists():
        return Found.KEPT
    outbox.put_back(completion_id, line)
    return Found.LOST


def discard(completion_id: str) -> None:
    """Let no replay give this charge back: it would be counted as a loss again."""
    if _directory().exists():
        _discarded(completion_id).touch(mode=0o600)


def _discarded(completion_id: str) -> Path:
    return _directory() / f"{completion_id}.discarded"


def replay_regularly() -> None:
    """Look every few seconds whether the database is another one than before, for the life of this worker."""
    if settings.SETTLEMENT_JOURNAL_MINUTES:
        repetition.repeat(replay_after_failover, _INTERVAL_SECONDS, logger=logger, failure="cannot look for a failover")


def replay_after_failover() -> Counter[Found]:
    """Replay once for each start and each timeline of the database, and delete old files while it is the same.

    A standby begins a timeline when it is promoted. A server that starts may have older files, such as those of a snapshot.
    """
    if not settings.SETTLEMENT_JOURNAL_MINUTES or not _directory().exists():
        return Counter()
    database, noted = _database(), _directory() / "timeline"
    with file_lock.locked(_directory()) as is_locked:
        if not is_locked:
            return Counter()
        known = noted.read_text() if noted.exists() else ""
        if database == known:
            _delete_old(int(time.time()) // 60 - settings.SETTLEMENT_JOURNAL_MINUTES)
            return Counter()
        found = _replay(lambda line: None) if known else Counter[Found]()
        draft = noted.with_suffix(".draft")
        draft.write_text(database)
        draft.rename(noted)  # whole or not at all: an empty one would pass for that of a new host
    return found


def _delete_old(minute: int) -> None:
    for path in _files():
        if _minute(path) < minute:
            path.unlink(missing_ok=True)
    for path in _directory().glob("*.discarded"):
        if path.stat().st_mtime < minute * 60:
            path.unlink(missing_ok=True)


def _database() -> str:
    """Return what tells the database from what it was before: its timeline, when its server started, and when it last crashed.

    After a crash of one of its processes PostgreSQL recovers without a new start, and has reset its statistics.
    """
    with pool.time_limit():
        [facts] = cell.execute(
            "SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8), extract(epoch FROM pg_postmaster_start_time())::text,"
            " extract(epoch FROM stats_reset)::text FROM pg_stat_bgwriter"
        )
        return " ".join(facts)
