"""The tasks of owners and support, in a real Chromium."""

import re
from datetime import timedelta

import pytest
from django.contrib.sessions.models import Session
from django.db import transaction
from playwright import sync_api as playwright
from playwright.sync_api import expect

from billing import money
from billing.ledger import writer
from billing.models import LedgerEntry
from gateway_project.activity.models import Activity
from keys.models import ApiKey
from tests import factories
from tests.browser import PHONE, fits, look, sign_in, violations
from tests.pages.conftest import SUPPORT_PERMISSIONS, make_staff
from tests.pages.dashboard_pages import SECRET, use
from tests.pages.desk_pages import account_page


@pytest.fixture
def rich(transactional_db, alice):
    """Alice's account with a balance of the greatest length, which is no whole number of cents."""
    with transaction.atomic():
        use(factories.make_key(alice)[0], cost_nanos=19_195_117)
    writer.grant_support_credit(alice.pk, amount_cents=900_000_000_000, reason="A" * 200, reference="long")
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
        expect(page.get_by_role("status")).to_contain_text(words)
    page.locator("#id_new_password1 + button").click()
    expect(new).to_have_attribute("type", "text")
    look(page, "password")
    page.locator("#id_new_password1 + button").click()
    expect(new).to_have_attribute("type", "password")
    assert fits(page)


def test_the_password_is_asked_again_on_a_page_of_its_own(open_page, transactional_db, alice):
    page = open_page(**PHONE)
    sign_in(page, "alice@example.org", "/dashboard/keys/new/")
    for session in Session.objects.all():
        Session.objects.save(session.session_key, {**session.get_decoded(), "password_given_at": 0}, session.expire_date)
    page.get_by_label("Name").fill("laptop")
    page.get_by_role("button", name="Create key").click()
    expect(page.get_by_label("Password of alice@example.org")).to_be_visible()
    look(page, "reauthentication")
    assert fits(page)
    page.get_by_label("Password of alice@example.org").fill(factories.PASSWORD)
    page.get_by_role("button", name="Continue").click()
    page.get_by_role("heading", name="laptop is ready").wait_for()


def test_a_form_shows_the_fields_of_the_limit_that_is_chosen(transactional_db, alice, open_page):
    page = open_page()
    sign_in(page, "alice@example.org", "/dashboard/keys/new/")
    amount, period = page.get_by_label("Amount in US dollars"), page.locator("[name=spending_period]")
    for limit, (shows_amount, shows_period) in (
        ("No limit", (False, False)),
        ("One-time limit", (True, False)),
        ("Limit that resets", (True, True)),
    ):
        page.get_by_label(limit).check()
        expect(amount).to_be_visible(visible=shows_amount)
        expect(period).to_be_visible(visible=shows_period)
    expect(period).to_have_value("MONTHLY")
    look(page, "owner-new-key")


def test_going_back_shows_no_secret_and_makes_no_key(transactional_db, alice, open_page):
    page = open_page()
    sign_in(page, "alice@example.org", "/dashboard/keys/new/")
    page.get_by_label("Name").fill("laptop")
    page.get_by_role("button", name="Create key").click()
    page.get_by_role("link", name="I have copied it").click()
    expect(page.get_by_role("link", name="laptop", exact=True)).to_be_visible()
    with pytest.raises(playwright.Error, match="ERR_CACHE_MISS"):  # it would ask before it posts again
        page.go_back()
    assert ApiKey.objects.count() == 1


def test_reloading_the_page_of_the_secret_shows_no_secret_and_makes_no_key(transactional_db, alice, open_page):
    page = open_page()
    sign_in(page, "alice@example.org", "/dashboard/keys/new/")
    page.get_by_label("Name").fill("laptop")
    page.get_by_role("button", name="Create key").click()
    expect(page.locator("#secret")).to_have_text(SECRET)
    page.reload()
    expect(page.get_by_text("its secret was shown then")).to_be_visible()
    assert not SECRET.search(page.content())
    assert ApiKey.objects.count() == 1


def test_the_secret_is_removed_when_the_browser_leaves_the_page(transactional_db, alice, open_page):
    page = open_page()
    sign_in(page, "alice@example.org", "/dashboard/keys/new/")
    page.get_by_label("Name").fill("laptop")
    page.get_by_role("button", name="Create key").click()
    expect(page.locator("#secret")).to_have_text(SECRET)
    page.wait_for_load_state()
    page.evaluate("window.dispatchEvent(new Event('pagehide'))")
    assert not SECRET.search(page.content())


def test_a_double_click_makes_one_key_and_shows_its_secret(transactional_db, alice, open_page):
    page = open_page()
    sign_in(page, "alice@example.org", "/dashboard/keys/new/")
    page.get_by_label("Name").fill("laptop")
    page.get_by_role("button", name="Create key").dblclick()
    expect(page.locator("#secret")).to_be_visible()
    assert SECRET.search(page.content())
    assert ApiKey.objects.count() == 1


def test_the_overview_sees_the_first_request_arrive(transactional_db, alice, open_page):
    key, _ = factories.make_key(alice, "laptop")
    page = open_page()
    page.clock.install()
    sign_in(page, "alice@example.org")
    expect(page.get_by_text("Waiting for your first request.")).to_be_visible()
    look(page, "owner-first-steps")
    with transaction.atomic():
        use(key, cost_nanos=1)
    page.clock.run_for(3_000)
    expect(page.get_by_text("Your first request has arrived.")).to_be_visible()
    page.clock.run_for(2_000)
    expect(page.get_by_role("heading", name="Get started in three steps")).to_have_count(0)


def test_times_are_in_the_readers_zone_with_utc_at_hand(transactional_db, alice, open_page):
    page = open_page(timezone_id="Asia/Tokyo", locale="en-GB")
    sign_in(page, "alice@example.org", "/dashboard/ledger/")
    shown = page.locator("table time").first
    booked = LedgerEntry.objects.get().created_at
    expect(shown).to_have_attribute("title", f"{booked:%Y-%m-%d %H:%M:%S} UTC")
    expect(shown).to_have_text(re.compile(f"{booked + timedelta(hours=9):%H:%M}$"))


def test_the_exact_amount_shows_on_a_tap_without_scripts(rich, open_page):
    page = open_page(java_script_enabled=False, **PHONE)
    sign_in(page, "alice@example.org")
    balance, exact = page.locator(".balance .usd"), page.locator(".balance .usd-exact")
    expect(exact).to_be_hidden()
    balance.tap()
    expect(exact).to_be_in_viewport(ratio=1)
    look(page, "phone-exact-balance")
    page.locator("h2").first.tap()
    expect(exact).to_be_hidden()


def test_the_exact_amount_shows_on_hover_and_keyboard_focus_until_escape(rich, open_page):
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
    look(page, "exact-balance")
    page.keyboard.press("Escape")
    expect(exact).to_be_hidden()


def test_the_keyboard_reaches_the_content_first(transactional_db, alice, open_page):
    page = open_page()
    sign_in(page, "alice@example.org")
    page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to the content")
    expect(skip).to_be_focused()
    expect(skip).to_be_in_viewport(ratio=1)
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()


# --- Support -------------------------------------------------------------------------------------------------------


def test_a_double_click_of_support_credits_once(transactional_db, alice, open_page):
    make_staff("support@example.org", SUPPORT_PERMISSIONS)
    page = open_page(viewport={"width": 1200, "height": 800})
    sign_in(page, "support@example.org", account_page(alice, "credit"))
    page.get_by_label("Amount in US dollars").fill("5")
    page.get_by_label("Reason").fill("Sorry for the outage")
    page.get_by_role("button", name="Issue credit").dblclick()
    expect(page.locator("#account-entries").get_by_text("Sorry for the outage")).to_be_visible()
    look(page, "support-credited")
    alice.refresh_from_db()
    assert (alice.balance_nanos, alice.last_seq) == (money.nanos(1500), 2)
    assert Activity.objects.count() == 1
