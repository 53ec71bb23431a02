"""A gateway that takes payments by Stripe, with a server of our own in Stripe's place."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client

from billing.models import Account, Payment
from tests import sessions
from tests.billing.payments import stripe_server
from tests.billing.payments.stripe_server import SignedEvent, StripeServer

WEBHOOK = "/api/billing/webhooks/stripe"


@pytest.fixture
def stripe(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[StripeServer]:
    monkeypatch.setattr("stripe.HTTPClient.INITIAL_DELAY", 0)  # its client waits between tries
    monkeypatch.setattr("stripe.HTTPClient.MAX_DELAY", 0)
    with stripe_server.serving() as server:
        settings.PAYMENT_PROCESSOR = "stripe"
        settings.STRIPE_SECRET_KEY = stripe_server.SECRET_KEY
        settings.STRIPE_WEBHOOK_SECRET = stripe_server.WEBHOOK_SECRET
        settings.STRIPE_API_BASE = server.origin
        yield server


@pytest.fixture
def owner(bob: Account) -> Client:
    """Bob, whose account has no credit, signed in."""
    client = Client()
    sessions.sign_in(client, bob.members.get())
    return client


def begin(owner: Client, cents: int = 2_000) -> Payment:
    """Begin a payment on the billing page, and return its row."""
    reply = owner.post("/dashboard/billing/", {"amount": f"{cents // 100}.{cents % 100:02d}"})
    assert reply.status_code == 302, reply.content.decode()
    return Payment.objects.get(page_url=reply["Location"])


def deliver(event: SignedEvent, *, to: str = WEBHOOK, **headers: str) -> Any:
    """Send an event to the webhook, as Stripe does."""
    headers = {"Stripe-Signature": event.signature, **headers}
    return Client().post(to, event.body, content_type="application/json", headers=headers)


def outcome(event: SignedEvent) -> str:
    """Deliver the event, and return what it led to."""
    reply = deliver(event)
    assert reply.status_code == 200, reply.content
    return str(reply.json()["outcome"])
