"""The list of requests and the page of one, in a real Chromium."""

import pytest
from playwright.sync_api import expect

from billing.models import LedgerEntry
from completions.models import Completion
from keys.refusal_history import collector
from tests import chat, factories
from tests.browser import PHONE, PHONE_SIZE, fits, picture, sign_in, violations
from tests.conftest import client_for

NAME = "production-" * 9
DESK, DARK_PHONE = {"viewport": {"width": 1200, "height": 800}}, {**PHONE, "color_scheme": "dark"}


@pytest.mark.parametrize(
    ("name", "options"),
    [("desk", DESK), pytest.param("dark-phone", DARK_PHONE, marks=pytest.mark.long)],
    ids=["desk", "dark-phone"],
)
def test_an_owner_finds_out_what_a_request_cost_and_why_another_was_refused(alice, echo_model, open_page, name, options):
    api = client_for(factories.make_key(alice, NAME)[1])
    for number in range(3):
        assert chat.ask(api, user=f"user-{number}", metadata={"team": "search"}).status_code == 200
    assert chat.ask(api, model="demo/none").status_code == 404
    collector.write()
    page = open_page(**options)
    sign_in(page, "alice@example.org", "/dashboard/requests/")

    def check(step):
        picture(page, f"requests-{step}-{name}")
        assert violations(page) == [], step
        page.set_viewport_size(PHONE_SIZE)
        assert fits(page), step
        page.set_viewport_size(options["viewport"])
        assert fits(page), step

    check("list")
    name = page.locator("td.where .cut").first
    expect(name).to_have_attribute("title", f"{NAME}, for user-2")
    height = "cell => cell.scrollHeight"
    cut = name.evaluate(height)
    name.focus()
    assert name.evaluate(height) > cut
    page.locator("td.when a").first.click()
    expect(page.get_by_role("heading", name="What it cost")).to_be_visible()
    check("one")
    expect(page.get_by_text(Completion.objects.latest("id").pk).first).to_be_visible()
    page.get_by_role("link", name="-$").click()
    page.wait_for_url(f"**/dashboard/ledger/?entry={LedgerEntry.objects.latest('seq').pk}*")
    expect(page.get_by_text("Exact balance after").first).to_be_visible()
    check("entry")
    page.locator("section[aria-labelledby=months] a").first.click()
    page.wait_for_url("**/dashboard/ledger/20*/*/")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    check("month")
    page.goto("/dashboard/requests/?status=refused")
    check("refusals")
    page.locator("td.when a").first.click()
    expect(page.get_by_text("Use a model that GET /v1/models lists for the key.")).to_be_visible()
    check("refused")
