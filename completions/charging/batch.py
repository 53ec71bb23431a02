"""The one door: who comes in and who goes out share a transaction. Nothing else moves money for usage.

A batch is read, decided and written in two round trips. Those who leave are decided first, because what they give back the
next may take. What is decided is kept true on the rows, for the next to see, and noted, to be written at the end: so a visitor
that is refused has changed nothing.
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
from completions.charging.idempotency import Attempt
from completions.charging.records import Ending, Running
from completions.models import Completion, IdempotentRequest
from gateway_project import errors
from gateway_project.db import pipelined_transaction
from gateway_project.db.group_commit import GroupCommit
from gateway_project.db.pipelined_transaction import PipelinedTransaction, Statement
from keys import locks as key_locks
from keys import rate_limit_cache, rate_limits, refusal_cache, spending
from keys.models import ApiKey
from keys.spending import Movement, Window


class Visitor(Protocol):
    """Who comes to the door, with the ids of the rows that it must find there."""

    is_leaving: bool  # so it has a hold, and what it decides must survive a crash of the database

    @property
    def completion_id(self) -> str: ...
    @property
    def account_id(self) -> UUID: ...
    @property
    def key_id(self) -> str: ...
    @property
    def attempt(self) -> Attempt | None: ...

    def decide(self, rows: "Rows") -> Any:
        """The outcome, noted on the rows. Raises ApiError, having noted nothing."""


@dataclass(slots=True)
class Rows:
    """What a batch has locked, by id, and when; and what was decided on it."""

    now: datetime
    accounts: dict[UUID, Account]
    keys: dict[str, ApiKey]
    windows: dict[str, Window | None]
    holds: dict[str, Hold]  # of those who leave; of all, when the batch is run again
    completions: dict[str, Completion]  # only when it is: what was begun by a commit whose answer was lost
    idempotent: dict[tuple[UUID, str], IdempotentRequest]
    changes: "Changes" = field(default_factory=lambda: Changes())


@dataclass(slots=True)
class Changes:
    """What a batch decided: the rows to write."""

    counted: dict[str, ApiKey] = field(default_factory=dict)
    moved: list[Movement] = field(default_factory=list)
    reserved: list[Movement] = field(default_factory=list)
    resolved: list[Hold] = field(default_factory=list)
    placed: list[NewHold] = field(default_factory=list)
    entries: list[NewEntry] = field(default_factory=list)
    ended: list[Ending] = field(default_factory=list)
    begun: list[Running] = field(default_factory=list)
    attempts: list[tuple[Running, Attempt]] = field(default_factory=list)
    kept: list[tuple[str, str | None]] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)

    def statements(self) -> list[Statement]:
        """In the order of the locks; those without rows are left out."""
        written: list[tuple[Callable[[Any], Statement], list[Any]]] = [
            (spending.moved, self.moved),
            (spending.reserved, self.reserved),
            (holds.resolved, self.resolved),
            (holds.placed, self.placed),
            (ledger.appended, self.entries),
            (records.ended, self.ended),
            (records.begun, self.begun),
            (idempotency.kept, self.kept),
            (idempotency.forgotten, self.forgotten),
            (idempotency.begun, self.attempts),
        ]
        return [*rate_limits.counted(self.counted.values()), *(write(found) for write, found in written if found)]


def pass_through(visitor: Visitor) -> Any:
    """Wait until the visitor's batch is committed; what it decided. Raises its ApiError, or that the database is away."""
    return _door.submit(visitor)


def _serve(visitors: list[Visitor], again: bool) -> list[Any]:
    with _connection.transaction(is_durable=any(visitor.is_leaving for visitor in visitors)) as steps:
        rows = _read(steps, visitors, again)
        in_turn = sorted(enumerate(visitors), key=lambda each: not each[1].is_leaving)
        outcomes = {place: _outcome(visitor, rows) for place, visitor in in_turn}
        if statements := rows.changes.statements():
            steps.write(statements)
    for key in rows.keys.values():
        rate_limit_cache.see(key, rows.accounts[key.account_id], rows.now)
    for visitor in visitors:
        if visitor.is_leaving:
            refusal_cache.memory.relent(visitor.key_id)
    return [outcomes[place] for place in range(len(visitors))]


def _outcome(visitor: Visitor, rows: Rows) -> Any:
    try:
        return visitor.decide(rows)
    except errors.ApiError as refusal:
        return refusal


def _read(steps: PipelinedTransaction, visitors: list[Visitor], again: bool) -> Rows:
    key_ids = {visitor.key_id for visitor in visitors}
    hold_ids = [visitor.completion_id for visitor in visitors if visitor.is_leaving or again]
    attempts = [(visitor.account_id, visitor.attempt) for visitor in visitors if visitor.attempt]
    is_entered = any(not visitor.is_leaving for visitor in visitors)
    now, (accounts, keys, sums, found_holds, completions, known) = steps.read(
        account_locks.accounts({visitor.account_id for visitor in visitors}),
        key_locks.keys(key_ids),
        spending.sums(key_ids) if is_entered else None,
        account_locks.holds(hold_ids) if hold_ids else None,
        pipelined_transaction.lock_rows_statement(Completion, hold_ids) if again else None,
        idempotency.known(attempts) if attempts else None,
    )
    keys_by_id = pipelined_transaction.instances(ApiKey, keys)
    return Rows(
        now=now,
        accounts=pipelined_transaction.instances(Account, accounts),
        keys=keys_by_id,
        windows=spending.windows(keys_by_id.values(), sums, now) if is_entered else {},
        holds=pipelined_transaction.instances(Hold, found_holds),
        completions=pipelined_transaction.instances(Completion, completions),
        idempotent={
            (row.account_id, row.key): row for row in pipelined_transaction.instances(IdempotentRequest, known).values()
        },
    )


_connection = pipelined_transaction.PipelinedConnection()
# Nobody waits for what was let in too late: its hold is left to expire, as that of a process that died.
_door: GroupCommit[Visitor, Any] = GroupCommit(_serve)
