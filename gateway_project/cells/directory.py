"""Finds the cell of an account, and of rows that are looked up before their account is known, such as keys.

While there is one cell, nothing is looked up. A process remembers where accounts are. One that has moved is not found in its
former cell: then ``has_moved`` looks again.
"""

from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Self
from uuid import UUID

from django.apps import apps
from django.db import transaction
from django.db.models import Count

from gateway_project.cells.models import AccountPlace, Reference
from gateway_project.db import cell, everywhere, pool
from gateway_project.db.owned import OwnedModel

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


class ReferredModel(OwnedModel):
    """A table of keys, payments or links: the directory has the account of each row.

    Statements insert only rows that ``reference_condition`` leaves out: the directory lacks these.
    """

    reference_kind: ClassVar[str]
    reference_field: ClassVar[str] = "id"
    reference_condition: ClassVar[str] = "true"  # SQL: which of the rows

    class Meta:
        abstract = True

    def save(self, **kwargs: Any) -> None:
        """Save the row, and if it is new, write its account to the directory. Raises IntegrityError if one has its value."""
        is_new = self._state.adding
        with transaction.atomic(savepoint=False):
            super().save(**kwargs)
            if is_new:
                value, account_id = getattr(self, self.reference_field), self.account_id  # type: ignore[attr-defined]
                Reference.objects.create(kind=self.reference_kind, value=str(value), account_id=account_id)

    @classmethod
    def is_anywhere(cls, value: Any) -> bool:
        """Return whether a row with this value is in any cell."""
        return Reference.objects.filter(kind=cls.reference_kind, value=str(value)).exists()

    @classmethod
    def cell_of(cls, value: Any) -> int:
        """Return the cell of the row with this value. The first, if there is no such row."""
        if not cell.are_several():
            return cell.FIRST
        rows = Reference.objects.filter(kind=cls.reference_kind, value=str(value))
        account_id = pool.read(rows.values_list("account_id", flat=True).first)
        return cell.FIRST if account_id is None else find_again(account_id)  # a process may remember a former cell

    @classmethod
    def by_cell(cls, values: Collection[str]) -> dict[int, set[str]]:
        """Return which of the rows with these values are in which cell."""
        if not cell.are_several():
            return {cell.FIRST: set(values)}
        rows = Reference.objects.filter(kind=cls.reference_kind, value__in=values)
        accounts = dict(rows.values_list("value", "account_id"))
        places = dict(AccountPlace.objects.filter(pk__in=accounts.values()).values_list("pk", "cell"))
        found: dict[int, set[str]] = {}
        for value in values:
            number = places.get(accounts[value], cell.FIRST) if value in accounts else cell.FIRST
            found.setdefault(number, set()).add(value)
        return found

    @classmethod
    def find(cls, value: str, *, hint: int) -> Self | None:
        """Return the row with its account, from the cell that its value names or that the directory says. Enters the cell."""
        rows = cls._default_manager.select_related("account").filter(**{cls.reference_field: value})

        def likely_cells() -> Iterator[int]:
            yield (first := cell.or_first(hint))
            if (second := cls.cell_of(value)) != first:
                yield second

        return everywhere.find(lambda: rows.all().first(), likely_cells())


def references_sql() -> str:
    """SQL that selects kind, value and account of what the current cell's rows are looked up by."""
    return " UNION ALL ".join(
        f"SELECT '{model.reference_kind}' AS kind, {model.reference_field}::text AS value, account_id"  # noqa: S608  of our own models
        f" FROM {model._meta.db_table} WHERE {model.reference_condition}"
        for model in apps.get_models()
        if issubclass(model, ReferredModel)
    )
