"""The names of those who spent: the ``spender`` of usage entries. Other apps know what a spender is, and register a finder."""

from collections.abc import Collection
from typing import Protocol

from billing.models import Account

Names = dict[str, str]  # by id


class Finder(Protocol):
    """Returns the names of at most ``limit`` spenders of an account, the newest first.

    With ``ids``, of these; with ``text``, of those with this id, or this name in any case.
    """

    def __call__(
        self, account: Account, *, limit: int, ids: Collection[str] | None = None, text: str | None = None
    ) -> Names: ...


_finders: list[Finder] = []


def register(find: Finder) -> None:
    _finders.append(find)


def newest(account: Account, limit: int) -> Names:
    """Return the names of the account's newest spenders."""
    return {id: name for find in _finders for id, name in find(account, limit=limit).items()}


def named(account: Account, ids: Collection[str]) -> Names:
    """Return the names of these spenders, if they are the account's."""
    return {id: name for find in _finders for id, name in find(account, limit=len(ids), ids=ids).items()}


def search(account: Account, text: str, limit: int) -> Names:
    """Return the names of the account's spenders with this id or name."""
    return {id: name for find in _finders for id, name in find(account, limit=limit, text=text).items()}
