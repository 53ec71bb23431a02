"""Links in mails after a thief has used somebody's session: what ends them, and how a change of address is undone."""

import re
from datetime import timedelta

import pytest
from allauth.mfa.models import Authenticator
from allauth.socialaccount.models import SocialAccount
from allauth.usersessions.models import UserSession
from django.core import mail
from django.db.models import F
from django.test import Client

from billing import tasks
from billing.models import Account, AddressChange, Invitation, Role, User
from tests import factories, second_factors
from tests.pages.conftest import make_staff, owner_of, signed_in

SIGN_IN, RESET, CHANGE, UNDO = "/accounts/login/", "/accounts/password/reset/", "/accounts/email/", "/accounts/undo-email/"
ALICE, THIEF = "alice@example.org", "thief@example.net"
NEW, OF_THIEF = "a wholly new sentence", "the sentence of a thief"


@pytest.fixture
def user(alice):
    return owner_of(alice)


@pytest.fixture
def thief(user):
    """Whoever has a session of alice's owner."""
    return signed_in(user)


def link_to(email):
    """Return the link of the last mail to the address."""
    body = next(str(message.body) for message in reversed(mail.outbox) if message.to == [email])
    [found] = re.findall(r"^http://testserver(/\S+)$", body, re.M)
    return found


def use(path, client=None, password=NEW):
    page, _, key = path.partition("?key=")
    return (client or Client()).post(page, {"key": key, "new_password1": password, "new_password2": password})


def ask_for_change(client, email=THIEF):
    client.post(CHANGE, {"email": email})
    return link_to(email)


def ask_for_invitation(client):
    client.post("/dashboard/members/invite/", {"email": THIEF, "role": Role.OWNER, "account": Account.objects.get().pk})
    return link_to(THIEF)


def ask_for_reset(client):
    Client().post(RESET, {"email": ALICE})
    return link_to(ALICE)


def can_sign_in(email, password):
    return Client().post(SIGN_IN, {"login": email, "password": password}).status_code == 302


# --- What ends links ------------------------------------------------------------------------------------------------


def reset_password(user):
    Client().post(RESET, {"email": user.email})
    assert use(link_to(user.email))["Location"] == SIGN_IN


def change_password(user):
    form = {"old_password": factories.PASSWORD, "new_password1": NEW, "new_password2": NEW}
    assert signed_in(user).post("/dashboard/password/", form).status_code == 302


def sign_out_elsewhere(user):
    assert signed_in(user).post("/accounts/sessions/").status_code == 302


def end_the_other_session(user):
    client = Client()
    client.post(SIGN_IN, {"login": user.email, "password": factories.PASSWORD})
    other = UserSession.objects.create(user=user, session_key="other", ip="192.0.2.1", user_agent="", data={})
    assert client.post(f"/accounts/sessions/{other.pk}/end/").status_code == 302


@pytest.mark.parametrize("end", [reset_password, change_password, sign_out_elsewhere, end_the_other_session])
@pytest.mark.parametrize("ask", [ask_for_change, ask_for_invitation, ask_for_reset])
def test_who_ends_other_sessions_ends_every_link_that_was_mailed_before(user, alice, thief, ask, end):
    path = ask(thief)
    assert Client().get(path).status_code == 200
    end(user)
    before = list(User.objects.values())
    for reply in (Client().get(path), use(path, password=OF_THIEF)):
        assert reply.status_code == 404
        assert "This link no longer works" in reply.content.decode()
    assert list(User.objects.values()) == before
    assert alice.members.get() == user
    assert not Invitation.objects.filter(revoked_at=None).exists()  # nor does the page of members show it as open


def test_a_link_ends_when_an_operator_sets_the_password(user, thief):
    path = ask_for_change(thief)
    user.set_password(NEW)
    user.save()
    assert use(path).status_code == 404


def test_a_link_of_one_kind_is_none_of_another(user, thief):
    page, _, key = ask_for_change(thief).partition("?key=")
    assert page == "/accounts/confirm-email/"
    for other in ("/accounts/password/link/", "/accounts/signup/link/", "/dashboard/members/join/", UNDO):
        assert use(f"{other}?key={key}").status_code == 404


# --- Undoing a change of address ------------------------------------------------------------------------------------


@pytest.fixture
def stolen(user, thief, django_capture_on_commit_callbacks):
    """A thief has changed address and password, and added other ways in. Return the link that the former address got."""
    path = ask_for_change(thief)
    with django_capture_on_commit_callbacks(execute=True):
        assert use(path, thief).status_code == 302  # all other sessions are over
    form = {"old_password": factories.PASSWORD, "new_password1": OF_THIEF, "new_password2": OF_THIEF}
    assert thief.post("/dashboard/password/", form).status_code == 302
    second_factors.give_app(user)
    SocialAccount.objects.create(user=user, provider="google", uid="1")
    return link_to(ALICE)


def test_the_former_address_is_told_when_a_change_is_asked_for_and_can_stop_it(user, thief):
    path = ask_for_change(thief)
    told = next(message for message in mail.outbox if message.to == [ALICE])
    assert THIEF in str(told.body)
    undo = link_to(ALICE)
    assert Client().get(undo).status_code == 200  # which changes nothing: mail scanners open links
    assert use(path[:-1] + ("A" if path[-1] != "A" else "B")).status_code == 404
    reply = use(undo)
    assert use(path).status_code == 404
    assert thief.get("/dashboard/")["Location"].startswith(SIGN_IN)
    assert use(reply["Location"]).status_code == 302
    assert can_sign_in(ALICE, NEW)


def test_whoever_has_the_former_address_takes_the_user_back(user, thief, stolen):
    assert can_sign_in(THIEF, OF_THIEF)
    page = Client().get(stolen).content.decode()
    assert ALICE in page
    assert THIEF in page
    reply = use(stolen)
    assert reply["Location"].startswith("/accounts/password/link/?key=")
    assert thief.get("/dashboard/")["Location"].startswith(SIGN_IN)
    assert not can_sign_in(THIEF, OF_THIEF)
    assert not can_sign_in(ALICE, OF_THIEF)
    assert not Authenticator.objects.exists()
    assert not SocialAccount.objects.exists()
    assert use(reply["Location"])["Location"] == SIGN_IN
    assert can_sign_in(ALICE, NEW)
    assert use(stolen).status_code == 404


def test_what_the_user_had_for_signing_in_before_the_change_stays(user, thief, django_capture_on_commit_callbacks):
    second_factors.give_app(user)
    ask_for_change(thief)
    assert use(link_to(ALICE)).status_code == 302
    assert Authenticator.objects.count() == 1


def test_after_two_changes_the_first_address_wins(user, thief, stolen, django_capture_on_commit_callbacks):
    second = "thief@example.com"
    path = ask_for_change(thief, second)
    with django_capture_on_commit_callbacks(execute=True):
        use(path)
    assert User.objects.get(pk=user.pk).email == second
    undo_of_thief = link_to(THIEF)
    assert use(stolen).status_code == 302
    assert use(undo_of_thief).status_code == 404
    assert User.objects.get(pk=user.pk).email == ALICE


def test_a_later_wish_replaces_the_earlier_but_not_the_link_that_stops_it(user, thief):
    path = ask_for_change(thief)
    undo = link_to(ALICE)
    second = ask_for_change(thief, "thief@example.com")
    assert use(path).status_code == 404
    assert use(undo).status_code == 302
    assert use(second).status_code == 404
    assert AddressChange.objects.count() == 1


def test_seven_days_after_the_change_it_stays(user, stolen):
    AddressChange.objects.update(changed_at=F("changed_at") - timedelta(days=7))
    assert use(stolen).status_code == 404
    assert User.objects.get(pk=user.pk).email == THIEF


def test_a_former_address_that_somebody_else_has_by_now_is_not_given_back(user, stolen):
    factories.make_user(ALICE)
    reply = use(stolen)
    assert (reply.status_code, "you cannot have it back" in reply.content.decode()) == (409, True)
    assert User.objects.get(pk=user.pk).email == THIEF


def test_a_change_by_staff_can_be_undone_too(user, django_capture_on_commit_callbacks):
    staff = signed_in(make_staff("clerk@example.org", ["billing.view_user", "billing.change_user"]))
    with django_capture_on_commit_callbacks(execute=True):
        staff.post(f"/admin/billing/user/{user.pk}/change/", {"email": THIEF, "is_active": "on"})
    assert User.objects.get(pk=user.pk).email == THIEF
    assert use(link_to(ALICE)).status_code == 302
    assert User.objects.get(pk=user.pk).email == ALICE


def test_changes_that_can_be_neither_made_nor_undone_are_forgotten(user, stolen, thief):
    tasks.forget_sign_in_attempts()
    assert AddressChange.objects.count() == 1
    AddressChange.objects.update(changed_at=F("changed_at") - timedelta(days=31))
    tasks.forget_sign_in_attempts()
    assert not AddressChange.objects.exists()


# --- Whose host a link names ------------------------------------------------------------------------------------------


@pytest.fixture
def _of_any_host(settings):
    settings.ALLOWED_HOSTS, settings.LOCAL_HOSTS = ["*"], ["localhost", "127.0.0.1", "[::1]"]


@pytest.mark.usefixtures("_of_any_host")
@pytest.mark.parametrize("email", [ALICE, "nobody@example.org"])
def test_the_host_of_a_request_reaches_no_mail(alice, email, caplog):
    reply = Client().post(RESET, {"email": email}, headers={"host": "evil.example"})
    assert (reply.status_code, mail.outbox) == (200, [])
    assert "could not be sent: GATEWAY_BASE_HOST is not set" in caplog.text
    Client().post(RESET, {"email": email}, headers={"host": "localhost:8000"})
    assert "http://localhost:8000/" in str(mail.outbox[0].body)


@pytest.mark.usefixtures("_of_any_host")
def test_an_invitation_from_another_host_is_not_sent_and_ends(alice, thief):
    form = {"email": THIEF, "role": Role.OWNER, "account": alice.pk}
    page = thief.post("/dashboard/members/invite/", form, headers={"host": "evil.example"}).content.decode()
    assert "We could not send the email" in page
    assert (mail.outbox, Invitation.objects.filter(revoked_at=None).exists()) == ([], False)


def test_a_configured_host_is_in_every_mail(alice, settings):
    settings.GATEWAY_BASE_HOST, settings.ALLOWED_HOSTS = "www.example.com", ["*"]
    Client().post(RESET, {"email": ALICE}, headers={"host": "evil.example"})
    assert "http://www.example.com/accounts/password/link/?key=" in str(mail.outbox[0].body)
    assert "evil" not in str(mail.outbox[0].body)


@pytest.mark.parametrize(("fallbacks", "works"), [(["a former secret " * 4], True), ([], False)])
def test_a_link_that_a_former_secret_signed_works_while_it_is_a_fallback(alice, settings, fallbacks, works):
    current = settings.SECRET_KEY
    settings.SECRET_KEY = "a former secret " * 4
    link = ask_for_reset(Client())
    settings.SECRET_KEY, settings.SECRET_KEY_FALLBACKS = current, fallbacks
    use(link)
    assert User.objects.get(email=ALICE).check_password(NEW) == works
