"""Applies the migrations of owned tables to each cell, which records them. A new cell begins with those of the first.

In a cell that is not the first, a router of Django's leaves out operations that are not on owned tables. Operations that run
SQL or Python say what they are about: ``hints={"is_owned": True}``.
"""

from contextlib import suppress
from typing import Any

from django.apps import apps
from django.db import DEFAULT_DB_ALIAS, connections

from gateway_project.cells import structure
from gateway_project.db import cell
from gateway_project.db.owned import OwnedModel


class CellRouter:
    def allow_migrate(self, db: str, app_label: str, model_name: str | None = None, **hints: Any) -> bool | None:
        if cell.current() == cell.FIRST:
            return None
        if model_name is None:
            return bool(hints.get("is_owned"))
        with suppress(LookupError):  # of a former model
            if issubclass(apps.get_model(app_label, model_name), OwnedModel):
                return True
        if (model := hints.get("model")) is None:
            return False
        with connections[db].cursor() as cursor:
            cursor.execute("SELECT to_regclass(%s)", [f"{cell.schema(cell.current())}.{model._meta.db_table}"])
            return cursor.fetchone()[0] is not None


def added_cells(alias: str) -> list[int]:
    """Return the cells that a database has beside the first, whether they serve yet or not."""
    with connections[alias].cursor() as cursor:
        cursor.execute(
            "SELECT nspname FROM pg_class JOIN pg_namespace AS schemas ON schemas.oid = relnamespace"
            " WHERE relname = 'django_migrations' AND nspname ~ '^cell_[0-9]{2,}$' AND nspname <> %s",
            [cell.schema(cell.FIRST)],
        )
        return sorted(int(name.removeprefix("cell_")) for (name,) in cursor.fetchall())


def finish(number: int) -> None:
    """Let functions that a migration has replaced look into their cell again, if there are several."""
    if number != cell.FIRST or added_cells(DEFAULT_DB_ALIAS):
        structure.fix_functions(number)
