"""An owner's day with a key in a real Chromium."""

import pytest
from django.db import transaction
from playwright.sync_api import expect

from keys.models import ApiKey
from tests import factories
from tests.browser import PHONE, fits, picture, sign_in, violations
from tests.pages.dashboard_pages import SECRET, use

EVERYDAY, DARK = {"timezone_id": "America/Los_Angeles"}, {**PHONE, "color_scheme": "dark"}


@pytest.mark.parametrize(
    ("name", "options"),
    [pytest.param("light", EVERYDAY, id="light"), pytest.param("dark-phone", DARK, id="dark-phone", marks=pytest.mark.long)],
)
def test_an_owner_changes_rotates_pauses_and_finds_a_key(transactional_db, alice, echo_model, open_page, name, options):
    """``test_look_of_the_pages`` looks at the forms; this at what an act leads to."""
    key, former = factories.make_key(alice, "laptop", limit_cents=500, type="RECURRING", period="WEEKLY", tags=["web"])
    with transaction.atomic():
        use(key, cost_nanos=1_250_000_000)
    page = open_page(**options)

    def check(step):
        picture(page, f"{step}-{name}")
        assert (fits(page), violations(page)) == (True, []), step

    sign_in(page, "alice@example.org", f"/dashboard/keys/{key.pk}/")
    if options == EVERYDAY:
        expect(page.get_by_text("resets every Monday at 00:00 UTC (Sunday")).to_be_visible()
    page.get_by_role("link", name="Change", exact=True).click()
    page.get_by_label("Name").fill("production")
    page.get_by_label("Models").fill("demo/echo")
    page.get_by_label("Tags").fill("web, staging")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("production saved")).to_be_visible()

    page.get_by_role("link", name="Rotate").click()
    page.get_by_label("In 1 hour").check()
    page.get_by_role("button", name="Create new secret").click()
    minted = SECRET.search(page.locator("#secret").inner_text())[0]
    check("key-rotated")
    page.get_by_role("link", name="I have copied it").click()
    expect(page.get_by_text("a former secret works until")).to_be_visible()
    check("keys")

    page.get_by_role("link", name="production", exact=True).click()
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_text("This key is paused")).to_be_visible()
    check("key-paused")
    assert ApiKey.objects.get().paused_at is not None
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_text("production works again")).to_be_visible()

    page.get_by_role("link", name="All keys").click()
    page.get_by_role("link", name="Find it").click()
    page.get_by_label("Secret").fill(former)
    page.get_by_role("button", name="Find key").click()
    expect(page.get_by_role("heading", name="Revoke production?")).to_be_visible()
    check("key-found")
    assert former not in page.content()
    assert minted not in page.content()
    page.get_by_role("button", name="Revoke key").click()
    expect(page.get_by_text("production is revoked")).to_be_visible()
    assert ApiKey.objects.get().revoked_at is not None

    page.get_by_role("link", name="management keys").click()
    page.get_by_role("link", name="New management key").click()
    page.get_by_label("Name").fill("terraform")
    page.get_by_role("button", name="Create management key").click()
    expect(page.locator("#secret")).to_contain_text("mgw_manage_")
    check("management-made")
    page.get_by_role("link", name="I have copied it").click()
    page.get_by_role("link", name="Revoke terraform").click()
    expect(page.get_by_role("heading", name="Revoke terraform?")).to_be_visible()
