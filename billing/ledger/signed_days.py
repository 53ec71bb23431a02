"""The nightly audit: it reads what was booked since the last signed day, and signs off the days that have ended.

A signed day has the last ``seq`` of each account that booked on it, the balance then, and a digest of the entries. The next
audit begins after that ``seq``. A time could miss an entry, because a transaction may commit late. A seq misses none: the
account is locked from the moment when an entry gets its seq until the commit.

The audit checks in three ways that signed entries are unchanged:

- It reads the last signed entry of each account, which must say the same.
- It asks PostgreSQL's statistics whether entries were updated or deleted since. If so, it checks everything.
- It reads some signed days again each night. Each day has its turn within ``AUDIT_REPEAT_DAYS``. This finds what was changed by
  someone who disabled the triggers and reset the statistics; ``verify_ledger``, which checks everything, finds it at once.
"""

import logging
from datetime import UTC, date, datetime, timedelta

from django.conf import settings
from django.db.backends.utils import CursorWrapper

from billing.ledger import audit
from billing.ledger.audit import Scope, Violation
from billing.models import AuditedDay
from gateway_project.db import cell

logger = logging.getLogger("gateway.audit")

_SETTLED_AFTER = timedelta(hours=2)  # a day is signed off when what began on it has ended
_DAY = timedelta(days=1)

# Of some entries in the order of their seq: numbers and words as PostgreSQL writes a row, whatever the time zone.
PART_DIGEST = """sha256(string_agg(sha256(convert_to(ROW(
    id, seq, type, amount_nanos, balance_after_nanos, reference, metadata, spender, issued_by_id, extract(epoch FROM created_at)
)::text, 'UTF8')), ''::bytea ORDER BY seq))"""
PART = "seq / 10000"  # how many make a part, so that no value is too large for PostgreSQL, however much an account books
DIGEST = "encode(sha256(string_agg(part_digest, ''::bytea ORDER BY part)), 'hex')"
# Of the day ``new``: of the digests of its accounts, and of the day before.
SEAL = """encode(sha256(convert_to(
    coalesce((SELECT digest FROM billing_auditedday WHERE day < new.day ORDER BY day DESC LIMIT 1), '')
    || coalesce((
        SELECT string_agg(concat_ws(' ', account_id, last_seq, balance_nanos, digest), ',' ORDER BY account_id)
        FROM billing_auditedledger WHERE day = new.day
    ), ''), 'UTF8')), 'hex')"""


def verify(now: datetime) -> list[Violation]:
    """Check what was booked since the last signed day, sign off the days that have ended, and read some again.

    Without violations, each step is committed, so a later run continues. Returns each invariant once.
    """
    found = _verify_since_signed((now - _SETTLED_AFTER).astimezone(UTC).date())
    number = -(-AuditedDay.objects.count() // settings.AUDIT_REPEAT_DAYS) if settings.AUDIT_REPEAT_DAYS else 0
    for day in list(AuditedDay.objects.order_by("checked_at", "day").values_list("day", flat=True)[:number]):
        found += _verify_again(day)
    by_name: dict[str, Violation] = {}
    for violation in found:
        by_name.setdefault(violation.invariant.name, violation)
    return list(by_name.values())


def _verify_since_signed(today: date) -> list[Violation]:
    """Check what is not signed, or everything, at one moment; and sign off the days before today."""
    with audit.snapshot() as cursor:
        cursor.execute(_LAST_SIGNED)
        last, rows_changed, rows_changed_before = cursor.fetchone()
        if last is None:
            return _sign_if_consistent(cursor, audit.check(cursor, Scope()), None, today, rows_changed)
        if rows_changed > rows_changed_before:
            logger.warning("PostgreSQL counts %d changed entries: checking everything", rows_changed - rows_changed_before)
            violations = audit.check(cursor, Scope())
        else:
            violations = [*audit.check(cursor, Scope(), is_few=True), *audit.check(cursor, Scope(since=last + _DAY))]
        return _sign_if_consistent(cursor, violations, last, today, rows_changed)


def _sign_if_consistent(
    cursor: CursorWrapper, violations: list[Violation], last: date | None, today: date, rows_changed: int
) -> list[Violation]:
    if not any(violation.invariant.kind == audit.ViolationKind.UNTRUE for violation in violations):
        _sign(cursor, last, today, rows_changed)
    return violations


def _sign(cursor: CursorWrapper, last: date | None, today: date, rows_changed: int) -> None:
    """Sign off the days after ``last`` and before ``today``: of the whole ledger, from its first entry on."""
    if last is None:
        cursor.execute("SELECT coalesce(min((created_at AT TIME ZONE 'UTC')::date), %s) FROM billing_ledgerentry", [today])
        last = cursor.fetchone()[0] - _DAY
    since, values = last + _DAY, {"since": last + _DAY, "until": today}
    if since < today:
        cursor.execute(_SIGN_LEDGERS, values)
    for number in range((today - since).days):
        day = since + number * _DAY
        cursor.execute(_SEAL, [day])
        seal = cursor.fetchone()[0]
        cursor.execute(_INSERT_DAY, [day, seal, rows_changed])
    cursor.execute(
        "UPDATE billing_auditedday SET rows_changed = %s WHERE day = (SELECT max(day) FROM billing_auditedday)", [rows_changed]
    )
    cursor.execute(_NOTE_LAST, {"cell": cell.current()})


def _verify_again(day: date) -> list[Violation]:
    with audit.snapshot() as cursor:
        violations = audit.check(cursor, Scope(since=day, until=day + _DAY))
        if not violations:
            cursor.execute("UPDATE billing_auditedday SET checked_at = statement_timestamp() WHERE day = %s", [day])
    for violation in violations:
        logger.error("signed day %s: %s", day, violation)
    return violations


_NOTE_LAST = """
    INSERT INTO cells_signedday (cell, day, digest)
    SELECT %(cell)s, day, digest FROM billing_auditedday ORDER BY day DESC LIMIT 1
    ON CONFLICT (cell) DO UPDATE SET day = EXCLUDED.day, digest = EXCLUDED.digest
"""
_LAST_SIGNED = """
    SELECT day, n_tup_upd + n_tup_del, rows_changed FROM pg_stat_all_tables
    LEFT JOIN (SELECT day, rows_changed FROM billing_auditedday ORDER BY day DESC LIMIT 1) AS last ON true
    WHERE relid = 'billing_ledgerentry'::regclass
"""
_LAST_OF_ACCOUNT = """
    SELECT last_seq, debited_nanos FROM billing_auditedledger WHERE account_id = account.id ORDER BY day DESC LIMIT 1
"""
# An entry that was committed after its day was signed off belongs to the next one.
_SIGN_LEDGERS = f"""
    INSERT INTO billing_auditedledger (account_id, day, last_seq, last_at, balance_nanos, debited_nanos, digest)
    SELECT days.account_id, day, days.last_seq, last.created_at, last.balance_after_nanos,
        coalesce(signed.debited_nanos, 0) + sum(days.debited_nanos) OVER (PARTITION BY days.account_id ORDER BY day), digest
    FROM (
        SELECT account_id, day, max(last_seq) AS last_seq, sum(debited_nanos) AS debited_nanos, {DIGEST} AS digest
        FROM (
            SELECT account_id, greatest((created_at AT TIME ZONE 'UTC')::date, %(since)s) AS day, {PART} AS part,
                max(seq) AS last_seq, coalesce(-sum(amount_nanos) FILTER (WHERE type = 'USAGE_DEBIT'), 0) AS debited_nanos,
                {PART_DIGEST} AS part_digest
            FROM (
                SELECT entry.* FROM billing_account AS account LEFT JOIN LATERAL ({_LAST_OF_ACCOUNT}) AS signed ON true
                JOIN LATERAL (
                    SELECT * FROM billing_ledgerentry WHERE account_id = account.id AND seq > coalesce(signed.last_seq, 0)
                    OFFSET 0 -- as in ``audit``: each account by the index
                ) AS entry ON true
            ) AS entry
            WHERE created_at < %(until)s::timestamp AT TIME ZONE 'UTC' GROUP BY account_id, day, part
        ) AS parts GROUP BY account_id, day
    ) AS days
    JOIN billing_ledgerentry AS last ON last.account_id = days.account_id AND last.seq = days.last_seq
    JOIN billing_account AS account ON account.id = days.account_id
    LEFT JOIN LATERAL ({_LAST_OF_ACCOUNT}) AS signed ON true
"""  # noqa: S608  constants of this code
# Two statements: Citus makes a wrong one of an INSERT that selects this.
_SEAL = f"SELECT {SEAL} FROM (SELECT %s::date AS day) AS new"  # noqa: S608  a constant of this code
_INSERT_DAY = "INSERT INTO billing_auditedday (day, digest, rows_changed) VALUES (%s, %s, %s)"
