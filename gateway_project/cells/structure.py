"""Adds and migrates a cell: its tables are like those of the first, with columns, constraints, indexes, triggers and rights.

Indexes and constraints keep their names, so that migrations find them. A trigger's function is a copy in the cell's schema that
always looks there first: it finds the cell's rows wherever it runs. The ids that a cell counts begin at a number of its own, so
that an account keeps its rows' ids when it moves.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from django.apps import apps
from django.db import DEFAULT_DB_ALIAS, connections, transaction
from django.db.models import Max

from gateway_project.cells import citus
from gateway_project.cells.directory import references_sql
from gateway_project.cells.models import Cell
from gateway_project.db import cell
from gateway_project.db.owned import OwnedModel

# Each process reads the cells as often, and may have begun a request with what it read before.
_KNOWN_SECONDS = 2 * cell.READ_SECONDS

_PLACES = (
    "INSERT INTO cells_accountplace (account_id, cell) SELECT id, %s FROM billing_account ON CONFLICT DO NOTHING",
    "INSERT INTO cells_userplace (user_id, cell) SELECT DISTINCT user_id, %s FROM billing_membership ON CONFLICT DO NOTHING",
)
_MIGRATIONS = "django_migrations"
_IDS = 2**40  # of each cell

_COPIED = "DEFAULTS INCLUDING IDENTITY INCLUDING GENERATED INCLUDING STORAGE INCLUDING COMPRESSION INCLUDING CONSTRAINTS"

# A table's structure, as statements without names of schemas, in the order in which they can run. Foreign keys come when all
# tables have their primary keys, and where ids begin, before: Citus does not change that of tables that refer to each other.
_CONSTRAINTS = """
SELECT format('ALTER TABLE %%I ADD CONSTRAINT %%I %%s', tables.relname, conname, pg_get_constraintdef(constraints.oid, true))
FROM pg_constraint AS constraints JOIN pg_class AS tables ON tables.oid = conrelid
WHERE tables.oid = ANY (%(tables)s::regclass[]) AND contype = ANY (%(kinds)s)
    AND (confrelid = 0 OR %(referable)s::regclass[] IS NULL OR confrelid = ANY (%(referable)s::regclass[]))
ORDER BY contype DESC, constraints.oid
"""
_INDEXES = """
SELECT pg_get_indexdef(indexrelid, 0, true) FROM pg_index
WHERE indrelid = ANY (%(tables)s::regclass[])
    AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid AND contype <> 'f')
ORDER BY indexrelid
"""
_OPTIONS = """
SELECT format('ALTER TABLE %%I SET (%%s)', relname, array_to_string(reloptions, ', '))
FROM pg_class WHERE oid = ANY (%(tables)s::regclass[]) AND reloptions IS NOT NULL
"""
_TRIGGERS = """
SELECT pg_get_triggerdef(oid, true) FROM pg_trigger
WHERE tgrelid = ANY (%(tables)s::regclass[]) AND NOT tgisinternal ORDER BY oid
"""
_FUNCTIONS = """
SELECT DISTINCT replace(pg_get_functiondef(functions.oid),
    format('FUNCTION %%I.%%I(', nspname, proname), format('FUNCTION %%I(', proname))
FROM pg_trigger JOIN pg_proc AS functions ON functions.oid = tgfoid JOIN pg_namespace AS schemas ON schemas.oid = pronamespace
WHERE tgrelid = ANY (%(tables)s::regclass[]) AND NOT tgisinternal
"""
_TRIGGER_FUNCTIONS = """
SELECT DISTINCT tgfoid::regprocedure::text, pronamespace::regnamespace::text
FROM pg_trigger JOIN pg_proc AS functions ON functions.oid = tgfoid
WHERE tgrelid IN (SELECT to_regclass(name) FROM unnest(%(tables)s::text[]) AS name) AND NOT tgisinternal
"""
_IDENTITIES = """
SELECT format('ALTER TABLE %%I ALTER COLUMN %%I SET START WITH %%s SET MINVALUE 1 RESTART WITH %%s',
    relname, attname, %(first)s::bigint, %(first)s::bigint)
FROM pg_attribute JOIN pg_class AS tables ON tables.oid = attrelid
WHERE attrelid = ANY (%(tables)s::regclass[]) AND attidentity <> '' AND atttypid = 'bigint'::regtype
"""
_GRANTS = """
SELECT format('GRANT %%s ON TABLE %%I TO %%s', privilege_type, relname, coalesce(nullif(grantee, 0)::regrole::text, 'PUBLIC'))
FROM pg_class, aclexplode(relacl) WHERE oid = ANY (%(tables)s::regclass[]) AND grantee <> relowner
UNION SELECT DISTINCT format('GRANT USAGE ON SCHEMA %%I TO %%s', %(schema)s::text,
    coalesce(nullif(grantee, 0)::regrole::text, 'PUBLIC'))
FROM pg_class, aclexplode(relacl) WHERE oid = ANY (%(tables)s::regclass[]) AND grantee <> relowner
"""


def owned_tables() -> list[str]:
    """Return the names of the tables that each cell has."""
    return sorted(model._meta.db_table for model in apps.get_models() if issubclass(model, OwnedModel))


def create(number: int, progress: Callable[[str], None] = lambda line: None) -> None:
    """Create the tables of a cell, or nothing; then Citus, if there, moves them to a node. Raises the database's errors."""
    tables, schema = [*owned_tables(), _MIGRATIONS], cell.schema(number)
    if citus.is_installed():
        citus.prepare()
    with cell.use(cell.FIRST), transaction.atomic():
        statements = _copies(tables, number)
        cell.execute(f"CREATE SCHEMA {schema}")
        [(source,)] = cell.execute(
            "SELECT relnamespace::regnamespace::text FROM pg_class WHERE oid = %s::regclass", [_MIGRATIONS]
        )
        for table in tables:
            cell.execute(f"CREATE TABLE {schema}.{table} (LIKE {source}.{table} INCLUDING {_COPIED})")
        with cell.use(number):
            for done, statement in enumerate(statements, start=1):
                cell.execute(statement)
                progress(f"{done} of {len(statements)} statements")
        cell.execute(f"INSERT INTO {schema}.{_MIGRATIONS} TABLE {source}.{_MIGRATIONS}")
    for each in (cell.FIRST, number):
        fix_functions(each)
    if citus.is_installed():
        citus.distribute(number)


def fix_functions(number: int) -> None:
    """Let the triggers of a cell look into its own tables, whatever cell the session is in when they run.

    Deferred triggers run at the end of a transaction, perhaps in another cell. A migration that replaces one undoes this.
    """
    with cell.use(number), transaction.atomic():
        for function, schema in cell.execute(_TRIGGER_FUNCTIONS, {"tables": owned_tables()}):
            path = schema if schema == "public" else f"{schema}, public"
            cell.execute(f"ALTER FUNCTION {function} SET search_path = {path}")


def _copies(tables: list[str], number: int) -> list[str]:
    """Return the statements that give a cell's new tables what the first cell's have."""
    values: dict[str, Any] = {"tables": tables, "first": number * _IDS, "schema": cell.schema(number)}
    values["referable"] = [*tables, *citus.REFERENCE_TABLES] if citus.is_installed() else None
    keys = [cell.execute(_CONSTRAINTS, {**values, "kinds": kinds}) for kinds in (["p", "u", "x"], ["f"])]
    functions = cell.execute(_FUNCTIONS, values)
    found = [cell.execute(sql, values) for sql in (_OPTIONS, _IDENTITIES, _INDEXES, _TRIGGERS, _GRANTS)]
    options, identities, indexes, triggers, grants = found
    return [sql for (sql,) in [*options, *identities, *keys[0], *indexes, *keys[1], *functions, *triggers, *grants]]


def add(*, is_open: bool, progress: Callable[[str], None]) -> Cell:
    """Make the tables of a new cell, let all processes know it, and then open it for new accounts.

    A cell that was not finished has its tables and no row: the next attempt gets the next number. Raises the database's errors.
    """
    fill_directory()
    number = Cell.objects.aggregate(highest=Max("number", default=cell.FIRST))["highest"] + 1
    while cell.execute("SELECT to_regnamespace(%s)", [cell.schema(number)]) != [(None,)]:
        number += 1
    create(number, progress)
    added = Cell.objects.create(number=number)
    progress(f"All processes know cell {number} in {_KNOWN_SECONDS} seconds ...")
    time.sleep(_KNOWN_SECONDS)
    fill_directory()  # a process that knew one cell only wrote nothing of what was made meanwhile, if it is of an older release
    added.is_open = is_open
    added.save(update_fields=["is_open"])
    cell.read_again()
    return added


def fill_directory() -> None:
    """Write what the directory lacks of the current cell: of an installation that was made before there were cells."""
    with transaction.atomic():
        for statement in _PLACES:
            cell.execute(statement, [cell.current()])
        cell.execute(f"INSERT INTO cells_reference (kind, value, account_id) {references_sql()} ON CONFLICT DO NOTHING")


class CellRouter:
    """Allows the migrations of owned tables in each cell, which records them. A new cell begins with those of the first.

    In a cell that is not the first, it leaves out operations that are not on owned tables. Operations that run SQL or Python
    say what they are about: ``hints={"is_owned": True}``.
    """

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
        fix_functions(number)
