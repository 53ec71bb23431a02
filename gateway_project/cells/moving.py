"""Moves the rows of one account from a cell to another, in one transaction: it is in one of the two at each moment.

Requests that lock the account meanwhile wait, do not find it, and look it up in the directory. Triggers and keys of the tables
do not run, because they would refuse to delete rows: for that a session must be allowed to set ``session_replication_role``.
The audit's signatures stay in the former cell, as do sums that are not of one account.
"""

import tempfile
from collections.abc import Callable
from functools import cache
from typing import Any
from uuid import UUID

from django.apps import apps
from django.db import ProgrammingError, connection, transaction
from django.db.models import Model

from gateway_project.cells import citus
from gateway_project.cells.models import AccountPlace, UserPlace
from gateway_project.db import cell
from gateway_project.db.owned import OwnedModel, path_to_account

_IN_MEMORY_BYTES = 2**24
_ANALYZED_ROWS = 1_000


class Unequal(Exception):
    """The rows that were put into the new cell are not those that were taken from the former."""


class NotAllowed(Exception):
    """The role of the database may not move rows as replication does. The message says who allows it, and how."""


def require_permission() -> None:
    """Grant the role that it may write without triggers, unless it may. Raises NotAllowed."""
    if cell.execute("SELECT has_parameter_privilege('session_replication_role', 'SET')") == [(True,)]:
        return
    try:
        cell.execute("GRANT SET ON PARAMETER session_replication_role TO CURRENT_USER")
    except ProgrammingError:
        [(role, database)] = cell.execute("SELECT quote_ident(current_user), current_database()")
        grant = f"GRANT SET ON PARAMETER session_replication_role TO {role}"
        advice = f"As a superuser, once: runuser -u postgres -- psql --dbname={database} --command='{grant}'"
        raise NotAllowed(f"the role {role} of the database may not write without triggers. {advice}") from None


def move(account_id: UUID, source: int, target: int, *, digest_sql: str, progress: Callable[[str], None]) -> int:
    """Move the account, which the caller has locked in the source. Return how many rows it has.

    ``digest_sql`` selects a digest of what only changes under the lock of the account, whose id is its parameter. It is the
    same on both sides, or nothing is moved. Must run in a transaction. Raises Unequal, or the database's errors.
    """
    with cell.use(source):  # others can add no row that refers to one which has moved
        for model in owners():
            condition = condition_sql(model).format(account=account_id)
            cell.execute(f"SELECT 1 FROM {model._meta.db_table} WHERE {condition} FOR UPDATE")  # noqa: S608  of our own models
    expected, rows = _digest(source, digest_sql, account_id), 0
    with transaction.atomic():
        if citus.is_installed():
            citus.set_on_all_nodes()
        cell.execute("SET LOCAL session_replication_role = replica")
        _write(source, account_id)
        for number, model in enumerate(moved_models(), start=1):
            rows += _move_rows(model, account_id, source, target)
            progress(f"{number} of {len(moved_models())} tables, {rows} rows")
        _write(target, account_id)
        cell.execute("SET LOCAL session_replication_role = origin")
        AccountPlace.objects.update_or_create(account_id=account_id, defaults={"cell": target})
        with cell.use(target):
            members = cell.execute("SELECT user_id FROM billing_membership WHERE account_id = %s", [account_id])
        places = [UserPlace(user_id=user_id, cell=target) for (user_id,) in members]
        UserPlace.objects.bulk_create(places, ignore_conflicts=True)
    if _digest(target, digest_sql, account_id) != expected:
        raise Unequal(f"the ledger of {account_id} is not the same in cell {target}: nothing was moved")
    return rows


def _write(number: int, account_id: UUID) -> None:
    """Write to a cell by an ordinary statement, so that Citus prepares its node's commit.

    After reads and COPY alone it does not, and a commit that fails there is lost without an error.
    """
    with cell.use(number), connection.cursor() as cursor:
        cursor.execute("UPDATE billing_account SET id = id WHERE id = %s", [account_id])
        if cursor.rowcount != 1:
            raise Unequal(f"{account_id} is not in cell {number}: nothing was moved")


def _move_rows(model: type[Model], account_id: UUID, source: int, target: int) -> int:
    """Take the rows out of one cell and put them into the other. Return how many."""
    table, columns = model._meta.db_table, ", ".join(_columns(model._meta.db_table))
    taken = f"DELETE FROM {table} WHERE {condition_sql(model).format(account=account_id)} RETURNING {columns}"  # noqa: S608
    with tempfile.SpooledTemporaryFile(_IN_MEMORY_BYTES) as file, connection.cursor() as cursor:
        with cell.use(source):
            cell.follow(connection.connection)
            with cursor.copy(f"COPY ({taken}) TO STDOUT (FORMAT binary)") as rows:
                for part in rows:
                    file.write(part)
            taken_rows = cursor.rowcount
        file.seek(0)
        with cell.use(target):
            cell.follow(connection.connection)
            with cursor.copy(f"COPY {table} ({columns}) FROM STDIN (FORMAT binary)") as rows:
                while part := file.read(2**16):
                    rows.write(part)
            if cursor.rowcount != taken_rows:
                raise Unequal(f"{taken_rows} rows were taken out of {table}, and {cursor.rowcount} put in")
            if taken_rows >= _ANALYZED_ROWS:  # or what is asked of them next, while the account waits, is planned for few
                cursor.execute(f"ANALYZE {table}")
    return int(taken_rows)


def _columns(table: str) -> list[str]:
    """Return the columns that are stored as they are given."""
    sql = """
        SELECT quote_ident(attname) FROM pg_attribute
        WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = '' ORDER BY attnum
    """
    return [name for (name,) in cell.execute(sql, [table])]


def _digest(number: int, sql: str, account_id: UUID) -> object:
    with cell.use(number):
        return cell.execute(sql, [account_id])


@cache
def moved_models() -> tuple[type[Model], ...]:
    """Return the models of which an account's rows move with it, each before those that lead to the account."""
    owned = [model for model in apps.get_models() if issubclass(model, OwnedModel) and model.moves and path_to_account(model)]
    return tuple(sorted(owned, key=lambda model: (path_to_account(model) == "pk", -path_to_account(model).count("__"))))


@cache
def owners() -> tuple[type[Model], ...]:
    """Return those of the models by which others are found that do not say their account. The account guards all others."""
    conditions = " ".join(map(condition_sql, moved_models()))
    return tuple(owner for owner in moved_models() if f"FROM {owner._meta.db_table} " in conditions)


@cache
def condition_sql(model: type[Model]) -> str:
    """SQL that says whether a row of a table that leads to accounts is of the account ``{account}``."""
    name, _, path_of_owner = path_to_account(model).partition("__")
    field: Any = model._meta.pk if name == "pk" else model._meta.get_field(name)
    if not path_of_owner:
        return f"{field.column} = '{{account}}'"
    owner = field.related_model
    condition = condition_sql(owner)
    return f"{field.column} IN (SELECT {owner._meta.pk.column} FROM {owner._meta.db_table} WHERE {condition})"  # noqa: S608
