"""Usage as billing sees it: a hold, and what became of it. Each function is a transaction of its own, as in production."""

from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import connection, transaction

from billing import holds, ledger, locks
from billing.models import Account, Hold, LedgerEntry
from gateway_project import identifiers

TOMORROW = datetime.now(UTC) + timedelta(days=1)


def place(account: Account, nanos: int, *, reference: str | None = None, expires_at: datetime = TOMORROW) -> Hold:
    with transaction.atomic():
        locked = locks.account(account.pk)
        return holds.place(locked, reference=reference or identifiers.short_uuid7(), amount_nanos=nanos, expires_at=expires_at)


def settle(account: Account, hold: Hold, nanos: int) -> Hold | None:
    with transaction.atomic():
        locked = locks.account(account.pk)
        settled = holds.settle(locked, hold.pk, cost_nanos=nanos)
        if settled:
            debit(locked, settled.settled_nanos, settled.pk)
        return settled


def debit(account: Account, nanos: int, reference: str) -> LedgerEntry:
    return ledger.debit_usage(
        account, cost_nanos=nanos, reference=reference, model="demo/echo", prompt_tokens=3, completion_tokens=4,
        settlement="reported",
    )  # fmt: skip


def release(account: Account, hold: Hold) -> Hold | None:
    with transaction.atomic():
        return holds.release(locks.account(account.pk), hold.pk)


def expire(account: Account, hold: Hold) -> Hold | None:
    with transaction.atomic():
        return holds.expire(locks.account(account.pk), hold.pk)


def spend(account: Account, nanos: int) -> LedgerEntry:
    """A completion from beginning to end, at a cost of ``nanos``."""
    hold = place(account, nanos)
    settle(account, hold, nanos)
    return LedgerEntry.objects.get(reference=hold.pk)


def buy(account: Account, cents: int, payment_id: str) -> LedgerEntry:
    with transaction.atomic():
        return ledger.credit_purchase(locks.account(account.pk), amount_cents=cents, processor="stripe", payment_id=payment_id)


def refund(account: Account, cents: int, reference: str) -> LedgerEntry:
    with transaction.atomic():
        return ledger.refund(locks.account(account.pk), amount_cents=cents, reference=reference, reason="returned")


def check_deferred() -> None:
    """What the database checks at commit, now."""
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("SET CONSTRAINTS ALL DEFERRED")


def numbers(account: Account) -> dict[str, Any]:
    """Everything that may not change when something is refused."""
    account = Account.objects.get(pk=account.pk)
    return {
        "balance": account.balance_nanos,
        "held": account.held_nanos,
        "seq": account.last_seq,
        "entries": list(account.entries.order_by("seq").values_list("type", "amount_nanos", "reference")),
        "holds": sorted(account.holds.values_list("pk", "state", "amount_nanos", "settled_nanos")),
    }
