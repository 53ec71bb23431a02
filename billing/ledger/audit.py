"""Invariants, and the check that finds violations. Tests, the nightly task and ``verify_ledger`` use it.

Each app names its own in the method ``audit`` of its ``apps.py``. One query checks one for all accounts. First the violating
rows are counted, in parallel and in one scan for all that share a query. They are read only where the count is not zero. A
check of some days reads only what was booked on them, from the apps' ``day_tables``.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from enum import StrEnum
from itertools import chain
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper

from billing.ledger import archived_days
from gateway_project import app_config, identifiers
from gateway_project.db import cell

ROWS_SHOWN_MAX = 100  # of each violation: enough to see what happened
# Whatever ends on a day was admitted on it, or before: at most so long, or else it is looked for by its id.
_LONGEST_TIME = timedelta(hours=6)


class ViolationKind(StrEnum):
    """The meaning of a violation of an invariant."""

    UNTRUE = "untrue"  # the rows contradict each other
    OVERDUE = "overdue"  # the rows agree, but work is late
    UNGUARDED = "unguarded"  # the rows agree, but a constraint or trigger that keeps them so is missing


class Reach(StrEnum):
    """How much an invariant must read."""

    FEW = "few"  # rows that stay few, or one for each account, or key and day: the nightly audit reads all of them
    OPEN = "open"  # what was booked since the last signed day, until now
    DAYS = "days"  # what was booked on some days, whichever


@dataclass(frozen=True)
class Scope:
    """The checked part: everything, one account, or some days of all accounts: from ``since`` until before ``until``."""

    account_id: UUID | None = None
    since: date | None = None
    until: date | None = None

    @property
    def is_whole(self) -> bool:
        return self.since is None

    def covers(self, invariant: "Invariant") -> bool:
        """Whether the invariant is checked. Constraints and triggers belong to all accounts."""
        if self.is_whole:
            return self.account_id is None or invariant.kind != ViolationKind.UNGUARDED
        return invariant.reach == Reach.DAYS or invariant.reach == Reach.OPEN and self.until is None

    def values(self, kept: archived_days.Kept) -> dict[str, Any]:
        """Return the parameters of the SQL. A day whose details are archived is checked by its ledger alone."""
        since, until = self.since or date.min, self.until or date.max
        details_since = max(since, kept.details_since)
        return {
            "account": self.account_id,
            "cell": cell.current(),
            "since": since,
            "until": until,
            "details_since": details_since,
            "usage_since": max(since, kept.usage_since),
            "labels_since": max(details_since, kept.usage_since),
            "provided_since": max(details_since, kept.provided_since),
            "kept_since": kept.details_since,
            "kept_id": identifiers.least_completion_id(kept.details_since),
            "since_id": identifiers.least_completion_id(since, earlier=_LONGEST_TIME),
            "until_id": identifiers.least_completion_id(until),
            "late_ids": [],
        }


# The tables that invariants select from, by name; restricted to one account if the check is. Other apps add theirs.
LEDGER_TABLES = {
    "account": "SELECT * FROM billing_account WHERE %(account)s::uuid IS NULL OR id = %(account)s::uuid",
    "span": """SELECT NULL::uuid AS account_id, NULL::bigint AS after_seq, NULL::timestamptz AS last_at,
        NULL::bigint AS balance_nanos, NULL::numeric AS debited_nanos WHERE false""",
    "entry": "SELECT * FROM billing_ledgerentry WHERE %(account)s::uuid IS NULL OR account_id = %(account)s::uuid",
    "booked": "SELECT * FROM entry WHERE type = 'USAGE_DEBIT'",
    "hold": "SELECT * FROM billing_hold WHERE %(account)s::uuid IS NULL OR account_id = %(account)s::uuid",
    "archived": archived_days.ARCHIVED,
    "late": "SELECT * FROM billing_ledgerentry WHERE false",
}
# Tables of a check of days that are read once for all of its questions.
_READ_ONCE = ("span", "entry", "late", "debit")


@dataclass(frozen=True)
class Invariant:
    """An invariant as a sentence, and the SQL that selects violating rows, each % doubled. ``shared``: see ``SharedQuery``."""

    name: str
    sentence: str
    sql: str
    kind: ViolationKind = ViolationKind.UNTRUE
    shared: "SharedQuery | None" = None
    breaks: str = "true"
    reach: Reach = Reach.FEW


@dataclass(frozen=True, eq=False)
class SharedQuery:
    """A query that several invariants check, scanned once for all of them."""

    sql: str
    reach: Reach = Reach.FEW

    def invariant(self, name: str, sentence: str, *, shows: str, breaks: str) -> Invariant:
        """Make an invariant of these rows: ``breaks`` is the condition of a violation, ``shows`` the columns to report."""
        sql = f"SELECT {shows} FROM ({self.sql}) AS shared WHERE {breaks}"  # noqa: S608  constants of this code
        return Invariant(name, sentence, sql, shared=self, breaks=breaks, reach=self.reach)


@dataclass(frozen=True)
class Violation:
    """An invariant that ``count`` rows violate, and the first ROWS_SHOWN_MAX of them as dictionaries."""

    invariant: Invariant
    count: int
    rows: list[dict[str, Any]]

    def __str__(self) -> str:
        return f"{self.invariant.kind}: {self.invariant.name}: {self.count} rows against: {self.invariant.sentence}"


def verify(account_id: UUID | None = None, progress: Callable[[str], object] = lambda line: None) -> list[Violation]:
    """Check every invariant for one account or for all. All queries see one moment, or what the caller's transaction sees."""
    with snapshot() as cursor:
        cursor.execute("SET TRANSACTION READ ONLY")
        return check(cursor, Scope(account_id), progress)


def check(
    cursor: CursorWrapper, scope: Scope, progress: Callable[[str], object] = lambda line: None, *, is_few: bool = False
) -> list[Violation]:
    """Check the invariants that the scope covers, or only those whose rows stay few, in the caller's transaction."""
    checked = [each for each in _covered(scope) if each.reach == Reach.FEW or not is_few]
    return _Check(cursor, scope).run(checked, progress)


def invariants(account_id: UUID | None = None) -> list[Invariant]:
    """Return the invariants of the installed apps, in their order."""
    return _covered(Scope(account_id))


def _covered(scope: Scope) -> list[Invariant]:
    return [each for app in app_config.installed() for each in app.audit().invariants if scope.covers(each)]


@contextmanager
def snapshot() -> Iterator[CursorWrapper]:
    """Let all queries of a transaction see one moment."""
    is_ours = not connection.in_atomic_block
    with transaction.atomic(), connection.cursor() as cursor:
        if is_ours:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        yield cursor


class _Check:
    def __init__(self, cursor: CursorWrapper, scope: Scope) -> None:
        self._cursor = cursor
        self._replaced: dict[str, str] = {}  # tables, by name: what a check of days selects from instead
        self._values = scope.values(archived_days.read_kept(cursor))
        if not scope.is_whole:
            for app in app_config.installed():
                self._replaced |= app.audit().day_tables
            late_ids = " UNION ALL ".join(chain.from_iterable(app.audit().late_ids for app in app_config.installed()))
            self._select(f"DISTINCT reference FROM ({late_ids}) AS late")
            self._values["late_ids"] = [reference for (reference,) in cursor.fetchall()]

    def run(self, checked: list[Invariant], progress: Callable[[str], object]) -> list[Violation]:
        counts: dict[str, int] = {}
        violations = []
        for number, invariant in enumerate(checked, start=1):
            progress(f"{number}/{len(checked)} {invariant.name}")
            if invariant.name not in counts:
                counts |= self._count(checked if self._replaced else _sharing_query_with(invariant, checked))
            if counts[invariant.name]:
                violations.append(Violation(invariant, counts[invariant.name], self._rows(invariant)))
        return violations

    def _count(self, invariants: list[Invariant]) -> dict[str, int]:
        """Return the number of violating rows by name. One statement: what was booked on days is looked up once for all."""
        groups = list({id(each.shared or each): _sharing_query_with(each, invariants) for each in invariants}.values())
        counted = [f"{number}, {_counts_sql(group)}" for number, group in enumerate(groups)]
        self._select(" UNION ALL SELECT ".join(counted))
        found: dict[str, int] = {}
        for number, counts in self._cursor.fetchall():
            found |= zip((invariant.name for invariant in groups[number]), counts, strict=True)
        return found

    def _rows(self, invariant: Invariant) -> list[dict[str, Any]]:
        self._select(f"* FROM ({invariant.sql}) AS violating LIMIT {ROWS_SHOWN_MAX}")
        columns = [column.name for column in self._cursor.description or ()]
        # PostgreSQL's sums of bigint are numeric; psycopg returns these whole numbers as Decimal.
        rows = [[int(each) if isinstance(each, Decimal) else each for each in row] for row in self._cursor.fetchall()]
        return [dict(zip(columns, row, strict=True)) for row in rows]

    def _select(self, selected: str) -> None:
        self._cursor.execute(_select_sql(selected, self._replaced), self._values)


def _counts_sql(invariants: list[Invariant]) -> str:
    """Return SQL that selects an array of their counts. Either they share one query, or there is one invariant."""
    source = invariants[0].shared.sql if invariants[0].shared else invariants[0].sql
    counts = ", ".join(f"count(*) FILTER (WHERE {invariant.breaks})" for invariant in invariants)
    return f"ARRAY[{counts}] FROM ({source}) AS shared"


def _select_sql(selected: str, replaced: Mapping[str, str] = {}) -> str:
    """Return SQL that selects from the tables of all apps. The database does nothing for those that are not named."""
    tables: dict[str, str] = {}
    for app in app_config.installed():
        tables |= app.audit().tables
    read_once = _READ_ONCE if replaced else ()
    how = {name: "MATERIALIZED" if name in read_once else "NOT MATERIALIZED" for name in tables}
    named = ", ".join(f"{name} AS {how[name]} ({replaced.get(name, sql)})" for name, sql in tables.items())
    return f"WITH {named} SELECT {selected}"


def _sharing_query_with(invariant: Invariant, checked: list[Invariant]) -> list[Invariant]:
    if invariant.shared is None:
        return [invariant]
    return [each for each in checked if each.shared is invariant.shared]


def dollars_sql(nanos: str) -> str:
    """Return SQL for what ``dollars.format_plain`` makes of an amount of nanodollars that is not negative."""
    fraction = f"lpad(({nanos} %% 1000000000)::text, 9, '0')"
    return f"({nanos} / 1000000000)::text || '.' || left({fraction}, 2) || rtrim(substr({fraction}, 3), '0')"


def guarding(name: str, sentence: str, triggers: str) -> Invariant:
    """Return the invariant that these triggers, VALUES of table, trigger and function, exist and are enabled."""
    return Invariant(
        name,
        sentence,
        f"""
        SELECT expected.*, CASE tgenabled WHEN 'D' THEN 'disabled' WHEN 'R' THEN 'for replicas only' ELSE 'missing' END AS state
        FROM (VALUES {triggers}) AS expected (table_name, trigger_name, function_name)
        LEFT JOIN (pg_trigger JOIN pg_proc ON pg_proc.oid = tgfoid)
            ON tgrelid = to_regclass(table_name) AND tgname = trigger_name AND proname = function_name
        WHERE tgenabled IS NULL OR tgenabled NOT IN ('O', 'A')""",  # noqa: S608  constants of this code
        kind=ViolationKind.UNGUARDED,
    )
