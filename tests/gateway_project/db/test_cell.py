"""Each statement is sent in the current cell, whatever happened on its connection before."""

from typing import Any

import pytest
from django.db import connection, transaction

from billing.models import Account
from gateway_project.db import cell
from tests import factories


@pytest.fixture
def each(second: int) -> dict[int, Account]:
    """An account in each cell."""
    made = {}
    for number in (cell.FIRST, second):
        with cell.use(number):
            made[number] = factories.make_account(f"Cell {number}")
    return made


def _names(number: int) -> list[str]:
    with cell.use(number):
        return list(Account.objects.filter(name__startswith="Cell").values_list("name", flat=True))


def test_a_statement_finds_the_rows_of_the_current_cell(each: dict[int, Account]) -> None:
    for number in (*each, *each):
        assert _names(number) == [f"Cell {number}"]


def test_after_a_rollback_to_a_savepoint_the_next_statement_is_in_the_current_cell(second: int, each: Any) -> None:
    assert _names(cell.FIRST) == ["Cell 1"]
    with cell.use(cell.FIRST):
        savepoint = transaction.savepoint()
    with cell.use(second):
        assert Account.objects.filter(name="Cell 2").exists()
        transaction.savepoint_rollback(savepoint)
    assert _names(second) == ["Cell 2"]
    assert _names(cell.FIRST) == ["Cell 1"]


@pytest.mark.django_db(transaction=True)
def test_after_a_rollback_the_next_statement_is_in_the_current_cell(second: int, each: Any) -> None:
    connection.close()
    with transaction.atomic():
        assert _names(second) == ["Cell 2"]
        transaction.set_rollback(True)
    assert _names(second) == ["Cell 2"]
    assert _names(cell.FIRST) == ["Cell 1"]
