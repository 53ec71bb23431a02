"""The password once more, before a key is made or limited and before staff change anything."""

import html
import re

import pytest
from django.test import Client

from billing.models import LedgerEntry, User
from gateway_project.activity.models import Activity
from keys.models import ApiKey
from tests import factories
from tests.billing.sign_in.key_forms import NEW_KEY, key_form
from tests.pages.conftest import (  # fixtures
    key,  # noqa: F401
    owner,  # noqa: F401
    owner_of,
    rows,  # noqa: F401
    signed_in,
    support,  # noqa: F401
    support_user,  # noqa: F401
)
from tests.pages.desk_pages import send
from tests.sessions import expire


def carried(reply):
    """Return what the page that asks for the password sends on, beside it."""
    found = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', reply.content.decode())
    return {name: html.unescape(value) for name, value in found if name not in ("csrfmiddlewaretoken", "username")}


def test_a_key_is_made_after_the_password_and_nothing_is_typed_twice(owner, alice):  # noqa: F811
    expire(owner)
    asked = owner.post(NEW_KEY, key_form(alice))
    assert "Confirm with your password" in asked.content.decode()
    assert "no-store" in asked["Cache-Control"]
    assert not ApiKey.objects.exists()
    assert carried(asked) == key_form(alice)
    wrong = owner.post(NEW_KEY, {**carried(asked), "current_password": "wrong"})
    assert "Wrong password" in wrong.content.decode()
    assert not ApiKey.objects.exists()
    made = owner.post(NEW_KEY, {**carried(wrong), "current_password": factories.PASSWORD})
    assert "is ready" in made.content.decode()
    assert ApiKey.objects.get().name == "“laptop” <b>"


def test_the_password_counts_for_a_while(owner, alice):  # noqa: F811
    expire(owner)
    owner.post(NEW_KEY, {**key_form(alice), "current_password": factories.PASSWORD})
    owner.post(NEW_KEY, {**key_form(alice), "name": "another"})
    assert ApiKey.objects.count() == 2


def test_signing_in_gives_the_password(alice):
    client = Client()
    client.post("/accounts/login/", {"login": "alice@example.org", "password": factories.PASSWORD})
    assert "is ready" in client.post(NEW_KEY, key_form(alice)).content.decode()


def test_a_limit_needs_the_password(owner, key):  # noqa: F811
    expire(owner)
    form = {"spending_type": "FIXED", "spending_limit": "5"}
    owner.post(f"/dashboard/keys/{key.pk}/limit/", form)
    assert ApiKey.objects.get().spending_limit_cents is None
    owner.post(f"/dashboard/keys/{key.pk}/limit/", {**form, "current_password": factories.PASSWORD})
    assert ApiKey.objects.get().spending_limit_cents == 500


def test_revoking_never_waits_for_a_password(owner, support, alice, key):  # noqa: F811
    other = factories.make_key(alice, "other")[0]
    for client, path in ((owner, f"/dashboard/keys/{key.pk}/revoke/"), (support, f"/admin/keys/apikey/{other.pk}/revoke/")):
        expire(client)
        assert send(client, path, {}).status_code == 302
    assert not ApiKey.objects.filter(revoked_at=None).exists()


def test_staff_issue_no_credit_without_the_password(support, alice):  # noqa: F811
    expire(support)
    path = f"/admin/billing/account/{alice.pk}/credit/"
    page = support.get(path)
    token = page.context["form"]["token"].value()
    form = {"amount": "5", "reason": "an outage", "seen": "{}", "token": token}
    asked = support.post(path, form)
    assert LedgerEntry.objects.count() == 1
    assert carried(asked) == form
    assert support.post(path, {**carried(asked), "current_password": factories.PASSWORD}).status_code == 302
    assert LedgerEntry.objects.count() == 2


def test_a_password_in_the_form_is_not_on_the_page(support):  # noqa: F811
    expire(support)
    form = {"usable_password": "true", "password1": "a new one", "password2": "a new one"}
    asked = support.post("/admin/billing/user/1/password/", form)
    assert carried(asked) == {"usable_password": "true"}
    assert "a new one" not in asked.content.decode()


@pytest.mark.parametrize("path", ["billing/user/add/", "billing/account/", "completions/provider/add/", "rankings/alias/add/"])
def test_staff_change_nothing_in_the_admin_without_the_password(support, rows, path):  # noqa: F811
    expire(support)
    before = rows()
    assert "Confirm with your password" in support.post(f"/admin/{path}", {"email": "new@example.org"}).content.decode()
    assert rows() == before


@pytest.mark.parametrize("path", ["/admin/login/", "/accounts/login/"])
@pytest.mark.parametrize("form", [{}, {"login": "support@example.org", "password": "a wrong one"}])
def test_failing_to_sign_in_again_does_not_give_the_password(support, alice, path, form):  # noqa: F811
    expire(support)
    support.post(path, form)
    asked = support.post(f"/admin/billing/account/{alice.pk}/credit/", {"amount": "5"})
    assert "Confirm with your password" in asked.content.decode()


@pytest.mark.parametrize("path", ["/admin/password_change/", "/dashboard/password/"])
def test_guessing_the_present_password_in_order_to_change_it_is_limited(alice, path):
    user = owner_of(alice)
    User.objects.filter(pk=user.pk).update(is_staff=True)
    client = signed_in(user)
    form = {"new_password1": "a whole new sentence", "new_password2": "a whole new sentence"}
    statuses = [client.post(path, {**form, "old_password": f"guess {number}"}).status_code for number in range(40)]
    assert statuses[0] == 200
    assert statuses[-1] == 429
    user.refresh_from_db()
    assert user.check_password(factories.PASSWORD)


@pytest.mark.parametrize("path", ["/admin/password_change/", "/dashboard/password/"])
def test_a_password_is_changed_and_that_is_recorded(alice, path):
    user = owner_of(alice)
    User.objects.filter(pk=user.pk).update(is_staff=True)
    client = signed_in(user)
    form = {
        "old_password": factories.PASSWORD,
        "new_password1": "a whole new sentence",
        "new_password2": "a whole new sentence",
    }
    assert client.get(path).status_code == 200
    assert client.post(path, {**form, "old_password": factories.PASSWORD}).status_code == 302
    user.refresh_from_db()
    assert user.check_password("a whole new sentence")
    assert list(Activity.objects.values_list("act", "actor", "object_id")) == [("PASSWORD_CHANGED", user.pk, str(user.pk))]


def test_staff_can_leave_without_the_password(support):  # noqa: F811
    expire(support)
    support.post("/admin/logout/")
    assert support.get("/admin/").status_code == 302


def test_guessing_the_password_in_a_session_is_limited(owner, alice, monkeypatch):  # noqa: F811
    from billing.sign_in import limits

    monkeypatch.setitem(limits.RATES, "user", limits.Rate(2, 3_600))
    expire(owner)
    guess = {**key_form(alice), "current_password": "wrong"}
    assert [owner.post(NEW_KEY, guess).status_code for _ in range(3)] == [200, 200, 429]
    assert owner.post(NEW_KEY, {**guess, "current_password": factories.PASSWORD}).status_code == 429
    assert not ApiKey.objects.exists()
