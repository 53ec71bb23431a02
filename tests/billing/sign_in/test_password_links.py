"""Links by which users set a password: invitations by staff, and those who forgot it."""

import re
from datetime import timedelta

import pytest
from django.core import mail
from django.db import connection
from django.db.models import F
from django.test import Client
from django.test.utils import CaptureQueriesContext

from billing.models import PasswordLink, User
from billing.sign_in import limits
from gateway_project.activity.models import Activity
from tests import factories, second_factors
from tests.pages.conftest import (  # fixtures
    make_staff,
    owner_of,
    rows,  # noqa: F401
    signed_in,
    stranger,  # noqa: F401
    superuser,  # noqa: F401
)

SIGN_IN, RESET, USERS, LINKS = (
    "/accounts/login/",
    "/accounts/password/reset/",
    "/admin/billing/user/",
    "/admin/billing/passwordlink/",
)
NEW = "a wholly new sentence"
EMAIL = "new@example.org"


@pytest.fixture
def invited(superuser, django_capture_on_commit_callbacks):  # noqa: F811
    """A user whom a superuser has invited."""
    with django_capture_on_commit_callbacks(execute=True):
        assert superuser.post(f"{USERS}add/", {"email": EMAIL, "is_staff": "on"}).status_code == 302
    return User.objects.get(email=EMAIL)


def link():
    """Return the path and query of the link in the last mail."""
    [found] = re.findall(r"^http://testserver(/\S+)$", str(mail.outbox[-1].body), re.M)
    return found


def set_password(path, client=None, password=NEW):
    key = path.partition("?key=")[2]
    return (client or Client()).post(
        "/accounts/password/link/", {"key": key, "new_password1": password, "new_password2": password}
    )


def can_sign_in(email, password=NEW):
    return Client().post(SIGN_IN, {"login": email, "password": password}).status_code == 302


def assert_ended(path):
    before = list(User.objects.values())
    for reply in (Client().get(path), set_password(path, password="another sentence of mine")):
        assert reply.status_code == 404
        assert "This link no longer works" in reply.content.decode()
    assert list(User.objects.values()) == before


def test_an_invited_person_chooses_a_password_once(invited):
    assert not invited.has_usable_password()
    assert mail.outbox[0].to == [EMAIL]
    path = link()
    page = Client().get(path)
    assert (page.status_code, EMAIL in page.content.decode()) == (200, True)
    assert "no-store" in page["Cache-Control"]
    assert "too common" in set_password(path, password="password1234").content.decode()
    assert set_password(path)["Location"] == SIGN_IN
    assert can_sign_in(EMAIL)
    assert_ended(path)
    acts = Activity.objects.filter(object_id=str(invited.pk)).order_by("id").values_list("act", "actor__email")
    assert list(acts) == [("ADDED", "root@example.org"), ("INVITED", "root@example.org"), ("PASSWORD_CHANGED", None)]


def test_the_secret_of_a_link_is_neither_stored_nor_logged(invited, caplog):
    path = link()
    Client().get(path)
    set_password(path)
    secret = path.partition("?key=")[2]
    assert len(secret) > 40
    assert secret not in caplog.text
    assert secret not in str([*PasswordLink.objects.values(), *Activity.objects.values()])


def test_a_link_ends_with_its_time(invited):
    PasswordLink.objects.update(expires_at=F("expires_at") - timedelta(days=7))
    assert_ended(link())


def test_a_link_ends_with_its_user(invited):
    User.objects.filter(pk=invited.pk).update(is_active=False)
    assert_ended(link())


@pytest.mark.parametrize("key", ["", "nonsense", "\x00"])
def test_a_forged_link_does_not_work(invited, key):
    assert set_password(f"?key={key}").status_code == 404


def test_a_later_link_replaces_an_earlier_one(superuser, invited):  # noqa: F811
    first = link()
    superuser.post(USERS, {"action": "send_password_links", "_selected_action": [invited.pk]})
    assert_ended(first)
    assert set_password(link()).status_code == 302


def test_staff_see_open_invitations_and_revoke_them(superuser, invited):  # noqa: F811
    page = superuser.get(LINKS).content.decode()
    assert (EMAIL in page, ">open<" in page) == (True, True)
    chosen = {"action": "revoke", "_selected_action": [PasswordLink.objects.get().pk]}
    assert "1 open link is revoked." in superuser.post(LINKS, chosen, follow=True).content.decode()
    assert_ended(link())
    assert Activity.objects.filter(act="INVITATION_REVOKED", object_id=str(invited.pk)).count() == 1
    assert ">revoked<" in superuser.get(LINKS).content.decode()
    assert superuser.post(LINKS, chosen).status_code == 302
    assert Activity.objects.filter(act="INVITATION_REVOKED").count() == 1


def test_staff_without_the_permission_to_invite_revoke_no_link(invited):
    viewer = signed_in(make_staff("viewer@example.org", ["billing.view_passwordlink"]))
    assert viewer.get(LINKS).status_code == 200
    viewer.post(LINKS, {"action": "revoke", "_selected_action": [PasswordLink.objects.get().pk]})
    assert PasswordLink.objects.get().revoked_at is None


def test_staff_send_no_link_to_colleagues(db):
    clerk = signed_in(make_staff("clerk@example.org", ["billing.view_user", "billing.change_user"]))
    colleague = factories.make_user("colleague@example.org", is_staff=True)
    page = clerk.post(USERS, {"action": "send_password_links", "_selected_action": [colleague.pk]}, follow=True)
    assert "You may not send colleague@example.org a link." in page.content.decode()
    assert mail.outbox == []


def test_a_mail_that_cannot_be_sent_leaves_no_link_and_says_so(superuser, alice, settings, caplog):  # noqa: F811
    settings.EMAIL_BACKEND = "gateway_project.mail.NoBackend"
    chosen = {"action": "send_password_links", "_selected_action": [owner_of(alice).pk]}
    page = superuser.post(USERS, chosen, follow=True).content.decode()
    assert "The email to alice@example.org could not be sent." in page
    assert PasswordLink.objects.get().revoked_at is not None
    assert "a mail to alice@example.org could not be sent" in caplog.text


# --- Reset passwords ---------------------------------------------------------------------------------------------


def test_whoever_forgot_the_password_sets_another_and_all_sessions_end(alice):
    elsewhere = signed_in(owner_of(alice))
    reply = Client().post(RESET, {"email": " Alice@Example.org"})
    assert "Check your email" in reply.content.decode()
    assert mail.outbox[0].to == ["alice@example.org"]
    assert can_sign_in("alice@example.org", factories.PASSWORD)  # until the link is used
    assert set_password(link()).status_code == 302
    assert can_sign_in("alice@example.org")
    assert elsewhere.get("/dashboard/").status_code == 302


def test_the_page_does_not_say_who_is_a_user(alice):
    texts = [
        Client().post(RESET, {"email": email}).content.decode().replace(email, "")
        for email in ("alice@example.org", "nobody@example.org")
    ]
    assert texts[0] == texts[1]
    assert [message.to for message in mail.outbox] == [["alice@example.org"], ["nobody@example.org"]]
    assert "No one signs in there with this address" in mail.outbox[1].body
    assert Client().get(link()).status_code == 200  # where to try another address


def test_a_reset_asks_the_database_the_same_for_everybody(alice):
    """The time of the reply cannot say who is a user: nothing is done for a user that is not done for others."""
    work = []
    for email in ("alice@example.org", "nobody@example.org"):
        with CaptureQueriesContext(connection) as queries:
            assert Client().post(RESET, {"email": email}).status_code == 200
        work.append([re.sub(r"'[^']*'", "?", query["sql"]) for query in queries.captured_queries])
    assert work[0] == work[1]
    assert not PasswordLink.objects.exists()


def test_a_link_of_a_reset_works_once(alice):
    Client().post(RESET, {"email": "alice@example.org"})
    path = link()
    assert set_password(path).status_code == 302
    assert_ended(path)


def test_mails_that_one_address_asks_for_are_limited(db, monkeypatch):
    monkeypatch.setitem(limits.RATES, "address", limits.Rate(2, 3_600))
    statuses = [Client().post(RESET, {"email": f"{number}@example.org"}).status_code for number in range(3)]
    assert (statuses, len(mail.outbox)) == ([200, 200, 429], 2)


def test_without_mail_the_page_says_whom_to_ask(db, settings):
    settings.SENDS_MAIL = False
    settings.SUPPORT_ADDRESS = "help@example.com"
    page = Client().get(RESET).content.decode()
    assert "This gateway has no mail server." in page
    assert "mailto:help@example.com" in page
    assert "mailto:help@example.com" in Client().get(SIGN_IN).content.decode()


# --- Notices ---------------------------------------------------------------------------------------------------------


def test_users_are_told_of_changes_of_how_they_sign_in(alice, django_capture_on_commit_callbacks):
    user = owner_of(alice)
    client = signed_in(user)
    with django_capture_on_commit_callbacks(execute=True):
        client.post("/dashboard/password/", {"old_password": factories.PASSWORD, "new_password1": NEW, "new_password2": NEW})
        second_factors.give_app(user)
    assert [message.to for message in mail.outbox] == [["alice@example.org"]] * 2
    told = [str(message.body) for message in mail.outbox]
    assert "The password was changed." in told[0]
    assert "Added an authenticator app for signing in." in told[1]
    assert all("everywhere else:\n\nhttp://localhost:8000/dashboard/password/\n" in each for each in told)
