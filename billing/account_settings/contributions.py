"""What other apps add to the end of an account and to the export of its data. Billing does not know what they store."""

from collections.abc import Callable, Iterator
from typing import Any

from billing.models import Account

Erase = Callable[[Account], None]  # called in the transaction that erases, with the account locked
Read = Callable[[Account], Iterator[dict[str, Any]]]  # returns the rows of a table, each with the same names, a few at a time

erasures: list[Erase] = []
tables: dict[str, Read] = {}  # by the name of its files


def register_erasure(erase: Erase) -> None:
    erasures.append(erase)


def register_table(name: str, read: Read) -> None:
    tables[name] = read
