"""The whole life of an account in a real Chromium: from signing up to closing it."""

import re

import openai
import pytest
from django.core import mail
from playwright.sync_api import expect
from pypdf import PdfReader

from billing import tasks
from billing.ledger import audit
from billing.models import Account, LedgerEntry, Membership, Role
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


def sign_up(page):
    """Sign up, and prove the address."""
    page.goto("/")
    page.goto("/accounts/signup/")
    page.get_by_label("mail").fill(ANN)
    page.get_by_role("button", name="Email me a link").click()
    page.goto(link_to(ANN))
    choose_password(page, "Open account")  # and signed in
    page.wait_for_url("**/dashboard/")
    look(page, "life-empty")


def add_second_factor(page):
    """A second factor."""
    page.goto("/accounts/2fa/totp/activate/")
    page.get_by_label("code").fill(second_factors.code(page.locator("code").inner_text()))
    page.get_by_role("button", name="Set up").click()
    page.get_by_text("Save these codes now").wait_for()
    return page.locator("#recovery-codes").inner_text().split()[0]


def pay_and_create_key(page):
    """Pay, and create a key."""
    page.goto("/dashboard/billing/")
    page.get_by_role("button", name="$10.00").click()
    page.get_by_role("button", name="Pay with a card").click()
    expect(page.get_by_text("$10.00 was added to your balance")).to_be_visible()
    page.goto("/dashboard/keys/new/")
    page.get_by_label("Name").fill("laptop")
    page.get_by_role("button", name="Create key").click()
    former = SECRET.search(page.locator("#secret").inner_text())[0]
    page.get_by_role("link", name="I have copied it").click()
    return former


def fall_below_the_warning(page, live_server, former):
    """A first request falls below the balance that the owner wants to be warned of. Pages and a mail say so."""
    page.goto("/dashboard/alerts/")
    page.get_by_role("link", name="Change when a balance is low").click()
    page.get_by_label("Alert when the balance falls below").fill("10")
    page.get_by_role("button", name="Save").click()
    asked = ask(live_server, former)
    tasks.mail_warnings()
    assert "The balance fell below $10.00" in sent_to(ANN)
    page.goto("/dashboard/alerts/")
    expect(page.get_by_role("heading", name="The balance fell below $10.00")).to_be_visible()
    look(page, "life-warnings")
    page.goto("/dashboard/requests/")
    page.locator(f'a[href$="{asked.id}/"]').first.click()
    expect(page.get_by_text("demo/echo").first).to_be_visible()
    look(page, "life-request")


def rotate_and_limit(page, live_server, former):
    """Rotate the key: the former secret stops at once. Limit it."""
    page.goto("/dashboard/keys/")
    page.get_by_role("link", name="laptop", exact=True).click()
    page.get_by_role("link", name="Rotate").click()
    page.get_by_label("Immediately").check()
    page.get_by_role("button", name="Create new secret").click()
    secret = SECRET.search(page.locator("#secret").inner_text())[0]
    page.get_by_role("link", name="I have copied it").click()
    with pytest.raises(openai.AuthenticationError):
        ask(live_server, former)
    ask(live_server, secret)
    page.get_by_role("link", name="laptop", exact=True).click()
    page.get_by_role("link", name="Limit").click()
    page.get_by_label("One-time limit").check()
    page.get_by_label("Amount in US dollars").fill("0.01")
    page.get_by_role("button", name="Save limit").click()
    with pytest.raises(openai.APIStatusError, match="spending limit"):
        ask(live_server, secret, max_tokens=4_096, n=1, text="x" * 20_000)
    return secret


def read_the_statement(page):
    """The statement of the month adds up, and the payment has its invoice."""
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
    assert "Total in US dollars" in drawn
    assert "$10.00" in drawn


def refund(page, live_server, secret):
    """The seller refunds what was paid: the balance is below zero, and requests are refused."""
    page.goto("/dashboard/billing/")
    page.get_by_role("link", name="$10.00").first.click()
    page.get_by_role("link", name="View this payment").click()
    page.get_by_role("button", name="As the seller: refund", exact=True).click()
    page.goto("/dashboard/")
    look(page, "life-overview")
    with pytest.raises(openai.APIStatusError) as refused:
        ask(live_server, secret, max_tokens=1)
    assert refused.value.status_code == 402


def invite(page, open_page):
    """Invite someone, who joins."""
    page.goto("/dashboard/members/")
    page.get_by_role("link", name="Invite member").click()
    page.get_by_label("Email address").fill(BEN)
    page.get_by_label("Developer:").check()
    page.get_by_role("button", name="Send invitation").click()
    guest = open_page()
    guest.goto(link_to(BEN))
    choose_password(guest, "Join account")
    sign_in(guest, BEN)
    guest.wait_for_url("**/dashboard/")


def sign_out_elsewhere(page, open_page, recovery_code):
    """Sign out everywhere: a second session of the owner ends."""
    elsewhere = open_page()
    elsewhere.goto("/dashboard/")
    sign_in(elsewhere, ANN)
    elsewhere.get_by_label("code").fill(recovery_code)
    elsewhere.get_by_role("button", name="Sign in", exact=True).click()
    elsewhere.wait_for_url("**/dashboard/")
    page.goto("/accounts/sessions/")
    page.get_by_role("button", name="Sign out everywhere else").click()
    elsewhere.goto("/dashboard/")
    elsewhere.wait_for_url("**/accounts/login/**")


def close(page, live_server, secret):
    """Close the account: its keys stop."""
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
        ask(live_server, secret, max_tokens=1)
    assert stopped.value.status_code in (401, 403)


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
    page = open_page(viewport={"width": 1280, "height": 900})
    sign_up(page)
    recovery_code = add_second_factor(page)
    former = pay_and_create_key(page)
    fall_below_the_warning(page, live_server, former)
    secret = rotate_and_limit(page, live_server, former)
    read_the_statement(page)
    refund(page, live_server, secret)
    invite(page, open_page)
    sign_out_elsewhere(page, open_page, recovery_code)
    close(page, live_server, secret)

    account = Account.objects.get()
    assert not account.is_active
    assert set(Membership.objects.values_list("user__email", "role")) == {(ANN, Role.OWNER), (BEN, Role.DEVELOPER)}
    assert [entry.type for entry in LedgerEntry.objects.order_by("seq")] == [
        "CREDIT_PURCHASE", "USAGE_DEBIT", "USAGE_DEBIT", "REFUND_DEBIT"
    ]  # fmt: skip
    assert account.balance_nanos < 0
    assert audit.verify() == []
