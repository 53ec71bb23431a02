"""A running gateway with two cells: a fault of one is none of the other, and an account moves while it is used."""

import os
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection, transaction

from billing.ledger import audit, moves
from billing.models import Account, LedgerEntry
from completions.models import Completion
from gateway_project.cells import directory, moving
from gateway_project.db import cell
from tests import cells, factories
from tests.faults import fault
from tests.live.gateway import Gateway, eventually

pytestmark = pytest.mark.system

FIRST, SECOND = 1, 2
_SETTINGS = {"GATEWAY_SLUG": ""}  # settings of its own: no other test uses this gateway


@pytest.fixture
def two_cells(transactional_db: None) -> Iterator[None]:
    with cells.added(SECOND):
        yield


@pytest.fixture
def gateway(two_cells: None, gateways: Any) -> Iterator[Gateway]:
    served = gateways.start_anew(**_SETTINGS)
    yield served
    gateways.end(**_SETTINGS)  # before the second cell is dropped
    assert "Traceback" not in served.log()


@pytest.fixture
def accounts(two_cells: None, echo_model: Any) -> dict[int, tuple[Account, str]]:
    """An account with credit in each cell, and the secret of a key of it."""
    made = {}
    for number in (FIRST, SECOND):
        with cell.use(number):
            account = factories.make_account(
                f"Cell {number}", cents=1000, owner=factories.make_user(f"owner{number}@example.org")
            )
            made[number] = account, factories.make_key(account)[1]
    return made


@contextmanager
def locked(*tables: str) -> Iterator[None]:
    """Lock tables against every reader, as if what has them did not answer."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"LOCK TABLE {', '.join(tables)} IN ACCESS EXCLUSIVE MODE")
        yield


def charged(number: int, account: Account) -> int:
    with cell.use(number):
        return LedgerEntry.objects.filter(account=account.pk, type="USAGE_DEBIT").count()


def assert_consistent() -> None:
    for number in cell.numbers():
        with cell.use(number):
            assert audit.verify() == []


@fault("Database", "One of several cells does not answer", "Its accounts get 503; those of other cells are served")
def test_accounts_of_other_cells_are_served_while_one_cell_does_not_answer(gateway: Gateway, accounts: Any) -> None:
    (_, here), (remote, there) = accounts[FIRST], accounts[SECOND]
    assert (gateway.ask(here).status, gateway.ask(there).status) == (200, 200)
    schema = cell.schema(SECOND)
    with locked(f"{schema}.billing_account", f"{schema}.keys_apikey"):
        refused: list[int] = []
        waiting = threading.Thread(target=lambda: refused.append(gateway.ask(there).status))
        waiting.start()
        assert [gateway.ask(here).status for _ in range(50)] == [200] * 50
        waiting.join()
    assert refused == [503]
    eventually(lambda: gateway.ask(there).status == 200)
    assert (charged(FIRST, accounts[FIRST][0]), charged(SECOND, remote) >= 2) == (51, True)
    assert_consistent()


@fault("Database", "The directory of cells does not answer", "Keys that are known, or say where they are, are served")
def test_known_keys_are_served_while_the_directory_does_not_answer(gateway: Gateway, accounts: Any) -> None:
    with cell.use(SECOND):
        unseen = factories.make_key(accounts[SECOND][0])[1]
    for _, secret in accounts.values():
        assert gateway.ask(secret).status == 200
    with locked("cells_accountplace", "cells_reference", "cells_userplace"):
        for _, secret in accounts.values():
            assert gateway.ask(secret).status == 200
        assert gateway.ask(unseen).status == 200  # its secret says where it is
    assert_consistent()


@fault("Deployment", "An account moves to another cell while it is used", "Its requests wait, and are served there")
def test_an_account_that_moves_is_served_and_charged_once_for_each_reply(gateway: Gateway, accounts: Any) -> None:
    account, secret = accounts[FIRST]
    is_over, statuses = threading.Event(), Counter[int]()

    def use() -> None:
        while not is_over.is_set():
            statuses[gateway.ask(secret).status] += 1

    clients = [threading.Thread(target=use) for _ in range(4)]
    for client in clients:
        client.start()
    try:
        for target in (SECOND, FIRST, SECOND):
            before = statuses.total()
            eventually(lambda: statuses.total() >= before + 20)  # noqa: B023  it ends within the iteration
            with cell.use(directory.cell_of(account.pk)):
                moves.move(account.pk, target, lambda line: None)
    finally:
        is_over.set()
        for client in clients:
            client.join()
    assert set(statuses) == {200}
    assert (charged(FIRST, account), charged(SECOND, account)) == (0, statuses[200])
    with cell.use(SECOND):
        assert Completion.objects.filter(account=account.pk).exclude(settlement="reported").count() == 0
    assert_consistent()


@fault("Deployment", "A command that moves an account is killed", "The account is whole in one of the two cells")
def test_a_move_that_is_killed_at_any_step_has_moved_all_or_nothing(gateway: Gateway, accounts: Any) -> None:
    account, secret = accounts[FIRST]
    assert gateway.ask(secret).status == 200
    steps = len(moving.moved_models())
    for step in (1, steps // 2, steps - 1, steps):
        assert _move_and_kill_at(step, account, SECOND)
        assert _cells_with_rows(account) == {FIRST}
        assert gateway.ask(secret).status == 200
    assert not _move_and_kill_at(steps + 1, account, SECOND)
    assert _cells_with_rows(account) == {SECOND}
    assert gateway.ask(secret).status == 200
    assert (charged(FIRST, account), charged(SECOND, account)) == (0, 6)
    assert_consistent()


def _cells_with_rows(account: Account) -> set[int]:
    """Return the cells in which the account has rows, of any table."""
    found = set()
    for number in (FIRST, SECOND):
        with cell.use(number), connection.cursor() as cursor:
            for model in moving.moved_models():
                condition = moving.condition_sql(model).format(account=account.pk)
                cursor.execute(f"SELECT EXISTS (SELECT FROM {model._meta.db_table} WHERE {condition})")
                found |= {number} if cursor.fetchone()[0] else set()
    return found


def _move_and_kill_at(step: int, account: Account, target: int) -> bool:
    """Move an account in a process of its own that is killed when so many tables have moved. Return whether it was killed."""
    connection.close()
    reports = iter(range(1, step + 1))

    def kill_when_due(line: str) -> None:
        if next(reports) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    if (process := os.fork()) == 0:
        with cell.use(FIRST):
            moves.move(account.pk, target, kill_when_due)
        os._exit(0)
    return os.WIFSIGNALED(os.waitpid(process, 0)[1])
