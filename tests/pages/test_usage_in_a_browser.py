"""The usage page in a real browser: by each grouping, in light and dark, on a phone, without scripts."""

import random
from datetime import timedelta

import pytest
from playwright.sync_api import expect

from completions.models import LabelHour, UsageHour
from gateway_project.db import pool
from tests import factories
from tests.browser import PHONE, fits, picture, sign_in, violations

USAGE = "/dashboard/usage/"
MODELS = ["openai/gpt-4o-mini", "anthropic/claude-sonnet-4-5", "google/gemini-2.5-flash", "deepseek/deepseek-chat", "demo/echo"]


@pytest.fixture
def used(transactional_db):
    """An account that used five models with two keys for sixty days."""
    account = factories.make_account("Example Ltd", cents=50_000, owner=factories.make_user("ada@example.org"))
    keys = [factories.make_key(account, name)[0] for name in ("Search", "Nightly batch")]
    hour = pool.database_time().replace(minute=0, second=0, microsecond=0)
    chance = random.Random(7)
    hours = [hour - timedelta(hours=ago) for ago in (*range(24), *range(24, 24 * 60, 23))]
    UsageHour.objects.bulk_create(
        _row(account, hour, chance, key_id=key.pk, model_id=m) for hour in hours for key in keys for m in MODELS
    )
    LabelHour.objects.bulk_create(
        _row(account, hour, chance, name=name, value=value)
        for hour in hours
        for name, value in (("", "customer-7"), ("", "customer-8"), ("team", "search"), ("team", "support"))
    )
    return account


def _row(account, hour, chance, **own):
    requests = chance.randrange(20, 90)
    model = UsageHour if "model_id" in own else LabelHour
    return model(
        account=account,
        hour=hour,
        requests=requests,
        errors=requests // 40,
        prompt_tokens=requests * chance.randrange(500, 2_000),
        completion_tokens=requests * chance.randrange(100, 500),
        cost_nanos=requests * chance.randrange(200_000, 2_000_000),
        first_tokens=requests // 2,
        first_token_ms=requests // 2 * chance.randrange(300, 900),
        **own,
    )


def choose(page, choice):
    """Choose a time, a grouping or a measure."""
    link = page.get_by_role("main").get_by_role("link", name=choice, exact=True)
    link.click()
    expect(link).to_have_attribute("aria-current", "true")
    picture(page, f"usage-{choice.lower().replace(' ', '-')}")


def test_a_member_reads_what_was_used(open_page, used):
    page = open_page()
    sign_in(page, "ada@example.org")
    page.get_by_role("link", name="Usage", exact=True).click()
    for choice in ("30 days", "Key", "Tag team", "Requests", "24 hours"):
        choose(page, choice)
        assert fits(page), choice
    assert violations(page) == []
    page.get_by_label("From").fill("2026-01-01")
    page.wait_for_url("**from=2026-01-01**")


def test_many_models_fit_a_phone(open_page, used):
    page = open_page(**PHONE)
    sign_in(page, "ada@example.org", f"{USAGE}?range=30d")
    picture(page, "usage-phone")
    assert (fits(page), violations(page)) == (True, [])


# --- The chart --------------------------------------------------------------------------------------------------------


def chart(page, query="?range=30d"):
    """Open the page and return its chart."""
    sign_in(page, "ada@example.org", USAGE + query)
    return page.get_by_role("slider")


def point(page, plot, bar, bars=30):
    box = plot.bounding_box()
    page.mouse.move(box["x"] + (bar + 0.5) / bars * box["width"], box["y"] + box["height"] / 2)


def row(page, bar, bars=30):
    """Return the texts of the chart's table for a bar; the newest is its first row."""
    return page.locator(".graph tbody tr").nth(bars - 1 - bar).locator("td").all_text_contents()


def chosen(page):
    """Return the first and the last day of a page that a chart has opened."""
    page.wait_for_url("**range=own**")
    return page.get_by_label("From").input_value(), page.get_by_label("To").input_value()


def day(page, bar):
    return page.locator(".graph tbody tr").nth(29 - bar).get_attribute("data-at")[:10]


def test_a_bar_says_its_day_its_parts_its_total_and_the_day_before_in_the_words_of_the_table(open_page, used):
    page = open_page(locale="en-GB")
    plot = chart(page)
    assert page.locator(".readout").is_hidden()
    point(page, plot, 20)
    total, *parts, before = row(page, 20)
    said = page.locator(".readout p").all_inner_texts()
    assert [line.split("\n")[-1] for line in said] == [*parts, total, before]
    assert [line.split("\n")[0] for line in said[:6]] == [*page.locator(".legend tbody th").all_inner_texts(), "All"]
    assert day(page, 20).endswith(page.locator(".readout strong").inner_text().split()[1].zfill(2))
    assert total.startswith("$")
    picture(page, "usage-hover")
    page.mouse.move(0, 0)
    expect(page.locator(".readout")).to_be_hidden()


def test_a_drag_opens_the_days_that_it_covers(open_page, used):
    page = open_page()
    plot = chart(page, "?range=30d&by=key&show=requests")
    days = day(page, 5), day(page, 12)
    point(page, plot, 12)
    page.mouse.down()
    point(page, plot, 5)
    page.mouse.up()
    assert chosen(page) == days
    assert page.get_by_role("heading", name="By key").is_visible()
    assert page.get_by_role("slider").get_attribute("aria-valuemax") == "8"
    assert page.get_by_text("Requests per day").count() > 0


def test_a_click_without_a_drag_opens_nothing(open_page, used):
    page = open_page()
    plot = chart(page)
    point(page, plot, 12)
    page.mouse.down()
    page.mouse.up()
    point(page, plot, 20)
    assert page.url.endswith("range=30d")


def test_the_arrow_keys_read_the_chart_and_open_what_they_select(open_page, used):
    page = open_page(locale="en-GB")
    plot = chart(page)
    page.get_by_role("link", name="Tag team", exact=True).focus()
    page.keyboard.press("Tab")
    expect(plot).to_be_focused()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowRight")
    assert f"All {row(page, 1)[0]}; " in plot.get_attribute("aria-valuetext")
    assert page.locator(".readout").is_visible()
    page.keyboard.press("Escape")
    assert page.locator(".readout").is_hidden()
    days = day(page, 2), day(page, 4)
    for keys in ("ArrowRight", "Shift+ArrowRight", "Shift+ArrowRight"):
        page.keyboard.press(keys)
    assert violations(page) == []
    page.keyboard.press("Enter")
    assert chosen(page) == days


def test_months_are_opened_from_the_first_day_shown_to_the_last(open_page, used):
    page, today = open_page(), pool.database_time().date()
    first = today - timedelta(days=250)
    chart(page, f"?range=own&from={first}&to={today}").focus()
    for keys in ("Home", "Shift+ArrowRight", "Enter"):
        page.keyboard.press(keys)
    third_month = (first.replace(day=1) + timedelta(days=63)).replace(day=1)
    page.wait_for_url(f"**to={third_month - timedelta(days=1)}**")
    assert page.get_by_label("From").input_value() == str(first)


def test_hours_are_read_and_not_opened(open_page, used):
    page = open_page()
    plot = chart(page, "?range=24h")
    plot.focus()
    page.keyboard.press("Home")
    page.keyboard.press("Enter")
    assert row(page, 0, 24)[0] in plot.get_attribute("aria-valuetext")
    assert page.url.endswith("range=24h")
    assert page.get_by_text("zoom in").count() == 0


def test_the_chart_changes_its_colours_with_the_scheme(open_page, used):
    page = open_page()
    chart(page)
    colours = "[...document.querySelectorAll('.graph rect[class^=part]')].map((bar) => getComputedStyle(bar).fill)"
    light = page.evaluate(colours)
    page.emulate_media(color_scheme="dark")
    dark = page.evaluate(colours)
    assert len(set(light)) == len(set(dark)) == len(MODELS)
    assert not set(light) & set(dark)


def test_without_scripts_the_table_of_the_chart_is_open(open_page, used):
    page = open_page(java_script_enabled=False)
    sign_in(page, "ada@example.org", f"{USAGE}?range=30d")
    assert page.locator(".graph tbody tr").first.is_visible()
    assert not page.get_by_text("View as table").is_visible()
    assert not page.get_by_text("zoom in").is_visible()
    picture(page, "usage-without-scripts")
    assert fits(page)


@pytest.mark.parametrize("days", [30, 92])
def test_the_page_weighs_at_most_250_kilobytes_with_its_fonts(open_page, used, days):
    page, today = open_page(), pool.database_time().date()
    replies = []
    page.on("response", lambda reply: replies.append(reply))
    chart(page, f"?range=own&from={today - timedelta(days=days - 1)}&to={today}")
    page.wait_for_load_state("networkidle")
    sizes = {reply.url: len(reply.body()) for reply in replies}
    assert sum(sizes.values()) <= 250_000, sizes


@pytest.mark.long
@pytest.mark.parametrize("options", [{}, PHONE], ids=["desk", "phone"])
def test_every_choice_can_be_read_in_the_dark(open_page, used, options):
    page = open_page(color_scheme="dark", **options)
    sign_in(page, "ada@example.org", USAGE)
    for choice in ("30 days", "Key", "Tag team", "User", "Requests", "24 hours", "Model", "Spending"):
        choose(page, choice)
        assert (fits(page), violations(page)) == (True, []), choice
