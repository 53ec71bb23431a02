"""Any order and repetition of events gives the same books, and never takes back more than was paid."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection
from hypothesis import given, settings
from hypothesis import strategies as st

from billing.ledger import audit
from billing.models import LedgerEntry, Payment, PaymentEvent
from billing.payments import booking, webhook
from billing.payments.booking import ReportOutdated
from billing.payments.processor import Report
from billing.payments.stripe_processor import StripeProcessor
from tests import factories
from tests.billing.payments import stripe_server
from tests.billing.payments.conftest import begin, deliver, outcome
from tests.ledger_audit import assert_ledger_is_consistent

AMOUNT_CENTS = 2_000

# What happens at the processor, in this order; the events about it are then delivered in any order.
HAPPENINGS = st.lists(
    st.one_of(
        st.tuples(st.just("refund"), st.integers(1, 900)),
        st.tuples(st.just("dispute"), st.integers(1, AMOUNT_CENTS)),
        st.tuples(st.just("reinstate"), st.just(0)),
    ),
    max_size=4,
)


def happen(stripe, session_id, happenings):
    """Play the payment and what follows. Return the events, and what is due back in the end."""
    events, refunded, disputes = [stripe.pay(session_id)], 0, []
    for what, cents in happenings:
        if what == "refund" and refunded + cents <= AMOUNT_CENTS:
            refunded += cents
            events.append(stripe.refund(session_id, cents))
        elif what == "dispute":
            disputes.append(cents)
            events.append(stripe.dispute(session_id, cents))
        elif what == "reinstate" and disputes:
            latest = list(stripe.disputes.values())[-1]
            if len(latest["balance_transactions"]) == 1:
                disputes.pop()
                disputes.insert(0, 0)
                events.append(stripe.reinstate(session_id))
    return events, min(refunded + sum(disputes), AMOUNT_CENTS)


@pytest.mark.django_db
@settings(max_examples=25)
@given(happenings=HAPPENINGS, data=st.data())
@pytest.mark.one_cell
def test_any_order_and_repetition_of_events_gives_the_same_books(happenings, data):
    with stripe_server.serving() as stripe:
        processor = StripeProcessor(
            secret_key=stripe_server.SECRET_KEY, webhook_secret=stripe_server.WEBHOOK_SECRET, api_base=stripe.origin
        )
        account = factories.make_account("Property")
        payment = Payment.objects.create(account=account, amount_cents=AMOUNT_CENTS, processor="stripe", is_live=False)
        payment.refresh_from_db()
        session_id, _ = processor.open_page(
            payment, return_url="http://localhost/", email="payer@example.org", keeps_card=False
        )
        Payment.objects.filter(pk=payment.pk).update(session_id=session_id)
        told, due_cents = happen(stripe, session_id, happenings)
        order = data.draw(st.permutations([*told, *data.draw(st.lists(st.sampled_from(told), max_size=3))]))
        for signed in order:
            webhook.handle(processor, processor.parse_event(signed.body.encode(), {"Stripe-Signature": signed.signature}))
            account.refresh_from_db()
            assert 0 <= account.balance_nanos <= AMOUNT_CENTS * 10_000_000
        assert account.balance_nanos == (AMOUNT_CENTS - due_cents) * 10_000_000
        purchases = LedgerEntry.objects.filter(account=account, reference__startswith="pay:")
        assert purchases.count() == 1
    assert audit.verify(account.pk) == []


@pytest.mark.django_db(transaction=True)
def test_of_many_events_delivered_at_once_the_payment_is_credited_once(stripe, owner, bob):
    payment = begin(owner)
    told = [stripe.pay(payment.session_id)]
    told += [stripe.event("payment_intent.succeeded", stripe.intent_of(payment.session_id)) for _ in range(5)]
    together = threading.Barrier(2 * len(told))

    def send(event):
        together.wait()
        try:
            return deliver(event).status_code
        finally:
            connection.close()

    with ThreadPoolExecutor(2 * len(told)) as pool:
        assert set(pool.map(send, [*told, *told])) == {200}
    bob.refresh_from_db()
    assert (bob.balance_nanos, LedgerEntry.objects.count()) == (20_000_000_000, 1)


def deliver_at_once(told):
    """Deliver all events at the same moment. Return the outcomes and notes."""
    together = threading.Barrier(len(told))

    def send(event):
        together.wait()
        try:
            reply = deliver(event)
            assert reply.status_code == 200, reply.content
            return reply.json()["outcome"]
        finally:
            connection.close()

    with ThreadPoolExecutor(len(told)) as pool:
        return list(pool.map(send, told))


@pytest.mark.django_db(transaction=True)
def test_of_twenty_first_deliveries_of_one_event_at_once_one_is_kept_and_credits_once(stripe, owner, bob):
    event = stripe.pay(begin(owner).session_id)
    outcomes = deliver_at_once([event] * 20)
    assert set(outcomes) <= {"APPLIED", "UNCHANGED"}
    [kept] = PaymentEvent.objects.all()
    bob.refresh_from_db()
    assert (kept.event_id, bob.balance_nanos, LedgerEntry.objects.count()) == (event.id, 20_000_000_000, 1)
    assert_ledger_is_consistent()


@pytest.mark.django_db(transaction=True)
def test_of_many_refunds_told_at_once_each_cent_is_taken_back_once(stripe, owner, bob):
    session_id = begin(owner).session_id
    assert outcome(stripe.pay(session_id)) == "APPLIED"
    outcomes = deliver_at_once([stripe.refund(session_id, 50) for _ in range(24)])
    assert set(outcomes) <= {"APPLIED", "UNCHANGED"}
    payment = Payment.objects.get()
    bob.refresh_from_db()
    assert (payment.refunded_cents, payment.debited_cents, bob.balance_nanos) == (1_200, 1_200, 8_000_000_000)
    assert PaymentEvent.objects.count() == 25
    assert_ledger_is_consistent()


@pytest.mark.django_db
def test_an_older_report_is_not_booked_over_a_newer_one(stripe, owner, bob):
    session = begin(owner).session_id
    assert outcome(stripe.pay(session)) == "APPLIED"
    payment = Payment.objects.get()
    processor = StripeProcessor(secret_key=stripe_server.SECRET_KEY, webhook_secret="x", api_base=stripe.origin)
    old = processor.report(payment.session_id, None)
    assert isinstance(old, Report)
    assert outcome(stripe.refund(session, 700)) == "APPLIED"
    with pytest.raises(ReportOutdated):
        booking.book(payment, old)
    bob.refresh_from_db()
    assert bob.balance_nanos == 13_000_000_000
