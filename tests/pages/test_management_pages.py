"""The dashboard's pages of management keys."""

import re

import pytest
from django.utils import timezone

from billing.models import Membership, Role
from gateway_project.activity.models import Activity
from keys import management_keys
from keys.models import ManagementKey
from tests import factories
from tests.conftest import client_for
from tests.pages.conftest import session_texts, signed_in
from tests.pages.dashboard_pages import text

PAGE = "/dashboard/keys/management/"
SECRET = re.compile(r"mgw_manage_[0-9A-Za-z]{22}_[0-9A-Za-z]{38}")


@pytest.fixture
def manager(alice):
    return management_keys.issue(alice, name="terraform", created_by=alice.members.get())


def test_an_owner_makes_a_management_key_and_sees_its_secret_once(owner, alice):
    reply = owner.post(f"{PAGE}new/", {"name": "terraform"})
    [minted] = SECRET.findall(reply.content.decode())
    assert client_for(minted).get("/api/keys").status_code == 200
    made = ManagementKey.objects.get()
    assert (made.account, made.name, made.created_by) == (alice, "terraform", alice.members.get())
    listed = text(owner.get(PAGE))
    assert f"terraform Active mgw_manage_…{minted[-4:]} " in listed
    assert not SECRET.search(listed + session_texts())
    assert list(Activity.objects.values_list("act", "account_id")) == [("MANAGEMENT_KEY_MADE", alice.pk)]


def test_a_form_that_is_sent_twice_makes_one(owner):
    owner.post(f"{PAGE}new/", {"name": "terraform"})
    assert "its secret was shown then" in text(owner.post(f"{PAGE}new/", {"name": "Terraform"}))
    assert ManagementKey.objects.count() == 1


def test_an_owner_revokes_a_management_key(owner, manager):
    key, minted = manager
    assert "Keys created with it keep working" in text(owner.get(f"{PAGE}{key.pk}/revoke/"))
    for _ in range(2):
        assert "terraform is revoked" in text(owner.post(f"{PAGE}{key.pk}/revoke/", follow=True))
    assert client_for(minted).get("/api/keys").status_code == 401
    assert [act.act for act in Activity.objects.all()] == ["MANAGEMENT_KEY_REVOKED"]


def test_others_see_management_keys_and_neither_make_nor_revoke_them(alice, manager):
    user = factories.make_user("dev@example.org")
    factories.add_member(account=alice, user=user, role=Role.DEVELOPER)
    client = signed_in(user)
    page = client.get(PAGE).content.decode()
    assert "terraform" in page
    assert "/revoke/" not in page
    assert "/new/" not in page
    assert client.post(f"{PAGE}{manager[0].pk}/revoke/").status_code == 403


def test_a_leaked_management_key_is_found_to_be_revoked(owner, alice, manager):
    key, minted = manager
    reply = owner.post("/dashboard/keys/find/", {"secret": minted}, follow=True)
    assert reply.redirect_chain == [(f"{PAGE}{key.pk}/revoke/", 302)]
    assert minted not in reply.content.decode()
    Membership.objects.update(role=Role.DEVELOPER)
    assert "An owner of Alice can revoke it" in text(owner.post("/dashboard/keys/find/", {"secret": minted}, follow=True))
    ManagementKey.objects.update(revoked_at=timezone.now())
    assert "revoked already" in text(owner.post("/dashboard/keys/find/", {"secret": minted}, follow=True))


def test_a_management_key_of_others_is_not_found(owner, charlie):
    _, minted = management_keys.issue(charlie, name="theirs", created_by=charlie.members.get())
    assert "No key in your accounts has" in text(owner.post("/dashboard/keys/find/", {"secret": minted}))


def test_support_sees_which_management_key_acted(superuser, alice, manager):
    api = client_for(manager[1])
    key_id = api.post("/api/keys", {"name": "build"}).json()["id"]
    for page in ("activity/activity/", f"billing/account/{alice.pk}/change/"):
        assert f"management key terraform (...{manager[0].last_four})" in text(superuser.get(f"/admin/{page}"))
    assert "terraform" in text(superuser.get("/admin/keys/managementkey/"))
    assert superuser.get(f"/admin/keys/apikey/{key_id}/change/").status_code == 200
