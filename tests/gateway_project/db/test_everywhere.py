"""What is about all accounts is done in each cell. One that is away holds up no other."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction
from django.test import Client
from rest_framework.test import APIClient

from billing import facts as billing_facts
from billing.models import Account
from completions import tasks
from completions.models import CompletionHour, UptimeSums
from completions.public import status
from completions.statistics import hours, margins
from gateway_project.cells import structure
from gateway_project.db import cell, everywhere, pool
from gateway_project.monitoring import collector
from tests import chat, factories
from tests.conftest import client_for


@pytest.fixture
def used(second: int, api: APIClient, echo_model: Any) -> None:
    """A completion in each cell, summed up."""
    with cell.use(cell.FIRST if cell.current() == second else second):
        account = factories.make_account("Elsewhere", cents=1000)
        elsewhere = client_for(factories.make_key(account)[1])
    for client in (api, elsewhere):
        assert chat.ask(client).status_code == 200
    assert tasks.sum_up_usage() == 2
    tasks.sum_up_hours()


@contextmanager
def _away(number: int) -> Iterator[None]:
    """Let every statement on the tables of a cell fail, as if its server did not answer."""
    tables = structure.owned_tables()

    def fail(execute: Any, *statement: Any) -> Any:
        if cell.current() == number and any(table in str(statement[0]) for table in tables):
            raise OperationalError("connection to the remote node failed")
        return execute(*statement)

    with connection.execute_wrapper(fail):
        yield


def test_a_task_runs_in_the_other_cells_and_the_error_is_raised_afterwards(second: int, caplog: Any) -> None:
    done = []

    @everywhere.each
    def task() -> int:
        done.append(cell.current())
        return Account.objects.count()

    with _away(cell.FIRST), pytest.raises(OperationalError), caplog.at_level(logging.ERROR, "gateway.cells"):
        task()
    assert done == [cell.FIRST, second]
    assert [(line.cell, line.getMessage()) for line in caplog.records] == [
        (cell.FIRST, "cell 1: connection to the remote node failed")
    ]


@pytest.mark.django_db(transaction=True)
def test_a_task_runs_in_all_cells_side_by_side(second: int) -> None:
    for number in (cell.FIRST, second):
        with cell.use(number):
            factories.make_account("One of two")

    @everywhere.each
    def task() -> int:
        assert not connection.in_atomic_block
        return Account.objects.filter(name="One of two").update(name=f"Of cell {cell.current()}")

    assert task() == 2
    for number in (cell.FIRST, second):
        with cell.use(number):
            assert Account.objects.filter(name=f"Of cell {number}").count() == 1


def test_a_page_leaves_out_a_cell_that_is_away(second: int) -> None:
    with _away(second):
        assert everywhere.run(cell.current) == [cell.FIRST, second]
        assert everywhere.run(lambda: (Account.objects.count(), cell.current())[1], may_miss=True) == [cell.FIRST]
        with pytest.raises(OperationalError):
            everywhere.run(Account.objects.count)
    with _away(cell.FIRST), pytest.raises(OperationalError):
        everywhere.run(Account.objects.count, may_miss=True)


def test_sums_of_pages_are_over_all_cells(used: None) -> None:
    now = pool.database_time()
    [hour] = hours.read(now - timedelta(hours=2)).values()
    assert hour.completions == 2
    assert hour.cost_nanos == sum(everywhere.run(lambda: CompletionHour.objects.get().cost_nanos))
    [margin] = margins.read(now.date() - timedelta(days=1), now.date() + timedelta(days=1))
    assert (margin.completions, margin.charged_nanos) == (2, hour.cost_nanos)
    status.forget()
    [line] = status.current().models
    answered = everywhere.run(lambda: UptimeSums.objects.get(is_day=True, kind="model").answered)
    assert line.whole.answered == sum(answered) == 2
    status.forget()


@pytest.mark.one_cell
def test_metrics_are_of_all_cells(second: int, used: None) -> None:
    by_name = {fact.name: fact for fact in billing_facts.FACTS}
    read = collector.read(by_name["gateway_holds_open"])
    assert [sample.value for sample in read.samples] == [0]
    with transaction.atomic():
        for number in (cell.FIRST, second):
            with cell.use(number), connection.cursor() as cursor:
                cursor.execute("SET LOCAL session_replication_role = replica")
                cursor.execute(
                    "INSERT INTO billing_hold (reference, amount_nanos, state, expires_at, created_at, account_id)"
                    " SELECT 'open ' || id, 1, 'HELD', now(), now(), id FROM billing_account"
                )
        read = collector.read(by_name["gateway_holds_open"])
        transaction.set_rollback(True)
    assert [sample.value for sample in read.samples] == [2]


def test_a_cell_that_is_away_is_named_in_metrics_and_on_the_home_page_of_staff(second: int, admin_client: Client) -> None:
    assert everywhere.answers() == {cell.FIRST: True, second: True}
    assert "does not answer" not in admin_client.get("/admin/").content.decode()
    with _away(second):
        assert everywhere.answers() == {cell.FIRST: True, second: False}
        page = admin_client.get("/admin/").content.decode()
        _, _, cells = collector._read_facts()
    assert f"Cell {second} does not answer." in page
    assert cells == {cell.FIRST: True, second: False}


def test_with_one_cell_none_is_asked_whether_it_answers(db: None) -> None:
    if not cell.are_several():
        assert everywhere.answers() == {}
