"""Receipts, credits and refunds by mail: once each, to those who pay, unless the owner switched them off."""

import pytest
from django.core import mail
from django.db import transaction
from django.utils import timezone

from billing import locks, tasks
from billing.alerts import entry_notices
from billing.ledger import writer
from billing.models import AccountAlert, AlertDelivery, EmailChoice, Role, WebhookEndpoint
from gateway_project.activity.models import Activity
from tests import factories
from tests.billing.payments.conftest import begin, outcome, owner, stripe  # noqa: F401  fixtures
from tests.pages.conftest import owner_of, signed_in

pytestmark = pytest.mark.django_db
HOST = "testserver"


@pytest.fixture(autouse=True)
def _host(settings):
    settings.GATEWAY_API_HOST = settings.GATEWAY_BASE_HOST = HOST


def mailed():
    """Run the tasks. Return the subject, the text and the HTML of each mail."""
    tasks.note_entries()
    tasks.mail_warnings()
    sent, mail.outbox[:] = list(mail.outbox), []
    return [(each.subject, each.body, getattr(each, "alternatives")[0][0]) for each in sent]  # noqa: B009  Django's stubs


def test_a_payment_is_followed_by_a_receipt_with_one_button(stripe, owner, bob):  # noqa: F811
    payment = begin(owner)
    assert mailed() == []
    outcome(stripe.pay(payment.session_id))
    [(subject, body, page)] = mailed()
    assert subject == "Bob: Payment received: $20.00"
    assert "Your balance was $20.00 then." in body
    address = f"http://{HOST}/dashboard/billing/payments/{payment.pk}/receipt/"
    assert f"View receipt:\n\n{address}" in body
    assert page.count("border-radius: 8px") == 1
    assert f'<a href="{address}"' in page
    assert mailed() == []
    outcome(stripe.refund(payment.session_id, 500))
    assert [subject for subject, _, _ in mailed()] == ["Bob: A payment was taken back: $5.00"]


def test_support_credits_and_what_is_taken_back_are_mailed_with_their_reason(alice):
    staff = factories.make_user("support@example.org", is_staff=True)
    mailed()
    booked = writer.grant_support_credit(alice.pk, amount_cents=700, reason="An outage.", reference="r", issued_by=staff)
    [(subject, body, _)] = mailed()
    assert subject == "Alice: Credit added: $7.00"
    assert "Reason: An outage. Your balance was " in body
    assert f"View statement:\n\nhttp://{HOST}/dashboard/ledger/" in body
    with transaction.atomic():
        account = locks.lock_account(alice.pk)
        writer.correct_credit(account, booked.entry, amount_nanos=1_000_000_000, reason="Too much", issued_by=staff)
    [(subject, body, _)] = mailed()
    assert subject == "Alice: Credit taken back: $1.00"
    assert "Reason: Too much." in body
    assert "support@example.org" not in body


def test_usage_and_old_entries_are_not_mailed(alice, monkeypatch):
    mailed()
    monkeypatch.setattr(entry_notices, "ENTRY_AGE_MAX", -entry_notices.ENTRY_AGE_MAX)
    factories.credit(alice, 100)
    assert mailed() == []


def test_only_those_who_pay_get_them_and_no_webhook_and_no_alert(alice):
    WebhookEndpoint.objects.create(account=alice, url="https://example.org/", sealed_secret="sealed")
    for role in (Role.BILLING, Role.VIEWER):
        factories.add_member(account=alice, user=factories.make_user(f"{role.lower()}@example.org"), role=role)
    tasks.note_entries()
    AccountAlert.objects.update(prepared_at=timezone.now())
    factories.credit(alice, 100)
    mailed()
    told = AlertDelivery.objects.values_list("email", "endpoint")
    assert sorted(told) == [("alice@example.org", None), ("billing@example.org", None)]
    assert (
        "Credit added" not in signed_in(alice.members.get(email="alice@example.org")).get("/dashboard/alerts/").content.decode()
    )


def test_without_a_mail_server_nothing_is_noted(alice, settings):
    settings.SENDS_MAIL = False
    factories.credit(alice, 100)
    assert (tasks.note_entries(), AccountAlert.objects.count()) == (0, 0)


def test_an_owner_switches_them_off_and_on(alice):
    client = signed_in(owner_of(alice))
    mailed()
    page = client.get("/dashboard/settings/emails/").content.decode()
    assert page.count('type="checkbox"') == 4
    assert page.count("checked") == 4
    assert client.post("/dashboard/settings/emails/", {"receipts": "on"})["Location"] == "/dashboard/settings/"
    choice = EmailChoice.objects.get(account=alice)
    assert (choice.receipts, choice.credits, choice.refunds) == (True, False, False)
    act = Activity.objects.get()
    assert (act.act, act.before["credits"], act.after["credits"]) == ("EMAILS_CHANGED", True, False)
    client.post("/dashboard/settings/emails/", {"receipts": "on"})
    assert Activity.objects.count() == 1
    factories.credit(alice, 100)
    AccountAlert.objects.create(
        account=alice, kind="PAYMENT_TAKEN_BACK", data={"reason": "Payment refunded", "amount_nanos": 1}
    )
    assert mailed() == []
    client.post("/dashboard/settings/emails/", {"receipts": "on", "credits": "on", "refunds": "on"})
    factories.credit(alice, 200)
    assert [subject for subject, _, _ in mailed()] == ["Alice: Credit added: $2.00"]
