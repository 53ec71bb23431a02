"""What belongs to an account is found in the account's cell, whoever asks and however it is named."""

from typing import Any

import pytest
from django.core.management import call_command
from django.db import IntegrityError
from django.test import Client
from rest_framework.test import APIClient

from billing.accounts import lifecycle
from billing.ledger import audit, writer
from billing.models import Account, LedgerEntry, Membership, User
from billing.staff import support_credit
from completions.charging.recovery import sweeper
from completions.models import Completion
from gateway_project import identifiers
from gateway_project.cells import directory
from gateway_project.cells.models import AccountPlace, Cell, Reference, SignedDay, UserPlace
from gateway_project.db import cell
from keys import management_keys, secret
from keys.models import ApiKey
from tests import chat, factories, sessions
from tests.conftest import client_for


@pytest.fixture
def remote(second: int) -> Account:
    """An account with credit in the second cell, of its owner remote@example.org."""
    with cell.use(second):
        return factories.make_account("Remote", cents=1000, owner=factories.make_user("remote@example.org"))


@pytest.fixture
def remote_secret(second: int, remote: Account) -> str:
    with cell.use(second):
        return factories.make_key(remote)[1]


def _found(number: int) -> set[str]:
    with cell.use(number):
        return {violation.invariant.name for violation in audit.verify()}


# --- Accounts ---------------------------------------------------------------------------------------------------------


def test_an_account_that_the_directory_refuses_is_not_written(transactional_db: None) -> None:
    taken = identifiers.uuid7()
    AccountPlace.objects.create(account_id=taken, cell=cell.FIRST)
    with pytest.raises(IntegrityError):
        Account(pk=taken, name="Refused").save()
    assert not Account.objects.filter(pk=taken).exists()


# --- Keys -------------------------------------------------------------------------------------------------------------


def test_a_completion_is_charged_in_the_cell_of_its_key(second: int, remote_secret: str, echo_model: Any) -> None:
    with cell.use(cell.FIRST):
        assert chat.ask(client_for(remote_secret)).status_code == 200
        assert not Completion.objects.exists()
        assert not LedgerEntry.objects.filter(type="USAGE_DEBIT").exists()
    with cell.use(second):
        assert Completion.objects.get().settlement == "reported"
        assert LedgerEntry.objects.filter(type="USAGE_DEBIT").count() == 1
    assert _found(second) == set()


def test_a_new_secret_says_in_which_cell_it_was_made(second: int, remote_secret: str) -> None:
    id = secret.key_id(remote_secret)
    assert id is not None
    assert secret.cell_number(id) == second


def test_an_older_secret_is_found_by_the_directory(second: int, remote: Account, echo_model: Any) -> None:
    with cell.use(second):
        key = ApiKey(id="0" * 20 + "zz", account=remote, name="from before there were cells")
        minted = secret.mint(key.pk)
        key.digest, key.last_four = secret.digest(minted, "test pepper"), minted[-4:]
        key.save(force_insert=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("django.conf.settings.KEY_PEPPERS", ["test pepper"])
        assert chat.ask(client_for(minted)).status_code == 200
        assert client_for(minted).get("/api/billing/balance").status_code == 200


def test_a_management_key_manages_the_keys_of_its_cell(second: int, remote: Account) -> None:
    with cell.use(second):
        _, minted = management_keys.issue(remote, name="program", created_by=User.objects.get(email="remote@example.org"))
    made = client_for(minted).post("/api/keys", {"name": "by program"})
    assert made.status_code == 201
    with cell.use(second):
        assert ApiKey.objects.get().name == "by program"
    assert _found(second) == set()


@pytest.mark.parametrize("is_known", [True, False], ids=["of a cell that is there", "of a cell that is not"])
def test_an_unknown_key_is_refused_as_ever(second: int, is_known: bool) -> None:
    minted = secret.mint(secret.new_key_id(second if is_known else 999))
    assert client_for(minted).get("/api/billing/balance").status_code == 401


# --- People -----------------------------------------------------------------------------------------------------------


def test_a_member_of_accounts_in_two_cells_selects_one(second: int, remote: Account, alice: Account) -> None:
    both = User.objects.get(email="alice@example.org")
    with cell.use(second):
        factories.add_member(remote, both)
    client = Client()
    sessions.sign_in(client, both)
    pages = {}
    for account in (alice, remote):
        assert client.post("/dashboard/account/", {"account": str(account.pk)}).status_code == 302
        pages[account.name] = client.get("/dashboard/settings/").content.decode()
    assert all("Alice" in page and "Remote" in page for page in pages.values())
    assert str(remote.pk) in pages["Remote"]
    assert str(alice.pk) in pages["Alice"]


def test_a_new_account_is_opened_in_the_open_cell_with_the_fewest(second: int, alice: Account) -> None:
    account, is_new = lifecycle.open_account("new@example.org", name="New")
    assert is_new
    assert directory.cell_of(account.pk) == second == cell.current()
    assert Membership.objects.get(account=account).user.email == "new@example.org"
    with cell.use(cell.FIRST):
        assert lifecycle.open_account("new@example.org", name="Again") == (account, False)


def test_without_an_open_cell_accounts_are_opened_in_the_first(second: int) -> None:
    Cell.objects.update(is_open=False)
    cell.read_again()
    account, _ = lifecycle.open_account("new@example.org", name="New")
    assert directory.cell_of(account.pk) == cell.FIRST


def test_commands_find_an_account_in_its_cell(second: int, remote: Account) -> None:
    with cell.use(cell.FIRST):
        call_command("grant_credit", "remote@example.org", "500", reason="a gift", reference="gift-1")
    with cell.use(second):
        assert Account.objects.get(pk=remote.pk).balance_nanos == 15 * 10**9
    assert _found(second) == set()


def test_a_reference_is_booked_once_in_all_cells(second: int, remote: Account, alice: Account) -> None:
    writer.grant_support_credit(alice.pk, amount_cents=100, reason="a gift", reference="gift-1")
    with cell.use(second), pytest.raises(writer.ReferenceReused):
        writer.grant_support_credit(remote.pk, amount_cents=100, reason="a gift", reference="gift-1")
    with cell.use(second):
        assert Account.objects.get(pk=remote.pk).balance_nanos == 10 * 10**9
        assert LedgerEntry.objects.filter(account=remote).count() == 1
    assert _found(second) == set()


@pytest.mark.one_cell
def test_what_staff_credit_in_a_day_is_summed_over_all_cells(
    second: int, remote: Account, alice: Account, admin_user: User
) -> None:
    before = support_credit.left_today_cents(admin_user)
    for number, account in ((cell.current(), alice), (second, remote)):
        with cell.use(number):
            writer.grant_support_credit(
                account.pk, amount_cents=100, reason="sorry", reference=f"s{number}", issued_by=admin_user
            )
    assert support_credit.left_today_cents(admin_user) == before - 200


# --- Staff ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def staff(admin_user: User) -> Client:
    client = Client()
    sessions.sign_in(client, admin_user)
    return client


def test_the_search_of_staff_finds_an_account_in_any_cell(second: int, remote: Account, alice: Account, staff: Client) -> None:
    for account in (remote, alice):
        assert staff.get("/admin/search/", {"q": str(account.pk)})["Location"] == f"/admin/billing/account/{account.pk}/change/"


def test_the_page_of_an_account_is_found_in_its_cell(second: int, remote: Account, staff: Client) -> None:
    page = staff.get(f"/admin/billing/account/{remote.pk}/change/")
    assert page.status_code == 200
    assert "remote@example.org" in page.content.decode()


@pytest.mark.one_cell
def test_a_member_of_an_account_in_another_cell_is_not_deleted(
    second: int, remote: Account, alice: Account, staff: Client
) -> None:
    both = User.objects.get(email="alice@example.org")
    with cell.use(second):
        factories.add_member(remote, both)
    staff.post(f"/admin/billing/user/{both.pk}/delete/", {"post": "yes"})
    assert User.objects.filter(pk=both.pk).exists()


def test_staff_choose_the_cell_of_lists(second: int, remote: Account, staff: Client) -> None:
    with cell.use(cell.FIRST):
        factories.make_account("Nearby")
    for number, shown, hidden in ((cell.FIRST, "Nearby", "Remote"), (second, "Remote", "Nearby")):
        assert staff.post("/admin/cell/", {"cell": number, "next": "/admin/billing/account/"}).status_code == 302
        page = staff.get("/admin/billing/account/").content.decode()
        assert shown in page
        assert hidden not in page


def test_with_one_cell_staff_see_nothing_of_it(alice: Account, staff: Client) -> None:
    if not cell.are_several():
        assert 'name="cell"' not in staff.get("/admin/billing/account/").content.decode()


# --- Background -------------------------------------------------------------------------------------------------------


def test_the_sweeper_releases_holds_in_every_cell(second: int, remote_secret: str, api: APIClient, echo_model: Any) -> None:
    assert sweeper.release_expired_holds() == 0
    chat.ask(client_for(remote_secret))
    chat.ask(api)
    for number in cell.numbers():
        with cell.use(number):
            assert Completion.objects.filter(settlement=None).count() == 0


def test_the_audit_finds_what_the_directory_does_not_say(second: int, remote: Account, remote_secret: str) -> None:
    assert _found(second) == _found(cell.FIRST) == set()
    AccountPlace.objects.filter(pk=remote.pk).update(cell=cell.FIRST)
    assert _found(second) == _found(cell.FIRST) == {"accounts_are_where_the_directory_says"}
    AccountPlace.objects.filter(pk=remote.pk).delete()
    assert _found(second) == {"accounts_are_where_the_directory_says"}
    AccountPlace.objects.create(account_id=remote.pk, cell=second)
    Reference.objects.filter(account_id=remote.pk).delete()
    assert _found(second) == {"references_lead_to_their_accounts"}


def test_the_audit_finds_an_emptied_directory_of_users(second: int, remote: Account) -> None:
    UserPlace.objects.all().delete()
    assert _found(cell.FIRST) == set()
    assert _found(second) == {"users_lead_to_their_accounts"}


def test_the_audit_finds_a_cell_that_is_older_than_what_it_signed(second: int) -> None:
    SignedDay.objects.create(cell=second, day="2026-01-01", digest="0" * 64)
    assert _found(cell.FIRST) == set()
    assert _found(second) == {"the_last_signed_day_is_there"}
