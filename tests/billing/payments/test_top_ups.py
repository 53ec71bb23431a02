"""Automatic top-ups: a kept card is charged when little credit is left, once, and not after hard declines."""

import html
import re
from datetime import timedelta

import pytest
from django.core import mail
from django.db import IntegrityError, transaction
from django.test import Client
from django.utils import timezone

from billing import tasks
from billing.models import Account, AccountAlert, LedgerEntry, Membership, Payment, Role, TopUpRule, User
from billing.payments import top_ups
from gateway_project.activity.models import Activity
from tests import factories, sessions
from tests.billing.payments.conftest import outcome

pytestmark = pytest.mark.django_db

PAGE = "/dashboard/billing/top-up/"
FORM = {"threshold": "30", "amount": "20", "month_max": "60"}


def text(reply):
    assert reply.status_code == 200
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", reply.content.decode())).split())


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


def tell(settings):
    """Send what is due to be mailed. Return the mails."""
    settings.SENDS_MAIL = True
    tasks.mail_warnings()
    return mail.outbox


def test_soft_declines_are_repeated_after_growing_pauses_and_then_stop_with_a_mail(stripe, owner, bob, settings):
    set_up(stripe, owner, "pm_poor")
    for pause in top_ups.PAUSES:
        assert tasks.top_up_accounts() == 1
        assert tasks.top_up_accounts() == 0  # before the pause is over
        rule = TopUpRule.objects.get()
        assert pause - timedelta(minutes=5) < rule.next_try_at - timezone.now() <= pause
        assert "Your card was declined. We try again at" in text(owner.get("/dashboard/billing/"))
        later()
    assert tell(settings) == []
    assert tasks.top_up_accounts() == 1
    assert [tasks.top_up_accounts() for _ in range(3)] == [0, 0, 0]
    assert (charges(stripe), cents(bob)) == (4, 2_000)
    [sent] = tell(settings)
    assert sent.subject == "Bob: The automatic top-up stopped"
    assert Payment.objects.filter(created_by=None, status="FAILED", failure="Your card was declined.").count() == 4


@pytest.mark.parametrize(
    ("method", "subject", "cause", "reason"),
    [
        ("pm_lost", "Bob: The automatic top-up stopped", "declined", "Your card was declined."),
        ("pm_never", "Bob: The automatic top-up stopped", "declined", "Your card was declined."),
        ("pm_expired", "Bob: The automatic top-up stopped", "declined", "Your card was declined."),
        ("pm_gone", "Bob: The automatic top-up stopped", "declined", "The card can no longer be charged."),
        ("pm_confirm", "Bob: Confirm the automatic top-up", "confirmation", "Your card was declined."),
    ],
    ids=["lost", "never", "expired", "gone", "confirm"],
)
def test_after_a_hard_decline_there_is_no_further_attempt_until_a_member_pays(
    stripe, owner, bob, method, subject, cause, reason, settings
):
    set_up(stripe, owner, method)
    settings.GATEWAY_BASE_HOST = "www.example.com"
    assert [tasks.top_up_accounts() for _ in range(5)] == [1, 0, 0, 0, 0]
    assert (charges(stripe), cents(bob)) == (1, 2_000)
    [sent] = tell(settings)
    assert (sent.subject, sent.to) == (subject, ["bob@example.org"])
    assert f"The bank says: {reason}" in sent.body
    assert "http://www.example.com/dashboard/billing/top-up/" in sent.body
    settings.GATEWAY_BASE_HOST = ""
    page = text(owner.get("/dashboard/billing/"))
    assert f"Automatic top-up has stopped: {reason}" in page
    assert "we charge $20.00" not in page
    [alert] = AccountAlert.objects.filter(kind="TOP_UP_STOPPED")
    facts = {name: alert.data[name] for name in ("cause", "reason", "needs_payer")}
    assert facts == {"cause": cause, "reason": reason, "needs_payer": method == "pm_confirm"}
    rule = set_up(stripe, owner)  # pays again, with a card that works
    assert (rule.stopped_because, rule.declines, cents(bob)) == ("", 0, 4_000)
    owner.post(PAGE, {**FORM, "threshold": "50"})
    assert (tasks.top_up_accounts(), cents(bob)) == (1, 6_000)


# --- Whatever stops a rule ----------------------------------------------------------------------------------------


def lose_a_dispute(stripe, owner, settings):
    assert outcome(stripe.dispute(Payment.objects.get().session_id, 2_000)) == "APPLIED"


def lose_a_dispute_before_times_were_kept(stripe, owner, settings):
    lose_a_dispute(stripe, owner, settings)
    Payment.objects.update(disputed_at=None)
    TopUpRule.objects.update(card_at=None)


def make_a_viewer(stripe, owner, settings):
    other = factories.make_user("stays@example.org")
    factories.add_member(TopUpRule.objects.get().account, other)
    Membership.objects.exclude(user=other).update(role=Role.VIEWER)
    sessions.sign_in(owner, other)


def lock_the_user(stripe, owner, settings):
    make_a_viewer(stripe, owner, settings)
    Membership.objects.update(role=Role.OWNER)
    User.objects.filter(pk=TopUpRule.objects.get().set_by_id).update(is_active=False)


def change_processors(stripe, owner, settings):
    TopUpRule.objects.update(processor="demo")


def stop_payments(stripe, owner, settings):
    settings.PAYMENT_PROCESSOR = ""


def take_payments_again(stripe, owner, settings):
    settings.PAYMENT_PROCESSOR = "stripe"


def close_account(stripe, owner, settings):
    Account.objects.filter(pk=TopUpRule.objects.get().pk).update(is_active=False)


def reopen(stripe, owner, settings):
    Account.objects.update(is_active=True)


def win_the_dispute(stripe, owner, settings):
    assert outcome(stripe.reinstate(Payment.objects.get().session_id)) == "APPLIED"
    TopUpRule.objects.update(threshold_cents=3_000)


def pay_with_a_card(stripe, owner, settings):
    set_up(stripe, owner)


def use_up_the_month(stripe, owner, settings):
    TopUpRule.objects.update(month_cents_max=2_000, threshold_cents=4_500)
    assert tasks.top_up_accounts() == 1


def raise_the_maximum(stripe, owner, settings):
    assert owner.post(PAGE, {**FORM, "threshold": "45"})["Location"] == "/dashboard/billing/"


def get_no_answer_for_hours(stripe, owner, settings):
    stripe.is_down = True
    assert tasks.top_up_accounts() == 1
    Payment.objects.filter(created_by=None).update(created_at=timezone.now() - timedelta(hours=2))


def answer_again(stripe, owner, settings):
    stripe.is_down = False


def get_no_answer_at_all(stripe, owner, settings):
    stripe.is_down = True
    for _ in range(len(top_ups.PAUSES) + 1):
        tasks.top_up_accounts()
        Payment.objects.filter(created_by=None).update(created_at=timezone.now() - top_ups.ASKED_AGAIN_TIME * 2)
        assert tasks.top_up_accounts() == 1
        later()
    stripe.is_down = False


def charge_in_euros(stripe, owner, settings):
    stripe.intents_currency = "eur"
    assert tasks.top_up_accounts() == 1
    stripe.intents_currency = ""


STOPPED = "Automatic top-up has stopped: "
STOPS = {  # what happens, the cause, what the pages say, and what starts it again
    "lost dispute": (
        lose_a_dispute,
        "disputed",
        STOPPED + "A payment of this account was disputed at the bank.",
        pay_with_a_card,
    ),
    "won dispute": (lose_a_dispute, "disputed", STOPPED + "A payment of this account was disputed", win_the_dispute),
    "dispute of the last release": (
        lose_a_dispute_before_times_were_kept,
        "disputed",
        STOPPED + "A payment of this account was disputed",
        pay_with_a_card,
    ),
    "payer's role": (make_a_viewer, "card_owner", STOPPED + "The member who added the card can no longer pay", pay_with_a_card),
    "payer locked": (lock_the_user, "card_owner", STOPPED + "The member who added the card can no longer pay", pay_with_a_card),
    "other processor": (change_processors, "processor_changed", STOPPED + "Our payment processor changed", pay_with_a_card),
    "no processor": (stop_payments, "no_payments", STOPPED + "We do not take payments at the moment.", take_payments_again),
    "closed": (close_account, "account_closed", STOPPED + "The account is closed.", reopen),
    "never an answer": (get_no_answer_at_all, "unanswered", STOPPED + "The payment processor did not answer.", pay_with_a_card),
    "charged in euros": (charge_in_euros, "not_credited", STOPPED + "We received 20.00 EUR, but this payment", pay_with_a_card),
    "month": (
        use_up_the_month,
        "month_maximum",
        "This month's maximum of $20.00 leaves no room for another $20.00.",
        raise_the_maximum,
    ),
    "silence": (
        get_no_answer_for_hours,
        "processor_silent",
        "The payment processor has not answered for over an hour.",
        answer_again,
    ),
}


@pytest.mark.parametrize(("happens", "cause", "words", "mend"), STOPS.values(), ids=STOPS)
def test_what_stops_a_rule_is_on_its_pages_and_mailed_once_and_can_be_mended(
    stripe, owner, bob, settings, happens, cause, words, mend
):
    set_up(stripe, owner)
    happens(stripe, owner, settings)
    before = charged(stripe)
    for _ in range(3):
        tasks.top_up_accounts()
    assert charged(stripe) == before
    for page in (text(owner.get("/dashboard/billing/")), text(owner.get(PAGE))):
        assert words in page
        assert ("we charge $20.00 to Visa" in page) == (STOPPED not in words)
    alerts = AccountAlert.objects.filter(kind="TOP_UP_STOPPED")
    assert [each.data["cause"] for each in alerts.order_by("created_at")][-1:] == [cause]
    mailed = [sent for sent in tell(settings) if words.removeprefix(STOPPED) in sent.body]
    payers = Membership.objects.filter(role__in=(Role.OWNER, Role.BILLING), user__is_active=True)
    assert sorted(sent.to[0] for sent in mailed) == sorted(payers.values_list("user__email", flat=True))
    mend(stripe, owner, settings)
    type(bob).objects.filter(pk=bob.pk).update(held_nanos=type(bob).objects.get(pk=bob.pk).balance_nanos)
    tasks.top_up_accounts()
    assert charged(stripe) > before
    assert STOPPED not in text(owner.get("/dashboard/billing/"))


def charged(stripe):
    return sum(each["status"] == "succeeded" for each in stripe.intents.values() if not each["setup_future_usage"])


def test_another_dispute_stops_the_rule_again_and_a_card_is_confirmed_at_its_bank(stripe, owner, bob, settings):
    set_up(stripe, owner)
    first = Payment.objects.get().session_id
    outcome(stripe.dispute(first, 2_000))
    rule = set_up(stripe, owner)
    second = Payment.objects.exclude(session_id=first).get(created_by__isnull=False).session_id
    assert stripe.sessions[second]["payment_method_options"] == {"card": {"request_three_d_secure": "any"}}
    assert rule.is_on
    outcome(stripe.dispute(second, 2_000))
    assert (tasks.top_up_accounts(), charges(stripe)) == (0, 0)
    assert STOPPED in text(owner.get(PAGE))
    assert AccountAlert.objects.filter(kind="TOP_UP_STOPPED", data__cause="disputed").count() == 1


def test_an_inquiry_that_takes_no_money_stops_nothing(stripe, owner, bob):
    set_up(stripe, owner)
    outcome(stripe.warn(Payment.objects.get().session_id, 2_000))
    assert (tasks.top_up_accounts(), cents(bob)) == (1, 4_000)
    assert STOPPED not in text(owner.get(PAGE))


def test_a_full_month_is_told_once_though_the_balance_moves_about_the_threshold(stripe, owner, bob):
    set_up(stripe, owner)
    TopUpRule.objects.update(month_cents_max=2_000, threshold_cents=4_500)
    for held_nanos in (0, 1, 0, 10**9, 0):
        type(bob).objects.filter(pk=bob.pk).update(held_nanos=held_nanos)
        tasks.top_up_accounts()
        TopUpRule.objects.update(threshold_cents=3_999 if held_nanos else 4_500)
        tasks.top_up_accounts()
    assert AccountAlert.objects.filter(kind="TOP_UP_STOPPED").count() == 1


def test_a_new_card_ends_an_attempt_with_the_former_one_that_got_no_answer(stripe, owner, bob):
    set_up(stripe, owner)
    stripe.is_down = True
    tasks.top_up_accounts()
    stripe.is_down = False
    assert owner.post(PAGE, {**FORM, "new_card": "1"}).status_code == 302
    outcome(stripe.pay(Payment.objects.exclude(page_url="").latest("id").session_id))
    abandoned = Payment.objects.get(created_by=None)
    assert (abandoned.status, abandoned.failure) == ("FAILED", "You gave another card.")
    owner.post(PAGE, {**FORM, "threshold": "50"})
    assert (tasks.top_up_accounts(), cents(bob), charged(stripe)) == (1, 6_000, 1)
