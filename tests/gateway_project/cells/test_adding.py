"""A cell is added to a gateway that serves, and has every later migration of its tables."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import ProgrammingError, connection

from billing.accounts import lifecycle
from billing.ledger import audit
from billing.models import Account
from gateway_project.cells import directory, structure
from gateway_project.cells.models import AccountPlace, Cell, Reference, UserPlace
from gateway_project.db import cell, direct_connections, pool
from tests import cells, factories

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.one_cell]


@pytest.fixture(autouse=True)
def _no_cells_are_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(structure, "_KNOWN_SECONDS", 0)
    monkeypatch.setattr(pool, "stop_pooling", lambda: None)
    yield
    for number in list(cell.added):
        cells.drop(number)


def _add(capsys: Any, *options: str) -> Any:
    call_command("add_cell", "--json", *options)
    return json.loads(capsys.readouterr().out)


def test_new_accounts_are_opened_in_it(alice: Account, capsys: Any) -> None:
    assert _add(capsys) == {"cell": 2, "is_open": True}
    account, _ = lifecycle.open_account("new@example.org", name="New")
    assert directory.cell_of(account.pk) == 2
    for number in (1, 2):
        with cell.use(number):
            assert audit.verify() == []


def test_one_that_is_closed_gets_no_new_accounts(capsys: Any) -> None:
    assert _add(capsys, "--closed") == {"cell": 2, "is_open": False}
    account, _ = lifecycle.open_account("new@example.org", name="New")
    assert directory.cell_of(account.pk) == cell.FIRST


def test_what_was_made_before_there_was_a_directory_is_in_it(alice: Account, capsys: Any) -> None:
    key, _ = factories.make_key(alice)
    for model in (AccountPlace, UserPlace, Reference):
        model._default_manager.all().delete()
    _add(capsys)
    assert AccountPlace.objects.get().account_id == alice.pk
    assert UserPlace.objects.get().user_id == alice.members.get().pk
    assert Reference.objects.get(kind="key", value=key.pk).account_id == alice.pk
    assert Reference.objects.get(kind="entry").account_id == alice.pk  # of its credit
    assert audit.verify() == []


def test_another_one_gets_the_next_number(capsys: Any) -> None:
    _add(capsys)
    with connection.cursor() as cursor:
        cursor.execute("CREATE SCHEMA cell_03")  # of an attempt that was not finished
    try:
        assert _add(capsys)["cell"] == 4
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP SCHEMA cell_03")


def test_nothing_is_added_where_a_pooler_lends_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(direct_connections, "are_shared", lambda: True)
    with pytest.raises(CommandError, match="pooler"):
        call_command("add_cell")
    assert not Cell.objects.exists()


def test_a_failure_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:

    monkeypatch.setattr(structure, "_IDENTITIES", "SELECT 'not SQL'")
    with pytest.raises(ProgrammingError, match="syntax error"):
        call_command("add_cell")
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'cell%'")
        assert cursor.fetchone() == (0,)
    assert not Cell.objects.exists()


def test_a_migration_of_an_owned_table_is_applied_to_each_cell(capsys: Any) -> None:
    def cells() -> list[str]:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT table_schema FROM information_schema.columns"
                " WHERE (table_name, column_name) = ('completions_completion', 'provider_nanos') ORDER BY 1"
            )
            return [name for (name,) in cursor.fetchall()]

    _add(capsys)
    try:
        call_command("migrate", "completions", "0033", verbosity=0)
        assert cells() == []
    finally:
        call_command("migrate", verbosity=0)
    assert cells() == ["cell_02", "public"]
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM cell_02.django_migrations")
        of_cell = cursor.fetchone()
        cursor.execute("SELECT count(*) FROM public.django_migrations")
        assert cursor.fetchone() == of_cell
        cursor.execute("SELECT proname FROM pg_proc WHERE pronamespace = 'cell_02'::regnamespace AND proconfig IS NULL")
        assert cursor.fetchall() == []
