"""Support hands a ticket over to colleagues, who get an email with a link to the account."""

import pytest
from django.contrib.auth.models import Group
from django.core import mail

from gateway_project.activity.models import Activity
from tests.pages.conftest import make_staff, signed_in
from tests.pages.desk_pages import send


@pytest.fixture
def finance(db):
    group = Group.objects.create(name="Money")
    make_staff("finance@example.org", ["billing.view_account"]).groups.add(group)
    return group


@pytest.fixture
def desk(settings, db):
    settings.SENDS_MAIL = True
    return signed_in(make_staff("support@example.org", ["billing.view_account"]))


def page(account):
    return f"/admin/billing/account/{account.pk}/hand-over/"


def hand_over(client, account, **fields):
    return send(client, page(account), {"reason": "Refund of May", "ticket": "T-9", **fields})


def test_the_group_gets_an_email_and_the_log_says_so(desk, alice, finance, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks(execute=True):
        assert hand_over(desk, alice, group=finance.pk).status_code == 302
    (sent,) = mail.outbox
    assert sent.to == ["finance@example.org"]
    assert "support@example.org handed ticket T-9 about Alice over to you" in sent.body
    assert f"/admin/billing/account/{alice.pk}/change/" in sent.body
    act = Activity.objects.get(act="HANDED_OVER")
    assert (act.account_id, act.ticket, act.reason, act.after) == (alice.pk, "T-9", "Refund of May", {"group": "Money"})


def test_a_ticket_and_a_group_with_members_are_needed(desk, alice, finance):
    assert hand_over(desk, alice, group=finance.pk, ticket="").status_code == 200
    empty = Group.objects.create(name="Nobody")
    assert hand_over(desk, alice, group=empty.pk).status_code == 200
    assert not Activity.objects.filter(act="HANDED_OVER").exists()
    assert mail.outbox == []
