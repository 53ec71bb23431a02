"""A credit is corrected and refunded from the pages of its entry and of its payment, however old it is."""

import html
import re

import pytest

from billing.ledger import writer
from billing.payments import summaries
from tests import usage
from tests.billing.payments.payment_rows import paid, payment  # noqa: F401  fixtures
from tests.pages.conftest import make_staff, owner_of, signed_in

VIEWS = [f"billing.view_{each}" for each in ("account", "ledgerentry", "payment")]


@pytest.fixture
def desk(db):
    return signed_in(make_staff("desk@example.org", [*VIEWS, "billing.correct_credit", "billing.refund_purchase"]))


def acts(client, row):
    """Return title and address of the acts that the row's page offers."""
    reply = client.get(f"/admin/billing/{row._meta.model_name}/{row.pk}/change/")
    assert reply.status_code == 200
    found = re.findall(r'<li><a href="([^"]+)">(Correct a credit|Book a refund)</a></li>', reply.content.decode())
    return {title: html.unescape(address) for address, title in found}


def test_the_page_of_a_purchase_leads_to_its_correction_and_refund(desk, alice):
    bought = usage.buy(alice, 2_000, "one").entry
    pages = acts(desk, bought)
    assert list(pages) == ["Correct a credit", "Book a refund"]
    for page in pages.values():
        assert str(bought.pk) in page
        assert desk.get(page).status_code == 200


def test_a_support_credit_can_be_corrected_once_and_not_refunded(desk, alice):
    credit = alice.entries.get(seq=1)
    assert list(acts(desk, credit)) == ["Correct a credit"]
    writer.correct_credit(alice, credit, amount_nanos=1, reason="too much", issued_by=owner_of(alice))
    assert acts(desk, credit) == {}


def test_usage_and_corrections_offer_nothing(desk, alice):
    spent = usage.spend(alice, 5)
    alice.refresh_from_db()
    credit = alice.entries.get(seq=1)
    back = writer.correct_credit(alice, credit, amount_nanos=1, reason="too much", issued_by=owner_of(alice)).entry
    assert acts(desk, spent) == acts(desk, back) == {}


def test_the_page_of_a_payment_leads_to_acts_on_its_credit(desk, paid):  # noqa: F811
    assert [str(paid.credit_id) in page for page in acts(desk, paid).values()] == [True]


def test_who_may_not_correct_or_refund_is_offered_nothing(alice):
    client = signed_in(make_staff("reader@example.org", VIEWS))
    assert acts(client, alice.entries.get(seq=1)) == {}


def test_the_number_of_a_receipt_finds_its_payment(desk, paid):  # noqa: F811
    number = summaries.receipt_number(paid)
    reply = desk.get("/admin/search/", {"q": number})
    assert f"/admin/billing/payment/{paid.pk}/change/" in (reply.get("Location") or reply.content.decode())
    for written in (number.lower(), f"Invoice {number}", f"invoice-{number}.pdf"):
        assert desk.get("/admin/search/", {"q": written}).get("Location") == reply.get("Location"), written
    other = f"{number[:-1]}{int(number[-1]) + 1}"
    assert str(paid.pk) not in desk.get("/admin/search/", {"q": other}).content.decode()
