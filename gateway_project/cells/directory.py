"""Finds the cell of an account. While there is one cell, nothing is looked up.

A process remembers where accounts are. One that has moved is not found in its former cell: then ``has_moved`` looks again.
"""

from contextlib import AbstractContextManager
from uuid import UUID

from django.db.models import Count

from gateway_project.cells.models import AccountPlace
from gateway_project.db import cell, pool

_ACCOUNTS_MAX = 65_536
_places: dict[UUID, int] = {}  # the cells of accounts, as far as this process knows


def cell_of(account_id: UUID) -> int:
    """Return the cell of an account. Raises the database's errors."""
    number = _places.get(account_id)
    return find_again(account_id) if number is None else number


def within(account_id: UUID) -> AbstractContextManager[None]:
    """Make the account's cell the current one for a block."""
    return cell.use(cell_of(account_id))


def find_again(account_id: UUID) -> int:
    """Return the cell of an account as the directory says now: it may have moved since this process looked."""
    number = _look_up(account_id) if cell.are_several() else None
    return remember(account_id, number or cell.FIRST)


def _look_up(account_id: UUID) -> int | None:
    return pool.read(AccountPlace.objects.filter(pk=account_id).values_list("cell", flat=True).first)


def has_moved(account_id: UUID, number: int) -> bool:
    """Return whether an account, which was not found in a cell, is in another one now. The first of many looks for all."""
    if not cell.are_several():
        return False
    if _places.get(account_id, number) != number:
        return True
    place = _look_up(account_id)
    return place is not None and remember(account_id, place) != number


def remember(account_id: UUID, number: int) -> int:
    """Remember the cell of an account that was found there. Return the cell."""
    if len(_places) >= _ACCOUNTS_MAX:
        _places.pop(next(iter(_places)), None)
    _places[account_id] = number
    return number


def forget_all() -> None:
    """Forget where accounts are, as a new process."""
    _places.clear()


def emptiest() -> int:
    """Return the cell for a new account: of those that are open, the one with the fewest."""
    if not cell.are_several():
        return cell.FIRST
    places = AccountPlace.objects.values_list("cell").annotate(accounts=Count("pk"))
    accounts = dict(places.order_by())
    return min(cell.open_numbers(), key=lambda number: accounts.get(number, 0))


def place_account(account_id: UUID) -> None:
    """Write that a new account is in the current cell."""
    AccountPlace.objects.create(account_id=account_id, cell=cell.current())
    remember(account_id, cell.current())
