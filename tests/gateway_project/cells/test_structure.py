"""A new cell has the tables of the first one."""

import re
from pathlib import Path
from typing import Any

import pytest
from django.db import connection

from gateway_project.cells import structure
from gateway_project.db import cell
from tests import cells, factories

ROOT = Path(__file__).resolve().parents[3]

# What the tables of a schema have, without its name.
_HAS = {
    "columns": """
        SELECT table_name, column_name, data_type, is_nullable, column_default, is_identity, is_generated, collation_name
        FROM information_schema.columns WHERE table_schema = %s AND table_name = ANY(%s)
    """,
    "constraints": """
        SELECT relname, conname, contype, replace(pg_get_constraintdef(c.oid), nspname || '.', '')
        FROM pg_constraint AS c JOIN pg_class AS t ON t.oid = conrelid JOIN pg_namespace AS n ON n.oid = relnamespace
        WHERE nspname = %s AND relname = ANY(%s)
    """,
    "indexes": """
        SELECT tablename, indexname, replace(indexdef, schemaname || '.', '') FROM pg_indexes
        WHERE schemaname = %s AND tablename = ANY(%s)
    """,
    "triggers": """
        SELECT relname, tgname, tgenabled, replace(pg_get_triggerdef(g.oid), nspname || '.', '')
        FROM pg_trigger AS g JOIN pg_class AS t ON t.oid = tgrelid JOIN pg_namespace AS n ON n.oid = relnamespace
        WHERE NOT tgisinternal AND nspname = %s AND relname = ANY(%s)
    """,
}


def _has(what: str, schema: str) -> set[Any]:
    with cell.use(cell.FIRST), connection.cursor() as cursor:
        cursor.execute(_HAS[what], [schema, structure.owned_tables()])
        return {tuple(map(_without_casts, row)) for row in cursor.fetchall()}


def _without_casts(value: Any) -> Any:
    """PostgreSQL writes the casts of a condition anew where it is read again."""
    return re.sub(r"::(character varying|text)|[()]|\[\]", "", value) if isinstance(value, str) else value


def test_its_tables_have_the_same_columns_constraints_indexes_and_triggers(second: int) -> None:
    for what in _HAS:
        expected = _has(what, "public")
        assert expected
        assert _has(what, cell.schema(second)) == expected


def test_what_no_account_owns_is_only_in_public(second: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", [cell.schema(second)])
        assert {name for (name,) in cursor.fetchall()} == {*structure.owned_tables(), "django_migrations"}


def test_no_shared_table_refers_to_an_owned_one(db: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT conrelid::regclass::text FROM pg_constraint"
            " WHERE contype = 'f' AND confrelid::regclass::text = ANY(%(owned)s) AND conrelid::regclass::text <> ALL(%(owned)s)"
            " AND connamespace = 'public'::regnamespace",
            {"owned": structure.owned_tables()},
        )
        assert cursor.fetchall() == []


def test_the_ids_that_cells_count_never_meet(second: int) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT min(start_value - 1 + increment_by) FROM pg_sequences WHERE schemaname = %s", [cell.schema(second)]
        )
        cursor.execute("SELECT nextval(pg_get_serial_sequence(%s, 'id'))", [f"{cell.schema(second)}.billing_membership"])
        assert second * 2**40 <= cursor.fetchone()[0] < (second + 1) * 2**40


def test_a_deferred_trigger_looks_into_its_own_cell(db: None) -> None:
    with cells.added() as second:
        for number, other in ((cell.FIRST, second), (second, cell.FIRST)):
            with cell.use(number):
                factories.make_account("Written here", cents=100)
            with cell.use(other), connection.cursor() as cursor:
                cursor.execute("SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED")


@pytest.mark.one_cell
def test_roles_may_do_there_what_they_may_do_in_the_first_cell(db: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE ROLE web_of_this_test")
        cursor.execute("GRANT SELECT, INSERT ON public.billing_ledgerentry TO web_of_this_test")
    with cells.added() as second, connection.cursor() as cursor:
        schema = cell.schema(second)
        for privilege, may in (("SELECT", True), ("INSERT", True), ("UPDATE", False)):
            cursor.execute(
                "SELECT has_table_privilege('web_of_this_test', %s, %s)", [f"{schema}.billing_ledgerentry", privilege]
            )
            assert cursor.fetchone() == (may,)
        cursor.execute("SELECT has_schema_privilege('web_of_this_test', %s, 'USAGE')", [schema])
        assert cursor.fetchone() == (True,)


def test_no_statement_can_touch_two_cells_because_only_what_makes_cells_names_a_schema() -> None:
    packages = ("gateway_project", "billing", "keys", "completions", "rankings")
    sources = [path for package in packages for path in (ROOT / package).rglob("*.py") if "migrations" not in path.parts]
    named = re.compile(r"\bcell_(\d|\{)|\bcell\.schema\(")
    found = {str(path.relative_to(ROOT)) for path in sources if named.search(path.read_text())}
    makes = {f"gateway_project/cells/{name}.py" for name in ("citus", "structure")}
    assert found <= {"gateway_project/db/cell.py", *makes, "completions/retention/files.py"}
