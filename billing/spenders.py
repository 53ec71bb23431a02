"""What the spenders of entries are called. Billing does not know what they are: an app that has spenders tells their names."""

from collections.abc import Callable

from billing.models import Account

_readers: list[Callable[[Account], dict[str, str]]] = []


def register(read_names: Callable[[Account], dict[str, str]]) -> None:
    """Add a function that returns the names of an account's spenders by their ids, in the order in which pages offer them."""
    _readers.append(read_names)


def read_names(account: Account) -> dict[str, str]:
    """Return the names of the account's spenders by their ids."""
    return {spender: name for read in _readers for spender, name in read(account).items()}
