"""How the admin looks and works for everybody: light and dark, wide and narrow, with a screen reader. In a real Chromium."""

import pytest
from django.db import transaction
from django.utils import timezone
from playwright.sync_api import expect

from billing.models import CreditRequest, User
from gateway_project import identifiers
from keys import lifecycle
from keys.models import RefusalCount
from tests import factories, usage
from tests.browser import fits, picture, sign_in, violations
from tests.pages.test_dashboard import use

IDS = "[...document.querySelectorAll('[id]')].map(element => element.id)"
SETTLED = "Promise.all(document.getAnimations().map(animation => animation.finished))"  # no colour is on its way to another
PAGES = [
    "/admin/",
    "/admin/completions/",
    "/admin/billing/account/?is_active__exact=1&q=alice",
    "/admin/billing/account/{account}/change/",
    "/admin/billing/account/{account}/credit/",
    "/admin/billing/creditrequest/",
    "/admin/billing/creditrequest/{asked}/change/",
    "/admin/billing/creditrequest/{asked}/approve/",
    "/admin/billing/creditrequest/{asked}/decline/",
    "/admin/billing/account/{account}/purchase/",
    "/admin/billing/account/{account}/closing-refund/",
    "/admin/billing/account/{account}/correct/{entry}/",
    "/admin/keys/apikey/{key}/raise/",
    "/admin/billing/ledgerentry/",
    "/admin/billing/hold/",
    "/admin/keys/apikey/{key}/trial/",
    "/admin/completions/languagemodel/",
    "/admin/billing/user/{user}/change/",
    "/admin/billing/user/add/",
    "/admin/auth/group/add/",
    "/admin/keys/apikey/",
    "/admin/keys/apikey/{key}/change/",
    "/admin/keys/apikey/{key}/revoke/",
    "/admin/completions/languagemodel/acme/large/change/",
    "/admin/completions/languagemodel/acme/large/price/",
    "/admin/completions/provider/echo/change/",
    "/admin/rankings/alias/queue/",
    "/admin/activity/activity/",
    "/admin/password_change/",
    "/admin/search/",
    "/admin/search/?q=alice",
]


@pytest.fixture
def paths(transactional_db, alice):
    """The pages, of an account with a key, an entry and a model."""
    User.objects.create_superuser("root@example.org", factories.PASSWORD)
    factories.credit(alice, 500)
    factories.make_account("Alice and daughters")
    factories.make_model("acme/large")
    key, _ = factories.make_key(alice, "laptop")
    asked = CreditRequest.objects.create(
        reference="form", account=alice, amount_cents=20_000, reason="Sorry", requested_by=factories.make_user("s@example.org")
    )
    lifecycle.set_spending_limit(key, limit_cents=500, type="RECURRING", period="DAILY")
    usage.buy(alice, 2_000, "pi_1")
    with transaction.atomic():
        use(key, cost_nanos=1_234_567_891)
    usage.place(alice, 250_000_000, reference=identifiers.short_uuid7())
    hour = timezone.now().replace(minute=0, second=0, microsecond=0)
    RefusalCount.objects.create(key=key, hour=hour, status=429, code="rate_limit_exceeded", error="RateLimited", number=3)
    ids = {"account": alice.pk, "key": key.pk, "user": alice.members.get().pk, "asked": asked.pk}
    ids["entry"] = alice.entries.get(seq=1).pk
    return [path.format(**ids) for path in PAGES]


def test_screen_readers_and_weak_eyes_can_use_the_pages(open_page, paths):
    """With all rules in the light, and with that of contrast in the dark, in which nothing else differs."""
    page = open_page(viewport={"width": 1280, "height": 800})
    sign_in(page, "root@example.org", "/admin/")
    for path in paths:
        name = path.strip("/").replace("/", "-")[:40]
        page.emulate_media(color_scheme="light")
        page.goto(path)
        assert violations(page) == [], path
        ids = page.evaluate(IDS)
        assert sorted(ids) == sorted(set(ids)), path
        assert fits(page), path
        picture(page, f"look-light-{name}")
        page.emulate_media(color_scheme="dark")
        page.evaluate(SETTLED)
        assert violations(page, runOnly=["color-contrast"]) == [], path
        picture(page, f"look-dark-{name}")


def test_no_page_is_wider_than_a_phone(open_page, paths):
    page = open_page(viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True)
    sign_in(page, "root@example.org", "/admin/")
    for path in paths:
        page.goto(path)
        picture(page, f"look-phone-{path.strip('/').replace('/', '-')[:40]}")
        assert fits(page), path


def test_a_choice_of_dark_or_light_comes_before_what_the_browser_prefers(open_page, paths):
    page = open_page(color_scheme="light")
    sign_in(page, "root@example.org", "/admin/")
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    toggle = page.get_by_role("button", name="Toggle theme")
    toggle.click()  # from what the browser prefers to the other one
    dark = page.evaluate(background)
    assert dark != light
    page.reload()
    assert page.evaluate(background) == dark
    toggle.click()
    assert page.evaluate(background) == light


def test_filters_fold_above_the_list_and_are_open_where_one_is_in_use(open_page, paths):
    page = open_page(java_script_enabled=False)
    sign_in(page, "root@example.org", "/admin/billing/account/")
    page.wait_for_load_state()
    yes = page.get_by_role("link", name="Yes").first
    expect(yes).to_be_hidden()
    page.locator("#changelist-filter > summary").click()
    yes.click()
    expect(page.get_by_role("link", name="Clear all filters")).to_be_visible()
    expect(yes).to_be_visible()


def test_money_stands_at_the_right_of_its_column(open_page, paths):
    page = open_page()
    sign_in(page, "root@example.org", "/admin/billing/ledgerentry/")
    cell, head = page.locator("td.field-amount"), page.locator("th.column-amount .text")
    for element in (cell, head):
        assert element.first.evaluate("element => getComputedStyle(element).textAlign") == "end"
