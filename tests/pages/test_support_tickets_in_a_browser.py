"""Tickets that customers write, from the search to the last click, as members of the ready groups, in a real Chromium.

Two more are in ``test_support_day_in_a_browser.py``: a refused request and a large credit. All share an account and a browser.
"""

import re

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
from tests import browser, chat, factories, second_factors, usage
from tests.conftest import client_for
from tests.pages.conftest import owner_of
from tests.pages.desk_pages import account_page, key_page
from tests.pages.support_desk import _as_deployed, desk_of, follow, press, search

__all__ = ["_as_deployed", "desk_of"]

SUPPORT, LEAD, FINANCE = "support@example.org", "lead@example.org", "finance@example.org"


def explain(page, reason, ticket):
    page.get_by_label("Reason").fill(reason)
    page.get_by_label("Ticket").fill(ticket)


def find_the_payment(page, payment):
    # T-1: "Did my payment of receipt ... arrive?"
    search(page, f"invoice-{summaries.receipt_number(payment)}.pdf")
    page.get_by_text("$20.00").first.wait_for()
    assert page.locator(".field-state .readonly").inner_text() == "Paid"
    browser.look(page, "ticket-payment")


def find_the_statement(page, alice, payment):
    # T-2: "What is in our statement?"
    alice.refresh_from_db()
    search(page, monthly_statement.number_of(alice, payment.created_at))
    page.get_by_role("heading", name="Statement of").wait_for()
    page.get_by_role("cell", name=dollars.format_usd(alice.balance_nanos), exact=True).wait_for()
    browser.look(page, "ticket-statement")


def compare_two_requests(page):
    # T-3: "Why was the second request dearer than the first?"
    first, second = Completion.objects.order_by("pk").values_list("pk", flat=True)
    search(page, first)
    follow(page, "Compare with another")
    page.get_by_label("Second completion ID").fill(second)
    press(page, "Compare")
    page.get_by_text("Lines that differ are bold.").wait_for()
    browser.look(page, "ticket-comparison")


def send_a_password_link(page, alice):
    # T-4: "I forgot my password."
    search(page, "alice@example.org")
    page.wait_for_url(f"**{account_page(alice)}")
    follow(page, "Send a link to set a password")
    press(page, "Send link")
    page.wait_for_url(f"**{account_page(alice)}")
    assert PasswordLink.objects.get().user == owner_of(alice)


def issue_a_credit(page, alice):
    # T-5: "Requests failed yesterday." A small credit needs nobody else.
    follow(page, "Issue credit")
    page.get_by_label("Amount in US dollars").fill("5")
    explain(page, "Sorry for the outage", "T-5")
    press(page, "Issue credit")
    page.get_by_text("$5.00 credited.").wait_for()
    assert alice.entries.latest("seq").amount_nanos == money.nanos(500)


def replace_a_lost_phone(page, desk_of, alice):
    # T-6: "I lost my phone." A lead approves it.
    follow(page, "Lost phone")
    explain(page, "Phone stolen, checked by call", "T-6")
    press(page, "Request approval")
    page.wait_for_url(f"**{account_page(alice)}")
    assert Authenticator.objects.filter(user=owner_of(alice)).exists()
    lead = desk_of(LEAD, "Support lead")
    lead.goto("/admin/billing/secondfactorrequest/")
    lead.locator("#result_list tbody a").first.click()
    follow(lead, "Approve…")
    browser.look(lead, "ticket-lost-phone")
    lead.locator("input[type=submit].default").click()
    lead.wait_for_url(re.compile("secondfactorrequest/(?!.*approve)"))
    assert not Authenticator.objects.filter(user=owner_of(alice)).exists()


def revoke_the_key(page, key, secret):
    # T-7: "Our key is on GitHub." It stops at once.
    search(page, f"mgw_live_...{key.last_four}")
    page.wait_for_url(f"**{key_page(key)}")
    follow(page, "Revoke")
    press(page, "Revoke key")
    page.get_by_text("The key is revoked. Requests with it are now refused.").wait_for()
    assert chat.ask(client_for(secret)).status_code == 401


def refund_the_payment(page, desk_of, alice, payment):
    # T-8: "Please refund my payment." Support hands it over, and Finance books the refund on the payment's page.
    finance = desk_of(FINANCE, "Finance")
    page.goto(account_page(alice))
    follow(page, "Hand over")
    page.locator("#id_group").select_option(label="Finance")
    explain(page, "Refund of the payment", "T-8")
    press(page, "Hand over")
    page.wait_for_url(f"**{account_page(alice)}")
    (handed_over,) = [sent for sent in mail.outbox if sent.to == [FINANCE] and "T-8" in sent.body]
    finance.goto(re.search(r"http\S+(/admin/billing/account/\S+)", str(handed_over.body))[1])
    search(finance, str(summaries.receipt_number(payment)))
    follow(finance, "Book a refund")
    finance.get_by_label("Amount in US dollars").fill("15")
    finance.get_by_label("Refund ID").fill("re_1")
    explain(finance, "Asked within 14 days", "T-8")
    browser.look(finance, "ticket-refund")
    press(finance, "Book refund")
    finance.wait_for_url(f"**{account_page(alice)}")
    assert alice.entries.latest("seq").amount_nanos == -money.nanos(1_500)
    return finance


def close_the_account(finance, alice):
    # T-9: "Please close our account."
    follow(finance, "Close account")
    explain(finance, "Asked by the owner", "T-9")
    press(finance, "Close account")
    finance.get_by_text("This account is closed: its keys are refused.").wait_for()
    alice.refresh_from_db()
    assert not alice.is_active


def test_tickets_from_the_search_to_the_last_click(desk_of, alice, echo_model, settings):
    settings.EMAIL_BACKEND, settings.SENDS_MAIL = "django.core.mail.backends.locmem.EmailBackend", True
    key, secret = factories.make_key(alice, "laptop")
    payment = usage.pay(alice, 2_000, "pi_1")
    for words in (1, 9):
        assert chat.ask(client_for(secret), messages=[{"role": "user", "content": "word " * words}]).status_code == 200
    second_factors.give_app(owner_of(alice))
    page = desk_of(SUPPORT, "Support")
    find_the_payment(page, payment)
    find_the_statement(page, alice, payment)
    compare_two_requests(page)
    send_a_password_link(page, alice)
    issue_a_credit(page, alice)
    replace_a_lost_phone(page, desk_of, alice)
    revoke_the_key(page, key, secret)
    finance = refund_the_payment(page, desk_of, alice, payment)
    close_the_account(finance, alice)

    tickets = Activity.objects.exclude(ticket="").order_by("pk").values_list("ticket", "act")
    assert list(tickets) == [
        ("T-5", "CREDITED"),
        ("T-6", "SECOND_FACTOR_REQUESTED"),
        ("T-6", "SECOND_FACTOR_REMOVED"),
        ("T-8", "HANDED_OVER"),
        ("T-8", "REFUNDED"),
        ("T-9", "CLOSED"),
    ]
    assert audit.verify() == []
