"""Tickets that customers write, from the search to the last click, as members of the ready groups, in a real Chromium.

``TICKETS`` lists them. All share an account and a browser. ``test_support_day_in_a_browser.py`` has larger acts: a raised
limit, a credit that two people approve.
"""

import re
from dataclasses import dataclass
from typing import Any

from allauth.mfa.models import Authenticator
from django.core import mail

from billing import money
from billing.ledger import audit
from billing.models import PasswordLink
from billing.payments import summaries
from completions.history import monthly_statement
from completions.models import Completion
from gateway_project.activity.models import Activity
from gateway_project.text import dollars
from keys.refusal_history import collector
from tests import browser, chat, factories, second_factors, usage
from tests.billing.sign_in.attempts import ALICE, _slow_rates, attempt, use_up
from tests.conftest import client_for
from tests.keys.refusal_history.conftest import _nothing_collected
from tests.pages.conftest import owner_of
from tests.pages.desk_pages import account_page, key_page
from tests.pages.support_desk import _as_deployed, desk_of, follow, press, search

__all__ = ["_as_deployed", "_nothing_collected", "_slow_rates", "desk_of"]

SUPPORT, LEAD, FINANCE = "support@example.org", "lead@example.org", "finance@example.org"


@dataclass
class Desk:
    """Support at work: its page, how it opens that of a colleague, and the customer."""

    open: Any
    page: Any
    alice: Any
    payment: Any
    key: Any
    secret: str
    finance: Any = None


def explain(page, reason, ticket):
    page.get_by_label("Reason").fill(reason)
    page.get_by_label("Ticket").fill(ticket)


def find_the_payment(desk):
    page = desk.page
    search(page, f"invoice-{summaries.receipt_number(desk.payment)}.pdf")
    page.get_by_text("$20.00").first.wait_for()
    assert page.locator(".field-state .readonly").inner_text() == "Paid"
    browser.look(page, "ticket-payment")


def find_the_statement(desk):
    page, alice = desk.page, desk.alice
    alice.refresh_from_db()
    search(page, monthly_statement.number_of(alice, desk.payment.created_at))
    page.get_by_role("heading", name="Statement of").wait_for()
    page.get_by_role("cell", name=dollars.format_usd(alice.balance_nanos), exact=True).wait_for()
    browser.look(page, "ticket-statement")


def compare_two_requests(desk):
    page = desk.page
    first, second = Completion.objects.order_by("pk").values_list("pk", flat=True)
    search(page, first)
    follow(page, "Compare with another")
    page.get_by_label("Second completion ID").fill(second)
    press(page, "Compare")
    page.get_by_text("Lines that differ are bold.").wait_for()
    browser.look(page, "ticket-comparison")


def explain_the_refusal(desk):
    refused = chat.ask(client_for(desk.secret), model="demo/nobody")
    collector.write()
    search(desk.page, refused["x-request-id"])
    desk.page.get_by_text(refused.json()["error"]["message"]).first.wait_for()


def unblock_the_sign_in(desk):
    use_up(ALICE)
    assert attempt(ALICE, factories.PASSWORD).status_code == 429
    search(desk.page, ALICE)
    desk.page.get_by_role("row", name="cannot sign in now").get_by_role("link").click()
    explain(desk.page, "Called back", "T-5")
    press(desk.page, "Unblock")
    desk.page.get_by_text("alice@example.org is unblocked").first.wait_for()
    assert attempt(ALICE, factories.PASSWORD).status_code == 302


def send_a_password_link(desk):
    page, alice = desk.page, desk.alice
    search(page, ALICE)
    page.wait_for_url(f"**{account_page(alice)}")
    follow(page, "Send a link to set a password")
    press(page, "Send link")
    page.wait_for_url(f"**{account_page(alice)}")
    assert PasswordLink.objects.get().user == owner_of(alice)


def issue_a_credit(desk):
    page, alice = desk.page, desk.alice  # a small credit needs nobody else
    follow(page, "Issue credit")
    page.get_by_label("Amount in US dollars").fill("5")
    explain(page, "Sorry for the outage", "T-7")
    press(page, "Issue credit")
    page.get_by_text("$5.00 credited.").wait_for()
    assert alice.entries.latest("seq").amount_nanos == money.nanos(500)


def replace_a_lost_phone(desk):
    page, alice = desk.page, desk.alice
    follow(page, "Lost phone")
    explain(page, "Phone stolen, checked by call", "T-8")
    press(page, "Request approval")
    page.wait_for_url(f"**{account_page(alice)}")
    assert Authenticator.objects.filter(user=owner_of(alice)).exists()
    lead = desk.open(LEAD, "Support lead")
    lead.goto("/admin/billing/secondfactorrequest/")
    lead.locator("#result_list tbody a").first.click()
    follow(lead, "Approve…")
    browser.look(lead, "ticket-lost-phone")
    lead.locator("input[type=submit].default").click()
    lead.wait_for_url(re.compile("secondfactorrequest/(?!.*approve)"))
    assert not Authenticator.objects.filter(user=owner_of(alice)).exists()


def revoke_the_key(desk):
    page = desk.page
    search(page, f"mgw_live_...{desk.key.last_four}")
    page.wait_for_url(f"**{key_page(desk.key)}")
    follow(page, "Revoke")
    press(page, "Revoke key")
    page.get_by_text("The key is revoked. Requests with it are now refused.").wait_for()
    assert chat.ask(client_for(desk.secret)).status_code == 401


def refund_the_payment(desk):
    page, alice = desk.page, desk.alice
    finance = desk.finance = desk.open(FINANCE, "Finance")  # who books the refund on the payment's page
    page.goto(account_page(alice))
    follow(page, "Hand over")
    page.locator("#id_group").select_option(label="Finance")
    explain(page, "Refund of the payment", "T-10")
    press(page, "Hand over")
    page.wait_for_url(f"**{account_page(alice)}")
    (handed_over,) = [sent for sent in mail.outbox if sent.to == [FINANCE] and "T-10" in sent.body]
    finance.goto(re.search(r"http\S+(/admin/billing/account/\S+)", str(handed_over.body))[1])
    search(finance, str(summaries.receipt_number(desk.payment)))
    follow(finance, "Book a refund")
    finance.get_by_label("Amount in US dollars").fill("15")
    finance.get_by_label("Refund ID").fill("re_1")
    explain(finance, "Asked within 14 days", "T-10")
    browser.look(finance, "ticket-refund")
    press(finance, "Book refund")
    finance.wait_for_url(f"**{account_page(alice)}")
    assert alice.entries.latest("seq").amount_nanos == -money.nanos(1_500)


def close_the_account(desk):
    finance, alice = desk.finance, desk.alice
    follow(finance, "Close account")
    explain(finance, "Asked by the owner", "T-11")
    press(finance, "Close account")
    finance.get_by_text("This account is closed: its keys are refused.").wait_for()
    alice.refresh_from_db()
    assert not alice.is_active


def reopen_the_account(desk):
    follow(desk.finance, "Reopen account")
    explain(desk.finance, "Closed by mistake", "T-12")
    press(desk.finance, "Reopen account")
    desk.finance.get_by_text("The account is open.").first.wait_for()
    desk.alice.refresh_from_db()
    assert desk.alice.is_active


TICKETS = {
    "T-1: Did the payment of this receipt arrive?": find_the_payment,
    "T-2: What is in our statement?": find_the_statement,
    "T-3: Why was the second request dearer than the first?": compare_two_requests,
    "T-4: Why was this request refused?": explain_the_refusal,
    "T-5: I mistyped my password, and now it is refused": unblock_the_sign_in,
    "T-6: I forgot my password": send_a_password_link,
    "T-7: Requests failed yesterday": issue_a_credit,
    "T-8: I lost my phone": replace_a_lost_phone,
    "T-9: Our key is on GitHub": revoke_the_key,
    "T-10: Please refund my payment": refund_the_payment,
    "T-11: Please close our account": close_the_account,
    "T-12: We closed it by mistake": reopen_the_account,
}


def test_tickets_from_the_search_to_the_last_click(desk_of, alice, echo_model, settings):
    settings.EMAIL_BACKEND, settings.SENDS_MAIL = "django.core.mail.backends.locmem.EmailBackend", True
    key, secret = factories.make_key(alice, "laptop")
    payment = usage.pay(alice, 2_000, "pi_1")
    for words in (1, 9):
        assert chat.ask(client_for(secret), messages=[{"role": "user", "content": "word " * words}]).status_code == 200
    second_factors.give_app(owner_of(alice))
    desk = Desk(desk_of, desk_of(SUPPORT, "Support"), alice, payment, key, secret)
    for answer in TICKETS.values():
        answer(desk)

    tickets = Activity.objects.exclude(ticket="").order_by("pk").values_list("ticket", "act")
    assert list(tickets) == [
        ("T-5", "UNBLOCKED"),
        ("T-7", "CREDITED"),
        ("T-8", "SECOND_FACTOR_REQUESTED"),
        ("T-8", "SECOND_FACTOR_REMOVED"),
        ("T-10", "HANDED_OVER"),
        ("T-10", "REFUNDED"),
        ("T-11", "CLOSED"),
        ("T-12", "REOPENED"),
    ]
    assert audit.verify() == []
