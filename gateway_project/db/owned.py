"""The base of the tables that each cell has: each says what of it is kept, and leads to its account."""

from dataclasses import dataclass
from functools import cache
from typing import ClassVar

from django.db import models

DELETED = "deleted"
BOOKS = "It stays: bookkeeping."
EVIDENCE = "It stays: evidence of who decided."
NOTES_OF_STAFF = "They are notes of our staff. What came of them is in activity."


@dataclass(frozen=True)
class Kept:
    """The treatment of an account's rows of a table when an owner asks for all data, and when personal data is erased.

    ``exported`` names the file that has them, or says in a sentence why none has. ``erased`` is DELETED, or says in a sentence
    what becomes of them instead. No file has ``unread`` columns, nor what is sealed or a digest.
    """

    exported: str
    erased: str
    unread: tuple[str, ...] = ()


class OwnedModel(models.Model):
    """A table that each cell has: of what accounts own, or of sums over the accounts of a cell.

    Such tables refer to each other, and to those in ``public``. No other table refers to them by a key of the database. A table
    of what an account owns says what is ``kept`` of it.
    """

    kept: ClassVar[Kept | None] = None
    moves: ClassVar[bool] = True  # with an account that moves to another cell

    class Meta:
        abstract = True


@cache
def path_to_account(model: type[models.Model]) -> str:
    """Return how a row of an owned table leads to its account, such as ``key__account``; '' if it does not."""
    if not issubclass(model, OwnedModel):
        return ""
    if model._meta.label_lower == "billing.account":
        return "pk"
    if found := {field.name for field in model._meta.concrete_fields} & {"account", "account_id"}:
        return found.pop()
    keys = [field for field in model._meta.concrete_fields if isinstance(field, models.ForeignKey)]
    for key in sorted(keys, key=lambda key: key.null):  # those that are never empty first
        if key.related_model is not model and (path := path_to_account(key.related_model)):
            return f"{key.name}__{path}"
    return ""
