"""Invitations: a link by mail, by which whoever has the invited address joins an account once."""

import re
from datetime import timedelta
from urllib.parse import unquote

import pytest
from django.core import mail
from django.db.models import F
from django.test import Client

from billing.ledger import writer
from billing.models import Invitation, Role, User
from gateway_project.activity.models import Activity
from tests import factories, sessions
from tests.billing.members.invitation_forms import EMAIL, NEW, invite, link, members
from tests.pages.conftest import make_staff, owner, owner_of, rows, signed_in  # noqa: F401  fixtures

JOIN = "/dashboard/members/join/"


def join(path, client, **form):
    return client.post(JOIN, {"key": path.partition("?key=")[2], **form})


def sign_up(path, client=None, password=NEW):
    return join(path, client or Client(), new_password1=password, new_password2=password)


def assert_ended(path, client=None):
    client = client or Client()
    for reply in (client.get(path), sign_up(path, client)):
        assert reply.status_code == 404
        assert "This link no longer works" in reply.content.decode()


@pytest.fixture
def path(owner, alice):  # noqa: F811
    """Where the invitation of EMAIL leads."""
    assert invite(owner, alice)["Location"] == "/dashboard/members/"
    return link()


# --- Inviting ------------------------------------------------------------------------------------------------------


def test_an_invitation_is_a_mail_that_says_who_invites_to_what(owner, alice):  # noqa: F811
    invite(owner, alice, " New@Example.org ")
    [message] = mail.outbox
    assert message.to == [EMAIL]
    assert "alice@example.org invites you, as new@example.org, to the account Alice" in message.body
    assert "with the role Developer" in message.body


def test_the_form_begins_with_a_role_and_keeps_the_one_that_was_sent(owner, alice):  # noqa: F811
    chosen = r'value="(\w+)"[^>]* checked'
    assert re.findall(chosen, owner.get("/dashboard/members/invite/").content.decode()) == ["DEVELOPER"]
    assert re.findall(chosen, invite(owner, alice, "nonsense", Role.BILLING).content.decode()) == ["BILLING"]


def test_a_waiting_invitation_is_listed_with_its_role_and_inviter(owner, path):  # noqa: F811
    page = owner.get("/dashboard/members/").content.decode()
    for words in (EMAIL, "Developer", "Invited by alice@example.org", "Works until"):
        assert words in page
    Invitation.objects.update(expires_at=F("created_at") - timedelta(seconds=1))
    assert "Expired" in owner.get("/dashboard/members/").content.decode()


def test_the_secret_of_a_link_is_not_stored(path):
    secret = path.partition("?key=")[2]
    assert secret not in str(list(Invitation.objects.values())) + str(list(Activity.objects.values()))


def test_an_invitation_and_its_end_are_recorded(owner, alice, path):  # noqa: F811
    owner.post(f"/dashboard/members/invitations/{Invitation.objects.get().pk}/revoke/")
    acts = Activity.objects.filter(account_id=alice.pk).order_by("pk")
    assert [(act.act, act.summary, act.actor) for act in acts] == [
        ("MEMBER_INVITED", "Invited new@example.org to be Developer.", owner_of(alice)),
        ("MEMBER_UNINVITED", "Revoked the invitation of new@example.org.", owner_of(alice)),
    ]


@pytest.mark.parametrize(
    ("form", "error"),
    [
        ({"email": "nonsense"}, "Enter a valid email address."),
        ({"email": ""}, "This field is required."),
        ({"role": ""}, "This field is required."),
        ({"role": "KING"}, "Select a valid choice."),
        ({"email": "Alice@example.org"}, "alice@example.org is already a member."),
    ],
)
def test_an_error_stands_at_its_field_and_nobody_is_invited(owner, alice, rows, form, error):  # noqa: F811
    before = rows()
    valid = {"email": EMAIL, "role": "VIEWER", "account": alice.pk}
    page = owner.post("/dashboard/members/invite/", {**valid, **form}).content.decode()
    field = page.partition(f'class="field field-{next(iter(form))}"')[2].partition('<div class="field')[0]
    assert error in field
    assert (rows(), mail.outbox) == (before, [])


def test_nobody_is_invited_to_an_account_chosen_after_the_form_was_opened(owner, alice, rows):  # noqa: F811
    second = factories.make_account("Second", owner=owner_of(alice))
    owner.post("/dashboard/account/", {"account": str(second.pk)})
    before = rows()
    assert "The selected account is now Second" in invite(owner, alice).content.decode()
    assert rows() == before


def test_without_a_mail_server_nobody_is_invited(owner, alice, settings):  # noqa: F811
    settings.EMAIL_BACKEND = "gateway_project.mail.NoBackend"
    assert "We could not send the email, or sent too many there. No one was invited." in invite(owner, alice).content.decode()
    assert Invitation.objects.get().revoked_at is not None


def test_mails_to_one_mailbox_are_limited(owner, alice, settings):  # noqa: F811
    settings.MAILBOX_MAILS_PER_DAY = 2
    assert invite(owner, alice).status_code == 302
    assert "We could not send the email, or sent too many there. No one was invited." in invite(owner, alice).content.decode()
    assert len(mail.outbox) == 1
    assert not Invitation.objects.filter(revoked_at=None).exists()


def test_an_account_has_a_bounded_number_of_members_and_invitations(owner, alice, settings):  # noqa: F811
    settings.ACCOUNT_PEOPLE_MAX = 2
    assert invite(owner, alice).status_code == 302
    assert invite(owner, alice).status_code == 302  # replaces the first
    assert "at most 2 members" in invite(owner, alice, "third@example.org").content.decode()


def test_an_invitation_needs_a_recent_password(owner, alice, rows):  # noqa: F811
    sessions.update(owner, password_given_at=0)
    before = rows()
    assert "Confirm with your password" in invite(owner, alice).content.decode()
    assert rows() == before


# --- Joining -------------------------------------------------------------------------------------------------------


def test_somebody_new_chooses_a_password_and_is_a_member(alice, path):
    page = Client().get(path).content.decode()
    assert "You join Alice with the role Developer and sign in as new@example.org." in page
    assert sign_up(path)["Location"] == "/accounts/login/"
    assert members(alice) == {"alice@example.org": "OWNER", EMAIL: "DEVELOPER"}
    client = Client()
    assert client.post("/accounts/login/", {"login": EMAIL, "password": NEW}).status_code == 302
    assert "$10.00" in client.get("/dashboard/").content.decode()
    assert_ended(path)


def test_a_weak_password_is_refused_and_the_link_goes_on_working(alice, path):
    assert "at least 12 characters" in sign_up(path, password="short").content.decode()
    assert not User.objects.filter(email=EMAIL).exists()
    assert sign_up(path).status_code == 302


def test_a_user_signs_in_and_joins(alice, charlie, owner):  # noqa: F811
    invite(owner, alice, "charlie@example.org", Role.BILLING)
    path, client = link(), Client()
    page = client.get(path).content.decode()
    [sign_in] = re.findall(r'href="(/accounts/login/\?next=[^"]+)"', page)
    form = {"login": "charlie@example.org", "password": factories.PASSWORD, "next": unquote(sign_in.partition("next=")[2])}
    assert client.post("/accounts/login/", form)["Location"] == path
    assert "invited to Alice with the role Billing" in client.get(path).content.decode()
    assert join(path, client)["Location"] == "/dashboard/"
    assert members(alice)["charlie@example.org"] == "BILLING"
    member_page = client.get("/dashboard/")
    assert member_page.context["request"].member.account_name == "Alice"
    assert {choice["name"] for choice in member_page.context["request"].member.choices} == {"Alice", "Charlie"}
    assert_ended(path, client)


def test_a_user_who_is_signed_out_joins_nothing(alice, charlie, owner, rows):  # noqa: F811
    invite(owner, alice, "charlie@example.org")
    before = rows()
    assert "Sign in as charlie@example.org" in sign_up(link()).content.decode()
    assert rows() == before


@pytest.mark.parametrize("method", ["get", "post"])
def test_only_the_invited_address_joins(alice, charlie, path, rows, method):  # noqa: F811
    client, before = signed_in(owner_of(charlie)), rows()
    reply = getattr(client, method)(JOIN, {"key": path.partition("?key=")[2], "new_password1": NEW, "new_password2": NEW})
    assert reply.status_code == 403
    assert "You are signed in as charlie@example.org." in reply.content.decode()
    assert rows() == before


def test_who_changed_the_address_since_joins_no_more(alice, charlie, owner, rows):  # noqa: F811
    invite(owner, alice, "charlie@example.org")
    User.objects.filter(email="charlie@example.org").update(email="charles@example.org")
    assert join(link(), signed_in(owner_of(charlie))).status_code == 403
    assert set(members(alice)) == {"alice@example.org"}


def test_who_is_a_member_already_keeps_the_role(alice, charlie, owner):  # noqa: F811
    invite(owner, alice, "charlie@example.org", Role.VIEWER)
    factories.add_member(account=alice, user=owner_of(charlie), role=Role.DEVELOPER)
    assert join(link(), signed_in(owner_of(charlie))).status_code == 302
    assert members(alice)["charlie@example.org"] == "DEVELOPER"
    assert Invitation.objects.get().accepted_at is not None


def test_owners_are_told_who_joined(alice, path, django_capture_on_commit_callbacks):
    alice.memberships.create(user=factories.make_user("viewer@example.org"), role=Role.VIEWER)
    alice.memberships.create(user=factories.make_user("gone@example.org", is_active=False), role=Role.OWNER)
    mail.outbox.clear()
    with django_capture_on_commit_callbacks(execute=True):
        sign_up(path)
    [told] = mail.outbox
    assert told.to == ["alice@example.org"]
    assert "new@example.org joined as Developer, invited by alice@example.org." in told.body


def test_joining_is_recorded(alice, path):
    sign_up(path)
    act = Activity.objects.get(act="MEMBER_JOINED")
    assert (act.summary, act.account_id) == ("new@example.org joined as Developer, invited by alice@example.org.", alice.pk)


def test_staff_do_not_join_an_account_that_they_credited(alice, owner):  # noqa: F811
    support = make_staff("support@example.org", ["billing.issue_support_credit"])
    writer.grant_support_credit(alice.pk, amount_cents=1, reason="test", reference="by support", issued_by=support)
    invite(owner, alice, "support@example.org")
    reply = join(link(), signed_in(support))
    assert reply.status_code == 403
    assert "support@example.org has credited this account" in reply.content.decode()
    assert "support@example.org" not in members(alice)


def expire(owner, alice):  # noqa: F811
    Invitation.objects.update(expires_at=F("created_at"))


def revoke(owner, alice):  # noqa: F811
    owner.post(f"/dashboard/members/invitations/{Invitation.objects.get().pk}/revoke/")


def invite_again(owner, alice):  # noqa: F811
    invite(owner, alice)


@pytest.mark.parametrize("ending", [expire, revoke, invite_again])
def test_a_link_ends(owner, alice, path, ending):  # noqa: F811
    ending(owner, alice)
    assert_ended(path)
    assert set(members(alice)) == {"alice@example.org"}


@pytest.mark.parametrize("path", [JOIN, f"{JOIN}?key=", f"{JOIN}?key=nonsense", f"{JOIN}?key=%ff"])
def test_a_link_that_was_never_sent_does_nothing(db, path):
    assert_ended(path)
