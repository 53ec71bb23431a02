"""The only writer of ledger entries. An entry and the new balance are written in one statement, once for each reference.

A function that takes an Account needs it locked (``billing.locks``), and updates the balance and last seq of the object for
further decisions.

An entry that is neither usage nor of a payment at a processor has a ManualEntry: who booked it, by hand or by a command.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import msgspec
from django.db import IntegrityError, transaction

from billing import locks, money
from billing.ledger import movements
from billing.models import Account, LedgerEntry, ManualEntry, Payment, User
from gateway_project import identifiers, operator_command
from gateway_project.db import pipelined_transaction
from gateway_project.text import dollars

CORRECTION = "correction:"  # begins the reference of a correction; the id of the corrected entry follows
OVERCHARGE = "overcharge:"  # begins that of what usage was charged too much; the reference of the usage follows

_PURCHASE, _REFUND = LedgerEntry.Type.CREDIT_PURCHASE, LedgerEntry.Type.REFUND_DEBIT


class ReferenceReused(Exception):
    """The reference names an entry of another account, type or amount."""


@dataclass(frozen=True)
class BookedEntry:
    """The entry of a reference, and whether this call wrote it (``is_new``) or found it."""

    entry: LedgerEntry
    is_new: bool


def debit_usage(
    account: Account,
    *,
    cost_nanos: int,
    reference: str,
    model: str,
    prompt_tokens: int,
    completion_tokens: int,
    settlement: str,
    spender: str | None = None,
    repeats: str | None = None,
    charged_before_nanos: int = 0,
    web_searches: int = 0,
) -> movements.NewEntry:
    """Charge one completion; ``movements.write_statement`` writes the entry. A completion that costs 0 has an entry, too.

    ``settlement`` says where the figures come from, and ``spender`` is an id of the caller's. A second run of a completion
    names the first one in ``repeats``, and its charge in ``charged_before_nanos``: ``cost_nanos`` is the rest.
    """
    metadata = {
        "model": model,
        "tokens": prompt_tokens + completion_tokens,
        "completionId": reference,
        "promptTokens": prompt_tokens,
        "completionTokens": completion_tokens,
        "costInDollars": dollars.format_plain(cost_nanos),
        "settlement": settlement,
    }
    if web_searches:
        metadata["webSearches"] = web_searches
    if repeats:
        metadata |= {"repeats": repeats, "chargedBeforeInDollars": dollars.format_plain(charged_before_nanos)}
    return _make_entry(account, LedgerEntry.Type.USAGE_DEBIT, -cost_nanos, reference, metadata, spender=spender)


def return_overcharge(account: Account, *, amount_nanos: int, reference: str, model: str) -> movements.NewEntry:
    """Credit what the usage of ``reference`` was charged too much, once. ``insert_manual_entries_statement`` records it."""
    reason = "The charge was an estimate, and it was more than the request cost."
    metadata = {"reason": reason, "model": model, "completionId": reference}
    return _make_entry(account, LedgerEntry.Type.SUPPORT_CREDIT, amount_nanos, f"{OVERCHARGE}{reference}", metadata)


def credit_purchase(
    account: Account,
    *,
    amount_cents: int,
    processor: str,
    payment_id: str,
    payment: Payment | None = None,
    issued_by: User | None = None,
) -> BookedEntry:
    """Book a payment that the processor confirmed (``payment``), or that staff saw on the bank account (``issued_by``), once.

    Raises ReferenceReused, ValueError.
    """
    reference, metadata = f"pay:{processor}:{payment_id}", {f"{processor}PaymentId": payment_id}
    return _book(account, _PURCHASE, money.nanos(amount_cents), reference, metadata, issued_by, payment)


def refund(account: Account, payment: Payment, *, amount_cents: int, reference: str, reason: str) -> BookedEntry:
    """Debit what was refunded of a payment. Only refunds and corrections may make a balance negative."""
    metadata = {"reason": reason, **_credit_metadata(payment.credit)}
    return _book(account, _REFUND, -money.nanos(amount_cents), f"refund:{reference}", metadata, payment=payment)


def return_refund(account: Account, payment: Payment, *, amount_cents: int, reference: str, reason: str) -> BookedEntry:
    """Credit what was debited of a payment and came back: a bank reinstated it, or a refund failed."""
    metadata = {f"{payment.processor}PaymentId": payment.intent_id or "", "reason": reason, **_credit_metadata(payment.credit)}
    return _book(account, _PURCHASE, money.nanos(amount_cents), f"unrefund:{reference}", metadata, payment=payment)


def refund_credit(
    account: Account, credit: LedgerEntry, *, amount_nanos: int, reference: str, reason: str, issued_by: User
) -> BookedEntry:
    """Take back a part of one earlier credit, because that money was paid back. Raises ReferenceReused, ValueError.

    A trigger refuses more than is left of the credit (IntegrityError): ``billing.ledger.credits`` says how much that is.
    """
    metadata = {"reason": reason, **_credit_metadata(credit)}
    return _book(account, _REFUND, -amount_nanos, f"refund:{reference}", metadata, issued_by)


def correct_credit(account: Account, credit: LedgerEntry, *, amount_nanos: int, reason: str, issued_by: User) -> BookedEntry:
    """As ``refund_credit``, of a credit that was booked wrongly, once. Raises ReferenceReused if its amount was another."""
    metadata = {"reason": reason, **_credit_metadata(credit)}
    return _book(account, _REFUND, -amount_nanos, f"{CORRECTION}{credit.pk}", metadata, issued_by)


def _credit_metadata(credit: LedgerEntry | None) -> dict[str, str]:
    return {"entryId": str(credit.pk)} if credit else {}


def grant_support_credit(
    account_id: UUID, *, amount_cents: int, reason: str, reference: str, issued_by: User | None = None
) -> BookedEntry:
    """Credit an account on behalf of support, in a transaction of its own. Raises ReferenceReused, ValueError.

    ``reference`` is made before the first attempt, by the form for example: a second attempt returns the entry of the first.
    """
    with transaction.atomic():
        account = locks.lock_account(account_id)
        nanos, metadata = money.nanos(amount_cents), {"reason": reason}
        return _book(account, LedgerEntry.Type.SUPPORT_CREDIT, nanos, f"support:{reference}", metadata, issued_by)


def grant_trial_credit(account_id: UUID, *, amount_cents: int, person: str) -> BookedEntry:
    """As ``grant_support_credit``, once for each person (a digest). Raises ReferenceReused if their other account has it."""
    with transaction.atomic():
        account = locks.lock_account(account_id)
        nanos, metadata = money.nanos(amount_cents), {"reason": "Credit for a new account."}
        return _book(account, LedgerEntry.Type.SUPPORT_CREDIT, nanos, f"trial:{person}", metadata)


def _book(
    account: Account,
    type: LedgerEntry.Type,
    amount_nanos: int,
    reference: str,
    metadata: dict[str, Any],
    issued_by: User | None = None,
    payment: Payment | None = None,
) -> BookedEntry:
    """Append the entry of a reference, and who booked what no payment confirms; or return the entry that is there.

    Raises ValueError if the amount is zero, or has another sign than the type: callers pass magnitudes.
    """
    if amount_nanos * (-1 if type == _REFUND else 1) <= 0:
        raise ValueError(f"{amount_nanos} nanodollars have the wrong sign for a {type}, or are nothing")
    booked = LedgerEntry.objects.filter(reference=reference).first()
    if booked is None:
        try:
            with transaction.atomic():
                issuer_id = issued_by.pk if issued_by else None
                new = _make_entry(account, type, amount_nanos, reference, metadata, issued_by_id=issuer_id)
                _append(account, new, is_manual=payment is None)
                return BookedEntry(LedgerEntry.objects.get(pk=new.id), is_new=True)
        except IntegrityError:
            account.balance_nanos -= amount_nanos
            account.last_seq -= 1
            # The lock excludes others who book for this account, but not the same reference for another account.
            booked = LedgerEntry.objects.filter(reference=reference).first()
            if booked is None and ManualEntry.is_anywhere(reference):
                raise ReferenceReused(f"{reference} is already booked for another account") from None
            if booked is None:
                raise
    if (booked.account_id, booked.type, booked.amount_nanos) != (account.pk, type, amount_nanos):
        raise ReferenceReused(f"{reference} is already booked as something else")
    return BookedEntry(booked, is_new=False)


def _append(account: Account, entry: movements.NewEntry, *, is_manual: bool) -> None:
    """Append the entry, with the record of who booked it: the staff that it names, else whoever runs this process."""
    pipelined_transaction.execute(movements.write_statement(entries=[entry]))
    if alert := movements.find_crossing(account, entry):
        pipelined_transaction.execute(movements.insert_alerts_statement([alert]))
    if is_manual:
        same = ("account_id", "type", "amount_nanos", "reference", "metadata", "issued_by_id")
        operator = "" if entry.issued_by_id else operator_command.operator()
        ManualEntry.objects.create(entry_id=entry.id, operator=operator, **{name: getattr(entry, name) for name in same})


def _make_entry(
    account: Account,
    type: LedgerEntry.Type,
    amount_nanos: int,
    reference: str,
    metadata: dict[str, Any],
    *,
    issued_by_id: int | None = None,
    spender: str | None = None,
) -> movements.NewEntry:
    account.balance_nanos += amount_nanos
    account.last_seq += 1
    return movements.NewEntry(
        id=identifiers.uuid7(),
        account_id=account.pk,
        seq=account.last_seq,
        type=type,
        amount_nanos=amount_nanos,
        balance_after_nanos=account.balance_nanos,
        reference=reference,
        metadata=metadata,
        spender=spender,
        issued_by_id=issued_by_id,
    )


def insert_manual_entries_statement(entries: Sequence[movements.NewEntry]) -> pipelined_transaction.Statement:
    """Insert the records of who booked these entries: whoever runs this process."""
    operator = operator_command.operator()
    return pipelined_transaction.Statement(
        """
        INSERT INTO billing_manualentry (entry_id, account_id, type, amount_nanos, reference, metadata, operator)
        SELECT id, account_id, type, amount_nanos, reference, metadata, operator
        FROM json_to_recordset($1::json) AS entry (id uuid, account_id uuid, type text, amount_nanos bigint, reference text,
            metadata jsonb, operator text)""",
        [{**msgspec.structs.asdict(entry), "operator": operator} for entry in entries],
    )
