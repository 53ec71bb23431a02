"""The one door: who comes in and who goes out share a transaction. Nothing else moves money for usage.

A batch is read, decided and written in two round trips. Those who leave are decided first, because what they give back the
next may take. What is decided is kept true on the rows, for the next to see, and noted, to be written at the end: so an
operation that is refused has changed nothing.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol
from uuid import UUID

from billing import holds, ledger
from billing import locks as account_locks
from billing.holds import NewHold
from billing.ledger import NewEntry
from billing.models import Account, Hold
from completions.charging import idempotency, records
from completions.charging.idempotency import IdempotencyKey
from completions.charging.records import CompletionOutcome, CompletionRecord
from completions.models import Completion, IdempotentRequest
from gateway_project import errors
from gateway_project.db import pipelined_transaction
from gateway_project.db.group_commit import GroupCommit
from gateway_project.db.pipelined_transaction import PipelinedTransaction, Statement
from keys import locks as key_locks
from keys import rate_limit_cache, rate_limits, refusal_cache, spending
from keys.models import ApiKey
from keys.spending import SpendingChange, SpendingWindow


class Operation(Protocol):
    """Who comes to the door, with the ids of the rows that it must find there."""

    is_settlement: bool  # so it has a hold, and what it decides must survive a crash of the database

    @property
    def completion_id(self) -> str: ...
    @property
    def account_id(self) -> UUID: ...
    @property
    def key_id(self) -> str: ...
    @property
    def idempotency_key(self) -> IdempotencyKey | None: ...

    def decide(self, rows: "LockedRows") -> Any:
        """The outcome, noted on the rows. Raises ApiError, having noted nothing."""


@dataclass(slots=True)
class LockedRows:
    """What a batch has locked, by id, and when; and what was decided on it."""

    now: datetime
    accounts: dict[UUID, Account]
    keys: dict[str, ApiKey]
    windows: dict[str, SpendingWindow | None]
    holds: dict[str, Hold]  # of those who leave; of all, when the batch is run again
    completions: dict[str, Completion]  # only when it is: what was begun by a commit whose answer was lost
    idempotency_keys: dict[tuple[UUID, str], IdempotentRequest]
    writes: "PendingWrites" = field(default_factory=lambda: PendingWrites())


@dataclass(slots=True)
class PendingWrites:
    """What a batch decided: the rows to write."""

    rate_limits_updated: dict[str, ApiKey] = field(default_factory=dict)
    spending_settled: list[SpendingChange] = field(default_factory=list)
    spending_reserved: list[SpendingChange] = field(default_factory=list)
    holds_resolved: list[Hold] = field(default_factory=list)
    holds_placed: list[NewHold] = field(default_factory=list)
    entries_inserted: list[NewEntry] = field(default_factory=list)
    completions_ended: list[CompletionOutcome] = field(default_factory=list)
    completions_begun: list[CompletionRecord] = field(default_factory=list)
    idempotency_keys_inserted: list[tuple[CompletionRecord, IdempotencyKey]] = field(default_factory=list)
    replies_stored: list[tuple[str, str | None]] = field(default_factory=list)
    idempotency_keys_deleted: list[str] = field(default_factory=list)

    def statements(self) -> list[Statement]:
        """In the order of the locks; those without rows are left out."""
        written: list[tuple[Callable[[Any], Statement], list[Any]]] = [
            (spending.settle_spending_statement, self.spending_settled),
            (spending.reserve_spending_statement, self.spending_reserved),
            (holds.update_holds_statement, self.holds_resolved),
            (holds.insert_holds_statement, self.holds_placed),
            (ledger.insert_entries_statement, self.entries_inserted),
            (records.update_completions_statement, self.completions_ended),
            (records.insert_completions_statement, self.completions_begun),
            (idempotency.store_replies_statement, self.replies_stored),
            (idempotency.delete_keys_statement, self.idempotency_keys_deleted),
            (idempotency.insert_keys_statement, self.idempotency_keys_inserted),
        ]
        return [
            *rate_limits.update_rate_limits_statements(self.rate_limits_updated.values()),
            *(write(found) for write, found in written if found),
        ]


def commit(operation: Operation) -> Any:
    """Wait until the operation's batch is committed; what it decided. Raises its ApiError, or that the database is away."""
    return _group_commit.submit(operation)


def _serve(operations: list[Operation], is_rerun: bool) -> list[Any]:
    with _connection.transaction(is_durable=any(operation.is_settlement for operation in operations)) as steps:
        rows = _read(steps, operations, is_rerun)
        in_turn = sorted(enumerate(operations), key=lambda each: not each[1].is_settlement)
        outcomes = {place: _outcome(operation, rows) for place, operation in in_turn}
        if statements := rows.writes.statements():
            steps.write(statements)
    for key in rows.keys.values():
        rate_limit_cache.store(key, rows.accounts[key.account_id], rows.now)
    for operation in operations:
        if operation.is_settlement:
            refusal_cache.process_cache.forget_tied_up(operation.key_id)
    return [outcomes[place] for place in range(len(operations))]


def _outcome(operation: Operation, rows: LockedRows) -> Any:
    try:
        return operation.decide(rows)
    except errors.ApiError as refusal:
        return refusal


def _read(steps: PipelinedTransaction, operations: list[Operation], is_rerun: bool) -> LockedRows:
    key_ids = {operation.key_id for operation in operations}
    hold_ids = [operation.completion_id for operation in operations if operation.is_settlement or is_rerun]
    idempotency_keys = [
        (operation.account_id, operation.idempotency_key) for operation in operations if operation.idempotency_key
    ]
    has_admissions = any(not operation.is_settlement for operation in operations)
    now, (accounts, keys, sums, found_holds, completions, stored) = steps.read(
        account_locks.lock_accounts_statement({operation.account_id for operation in operations}),
        key_locks.lock_keys_statement(key_ids),
        spending.select_spending_statement(key_ids) if has_admissions else None,
        account_locks.lock_holds_statement(hold_ids) if hold_ids else None,
        pipelined_transaction.lock_rows_statement(Completion, hold_ids) if is_rerun else None,
        idempotency.select_keys_statement(idempotency_keys) if idempotency_keys else None,
    )
    keys_by_id = pipelined_transaction.instances(ApiKey, keys)
    return LockedRows(
        now=now,
        accounts=pipelined_transaction.instances(Account, accounts),
        keys=keys_by_id,
        windows=spending.build_windows(keys_by_id.values(), sums) if has_admissions else {},
        holds=pipelined_transaction.instances(Hold, found_holds),
        completions=pipelined_transaction.instances(Completion, completions),
        idempotency_keys={
            (row.account_id, row.key): row for row in pipelined_transaction.instances(IdempotentRequest, stored).values()
        },
    )


_connection = pipelined_transaction.PipelinedConnection()
# Nobody waits for what was let in too late: its hold is left to expire, as that of a process that died.
_group_commit: GroupCommit[Operation, Any] = GroupCommit(_serve)
