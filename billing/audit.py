"""Questions to the whole book that must return no rows. Tests, the nightly task and ``verify_ledger`` ask the same ones.

An app with something to ask has a module ``audit`` with its QUESTIONS; ``questions`` collects them from the installed apps,
so that billing asks about keys and completions without having heard of them.

A question is about every account at once and reads each table once: on millions of rows it costs scans, not round trips.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from importlib import import_module
from typing import Any
from uuid import UUID

from django.apps import apps
from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper
from django.utils.module_loading import module_has_submodule

ROWS_SHOWN_MAX = 100  # of each violation: enough to see what happened, whatever happened


class Kind(StrEnum):
    UNTRUE = "untrue"  # the rows contradict each other
    OVERDUE = "overdue"  # the rows agree, but work that should have been done was not
    UNGUARDED = "unguarded"  # the rows agree, but nothing would stop the next ones from disagreeing


# What questions select from, by name: the tables, or one account's part of them.
BOOK = {
    "account": "SELECT * FROM billing_account WHERE %(account)s::uuid IS NULL OR id = %(account)s::uuid",
    "entry": "SELECT * FROM billing_ledgerentry WHERE %(account)s::uuid IS NULL OR account_id = %(account)s::uuid",
    "hold": "SELECT * FROM billing_hold WHERE %(account)s::uuid IS NULL OR account_id = %(account)s::uuid",
}


@dataclass(frozen=True)
class Question:
    """An invariant as a sentence, and the SQL that finds the rows that break it. A literal % in it is doubled."""

    name: str
    invariant: str
    sql: str
    kind: Kind = Kind.UNTRUE
    tables: dict[str, str] = field(default_factory=lambda: BOOK)


@dataclass(frozen=True)
class Violation:
    """A question that found ``count`` rows; the first ROWS_SHOWN_MAX of them, by column name."""

    question: Question
    count: int
    rows: list[dict[str, Any]]

    def __str__(self) -> str:
        return f"{self.question.kind}: {self.question.name}: {self.count} rows against: {self.question.invariant}"


def verify(account_id: UUID | None = None, progress: Callable[[str], object] = lambda line: None) -> list[Violation]:
    """Ask every question, of one account or of all. An empty list means that the book is true.

    Everything is asked of one moment, in a read-only REPEATABLE READ transaction; inside a transaction of the caller's, it
    is asked of what that transaction sees. Guards belong to the whole book: asking about one account skips them.
    """
    asked = questions(account_id)
    violations = []
    with _snapshot() as cursor:
        for number, question in enumerate(asked, start=1):
            progress(f"{number}/{len(asked)} {question.name}")
            violations += _ask(cursor, question, account_id)
    return violations


def questions(account_id: UUID | None = None) -> list[Question]:
    """What there is to ask of the whole book, or of one account: of every installed app, in the order of the apps."""
    found: list[Question] = []
    for app in apps.get_app_configs():
        if module_has_submodule(app.module, "audit"):
            found += getattr(import_module(f"{app.name}.audit"), "QUESTIONS", [])
    return [each for each in found if account_id is None or each.kind != Kind.UNGUARDED]


@contextmanager
def _snapshot() -> Iterator[CursorWrapper]:
    is_ours = not connection.in_atomic_block
    with transaction.atomic(), connection.cursor() as cursor:
        if is_ours:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        cursor.execute("SET TRANSACTION READ ONLY")
        yield cursor


def _ask(cursor: CursorWrapper, question: Question, account_id: UUID | None) -> list[Violation]:
    tables = ", ".join(f"{name} AS NOT MATERIALIZED ({sql})" for name, sql in question.tables.items())
    findings = f"SELECT count(*) OVER () AS findings, finding.* FROM ({question.sql}) AS finding"  # noqa: S608  all ours
    cursor.execute(f"WITH {tables} {findings} LIMIT %(rows)s", {"account": account_id, "rows": ROWS_SHOWN_MAX})
    _, *columns = [column.name for column in cursor.description or ()]
    rows = cursor.fetchall()
    if not rows:
        return []
    named = [dict(zip(columns, map(_plain, row[1:]), strict=True)) for row in rows]
    return [Violation(question, rows[0][0], named)]


def _plain(value: Any) -> Any:
    # PostgreSQL's sums of bigint are numeric: whole numbers that Python sees as Decimal.
    return int(value) if isinstance(value, Decimal) else value


# --- The book ----------------------------------------------------------------------------------------------------

SEQ_HAS_NO_GAPS = Question(
    "seq_has_no_gaps",
    "The entries of an account are numbered 1, 2, 3 ... without gaps.",
    """
    SELECT account_id, id AS entry_id, seq, place FROM (
        SELECT account_id, id, seq, row_number() OVER (PARTITION BY account_id ORDER BY seq) AS place FROM entry
    ) AS placed WHERE seq <> place
    """,
)

BALANCES_CHAIN = Question(
    "balances_chain",
    "The balance after an entry is the balance after the one before it, plus the entry's amount.",
    """
    SELECT account_id, id AS entry_id, seq, balance_before_nanos, amount_nanos, balance_after_nanos FROM (
        SELECT *, lag(balance_after_nanos, 1, 0::bigint) OVER (PARTITION BY account_id ORDER BY seq) AS balance_before_nanos
        FROM entry
    ) AS followed WHERE balance_after_nanos::numeric <> balance_before_nanos::numeric + amount_nanos
    """,
)

ACCOUNTS_SAY_WHAT_THEIR_LAST_ENTRY_SAYS = Question(
    "accounts_say_what_their_last_entry_says",
    "An account's balance and last seq are those of its last entry; without entries, both are zero.",
    """
    SELECT account.id AS account_id, balance_nanos, last_seq, last.balance_after_nanos, last.seq
    FROM account LEFT JOIN LATERAL (
        SELECT seq, balance_after_nanos FROM billing_ledgerentry WHERE account_id = account.id ORDER BY seq DESC LIMIT 1
    ) AS last ON true
    WHERE balance_nanos <> coalesce(last.balance_after_nanos, 0) OR last_seq <> coalesce(last.seq, 0)
    """,
)

ENTRIES_SUM_TO_THE_BALANCE = Question(
    "entries_sum_to_the_balance",
    "The amounts of an account's entries sum to its balance.",
    """
    SELECT account.id AS account_id, balance_nanos, coalesce(sum_nanos, 0) AS sum_nanos
    FROM account LEFT JOIN (SELECT account_id, sum(amount_nanos) AS sum_nanos FROM entry GROUP BY account_id) AS sums
        ON sums.account_id = account.id
    WHERE balance_nanos <> coalesce(sum_nanos, 0)
    """,
)

CREDITS_ADD_AND_DEBITS_TAKE = Question(
    "credits_add_and_debits_take",
    "Credits are positive, refunds negative, usage is never positive, and there is no other type.",
    """
    SELECT account_id, id AS entry_id, type, amount_nanos FROM entry WHERE NOT (
        type IN ('CREDIT_PURCHASE', 'SUPPORT_CREDIT') AND amount_nanos > 0
        OR type = 'REFUND_DEBIT' AND amount_nanos < 0
        OR type = 'USAGE_DEBIT' AND amount_nanos <= 0
    )
    """,
)

# Across accounts: a reference that two accounts have booked is booked twice, whichever of them one asks about.
A_REFERENCE_IS_BOOKED_ONCE = Question(
    "a_reference_is_booked_once",
    "No two entries have the same reference.",
    """
    SELECT reference, count(*) AS entries FROM billing_ledgerentry GROUP BY reference
    HAVING count(*) > 1 AND (%(account)s::uuid IS NULL OR bool_or(account_id = %(account)s::uuid))
    """,
)

USAGE_SAYS_WHAT_WAS_USED = Question(
    "usage_says_what_was_used",
    "A usage entry names its model and its tokens, and the tokens of prompt and completion add up to them.",
    """
    SELECT account_id, id AS entry_id, reference FROM entry WHERE type = 'USAGE_DEBIT' AND NOT coalesce(
        jsonb_typeof(metadata -> 'model') = 'string' AND jsonb_typeof(metadata -> 'tokens') = 'number'
        AND (metadata ->> 'tokens')::numeric
            = (metadata ->> 'promptTokens')::numeric + (metadata ->> 'completionTokens')::numeric
        AND metadata ->> 'completionId' = reference, false)
    """,
)

# --- The holds ---------------------------------------------------------------------------------------------------

OPEN_HOLDS_SUM_TO_WHAT_IS_HELD = Question(
    "open_holds_sum_to_what_is_held",
    "What an account holds is the sum of its open holds.",
    """
    SELECT account.id AS account_id, held_nanos, coalesce(sum_nanos, 0) AS sum_nanos
    FROM account LEFT JOIN (
        SELECT account_id, sum(amount_nanos) AS sum_nanos FROM hold WHERE state = 'HELD' GROUP BY account_id
    ) AS sums ON sums.account_id = account.id
    WHERE held_nanos <> coalesce(sum_nanos, 0)
    """,
)

NO_MORE_IS_SETTLED_THAN_WAS_HELD = Question(
    "no_more_is_settled_than_was_held",
    "Holds and what is settled of them are not negative, and no more is settled than was held.",
    """
    SELECT account_id, reference, amount_nanos, settled_nanos FROM hold
    WHERE amount_nanos < 0 OR settled_nanos < 0 OR settled_nanos > amount_nanos
    """,
)

HOLDS_ARE_IN_ONE_STATE = Question(
    "holds_are_in_one_state",
    "A hold is open, or was resolved at some time: then only a settled one says what it cost.",
    """
    SELECT account_id, reference, state, settled_nanos, resolved_at FROM hold
    WHERE state NOT IN ('HELD', 'SETTLED', 'RELEASED', 'EXPIRED')
        OR (state = 'HELD') <> (resolved_at IS NULL)
        OR (state = 'SETTLED') <> (settled_nanos IS NOT NULL)
    """,
)

SETTLED_HOLDS_ARE_DEBITED = Question(
    "settled_holds_are_debited",
    "A settled hold has one USAGE_DEBIT under its reference, of exactly what was settled.",
    """
    SELECT hold.account_id, hold.reference, hold.settled_nanos, debit.amount_nanos
    FROM hold LEFT JOIN (SELECT * FROM entry WHERE type = 'USAGE_DEBIT') AS debit
        ON debit.reference = hold.reference AND debit.account_id = hold.account_id
    WHERE hold.state = 'SETTLED' AND debit.amount_nanos IS DISTINCT FROM -hold.settled_nanos
    """,
)

DEBITS_WERE_HELD = Question(
    "debits_were_held",
    "A USAGE_DEBIT has a settled hold under its reference: usage is never charged without having been admitted.",
    """
    SELECT entry.account_id, entry.id AS entry_id, entry.reference, entry.amount_nanos, hold.state
    FROM entry LEFT JOIN hold ON hold.reference = entry.reference AND hold.account_id = entry.account_id
    WHERE entry.type = 'USAGE_DEBIT' AND hold.state IS DISTINCT FROM 'SETTLED'
    """,
)

# Expired holds are released every minute; a quarter of an hour later somebody should ask why they are not.
HOLDS_DO_NOT_OUTLIVE_THEIR_EXPIRY = Question(
    "holds_do_not_outlive_their_expiry",
    "No hold is still open a quarter of an hour after it expired.",
    """
    SELECT account_id, reference, amount_nanos, expires_at FROM hold
    WHERE state = 'HELD' AND expires_at < statement_timestamp() - interval '15 minutes'
    """,
    kind=Kind.OVERDUE,
)

# --- The guards --------------------------------------------------------------------------------------------------

TRIGGERS_STAND_GUARD = Question(
    "triggers_stand_guard",
    "The triggers that keep the book exist, call what they should, and are enabled.",
    """
    SELECT expected.*, CASE tgenabled WHEN 'D' THEN 'disabled' WHEN 'R' THEN 'for replicas only' ELSE 'missing' END AS state
    FROM (VALUES
        ('billing_ledgerentry', 'entries_are_never_changed', 'billing_refuse_change'),
        ('billing_ledgerentry', 'entries_are_never_truncated', 'billing_refuse_change'),
        ('billing_ledgerentry', 'entries_follow_each_other', 'billing_check_chain'),
        ('billing_ledgerentry', 'entries_agree_with_their_account', 'billing_check_balance'),
        ('billing_account', 'accounts_agree_with_their_book', 'billing_check_balance'),
        ('billing_hold', 'holds_resolve_once', 'billing_check_hold')
    ) AS expected (table_name, trigger_name, function_name)
    LEFT JOIN (pg_trigger JOIN pg_proc ON pg_proc.oid = tgfoid)
        ON tgrelid = to_regclass(table_name) AND tgname = trigger_name AND proname = function_name
    WHERE tgenabled IS NULL OR tgenabled NOT IN ('O', 'A')
    """,
    kind=Kind.UNGUARDED,
)

QUESTIONS = [
    SEQ_HAS_NO_GAPS,
    BALANCES_CHAIN,
    ACCOUNTS_SAY_WHAT_THEIR_LAST_ENTRY_SAYS,
    ENTRIES_SUM_TO_THE_BALANCE,
    CREDITS_ADD_AND_DEBITS_TAKE,
    A_REFERENCE_IS_BOOKED_ONCE,
    USAGE_SAYS_WHAT_WAS_USED,
    OPEN_HOLDS_SUM_TO_WHAT_IS_HELD,
    NO_MORE_IS_SETTLED_THAN_WAS_HELD,
    HOLDS_ARE_IN_ONE_STATE,
    SETTLED_HOLDS_ARE_DEBITED,
    DEBITS_WERE_HELD,
    HOLDS_DO_NOT_OUTLIVE_THEIR_EXPIRY,
    TRIGGERS_STAND_GUARD,
]
