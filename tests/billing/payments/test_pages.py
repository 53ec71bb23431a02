"""The billing page, and the page that payers return to. Members of other accounts cannot open them."""

import re
import unicodedata
from decimal import Decimal
from io import BytesIO
from typing import Any

import pytest
from django.db import transaction
from django.test import Client
from django.utils import timezone
from pypdf import PdfReader

from billing import locks
from billing.account_settings import own_tables
from billing.desk import search
from billing.ledger import writer
from billing.models import BillingDetails, LedgerEntry, Payment
from billing.payments import pages, purchases
from billing.payments.documents import fonts, taxes
from gateway_project.activity.models import Activity
from tests import factories, sessions
from tests.billing.payments.conftest import begin, outcome
from tests.billing.payments.documents import papers

pytestmark = pytest.mark.django_db

BILLING, DETAILS = "/dashboard/billing/", "/dashboard/billing/details/"
FORM = {"name": "Example GmbH", "address": "Street 1\n12345 Berlin", "tax_id": "DE123456789"}


def text(reply):
    assert reply.status_code == 200
    return " ".join(re.sub(r"<[^>]+>", " ", reply.content.decode()).split())


def at(payment, more=""):
    return f"{BILLING}payments/{payment.pk}/{more}"


# --- Adding credit ------------------------------------------------------------------------------------------------


def test_an_account_without_payments_is_told_what_to_do(stripe, owner):
    page = text(owner.get(BILLING))
    assert "$0.00 You have no credit available. Requests are refused until you add credit." in page
    assert "No payments yet. Your payments and receipts appear here." in page
    assert "Receipts and invoices stay as issued. Add your billing details before you pay." in page
    owner.post(DETAILS, FORM)
    assert "before you pay" not in text(owner.get(BILLING))


@pytest.mark.parametrize(("form", "cents"), [({"preset": "2500"}, 2_500), ({"amount": "$12.34"}, 1_234)])
def test_credit_is_added_by_a_preset_or_a_free_amount(stripe, owner, form, cents):
    reply = owner.post(BILLING, form)
    payment = Payment.objects.get()
    assert (reply.status_code, reply["Location"]) == (302, payment.page_url)
    assert (payment.amount_cents, payment.currency, payment.status) == (cents, "usd", "OPEN")
    assert stripe.sessions[payment.session_id]["amount_total"] == cents
    assert Activity.objects.get().act == "PAYMENT_BEGUN"


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({}, "Enter an amount or choose a preset."),
        ({"amount": "4.99"}, "The minimum is $5.00."),
        ({"amount": "1000.01"}, "The maximum is $1,000.00."),
        ({"amount": "-20"}, "Enter an amount in dollars"),
        ({"amount": "20.001"}, "Enter an amount in dollars"),
        ({"preset": "1"}, "Select a valid choice"),
    ],
)
def test_a_wrong_amount_is_said_at_the_field_and_nothing_is_begun(stripe, owner, form, message):
    assert message in text(owner.post(BILLING, form))
    assert (Payment.objects.count(), stripe.requests) == (0, [])


def test_the_bounds_and_presets_are_settings(stripe, owner, settings):
    settings.PAYMENT_CENTS_MIN, settings.PAYMENT_CENTS_MAX, settings.PAYMENT_PRESETS_CENTS = 100, 200, [150]
    page = text(owner.get(BILLING))
    assert "From $1.00 to $2.00." in page
    assert "$1.50" in page
    assert "The maximum is $2.00." in text(owner.post(BILLING, {"amount": "3"}))


def test_what_the_form_says_of_account_or_currency_is_not_read(stripe, owner, bob, charlie):
    owner.post(BILLING, {"amount": "20", "account": str(charlie.pk), "currency": "jpy", "amount_cents": "1"})
    payment = Payment.objects.get()
    assert (payment.account, payment.amount_cents, payment.currency) == (bob, 2_000, "usd")


def test_a_payment_whose_page_cannot_be_opened_is_marked_and_can_be_tried_again(stripe, owner):
    stripe.is_down = True
    assert "We could not open the payment page. You were not charged." in text(owner.post(BILLING, {"amount": "20"}))
    assert Payment.objects.get().status == "FAILED"
    stripe.is_down = False
    assert begin(owner).status == "OPEN"


def test_an_account_begins_a_bounded_number_of_payments_an_hour(stripe, owner, monkeypatch):
    monkeypatch.setattr(purchases, "BEGUN_MAX", 2)
    for _ in range(2):
        begin(owner)
    before = len(stripe.requests)
    assert "Too many payments started in the last hour. You were not charged." in text(owner.post(BILLING, {"amount": "20"}))
    assert (Payment.objects.count(), len(stripe.requests)) == (2, before)
    Payment.objects.update(created_at=timezone.now() - purchases.BEGUN_TIME)
    assert begin(owner).status == "OPEN"


def test_a_closed_account_cannot_buy_credit(stripe, owner, bob):
    type(bob).objects.filter(pk=bob.pk).update(is_active=False)
    assert "You cannot buy credit here yet." in text(owner.post(BILLING, {"amount": "20"}))
    assert Payment.objects.count() == 0


def test_browsers_may_follow_the_form_to_the_processor_and_nowhere_else(stripe, owner):
    policy = owner.get(BILLING)["Content-Security-Policy"]
    assert "form-action 'self' https://checkout.stripe.com;" in policy + ";"
    assert "checkout.stripe.com" not in owner.get("/dashboard/")["Content-Security-Policy"]


def test_without_a_processor_nothing_can_be_bought(owner, settings):
    settings.PAYMENT_PROCESSOR = ""
    assert "You cannot buy credit here yet." in text(owner.get(BILLING))
    assert "You cannot buy credit here yet." in text(owner.post(BILLING, {"amount": "20"}))
    assert Payment.objects.count() == 0


# --- Coming back --------------------------------------------------------------------------------------------------


def test_the_page_that_payers_return_to_asks_the_processor_itself(stripe, owner, bob):
    payment = begin(owner)
    event = stripe.pay(payment.session_id)
    page = text(owner.get(at(payment)))
    assert "Paid $20.00 was added to your balance" in page
    bob.refresh_from_db()
    assert bob.balance_nanos == 20_000_000_000
    assert outcome(event) == "UNCHANGED"
    assert LedgerEntry.objects.count() == 1


def test_a_payment_that_waits_says_so_and_looks_again(stripe, owner):
    payment = begin(owner)
    reply = owner.get(at(payment))
    assert "Waiting for the payment" in text(reply)
    assert '<meta http-equiv="refresh" content="5">' in reply.content.decode()
    assert payment.page_url in reply.content.decode()
    assert outcome(stripe.order(payment.session_id)) == "APPLIED"
    page = text(owner.get(at(payment)))
    assert "Your bank is processing the payment" in page
    assert "refreshes" not in page  # it takes days
    stripe.refuse(payment.session_id)
    Payment.objects.update(asked_at=None)
    page = text(owner.get(at(payment)))
    assert "Not paid The bank refused. Your balance did not change." in page
    assert "looks again" not in page


def test_reloading_a_page_asks_the_processor_once_in_a_while(stripe, owner, monkeypatch):
    payment = begin(owner)
    before = len(stripe.requests)
    for _ in range(5):
        owner.get(at(payment))
    assert len(stripe.requests) == before + 1
    monkeypatch.setattr(pages, "ASKED_AGAIN_AFTER", pages.ASKED_AGAIN_AFTER * 0)
    owner.get(at(payment))
    assert len(stripe.requests) == before + 2


def test_while_the_processor_does_not_answer_the_page_says_that_nothing_is_lost(stripe, owner):
    payment = begin(owner)
    stripe.is_down = True
    assert "We could not reach the payment processor." in text(owner.get(at(payment)))
    assert LedgerEntry.objects.count() == 0


@pytest.mark.parametrize("more", ["", "receipt/"])
def test_payments_of_other_accounts_are_not_found(stripe, owner, charlie, more):
    payment = begin(owner)
    stripe.pay(payment.session_id)
    owner.get(at(payment))
    other = Client()
    sessions.sign_in(other, charlie.members.get())
    assert other.get(at(payment, more)).status_code == 404
    assert Client().get(at(payment, more)).status_code == 302  # to the sign-in


def test_who_belongs_to_no_account_sees_no_billing(stripe, db):
    client = Client()
    sessions.sign_in(client, factories.make_user("nobody@example.org"))
    assert [client.get(path).status_code for path in (BILLING, DETAILS)] == [403, 403]


def session_of(stripe, payment):
    return stripe.sessions[payment.session_id]


def pay_in(currency):
    def pay(stripe, payment):
        stripe.pay(payment.session_id)
        session_of(stripe, payment)["currency"] = stripe.intent_of(payment.session_id)["currency"] = currency

    return pay


def pay_cents(cents):
    def pay(stripe, payment):
        stripe.pay(payment.session_id)
        session_of(stripe, payment)["amount_total"] = stripe.intent_of(payment.session_id)["amount"] = cents
        stripe.intent_of(payment.session_id)["latest_charge"]["amount"] = cents

    return pay


def pay_in_live_mode(stripe, payment):
    stripe.pay(payment.session_id)
    session_of(stripe, payment)["livemode"] = stripe.intent_of(payment.session_id)["livemode"] = True


def pay_for_another(stripe, payment):
    stripe.pay(payment.session_id)
    session_of(stripe, payment)["client_reference_id"] = str(payment.account_id)


def pay_what_contradicts_itself(stripe, payment):
    stripe.pay(payment.session_id)
    stripe.intent_of(payment.session_id)["amount"] = 1


def order_in_euros(stripe, payment):
    stripe.order(payment.session_id)
    session_of(stripe, payment)["currency"] = stripe.intent_of(payment.session_id)["currency"] = "eur"


def get_euros_back(stripe, payment):
    pay_in("eur")(stripe, payment)
    stripe.refund(payment.session_id, 2_000)


KEPT = (
    "We did not add it to your balance. The money is with the payment processor. "
    "Write to us with the payment ID, and we refund it."
)
NOT_DOLLARS = "but this payment is for $20.00: it must be in US dollars."
REFUSED_PAYMENTS = {
    "euros": (pay_in("eur"), f"We received 20.00 EUR, {NOT_DOLLARS} {KEPT}"),
    "yen": (pay_in("jpy"), f"We received 2,000 JPY, {NOT_DOLLARS} {KEPT}"),
    "dinars": (pay_in("kwd"), f"We received 2.000 KWD, {NOT_DOLLARS} {KEPT}"),
    "less": (pay_cents(1_999), f"We received $19.99, but this payment is for $20.00. {KEPT}"),
    "more": (pay_cents(200_000), f"We received $2,000.00, but this payment is for $20.00. {KEPT}"),
    "other mode": (
        pay_in_live_mode,
        f"We received $20.00, but in the wrong mode of the payment processor, live or test. {KEPT}",
    ),
    "other payment": (
        pay_for_another,
        f"We received a payment here that the payment processor reports as another one. {KEPT}",
    ),
    "contradiction": (
        pay_what_contradicts_itself,
        f"We received $20.00, but the records of the payment processor about it contradict each other. {KEPT}",
    ),
    "transfer": (
        order_in_euros,
        f"Your bank is processing 20.00 EUR, {NOT_DOLLARS} We did not add it to your balance. Ask your bank to stop it,",
    ),
    "refunded": (
        get_euros_back,
        f"We received 20.00 EUR, {NOT_DOLLARS} We did not add it to your balance. It was refunded to you.",
    ),
}


@pytest.mark.parametrize(("pay", "words"), REFUSED_PAYMENTS.values(), ids=REFUSED_PAYMENTS)
def test_a_payer_whose_payment_is_refused_reads_what_came_and_why_and_where_the_money_is(
    stripe, owner, bob, settings, pay, words
):
    settings.SUPPORT_ADDRESS = "help@example.com"
    payment = begin(owner)
    pay(stripe, payment)
    reply = owner.get(at(payment))
    assert f"Not credited {words}" in text(reply)
    assert "help@example.com" in text(reply)
    for wrong in ("No payment received", "Continue payment", "Cancel payment", "Try again", "refreshes"):
        assert wrong not in text(reply)
    listed = text(owner.get(BILLING))
    assert ("Not credited" in listed, words in listed) == (True, True)
    bob.refresh_from_db()
    assert (bob.balance_nanos, LedgerEntry.objects.count()) == (0, 0)


def test_a_payment_that_no_longer_contradicts_is_credited(stripe, owner, bob):
    payment = begin(owner)
    pay_in("eur")(stripe, payment)
    owner.get(at(payment))
    pay_in("usd")(stripe, payment)
    Payment.objects.update(asked_at=None)
    assert "Paid $20.00 was added to your balance" in text(owner.get(at(payment)))
    payment.refresh_from_db()
    assert payment.refusal == ""
    assert "Not credited" not in text(owner.get(BILLING))


def test_a_page_that_nobody_paid_waits_though_it_contradicts(stripe, owner):
    stripe.currency = "eur"
    payment = begin(owner)
    assert "No payment received yet." in text(owner.get(at(payment)))


# --- Cancelling, and trying again ---------------------------------------------------------------------------------


def state(payment):
    payment.refresh_from_db()
    return payment.status, payment.failure


def acts():
    return list(Activity.objects.order_by("pk").values_list("act", flat=True))


def test_a_payment_that_was_not_made_can_be_cancelled_and_tried_again(stripe, owner, bob):
    payment = begin(owner)
    assert "Cancel payment" in text(owner.get(at(payment)))
    page = text(owner.post(at(payment, "cancel/"), follow=True))
    assert "The payment of $20.00 is cancelled." in page
    assert "Cancelled Cancelled by bob@example.org. Your balance did not change. Try again" in page
    assert state(payment) == ("EXPIRED", "Cancelled by bob@example.org.")
    assert stripe.sessions[payment.session_id]["status"] == "expired"
    reply = owner.post(at(payment, "retry/"))
    again = Payment.objects.exclude(pk=payment.pk).get()
    assert (reply.status_code, reply["Location"]) == (302, again.page_url)
    assert (again.amount_cents, again.status, again.account) == (2_000, "OPEN", bob)
    assert acts() == ["PAYMENT_BEGUN", "PAYMENT_CANCELLED", "PAYMENT_BEGUN"]
    assert LedgerEntry.objects.count() == 0


def test_a_payment_that_was_made_meanwhile_is_credited_and_not_cancelled(stripe, owner, bob):
    payment = begin(owner)
    stripe.pay(payment.session_id)
    assert "$20.00 was added to your balance" in text(owner.post(at(payment, "cancel/"), follow=True))
    assert state(payment) == ("PAID", "")
    assert acts() == ["PAYMENT_BEGUN"]
    owner.post(at(payment, "cancel/"))
    owner.post(at(payment, "retry/"))
    assert (state(payment), Payment.objects.count(), LedgerEntry.objects.count()) == (("PAID", ""), 1, 1)


def test_a_payment_that_the_bank_processes_cannot_be_cancelled(stripe, owner):
    payment = begin(owner)
    stripe.order(payment.session_id)
    assert "Cancel payment" not in text(owner.post(at(payment, "cancel/"), follow=True))
    assert (state(payment), acts()) == (("PROCESSING", ""), ["PAYMENT_BEGUN"])


def test_a_payment_stays_open_while_the_processor_cannot_be_reached(stripe, owner):
    payment = begin(owner)
    stripe.is_down = True
    page = text(owner.post(at(payment, "cancel/"), follow=True))
    assert "We could not reach the payment processor. Try again in a minute." in page
    assert (state(payment), acts()) == (("OPEN", ""), ["PAYMENT_BEGUN"])


def test_a_payment_is_tried_again_within_the_bounds_of_today(stripe, owner, settings):
    payment = begin(owner)
    owner.post(at(payment, "cancel/"))
    settings.PAYMENT_CENTS_MIN = 5_000
    assert "The minimum is $50.00." in text(owner.post(at(payment, "retry/"), follow=True))
    assert Payment.objects.count() == 1


@pytest.mark.parametrize("more", ["cancel/", "retry/"])
def test_payments_of_other_accounts_are_neither_cancelled_nor_tried_again(stripe, owner, charlie, more):
    payment = begin(owner)
    other = Client()
    sessions.sign_in(other, charlie.members.get())
    assert other.post(at(payment, more)).status_code == 404
    assert (state(payment), Payment.objects.count()) == (("OPEN", ""), 1)


# --- The list, and receipts ---------------------------------------------------------------------------------------


def test_payments_are_listed_with_their_state_in_words(stripe, owner):
    session = begin(owner).session_id
    stripe.pay(session)
    begin(owner, 3_000)
    outcome(stripe.refund(session, 500))
    page = text(owner.get(BILLING))
    assert page.index("Waiting for the payment") < page.index("$5.00 refunded")
    assert "OPEN" not in page


def test_a_receipt_names_seller_and_payer_and_stays_as_it_is_after_a_refund(stripe, owner, bob, settings):
    settings.SELLER_LINES, settings.SUPPORT_ADDRESS = ["Gateway Ltd", "Tax ID GB999"], "help@example.com"
    owner.post(DETAILS, FORM)
    session = begin(owner).session_id
    assert outcome(stripe.pay(session)) == "APPLIED"
    payment = Payment.objects.get()
    owner.post(DETAILS, {**FORM, "name": "Renamed"})
    assert outcome(stripe.refund(session, 500)) == "APPLIED"
    page = text(owner.get(at(payment, "receipt/")))
    assert f"Receipt {bob.pk.hex[-8:].upper()}-0001" in page
    assert "From Gateway Ltd Tax ID GB999 For Example GmbH Street 1 12345 Berlin Tax ID DE123456789" in page
    assert "Credit for the Model Gateway $20.00 Total in US dollars $20.00" in page
    assert re.search(rf"Credit notes that followed {bob.pk.hex[-8:].upper()}-C0001 , PDF , .* UTC -\$5.00", page)
    assert "Questions about this receipt? Write to help@example.com" in page
    credit = Payment.objects.get().credit
    assert f"Ledger entry and SHA-256 {credit.seq}:{credit.hash.hex()}" in page


def test_a_payment_that_is_not_paid_has_no_receipt(stripe, owner):
    assert owner.get(at(begin(owner), "receipt/")).status_code == 404


def test_receipts_of_an_account_are_numbered_without_gaps(stripe, owner):
    payments = [begin(owner) for _ in range(3)]
    for payment in (payments[2], payments[0]):
        assert outcome(stripe.pay(payment.session_id)) == "APPLIED"
    numbers = [Payment.objects.get(pk=payment.pk).receipt_number for payment in payments]
    assert numbers == [2, None, 1]


def test_billing_details_are_saved_and_recorded_and_errors_are_at_the_field(stripe, owner, bob):
    assert "This field is required." in text(owner.post(DETAILS, {"name": "", "address": "x"}))
    assert owner.post(DETAILS, FORM).status_code == 302
    assert BillingDetails.objects.get(account=bob).tax_id == "DE123456789"
    assert Activity.objects.get().summary == "Changed the billing details."
    assert "Example GmbH" in text(owner.get(BILLING))


def test_a_page_that_is_another_payments_is_not_opened(stripe, owner, bob):
    first = begin(owner)
    stripe.next_session_id = first.session_id
    reply = owner.post("/dashboard/billing/", {"amount": "20.00"})
    assert reply.status_code < 500
    second = Payment.objects.exclude(pk=first.pk).get()
    assert (second.status, second.session_id, second.failure) == ("FAILED", None, "The payment page could not be opened.")


# --- Invoices -----------------------------------------------------------------------------------------------------


def invoice(owner, payment):
    """Download the invoice."""
    reply = owner.get(at(payment, "invoice.pdf"))
    assert (reply.status_code, reply["Content-Type"]) == (200, "application/pdf")
    assert reply.content.startswith(b"%PDF-")
    assert reply["Content-Disposition"].endswith('-0001.pdf"')
    return reply.content


def test_an_invoice_has_seller_customer_tax_id_and_lines_of_tax(stripe, owner, settings):
    settings.SELLER_LINES = ["Gateway Ltd", "Tax ID GB999"]
    settings.TAX_PERCENT, settings.TAX_NAME = Decimal("19.00"), "USt"
    owner.post(DETAILS, FORM)
    outcome(stripe.pay(begin(owner).session_id))
    payment = Payment.objects.get()
    settings.TAX_PERCENT = Decimal(7)  # from now on: it changes nothing of what was paid
    content = invoice(owner, payment)
    texts = papers.texts(content)
    for line in (
        "Gateway Ltd",
        "Tax ID GB999",
        "Example GmbH",
        "Street 1",
        "12345 Berlin",
        "Tax ID DE123456789",
        str(payment.pk),
    ):
        assert line in texts
    money = ["Credit for the Model Gateway", "$16.81", "USt 19%", "$3.19"]
    start = texts.index("Credit for the Model Gateway")
    assert texts[start:] == [*money, "Total in US dollars", "$20.00"]
    assert "USt 19% $3.19" in text(owner.get(at(payment, "receipt/")))
    assert invoice(owner, payment) == content


def test_an_invoice_without_a_rate_has_no_line_of_tax(stripe, owner):
    outcome(stripe.pay(begin(owner).session_id))
    texts = papers.texts(invoice(owner, Payment.objects.get()))
    assert texts[-4:] == ["Credit for the Model Gateway", "$20.00", "Total in US dollars", "$20.00"]
    assert "Bob" in texts


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("Müller & Söhne", [("Vera", "Müller & Söhne")]),
        ("Zażółć", [("NotoSans", "Zażółć")]),
        ("Ελληνική Έκθεση", [("NotoSans", "Ελληνική Έκθεση")]),
        ("ООО «Ромашка» Ґ", [("NotoSans", "ООО «Ромашка» Ґ")]),
        ("株式会社", [("STSong-Light", "株式会社")]),
        ("臺灣 Ltd", [("MSung-Light", "臺灣"), ("Vera", " Ltd")]),
        ("하나", [("HYSMyeongJo-Medium", "하나")]),
        ("a\N{GRINNING FACE}", [("Vera", "a?")]),
        ("בע(מ)", [("OpenSans", "בע"), ("Vera", "("), ("OpenSans", "מ"), ("Vera", ")")]),
        ("ไทย", [("Vera", "???")]),
        ("", []),
    ],
)
def test_names_of_many_scripts_are_set_in_a_font_that_has_them(name, parts):
    assert list(fonts.set_in_fonts(name, "Vera")) == parts


def test_an_invoice_can_be_read_in_many_scripts(stripe, owner):
    names = ["ООО «Ромашка»", "Ελληνική Έκθεση", "Łódź", "北京市朝阳区", "サンプル"]
    arabic = "شركة النور 12"
    owner.post(DETAILS, {**FORM, "name": arabic, "address": "\n".join(names)})
    outcome(stripe.pay(begin(owner).session_id))
    page: Any = PdfReader(BytesIO(invoice(owner, Payment.objects.get()))).pages[0]
    lines = [line.strip() for line in unicodedata.normalize("NFKC", page.extract_text()).splitlines()]
    assert [name for name in names if name not in lines] == []
    assert set(arabic.split()) <= set(" ".join(lines).split())
    embedded = {font["/BaseFont"].partition("+")[2] for font in page["/Resources"]["/Font"].values()}
    assert {"NotoSans-Regular", "NotoSansArabic-Regular"} <= embedded


def test_an_invoice_has_all_letters_and_lines_that_the_form_of_its_payer_takes(stripe, owner):
    address = "\n".join(f"{line:02d} {'W' * 16}" for line in range(24))
    assert owner.post(DETAILS, {"name": "W" * 200, "address": address, "tax_id": "W" * 50}).status_code == 302
    outcome(stripe.pay(begin(owner).session_id))
    content = invoice(owner, Payment.objects.get())
    texts = papers.texts(content)
    assert "".join(texts).count("W") == 200 + 24 * 16 + 50
    assert [line for line in address.split("\n") if line not in texts] == []
    assert len(papers.pictures(content)) == 2
    assert max(right for _, _, right, _ in papers.boxes(content)) <= 595 - 56


@pytest.mark.parametrize(
    ("cents", "percent", "tax"),
    [(2_000, "19", 319), (1, "19", 0), (100, "100", 50), (205, "5", 10), (99_999_999, "0.01", 9_999)],
)
def test_the_tax_within_an_amount_is_rounded_to_the_nearest_cent(cents, percent, tax):
    assert taxes.included_cents(cents, Decimal(percent)) == tax


def test_invoices_of_other_accounts_and_of_unpaid_payments_are_not_found(stripe, owner, charlie):
    payment = begin(owner)
    assert owner.get(at(payment, "invoice.pdf")).status_code == 404
    outcome(stripe.pay(payment.session_id))
    other = Client()
    sessions.sign_in(other, charlie.members.get())
    assert other.get(at(payment, "invoice.pdf")).status_code == 404


# --- Credit notes -------------------------------------------------------------------------------------------------


def note_links(owner, page=BILLING):
    """Return the addresses of the credit notes on a page, in their order there."""
    return re.findall(r'href="([^"]*/credit-notes/[^"]*)"', owner.get(page).content.decode())


def refund_by_hand(stripe, payment):
    account, staff = payment.account, factories.make_user("staff@example.org")
    with transaction.atomic():
        writer.refund_credit(
            locks.lock_account(account.pk),
            payment.credit,
            amount_nanos=5_000_000_000,
            reference="bank-1",
            reason="Paid back by transfer",
            issued_by=staff,
        )


def win(stripe, payment):
    outcome(stripe.dispute(payment.session_id, 2_000))
    outcome(stripe.reinstate(payment.session_id))


# What happens to a payment of $20.00 with 19 % of tax, and the texts of the notes that follow.
NOTES = {
    "refund": (
        lambda stripe, payment: outcome(stripe.refund(payment.session_id, 500)),
        [["Payment refunded", "-$4.20", "USt 19%", "-$0.80", "-$5.00"]],
    ),
    "refund in parts, whose tax adds up": (
        lambda stripe, payment: [outcome(stripe.refund(payment.session_id, each)) for each in (667, 667, 666)],
        [
            ["Payment refunded", "-$5.61", "USt 19%", "-$1.06", "-$6.67"],
            ["Payment refunded", "-$5.60", "USt 19%", "-$1.07", "-$6.67"],
            ["Payment refunded", "-$5.60", "USt 19%", "-$1.06", "-$6.66"],
        ],
    ),
    "dispute": (
        lambda stripe, payment: outcome(stripe.dispute(payment.session_id, 2_000)),
        [["Payment disputed at the bank", "-$16.81", "USt 19%", "-$3.19", "-$20.00"]],
    ),
    "dispute that is won": (
        win,
        [
            ["Payment disputed at the bank", "-$16.81", "USt 19%", "-$3.19", "-$20.00"],
            ["Disputed payment reinstated by the bank", "$16.81", "USt 19%", "$3.19", "$20.00"],
        ],
    ),
    "refund by staff": (refund_by_hand, [["Paid back by transfer", "-$4.20", "USt 19%", "-$0.80", "-$5.00"]]),
}


@pytest.mark.parametrize(("happens", "wanted"), NOTES.values(), ids=NOTES)
def test_an_invoice_stays_as_issued_and_credit_notes_with_numbers_of_their_own_follow(
    stripe, owner, bob, settings, happens, wanted
):
    settings.SELLER_LINES = ["Gateway Ltd"]
    settings.TAX_PERCENT, settings.TAX_NAME = Decimal("19.00"), "USt"
    owner.post(DETAILS, FORM)
    outcome(stripe.pay(begin(owner).session_id))
    payment = Payment.objects.get()
    issued = invoice(owner, payment)
    happens(stripe, payment)
    settings.SELLER_LINES, settings.SUPPORT_ADDRESS, settings.TAX_PERCENT = ["Other Ltd"], "new@example.com", Decimal(7)
    owner.post(DETAILS, {**FORM, "name": "Renamed"})
    assert invoice(owner, payment) == issued
    links = note_links(owner)
    ending = bob.pk.hex[-8:].upper()
    assert links == [f"{BILLING}credit-notes/{ending}-C{number:04d}.pdf" for number in range(1, len(wanted) + 1)]
    assert note_links(owner, at(payment, "receipt/")) == links
    for link, lines in zip(links, wanted, strict=True):
        content = owner.get(link).content
        texts = papers.texts(content)
        assert [each for each in lines if each not in texts] == []
        title = " ".join(texts[:2])  # the letters of some accounts' numbers are too wide for one line
        assert link.rpartition("/")[2].removesuffix(".pdf") in title
        assert title.startswith("Credit note" if lines[-1].startswith("-") else "Reversal of a credit note")
        assert {"Gateway Ltd", "Example GmbH", str(payment.pk)} < set(texts)
        assert [each for each in texts if each.startswith(f"{ending}-0001 of ")] != []
        assert owner.get(link).content == content


def test_credit_notes_are_numbered_without_gaps_across_payments(stripe, owner, bob):
    payments = [begin(owner) for _ in range(2)]
    for payment in payments:
        outcome(stripe.pay(payment.session_id))
    for payment in (payments[1], payments[0], payments[1]):
        outcome(stripe.refund(payment.session_id, 100))
    assert [link[-8:-4] for link in note_links(owner, at(payments[0], "receipt/"))] == ["0002"]
    assert [link[-8:-4] for link in note_links(owner, at(payments[1], "receipt/"))] == ["0001", "0003"]


def test_an_invoice_without_billing_details_keeps_who_pays_when_it_is_issued(stripe, owner):
    outcome(stripe.pay(begin(owner).session_id))
    payment = Payment.objects.get()
    assert "before you download the invoice" in text(owner.get(at(payment, "receipt/")))
    owner.post(DETAILS, FORM)
    issued = invoice(owner, payment)
    owner.post(DETAILS, {**FORM, "name": "Renamed"})
    assert invoice(owner, payment) == issued
    assert "For Example GmbH" in text(owner.get(at(payment, "receipt/")))


def test_credit_notes_of_other_accounts_and_unknown_ones_are_not_found(stripe, owner, charlie):
    session = begin(owner).session_id
    outcome(stripe.pay(session))
    outcome(stripe.refund(session, 500))
    [link] = note_links(owner)
    assert owner.get(link.replace("C0001", "C0002")).status_code == 404
    assert owner.get(f"{BILLING}credit-notes/none.pdf").status_code == 404
    other = Client()
    sessions.sign_in(other, charlie.members.get())
    assert other.get(link).status_code == 404


def test_a_credit_note_is_in_the_export_and_staff_find_it_by_its_number(stripe, owner, bob):
    session = begin(owner).session_id
    outcome(stripe.pay(session))
    outcome(stripe.refund(session, 500))
    [row] = own_tables.TABLES["credit_notes"](bob)
    payment = Payment.objects.get()
    assert (row["receiptNumber"], row["amountInCents"], row["paymentId"]) == (1, -500, str(payment.pk))
    number = row["number"]
    for term in (number, number.lower(), f"credit-note-{number}.pdf"):
        [entry] = search._entries_by_credit_note(term)
        assert (entry.type, entry.account) == ("REFUND_DEBIT", bob)
    assert not search._entries_by_credit_note(number.replace("C0001", "C0002"))
