"""Commands for accounts, credits and the audit: their JSON, their text, and errors that name the argument."""

import json
from datetime import timedelta
from io import StringIO
from typing import Any
from uuid import UUID

import django
import pytest
from django.core.management import ManagementUtility, call_command
from django.core.management.base import CommandError
from django.db import connection

from billing import money
from billing.models import Account, LedgerEntry, Membership, User
from gateway_project import operator_command
from gateway_project.activity.models import Activity
from gateway_project.db import pool
from gateway_project.monitoring.models import TaskRun
from tests import factories, second_factors, usage


def run(*argv: str) -> tuple[str, str]:
    """Return what the command prints to stdout and to stderr."""
    stdout, stderr = StringIO(), StringIO()
    call_command(*argv, stdout=stdout, stderr=stderr)
    return stdout.getvalue(), stderr.getvalue()


def answer(*argv: str) -> Any:
    """Return the only JSON object on stdout."""
    return json.loads(run(*argv, "--json")[0])


def refusal(*argv: str) -> str:
    with pytest.raises(CommandError) as error:
        run(*argv, "--json")
    assert error.value.returncode == 1
    return str(error.value)


# --- create_account ------------------------------------------------------------------------------------------------


def test_an_account_is_opened_for_a_new_user(db):
    reply = answer("create_account", " Ann@Example.org ", "--name", "Ann & Co")
    assert set(reply) == {"account"}
    account = Account.objects.get(pk=UUID(reply["account"]))
    assert (account.name, account.balance_nanos, account.is_active) == ("Ann & Co", 0, True)
    person = account.members.get()
    assert (person.email, person.is_staff, person.has_usable_password()) == ("ann@example.org", False, False)


def test_an_account_is_named_after_its_owner_by_default(db):
    stdout, _ = run("create_account", "ann@example.org")
    account = Account.objects.get()
    assert account.name == "ann@example.org"
    assert str(account.pk) in stdout
    assert "manage.py changepassword ann@example.org" in stdout


def test_an_account_is_opened_with_a_credit_once(db):
    reply = answer("create_account", "ann@example.org", "--credit", "1000")
    assert answer("create_account", "ann@example.org", "--credit", "1000") == reply
    entry = LedgerEntry.objects.get()
    assert (str(entry.account_id), entry.type, entry.amount_nanos) == (reply["account"], "SUPPORT_CREDIT", 10_000_000_000)


def test_a_credit_that_is_no_amount_opens_no_account(db):
    for cents in ("0", "ten", "-1"):
        assert refusal("create_account", "ann@example.org", "--credit", cents).startswith("--credit: ")
    assert not Account.objects.exists()


def test_opening_twice_reports_the_same_account_and_changes_nothing(alice):
    assert answer("create_account", "ALICE@example.org", "--name", "Other") == {"account": str(alice.pk)}
    assert "nothing was changed" in run("create_account", "alice@example.org")[0]
    assert (Account.objects.get().name, User.objects.count(), Membership.objects.count()) == ("Alice", 1, 1)


def test_a_user_without_an_account_gets_one_and_keeps_the_password(db):
    person = factories.make_user("ann@example.org")
    answer("create_account", "ann@example.org")
    assert Membership.objects.get().user == person
    assert User.objects.get().check_password(factories.PASSWORD)


@pytest.mark.parametrize("email", ["", "ann", "@example.org", "ann@example.org, bob@example.org", "a" * 250 + "@example.org"])
def test_an_account_needs_an_address(db, email):
    assert refusal("create_account", email).startswith("EMAIL: ")
    assert not User.objects.exists()
    assert not Account.objects.exists()


@pytest.mark.parametrize("name", ["", "  ", "two\nlines", "n" * 201])
def test_an_account_needs_a_printable_name(db, name):
    assert refusal("create_account", "ann@example.org", "--name", name).startswith("--name: ")
    assert not User.objects.exists()


# --- grant_credit --------------------------------------------------------------------------------------------------


def test_a_credit_is_granted(alice):
    usage.spend(alice, 1)
    reply = answer("grant_credit", "alice@example.org", "500", "--reason", "outage of Friday")
    entry = LedgerEntry.objects.get(pk=UUID(reply["entry"]))
    assert reply == {"entry": str(entry.pk), "balanceInCents": 1499}
    assert (entry.account, entry.type, entry.amount_nanos) == (alice, "SUPPORT_CREDIT", money.nanos(500))
    assert entry.metadata == {"reason": "outage of Friday"}
    log = Activity.objects.get()
    assert (log.act, log.actor, log.account_id, log.reason) == ("CREDITED", None, alice.pk, "outage of Friday")
    manual = entry.manual_entry
    assert (manual.account, manual.amount_nanos, manual.operator) == (alice, entry.amount_nanos, operator_command.operator())


def test_without_a_reference_every_grant_is_a_new_one(alice):
    for _ in range(2):
        assert "Credited 1 cents as entry " in run("grant_credit", "alice@example.org", "1", "--reason", "again")[0]
    assert usage.numbers(alice)["balance"] == money.nanos(1002)


def test_with_a_reference_repeating_a_grant_credits_once(alice):
    argv = ("grant_credit", "alice@example.org", "500", "--reason", "sorry", "--reference", "ticket-1")
    first = answer(*argv)
    assert answer(*argv) == first
    assert usage.numbers(alice)["entries"][1:] == [("SUPPORT_CREDIT", money.nanos(500), "support:ticket-1")]
    assert run(*argv)[0].strip() == (
        f"Reference ticket-1 was credited already, as entry {first['entry']}; nothing was added. The balance is 1500 cents."
    )


def test_a_reference_of_another_grant_is_refused(alice):
    run("grant_credit", "alice@example.org", "500", "--reason", "sorry", "--reference", "ticket-1")
    before = usage.numbers(alice)
    message = refusal("grant_credit", "alice@example.org", "501", "--reason", "sorry", "--reference", "ticket-1")
    assert message.startswith("--reference: ")
    assert usage.numbers(alice) == before


@pytest.mark.parametrize(
    ("argv", "argument"),
    [
        (["alice@example.org", "0", "--reason", "r"], "CENTS"),
        (["alice@example.org", "-5", "--reason", "r"], "CENTS"),
        (["alice@example.org", "5.00", "--reason", "r"], "CENTS"),
        (["alice@example.org", "five", "--reason", "r"], "CENTS"),
        (["alice@example.org", "922337203686", "--reason", "r"], "CENTS"),
        (["alice@example.org", "922337203685", "--reason", "r"], "CENTS"),  # in bounds alone, but not when added to the balance
        (["alice@example.org", "5", "--reason", " "], "--reason"),
        (["alice@example.org", "5", "--reason", "r", "--reference", "r" * 201], "--reference"),
        (["alice@example.org", "5", "--reason", "r", "--account", "alice"], "--account"),
        (["alice@example.org", "5", "--reason", "r", "--account", "01a1feb2-a99b-7389-bc88-ae316baa9ade"], "EMAIL"),
        (["nobody@example.org", "5", "--reason", "r"], "EMAIL"),
        (["nobody", "5", "--reason", "r"], "EMAIL"),
    ],
)
def test_an_invalid_grant_names_the_wrong_argument(alice, argv, argument):
    before = usage.numbers(alice)
    assert refusal("grant_credit", *argv).startswith(f"{argument}: ")
    assert usage.numbers(alice) == before


def test_of_several_accounts_one_must_be_chosen(alice):
    second = factories.make_account("Second", owner=alice.members.get())
    message = refusal("grant_credit", "alice@example.org", "5", "--reason", "r")
    assert str(alice.pk) in message
    assert str(second.pk) in message
    assert answer("grant_credit", "alice@example.org", "5", "--reason", "r", "--account", str(second.pk))["balanceInCents"] == 5
    assert refusal("create_account", "alice@example.org").startswith("EMAIL: ")
    assert usage.numbers(alice)["balance"] == money.nanos(1000)


# --- verify_ledger -------------------------------------------------------------------------------------------------


def break_the_ledger(account: Account) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
        cursor.execute("UPDATE billing_account SET held_nanos = 7 WHERE id = %s", [account.pk])


@pytest.mark.one_cell
def test_a_consistent_ledger_is_reported_as_such(alice):
    stdout, stderr = run("verify_ledger", "--json")
    reply = json.loads(stdout)
    assert (reply["ok"], reply["violations"]) == (True, [])
    assert len(stderr.splitlines()) == reply["questions"] > 14
    assert "The ledger is consistent" in run("verify_ledger")[0]


@pytest.mark.parametrize("one", [True, False])
@pytest.mark.one_cell
def test_an_inconsistent_ledger_is_an_error_with_its_violations(alice, bob, one):
    break_the_ledger(alice)
    stdout = StringIO()
    with pytest.raises(CommandError, match="not consistent: 1 of"):
        call_command(
            "verify_ledger", "--json", *(["--account", str(alice.pk)] if one else []), stdout=stdout, stderr=StringIO()
        )
    reply = json.loads(stdout.getvalue())
    (violation,) = reply["violations"]
    assert reply["ok"] is False
    assert violation == {
        "question": "open_holds_sum_to_what_is_held",
        "kind": "untrue",
        "invariant": "What an account holds is the sum of its open holds.",
        "count": 1,
        "rows": [{"account_id": str(alice.pk), "held_nanos": 7, "sum_nanos": 0}],
    }
    assert json.loads(run("verify_ledger", "--json", "--account", str(bob.pk))[0])["ok"] is True


def test_the_text_output_lists_violations_line_by_line(alice):
    break_the_ledger(alice)
    stdout = StringIO()
    with pytest.raises(CommandError):
        call_command("verify_ledger", stdout=stdout, stderr=StringIO())
    assert f"account_id={alice.pk}, held_nanos=7, sum_nanos=0" in stdout.getvalue()


def test_an_audit_of_all_accounts_is_noted_for_the_alerts_and_one_of_an_account_is_not(alice):
    run("verify_ledger", "--account", str(alice.pk))
    assert not TaskRun.objects.exists()
    run("verify_ledger")
    noted = TaskRun.objects.get(name="billing.tasks.verify_ledger")
    assert (noted.result, pool.database_time() - noted.finished_at < timedelta(minutes=1)) == (0, True)
    break_the_ledger(alice)
    with pytest.raises(CommandError):
        run("verify_ledger")
    assert TaskRun.objects.get(name="billing.tasks.verify_ledger").result == 1


def test_an_audit_of_a_database_that_takes_no_writes_is_not_noted(alice):
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL transaction_read_only = on")
    stdout, stderr = run("verify_ledger")
    assert "The ledger is consistent" in stdout
    assert "The metrics are not told: cannot execute INSERT in a read-only transaction" in stderr


@pytest.mark.parametrize("account_id", ["alice", "", "01a1feb2-a99b-7389-bc88-ae316baa9ade"])
def test_an_account_to_verify_must_exist(db, account_id):
    assert refusal("verify_ledger", "--account", account_id).startswith("--account: ")


@pytest.mark.django_db(transaction=True)
def test_the_exit_status_says_whether_the_ledger_is_consistent(capsys, monkeypatch):
    monkeypatch.setattr(django, "setup", lambda: None)  # else later tests log to a closed stream
    account = factories.make_account("Alice", cents=1000)
    ManagementUtility(["manage.py", "verify_ledger"]).execute()
    Account.objects.filter(pk=account.pk).update(held_nanos=7)
    with pytest.raises(SystemExit) as exit:
        ManagementUtility(["manage.py", "verify_ledger"]).execute()
    assert exit.value.code == 1
    assert "open_holds_sum_to_what_is_held" in capsys.readouterr().out


# --- remove_second_factors ------------------------------------------------------------------------------------------


def test_lost_second_factors_are_removed(alice):
    second_factors.give_app(alice.members.get())
    assert answer("remove_second_factors", "Alice@example.org") == {"removed": 1}
    assert answer("remove_second_factors", "alice@example.org") == {"removed": 0}
    assert Activity.objects.get(act="DELETED").actor is None


def test_second_factors_of_nobody_are_not_removed(db):
    assert refusal("remove_second_factors", "nobody@example.org") == "EMAIL: there is no user nobody@example.org."
