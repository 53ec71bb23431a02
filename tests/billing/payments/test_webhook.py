"""Signed events become entries of the ledger: once, in any order, and only if they agree with the payment."""

import json
import time

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from stripe import WebhookSignature

from billing import locks
from billing.ledger import writer
from billing.models import Account, AccountAlert, LedgerEntry, Payment, PaymentEvent
from billing.payments import webhook
from tests import chat, factories, sessions
from tests.billing.payments.conftest import WEBHOOK, begin, deliver, outcome
from tests.billing.payments.stripe_server import WEBHOOK_SECRET, SignedEvent
from tests.conftest import client_for
from tests.ledger_audit import assert_ledger_is_consistent

pytestmark = pytest.mark.django_db


def entries(account):
    return list(LedgerEntry.objects.filter(account=account).order_by("seq").values_list("type", "amount_nanos"))


def cents(account):
    account.refresh_from_db()
    return account.balance_nanos // 10_000_000


def nothing_happened(bob):
    assert (entries(bob), PaymentEvent.objects.count()) == ([], 0)
    assert not Payment.objects.exclude(status="OPEN").exists()


# --- A payment ----------------------------------------------------------------------------------------------------


def test_a_payment_is_written_before_stripe_hears_of_it_and_credited_when_stripe_says_it_is_paid(stripe, owner, bob):
    payment = begin(owner, 2_000)
    assert (payment.status, payment.amount_cents, payment.account, cents(bob)) == ("OPEN", 2_000, bob, 0)
    assert stripe.sessions[payment.session_id]["client_reference_id"] == str(payment.pk)
    assert outcome(stripe.pay(payment.session_id)) == "APPLIED"
    payment.refresh_from_db()
    entry = LedgerEntry.objects.get(account=bob)
    assert (payment.status, payment.credit, cents(bob)) == ("PAID", entry, 2_000)
    assert (entry.type, entry.metadata) == ("CREDIT_PURCHASE", {"stripePaymentId": payment.intent_id})
    assert entry.reference == f"pay:stripe:{payment.intent_id}"


def test_the_same_event_twice_credits_once(stripe, owner, bob):
    event = stripe.pay(begin(owner).session_id)
    assert [outcome(event), outcome(event)] == ["APPLIED", "APPLIED"]  # the second reply repeats the first
    assert (cents(bob), PaymentEvent.objects.count()) == (2_000, 1)


def test_two_events_about_one_payment_credit_once(stripe, owner, bob):
    payment = begin(owner)
    first = stripe.pay(payment.session_id)
    second = stripe.event("payment_intent.succeeded", stripe.intent_of(payment.session_id))
    assert [outcome(second), outcome(first)] == ["APPLIED", "UNCHANGED"]
    assert cents(bob) == 2_000


def test_an_event_that_could_not_be_handled_is_not_marked_as_done(stripe, owner, bob):
    event = stripe.pay(begin(owner).session_id)
    stripe.is_down = True
    reply = deliver(event)
    assert (reply.status_code, reply.json()["error"]["code"]) == (503, "service_unavailable")
    nothing_happened(bob)
    stripe.is_down = False
    assert (outcome(event), cents(bob)) == ("APPLIED", 2_000)


def test_a_transfer_is_credited_when_the_bank_confirms_it(stripe, owner, bob):
    payment = begin(owner)
    assert (outcome(stripe.order(payment.session_id)), cents(bob)) == ("APPLIED", 0)
    payment.refresh_from_db()
    assert payment.status == "PROCESSING"
    assert (outcome(stripe.confirm(payment.session_id)), cents(bob)) == ("APPLIED", 2_000)


def test_a_transfer_that_the_bank_refuses_is_not_credited_and_says_why(stripe, owner, bob):
    payment = begin(owner)
    assert [outcome(stripe.order(payment.session_id)), outcome(stripe.refuse(payment.session_id))] == ["APPLIED"] * 2
    payment.refresh_from_db()
    assert (payment.status, payment.failure, entries(bob)) == ("FAILED", "The bank refused.", [])


def test_a_completed_page_that_is_not_paid_is_not_credited_even_if_the_event_says_so(stripe, owner, bob):
    payment = begin(owner)
    event = stripe.pay(payment.session_id)
    stripe.order(payment.session_id)  # what the processor says when it is asked
    assert (outcome(event), entries(bob)) == ("APPLIED", [])


def test_a_page_that_expired_is_not_credited(stripe, owner, bob):
    payment = begin(owner)
    assert outcome(stripe.expire(payment.session_id)) == "APPLIED"
    payment.refresh_from_db()
    assert (payment.status, entries(bob)) == ("EXPIRED", [])


def test_an_event_is_handled_that_arrives_before_the_page_is_known(stripe, owner, bob):
    payment = begin(owner)
    event = stripe.pay(payment.session_id)
    Payment.objects.filter(pk=payment.pk).update(session_id=None)  # the process died before it wrote it
    assert (outcome(event), cents(bob)) == ("APPLIED", 2_000)


# --- What contradicts the payment ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value", "note"),
    [
        ("amount_total", 2_001, "the amount in cents is 2000, and was reported as 2001"),
        ("currency", "eur", "the currency is usd, and was reported as eur"),
        ("livemode", True, "the live mode is False, and was reported as True"),
        ("client_reference_id", "01a1fe24-ac0a-7df0-9a1f-6f0f5d3b1c52", "the payment is"),
    ],
)
def test_a_report_that_contradicts_the_payment_is_refused_and_kept(stripe, owner, bob, field, value, note):
    payment = begin(owner)
    event = stripe.pay(payment.session_id)
    stripe.sessions[payment.session_id][field] = value
    assert (outcome(event), entries(bob)) == ("REFUSED", [])
    kept = PaymentEvent.objects.get()
    assert (kept.payment, kept.event_id) == (payment, event.id)
    assert note in kept.note


@pytest.mark.parametrize(
    ("kind", "changes", "note"),
    [
        ("intent", {"amount": 1}, "the amount in cents of the page is 2000, and that of its payment 1"),
        ("intent", {"currency": "eur"}, "the currency of the page is 'usd', and that of its payment 'eur'"),
        ("intent", {"livemode": True}, "the live mode of the page is False, and that of its payment True"),
        ("intent", {"metadata": {"payment": "another"}}, "and that of its payment 'another'"),
        ("intent", {"status": "canceled"}, "the state of the page is True, and that of its payment False"),
        ("charge", {"amount": 1}, "the amount of the payment is 2000, and that of its charge 1"),
        ("charge", {"amount_refunded": -1}, "-1 of 2000 cents were reported as refunded"),
        ("charge", {"amount_refunded": 2_001}, "2001 of 2000 cents were reported as refunded"),
        ("charge", {"amount_refunded": 10**30}, "of 2000 cents were reported as refunded"),
        ("intent", {"id": "pi_\x00"}, "cannot be stored"),
        ("intent", {"id": "pi_" + "x" * 300}, "cannot be stored"),
        ("session", {"currency": "us\x00\ud800"}, "the currency is usd, and was reported as us??"),
    ],
    ids=lambda value: str(value).encode("ascii", "replace").decode()[:40] if isinstance(value, dict) else "",
)
def test_a_report_that_contradicts_itself_is_refused_and_says_why(stripe, owner, bob, kind, changes, note):
    payment = begin(owner)
    event = stripe.pay(payment.session_id)
    intent = stripe.intent_of(payment.session_id)
    {"session": stripe.sessions[payment.session_id], "intent": intent, "charge": intent["latest_charge"]}[kind].update(changes)
    assert (outcome(event), entries(bob)) == ("REFUSED", [])
    assert note in PaymentEvent.objects.get(payment=payment).note


def test_a_report_with_the_ids_of_another_payment_is_refused(stripe, owner, bob):
    first, second = begin(owner), begin(owner)
    assert outcome(stripe.pay(first.session_id)) == "APPLIED"
    event = stripe.pay(second.session_id)
    stripe.intent_of(second.session_id)["id"] = stripe.intent_of(first.session_id)["id"]
    assert (outcome(event), cents(bob)) == ("REFUSED", 2_000)
    note = PaymentEvent.objects.get(payment=second).note
    assert note == f"the processor's ids are those of another payment here, {first.pk}"


def test_the_reason_of_a_refusal_is_on_the_desk(stripe, owner, client):
    payment = begin(owner)
    event = stripe.pay(payment.session_id)
    stripe.intent_of(payment.session_id)["amount"] = 1
    assert outcome(event) == "REFUSED"
    sessions.sign_in(client, factories.make_user("root@example.org", is_staff=True, is_superuser=True))
    page = client.get(f"/admin/billing/paymentevent/{PaymentEvent.objects.get().pk}/change/").content.decode()
    assert "that of its payment 1" in page


@pytest.mark.parametrize("answer", [{"latest_charge": "ch_1"}, {"amount": None}, {"latest_charge": {"amount_refunded": "5"}}])
def test_an_answer_that_is_not_as_documented_is_no_error_of_ours(stripe, owner, bob, answer):
    payment = begin(owner)
    event = stripe.pay(payment.session_id)
    stripe.intent_of(payment.session_id).update(answer)
    reply = deliver(event)
    assert (reply.status_code, entries(bob)) in ((503, []), (200, []))


def test_a_reason_that_cannot_be_stored_is_shown_without_what_cannot(stripe, owner):
    payment = begin(owner)
    event = stripe.refuse(payment.session_id)
    stripe.intent_of(payment.session_id)["last_payment_error"]["message"] = "no\x00 money\ud800"
    assert outcome(event) == "APPLIED"
    payment.refresh_from_db()
    assert payment.failure == "no? money?"


@pytest.mark.parametrize("field", ["id", "type"])
@pytest.mark.parametrize("text", ["evt_\x00", "evt_\ud800", "x" * 256, 5, None, ""])
def test_an_event_whose_texts_cannot_be_stored_is_refused_alone(stripe, owner, bob, field, text):
    if (field, text) == ("type", ""):
        return
    good = stripe.pay(begin(owner).session_id)
    body = json.dumps({**json.loads(good.body), field: text})
    signature = WebhookSignature.generate_signature_header(body, WEBHOOK_SECRET)
    assert deliver(SignedEvent("", body, signature)).status_code == 400
    nothing_happened(bob)
    assert (outcome(good), cents(bob)) == ("APPLIED", 2_000)


def test_an_event_of_the_other_mode_is_refused(stripe, owner, bob):
    payment = begin(owner)
    stripe.is_live = True
    assert (outcome(stripe.pay(payment.session_id)), entries(bob)) == ("REFUSED", [])


@pytest.mark.one_cell
def test_events_about_something_else_are_kept_and_change_nothing(stripe, owner, bob):
    begin(owner)
    unknown = stripe.event("customer.created", {"id": "cus_1", "object": "customer"})
    stripe.intents["pi_other"] = {**stripe._new_intent(500, "usd", {}), "id": "pi_other", "status": "succeeded"}
    foreign = stripe.event("payment_intent.succeeded", stripe.intents["pi_other"])
    assert [outcome(unknown), outcome(foreign)] == ["IGNORED", "IGNORED"]
    assert (entries(bob), PaymentEvent.objects.count()) == ([], 2)


def test_an_event_about_what_the_processor_does_not_show_us_is_ignored_and_not_sent_for_days(stripe, owner, bob):
    session = begin(owner).session_id
    event = stripe.event("checkout.session.completed", {**stripe.sessions[session], "id": "cs_of_another_account"})
    assert (outcome(event), entries(bob)) == ("IGNORED", [])


# --- Signatures and bounds ----------------------------------------------------------------------------------------


def forged(stripe, owner, **options):
    payment = begin(owner)
    stripe.pay(payment.session_id)
    return stripe.event("checkout.session.completed", stripe.sessions[payment.session_id], **options)


@pytest.mark.parametrize(
    "options",
    [{"secret": "whsec_wrong"}, {"secret": ""}, {"sent_at": time.time() - 301}, {"sent_at": time.time() + 10_000}],
    ids=["another secret", "an empty secret", "too old", "of the future"],
)
def test_an_event_with_a_wrong_signature_or_time_is_refused_without_a_query(stripe, owner, bob, options):
    event = forged(stripe, owner, **options)
    with CaptureQueriesContext(connection) as queries:
        reply = deliver(event)
    assert (reply.status_code, reply.json()["error"]["code"], len(queries)) == (400, "invalid_request_error", 0)
    nothing_happened(bob)


@pytest.mark.parametrize("header", ["", "nonsense", "t=1", "t=x,v1=y", "t=1,v0=abc"])
def test_an_event_without_a_signature_is_refused(stripe, owner, bob, header):
    reply = deliver(forged(stripe, owner), **{"Stripe-Signature": header})
    assert reply.status_code == 400
    nothing_happened(bob)


def test_a_changed_body_is_refused(stripe, owner, bob):
    event = forged(stripe, owner)
    reply = deliver(type(event)(event.id, event.body.replace("evt_", "evt_x"), event.signature))
    assert reply.status_code == 400
    nothing_happened(bob)


@pytest.mark.parametrize("body", ["", "[]", "{}", "null", "\x00", '{"object": "v2.core.event"}'])
def test_a_signed_body_that_is_no_event_is_refused(stripe, body, db):
    header = WebhookSignature.generate_signature_header(body, WEBHOOK_SECRET)
    assert deliver(SignedEvent("", body, header)).status_code == 400
    assert PaymentEvent.objects.count() == 0


def test_without_a_secret_the_webhook_refuses_every_event_even_one_signed_with_nothing(stripe, owner, bob, settings):
    event = forged(stripe, owner, secret="")
    settings.STRIPE_WEBHOOK_SECRET = ""
    reply = deliver(event)
    assert (reply.status_code, reply.json()["error"]["code"]) == (503, "service_unavailable")
    nothing_happened(bob)


def test_a_large_body_is_refused_before_it_is_read(stripe, db):
    reply = deliver(stripe.event("customer.created", {"object": "customer", "name": "x" * webhook.BODY_BYTES_MAX}))
    assert (reply.status_code, reply.json()["error"]["code"]) == (413, "invalid_request_error")


@pytest.mark.parametrize("name", ["demo", "paypal"])
def test_only_the_processor_of_the_settings_has_a_webhook(stripe, name, db):
    event = stripe.event("customer.created", {"object": "customer"})
    assert deliver(event, to=f"/api/billing/webhooks/{name}").status_code == 404


def test_the_webhook_needs_no_csrf_token_and_the_pages_do(stripe, owner, bob):
    owner.handler.enforce_csrf_checks = True
    assert owner.post("/dashboard/billing/", {"amount": "20"}).status_code == 403
    assert owner.post(WEBHOOK, b"{}", content_type="application/json").status_code == 400  # for its signature


# --- Refunds and disputes -----------------------------------------------------------------------------------------


def paid(stripe, owner, amount_cents=2_000):
    payment = begin(owner, amount_cents)
    assert outcome(stripe.pay(payment.session_id)) == "APPLIED"
    return payment.session_id


def test_each_refund_books_the_difference_to_what_is_booked(stripe, owner, bob):
    session = paid(stripe, owner)
    first, second = stripe.refund(session, 500), stripe.refund(session, 700)
    assert [outcome(second), outcome(first)] == ["APPLIED", "UNCHANGED"]  # the second says 1,200 in all
    assert (cents(bob), entries(bob)[1:]) == (800, [("REFUND_DEBIT", -12_000_000_000)])
    [alert] = AccountAlert.objects.filter(account=bob, kind="PAYMENT_TAKEN_BACK")
    assert (alert.data["amount_nanos"], alert.data["reason"]) == (12_000_000_000, "Payment refunded")


def test_a_refund_that_arrives_before_the_payment_books_both(stripe, owner, bob):
    payment = begin(owner)
    late, early = stripe.pay(payment.session_id), stripe.refund(payment.session_id, 2_000)
    assert [outcome(early), outcome(late)] == ["APPLIED", "UNCHANGED"]
    assert [kind for kind, _ in entries(bob)] == ["CREDIT_PURCHASE", "REFUND_DEBIT"]
    assert cents(bob) == 0


@pytest.mark.parametrize(
    ("by_hand_nanos", "reported_cents", "left_nanos"),
    [
        (5_000_000_000, 500, 15_000_000_000),
        (5_000_000_000, 700, 13_000_000_000),
        (5_000_000_000, 300, 15_000_000_000),
        (19_999_999_999, 2_000, 1),
    ],
)
def test_a_refund_that_staff_booked_before_is_not_booked_again(stripe, owner, bob, by_hand_nanos, reported_cents, left_nanos):
    session = paid(stripe, owner)
    take_back_by_hand(bob, by_hand_nanos)
    assert outcome(stripe.refund(session, reported_cents)) == "APPLIED"
    bob.refresh_from_db()
    assert bob.balance_nanos == left_nanos
    assert_ledger_is_consistent()


def take_back_by_hand(account, nanos):
    staff = factories.make_user("staff@example.org", is_staff=True)
    credit, reason = Payment.objects.get().credit, "closed the account"
    with transaction.atomic():
        locked = locks.lock_account(account.pk)
        writer.refund_credit(locked, credit, amount_nanos=nanos, reference="by hand", reason=reason, issued_by=staff)


def test_another_refund_credits_nothing_of_what_staff_took_back_beside_the_first(stripe, owner, bob):
    session = paid(stripe, owner)
    assert outcome(stripe.refund(session, 500)) == "APPLIED"
    take_back_by_hand(bob, 10_000_000_000)
    assert (outcome(stripe.refund(session, 100)), cents(bob)) == ("APPLIED", 500)
    assert (outcome(stripe.refund(session, 1_400)), cents(bob)) == ("APPLIED", 0)
    assert_ledger_is_consistent()


def test_a_refund_that_failed_is_credited_again_and_not_what_staff_took_back_beside_it(stripe, owner, bob):
    session = paid(stripe, owner)
    assert outcome(stripe.refund(session, 1_000)) == "APPLIED"
    take_back_by_hand(bob, 5_000_000_000)
    assert (outcome(stripe.fail_refund(session, 500)), cents(bob)) == ("APPLIED", 1_000)
    assert_ledger_is_consistent()


def test_a_refund_that_failed_is_credited_again(stripe, owner, bob):
    session = paid(stripe, owner)
    assert outcome(stripe.refund(session, 2_000)) == "APPLIED"
    assert (outcome(stripe.fail_refund(session, 2_000)), cents(bob)) == ("APPLIED", 2_000)


def test_a_dispute_is_booked_when_funds_are_withdrawn_and_undone_when_they_are_reinstated(stripe, owner, bob):
    session = paid(stripe, owner)
    assert (outcome(stripe.warn(session, 2_000)), cents(bob)) == ("UNCHANGED", 2_000)
    assert (outcome(stripe.dispute(session, 2_000)), cents(bob)) == ("APPLIED", 0)
    assert (outcome(stripe.reinstate(session)), cents(bob)) == ("APPLIED", 2_000)
    back = LedgerEntry.objects.filter(account=bob).latest("seq")
    payment = Payment.objects.get()
    assert (back.type, back.metadata["stripePaymentId"]) == ("CREDIT_PURCHASE", payment.intent_id)
    assert back.metadata["reason"] == "Disputed payment reinstated by the bank"


def test_a_refund_and_a_dispute_together_never_take_back_more_than_was_paid(stripe, owner, bob):
    session = paid(stripe, owner)
    assert outcome(stripe.refund(session, 1_500)) == "APPLIED"
    assert (outcome(stripe.dispute(session, 2_000)), cents(bob)) == ("APPLIED", 0)
    assert (outcome(stripe.reinstate(session)), cents(bob)) == ("APPLIED", 500)


def test_a_dispute_that_is_withdrawn_in_another_currency_takes_back_its_own_amount(stripe, owner, bob):
    session = paid(stripe, owner)
    assert (outcome(stripe.dispute(session, 1_000, currency="eur", withdrawn=921)), cents(bob)) == ("APPLIED", 1_000)
    assert (outcome(stripe.reinstate(session)), cents(bob)) == ("APPLIED", 2_000)


def test_a_refund_of_spent_credit_takes_the_balance_below_zero_and_blocks_usage(stripe, owner, bob, echo_model):
    session = paid(stripe, owner)
    api = client_for(factories.make_key(bob)[1])
    assert chat.ask(api).status_code == 200
    assert outcome(stripe.refund(session, 2_000)) == "APPLIED"
    bob.refresh_from_db()
    assert bob.balance_nanos < 0
    reply = chat.ask(api)
    assert (reply.status_code, reply.json()["error"]["code"]) == (402, "insufficient_quota")


# --- What the database keeps --------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [{"amount_cents": 1}, {"currency": "eur"}, {"is_live": True}, {"processor": "demo"}])
def test_what_a_payment_is_about_never_changes(stripe, owner, change):
    from django.db import IntegrityError, transaction

    payment = begin(owner)
    with pytest.raises(IntegrityError, match="never change"), transaction.atomic():
        Payment.objects.filter(pk=payment.pk).update(**change)


def test_what_is_paid_stays_paid_and_events_stay_as_they_are(stripe, owner, charlie):
    from django.db import IntegrityError, transaction

    paid(stripe, owner)
    for statement in (
        lambda: Payment.objects.update(status="FAILED", credit=None, receipt_number=None, paid_at=None),
        lambda: Payment.objects.update(account=Account.objects.get(name="Charlie")),
        lambda: Payment.objects.update(debited_cents=2_001),
        lambda: PaymentEvent.objects.update(outcome="REFUSED"),
        lambda: PaymentEvent.objects.all().delete(),
    ):
        with pytest.raises(IntegrityError), transaction.atomic():
            statement()


def test_the_reply_says_what_the_event_led_to(stripe, owner):
    reply = deliver(stripe.pay(begin(owner).session_id))
    assert json.loads(reply.content) == {"outcome": "APPLIED", "note": "credited"}
