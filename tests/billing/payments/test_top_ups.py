"""Automatic top-ups: a kept card is charged when little credit is left, once, and not after hard declines."""

import re
from datetime import timedelta

import pytest
from django.core import mail
from django.db import IntegrityError, transaction
from django.test import Client
from django.utils import timezone

from billing import tasks
from billing.models import AccountWarning, LedgerEntry, Membership, Payment, Role, TopUpRule
from billing.payments import top_ups
from gateway_project.activity.models import Activity
from tests import factories, sessions
from tests.billing.payments.conftest import outcome

pytestmark = pytest.mark.django_db

PAGE = "/dashboard/billing/top-up/"
FORM = {"threshold": "30", "amount": "20", "month_max": "60"}


def text(reply):
    assert reply.status_code == 200
    return " ".join(re.sub(r"<[^>]+>", " ", reply.content.decode()).split())


def cents(account):
    account.refresh_from_db()
    return account.balance_nanos // 10_000_000


def set_up(stripe, owner, method="pm_works", **form):
    """Turn the top-up on by a first payment of $20, which leaves less than its threshold."""
    stripe.method = method
    reply = owner.post(PAGE, {**FORM, **form})
    payment = Payment.objects.get(page_url=reply["Location"])
    assert outcome(stripe.pay(payment.session_id)) == "APPLIED"
    return TopUpRule.objects.get(pk=payment.account_id)


def later(**span):
    TopUpRule.objects.exclude(next_try_at=None).update(next_try_at=timezone.now() - timedelta(seconds=1), **span)


def charges(stripe):
    return stripe.requests.count(("POST", "/v1/payment_intents"))


# --- Turning it on ------------------------------------------------------------------------------------------------


def test_it_is_turned_on_by_a_payment_whose_card_is_kept(stripe, owner, bob):
    assert "Off." in text(owner.get("/dashboard/billing/"))
    reply = owner.post(PAGE, FORM)
    payment = Payment.objects.get(page_url=reply["Location"])
    assert stripe.sessions[payment.session_id]["payment_intent_data"]["setup_future_usage"] == "off_session"
    assert (TopUpRule.objects.get().is_on, tasks.top_up_accounts()) == (False, 0)
    assert outcome(stripe.pay(payment.session_id)) == "APPLIED"
    rule = TopUpRule.objects.get()
    assert (rule.is_on, rule.card, rule.method_id, cents(bob)) == (True, "Visa ending in 4242", "pm_works", 2_000)
    page = text(owner.get("/dashboard/billing/"))
    assert "When less than $30.00 is available, we charge $20.00 to Visa ending in 4242" in page
    assert "TOP_UP_CHANGED" in Activity.objects.values_list("act", flat=True)


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({"amount": "4.99"}, "The minimum is $5.00."),
        ({"amount": "1001"}, "The maximum is $1,000.00."),
        ({"month_max": "19.99"}, "Enter at least the amount of one top-up."),
        ({"threshold": ""}, "This field is required."),
    ],
)
def test_a_wrong_amount_is_said_at_the_field(stripe, owner, form, message):
    assert message in text(owner.post(PAGE, {**FORM, **form}))
    assert (TopUpRule.objects.count(), Payment.objects.count()) == (0, 0)


def test_it_can_be_changed_without_a_payment_and_turned_off(stripe, owner, bob):
    set_up(stripe, owner)
    assert owner.post(PAGE, {**FORM, "threshold": "1"})["Location"] == "/dashboard/billing/"
    assert (TopUpRule.objects.get().threshold_cents, Payment.objects.count(), tasks.top_up_accounts()) == (100, 1, 0)
    owner.post(PAGE, FORM)
    owner.post(PAGE, {"off": "1"})
    assert (TopUpRule.objects.get().is_on, tasks.top_up_accounts(), cents(bob)) == (False, 0, 2_000)


def test_the_password_is_asked_again_before_a_kept_card_is_charged_otherwise(stripe, owner):
    set_up(stripe, owner)
    sessions.update(owner, password_given_at=0)
    assert "Password of bob@example.org" in text(owner.post(PAGE, {**FORM, "month_max": "1000"}))
    assert TopUpRule.objects.get().month_cents_max == 6_000


def test_others_do_not_change_it(stripe, owner, charlie):
    rule = set_up(stripe, owner)
    other = Client()
    sessions.sign_in(other, charlie.members.get())
    other.post(PAGE, {"off": "1"})
    rule.refresh_from_db()
    assert rule.is_on


def test_the_database_refuses_a_rule_that_is_on_without_a_card(stripe, owner):
    set_up(stripe, owner)
    with pytest.raises(IntegrityError), transaction.atomic():
        TopUpRule.objects.update(method_id="")


# --- Charging -----------------------------------------------------------------------------------------------------


def test_credit_is_bought_when_less_is_available_and_only_then(stripe, owner, bob):
    set_up(stripe, owner)
    assert (tasks.top_up_accounts(), cents(bob)) == (1, 4_000)
    assert (tasks.top_up_accounts(), cents(bob), charges(stripe)) == (0, 4_000, 1)
    payment = Payment.objects.latest("id")
    assert (payment.created_by, payment.status, TopUpRule.objects.get().attempt) == (None, "PAID", None)
    assert LedgerEntry.objects.latest("seq").metadata == {"stripePaymentId": payment.intent_id}


def test_what_running_requests_hold_is_not_available(stripe, owner, bob):
    set_up(stripe, owner, threshold="20")
    assert tasks.top_up_accounts() == 0
    type(bob).objects.filter(pk=bob.pk).update(held_nanos=1)
    assert tasks.top_up_accounts() == 1


def test_a_month_has_a_ceiling(stripe, owner, bob):
    set_up(stripe, owner, threshold="1000", month_max="50")
    assert [tasks.top_up_accounts() for _ in range(4)] == [1, 1, 0, 0]
    assert cents(bob) == 2_000 + 4_000
    assert "This month's maximum of $50.00 leaves no room for another $20.00." in text(owner.get("/dashboard/billing/"))
    Payment.objects.filter(created_by=None).update(created_at=timezone.now() - timedelta(days=32))
    assert tasks.top_up_accounts() == 1


@pytest.mark.parametrize("change", [{"is_active": False}])
def test_a_closed_account_is_not_charged(stripe, owner, bob, change):
    set_up(stripe, owner)
    type(bob).objects.filter(pk=bob.pk).update(**change)
    assert (tasks.top_up_accounts(), charges(stripe)) == (0, 0)


def test_an_account_that_disputes_a_payment_is_not_charged(stripe, owner, bob):
    set_up(stripe, owner)
    assert outcome(stripe.dispute(Payment.objects.get().session_id, 2_000)) == "APPLIED"
    assert (tasks.top_up_accounts(), charges(stripe), cents(bob)) == (0, 0, 0)


def close(rule):
    type(rule.account).objects.filter(pk=rule.pk).update(is_active=False)


def turn_off(rule):
    TopUpRule.objects.filter(pk=rule.pk).update(is_on=False)


def dispute(rule):
    Payment.objects.exclude(created_by=None).update(disputed_cents=1)


def leave(rule):
    rule.account.members.remove(rule.set_by)


@pytest.mark.parametrize("change", [close, turn_off, dispute, leave])
def test_a_charge_that_the_processor_never_heard_of_is_not_made_once_it_may_not_be(stripe, owner, bob, change):
    set_up(stripe, owner)
    stripe.is_down = True
    assert (tasks.top_up_accounts(), len(stripe.intents)) == (1, 1)
    stripe.is_down = False
    change(TopUpRule.objects.get())
    tasks.top_up_accounts()
    assert (len(stripe.intents), cents(bob)) == (1, 2_000)
    Payment.objects.filter(created_by=None).update(created_at=timezone.now() - top_ups.ASKED_AGAIN_TIME * 2)
    tasks.top_up_accounts()
    assert (len(stripe.intents), TopUpRule.objects.get().attempt) == (1, None)


@pytest.mark.parametrize("was", ["removed", "made a viewer"])
def test_the_card_of_who_may_not_pay_any_more_is_not_charged_though_another_changed_the_amounts(stripe, owner, bob, was):
    stays, other = factories.make_user("stays@example.org"), Client()
    factories.add_member(bob, stays)
    sessions.sign_in(other, stays)
    rule = set_up(stripe, owner)
    other.post(PAGE, {**FORM, "threshold": "40"})
    if was == "removed":
        bob.members.remove(rule.set_by)
    else:
        Membership.objects.filter(user=rule.set_by).update(role=Role.VIEWER)
    assert (tasks.top_up_accounts(), charges(stripe), cents(bob)) == (0, 0, 2_000)
    assert "Automatic top-up has stopped: The member who added the card can no longer pay for the account." in text(
        other.get(PAGE)
    )
    rule = set_up(stripe, other)  # with a card of their own
    assert (rule.set_by, rule.is_on, cents(bob)) == (stays, True, 4_000)
    other.post(PAGE, {**FORM, "threshold": "50"})
    assert (tasks.top_up_accounts(), cents(bob)) == (1, 6_000)


def test_a_run_ends_in_time_for_the_next_one_while_the_processor_does_not_answer(stripe, owner, bob, charlie, monkeypatch):
    set_up(stripe, owner)
    other = Client()
    sessions.sign_in(other, charlie.members.get())
    set_up(stripe, other, threshold="40")
    stripe.is_down = True
    with monkeypatch.context() as patch:
        patch.setattr(top_ups, "RUN_SECONDS_MAX", 0)
        assert tasks.top_up_accounts() == 1
    assert tasks.top_up_accounts() == 2


def test_a_charge_without_an_answer_is_asked_for_again_and_charged_once(stripe, owner, bob):
    set_up(stripe, owner)
    stripe.loses_answers = True
    assert (tasks.top_up_accounts(), cents(bob)) == (1, 2_000)  # it was charged, and the answer was lost
    assert TopUpRule.objects.get().attempt is not None
    stripe.loses_answers = False
    assert (tasks.top_up_accounts(), cents(bob)) == (1, 4_000)
    assert sum(intent["status"] == "succeeded" for intent in stripe.intents.values()) == 2  # the first payment and this one
    assert TopUpRule.objects.get().attempt is None


def test_an_attempt_that_was_never_answered_ends_and_is_not_repeated_at_once(stripe, owner, bob):
    set_up(stripe, owner)
    stripe.is_down = True
    assert tasks.top_up_accounts() == 1
    Payment.objects.filter(created_by=None).update(created_at=timezone.now() - top_ups.ASKED_AGAIN_TIME * 2)
    stripe.is_down = False
    assert (tasks.top_up_accounts(), charges(stripe), cents(bob)) == (1, 3, 2_000)  # the client tried three times
    assert (Payment.objects.latest("id").status, tasks.top_up_accounts()) == ("FAILED", 0)


def test_a_charge_of_which_only_an_event_tells_ends_the_attempt(stripe, owner, bob):
    set_up(stripe, owner)
    stripe.loses_answers = True
    tasks.top_up_accounts()
    stripe.loses_answers = False
    [intent] = [each for each in stripe.intents.values() if each["setup_future_usage"] is None]
    assert (outcome(stripe.event("payment_intent.succeeded", intent)), cents(bob)) == ("APPLIED", 4_000)
    before = charges(stripe)
    assert (tasks.top_up_accounts(), TopUpRule.objects.get().attempt) == (1, None)
    assert (charges(stripe), cents(bob)) == (before, 4_000)


# --- Declines -----------------------------------------------------------------------------------------------------


def test_soft_declines_are_repeated_after_growing_pauses_and_then_stop_with_a_mail(
    stripe, owner, bob, django_capture_on_commit_callbacks
):
    set_up(stripe, owner, "pm_poor")
    with django_capture_on_commit_callbacks(execute=True):
        for pause in top_ups.PAUSES:
            assert tasks.top_up_accounts() == 1
            assert tasks.top_up_accounts() == 0  # before the pause is over
            rule = TopUpRule.objects.get()
            assert pause - timedelta(minutes=5) < rule.next_try_at - timezone.now() <= pause
            assert "Your card was declined. We try again at" in text(owner.get("/dashboard/billing/"))
            later()
        assert mail.outbox == []
        assert tasks.top_up_accounts() == 1
    assert [tasks.top_up_accounts() for _ in range(3)] == [0, 0, 0]
    assert (charges(stripe), cents(bob)) == (4, 2_000)
    [sent] = mail.outbox
    assert sent.subject == "The automatic top-up of Bob stopped"
    assert Payment.objects.filter(created_by=None, status="FAILED", failure="Your card was declined.").count() == 4


@pytest.mark.parametrize(
    ("method", "subject", "reason"),
    [
        ("pm_lost", "The automatic top-up of Bob stopped", "Your card was declined."),
        ("pm_never", "The automatic top-up of Bob stopped", "Your card was declined."),
        ("pm_gone", "The automatic top-up of Bob stopped", "The card can no longer be charged."),
        ("pm_confirm", "Confirm the automatic top-up of Bob", "Your card was declined."),
    ],
    ids=["lost", "never", "gone", "confirm"],
)
def test_after_a_hard_decline_there_is_no_further_attempt_until_a_member_pays(
    stripe, owner, bob, method, subject, reason, settings, django_capture_on_commit_callbacks
):
    set_up(stripe, owner, method)
    settings.GATEWAY_BASE_HOST = "www.example.com"
    with django_capture_on_commit_callbacks(execute=True):
        assert [tasks.top_up_accounts() for _ in range(5)] == [1, 0, 0, 0, 0]
    assert (charges(stripe), cents(bob)) == (1, 2_000)
    [sent] = mail.outbox
    assert (sent.subject, sent.to) == (subject, ["bob@example.org"])
    assert "http://www.example.com/dashboard/billing/top-up/" in sent.body
    settings.GATEWAY_BASE_HOST = ""
    assert f"Automatic top-up has stopped: {reason}" in text(owner.get("/dashboard/billing/"))
    [warning] = AccountWarning.objects.filter(kind="TOP_UP_STOPPED")
    assert warning.data == {"reason": reason, "needs_payer": method == "pm_confirm"}
    rule = set_up(stripe, owner)  # pays again, with a card that works
    assert (rule.stopped_because, rule.declines, cents(bob)) == ("", 0, 4_000)
    owner.post(PAGE, {**FORM, "threshold": "50"})
    assert (tasks.top_up_accounts(), cents(bob)) == (1, 6_000)
