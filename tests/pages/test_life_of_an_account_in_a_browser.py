"""The whole life of an account in a real Chromium: from signing up to closing it. ``TASKS`` lists what its owner does."""

import re
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import openai
import pytest
from django.core import mail
from playwright.sync_api import expect
from pypdf import PdfReader

from billing import tasks
from billing.ledger import audit
from billing.models import Account, LedgerEntry, Membership, Role
from completions.models import UsageHour
from gateway_project.db import pool
from gateway_project.text import dollars
from tests import second_factors
from tests.browser import look
from tests.pages.dashboard_pages import SECRET

ANN, BEN = "ann@example.org", "ben@example.org"
PASSWORD = "a wholly new sentence"


@pytest.fixture
def _gateway(settings, tmp_path):
    """A gateway where people sign up, and whose processor of payments is the demo."""
    settings.SIGN_UP, settings.SIGN_UP_DOMAINS = True, []
    settings.PAYMENT_PROCESSOR, settings.GATEWAY_VAR = "demo", tmp_path
    settings.CLOSING_REFUNDS = False


@dataclass
class Life:
    """The owner's page, and what the tasks before found out."""

    page: Any
    open_page: Any
    live_server: Any
    recovery_code: str = ""
    secret: str = ""
    asked: Any = None


def sent_to(address):
    """Return the subject and the text of the last mail to an address."""
    sent = next(message for message in reversed(mail.outbox) if message.to == [address])
    return f"{sent.subject}\n{sent.body}"


def link_to(address):
    """Return the path of the link in the last mail to an address."""
    return re.findall(r"^http://[^/\s]+(/\S+)$", sent_to(address), re.M)[0]


def ask(live_server, secret, text="Hello", **fields):
    with openai.OpenAI(base_url=f"{live_server.url}/v1", api_key=secret, max_retries=0) as sdk:
        return sdk.chat.completions.create(model="demo/echo", messages=[{"role": "user", "content": text}], **fields)


def choose_password(page, button):
    page.get_by_label("New password", exact=True).fill(PASSWORD)
    page.get_by_label("New password confirmation").fill(PASSWORD)
    page.get_by_role("button", name=button).click()


def sign_in(page, email):
    page.get_by_label("mail").fill(email)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()


def create_key(page, name):
    page.goto("/dashboard/keys/new/")
    page.get_by_label("Name").fill(name)
    page.get_by_role("button", name="Create key").click()
    return copy_secret(page)


def copy_secret(page):
    secret = SECRET.search(page.locator("#secret").inner_text())[0]
    page.get_by_role("link", name="I have copied it").click()
    return secret


# --- What the owner does ------------------------------------------------------------------------------------------


def sign_up(page):
    page.goto("/")
    page.goto("/accounts/signup/")
    page.get_by_label("mail").fill(ANN)
    page.get_by_role("button", name="Email me a link").click()
    page.goto(link_to(ANN))
    choose_password(page, "Open account")  # and signed in
    page.wait_for_url("**/dashboard/")
    look(page, "life-empty")


def sign_up_and_protect(life):
    page = life.page
    sign_up(page)
    page.goto("/accounts/2fa/totp/activate/")
    page.get_by_label("code").fill(second_factors.code(page.locator("code").inner_text()))
    page.get_by_role("button", name="Set up").click()
    page.get_by_text("Save these codes now").wait_for()
    life.recovery_code = page.locator("#recovery-codes").inner_text().split()[0]


def add_credit(life):
    page = life.page
    page.goto("/dashboard/billing/")
    page.get_by_role("link", name="Add your billing details").click()
    page.get_by_label("Name").fill("Ann Example Ltd")
    page.get_by_label("Address").fill("1 High Street\nLondon")
    page.get_by_label("Tax ID").fill("GB123456789")
    page.get_by_role("button", name="Save").click()
    page.get_by_role("button", name="$10.00").click()
    page.get_by_role("button", name="Pay with a card").click()
    expect(page.get_by_text("$10.00 was added to your balance")).to_be_visible()


def create_a_key(life):
    life.secret = create_key(life.page, "laptop")


def set_an_alert(life):
    life.page.goto("/dashboard/alerts/")
    life.page.get_by_role("link", name="Change when you get alerts").click()
    life.page.get_by_label("Alert when the balance falls below").fill("10")
    life.page.get_by_role("button", name="Save").click()


def send_a_first_request(life):
    page = life.page
    life.asked = ask(life.live_server, life.secret)
    tasks.mail_warnings()
    assert "The balance fell below $10.00" in sent_to(ANN)
    page.goto("/dashboard/alerts/")
    expect(page.get_by_role("rowheader", name="The balance fell below $10.00")).to_be_visible()
    look(page, "life-warnings")


def see_what_a_request_cost_and_why(life):
    page = life.page
    page.goto("/dashboard/requests/")
    page.locator(f'a[href$="{life.asked.id}/"]').first.click()
    expect(page.get_by_text("demo/echo").first).to_be_visible()
    cost = -LedgerEntry.objects.latest("seq").amount_nanos
    for words in ("Charged", dollars.format_usd(cost), "rounded up once to a billionth of a dollar"):
        assert words in page.locator("main").inner_text()
    look(page, "life-request")


def rotate_the_key(life):
    page, former = life.page, life.secret
    page.goto("/dashboard/keys/")
    page.get_by_role("link", name="laptop", exact=True).click()
    page.get_by_role("link", name="Rotate").click()
    page.get_by_label("Immediately").check()
    page.get_by_role("button", name="Create new secret").click()
    life.secret = copy_secret(page)
    with pytest.raises(openai.AuthenticationError):
        ask(life.live_server, former)
    ask(life.live_server, life.secret)


def limit_the_key(life):
    page = life.page
    page.get_by_role("link", name="laptop", exact=True).click()
    page.get_by_role("link", name="Limit").click()
    page.get_by_label("One-time limit").check()
    page.get_by_label("Amount in US dollars").fill("0.01")
    page.get_by_role("button", name="Save limit").click()
    with pytest.raises(openai.APIStatusError, match="spending limit"):
        ask(life.live_server, life.secret, max_tokens=4_096, n=1, text="x" * 20_000)


def revoke_a_key(life):
    page, leaked = life.page, create_key(life.page, "leaked")
    page.goto("/dashboard/keys/")
    page.get_by_role("link", name="leaked", exact=True).click()
    page.get_by_role("link", name="Revoke").click()
    page.get_by_role("button", name="Revoke").click()
    page.get_by_text("revoked").first.wait_for()
    with pytest.raises(openai.AuthenticationError):
        ask(life.live_server, leaked)


def find_yesterdays_most_expensive_model(life):
    yesterday = pool.database_time().replace(minute=0, second=0, microsecond=0) - timedelta(days=1)
    account, key = Account.objects.get(), Account.objects.get().keys.earliest("pk")
    for model_id, cost_nanos in (("demo/cheap", 1_000_000_000), ("demo/dear", 7_000_000_000)):
        figures = dict.fromkeys(("errors", "first_tokens", "first_token_ms"), 0)
        figures |= {"requests": 9, "prompt_tokens": 90, "completion_tokens": 9, "cost_nanos": cost_nanos}
        UsageHour.objects.create(account=account, hour=yesterday, key_id=key.pk, model_id=model_id, **figures)
    day = f"{yesterday:%Y-%m-%d}"
    life.page.goto("/dashboard/usage/?by=model")
    life.page.get_by_label("From").fill(day)
    life.page.wait_for_url(f"**from={day}**")
    life.page.get_by_label("To", exact=True).fill(day)
    life.page.wait_for_url(f"**to={day}**")
    expect(life.page.locator(".legend tbody th").first).to_contain_text("demo/dear")


def export_the_usage(life):
    with life.page.expect_download() as downloading:
        life.page.get_by_role("button", name="Download as CSV").click()
    lines = downloading.value.path().read_text().splitlines()
    assert len(lines) == 3
    assert any("demo/dear" in line and "7" in line for line in lines)
    UsageHour.objects.exclude(model_id="demo/echo").delete()  # of no request, as the audit would tell


def get_the_invoice(life):
    page = life.page
    page.goto("/dashboard/ledger/")
    page.locator("section[aria-labelledby=months] a").first.click()
    page.get_by_role("heading", name="Statement of").wait_for()
    balance = Account.objects.get().balance_nanos
    assert dollars.format_usd(balance) in page.locator(".facts .total dd").inner_text()
    look(page, "life-statement")
    page.goto("/dashboard/billing/")
    with page.expect_download() as downloading:
        page.get_by_role("link", name="Invoice").click()
    drawn = PdfReader(downloading.value.path()).pages[0].extract_text()
    for words in ("Total in US dollars", "$10.00", "Ann Example Ltd", "London", "GB123456789"):
        assert words in drawn


def invite_a_member(life):
    page = life.page
    page.goto("/dashboard/members/")
    page.get_by_role("link", name="Invite member").click()
    page.get_by_label("Email address").fill(BEN)
    page.get_by_label("Developer:").check()
    page.get_by_role("button", name="Send invitation").click()
    guest = life.open_page()
    guest.goto(link_to(BEN))
    choose_password(guest, "Join account")
    sign_in(guest, BEN)
    guest.wait_for_url("**/dashboard/")


def close_and_reopen(life):
    page = life.page
    page.goto("/dashboard/settings/")
    page.get_by_role("link", name="Close account").click()
    look(page, "life-close")
    page.get_by_role("button", name="Continue").click()
    page.get_by_label("Password of").fill(PASSWORD)
    page.get_by_role("button", name="Continue").click()
    page.get_by_label("to confirm").fill(Account.objects.get().name)
    look(page, "life-close-confirm")
    page.get_by_role("button", name="Close account").click()
    page.get_by_text("The account is closed. Its keys stopped.").wait_for()
    with pytest.raises(openai.APIStatusError) as stopped:
        ask(life.live_server, life.secret, max_tokens=1)
    assert stopped.value.status_code in (401, 403)
    page.get_by_role("button", name="Reopen account").click()
    page.get_by_text("The account is open again. Its keys work.").wait_for()
    ask(life.live_server, life.secret, max_tokens=1)


TASKS = {
    "Sign up, and protect the sign-in": sign_up_and_protect,
    "Add credit, with billing details": add_credit,
    "Create a key": create_a_key,
    "Set an alert": set_an_alert,
    "Send a first request": send_a_first_request,
    "See what it cost, and why": see_what_a_request_cost_and_why,
    "Rotate the key": rotate_the_key,
    "Limit it": limit_the_key,
    "Revoke a key": revoke_a_key,
    "Find yesterday's most expensive model": find_yesterdays_most_expensive_model,
    "Export the usage": export_the_usage,
    "Get the statement and the invoice": get_the_invoice,
    "Invite a member": invite_a_member,
    "Close the account, and reopen it": close_and_reopen,
}


# --- What happens besides -----------------------------------------------------------------------------------------


def refund(life):
    """The seller refunds what was paid: the balance is below zero, and requests are refused."""
    page = life.page
    page.goto("/dashboard/billing/")
    page.get_by_role("link", name="$10.00").first.click()
    page.get_by_role("link", name="View this payment").click()
    page.get_by_role("button", name="As the seller: refund", exact=True).click()
    page.goto("/dashboard/")
    look(page, "life-overview")
    with pytest.raises(openai.APIStatusError) as refused:
        ask(life.live_server, life.secret, max_tokens=1)
    assert refused.value.status_code == 402


def sign_out_elsewhere(life):
    """A second session of the owner ends."""
    elsewhere = life.open_page()
    elsewhere.goto("/dashboard/")
    sign_in(elsewhere, ANN)
    elsewhere.get_by_label("code").fill(life.recovery_code)
    elsewhere.get_by_role("button", name="Sign in", exact=True).click()
    elsewhere.wait_for_url("**/dashboard/")
    life.page.goto("/accounts/sessions/")
    life.page.get_by_role("button", name="Sign out everywhere else").click()
    elsewhere.goto("/dashboard/")
    elsewhere.wait_for_url("**/accounts/login/**")


@pytest.mark.usefixtures("_gateway", "echo_model", "transactional_db")
@pytest.mark.parametrize("has_scripts", [True, False])
def test_a_newcomer_has_the_first_answer_on_the_second_page(live_server, open_page, settings, has_scripts):
    settings.TRIAL_CREDIT_CENTS = 100
    page = open_page(viewport={"width": 1280, "height": 900}, java_script_enabled=has_scripts)
    sign_up(page)
    pages = ["/dashboard/"]
    page.on("framenavigated", lambda frame: pages.append(frame.url.removeprefix(live_server.url)))
    page.get_by_role("button", name="Create a key and send a request").click()
    entry = LedgerEntry.objects.filter(type="USAGE_DEBIT")
    expect(page.locator("#reply")).to_have_text("Say hello in three languages.")
    expect(page.locator("#cost")).to_have_text(re.compile(r"^\$0\.0"))
    assert pages == ["/dashboard/", "/dashboard/start/"]
    assert page.locator("#cost").inner_text() == dollars.format_usd(-entry.get().amount_nanos)
    assert page.locator("#left").inner_text() == dollars.format_usd(entry.get().balance_after_nanos)
    look(page, f"life-first-answer-{has_scripts}")
    secret = SECRET.search(page.locator("#secret").inner_text())[0]
    page.get_by_role("radio", name="Python").check(force=True)
    expect(page.locator("#code-python")).to_contain_text(f'api_key="{secret}"')
    expect(page.locator("#code-curl")).to_be_hidden()
    assert ask(live_server, secret).choices[0].message.content == "Hello"
    if has_scripts:
        stored = page.evaluate("JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href])")
        assert secret not in stored
        page.evaluate("dispatchEvent(new PageTransitionEvent('pagehide'))")  # a browser that keeps the page keeps no secret
        assert secret not in page.content()


@pytest.mark.usefixtures("_gateway", "echo_model")
def test_an_account_from_sign_up_to_its_closing(transactional_db, live_server, open_page):
    life = Life(open_page(viewport={"width": 1280, "height": 900}), open_page, live_server)
    for task in [*TASKS.values(), refund, sign_out_elsewhere]:
        task(life)

    account = Account.objects.get()
    assert set(Membership.objects.values_list("user__email", "role")) == {(ANN, Role.OWNER), (BEN, Role.DEVELOPER)}
    assert [entry.type for entry in LedgerEntry.objects.order_by("seq")] == [
        "CREDIT_PURCHASE", "USAGE_DEBIT", "USAGE_DEBIT", "USAGE_DEBIT", "REFUND_DEBIT"
    ]  # fmt: skip
    assert account.balance_nanos < 0
    assert audit.verify() == []
