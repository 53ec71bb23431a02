"""The only way to a row that money changes.

The order everywhere is: accounts by id, then keys by id, then spending days, then holds. A second order is a deadlock.
Each function must be called inside a transaction; Django refuses otherwise.
"""

from collections.abc import Collection
from uuid import UUID

from billing.models import Account, Hold
from gateway_project.db.pipelined_transaction import Statement, lock_rows_statement


def lock_account(account_id: UUID) -> Account:
    """One account, locked until the transaction ends. Raises Account.DoesNotExist."""
    return Account.objects.select_for_update(of=("self",), no_key=True).get(pk=account_id)


def lock_accounts_statement(account_ids: Collection[UUID]) -> Statement:
    """The accounts of a batch."""
    return lock_rows_statement(Account, account_ids)


def lock_holds_statement(references: Collection[str]) -> Statement:
    """The holds of a batch. Their accounts must be locked already."""
    return lock_rows_statement(Hold, references)
