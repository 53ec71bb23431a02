"""Finds the cell of an account. It is written with what it is about, in the same transaction.

While there is one cell, nothing is looked up. A process remembers where accounts are. An account that has moved since is not
found in its former cell: whoever finds that calls ``has_moved``, and goes on in the new one.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from typing import Any, TypeVar
from uuid import UUID

from django.db.models import Count

from gateway_project.cells.models import AccountPlace, Reference, UserPlace
from gateway_project.db import cell, pool

Kind = Reference.Kind
Found = TypeVar("Found")

_ACCOUNTS_MAX = 65_536
_places: dict[UUID, int] = {}  # the cells of accounts, as far as this process knows


# --- Find -------------------------------------------------------------------------------------------------------------


def cell_of(account_id: UUID) -> int:
    """Return the cell of an account. Raises the database's errors."""
    number = _places.get(account_id)
    return find_again(account_id) if number is None else number


def within(account_id: UUID) -> AbstractContextManager[None]:
    """Make the account's cell the current one for a block."""
    return cell.use(cell_of(account_id))


def find_again(account_id: UUID) -> int:
    """Return the cell of an account as the directory says now: it may have moved since this process looked."""
    number = cell.FIRST
    if cell.are_several():
        number = pool.read(AccountPlace.objects.filter(pk=account_id).values_list("cell", flat=True).first) or cell.FIRST
    return remember(account_id, number)


def has_moved(account_id: UUID, number: int) -> bool:
    """Look where an account is now, which was not found in a cell. Return whether it is in another one.

    Of many who find that at a time, the first looks for all: each look-up takes a connection of the pool.
    """
    if not cell.are_several():
        return False
    if _places.get(account_id, number) != number:
        return True
    place = pool.read(AccountPlace.objects.filter(pk=account_id).values_list("cell", flat=True).first)
    return place is not None and remember(account_id, place) != number


def cells_of_user(user_id: int) -> list[int]:
    """Return the cells in which a user may be a member of an account."""
    if not cell.are_several():
        return [cell.FIRST]
    found = UserPlace.objects.filter(user=user_id).values_list("cell", flat=True)
    return sorted({cell.FIRST, *found})  # who became a member while there was one cell is perhaps not written down


def enter(kind: Kind, value: Any) -> None:
    """Enter the cell in which the account of a key, payment or link is. The first, if there is no such account."""
    cell.enter(find_cell(kind, value))


def find(kind: Kind, value: Any, hint: int, read: Callable[[], Found | None]) -> Found | None:
    """Return what ``read`` finds in the cell that a key names itself, or in that which the directory says. Enters it."""
    for number in _likely_cells(kind, value, hint):
        cell.enter(number)
        if found := read():
            return found
    return None


def _likely_cells(kind: Kind, value: Any, hint: int) -> Iterator[int]:
    yield (first := hinted_cell(hint))
    if (second := find_cell(kind, value)) != first:
        yield second


def hinted_cell(hint: int) -> int:
    """Return the cell that something names itself. The first, if there is no such cell."""
    return hint if cell.exists(hint) else cell.FIRST


def find_cell(kind: Kind, value: Any) -> int:
    """Return the cell in which the account of a key, payment or link is. The first, if there is no such account."""
    if not cell.are_several():
        return cell.FIRST
    found = pool.read(Reference.objects.filter(kind=kind, value=str(value)).values_list("account_id", flat=True).first)
    return cell.FIRST if found is None else find_again(found)  # where a process believes it may be outdated


def has(kind: Kind, value: Any) -> bool:
    """Return whether something of that kind and value is written, in any cell."""
    return Reference.objects.filter(kind=kind, value=str(value)).exists()


def by_cell(kind: Kind, values: Collection[str]) -> dict[int, set[str]]:
    """Return which of the keys, payments or links are in which cell."""
    if not cell.are_several():
        return {cell.FIRST: set(values)}
    accounts = dict(Reference.objects.filter(kind=kind, value__in=values).values_list("value", "account_id"))
    places = dict(AccountPlace.objects.filter(pk__in=accounts.values()).values_list("pk", "cell"))
    found: dict[int, set[str]] = {}
    for value in values:
        number = places.get(accounts[value], cell.FIRST) if value in accounts else cell.FIRST
        found.setdefault(number, set()).add(value)
    return found


def remember(account_id: UUID, number: int) -> int:
    """Remember the cell of an account that was found there. Return the cell."""
    if len(_places) >= _ACCOUNTS_MAX:
        _places.pop(next(iter(_places)), None)
    _places[account_id] = number
    return number


def forget_all() -> None:
    """Forget where accounts are, as a new process."""
    _places.clear()


# --- Write ------------------------------------------------------------------------------------------------------------


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


def refer(kind: Kind, value: Any, account_id: UUID) -> None:
    """Write which account something new belongs to. Raises IntegrityError if there is one of that kind and value."""
    Reference.objects.create(kind=kind, value=str(value), account_id=account_id)
