"""An owner buys credit with the demo processor, in a real Chromium."""

import pytest
from playwright.sync_api import expect

from billing.models import LedgerEntry, Payment
from tests.browser import PHONE, fits, look, sign_in


@pytest.fixture
def demo(transactional_db, bob, settings, tmp_path):
    settings.PAYMENT_PROCESSOR, settings.GATEWAY_VAR = "demo", tmp_path
    settings.SELLER_LINES = ["Gateway Ltd", "1 High Street", "London", "VAT GB999"]
    return bob


@pytest.mark.parametrize(
    ("name", "options"),
    [
        pytest.param("desk", {}, marks=pytest.mark.long),
        ("dark-phone-without-scripts", {**PHONE, "color_scheme": "dark", "java_script_enabled": False}),
    ],
)
def test_an_owner_buys_credit_and_prints_the_receipt(demo, open_page, name, options):
    page = open_page(**options)
    sign_in(page, "bob@example.org", "/dashboard/billing/")
    expect(page.get_by_text("No payments yet.")).to_be_visible()
    look(page, f"billing-{name}-empty")
    page.get_by_label("Another amount in US dollars").fill("1")
    page.get_by_role("button", name="Continue to payment").click()
    expect(page.get_by_text("The minimum is $5.00.")).to_be_visible()
    look(page, f"billing-{name}-error")
    page.get_by_role("link", name="Add the billing details").click()
    page.get_by_label("Name or company").fill("Bob's Bakery GmbH")
    page.get_by_label("Address").fill("Backstraße 1\n12345 Berlin")
    page.get_by_label("Tax ID").fill("DE123456789")
    look(page, f"billing-{name}-details")
    page.get_by_role("button", name="Save").click()

    page.get_by_role("button", name="$25.00").click()
    look(page, f"billing-{name}-processor")
    assert fits(page)
    page.get_by_role("button", name="Pay by bank transfer").click()
    expect(page.get_by_text("The bank is processing it")).to_be_visible()
    look(page, f"billing-{name}-pending")
    page.goto("/dashboard/billing/")
    page.get_by_role("button", name="$10.00").click()
    page.get_by_role("button", name="Pay with a card").click()
    expect(page.get_by_text("$10.00 was added to your balance")).to_be_visible()
    look(page, f"billing-{name}-paid")
    page.get_by_role("link", name="Receipt").click()
    expect(page.get_by_text("Bob's Bakery GmbH")).to_be_visible()
    look(page, f"billing-{name}-receipt")
    assert fits(page)
    page.goto("/dashboard/billing/top-up/")
    page.get_by_label("Maximum per month").fill("1")
    page.get_by_role("button", name="Pay and save card").click()
    expect(page.get_by_text("Enter at least the amount of one top-up.")).to_be_visible()
    look(page, f"billing-{name}-top-up")
    assert fits(page)
    page.goto("/dashboard/billing/")
    expect(page.locator(".balance")).to_have_text("$10.00")
    look(page, f"billing-{name}")
    assert fits(page)
    assert LedgerEntry.objects.get(account=demo).amount_nanos == 10_000_000_000


def test_enter_in_the_field_of_an_amount_pays_that_amount(demo, open_page):
    page = open_page()
    sign_in(page, "bob@example.org", "/dashboard/billing/")
    page.get_by_label("Another amount in US dollars").fill("250")
    page.get_by_label("Another amount in US dollars").press("Enter")
    expect(page.get_by_role("button", name="Pay by bank transfer")).to_be_visible()
    assert Payment.objects.get().amount_cents == 250_00
