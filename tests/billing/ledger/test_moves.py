"""An account moves to another cell, whole, while it is used."""

from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.db.models import F
from rest_framework.test import APIClient

from billing.ledger import audit, moves, signed_days
from billing.models import Account, AuditedDay, AuditedLedger, LedgerEntry, LedgerRoot, Membership, Role
from billing.proof import inclusion, roots
from completions.models import Completion
from completions.retention import archive
from completions.tasks import sum_up_usage
from gateway_project.activity.models import Activity
from gateway_project.cells import directory, moving
from gateway_project.cells.models import AccountPlace, UserPlace
from gateway_project.db import cell, pool
from keys import rotation
from keys.models import ApiKey, FormerSecret
from tests import cells, chat, factories

OTHER = 2 if cells.NUMBER == 1 else 1


@pytest.fixture
def other(db: None) -> Any:
    with cells.added(max(OTHER, 2)):
        yield OTHER


def _move(account: Account, target: int) -> None:
    """Move it in a transaction that has not written anything of it yet, as that of the command."""
    _check_deferred_constraints()
    moves.move(account.pk, target, lambda line: None)


def _check_deferred_constraints() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE; SET CONSTRAINTS ALL DEFERRED")


def _rows(account_id: Any) -> dict[str, list[Any]]:
    """Return all that an account has in the current cell, by table."""
    found = {}
    with connection.cursor() as cursor:
        for model in moving.moved_models():
            condition = moving.condition_sql(model).format(account=account_id)
            cursor.execute(f"SELECT t::text FROM {model._meta.db_table} AS t WHERE {condition} ORDER BY 1")
            found[model._meta.db_table] = cursor.fetchall()
    return {table: rows for table, rows in found.items() if rows}


def test_everything_is_in_the_other_cell_and_nothing_in_the_former(
    other: int, alice: Account, api: APIClient, echo_model: Any
) -> None:
    assert chat.ask(api).status_code == 200
    before, source = _rows(alice.pk), cell.current()
    assert {"billing_ledgerentry", "completions_completion", "keys_apikey", "billing_membership"} <= before.keys()

    _check_deferred_constraints()
    call_command("move_account", "alice@example.org", str(other))

    with cell.use(source):
        assert _rows(alice.pk) == {}
        assert audit.verify() == []
    with cell.use(other):
        assert _rows(alice.pk) == before
        assert audit.verify() == []
    assert AccountPlace.objects.get(pk=alice.pk).cell == other
    assert UserPlace.objects.filter(user__email="alice@example.org", cell=other).exists()
    assert Activity.objects.get(act=Activity.Act.MOVED).account_id == alice.pk


def test_its_keys_work_as_before(other: int, alice: Account, api: APIClient, echo_model: Any) -> None:
    assert chat.ask(api).status_code == 200
    source = cell.current()
    _move(alice, other)
    directory.remember(alice.pk, source)  # as another process does, which did not move it
    assert chat.ask(api).status_code == 200
    with cell.use(other):
        assert LedgerEntry.objects.filter(account=alice.pk, type="USAGE_DEBIT").count() == 2
        assert Completion.objects.filter(account=alice.pk).count() == 2
        assert audit.verify() == []


def test_its_hashes_and_its_place_in_the_signed_tree_go_with_it(other: int, alice: Account) -> None:
    now, number = pool.database_time(), other
    roots.sign_hour(now)
    before = LedgerEntry.objects.get(account=alice).hash
    _move(alice, other)
    with cell.use(number):
        factories.credit(alice, 5)
        assert LedgerEntry.objects.get(account=alice, seq=1).hash == before
        assert roots.sign_hour(now + timedelta(hours=1)) == 1
        first, second = (inclusion.find(alice.pk, root) for root in LedgerRoot.objects.order_by("number"))
        assert first
        assert second
        assert (first.leaf, first.seq, first.hash) == (second.leaf, 1, before)
        assert (second.seq, second.hash) == (2, LedgerEntry.objects.get(account=alice, seq=2).hash)
        assert audit.verify() == []


def test_it_moves_back(other: int, alice: Account, api: APIClient, echo_model: Any) -> None:
    source = cell.current()
    _move(alice, other)
    with cell.use(other):
        _move(alice, source)
    assert directory.cell_of(alice.pk) == source
    assert chat.ask(api).status_code == 200
    with cell.use(other):
        assert _rows(alice.pk) == {}


def test_what_came_after_a_move_is_the_last_though_its_id_is_lower(other: int, alice: Account, settings: Any) -> None:
    """Each cell counts ids from a number of its own."""
    settings.KEY_FORMER_SECRETS_MAX = 1
    key, _ = factories.make_key(alice)
    source, member = cell.current(), factories.add_member(alice, factories.make_user("new@example.org"))
    for target, role in ((max(source, other), Role.VIEWER), (min(source, other), Role.DEVELOPER)):
        if cell.current() != target:
            _move(alice, target)
        Membership.objects.filter(pk=member.pk).update(role=role)
        last = rotation.rotate_secret(ApiKey.objects.get(pk=key.pk), grace=timedelta())[-4:]
        assert audit.verify() == []
    rotation.rotate_secret(ApiKey.objects.get(pk=key.pk), grace=timedelta())
    assert FormerSecret.objects.get().last_four == last


def test_a_ledger_that_is_not_consistent_stays_where_it_is(other: int, alice: Account) -> None:
    _check_deferred_constraints()
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute("UPDATE billing_ledgerentry SET balance_after_nanos = 1 WHERE account_id = %s", [alice.pk])
        cursor.execute("SET LOCAL session_replication_role = origin")
    before = _rows(alice.pk)
    with pytest.raises(moves.MoveRefused, match="balances_chain"):
        _move(alice, other)
    assert _rows(alice.pk) == before
    assert directory.cell_of(alice.pk) == cell.current()


def test_a_ledger_that_is_not_the_same_there_is_not_moved(other: int, alice: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    put = moving._move_rows

    def lose_a_cent(model: Any, account_id: Any, source: int, target: int) -> int:
        rows = put(model, account_id, source, target)
        if model is Account:
            with cell.use(target):
                Account.objects.filter(pk=account_id).update(balance_nanos=F("balance_nanos") - 10**7)
        return rows

    monkeypatch.setattr(moving, "_move_rows", lose_a_cent)
    before = _rows(alice.pk)
    _check_deferred_constraints()
    with pytest.raises(moving.Unequal), transaction.atomic():
        moves.move(alice.pk, other, lambda line: None)
    assert _rows(alice.pk) == before
    assert directory.cell_of(alice.pk) == cell.current()


def test_the_command_names_a_cell_that_does_not_exist(alice: Account) -> None:
    with pytest.raises(CommandError, match=r"CELL: .*1000"):
        call_command("move_account", "alice@example.org", "1000")


def test_nothing_is_moved_to_where_it_is(other: int, alice: Account, capsys: Any) -> None:
    call_command("move_account", "alice@example.org", str(cell.current()))
    assert f"is in cell {cell.current()} already" in capsys.readouterr().out


def test_days_that_were_signed_are_archived_though_an_account_of_them_has_moved(
    other: int, alice: Account, api: APIClient, echo_model: Any
) -> None:
    chat.ask(api)
    sum_up_usage()
    later = pool.database_time() + timedelta(days=2)
    assert signed_days.verify(later) == []
    [day] = AuditedDay.objects.values_list("day", flat=True).order_by("day")[:1]
    assert not archive._is_needed(day)
    source = cell.current()
    _move(alice, other)
    with cell.use(source):
        assert AuditedLedger.objects.filter(account=alice.pk).exists()
        assert not archive._is_needed(day)
        assert signed_days.verify(later) == []
    with cell.use(other):
        assert signed_days.verify(later) == []
        assert audit.verify() == []


def test_rows_that_others_refer_to_are_locked_before_any_moves() -> None:
    names = {model.__name__ for model in moving.owners()}
    assert names == {"AccountExport", "AccountAlert", "ApiKey", "Budget", "ManagementKey", "Payment"}
