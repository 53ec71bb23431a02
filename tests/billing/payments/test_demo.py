"""The demo processor: the same pages, and the same signed webhook over HTTP."""

import pytest
from django.test import Client

from billing import tasks
from billing.models import LedgerEntry, Payment, PaymentEvent, TopUpRule
from tests import sessions
from tests.billing.payments.conftest import deliver
from tests.billing.payments.stripe_server import SignedEvent


@pytest.fixture
def demo(transactional_db, live_server, settings, tmp_path, bob):
    """Bob, signed in at a gateway that listens, whose processor is the demo."""
    settings.PAYMENT_PROCESSOR, settings.GATEWAY_VAR = "demo", tmp_path
    host, _, port = live_server.url.removeprefix("http://").rpartition(":")
    client = Client(headers={"host": f"{host}:{port}"})
    sessions.sign_in(client, bob.members.get())
    return client


def walk(demo, *actions):
    """Begin a payment, press these buttons of the demo's page, and return the payment."""
    payment = Payment.objects.get(page_url=demo.post("/dashboard/billing/", {"amount": "20"})["Location"])
    for action in actions:
        assert demo.post(payment.page_url, {"action": action}).status_code == 302
    payment.refresh_from_db()
    return payment


@pytest.mark.parametrize(
    ("actions", "status", "cents", "events"),
    [
        (["pay"], "PAID", 2_000, 1),
        (["bank"], "PROCESSING", 0, 1),
        (["bank", "confirm"], "PAID", 2_000, 2),
        (["bank", "refuse"], "FAILED", 0, 2),
        (["leave"], "EXPIRED", 0, 1),
        (["pay", "half"], "PAID", 1_000, 2),
        (["pay", "half", "dispute"], "PAID", 0, 3),
        (["pay", "dispute", "win"], "PAID", 2_000, 3),
    ],
)
def test_each_button_sends_a_signed_event_that_the_webhook_books(demo, bob, actions, status, cents, events):
    assert walk(demo, *actions).status == status
    bob.refresh_from_db()
    assert (bob.balance_nanos // 10_000_000, PaymentEvent.objects.filter(outcome="APPLIED").count()) == (cents, events)


def test_a_demo_payment_is_in_the_ledger_under_its_own_name(demo):
    payment = walk(demo, "pay")
    assert LedgerEntry.objects.get().metadata == {"demoPaymentId": payment.intent_id}


@pytest.mark.parametrize(
    ("card", "cents", "stopped"),
    [
        ("pay", 4_000, ""),
        ("confirm", 2_000, "Your bank asks you to confirm payments."),
        ("lose", 2_000, "Your card was declined."),
    ],
)
def test_an_automatic_top_up_charges_the_card_that_was_kept(demo, bob, card, cents, stopped):
    page = demo.post("/dashboard/billing/top-up/", {"threshold": "30", "amount": "20", "month_max": "60"})["Location"]
    demo.post(page, {"action": card})
    tasks.top_up_accounts()
    bob.refresh_from_db()
    rule = TopUpRule.objects.get()
    assert (bob.balance_nanos // 10_000_000, rule.is_on, rule.stopped_because) == (cents, True, stopped)


def test_a_forged_demo_event_is_refused(demo):
    payment = walk(demo)
    body = f'{{"id": "evt_1", "type": "checkout.session.completed", "livemode": false, "session": "{payment.session_id}"}}'
    assert deliver(SignedEvent("", body, "t=1,v1=00"), to="/api/billing/webhooks/demo").status_code == 400


def test_outside_of_development_the_demo_takes_no_payments(demo, settings):
    payment = walk(demo)
    settings.GATEWAY_DEVELOPMENT = False
    assert "You cannot buy credit here yet." in demo.get("/dashboard/billing/").content.decode()
    assert demo.post(payment.page_url, {"action": "pay"}).status_code == 404
    reply = demo.post("/api/billing/webhooks/demo", b"{}", content_type="application/json")
    assert (reply.status_code, LedgerEntry.objects.count()) == (404, 0)


def test_the_demo_page_of_somebody_else_is_not_found(demo, charlie):
    payment = walk(demo)
    other = Client()
    sessions.sign_in(other, charlie.members.get())
    assert other.post(payment.page_url, {"action": "pay"}).status_code == 404
    assert LedgerEntry.objects.filter(type="CREDIT_PURCHASE").count() == 0
