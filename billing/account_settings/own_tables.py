"""The tables of an export, with amounts in dollars, and what each model says of export and erasure (``OwnedModel.kept``).

``BESIDE`` has what is kept of people, and of the models of other packages.
"""

import re
from collections.abc import Iterator
from datetime import date, datetime
from functools import partial
from itertools import chain
from typing import Any
from uuid import UUID

from django.apps import apps
from django.db.models import Model, QuerySet

from billing.account_settings import activity
from billing.alerts.payload import camel_case
from billing.ledger import credits, reading
from billing.models import Account, BillingDetails, User
from gateway_project import app_config
from gateway_project.db import newest_first
from gateway_project.db.owned import DELETED, EVIDENCE, Kept, OwnedModel, path_to_account
from gateway_project.text import dollars, timestamps

Rows = Iterator[dict[str, Any]]  # each with the same names
_ROWS_AT_ONCE = 500
_SIGN_IN = "It is about how a person signs in, which is on the person's own pages."
_DIRECTORY = "It says in which cell something is."
BESIDE = {
    "account.emailaddress": Kept(_SIGN_IN, DELETED),
    "account.emailconfirmation": Kept(_SIGN_IN, "It is deleted with its address."),
    "activity.activity": Kept("activity", EVIDENCE),
    "admin.logentry": Kept("Nothing writes it.", "Nothing writes it."),
    "billing.addresschange": Kept(_SIGN_IN, DELETED),
    "billing.ledgerleaf": Kept("It is a place in the tree over all ledgers.", "It stays: it has an id only."),
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


def readers() -> app_config.Tables:
    """Return the readers of all files of an export, in their order: those that apps have, then tables as they are, by name."""
    readers: app_config.Tables = dict(TABLES)
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


def _read(model: type[Model], unread: tuple[str, ...], account: Account) -> Rows:
    hidden = re.compile(r"account|sealed_.*|.*digest.*")
    fields = [each for each in model._meta.concrete_fields if each.name not in unread and not hidden.fullmatch(each.name)]
    people = [field.name for field in fields if field.related_model is User]
    # A column keeps its name when the code finds another word for its field.
    shown = {field.name: field.db_column.removesuffix("_id") if field.db_column else field.name for field in fields}
    names = {camel_case(shown[field.name]): field.name if field.name in people else field.attname for field in fields}
    rows = model._default_manager.filter(**{path_to_account(model): account.pk})
    for row in _in_batches(rows.select_related(*people) if people else rows):
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


def _in_batches(rows: QuerySet[Any]) -> Iterator[Any]:
    """Return the rows, the newest first by their keys, a batch at a time. Between batches no connection is held."""
    return chain.from_iterable(newest_first.read_batches(rows.order_by("-pk"), _ROWS_AT_ONCE))


def _account(account: Account) -> Rows:
    details = BillingDetails.objects.filter(account=account).first() or BillingDetails()
    yield {
        "id": str(account.pk),
        "name": account.name,
        "openedAt": timestamps.iso_millis(account.created_at),
        "balanceInDollars": dollars.format_plain(account.balance_nanos),
        "billedTo": details.name,
        "address": details.address,
        "taxId": details.tax_id,
    }


def _members(account: Account) -> Rows:
    for each in _in_batches(account.memberships.select_related("user")):
        yield {"email": each.user.email, "role": each.role, "joinedAt": timestamps.iso_millis(each.created_at)}


def _ledger(account: Account) -> Rows:
    for entry in chain.from_iterable(reading.read_batches(account)):
        yield {
            "seq": entry.seq,
            "id": str(entry.pk),
            "createdAt": timestamps.iso_millis(entry.created_at),
            "type": entry.type,
            "amountInDollars": dollars.format_plain(entry.amount_nanos),
            "balanceAfterInDollars": dollars.format_plain(entry.balance_after_nanos),
            "apiKey": entry.spender,
            "metadata": entry.metadata,
            "hash": entry.hash and entry.hash.hex(),
        }


def _payments(account: Account) -> Rows:
    for each in _in_batches(account.payments.all()):
        yield {
            "id": str(each.pk),
            "createdAt": timestamps.iso_millis(each.created_at),
            "status": each.status,
            "refusal": each.refusal,
            "amountInCents": each.amount_cents,
            "takenBackInCents": each.debited_cents,
            "paidAt": timestamps.iso_millis(each.paid_at) if each.paid_at else None,
            "receiptNumber": each.receipt_number,
            "billedTo": each.billed_to,
        }


def _credit_notes(account: Account) -> Rows:
    for each in reversed(credits.read_notes(account)):
        yield {
            "number": each.number,
            "createdAt": timestamps.iso_millis(each.entry.created_at),
            "paymentId": str(each.payment.pk),
            "receiptNumber": each.payment.receipt_number,
            "amountInCents": -each.cents,
            "reason": each.reason,
        }


def _alerts(account: Account) -> Rows:
    for each in _in_batches(account.alerts.all()):
        yield {"id": str(each.pk), "createdAt": timestamps.iso_millis(each.created_at), "kind": each.kind, "data": each.data}


TABLES: app_config.Tables = {
    "account": _account,
    "members": _members,
    "ledger": _ledger,
    "payments": _payments,
    "credit_notes": _credit_notes,
    "alerts": _alerts,
    "activity": activity.read_all,
}
