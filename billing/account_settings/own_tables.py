"""What each model says of export and erasure (``OwnedModel.kept``). ``BESIDE`` has those of people, and of other packages."""

import re
from collections.abc import Iterator
from datetime import date, datetime
from functools import partial
from typing import Any
from uuid import UUID

from django.apps import apps
from django.db.models import Model

from billing.account_settings.tables import TABLES, Read, in_batches
from billing.alerts.payload import camel_case
from billing.models import Account, User
from gateway_project import app_config
from gateway_project.db.owned import DELETED, EVIDENCE, Kept, OwnedModel, path_to_account
from gateway_project.text import timestamps

_SIGN_IN = "It is about how a person signs in, which is on the person's own pages."
_DIRECTORY = "It says in which cell something is."
BESIDE = {
    "account.emailaddress": Kept(_SIGN_IN, DELETED),
    "account.emailconfirmation": Kept(_SIGN_IN, "It is deleted with its address."),
    "activity.activity": Kept("activity", EVIDENCE),
    "admin.logentry": Kept("Nothing writes it.", "Nothing writes it."),
    "billing.addresschange": Kept(_SIGN_IN, DELETED),
    "billing.passwordlink": Kept(_SIGN_IN, DELETED),
    "billing.user": Kept("members", "It is closed, without its address and name."),
    "cells.accountplace": Kept(_DIRECTORY, "It stays: the ledger is found by it."),
    "cells.reference": Kept(_DIRECTORY, "It stays: entries and keys that are refused are found by it."),
    "cells.userplace": Kept(_DIRECTORY, "It stays: it has ids only."),
    "completions.catalogproposal": Kept("It is about the catalog.", EVIDENCE),
    "completions.pricerequest": Kept("It is about the catalog.", EVIDENCE),
    "mfa.authenticator": Kept(_SIGN_IN, DELETED),
    "socialaccount.socialaccount": Kept(_SIGN_IN, DELETED),
    "socialaccount.socialtoken": Kept("Nothing writes it.", "It is deleted with its account."),
    "usersessions.usersession": Kept(_SIGN_IN, DELETED),
}


def of_accounts() -> dict[type[Model], Kept | None]:
    return {each: each.kept for each in apps.get_models() if issubclass(each, OwnedModel) and path_to_account(each)}


def readers() -> dict[str, Read]:
    """Return the readers of all files of an export, in their order: those that apps have, then tables as they are, by name."""
    readers: dict[str, Read] = dict(TABLES)
    for app in app_config.installed():
        readers |= app.exported_tables()
    files = {kept.exported: (model, kept) for model, kept in of_accounts().items() if kept and is_file(kept)}
    others = sorted(files.keys() - readers.keys())
    return readers | {name: partial(_read, files[name][0], files[name][1].unread) for name in others}


def is_file(kept: Kept) -> bool:
    return " " not in kept.exported


def delete_rows(account: Account) -> None:
    """Delete the rows of which the models say so. Those that refer to others go first."""
    paths = {model: path_to_account(model) for model, kept in of_accounts().items() if kept and kept.erased == DELETED}
    for model in sorted(paths, key=lambda each: -paths[each].count("__")):
        model._default_manager.filter(**{paths[model]: account.pk}).delete()


def delete_rows_of_user(user: User) -> None:
    for label, kept in BESIDE.items():
        if kept.erased == DELETED:
            apps.get_model(label)._default_manager.filter(user=user).delete()


def _read(model: type[Model], unread: tuple[str, ...], account: Account) -> Iterator[dict[str, Any]]:
    hidden = re.compile(r"account|sealed_.*|.*digest.*")
    fields = [each for each in model._meta.concrete_fields if each.name not in unread and not hidden.fullmatch(each.name)]
    people = [field.name for field in fields if field.related_model is User]
    # A column keeps its name when the code finds another word for its field.
    shown = {field.name: field.db_column.removesuffix("_id") if field.db_column else field.name for field in fields}
    names = {camel_case(shown[field.name]): field.name if field.name in people else field.attname for field in fields}
    rows = model._default_manager.filter(**{path_to_account(model): account.pk})
    for row in in_batches(rows.select_related(*people) if people else rows):
        yield {shown: _value(getattr(row, name)) for shown, name in names.items()}


def _value(value: Any) -> Any:
    match value:
        case datetime():
            return timestamps.iso_millis(value)
        case date():
            return value.isoformat()
        case UUID():
            return str(value)
        case User():
            return "Support staff" if value.is_staff else value.email
    return value
