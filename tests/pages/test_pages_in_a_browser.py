"""The tasks of owners and support, in a real Chromium."""

import re
from datetime import timedelta

import pytest
from django.contrib.sessions.models import Session
from django.db import transaction
from django.utils import timezone
from playwright import sync_api as playwright
from playwright.sync_api import expect

from billing import ledger, locks, money
from billing.models import LedgerEntry
from gateway_project.activity.models import Activity
from keys.models import ApiKey
from tests import factories, usage
from tests.browser import PHONE, fits, picture, sign_in, violations
from tests.conftest import client_for
from tests.pages.conftest import SUPPORT_PERMISSIONS, make_staff, owner_of

SECRET = re.compile(r"mgw_live_[0-9A-Za-z]{22}_[0-9A-Za-z]{38}")


@transaction.atomic
def use(key, number, *, cost_nanos, days_ago):
    """Settle a completion of the key, on a day of the last month."""
    account = locks.lock_account(key.account_id)
    day = timezone.now().date() - timedelta(days=days_ago)
    usage.reserve(key, day=day, amount_nanos=cost_nanos)
    usage.commit(key, day=day, held_nanos=cost_nanos, spent_nanos=cost_nanos, prompt_tokens=900, completion_tokens=334)
    usage.debit(account, cost_nanos, f"chatcmpl-{number}", model="openai/gpt-4o-mini", prompt_tokens=900, completion_tokens=334)


@pytest.fixture
def busy(transactional_db, alice):
    """Alice's account after a month of use, with names and figures of the greatest length."""
    key, _ = factories.make_key(alice, "production", limit_cents=500, type="RECURRING", period="MONTHLY")
    factories.make_key(alice, "W" * 100, limit_cents=922_337_203_685, type="FIXED")
    for number in range(40):
        use(key, number, cost_nanos=19_195_117 * (number % 9 + 1), days_ago=number % 28)
    ledger.grant_support_credit(alice.pk, amount_cents=900_000_000_000, reason="A" * 200, reference="long")
    return alice


# --- Owners --------------------------------------------------------------------------------------------------------


def test_a_password_can_be_revealed_and_a_new_one_shows_its_strength(open_page, transactional_db, alice):
    page = open_page()
    sign_in(page, "alice@example.org", "/dashboard/password/")
    new = page.get_by_label("New password", exact=True)
    for typed, words in (
        ("short", "Too short"),
        ("aaaaaaaaaaaa", "Weak"),
        ("twelve chars", "Fair"),
        ("a whole sentence of it", "Strong"),
    ):
        new.fill(typed)
        assert page.get_by_role("status").text_content().startswith(words)
    page.locator("#id_new_password1 + button").click()
    assert new.get_attribute("type") == "text"
    picture(page, "password")
    page.locator("#id_new_password1 + button").click()
    assert new.get_attribute("type") == "password"
    assert fits(page)


def test_the_password_is_asked_again_on_a_page_of_its_own(open_page, transactional_db, alice):
    page = open_page(**PHONE)
    sign_in(page, "alice@example.org", "/dashboard/keys/new/")
    for session in Session.objects.all():
        Session.objects.save(session.session_key, {**session.get_decoded(), "password_given_at": 0}, session.expire_date)
    page.get_by_label("Name").fill("laptop")
    page.get_by_role("button", name="Make the key").click()
    page.get_by_label("Password of alice@example.org").fill(factories.PASSWORD)
    picture(page, "reauthentication")
    assert fits(page)
    page.get_by_role("button", name="Go on").click()
    page.get_by_role("heading", name="laptop is ready").wait_for()


def test_an_owner_makes_a_key_sees_its_secret_once_limits_and_revokes_it(transactional_db, alice, open_page):
    page = open_page()
    sign_in(page, "alice@example.org")
    page.get_by_role("link", name="Make the first key").click()
    page.get_by_label("Name").fill("laptop")
    expect(page.get_by_label("At most, in US dollars")).to_be_hidden()
    page.get_by_label("Limit that resets").check()
    page.get_by_label("At most, in US dollars").fill("5")
    page.locator("[name=spending_period]").select_option("MONTHLY")
    picture(page, "owner-new-key")
    page.get_by_role("button", name="Make the key").click()
    secret = SECRET.search(page.locator("#secret").inner_text())[0]
    picture(page, "owner-secret")
    assert secret not in page.url
    assert client_for(secret).get("/api/billing/balance").status_code == 200
    key = ApiKey.objects.get()
    assert (key.name, key.spending_limit_cents, key.spending_period) == ("laptop", 500, "MONTHLY")

    page.get_by_role("link", name="I have copied it").click()
    expect(page.get_by_text("$5.00 left of $5.00 per month")).to_be_visible()
    assert not SECRET.search(page.content())

    page.get_by_role("link", name="Limit of laptop").click()
    page.get_by_label("One-time limit").check()
    page.get_by_label("At most, in US dollars").fill("7,5")
    page.get_by_role("button", name="Save the limit").click()
    expect(page.get_by_text("Enter an amount in dollars")).to_be_visible()
    picture(page, "owner-error")
    page.get_by_label("At most, in US dollars").fill("7.50")
    page.get_by_role("button", name="Save the limit").click()
    expect(page.get_by_text("$7.50 left of $7.50 in total")).to_be_visible()
    page.get_by_role("link", name="Limit of laptop").click()
    page.get_by_label("No limit").check()
    page.get_by_role("button", name="Save the limit").click()
    expect(page.get_by_text("The spending limit of laptop is now: no limit.")).to_be_visible()

    page.get_by_role("link", name="Revoke laptop").click()
    picture(page, "owner-revoke")
    page.get_by_role("button", name="Revoke the key").click()
    expect(page.get_by_role("status").get_by_text("laptop is revoked")).to_be_visible()
    picture(page, "owner-revoked")
    assert client_for(secret).get("/api/billing/balance").status_code == 401


def test_going_back_shows_no_secret_and_makes_no_key(transactional_db, alice, open_page):
    page = open_page()
    sign_in(page, "alice@example.org", "/dashboard/keys/new/")
    page.get_by_label("Name").fill("laptop")
    page.get_by_role("button", name="Make the key").click()
    page.get_by_role("link", name="I have copied it").click()
    expect(page.get_by_role("heading", name="laptop")).to_be_visible()
    with pytest.raises(playwright.Error, match="ERR_CACHE_MISS"):  # it would ask before it posts again
        page.go_back()
    assert ApiKey.objects.count() == 1


def test_reloading_the_page_of_the_secret_shows_no_secret_and_makes_no_key(transactional_db, alice, open_page):
    page = open_page()
    sign_in(page, "alice@example.org", "/dashboard/keys/new/")
    page.get_by_label("Name").fill("laptop")
    page.get_by_role("button", name="Make the key").click()
    expect(page.locator("#secret")).to_have_text(SECRET)
    page.reload()
    expect(page.get_by_text("its secret was shown then")).to_be_visible()
    assert not SECRET.search(page.content())
    assert ApiKey.objects.count() == 1


def test_the_secret_is_removed_when_the_browser_leaves_the_page(transactional_db, alice, open_page):
    page = open_page()
    sign_in(page, "alice@example.org", "/dashboard/keys/new/")
    page.get_by_label("Name").fill("laptop")
    page.get_by_role("button", name="Make the key").click()
    expect(page.locator("#secret")).to_have_text(SECRET)
    page.wait_for_load_state()
    page.evaluate("window.dispatchEvent(new Event('pagehide'))")
    assert not SECRET.search(page.content())


def test_a_double_click_makes_one_key_and_shows_its_secret(transactional_db, alice, open_page):
    page = open_page()
    sign_in(page, "alice@example.org", "/dashboard/keys/new/")
    page.get_by_label("Name").fill("laptop")
    page.get_by_role("button", name="Make the key").dblclick()
    expect(page.locator("#secret")).to_be_visible()
    assert SECRET.search(page.content())
    assert ApiKey.objects.count() == 1


def test_an_owner_without_scripts_makes_and_revokes_a_key(transactional_db, alice, open_page):
    page = open_page(java_script_enabled=False)
    sign_in(page, "alice@example.org")
    expect(page.locator("table time").first).to_have_text(re.compile(r"^\d+ \w{3} \d{4}, \d\d:\d\d UTC$"))
    page.get_by_role("link", name="Make the first key").click()
    page.get_by_label("Name").fill("laptop")
    page.get_by_label("One-time limit").check()
    page.get_by_label("At most, in US dollars").fill("5")
    page.get_by_role("button", name="Make the key").click()
    secret = SECRET.search(page.locator("#secret").inner_text())[0]
    assert ApiKey.objects.get().spending_limit_cents == 500
    page.get_by_role("link", name="I have copied it").click()
    page.get_by_role("link", name="Revoke laptop").click()
    page.get_by_role("button", name="Revoke the key").click()
    expect(page.get_by_text("laptop is revoked")).to_be_visible()
    assert client_for(secret).get("/api/billing/balance").status_code == 401


def test_the_overview_sees_the_first_request_arrive(transactional_db, alice, open_page):
    key, _ = factories.make_key(alice, "laptop")
    page = open_page()
    page.clock.install()
    sign_in(page, "alice@example.org")
    expect(page.get_by_text("Waiting for it.")).to_be_visible()
    picture(page, "owner-first-steps")
    use(key, 1, cost_nanos=1, days_ago=0)
    page.clock.run_for(3_000)
    expect(page.get_by_text("Your first request has arrived.")).to_be_visible()
    page.clock.run_for(2_000)
    expect(page.get_by_role("heading", name="Three steps to a first reply")).to_have_count(0)


def test_times_are_in_the_readers_zone_with_utc_at_hand(transactional_db, alice, open_page):
    page = open_page(timezone_id="Asia/Tokyo", locale="en-GB")
    sign_in(page, "alice@example.org", "/dashboard/ledger/")
    shown = page.locator("table time").first
    booked = LedgerEntry.objects.get().created_at
    expect(shown).to_have_attribute("title", f"{booked:%Y-%m-%d %H:%M:%S} UTC")
    expect(shown).to_have_text(re.compile(f"{booked + timedelta(hours=9):%H:%M}$"))


def test_the_exact_amount_shows_on_a_tap_without_scripts(busy, open_page):
    page = open_page(java_script_enabled=False, **PHONE)
    sign_in(page, "alice@example.org")
    balance, exact = page.locator(".balance .usd"), page.locator(".balance .usd-exact")
    expect(exact).to_be_hidden()
    balance.tap()
    expect(exact).to_be_in_viewport(ratio=1)
    picture(page, "phone-exact-balance")
    page.locator("h2").first.tap()
    expect(exact).to_be_hidden()


def test_the_exact_amount_shows_on_hover_and_keyboard_focus_until_escape(busy, open_page):
    page = open_page(viewport={"width": 1200, "height": 800})
    sign_in(page, "alice@example.org")
    balance, exact = page.locator(".balance .usd"), page.locator(".balance .usd-exact")
    balance.hover()
    expect(exact).to_be_visible()
    page.mouse.move(0, 0)
    expect(exact).to_be_hidden()
    page.locator("main").focus()
    page.keyboard.press("Tab")
    expect(exact).to_be_in_viewport(ratio=1)
    assert violations(page) == []
    picture(page, "exact-balance")
    page.keyboard.press("Escape")
    expect(exact).to_be_hidden()


def test_the_keyboard_reaches_the_content_first(transactional_db, alice, open_page):
    page = open_page()
    sign_in(page, "alice@example.org")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    assert page.evaluate("document.activeElement.getBoundingClientRect().left") >= 0
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


def test_an_owner_of_two_accounts_switches(transactional_db, alice, open_page):
    factories.make_account("Second", cents=4200, owner=owner_of(alice))
    page = open_page()
    sign_in(page, "alice@example.org")
    page.get_by_label("Account").select_option("Second")
    page.get_by_role("button", name="Switch").click()
    expect(page.locator(".balance").get_by_text("$42.00")).to_be_visible()
    picture(page, "owner-two-accounts")


# --- Support -------------------------------------------------------------------------------------------------------


@pytest.fixture
def support_page(transactional_db, alice, open_page):
    make_staff("support@example.org", SUPPORT_PERMISSIONS)
    factories.make_key(alice, "laptop")
    page = open_page(viewport={"width": 1200, "height": 800})
    sign_in(page, "support@example.org", "/admin/")
    return page


def find_alice(page):
    page.get_by_role("link", name="Accounts").first.click()
    page.locator("#searchbar").fill("alice@example.org")
    page.locator("#changelist-search").get_by_role("button", name="Search").click()
    page.locator("#result_list").get_by_role("link", name="Alice").click()


def test_support_finds_an_account_and_credits_it_once_by_a_double_click(support_page, alice):
    page = support_page
    find_alice(page)
    picture(page, "support-account")
    page.get_by_role("link", name="Issue credit").click()
    page.get_by_label("Amount in US dollars").fill("-5")
    page.get_by_label("Reason").fill("Sorry for the outage")
    page.get_by_role("button", name="Issue the credit").click()
    expect(page.get_by_text("Enter an amount in dollars")).to_be_visible()
    picture(page, "support-credit-error")
    page.get_by_label("Amount in US dollars").fill("5")
    page.get_by_role("button", name="Issue the credit").dblclick()
    expect(page.locator("#account-entries").get_by_text("Sorry for the outage")).to_be_visible()
    picture(page, "support-credited")
    alice.refresh_from_db()
    assert (alice.balance_nanos, alice.last_seq) == (money.nanos(1500), 2)
    assert Activity.objects.count() == 1


def test_support_limits_and_revokes_a_key(support_page):
    page = support_page
    find_alice(page)
    page.locator("#account-keys").get_by_role("link", name="laptop").click()
    page.get_by_role("link", name="Set spending limit").click()
    page.get_by_label("Spending limit").select_option("RECURRING")
    page.get_by_label("At most, in US dollars").fill("2.50")
    page.locator("[name=spending_period]").select_option("DAILY")
    picture(page, "support-limit")
    page.get_by_role("button", name="Save the limit").click()
    expect(page.get_by_text("The spending limit is now: $2.50 per day.")).to_be_visible()
    picture(page, "support-key")
    key = ApiKey.objects.get()
    assert (key.spending_limit_cents, key.spending_type, key.spending_period) == (250, "RECURRING", "DAILY")
    page.get_by_role("link", name="Revoke").click()
    picture(page, "support-revoke")
    page.get_by_role("button", name="Revoke the key").click()
    expect(page.get_by_text("The key is revoked.")).to_be_visible()
    assert ApiKey.objects.get().revoked_at is not None
    page.goto("/admin/")
    picture(page, "support-index")
