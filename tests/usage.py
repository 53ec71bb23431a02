"""The steps of a completion one by one, with the functions that batches use: place and resolve a hold, count spending."""

from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connection, transaction

from billing import locks
from billing.ledger import audit, holds, movements, writer
from billing.ledger.audit import Violation
from billing.ledger.movements import NewHold
from billing.ledger.writer import BookedEntry
from billing.models import Account, Hold, LedgerEntry, ManualEntry, Payment
from gateway_project import identifiers
from gateway_project.db import pipelined_transaction
from keys.limits import spending
from keys.limits.spending import SpendingChange
from keys.models import ApiKey

TOMORROW = datetime.now(UTC) + timedelta(days=1)


def place(account: Account, nanos: int, *, reference: str | None = None, expires_at: datetime = TOMORROW) -> Hold:
    hold = NewHold(reference or identifiers.short_uuid7(), account.pk, nanos, expires_at)
    with transaction.atomic():
        holds.place(locks.lock_account(account.pk), nanos)
        pipelined_transaction.execute(movements.write_statement(placed=[hold]))
    return Hold.objects.get(pk=hold.reference)


def settle(account: Account, hold: Hold, nanos: int) -> Hold | None:
    with transaction.atomic():
        locked = locks.lock_account(account.pk)
        settled = _resolve(locked, hold, Hold.State.SETTLED, nanos)
        if settled:
            debit(locked, settled.settled_nanos or 0, settled.pk)
        return settled


def debit(
    account: Account,
    nanos: int,
    reference: str,
    *,
    model: str = "demo/echo",
    prompt_tokens: int = 3,
    completion_tokens: int = 4,
    spender: str | None = None,
) -> LedgerEntry:
    entry = writer.debit_usage(
        account,
        cost_nanos=nanos,
        reference=reference,
        model=model,
        prompt_tokens=prompt_tokens,
        completion_tokens=completion_tokens,
        settlement="reported",
        spender=spender,
    )
    pipelined_transaction.execute(movements.write_statement(entries=[entry]))
    if alert := movements.find_crossing(account, entry):
        pipelined_transaction.execute(movements.insert_alerts_statement([alert]))
    return LedgerEntry.objects.get(reference=reference)


def release(account: Account, hold: Hold) -> Hold | None:
    with transaction.atomic():
        return _resolve(locks.lock_account(account.pk), hold, Hold.State.RELEASED)


def expire(account: Account, hold: Hold) -> Hold | None:
    with transaction.atomic():
        return _resolve(locks.lock_account(account.pk), hold, Hold.State.EXPIRED)


def _resolve(account: Account, hold: Hold, state: Hold.State, cost_nanos: int | None = None) -> Hold | None:
    [locked] = pipelined_transaction.instances(
        Hold, pipelined_transaction.execute(locks.lock_holds_statement([hold.pk]))
    ).values()
    if not holds.resolve(account, locked, state, cost_nanos=cost_nanos):
        return None
    pipelined_transaction.execute(movements.write_statement(resolved=[locked]))
    return Hold.objects.get(pk=hold.pk)


# --- Spending days -----------------------------------------------------------------------------------------------


def reserve(key: ApiKey, *, day: date, amount_nanos: int) -> None:
    _change(reserved=SpendingChange(key.pk, day, amount_nanos))


def commit(key: ApiKey, *, day: date, held_nanos: int, spent_nanos: int, prompt_tokens: int, completion_tokens: int) -> None:
    movement = SpendingChange(key.pk, day, held_nanos, 1, spent_nanos, 1, prompt_tokens, completion_tokens)
    _change(settled=movement)


def give_back(key: ApiKey, *, day: date, held_nanos: int) -> None:
    _change(settled=SpendingChange(key.pk, day, held_nanos))


def _change(*, settled: SpendingChange | None = None, reserved: SpendingChange | None = None) -> None:
    changes = [[change] if change else [] for change in (settled, reserved)]
    for statement in spending.change_spending_statements(*changes):
        pipelined_transaction.execute(statement)


# --- Accounts ---------------------------------------------------------------------------------------------------


def spend(account: Account, nanos: int) -> LedgerEntry:
    """Place and settle a hold that costs ``nanos``."""
    hold = place(account, nanos)
    settle(account, hold, nanos)
    return LedgerEntry.objects.get(reference=hold.pk)


def buy(account: Account, cents: int, payment_id: str) -> BookedEntry:
    with transaction.atomic():
        return writer.credit_purchase(
            locks.lock_account(account.pk), amount_cents=cents, processor="stripe", payment_id=payment_id
        )


def pay(account: Account, cents: int, payment_id: str) -> Payment:
    """Book a payment by card, as its row and its credit."""
    credit = buy(account, cents, payment_id).entry
    paid: dict[str, Any] = {"status": Payment.Status.PAID, "credit": credit, "receipt_number": 1, "paid_at": credit.created_at}
    of_card: dict[str, Any] = {"processor": "stripe", "is_live": True, "intent_id": payment_id}
    return Payment.objects.create(account=account, amount_cents=cents, **of_card, **paid)


def refund(account: Account, cents: int, reference: str) -> BookedEntry:
    """Debit a refund that says of no credit, so that it may be more than was paid: as booked by a command."""
    with transaction.atomic():
        locked = locks.lock_account(account.pk)
        booked = writer.refund(locked, Payment(), amount_cents=cents, reference=reference, reason="returned")
        if booked.is_new:
            same = ("account_id", "type", "amount_nanos", "reference", "metadata")
            recorded = {name: getattr(booked.entry, name) for name in same}
            ManualEntry.objects.create(entry=booked.entry, operator="a test", **recorded)
        return booked


def check_deferred() -> None:
    """Run the constraint checks that the database defers to the commit."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")


def violations(account_id: UUID | None = None) -> list[Violation]:
    """Return what the audit finds, except that the holds of these steps are of no completion."""
    return [each for each in audit.verify(account_id) if each.invariant.name != "holds_are_of_completions"]


def numbers(account: Account) -> dict[str, Any]:
    """Return everything that a refusal must not change."""
    account = Account.objects.get(pk=account.pk)
    return {
        "balance": account.balance_nanos,
        "held": account.held_nanos,
        "seq": account.last_seq,
        "entries": list(account.entries.order_by("seq").values_list("type", "amount_nanos", "reference")),
        "holds": sorted(account.holds.values_list("pk", "state", "amount_nanos", "settled_nanos")),
    }
