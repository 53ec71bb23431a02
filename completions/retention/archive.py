"""Moves the completions and holds of old UTC days to the archive, one day after the other, or drops them without one.

A day is due when it is older than ``RETENTION_DETAIL_DAYS``, the audit has signed it off, and nothing refers to its
completions: those that ended on it (``archived_days``). One transaction, which sees one moment, writes the rows to a file and
marks the day as written. Then small transactions delete the rows, which are written no longer. The next run continues one that
was interrupted: all rows are there until the mark is, and the file is complete from then on. One run locks the row of the day.
"""

import json
import logging
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from datetime import date, datetime, timedelta
from itertools import islice
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper

from billing.ledger import audit
from billing.models import ArchivedDay, AuditedDay
from completions.models import Completion
from completions.retention import files
from completions.retention.files import File
from gateway_project import identifiers
from gateway_project.db import cell, pool

logger = logging.getLogger("gateway.retention")

RESTORED_TIME = timedelta(days=7)  # then what was restored is deleted again
BATCH_ENTRIES = 5_000  # in one transaction
_RESTORED_AT_ONCE = 1_000
_RUN_SECONDS = 2_700  # of a task, which may take an hour
_DAY = timedelta(days=1)
_NEEDED = "%s is not archived yet: its usage is not summed up, or replies to its completions are stored."


def run(now: datetime, seconds: float = _RUN_SECONDS) -> int:
    """Archive the days that are due, until the time is over. Return how many are archived."""
    kept_days = settings.RETENTION_DETAIL_DAYS
    if kept_days is None:
        return 0
    oldest_kept, stop_at, archived = now.date() - timedelta(days=kept_days), time.monotonic() + seconds, 0
    while time.monotonic() < stop_at and (day := _next_due(now, oldest_kept)) is not None:
        if not _archive(day, now, stop_at):
            break
        archived += 1
    return archived


def reason_to_wait(now: datetime) -> str:
    """Return why no further day is archived, for an operator."""
    kept_days = settings.RETENTION_DETAIL_DAYS
    if kept_days is None:
        return "Details are kept for ever: GATEWAY_RETENTION_DETAIL_DAYS is not set."
    oldest_kept = now.date() - timedelta(days=kept_days)
    if not Completion.objects.filter(id__lt=identifiers.least_completion_id(oldest_kept)).exists():
        return f"No completion is older than {kept_days} days."
    if ArchivedDay.objects.filter(deleted_at=None).exists():
        return "What is older was restored within a week, or another run archives it."
    day = _next_signed()
    if day is None or day >= oldest_kept:
        return "The audit has signed off no further day: run_task billing.tasks.verify_ledger does."
    return _NEEDED % day if _is_needed(day) else "Another run has begun to archive it."


def _next_due(now: datetime, oldest_kept: date) -> date | None:
    """Return the first day whose rows are to be deleted; None without any."""
    unfinished = ArchivedDay.objects.filter(deleted_at=None).exclude(restored_at__gte=now - RESTORED_TIME).order_by("day")
    if (begun := unfinished.first()) is not None:
        return begun.day
    day = _next_signed()
    return None if day is None or day >= oldest_kept or _is_needed(day) else day


def _next_signed() -> date | None:
    """Return the first signed day after those that are archived; None without any."""
    last = ArchivedDay.objects.order_by("-day").values_list("day", flat=True).first()
    signed = AuditedDay.objects.filter(day__gt=last) if last else AuditedDay.objects.all()
    return signed.order_by("day").values_list("day", flat=True).first()


def _is_needed(day: date) -> bool:
    """Say whether some of the day is not summed up, or something refers to completions of it."""
    [(is_needed,)] = cell.execute(_IS_NEEDED, {"day": day, "until_id": identifiers.least_completion_id(day + _DAY)})
    if is_needed:
        logger.warning(_NEEDED, day)
    return bool(is_needed)


def _archive(day: date, now: datetime, stop_at: float) -> bool:
    """Write the day and delete its rows. Return whether it is done; if not, another run does it, or the next one."""
    ArchivedDay.objects.bulk_create([ArchivedDay(day=day)], ignore_conflicts=True)
    written = _write(day)
    if written is None:
        return False
    for file in written:
        files.verify(file)
    for statement, values in _deletions(day):
        while _delete_some(day, statement, values):
            if time.monotonic() > stop_at:
                return False
    if not ArchivedDay.objects.filter(day=day, restored_at=None).update(deleted_at=now):
        return False
    logger.info("archived %s", day)
    return True


def _write(day: date) -> list[File] | None:
    """Write the rows of the day to its file, unless they are. Return the files; None while another run writes them."""
    with audit.snapshot(), connection.cursor() as cursor:  # which sees one moment
        archived = ArchivedDay.objects.select_for_update(skip_locked=True).filter(day=day).first()
        if archived is None:
            return None
        if archived.written_at is not None:
            archived.restored_at = None  # its time is over
            archived.save()
            return [File(**each) for each in archived.files]
        cursor.execute(_COUNT, _bounds(day))
        archived.completions, archived.holds = cursor.fetchone()
        if archived.completions != archived.holds:
            raise files.Damaged(f"{day} has {archived.completions} completions and {archived.holds} holds: verify the ledger.")
        written = [files.write(day, _lines(cursor, day))] if settings.ARCHIVE_DIR else []
        if any(file.rows != archived.completions for file in written):
            raise files.Damaged(f"{day}: {written[0].rows} completions were written, and there are {archived.completions}.")
        archived.files, archived.written_at = [asdict(file) for file in written], pool.database_time()
        archived.save()
        return written


def _lines(cursor: CursorWrapper, day: date) -> Iterator[str]:
    bounds = {name: f"'{value.isoformat()}'::date" for name, value in _bounds(day).items()}  # COPY takes no parameters
    with cursor.copy(f"COPY ({_ROWS % bounds}) TO STDOUT") as copy:
        copy.set_types(["text"])
        for (line,) in copy.rows():
            yield line


def _bounds(day: date) -> dict[str, date]:
    return {"day": day, "until": day + _DAY}


def _deletions(day: date) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield statements that delete the rows of the day, with their values. Run each until it deletes nothing."""
    for batch in _batches(cell.execute(f"{_SPANS} ORDER BY account_id", {"day": day})):
        account_ids, after, until = zip(*batch, strict=True)
        yield _DELETE_BOOKED, {"accounts": list(account_ids), "after": list(after), "until": list(until)}
    yield _DELETE_FAILED, {**_bounds(day), "most": BATCH_ENTRIES}


def _batches(spans: Iterable[tuple[Any, ...]]) -> Iterator[list[tuple[UUID, int, int]]]:
    """Yield the spans of accounts in parts of BATCH_ENTRIES together."""
    batch, entries = list[tuple[UUID, int, int]](), 0
    for account_id, after_seq, last_seq in spans:
        for seq in range(after_seq, last_seq, BATCH_ENTRIES):
            until = min(seq + BATCH_ENTRIES, last_seq)
            if entries + until - seq > BATCH_ENTRIES:
                yield batch
                batch, entries = [], 0
            batch.append((account_id, seq, until))
            entries += until - seq
    if batch:
        yield batch


def _delete_some(day: date, statement: str, values: dict[str, Any]) -> int:
    """Delete some rows, if no other run restores them. Return how many."""
    with transaction.atomic():
        archived = ArchivedDay.objects.select_for_update().get(pk=day)
        if archived.written_at is None or archived.restored_at is not None:
            return 0
        [(deleted,)] = cell.execute(statement, values)
        return int(deleted)


def restore(day: date, now: datetime) -> int:
    """Insert the rows of an archived day again, for RESTORED_TIME. Return how many completions the file has."""
    with transaction.atomic():  # first, so that a run does not delete them meanwhile
        archived = ArchivedDay.objects.select_for_update().get(pk=day)
        archived.restored_at, archived.deleted_at = now, None
        archived.save()
    restored = 0
    for file in (File(**each) for each in archived.files):
        files.verify(file)
        lines = files.read(file)
        while batch := list(islice(lines, _RESTORED_AT_ONCE)):
            cell.execute(_INSERT, [json.dumps(batch)])
            restored += len(batch)
    return restored


# The range of ``seq`` that each account booked on the day: after ``after_seq``, up to ``last_seq``. The audit signed it off.
_SPANS = """
    SELECT account_id, coalesce((
        SELECT last_seq FROM billing_auditedledger AS earlier
        WHERE earlier.account_id = ledger.account_id AND earlier.day < ledger.day ORDER BY day DESC LIMIT 1
    ), 0) AS after_seq, last_seq
    FROM billing_auditedledger AS ledger WHERE day = %(day)s
"""
_FAILED = """
    SELECT reference FROM billing_account AS account JOIN LATERAL (
        SELECT reference FROM billing_hold WHERE account_id = account.id AND state IN ('RELEASED', 'EXPIRED')
            AND resolved_at >= %(day)s::timestamp AT TIME ZONE 'UTC' AND resolved_at < %(until)s::timestamp AT TIME ZONE 'UTC'
    ) AS failed ON true
"""
_ENDED = f"""
    SELECT reference FROM ({_SPANS}) AS span JOIN LATERAL (
        SELECT reference FROM billing_ledgerentry
        WHERE account_id = span.account_id AND seq > after_seq AND seq <= last_seq AND type = 'USAGE_DEBIT'
    ) AS entry ON true
    UNION ALL {_FAILED}
"""  # noqa: S608  constants of this module
_ROWS = f"""
    SELECT jsonb_build_object('completion', to_jsonb(completion), 'hold', to_jsonb(hold))::text
    FROM ({_ENDED}) AS ended JOIN billing_hold AS hold USING (reference)
    JOIN completions_completion AS completion ON completion.id = reference ORDER BY reference
"""  # noqa: S608  constants of this module
_COUNT = f"""
    SELECT count(completion.id), count(hold.reference) FROM ({_ENDED}) AS ended
    LEFT JOIN billing_hold AS hold USING (reference)
    LEFT JOIN completions_completion AS completion ON completion.id = ended.reference
"""  # noqa: S608  constants of this module
_IS_NEEDED = """
    SELECT EXISTS (SELECT FROM completions_idempotentrequest WHERE completion_id < %(until_id)s)
        OR EXISTS (SELECT FROM completions_storedresponse WHERE completion_id < %(until_id)s)
        OR EXISTS (
            SELECT FROM billing_auditedledger AS ledger LEFT JOIN completions_usagemark AS mark USING (account_id)
            WHERE day = %(day)s AND coalesce(mark.last_seq, 0) < ledger.last_seq
                AND EXISTS (SELECT FROM billing_account WHERE id = ledger.account_id) -- it has not moved to another cell
        )
"""


def _delete(references: str) -> str:
    return f"""
    WITH ended AS MATERIALIZED ({references}),
    holds AS (
        DELETE FROM billing_hold WHERE reference = ANY(ARRAY(SELECT reference FROM ended)) AND state <> 'HELD' RETURNING 1
    ),
    completions AS (
        DELETE FROM completions_completion WHERE id = ANY(ARRAY(SELECT reference FROM ended)) RETURNING 1
    )
    SELECT (SELECT count(*) FROM holds) + (SELECT count(*) FROM completions)
    """  # noqa: S608  constants of this module


_DELETE_BOOKED = _delete(
    """
    SELECT reference FROM unnest(%(accounts)s::uuid[], %(after)s::bigint[], %(until)s::bigint[])
        AS span (account_id, after_seq, until_seq)
    JOIN LATERAL (
        SELECT reference FROM billing_ledgerentry
        WHERE account_id = span.account_id AND seq > after_seq AND seq <= until_seq AND type = 'USAGE_DEBIT'
    ) AS entry ON true
    """
)
_DELETE_FAILED = _delete(f"{_FAILED} LIMIT %(most)s")
_INSERT = """
    WITH lines AS MATERIALIZED (SELECT jsonb_array_elements(%s::jsonb) AS line),
    holds AS (
        INSERT INTO billing_hold SELECT hold.* FROM lines, jsonb_populate_record(NULL::billing_hold, line -> 'hold') AS hold
        ON CONFLICT DO NOTHING
    )
    INSERT INTO completions_completion SELECT completion.* FROM lines, jsonb_populate_record(
        NULL::completions_completion, '{"provider_held_nanos": 0}' || (line -> 'completion')) AS completion
    ON CONFLICT DO NOTHING
"""
