"""Another role for a member, and the end of a membership. An account keeps an owner."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from django.core import mail
from django.db import connection
from django.test import RequestFactory

from billing.accounts import lifecycle
from billing.members import changes
from billing.models import Invitation, Membership, Role
from gateway_project.activity.models import Activity
from tests import factories, sessions
from tests.billing.members.invitation_forms import invite, link, members
from tests.pages.conftest import owner, owner_of, rows, signed_in  # noqa: F401  fixtures
from tests.waiting import meanwhile, somebody_waits, until


@pytest.fixture
def second(alice):
    """A second owner of alice's account."""
    return factories.add_member(account=alice, user=factories.make_user("second@example.org"))


@pytest.fixture
def first(alice, second):
    return alice.memberships.exclude(pk=second.pk).get()


def end(client, membership):
    return client.post(f"/dashboard/members/{membership.pk}/end/")


def change(client, membership, role):
    return client.post(f"/dashboard/members/{membership.pk}/role/", {"role": role})


def test_an_owner_changes_a_role_and_it_is_recorded(owner, alice, second):  # noqa: F811
    assert change(owner, second, "VIEWER")["Location"] == "/dashboard/members/"
    assert members(alice)["second@example.org"] == "VIEWER"
    act = Activity.objects.get()
    assert (act.act, act.account_id, act.actor) == ("MEMBER_CHANGED", alice.pk, owner_of_first(alice))
    assert (act.summary, act.before, act.after) == (
        "Changed the role of second@example.org from Owner to Viewer.",
        {"role": "OWNER"},
        {"role": "VIEWER"},
    )


def owner_of_first(account):
    return account.members.get(email="alice@example.org")


def test_the_same_role_again_records_nothing(owner, second, rows):  # noqa: F811
    before = rows()
    assert change(owner, second, "OWNER").status_code == 302
    assert rows() == before


def test_an_owner_removes_a_member_who_sees_nothing_from_then_on(owner, alice, second):  # noqa: F811
    client = signed_in(second.user)
    assert client.get("/dashboard/").status_code == 200
    assert end(owner, second)["Location"] == "/dashboard/members/"
    assert client.get("/dashboard/").status_code == 403
    act = Activity.objects.get()
    assert (act.act, act.summary) == ("MEMBER_REMOVED", "Removed second@example.org from the account.")


@pytest.mark.parametrize("role", list(Role))
def test_everybody_may_leave(alice, second, role):
    Membership.objects.filter(pk=second.pk).update(role=role)
    client = signed_in(second.user)
    assert "Leave Alice?" in client.get(f"/dashboard/members/{second.pk}/end/").content.decode()
    assert end(client, second)["Location"] == "/dashboard/"
    assert set(members(alice)) == {"alice@example.org"}
    assert Activity.objects.get().summary == "Left the account."
    alice.refresh_from_db()
    assert alice.is_active


def test_the_last_owner_neither_leaves_nor_gets_another_role(owner, alice, rows):  # noqa: F811
    factories.add_member(account=alice, user=factories.make_user("developer@example.org"), role=Role.DEVELOPER)
    own, before = alice.memberships.get(role=Role.OWNER), rows()
    page = change(owner, own, "VIEWER").content.decode()
    field = page.partition('class="field field-role"')[2]
    assert "alice@example.org is the last owner. Make someone else an owner first." in field
    assert "is the last owner" in end(owner, own).content.decode()
    assert "Leave account" not in owner.get(f"/dashboard/members/{own.pk}/end/").content.decode()
    assert rows() == before


def test_an_owner_who_cannot_sign_in_does_not_count(owner, alice, first, second, rows):  # noqa: F811
    type(second.user).objects.filter(pk=second.user_id).update(is_active=False)
    before = rows()
    assert "is the last owner" in end(owner, first).content.decode()
    assert rows() == before


def request_of(user):
    request = RequestFactory().post("/")
    request.user = user
    return request


@pytest.mark.parametrize("leave", [end, lambda client, membership: change(client, membership, "VIEWER")])
def test_of_two_owners_who_leave_at_once_one_stays(transactional_db, alice, first, second, leave):
    client = signed_in(second.user)

    def leave_later():
        try:
            return leave(client, second)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as threads:
        with meanwhile(lambda: changes.end_membership(request_of(first.user), first)):
            later = threads.submit(leave_later)
            until(somebody_waits)
        assert "second@example.org is the last owner" in later.result().content.decode()
    assert members(alice) == {"second@example.org": "OWNER"}


def test_an_owner_who_is_removed_meanwhile_changes_nothing(transactional_db, alice, first, second):
    client = signed_in(second.user)

    def remove_later():
        try:
            return end(client, first)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as threads:
        with meanwhile(lambda: changes.end_membership(request_of(first.user), second)):
            later = threads.submit(remove_later)
            until(somebody_waits)
        assert "You are no longer an owner of the account." in later.result().content.decode()
    assert members(alice) == {"alice@example.org": "OWNER"}


@pytest.mark.parametrize("lose", [end, lambda client, membership: change(client, membership, "VIEWER")])
def test_invitations_of_a_former_owner_end(owner, alice, second, lose):  # noqa: F811
    """Otherwise somebody who is removed would come back by a link to another address of theirs."""
    invite(signed_in(second.user), alice, role=Role.OWNER)
    path = link()
    lose(owner, second)
    assert Invitation.objects.get().revoked_at is not None
    assert signed_in(owner_of_first(alice)).get(path).status_code == 404


def test_staff_do_not_leave_by_themselves(owner, alice, second, rows):  # noqa: F811
    """They could credit the account afterwards."""
    type(second.user).objects.filter(pk=second.user_id).update(is_staff=True)
    second.user.refresh_from_db()
    client, before = signed_in(second.user), rows()
    assert "ask a colleague" in end(client, second).content.decode()
    assert rows() == before


def test_an_account_whose_last_active_member_leaves_is_closed(alice):
    """Its owner was deactivated before; nobody else could see or stop what its keys spend."""
    alice.members.update(is_active=False)
    viewer = factories.add_member(account=alice, user=factories.make_user("viewer@example.org"), role=Role.VIEWER)
    assert end(signed_in(viewer.user), viewer).status_code == 302
    alice.refresh_from_db()
    assert not alice.is_active
    assert list(Activity.objects.order_by("pk").values_list("act", flat=True)) == ["MEMBER_REMOVED", "CLOSED"]


def test_members_are_told_of_what_others_change(owner, alice, second, django_capture_on_commit_callbacks):  # noqa: F811
    def told(act):
        mail.outbox.clear()
        with django_capture_on_commit_callbacks(execute=True):
            act()
        return [(*message.to, str(message.body)) for message in mail.outbox]

    [(address, text)] = told(lambda: change(owner, second, "VIEWER"))
    assert address == "second@example.org"
    assert "the account Alice changed:\n\nYour role is now Viewer, no longer Owner. Changed by alice@example.org.\n" in text
    assert "on the Members page:\n\nhttp://localhost:8000/dashboard/members/\n" in text
    assert told(lambda: change(owner, second, "VIEWER")) == []  # as before
    [(address, text)] = told(lambda: end(owner, second))
    assert (address, "You are no longer a member." in text) == ("second@example.org", True)
    third = factories.add_member(account=alice, user=factories.make_user("third@example.org"), role=Role.OWNER)
    factories.add_member(account=alice, user=factories.make_user("viewer@example.org"), role=Role.VIEWER)
    [(address, text)] = told(lambda: end(signed_in(third.user), third))
    assert (address, "third@example.org has left." in text) == ("alice@example.org", True)


@pytest.mark.parametrize("act", [end, lambda client, membership: change(client, membership, "VIEWER")])
def test_members_change_only_with_a_recent_password(owner, second, rows, act):  # noqa: F811
    sessions.update(owner, password_given_at=0)
    before = rows()
    assert "Confirm with your password" in act(owner, second).content.decode()
    assert rows() == before


def test_an_account_is_opened_for_somebody_who_is_only_a_member_of_others(alice):
    factories.add_member(account=alice, user=factories.make_user("viewer@example.org"), role=Role.VIEWER)
    account, is_new = lifecycle.open_account("viewer@example.org", name="Own")
    assert is_new
    assert members(account) == {"viewer@example.org": "OWNER"}
