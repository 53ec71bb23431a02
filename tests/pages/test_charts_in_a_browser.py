"""The charts of the overview and of the status page in a real browser: read by pointer, finger and keys."""

from datetime import timedelta

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from completions.models import Incident, UptimeSums
from completions.public import facts, status
from gateway_project.web import public_page
from keys.models import SpendingDay
from tests import factories
from tests.browser import PHONE, fits, look, picture, sign_in, violations

OWNER = "ada@example.org"


@pytest.fixture
def spent(transactional_db):
    """An account that spent with two keys on forty days."""
    account = factories.make_account("Example Ltd", cents=50_000, owner=factories.make_user(OWNER))
    today = timezone.now().date()
    for key in (factories.make_key(account, name)[0] for name in ("Search", "Nightly batch")):
        SpendingDay.objects.bulk_create(
            SpendingDay(key=key, day=today - timedelta(days=ago), spent_nanos=(ago % 7) * 12_345_678) for ago in range(40)
        )
    factories.make_key(account, "Idle")
    return account


def test_the_overview_leads_from_days_of_its_chart_to_their_usage(open_page, spent):
    page = open_page(locale="en-GB")
    sign_in(page, OWNER)
    plot = page.get_by_role("slider", name="Spending per day")
    plot.focus()
    page.keyboard.press("Shift+ArrowLeft")
    picture(page, "overview-read")
    assert page.locator(".readout p").all_inner_texts()[0] == "Spending\n$0.024691356"
    assert (fits(page), violations(page)) == (True, [])
    page.keyboard.press("Enter")
    today = timezone.now().date()
    page.wait_for_url(f"**/usage/?range=own&from={today - timedelta(days=1)}&to={today}")


@pytest.mark.parametrize(
    "options", [{"java_script_enabled": False}, {"color_scheme": "dark"}, PHONE], ids=["no-scripts", "dark", "phone"]
)
def test_the_overview_and_the_keys_can_be_read_everywhere(open_page, spent, options):
    page = open_page(**options)
    sign_in(page, OWNER)
    look(page, "overview-of-spending")
    page.goto("/dashboard/keys/")
    assert page.get_by_role("img", name="Spending per day: $0.07407").count() == 2
    look(page, "keys-of-spending")


# --- The status page --------------------------------------------------------------------------------------------------


@pytest.fixture
def measured(transactional_db):
    """A model that answered nine of ten requests three days ago, when there was an incident, and all on other days."""
    for cache in (facts, status, public_page):
        cache.forget()
    factories.make_model("acme/large", name="Acme Large", maker="Acme")
    midnight = timezone.now().replace(hour=0, minute=0, second=0, microsecond=0)
    for ago in range(60):
        counts = {"answered": 90, "failed": 10} if ago == 3 else {"answered": 100, "failed": 0}
        row = {"is_day": True, "kind": "model", "subject": "acme/large", "since": midnight - timedelta(days=ago)}
        UptimeSums.objects.create(**row, **counts)
    times = {"began_at": midnight - timedelta(days=3, hours=-2), "ended_at": midnight - timedelta(days=3, hours=-5)}
    Incident.objects.create(title="Acme answers slowly", impact="minor", **times)
    return midnight.date() - timedelta(days=3)


def test_a_day_of_a_model_is_said_to_who_uses_the_keyboard(open_page, measured):
    page = open_page(locale="en-GB")
    page.goto("/status")
    strip = page.get_by_role("slider", name="Acme Large")
    strip.focus()
    for _ in range(3):
        page.keyboard.press("ArrowLeft")
    day = measured.strftime("%a, %-d %b %Y").replace("Sep", "Sept")
    assert strip.get_attribute("aria-valuetext") == f"{day}; 90 % of requests answered; Incident: Acme answers slowly"
    assert "90 % of requests answered" in page.locator(".readout:not([hidden])").inner_text()
    look(page, "status-read")
    page.keyboard.press("Home")
    assert strip.get_attribute("aria-valuetext").endswith("; Too few requests to say")


def test_a_finger_reads_a_day_of_the_status_page_and_puts_its_note_away(open_page, measured):
    page = open_page(**PHONE)
    page.goto("/status")
    box = page.get_by_role("slider", name="Acme Large").bounding_box()
    page.touchscreen.tap(box["x"] + box["width"] * (90 - 3.5) / 90, box["y"] + box["height"] / 2)
    note = page.locator(".readout:not([hidden])")
    expect(note).to_contain_text("90 % of requests answered")
    look(page, "status-phone-read")
    page.get_by_role("heading", name="Past incidents").tap()
    expect(note).to_have_count(0)


def test_the_status_page_without_scripts_says_the_worst_day(open_page, measured):
    page = open_page(java_script_enabled=False)
    page.goto("/status")
    assert page.get_by_role("img", name=f"Acme Large: the worst day was {measured:%d %b %Y}").is_visible()
    look(page, "status-without-scripts")
