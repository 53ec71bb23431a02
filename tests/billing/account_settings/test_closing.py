"""Closing an account: keys stop, what is left is paid back or forfeited, it can be undone, and then personal data is erased."""

import re
from datetime import timedelta

import pytest
from django.core import mail
from django.db import transaction
from django.db.models import F

from billing import locks, tasks
from billing.ledger import movements, writer
from billing.models import AccountClosing, BillingDetails, LedgerEntry, Payment, User
from gateway_project.activity.models import Activity
from gateway_project.db import pipelined_transaction
from keys.models import ApiKey
from tests import factories, usage
from tests.billing.payments.conftest import begin, outcome, owner, stripe  # noqa: F401  fixtures
from tests.conftest import client_for
from tests.pages.conftest import make_staff, signed_in
from tests.pages.desk_pages import account_page, send

SETTINGS, CLOSE, UNDO = "/dashboard/settings/", "/dashboard/settings/close/", "/dashboard/settings/close/undo/"


@pytest.fixture
def paid(stripe, owner, bob):  # noqa: F811
    """A payment of $20.00, which is all that bob's account has."""
    payment = begin(owner)
    assert outcome(stripe.pay(payment.session_id)) == "APPLIED"
    payment.refresh_from_db()
    return payment


def close(client, name="Bob"):
    """Close the account in two steps, with the password."""
    client.get(CLOSE)
    asked = client.post(CLOSE)
    assert "Please re-enter your password to continue." in asked.content.decode()
    step = client.post(CLOSE, {"current_password": factories.PASSWORD})
    assert f"Type {name} to confirm" in step.content.decode()
    return client.post(CLOSE, {"name": name})


def entries(account):
    return list(LedgerEntry.objects.filter(account=account).order_by("seq").values_list("type", "amount_nanos"))


def acts():
    return list(Activity.objects.order_by("pk").values_list("act", "summary"))


def balance(account):
    account.refresh_from_db()
    return account.balance_nanos


def test_closing_needs_the_password_and_the_name_and_stops_keys_at_once(alice):
    key, secret = factories.make_key(alice, "laptop")
    factories.make_model("demo/echo")
    client, api = signed_in(alice.members.get()), client_for(secret)
    balance_page = lambda: api.get("/api/billing/balance")  # noqa: E731
    assert balance_page().status_code == 200
    page = client.get(CLOSE).content.decode()
    assert "For 30 days an owner can reopen the account." in page
    wrong = client.post(CLOSE, {"current_password": "no", "name": "Alice"})
    assert 'name="current_password"' in wrong.content.decode()
    named = client.post(CLOSE, {"current_password": factories.PASSWORD, "name": "Bob"})
    assert "This is not the name of the account." in named.content.decode()
    assert (balance_page().status_code, AccountClosing.objects.count()) == (200, 0)
    assert close(client, "Alice")["Location"] == SETTINGS
    assert balance_page().status_code == 401
    closing = AccountClosing.objects.get()
    assert (closing.account, closing.closed_by.email, closing.undone_at) == (alice, "alice@example.org", None)
    assert closing.erase_at - closing.closed_at >= timedelta(days=29, hours=23)
    assert acts() == [("CLOSED", "Closed the account.")]
    assert client.get(CLOSE)["Location"] == SETTINGS
    assert "Reopen account" in client.get(SETTINGS).content.decode()


@pytest.mark.django_db(transaction=True)
def test_owners_get_a_mail_with_a_button(alice):
    close(signed_in(alice.members.get()), "Alice")
    [message] = mail.outbox
    assert (message.to, message.subject) == (["alice@example.org"], "Alice is closed")
    assert "alice@example.org closed the account Alice" in message.body


def test_what_is_left_of_payments_is_paid_back_and_the_book_stays_true(paid, stripe, owner, bob):  # noqa: F811
    factories.credit(bob, 100)
    waiting = begin(owner, 3_000)
    usage.spend(bob, 5_005_000_000)  # of the payment, which came first
    close(owner)
    assert tasks.refund_closed_accounts() == 1
    # 14.995 of the payment is left: what is paid back are whole cents.
    assert stripe.intent_of(paid.session_id)["latest_charge"]["amount_refunded"] == 1_499
    assert entries(bob)[-1] == ("REFUND_DEBIT", -14_990_000_000)
    assert balance(bob) == 20_000_000_000 + 1_000_000_000 - 5_005_000_000 - 14_990_000_000
    waiting.refresh_from_db()
    assert waiting.status == "EXPIRED"
    assert [summary for act, summary in acts() if act == "REFUNDED"] == ["Refunded $14.99 of what was left."]
    assert tasks.refund_closed_accounts() == 0
    assert usage.violations() == []


@pytest.mark.parametrize(
    ("spent_nanos", "bank_cents", "held_nanos", "words"),
    [
        (
            0,
            0,
            0,
            "The balance is $20.00. Unused payments, $20.00, are refunded to the way you paid. Free credit is forfeited.",
        ),
        (1, 0, 0, "The balance is $19.99. Unused payments, $19.99, are refunded to the way you paid. Free"),
        (5_005_000_000, 0, 0, "The balance is $14.99. Unused payments, $14.99, are refunded to the way you paid. Free"),
        (19_993_000_000, 0, 0, "The balance is $0.007. Free credit is forfeited."),
        (20_000_000_000, 0, 0, "The balance is $0.00. Free credit is forfeited."),
        (1, 1_000, 0, "are refunded to the way you paid. Ask support to refund $10.00 that you paid another way. Free"),
        (20_000_000_001, 1_000, 0, "The balance is $9.99. Ask support to refund $9.99 that you paid another way. Free"),
        (0, 0, 1_000_000_000, "Unused payments, up to $20.00, are refunded to the way you paid."),
    ],
)
def test_the_page_says_the_cents_that_are_refunded(paid, owner, bob, spent_nanos, bank_cents, held_nanos, words):  # noqa: F811
    if bank_cents:
        with transaction.atomic():
            writer.credit_purchase(locks.lock_account(bob.pk), amount_cents=bank_cents, processor="bank", payment_id="BANK-1")
    if spent_nanos:
        usage.spend(bob, spent_nanos)
    if held_nanos:
        usage.place(bob, held_nanos)
    page = " ".join(re.sub(r"<span class=.usd-exact.>.*?</span>|<[^>]+>", "", owner.get(CLOSE).content.decode()).split())
    assert words in page


def test_a_refund_whose_answer_was_lost_is_not_made_twice(paid, stripe, owner, bob):  # noqa: F811
    close(owner)
    stripe.loses_answers = True
    assert tasks.refund_closed_accounts() == 0
    stripe.loses_answers = False
    assert tasks.refund_closed_accounts() == 1
    assert stripe.intent_of(paid.session_id)["latest_charge"]["amount_refunded"] == 2_000
    assert (balance(bob), len(entries(bob))) == (0, 2)


def test_nothing_is_paid_back_while_requests_run(paid, owner, bob):  # noqa: F811
    hold = usage.place(bob, 1_000_000_000)
    close(owner)
    assert (tasks.refund_closed_accounts(), balance(bob)) == (0, 20_000_000_000)
    usage.release(bob, hold)
    assert (tasks.refund_closed_accounts(), balance(bob)) == (1, 0)


def test_the_operator_may_keep_what_is_left(paid, stripe, owner, bob, settings):  # noqa: F811
    settings.CLOSING_REFUNDS = False
    assert "Unused payments, $20.00, are forfeited." in " ".join(owner.get(CLOSE).content.decode().split())
    close(owner)
    assert (tasks.refund_closed_accounts(), balance(bob)) == (0, 20_000_000_000)
    assert owner.post(UNDO)["Location"] == SETTINGS
    bob.refresh_from_db()
    assert (bob.is_active, balance(bob)) == (True, 20_000_000_000)


def test_a_closing_is_undone_but_not_while_money_is_on_its_way_back(paid, owner, bob):  # noqa: F811
    close(owner)
    assert "We are still refunding what is left." in owner.post(UNDO, follow=True).content.decode()
    bob.refresh_from_db()
    assert not bob.is_active
    tasks.refund_closed_accounts()
    assert "The account is open again." in owner.post(UNDO, follow=True).content.decode()
    bob.refresh_from_db()
    assert bob.is_active
    assert AccountClosing.objects.get().undone_at is not None
    AccountClosing.objects.update(erase_at=F("erase_at") - timedelta(days=31))
    assert tasks.erase_closed_accounts() == 0
    assert close(owner).status_code == 302
    assert AccountClosing.objects.count() == 2


def test_an_account_that_staff_closed_cannot_be_reopened_by_its_owner(alice):
    type(alice).objects.filter(pk=alice.pk).update(is_active=False)
    client = signed_in(alice.members.get())
    assert "There is no closing to undo." in client.post(UNDO, follow=True).content.decode()
    alice.refresh_from_db()
    assert not alice.is_active


# --- Erasure ------------------------------------------------------------------------------------------------------


def pass_time():
    AccountClosing.objects.update(erase_at=F("erase_at") - timedelta(days=31))


def test_personal_data_is_erased_when_its_time_has_come_and_the_ledger_stays(paid, owner, bob, alice):  # noqa: F811
    both = factories.make_user("both@example.org")
    for account in (bob, alice):
        factories.add_member(account=account, user=both, role="VIEWER")
    BillingDetails.objects.create(account=bob, name="Bob Ltd", address="1 High Street")
    key, _ = factories.make_key(bob, "bobs laptop")
    user = bob.members.get(email="bob@example.org")
    close(owner)
    tasks.refund_closed_accounts()
    before = list(LedgerEntry.objects.order_by("pk").values())
    assert tasks.erase_closed_accounts() == 0
    pass_time()
    assert [tasks.erase_closed_accounts() for _ in range(2)] == [1, 0]
    bob.refresh_from_db()
    assert bob.name.startswith("Closed account ")
    assert (bob.memberships.count(), BillingDetails.objects.count()) == (0, 0)
    user.refresh_from_db()
    assert (user.email, user.is_active, user.has_usable_password()) == (f"erased-{user.pk}@erased.invalid", False, False)
    assert User.objects.filter(email="both@example.org", is_active=True).exists()
    key = ApiKey.objects.get(pk=key.pk)
    assert (key.name, key.revoked_at is not None) == ("erased", True)
    assert list(LedgerEntry.objects.order_by("pk").values()) == before
    assert Payment.objects.get(pk=paid.pk).receipt_number == 1
    assert usage.violations() == []
    assert acts()[-1] == ("ERASED", "Erased the personal data of the closed account.")
    assert owner.get("/dashboard/").status_code == 302  # to the sign-in
    assert alice.memberships.count() == 2


def test_what_staff_reopened_is_not_erased(alice):
    client = signed_in(alice.members.get())
    close(client, "Alice")
    type(alice).objects.filter(pk=alice.pk).update(is_active=True)
    tasks.refund_closed_accounts()
    AccountClosing.objects.update(refunded_at=F("closed_at"))
    pass_time()
    assert tasks.erase_closed_accounts() == 0
    alice.refresh_from_db()
    assert (alice.name, alice.memberships.count()) == ("Alice", 1)
    assert AccountClosing.objects.get().undone_at is not None


# --- What happens beside a closing ----------------------------------------------------------------------------------


def by_staff(account, act):
    """Let staff close or open the account on its page."""
    desk = signed_in(
        make_staff(f"{act}-{account.entries.count()}@example.org", ["billing.view_account", "billing.close_account"])
    )
    return send(desk, account_page(account, act), {"reason": "abuse", "ticket": ""})


def test_what_staff_took_back_by_hand_is_not_paid_back_twice(paid, stripe, owner, bob):  # noqa: F811
    staff = factories.make_user("s@example.org", is_staff=True)
    bob.refresh_from_db()
    writer.refund_credit(bob, paid.credit, amount_nanos=5_000_000_000, reference="bank-1", reason="x", issued_by=staff)
    close(owner)
    assert tasks.refund_closed_accounts() == 1
    assert stripe.intent_of(paid.session_id)["latest_charge"]["amount_refunded"] == 0
    assert balance(bob) == 15_000_000_000  # is left to support


def test_a_payment_that_the_bank_still_processes_is_waited_for_and_paid_back(paid, stripe, owner, bob):  # noqa: F811
    late = begin(owner, 3_000)
    outcome(stripe.order(late.session_id))
    close(owner)
    assert tasks.refund_closed_accounts() == 0
    outcome(stripe.confirm(late.session_id))
    assert tasks.refund_closed_accounts() == 1
    assert balance(bob) == 0


def test_what_usage_was_charged_too_much_is_paid_back(paid, owner, bob):  # noqa: F811
    spent = usage.spend(bob, 3_000_000_000)
    with transaction.atomic():
        locked = locks.lock_account(bob.pk)
        entry = writer.return_overcharge(locked, amount_nanos=3_000_000_000, reference=spent.reference, model="demo/echo")
        pipelined_transaction.execute(movements.write_statement(entries=[entry]))
    close(owner)
    assert tasks.refund_closed_accounts() == 1
    assert balance(bob) == 0


def test_what_an_owner_closed_is_refunded_and_erased_though_staff_close_it_too(
    paid,
    stripe,  # noqa: F811
    owner,  # noqa: F811
    bob,
    django_capture_on_commit_callbacks,
):
    close(owner)
    with django_capture_on_commit_callbacks(execute=True):
        assert by_staff(bob, "close").status_code == 302
    [sent] = [each for each in mail.outbox if each.subject == "Our support closed Bob"]
    assert sent.to == ["bob@example.org"]
    erase_at = AccountClosing.objects.get().erase_at
    assert f"As an owner asked, personal data is erased on {erase_at:%-d %b %Y}." in sent.body
    assert "What is left of payments is refunded." in sent.body
    page = owner.get(SETTINGS).content.decode()
    assert "Our support keeps it closed." in page
    assert "Reopen account" not in page
    assert "Only they can reopen it." in owner.post(UNDO, follow=True).content.decode()
    assert tasks.refund_closed_accounts() == 1
    assert balance(bob) == 0
    assert not bob.is_active
    assert "already closed" in by_staff(bob, "close").content.decode()  # another form, opened before
    pass_time()
    assert tasks.erase_closed_accounts() == 1
    bob.refresh_from_db()
    assert bob.name.startswith("Closed account ")


def test_staff_who_open_an_account_again_undo_the_closing_and_tell_its_owners(
    paid,
    owner,  # noqa: F811
    bob,
    django_capture_on_commit_callbacks,
):
    close(owner)
    tasks.refund_closed_accounts()
    by_staff(bob, "close")
    with django_capture_on_commit_callbacks(execute=True):
        assert by_staff(bob, "reopen").status_code == 302
    assert [sent.subject for sent in mail.outbox][-1] == "Our support reopened Bob"
    assert "No personal data is erased." in mail.outbox[-1].body
    pass_time()
    assert tasks.erase_closed_accounts() == 0
    assert "Close account" in owner.get(SETTINGS).content.decode()


def test_the_owner_of_an_account_that_staff_closed_asks_for_refund_and_erasure(
    paid,
    stripe,  # noqa: F811
    owner,  # noqa: F811
    bob,
    django_capture_on_commit_callbacks,
):
    with django_capture_on_commit_callbacks(execute=True):
        by_staff(bob, "close")
    assert "You can ask us to refund what is left and to erase personal data" in mail.outbox[-1].body
    assert not AccountClosing.objects.exists()
    assert "Refund and erase" in owner.get(SETTINGS).content.decode()
    assert "only they can reopen it" in " ".join(owner.get(CLOSE).content.decode().split())
    assert close(owner)["Location"] == SETTINGS
    asked = AccountClosing.objects.get()
    assert (asked.closed_by.email, asked.is_refunded, asked.kept_closed_at is not None) == ("bob@example.org", True, True)
    assert acts()[-1] == ("CLOSED", "Asked to refund and erase the account, which staff closed.")
    assert "Only they can reopen it." in owner.post(UNDO, follow=True).content.decode()
    assert owner.get(CLOSE)["Location"] == SETTINGS  # once
    assert tasks.refund_closed_accounts() == 1
    assert stripe.intent_of(paid.session_id)["latest_charge"]["amount_refunded"] == 2_000
    assert (balance(bob), bob.is_active) == (0, False)
    pass_time()
    assert tasks.erase_closed_accounts() == 1
    assert usage.violations() == []


@pytest.mark.parametrize("role", ["DEVELOPER", "BILLING", "VIEWER"])
def test_only_owners_ask_for_the_erasure_of_a_closed_account(alice, role):
    type(alice).objects.filter(pk=alice.pk).update(is_active=False)
    other = factories.make_user("other@example.org")
    factories.add_member(account=alice, user=other, role=role)
    client = signed_in(other)
    assert client.get(CLOSE).status_code == 403
    assert client.post(CLOSE, {"current_password": factories.PASSWORD, "name": "Alice"}).status_code == 403
    assert not AccountClosing.objects.exists()


def test_an_account_that_staff_opened_again_is_closed_anew_and_not_refunded_for_the_first_time(paid, owner, bob):  # noqa: F811
    close(owner)
    tasks.refund_closed_accounts()
    assert by_staff(bob, "reopen").status_code == 302
    assert close(owner).status_code == 302
    assert AccountClosing.objects.count() == 2


def test_staff_wait_while_what_is_left_is_refunded(paid, owner, bob):  # noqa: F811
    close(owner)
    assert "is being refunded" in by_staff(bob, "reopen").content.decode()
    bob.refresh_from_db()
    assert not bob.is_active
