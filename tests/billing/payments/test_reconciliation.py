"""Once a day both books are compared: what no event told of is booked, and what contradicts is shown to staff."""

import html
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from billing import tasks
from billing.models import LedgerEntry, Payment, PaymentDifference, PaymentEvent, User
from tests import factories, sessions
from tests.billing.payments.conftest import begin, outcome

pytestmark = pytest.mark.django_db


def cents(account):
    account.refresh_from_db()
    return account.balance_nanos // 10_000_000


def age(**span):
    Payment.objects.update(created_at=timezone.now() - timedelta(**span))


def test_without_a_processor_nothing_is_compared(settings, db):
    settings.PAYMENT_PROCESSOR = ""
    assert tasks.reconcile_payments() == 0


def test_payments_that_agree_leave_nothing(stripe, owner, bob):
    session = begin(owner).session_id
    assert outcome(stripe.pay(session)) == "APPLIED"
    assert outcome(stripe.refund(session, 500)) == "APPLIED"
    assert (tasks.reconcile_payments(), cents(bob), PaymentDifference.objects.count()) == (0, 1_500, 0)


def test_what_no_event_told_of_is_booked(stripe, owner, bob):
    missed, refunded, disputed, waiting = (begin(owner).session_id for _ in range(4))
    for session in (refunded, disputed):
        assert outcome(stripe.pay(session)) == "APPLIED"
    stripe.pay(missed)
    stripe.refund(refunded, 700)
    stripe.dispute(disputed, 2_000)
    stripe.order(waiting)
    assert (tasks.reconcile_payments(), cents(bob)) == (0, 2_000 + 1_300 + 0)
    assert Payment.objects.get(session_id=waiting).status == "PROCESSING"
    before = LedgerEntry.objects.count()
    assert (tasks.reconcile_payments(), LedgerEntry.objects.count()) == (0, before)


@pytest.mark.one_cell
def test_a_payment_that_is_unknown_here_is_a_difference_until_it_is_gone(stripe, owner, bob):
    begin(owner)
    intent = stripe._new_intent(2_000, "usd", {"payment": "01a1fe24-ac0a-7df0-9a1f-6f0f5d3b1c52"})
    intent["status"] = "succeeded"
    stripe._new_intent(500, "usd", {})["status"] = "succeeded"  # another program's
    assert [tasks.reconcile_payments(), tasks.reconcile_payments()] == [1, 1]
    difference = PaymentDifference.objects.get()
    assert difference.sentence == f"The processor has a paid payment {intent['id']} that is not known here."
    assert difference.gone_at is None
    del stripe.intents[intent["id"]]
    assert tasks.reconcile_payments() == 0
    difference.refresh_from_db()
    assert difference.gone_at is not None
    assert cents(bob) == 0


def test_a_payment_of_another_amount_is_a_difference_and_is_not_booked(stripe, owner, bob):
    payment = begin(owner)
    stripe.pay(payment.session_id)
    stripe.intent_of(payment.session_id)["amount"] = 2_001
    stripe.sessions[payment.session_id]["amount_total"] = 2_001
    assert (tasks.reconcile_payments(), cents(bob)) == (1, 0)
    difference = PaymentDifference.objects.get()
    assert difference.payment == payment
    assert difference.sentence == "the amount in cents is 2000, and was reported as 2001"


def test_a_credit_that_the_processor_does_not_list_is_a_difference(stripe, owner, bob):
    payment = begin(owner)
    assert outcome(stripe.pay(payment.session_id)) == "APPLIED"
    stripe.intent_of(payment.session_id)["status"] = "canceled"
    assert tasks.reconcile_payments() == 1
    payment.refresh_from_db()
    assert PaymentDifference.objects.get().sentence == (
        f"It is credited here, and the processor lists no paid payment {payment.intent_id}."
    )


def test_one_payment_that_the_processor_does_not_know_keeps_no_other_from_being_booked(stripe, owner, bob):
    lost, missed = begin(owner), begin(owner)
    del stripe.sessions[lost.session_id]
    stripe.pay(missed.session_id)
    assert (tasks.reconcile_payments(), cents(bob)) == (1, 2_000)
    assert PaymentDifference.objects.get().sentence == (
        f"It waits here, and the processor does not know its page {lost.session_id}."
    )


def test_payments_of_the_other_mode_are_left_alone(stripe, owner, settings):
    payment = begin(owner)
    stripe.key = settings.STRIPE_SECRET_KEY = "sk_live_example"
    stripe.is_live = True
    del stripe.sessions[payment.session_id]
    assert (tasks.reconcile_payments(), PaymentDifference.objects.count()) == (0, 0)


def test_a_top_up_whose_answer_never_came_is_credited_by_the_comparison(stripe, owner, bob):
    owner.post("/dashboard/billing/top-up/", {"threshold": "30", "amount": "20", "month_max": "60"})
    assert outcome(stripe.pay(Payment.objects.get().session_id)) == "APPLIED"
    stripe.loses_answers = True
    tasks.top_up_accounts()
    Payment.objects.filter(created_by=None).update(created_at=timezone.now() - timedelta(hours=21))
    tasks.top_up_accounts()
    stripe.loses_answers = False
    top_up = Payment.objects.get(created_by=None)
    assert (top_up.status, cents(bob)) == ("FAILED", 2_000)
    assert (tasks.reconcile_payments(), cents(bob)) == (0, 4_000)


def test_a_payment_that_never_had_a_page_expires(stripe, owner):
    begin(owner)
    Payment.objects.update(session_id=None)
    assert (tasks.reconcile_payments(), Payment.objects.get().status) == (0, "OPEN")
    age(hours=25)
    assert (tasks.reconcile_payments(), Payment.objects.get().status) == (0, "EXPIRED")


@pytest.mark.one_cell
def test_the_home_page_of_staff_counts_differences(stripe, owner):
    root = Client()
    sessions.sign_in(root, User.objects.create_superuser("root@example.org", factories.PASSWORD))
    assert "Not compared with the processor's records yet." in html.unescape(root.get("/admin/").content.decode())
    stripe._new_intent(2_000, "usd", {"payment": "unknown"})["status"] = "succeeded"
    tasks.reconcile_payments()
    assert "1 payment differs from the processor's records" in html.unescape(root.get("/admin/").content.decode())
    assert "that is not known here" in root.get("/admin/billing/paymentdifference/?gone_at__isempty=1").content.decode()


@pytest.mark.one_cell
def test_only_who_may_view_payments_sees_them_and_nobody_changes_them(stripe, owner, bob):
    outcome(stripe.pay(begin(owner).session_id))
    stripe._new_intent(2_000, "usd", {"payment": "unknown"})["status"] = "succeeded"
    assert tasks.reconcile_payments() == 1
    root, nobody = Client(), Client()
    sessions.sign_in(root, User.objects.create_superuser("root@example.org", factories.PASSWORD))
    sessions.sign_in(nobody, factories.make_user("powerless@example.org", is_staff=True))
    kept = {"payment": Payment.objects.get(), "paymentevent": PaymentEvent.objects.get()}
    for model, row in {**kept, "paymentdifference": PaymentDifference.objects.get()}.items():
        pages = [f"/admin/billing/{model}/", f"/admin/billing/{model}/{row.pk}/change/"]
        assert [root.get(page).status_code for page in pages] == [200, 200]
        assert [nobody.get(page).status_code for page in pages] == [403, 403]
        for path in ("add/", f"{row.pk}/delete/", f"{row.pk}/change/"):
            assert root.post(f"/admin/billing/{model}/{path}", {"post": "yes"}).status_code == 403
