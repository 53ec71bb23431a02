"""The only way to a row that money changes.

The order everywhere is: accounts by id, then keys by id, then spending days, then holds. A second order is a deadlock.
Each function must be called inside a transaction; Django refuses otherwise.
"""

from uuid import UUID

from billing.models import Account, Hold


def account(account_id: UUID) -> Account:
    """The account, locked until the transaction ends. Raises Account.DoesNotExist."""
    return Account.objects.select_for_update(of=("self",), no_key=True).get(pk=account_id)


def hold(reference: str) -> Hold:
    """The hold, locked. Its account must be locked already. Raises Hold.DoesNotExist."""
    return Hold.objects.select_for_update(of=("self",), no_key=True).get(pk=reference)
