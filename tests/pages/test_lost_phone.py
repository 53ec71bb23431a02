"""Somebody lost the phone with the second factor: support asks for its removal, and a lead approves it."""

import pytest
from allauth.mfa.models import Authenticator
from django.core import mail

from billing.models import SecondFactorRequest
from gateway_project.activity.models import Activity
from tests import second_factors
from tests.pages.conftest import make_staff, owner_of, signed_in
from tests.pages.desk_pages import send

SUPPORT = ["billing.view_account", "billing.send_password_link", "billing.view_secondfactorrequest"]


@pytest.fixture
def user(alice):
    user = owner_of(alice)
    second_factors.give_app(user)
    return user


@pytest.fixture
def support(db):
    return signed_in(make_staff("support@example.org", SUPPORT))


@pytest.fixture
def lead(db):
    return signed_in(make_staff("lead@example.org", [*SUPPORT, "billing.remove_second_factor"]))


@pytest.fixture(autouse=True)
def _mail(settings):
    settings.SENDS_MAIL = True


def page(account, user):
    return f"/admin/billing/account/{account.pk}/lost-phone/{user.pk}/"


def ask(client, account, user, **fields):
    return send(client, page(account, user), {"reason": "Phone stolen, checked by call", "ticket": "T-7", **fields})


@pytest.fixture
def asked(support, alice, user, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks(execute=True):
        assert ask(support, alice, user).status_code == 302
    return SecondFactorRequest.objects.get()


def test_support_asks_and_nothing_changes_but_the_person_is_told(asked, user):
    assert (asked.user, asked.reason, asked.ticket) == (user, "Phone stolen, checked by call", "T-7")
    assert Authenticator.objects.filter(user=user).exists()
    assert [sent.to for sent in mail.outbox] == [[user.email]]
    assert "A second member of staff must approve it." in mail.outbox[0].body
    assert Activity.objects.get(act="SECOND_FACTOR_REQUESTED").ticket == "T-7"


def test_asking_again_adds_nothing(asked, support, alice, user):
    assert "already requested" in " ".join(map(str, support.get(ask(support, alice, user)["Location"]).context["messages"]))
    assert SecondFactorRequest.objects.count() == 1


def test_a_lead_approves_and_the_password_alone_signs_in(asked, lead, user, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks(execute=True):
        assert lead.post(f"/admin/billing/secondfactorrequest/{asked.pk}/approve/").status_code == 302
    assert not Authenticator.objects.filter(user=user).exists()
    asked.refresh_from_db()
    assert (asked.decision, asked.decided_by.email) == ("APPROVED", "lead@example.org")
    assert Activity.objects.get(act="SECOND_FACTOR_REMOVED").after["removed"] == 1
    assert any("was removed by support" in sent.body and sent.to == [user.email] for sent in mail.outbox)


def test_who_asked_cannot_approve(support, alice, user):
    both = make_staff("both@example.org", [*SUPPORT, "billing.remove_second_factor"])
    client = signed_in(both)
    ask(client, alice, user)
    client.post(f"/admin/billing/secondfactorrequest/{SecondFactorRequest.objects.get().pk}/approve/")
    assert SecondFactorRequest.objects.get().decision == ""
    assert Authenticator.objects.filter(user=user).exists()


def test_who_lacks_a_permission_of_the_person_cannot_approve(asked, lead, user):
    user.is_superuser = True
    user.save()
    lead.post(f"/admin/billing/secondfactorrequest/{asked.pk}/approve/")
    assert SecondFactorRequest.objects.get().decision == ""
    assert Authenticator.objects.filter(user=user).exists()


def test_support_cannot_approve(asked, support):
    assert support.post(f"/admin/billing/secondfactorrequest/{asked.pk}/approve/").status_code == 403


def test_who_has_no_second_factor_has_nothing_to_lose(support, alice):
    reply = ask(support, alice, owner_of(alice))
    assert "has no two-factor authentication" in reply.content.decode()
    assert not SecondFactorRequest.objects.exists()
