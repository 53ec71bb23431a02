"""An account whose last active member leaves is closed: nobody could see or stop what its keys spend."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection

from billing.models import Account, User
from gateway_project import identifiers
from gateway_project.activity.models import Activity
from tests import factories
from tests.conftest import client_for
from tests.pages.conftest import owner_of, signed_in
from tests.pages.dashboard_pages import text
from tests.pages.desk_pages import account_page, accounts_form, page, user_form


def reopen(client, account):
    form = {"reason": "a service", "ticket": "", "token": identifiers.short_uuid7(), "seen": "{}"}
    assert client.post(account_page(account, "reopen"), form).status_code == 302


def several(model, pk):
    return f"/admin/billing/{model}/", {"action": "delete_selected", "_selected_action": [pk], "post": "yes"}


WAYS_TO_LEAVE = {
    "deactivated": lambda account: (page("user", owner_of(account).pk), user_form(owner_of(account), is_active="")),
    "deleted": lambda account: (page("user", owner_of(account).pk, "delete"), {"post": "yes"}),
    "deleted with others": lambda account: several("user", owner_of(account).pk),
    "removed on the user's page": lambda account: (
        page("user", owner_of(account).pk),
        user_form(owner_of(account), **{"memberships-0-DELETE": "on"}),
    ),
    "removed on the account's page": lambda account: (
        account_page(account),
        accounts_form(account, **{"memberships-0-DELETE": "on"}),
    ),
    "membership deleted": lambda account: (page("membership", account.memberships.get().pk, "delete"), {"post": "yes"}),
    "membership deleted with others": lambda account: several("membership", account.memberships.get().pk),
}


@pytest.mark.parametrize("way", WAYS_TO_LEAVE)
def test_an_account_is_closed_with_its_last_active_member(superuser, alice, charlie, way):
    caller = client_for(factories.make_key(alice)[1])
    assert caller.get("/v1/models").status_code == 200
    path, form = WAYS_TO_LEAVE[way](alice)
    assert superuser.post(path, form).status_code == 302
    assert caller.get("/v1/models").status_code == 401
    assert set(Account.objects.filter(is_active=True)) & {alice, charlie} == {charlie}
    said = text(superuser.get(account_page(alice)))
    assert "The account Alice is closed, because no member is active." in said
    assert "Closed, because no member is active." in text(superuser.get(account_page(alice, "history"), follow=True))


@pytest.mark.parametrize("way", ["deactivated", "deleted", "removed on the user's page"])
def test_an_account_with_another_active_member_stays_open(superuser, alice, way):
    path, form = WAYS_TO_LEAVE[way](alice)
    factories.add_member(account=alice, user=factories.make_user("second@example.org"))
    assert superuser.post(path, form).status_code == 302
    assert Account.objects.get(pk=alice.pk).is_active
    shown = text(superuser.get(account_page(alice)))
    assert "No active members" not in shown
    assert "no member is active" not in shown


def test_an_inactive_member_does_not_keep_an_account_open(superuser, alice):
    path, form = WAYS_TO_LEAVE["deactivated"](alice)
    factories.add_member(account=alice, user=factories.make_user("second@example.org", is_active=False))
    superuser.post(path, form)
    assert not Account.objects.get(pk=alice.pk).is_active


def test_a_form_that_is_refused_closes_nothing(superuser, alice, rows):
    path, form = WAYS_TO_LEAVE["deactivated"](alice)
    before = rows()
    assert superuser.post(path, {**form, "email": "no address"}).status_code == 200
    assert rows() == before


def test_an_account_that_staff_opened_on_purpose_stays_open_and_its_page_says_why(superuser, alice):
    User.objects.filter(pk=owner_of(alice).pk).update(is_active=False)
    Account.objects.filter(pk=alice.pk).update(is_active=False)
    assert "No active members: no one can sign in to manage this account." in text(superuser.get(account_page(alice)))
    reopen(superuser, alice)
    assert superuser.post(account_page(alice), accounts_form(alice, name="Renamed")).status_code == 302
    kept = Account.objects.get(pk=alice.pk)
    assert (kept.name, kept.is_active) == ("Renamed", True)
    assert "Its keys still work because the account is open." in text(superuser.get(account_page(alice)))
    assert "no member is active" not in str(Activity.objects.values_list("summary"))


def test_accounts_without_an_active_member_are_listed(superuser, alice, charlie):
    User.objects.filter(pk=owner_of(alice).pk).update(is_active=False)
    listed = {value: superuser.get("/admin/billing/account/", {"active_member": value}) for value in ("yes", "no")}
    assert {value: list(reply.context["cl"].result_list) for value, reply in listed.items()} == {
        "yes": [charlie],
        "no": [alice],
    }


def test_two_last_members_who_leave_at_once_close_the_account(transactional_db):
    users = [factories.make_user(f"{name}@example.org") for name in ("first", "second")]
    account = factories.make_account("Both", owner=users[0])
    factories.add_member(account=account, user=users[1])
    root = User.objects.create_superuser("root@example.org", factories.PASSWORD)

    def deactivate(user):
        try:
            return signed_in(root).post(page("user", user.pk), user_form(user, is_active="")).status_code
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(deactivate, users)) == [302, 302]
    assert not Account.objects.get().is_active
