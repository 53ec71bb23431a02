"""Row locks of users, accounts, payments and holds. Nothing else locks a row that holds money.

The order of locks everywhere is: users by id, accounts by id, keys by id, holds by id; a payment after its account. Any other
order can deadlock. Spending days are written last, under the lock of their key. Usage locks no users.
``lock_users`` and ``lock_account`` must be called inside a transaction; Django raises otherwise.
"""

from collections.abc import Collection
from functools import partial
from uuid import UUID

from billing.models import Account, Hold, Payment, User
from gateway_project import errors
from gateway_project.cells import directory
from gateway_project.db import cell, pipelined_transaction


def lock_users(user_ids: Collection[int]) -> None:
    """Lock users until the transaction ends: what staff credit in a day, and whose members they become, is decided under it."""
    list(User.objects.select_for_update(of=("self",), no_key=True).filter(pk__in=user_ids).order_by("pk").values_list("pk"))


def lock_account(account_id: UUID) -> Account:
    """Return one account, locked until the transaction ends. Raises DoesNotExist; ServiceUnavailable if it has just moved."""
    try:
        return Account.objects.select_for_update(of=("self",), no_key=True).get(pk=account_id)
    except Account.DoesNotExist:
        if directory.has_moved(account_id, cell.current()):
            raise errors.ServiceUnavailable("The account has just been moved. Try again.") from None
        raise


def lock_payment(payment_id: UUID) -> Payment:
    """Return one payment, locked until the transaction ends. Its account must be locked already."""
    return Payment.objects.select_for_update(of=("self",), no_key=True).get(pk=payment_id)


# They lock and read the rows of a batch, in the order of their ids: accounts, and holds whose accounts are locked already.
lock_accounts_statement = partial(pipelined_transaction.lock_rows_statement, Account)
lock_holds_statement = partial(pipelined_transaction.lock_rows_statement, Hold)
