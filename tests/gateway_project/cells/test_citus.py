"""What Citus is told, and that PostgreSQL without it is told nothing. Functions of the same names write it down here."""

import re
from typing import Any

import pytest
from django.db import connection

from billing import audit as billing_audit
from billing.models import Account
from completions import audit as completions_audit
from gateway_project.cells import citus, moving, structure
from gateway_project.db import cell
from tests import cells

# One of the three tables is on all nodes already, and ids of members begin again.
_STAND_INS = """
CREATE TABLE told (what text);
CREATE TABLE pg_dist_partition AS SELECT 'completions_provider'::regclass AS logicalrelid, 'n' AS partmethod, 't' AS repmodel;
CREATE TABLE pg_dist_object (classid oid, objid oid);
CREATE FUNCTION create_reference_table(name text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO told VALUES (name);
    EXECUTE format('SELECT setval(%L, 1, false)', pg_get_serial_sequence('public.billing_membership', 'id'));
END $$;
CREATE FUNCTION create_distributed_function(name text) RETURNS void LANGUAGE sql AS $$ INSERT INTO told VALUES (name) $$;
CREATE FUNCTION citus_schema_distribute(name text) RETURNS void LANGUAGE sql AS $$ INSERT INTO told VALUES (name) $$;
"""
_ADDED = cells.NUMBER + 1


@pytest.fixture
def installed(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Citus, as far as a cell is made with it."""
    monkeypatch.setattr(citus, "is_installed", lambda: True)
    with cell.use(cell.FIRST):
        _execute(_STAND_INS)


def _execute(sql: str, values: Any = None) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        return cursor.fetchall() if cursor.description else []


def _told() -> list[str]:
    return [what for (what,) in _execute("SELECT what FROM public.told")]


def _references(number: int) -> set[str]:
    """Return the tables to which a cell's foreign keys refer outside of it."""
    with cell.use(number):
        found = _execute(
            "SELECT DISTINCT relname FROM pg_constraint JOIN pg_class AS tables ON tables.oid = confrelid"
            " WHERE contype = 'f' AND connamespace = to_regnamespace(%s) AND relname <> ALL(%s)",
            [cell.schema(number) if number != cell.FIRST else "public", structure.owned_tables()],
        )
    return {name for (name,) in found if not name.startswith(("auth", "django", "account", "socialaccount", "mfa"))}


def test_postgresql_without_citus_is_told_nothing(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    for name in ("prepare", "distribute", "set_on_all_nodes"):
        monkeypatch.setattr(citus, name, lambda *values: told.append("something"))
    with cells.added(_ADDED):
        assert not citus.is_installed()
    assert told == []


def test_a_new_cell_is_put_on_a_node_after_what_it_refers_to(installed: None) -> None:
    with cells.added(_ADDED):
        assert _told() == [
            "completions_languagemodel",
            "completions_price",
            "billing_is_archived(timestamp with time zone)",
            cell.schema(_ADDED),
        ]


def test_on_citus_a_cell_refers_to_the_catalog_and_not_to_users(installed: None) -> None:
    with cells.added(_ADDED):
        assert _references(_ADDED) == set(citus.REFERENCE_TABLES)


def test_without_citus_it_refers_to_users_as_well(second: int) -> None:
    assert _references(second) == {*citus.REFERENCE_TABLES, "billing_user"}


@pytest.mark.one_cell
def test_ids_are_counted_on_after_citus_began_them_again(installed: None, alice: Account) -> None:
    count = "SELECT nextval(pg_get_serial_sequence('billing_membership', 'id'))"
    [(before,)] = _execute(count)
    citus.prepare()
    assert _execute(count) == [(before + 1,)]


def test_each_question_of_the_audit_can_be_planned_by_citus() -> None:
    """A subquery of a table that is not in the cell has columns: Citus cannot read one without. Workers know no search path."""
    for invariant in [*billing_audit.INVARIANTS, *completions_audit.INVARIANTS]:
        sql = invariant.shared.sql if invariant.shared else invariant.sql
        assert "current_schema" not in sql, invariant.name
        assert set(re.findall(r"SELECT\s+FROM\s+(\w+)\b(?!\()", sql)) <= set(structure.owned_tables()), invariant.name


def test_a_move_commits_on_both_nodes_or_on_none(second: int, alice: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    """Citus needs an ordinary statement in each cell. Without the account there is nothing to write to."""
    target = cell.FIRST if cell.current() == second else second
    with pytest.raises(moving.Unequal, match="is not in cell"):
        moving._write(target, alice.pk)
    moving._write(cell.current(), alice.pk)
