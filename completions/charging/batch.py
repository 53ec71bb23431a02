"""Commits admissions and settlements in batches. Only this moves money for usage.

Concurrent operations share a transaction (``gateway_project.db.group_commit``), which takes two round trips:

1. ``_lock_and_read`` locks the rows in the order that all writers keep (accounts, keys, holds, completions, each by id), and
   reads what the keys spent and which idempotency keys are stored.
2. Settlements are applied first: the money that they free is available to the admissions of the same batch, which follow in the
   order of their arrival. To apply an operation changes the model instances of its rows, so that the next one sees it, and adds
   to ``LockedRows.writes``. One that is refused changes nothing.
3. All writes go out with the commit, one statement for each kind of row. A settlement that is alone waits for the disk in its
   commit. That keeps the rows locked, so those of others wait afterwards (``gateway_project.db.durability``), and admissions
   not at all.

A batch does not wait for a row that another transaction has locked: it skips the operations of that account. If the row is
locked still, they have batches of their own, on another connection, which wait. A batch does wait for a table. When that took
too long once, everything is refused at once, as by a database that takes no writes, until a probe can lock all tables.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime, timedelta
from functools import partial
from operator import attrgetter
from typing import Any, TypeVar
from uuid import UUID

import msgspec
from django.db.transaction import atomic, set_rollback

from billing import locks as account_locks
from billing.accounts import unpaid_work
from billing.ledger import holds, movements, writer
from billing.ledger.movements import NewAlert, NewEntry, NewHold
from billing.models import Account, AccountAlert, Hold, LedgerEntry
from completions.charging import idempotency, own_keys, records, stored_responses
from completions.charging.idempotency import IdempotencyKey, StoredRequest
from completions.charging.own_keys import OfAccounts
from completions.charging.records import CompletionRecord, ModelOfKey
from completions.charging.stored_responses import ResponseRecord
from completions.models import Completion, IdempotentRequest, StoredResponse
from gateway_project import errors
from gateway_project.cells import directory
from gateway_project.db import cell, durability, pipelined_transaction, pool
from gateway_project.db.group_commit import GroupCommit, Skipped, StaysLocked, Unavailable
from gateway_project.db.pipelined_transaction import PipelinedConnection, PipelinedTransaction, Statement
from keys import locks as key_locks
from keys.budgets import counts, monthly, runs
from keys.budgets.counts import BudgetChange
from keys.budgets.monthly import MonthState
from keys.budgets.runs import RunPlace, RunState
from keys.limits import limit_marks, limit_state_cache, rate_limits, refusal_cache, spending
from keys.limits.spending import SpendingChange, SpendingWindow
from keys.models import ApiKey, BudgetMonth, Run, SpendingDay

logger = logging.getLogger("gateway.batch")

Result = TypeVar("Result")


class AdmissionLost(Exception):
    """The database does not know the hold to settle: a crash forgot its admission, which had not waited for the disk."""


class Operation:
    """An admission or a settlement, which a batch commits. It needs the rows of its account and its key locked."""

    __slots__ = ()

    # Read a dozen times for each completion: so they are read in C.
    completion_id: Any = property(attrgetter("completion.id"))
    account_id: Any = property(attrgetter("completion.account_id"))
    key_id: Any = property(attrgetter("completion.key_id"))
    run_name: Any = property(attrgetter("completion.run"))

    def in_its_cell(self) -> AbstractContextManager[None]:
        """Make the cell where the account is now the current one for a block."""
        return cell.use(directory.find_again(self.account_id))

    def has_moved(self) -> bool:
        """Return whether the account, which was not found in the current cell, is in another one."""
        return directory.has_moved(self.account_id, cell.current())

    def lacks(self, rows: "LockedRows") -> bool:
        """Return whether a row that it needs locked is not among these."""
        return self.account_id not in rows.accounts or self.key_id not in rows.keys

    def apply(self, rows: "LockedRows") -> Any:
        """Change the rows, add writes, and return the outcome. Or change nothing, and raise ApiError or AdmissionLost."""
        raise NotImplementedError


class Admission(Operation):
    """Begins a completion with a hold. A crash of the database may forget it."""

    __slots__ = ()

    @property
    def idempotency_key(self) -> IdempotencyKey | None:
        return None

    @property
    def limited_model_id(self) -> str | None:
        """The model asked for, if there is a maximum of requests for it in flight."""
        return None


class Ending(Operation):
    """Ends a completion. Its hold is locked, too, and it is on disk when its caller continues."""

    __slots__ = ()
    completion: CompletionRecord

    def lacks(self, rows: "LockedRows") -> bool:
        return self.account_id not in rows.accounts or self.key_id not in rows.keys or self.completion_id not in rows.holds


class PendingWrites(msgspec.Struct):
    rate_limits_updated: dict[str, ApiKey] = {}
    unpaid_work_updated: dict[UUID, Account] = {}
    spending_settled: list[SpendingChange] = []
    spending_reserved: list[SpendingChange] = []
    holds_resolved: list[Hold] = []
    holds_placed: list[NewHold] = []
    entries_inserted: list[NewEntry] = []
    manual_entries_inserted: list[NewEntry] = []  # of these, those of which a record says who booked them
    budgets_changed: list[BudgetChange] = []
    key_marks_passed: list[dict[str, Any]] = []
    alerts_inserted: list[NewAlert] = []
    completions_ended: list[tuple[Any, ...]] = []
    completions_begun: list[CompletionRecord] = []
    replies_stored: list[tuple[str, str | None]] = []  # completion id and sealed reply
    replies_evicted: dict[UUID, int] = {}  # by account: how many bytes must be free
    idempotency_keys_deleted: list[str] = []  # by completion id
    idempotency_keys_expired: list[str] = []  # likewise: those that have no reply stay
    runs_followed: list[tuple[str, str]] = []  # ids of a completion and of that to which its idempotency key leads now
    idempotency_keys_inserted: list[tuple[CompletionRecord, IdempotencyKey]] = []
    responses_stored: list[tuple[str, UUID, datetime, ResponseRecord]] = []  # completion and account id, and until when
    responses_evicted: set[UUID] = set()  # ids of accounts that may have too many bytes

    def statements(self) -> list[Statement]:
        builders: list[tuple[Callable[[Any], Statement], Collection[Any]]] = [
            (unpaid_work.update_unpaid_work_statement, self.unpaid_work_updated.values()),
            (writer.insert_manual_entries_statement, self.manual_entries_inserted),
            (partial(Statement, limit_marks.TELL_KEYS), self.key_marks_passed),
            (movements.insert_alerts_statement, self.alerts_inserted),
            (records.update_completions_statement, self.completions_ended),
            (records.insert_completions_statement, self.completions_begun),
            (idempotency.store_replies_statement, self.replies_stored),
            (idempotency.evict_replies_statement, self.replies_evicted),
            (idempotency.delete_keys_statement, self.idempotency_keys_deleted),
            (partial(idempotency.delete_keys_statement, with_reply=True), self.idempotency_keys_expired),
            (idempotency.follow_runs_statement, self.runs_followed),
            (idempotency.insert_keys_statement, self.idempotency_keys_inserted),
            (stored_responses.store_responses_statement, self.responses_stored),
            (stored_responses.evict_responses_statement, self.responses_evicted),
        ]
        moved = self.holds_resolved or self.holds_placed or self.entries_inserted
        return [
            *rate_limits.update_rate_limits_statements(self.rate_limits_updated.values()),
            *spending.change_spending_statements(self.spending_settled, self.spending_reserved),
            *(counts.statements(self.budgets_changed) if self.budgets_changed else []),
            *([movements.write_statement(self.holds_resolved, self.holds_placed, self.entries_inserted)] if moved else []),
            *[build(rows) for build, rows in builders if rows],
        ]


class LockedRows(msgspec.Struct):
    """The rows that a batch has locked, by id, with the time of the locks and the writes decided so far."""

    now: datetime  # the database's, read after all locks were granted
    accounts: dict[UUID, Account]
    keys: dict[str, ApiKey]
    windows: dict[str, SpendingWindow | None]  # by key id; None for a key without a limit
    holds: dict[str, Hold] = {}  # those of settlements; in a rerun also those of admissions
    completions: dict[str, Completion] = {}  # in a rerun only: what the first run committed, though the answer was lost
    idempotency_keys: dict[tuple[UUID, str], StoredRequest] = {}
    running: dict[tuple[str, str], int] = {}  # by key id and model id, of models with a maximum: completions with open holds
    own_keys: OfAccounts = {}
    runs: dict[RunPlace, RunState] = {}  # those that admissions name
    months: dict[UUID, list[MonthState]] = {}  # by account id: its monthly budgets, if there are admissions
    writes: PendingWrites = msgspec.field(default_factory=PendingWrites)

    def store_idempotency_key(self, completion: CompletionRecord, key: IdempotencyKey) -> None:
        """Let the key lead to a completion that begins now, also for the next operation. It replaces an expired one."""
        place = completion.account_id, key.value
        if replaced := self.idempotency_keys.get(place):  # ``insert_keys_statement`` writes the same
            self.accounts[completion.account_id].stored_reply_bytes -= replaced.reply_bytes
        self.writes.idempotency_keys_inserted.append((completion, key))
        self.idempotency_keys[place] = StoredRequest(
            fingerprint=key.fingerprint,
            completion_id=completion.id,
            is_stream=completion.is_stream,
            expires_at=self.now + idempotency.RETENTION,
            last_sign_at=self.now,
        )

    def begin(self, completion: CompletionRecord, amount_nanos: int, lifetime: timedelta, *, is_bounded: bool = False) -> None:
        """Place the completion's hold, to expire after ``lifetime``. Raises like ``holds.place``, having changed nothing."""
        account, key = self.accounts[completion.account_id], self.keys[completion.key_id]
        holds.place(account, amount_nanos, is_bounded=is_bounded)
        provider_nanos = completion.provider_held_nanos
        if window := self.windows.get(key.id):
            window.held_nanos += amount_nanos + provider_nanos
        key.open_holds = (key.open_holds or 0) + 1
        asked = (key.id, completion.model_id)
        self.running[asked] = self.running.get(asked, 0) + 1
        held = SpendingChange(key.id, completion.spending_day, amount_nanos, provider_held_nanos=provider_nanos)
        self.writes.spending_reserved.append(held)
        self.writes.holds_placed.append(
            NewHold(completion.id, account.id, amount_nanos, expires_at=completion.created_at + lifetime)
        )
        self.writes.completions_begun.append(completion)
        if completion.run or completion.budgets:
            self.count_on_budgets(completion, held_nanos=amount_nanos + provider_nanos, requests=0 if is_bounded else 1)

    def count_on_budgets(
        self, completion: CompletionRecord, *, held_nanos: int, spent_nanos: int = 0, requests: int = 0
    ) -> None:
        """Change what is held and spent of the completion's run and monthly budgets, also for the next operation."""
        run = self.run_of(completion)
        months = self.months.get(completion.account_id, []) if completion.budgets else []
        changed = [each for each in months if each.id in (completion.budgets or ()) and each.month <= completion.spending_day]
        for allowance in [run, *changed] if run else changed:
            allowance.held_nanos += held_nanos
            allowance.spent_nanos += spent_nanos
        budgets = (completion.key_id, completion.run, completion.run_budget_nanos, completion.budgets, completion.spending_day)
        change = BudgetChange(*budgets, held_nanos, spent_nanos, requests, completion.run_deadline)
        self.writes.budgets_changed.append(change)

    def within_run(self, completion: CompletionRecord, amount_nanos: int) -> tuple[CompletionRecord, int]:
        if completion.run:  # it was not asked: take no more than it has left (had, if it was forgotten), first the charge
            forgotten = RunState(completion.run_budget_nanos or 0, 0, 0, completion.run, True, completion.run_deadline)
            run = self.runs.setdefault((completion.key_id, completion.run), forgotten)
            amount_nanos = min(amount_nanos, run.available_nanos)
            provider_nanos = min(completion.provider_held_nanos, run.available_nanos - amount_nanos)
            completion = msgspec.structs.replace(completion, provider_held_nanos=provider_nanos)
        return completion, amount_nanos

    def run_of(self, completion: CompletionRecord) -> RunState | None:
        """Return the run of a completion that an admission names; None also if a crash forgot it."""
        return self.runs.get((completion.key_id, completion.run)) if completion.run else None


def commit(operation: Operation) -> Any:
    """Wait until the operation's batch is committed, in the cell where its account is by then. Return the outcome.

    Raises the operation's ApiError or AdmissionLost, or the database's errors.
    """
    number = cell.FIRST
    if cell.added:
        number = directory.cell_of(operation.account_id)
        pool.release_connection()
    try:
        return _commit_in(number, operation)
    except (errors.InvalidApiKey, AdmissionLost):
        if not directory.has_moved(operation.account_id, number):
            raise
        pool.release_connection()  # others need it while this waits for its batch
        return commit(operation)


def commit_here(operation: Operation) -> Any:
    return _commit_in(cell.current(), operation)


def _commit_in(number: int, operation: Operation) -> Any:
    outcome = _committers[number].group_commit.submit(operation)
    if not isinstance(outcome, _NotOnDisk):
        if durability.wanted:
            durability.open_session()
        return outcome
    if outcome.session is None and durability.open_session():
        return _commit_in(number, operation)  # it found itself resolved: once more, so that a flush proves what it finds
    durability.wait_until_durable(outcome.session)
    return outcome.outcome


def commit_together(operations: Sequence[Operation]) -> list[Any]:
    """Commit operations in a batch of their own, in the current cell, durably, without waiting for locked rows.

    Return for each its outcome, the exception that it raised, or Skipped. Raises the database's errors.
    """
    durability.open_session()
    committer = _committers[cell.current()]
    outcomes = committer.on_account_connection(
        lambda connection: _run_on(connection, list(operations), is_rerun=False, skips_locked=True, commit_waits=True)
    )
    if unproved := [outcome for outcome in outcomes if isinstance(outcome, _NotOnDisk)]:
        durability.wait_until_durable(unproved[0].session)  # that of all
    return [outcome.outcome if isinstance(outcome, _NotOnDisk) else outcome for outcome in outcomes]


@contextmanager
def rolled_back(admission: Admission) -> Iterator[LockedRows]:
    """Lock and read the rows of an admission, as a batch does, for a block that applies it. Then roll back."""
    with directory.within(admission.account_id), pool.time_limit(), atomic():
        transaction = pipelined_transaction.within_django()
        yield _lock_and_read(transaction, [admission], is_rerun=False, skips_locked=False)
        set_rollback(True)


def read(admission: Admission) -> LockedRows:
    """Read the rows of an admission without locks, for one that is not committed. Raises the database's errors."""
    transaction = pipelined_transaction.within_django()
    now, (accounts, keys, sums, running, found_runs) = pool.read(
        lambda: transaction.read(
            pipelined_transaction.select_rows_statement(Account, [admission.account_id]),
            pipelined_transaction.select_rows_statement(ApiKey, [admission.key_id]),
            spending.select_spending_statement([admission.key_id]),
            records.select_running_statement(_limited_models([admission])),
            runs.select_runs_statement([(admission.key_id, admission.run_name)]) if admission.run_name else None,
        )
    )
    accounts_by_id = pipelined_transaction.instances(Account, accounts)
    budgeted = list(filter(_has_budgets, accounts_by_id.values()))  # in C: most accounts have none
    keys_by_id, open_holds = pipelined_transaction.instances(ApiKey, keys), spending.build_open_holds(sums)
    for key in keys_by_id.values():
        key.open_holds = open_holds[key.id]
    return LockedRows(
        now=now,
        accounts=accounts_by_id,
        keys=keys_by_id,
        windows=spending.build_windows(keys_by_id.values(), sums),
        running=records.build_running(running),
        own_keys=own_keys.of_accounts(
            accounts_by_id.values(), lambda statement: pool.read(lambda: pipelined_transaction.execute(statement))
        ),
        runs=runs.build_runs(found_runs),
        months=pool.read(lambda: _read_months(transaction, budgeted, now)) if budgeted else {},
    )


def _read_months(
    transaction: PipelinedTransaction, accounts: Collection[Account], now: datetime
) -> dict[UUID, list[MonthState]]:
    ids, month = [account.pk for account in accounts], now.date().replace(day=1)
    return monthly.build_months(transaction.read_more(monthly.select_months_statement(ids, month)), month)


def _limited_models(admissions: Sequence[Admission]) -> list[ModelOfKey]:
    return [ModelOfKey(each.account_id, each.key_id, each.limited_model_id) for each in admissions if each.limited_model_id]


def require_ready() -> None:
    """Commit nothing, on the way that admissions take. Raises the database's errors if it cannot be reached or written to."""
    commit_here(_ReadinessProbe())


class _ReadinessProbe(Admission):
    """Needs no rows and changes none. To lock rows, even none, a transaction must be able to write."""

    completion_id = key_id = ""
    account_id, run_name = UUID(int=0), None

    def lacks(self, rows: LockedRows) -> bool:
        return False

    def apply(self, rows: LockedRows) -> None:
        return None


class _NotOnDisk(msgspec.Struct):
    """The outcome of a settlement that a crash of the database may forget yet. See ``durability.session``."""

    outcome: Any
    session: int | None


class _Committer:
    def __init__(self, number: int) -> None:
        self._number = number
        self._connection = PipelinedConnection(number)
        # Those that no batch uses. No more are opened than accounts are isolated, one to drain the outbox, and one to probe.
        self._account_connections: list[PipelinedConnection] = []
        # An admission that is committed after its caller stopped waiting has no owner: its hold expires, like that of a dead
        # process.
        self.group_commit: GroupCommit[Operation, Any] = GroupCommit(
            self._run_batch, run_isolated=self._run_account, probe=self._probe, partition=attrgetter("account_id")
        )

    def _run_batch(self, operations: list[Operation], is_rerun: bool) -> list[Any]:
        """Apply and commit the operations, without waiting for locked rows. Return their outcomes, in order.

        ``is_rerun``: the answer to the first run's COMMIT was lost. The rows of that run are read and left as they are.
        """
        is_alone = len(operations) == 1 and not self.group_commit.has_waiting
        try:
            return _run_on(self._connection, operations, is_rerun, skips_locked=True, commit_waits=is_alone)
        except pool.DATABASE_ERRORS as error:
            self._require_available(error)
            raise

    def _run_account(self, operations: list[Operation], is_rerun: bool) -> list[Any]:
        try:
            return self.on_account_connection(
                lambda connection: _run_on(connection, operations, is_rerun, skips_locked=False, commit_waits=False)
            )
        except pool.DATABASE_ERRORS as error:
            self._require_available(error)
            if not pool.is_lock_timeout(error):
                raise
            account_id = str(operations[0].account_id)
            facts = {"account": account_id}
            reason = errors.reason(error)
            logger.error("account %s, or a key of it, is locked by another session: %s", account_id, reason, extra=facts)
            raise StaysLocked from error

    def _require_available(self, error: Exception) -> None:
        """Raises Unavailable if the error of a batch would be that of any other: a table is locked, or nothing is writable."""
        if not (pool.is_lock_timeout(error) or pool.is_read_only(error)):
            return
        try:
            self._probe()
        except pool.DATABASE_ERRORS as cause:
            logger.error("nothing can be charged, and what would be is refused until it can: %s", errors.reason(cause))
            raise Unavailable from cause

    def _probe(self) -> None:
        """Lock the tables that batches write, without waiting, and roll back. Raises the database's errors."""
        no_rows = account_locks.lock_accounts_statement([])  # only a transaction that may write locks even none
        self.on_account_connection(
            lambda connection: connection.run(lambda transaction: transaction.read(_LOCK_TABLES, no_rows), is_durable=False)
        )

    def on_account_connection(self, run: Callable[[PipelinedConnection], Result]) -> Result:
        try:
            connection = self._account_connections.pop()
        except IndexError:
            connection = PipelinedConnection(self._number)
        try:
            return run(connection)
        finally:
            self._account_connections.append(connection)


def _run_on(
    connection: PipelinedConnection, operations: list[Operation], is_rerun: bool, *, skips_locked: bool, commit_waits: bool
) -> list[Any]:
    """Apply and commit the operations. ``commit_waits``: for the disk, if there are settlements."""
    settlements = [place for place, operation in enumerate(operations) if isinstance(operation, Ending)]
    admissions = [place for place, operation in enumerate(operations) if isinstance(operation, Admission)]
    session = durability.session() if settlements else None
    is_durable = bool(settlements) and (commit_waits or session is None)
    if is_durable and not commit_waits:
        durability.wanted.add("session")

    def apply_all(transaction: PipelinedTransaction) -> tuple[LockedRows, dict[int, Any], bool]:
        rows = _lock_and_read(transaction, operations, is_rerun, skips_locked)
        # An account of which a row was not found has a batch of its own, which waits, and finds out whether the row exists.
        locked_ids = {each.account_id for each in operations if each.lacks(rows)} if skips_locked else set()
        outcomes = {place: _apply(operations[place], rows, locked_ids) for place in settlements + admissions}
        if statements := rows.writes.statements():
            transaction.write(statements)
        return rows, outcomes, bool(statements)

    rows, outcomes, is_written = connection.run(apply_all, is_durable=is_durable)
    for key in rows.keys.values():
        if account := rows.accounts.get(vars(key)["account_id"]):  # Django looks up the attribute of a foreign key in Python
            limit_state_cache.store(key, account, rows.now)
    for place in settlements:
        refusal_cache.process_cache.forget_held(operations[place].key_id)
    if not (is_durable and is_written):  # what was found resolved may not be on disk either
        decided = [place for place in settlements if not isinstance(outcomes[place], Exception)]
        outcomes |= {place: _NotOnDisk(outcomes[place], session) for place in decided}
    return [outcomes[place] for place in range(len(operations))]


def _apply(operation: Operation, rows: LockedRows, locked_ids: set[UUID]) -> Any:
    if locked_ids and operation.account_id in locked_ids:
        return Skipped()
    try:
        return operation.apply(rows)
    except (errors.ApiError, AdmissionLost) as refusal:  # the other operations of the batch are committed all the same
        return refusal


def _lock_and_read(
    transaction: PipelinedTransaction, operations: Sequence[Operation], is_rerun: bool, skips_locked: bool
) -> LockedRows:
    admissions = [each for each in operations if isinstance(each, Admission)]
    settlements = [each for each in operations if isinstance(each, Ending)]
    key_ids = {each.key_id for each in operations}
    # The key of a settlement probably has a limit still if it had one at the admission.
    once_limited_ids = {each.key_id for each in settlements if each.completion.limit_nanos is not None}
    spending_ids = key_ids if admissions else once_limited_ids
    hold_ids = [each.completion_id for each in (operations if is_rerun else settlements)]
    idempotency_keys = [(each.account_id, each.idempotency_key) for each in admissions if each.idempotency_key]
    limited_models = _limited_models(admissions)
    named_runs = [(each.key_id, each.run_name) for each in admissions if each.run_name]
    now, (accounts, keys, sums, found_holds, completions, stored, running, found_runs) = transaction.read(
        account_locks.lock_accounts_statement({each.account_id for each in operations}, skips_locked=skips_locked),
        key_locks.lock_keys_statement(key_ids, skips_locked=skips_locked),
        spending.select_spending_statement(spending_ids) if spending_ids else None,
        account_locks.lock_holds_statement(hold_ids, skips_locked=skips_locked) if hold_ids else None,
        pipelined_transaction.lock_rows_statement(Completion, hold_ids, skips_locked=skips_locked) if is_rerun else None,
        idempotency.select_keys_statement(idempotency_keys) if idempotency_keys else None,
        records.select_running_statement(limited_models) if limited_models else None,
        runs.select_runs_statement(named_runs) if named_runs else None,
    )
    accounts_by_id = pipelined_transaction.instances(Account, accounts)
    budgeted = list(filter(_has_budgets, accounts_by_id.values()))  # in C: most accounts have none
    keys_by_id = pipelined_transaction.instances(ApiKey, keys)
    limited_ids = {key.id for key in keys_by_id.values() if key.spending_limit_cents is not None}
    if unread_ids := limited_ids - spending_ids:  # they were given a limit while what is settled now was running
        sums += transaction.read_more(spending.select_spending_statement(unread_ids))
    open_holds = spending.build_open_holds(sums)
    for key in keys_by_id.values():
        if key.id in open_holds:
            key.open_holds = open_holds[key.id]
        elif last_read := limit_state_cache.in_flight(key.id):  # settlements need no count, but headers do
            key.open_holds = last_read.of_key
    return LockedRows(
        now=now,
        accounts=accounts_by_id,
        keys=keys_by_id,
        windows=spending.build_windows(keys_by_id.values(), sums),
        own_keys=own_keys.of_accounts(accounts_by_id.values(), transaction.read_more) if admissions else {},
        holds=pipelined_transaction.instances(Hold, found_holds) if found_holds else {},
        completions=pipelined_transaction.instances(Completion, completions) if completions else {},
        idempotency_keys=idempotency.build_stored(stored) if stored else {},
        running=records.build_running(running) if running else {},
        runs=runs.build_runs(found_runs) if found_runs else {},
        months=_read_months(transaction, budgeted, now) if budgeted and admissions else {},
    )


_TABLES = (
    Account,
    ApiKey,
    SpendingDay,
    Run,
    BudgetMonth,
    Hold,
    LedgerEntry,
    AccountAlert,
    Completion,
    IdempotentRequest,
    StoredResponse,
)
_LOCK_TABLES = Statement(f"LOCK TABLE {', '.join(model._meta.db_table for model in _TABLES)} IN ROW EXCLUSIVE MODE NOWAIT")
_has_budgets = attrgetter("has_budgets")
_committers = cell.ByCell(_Committer)
