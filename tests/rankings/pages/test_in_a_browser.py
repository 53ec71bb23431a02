"""The ranking pages, as readers use them in Chromium."""

import re
from datetime import timedelta

import pytest
from playwright.sync_api import expect

from completions.models import Category, Provider, Route
from gateway_project.db import pool
from rankings.models import DailyRank, Source
from rankings.pages import views as pages
from rankings.publishing import publication
from tests import factories
from tests.browser import PHONE, fits, picture, violations
from tests.rankings.entries import UPDATED, forget, list_model, publish
from tests.rankings.snapshots import make_alias, make_snapshot

MAKERS = ["Acme", "Étoile Lab", "Zed"]


@pytest.fixture(autouse=True)
def empty_caches(transactional_db):
    forget()
    pages.forget()


@pytest.fixture
def listed(empty_caches):
    """Thirty models, with a very long name and figures over the whole range."""
    factories.make_model(
        "waits/for-a-key", provider=Provider.objects.create(slug="later", kind="openai", api_key_env="NO_SUCH_KEY")
    )
    for number in range(1, 31):
        list_model(
            f"maker-{number % 3}/model-{number}",
            rank=number,
            change=(number % 5) - 2,
            overall=92.4 - 2 * number,
            quality=None if number == 7 else 96.1 - 1.7 * number,
            speed=None if number % 4 == 0 else 30 + (number * 37) % 60,
            cost=20 + (number * 13) % 80,
            elo=1500 - number * 7 if number % 2 else None,
            confidence=0.9 - number / 50,
            model={
                "name": "W" * 60 if number == 3 else f"Model {number} Turbo",
                "maker": MAKERS[number % 3],
                "input": f"{0.02 * 1.3**number:.3f}" if number != 30 else "0",
                "commercial_use": number % 2 == 1,
                "output": f"{0.1 * 1.3**number:.3f}" if number != 30 else "0",
            },
        )
    list_model("maker-1/model-1", rank=1, board="CODING", board_rank=2, overall=80.0)
    list_model("maker-2/model-2", rank=2, board="CODING", board_rank=1, overall=81.0)
    Route.objects.filter(model="maker-2/model-5").update(provider="later")
    publish()


@pytest.fixture
def explained(empty_caches, settings):
    """A model as the formula scores it, with a history of a month."""
    settings.RANKINGS_AA_API_KEY = "a-key"
    for name in ("best", "other"):
        factories.make_model(f"acme/{name}", name=f"Acme {name}", maker="Acme")
        make_alias(Source.LMSYS_ARENA, name, f"acme/{name}")
    interval = {"lower": 1495, "upper": 1503.5}
    make_snapshot(Source.LMSYS_ARENA, {Category.GENERAL: {"best": (1500, interval), "other": 7.5}}, age_hours=216, crowd=99)
    publication.publish(Source.LMSYS_ARENA)
    today = pool.database_time().date()
    DailyRank.objects.bulk_create(
        DailyRank(
            source=Source.INTERNAL,
            board=Category.GENERAL,
            model_id="acme/best",
            day=today - timedelta(days=ago),
            rank=1 + ago % 4,
            overall=70,
        )
        for ago in range(1, 31)
    )
    publish()


def first_models(page, count):
    return [cell.split("\n")[0] for cell in page.locator("tbody th.model").all_inner_texts()[:count]]


def test_reader_filters_sorts_and_opens_a_model(listed, open_page):
    page = open_page(viewport={"width": 1400, "height": 900})
    page.goto("/rankings")
    picture(page, "rankings")
    assert first_models(page, 2) == ["Model 1 Turbo", "Model 2 Turbo"]
    page.get_by_label("Search").fill("étoile")
    page.get_by_label("Commercial use only").check()
    page.get_by_role("button", name="Show").click()
    expect(page).to_have_url(re.compile(r"/rankings\?search=%C3%A9toile&commercialOnly=true$"))
    expect(page.get_by_role("rowheader")).to_have_count(5)
    page.get_by_role("columnheader", name="Model").get_by_role("link").click()
    expect(page.get_by_role("columnheader", name="Model")).to_have_attribute("aria-sort", "ascending")
    assert first_models(page, 2) == ["Model 1 Turbo", "Model 13 Turbo"]
    page.get_by_role("columnheader", name="Model").get_by_role("link").click()
    expect(page.get_by_role("columnheader", name="Model")).to_have_attribute("aria-sort", "descending")
    assert first_models(page, 1) == ["Model 7 Turbo"]
    expect(page.get_by_label("Commercial use only")).to_be_checked()
    page.get_by_role("rowheader").get_by_role("link", name="Model 7 Turbo").click()
    expect(page.get_by_role("heading", name="Model 7 Turbo")).to_be_visible()
    expect(page).to_have_url(re.compile(r"/rankings/maker-1/model-7$"))


def test_reader_without_scripts_finds_the_best_model_for_coding(listed, open_page):
    page = open_page(java_script_enabled=False)
    page.goto("/rankings")
    page.get_by_label("Leaderboard").select_option("Coding")
    page.get_by_role("button", name="Show").click()
    expect(page).to_have_url(re.compile(r"/rankings\?board=CODING$"))
    assert first_models(page, 2) == ["Model 2 Turbo", "Model 1 Turbo"]
    expect(page.locator("tbody time").first).to_have_text("20 Nov 2026, 12:00 UTC")
    expect(page.get_by_role("button", name="Copy")).to_have_count(0)
    page.get_by_label("Sort by").select_option("Rank")
    page.get_by_label("Order").select_option("Descending")
    page.get_by_role("button", name="Show").click()
    assert first_models(page, 2) == ["Model 1 Turbo", "Model 2 Turbo"]


def test_reader_leaves_out_models_that_cannot_be_called(listed, open_page):
    page = open_page()
    page.goto("/rankings")
    expect(page.get_by_role("rowheader", name="Model 5 Turbo")).to_contain_text("waits for a provider's key")
    page.get_by_label("Available now only").check()
    page.get_by_role("button", name="Show").click()
    expect(page).to_have_url(re.compile(r"/rankings\?availableOnly=true$"))
    expect(page.get_by_role("rowheader")).to_have_count(29)
    expect(page.get_by_role("rowheader", name="Model 5 Turbo")).to_have_count(0)


def test_pager_links_work_in_both_directions(listed, open_page):
    page = open_page()
    page.goto("/rankings?limit=25")
    page.get_by_role("link", name="Next").click()
    expect(page.get_by_role("rowheader")).to_have_count(5)
    page.get_by_role("link", name="Previous").click()
    expect(page.get_by_role("rowheader")).to_have_count(25)


def test_copy_button_copies_the_id(listed, open_page):
    page = open_page(permissions=["clipboard-read", "clipboard-write"])
    page.goto("/rankings")
    page.get_by_role("button", name="Copy maker-2/model-2", exact=True).click()
    expect(page.get_by_role("button", name="Copy maker-2/model-2", exact=True)).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == "maker-2/model-2"


def test_point_of_a_chart_links_to_its_model(listed, open_page):
    page = open_page(viewport={"width": 1400, "height": 900})
    page.goto("/rankings")
    page.locator("svg a[href='/rankings/maker-2/model-2'] circle").first.click()
    expect(page.get_by_role("heading", name="Model 2 Turbo")).to_be_visible()


def test_keyboard_reaches_every_figure_of_a_chart(listed, open_page):
    page = open_page()
    page.goto("/rankings")
    table = page.locator("#price-table")
    table.locator("summary").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.getAttribute('href')") == "/rankings/maker-1/model-1"
    expect(table.get_by_role("row")).to_have_count(30)  # the heading, and all models but the one without a quality


def test_keyboard_skips_to_the_content(listed, open_page):
    page = open_page()
    page.goto("/rankings")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


def test_times_are_in_the_readers_zone_with_utc_as_title(listed, open_page):
    page = open_page(timezone_id="Asia/Tokyo", locale="en-GB")
    page.goto("/rankings")
    shown = page.locator("tbody time").first
    expect(shown).to_have_attribute("title", f"{UPDATED:%Y-%m-%d %H:%M:%S} UTC")
    expect(shown).to_have_text("20 Nov 2026, 21:00")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_fit_a_phone(listed, open_page, scheme):
    page = open_page(color_scheme=scheme, **PHONE)
    for path, name in (("/rankings", "list"), ("/rankings?board=CODING", "board"), ("/rankings/maker-0/model-3", "model")):
        page.goto(path)
        picture(page, f"rankings-phone-{scheme}-{name}")
        assert fits(page), path


def test_charts_are_drawn_for_a_phone_and_stand_above_the_list(listed, open_page):
    page = open_page(**PHONE)
    page.goto("/rankings")
    chart = page.locator(".plot svg:visible").first
    assert page.locator(".plot svg:visible").count() == 2
    width, text_pixels = chart.evaluate("svg => [svg.viewBox.baseVal.width, svg.getScreenCTM().a * 12]")
    assert (width, text_pixels >= 10) == (340, True)
    assert chart.bounding_box()["y"] < page.locator(".ranking").bounding_box()["y"]
    assert fits(page)
    assert [v["id"] for v in violations(page)] == []


def test_heading_explains_itself_on_a_tap_and_on_focus(listed, open_page):
    page = open_page(java_script_enabled=False, **PHONE)
    page.goto("/rankings")
    words = page.get_by_text("How soon a reply begins and how fast it goes on.")
    expect(words).to_be_hidden()
    page.get_by_role("button", name="What is speed?").tap()
    expect(words).to_be_visible()
    assert fits(page)
    page.get_by_role("button", name="What is quality?").focus()
    expect(page.get_by_text("How much better the answers are")).to_be_visible()


def test_headings_sort_the_list_on_a_phone(listed, open_page):
    page = open_page(**PHONE)
    page.goto("/rankings")
    page.get_by_role("columnheader", name="Change").get_by_role("link").click()
    assert first_models(page, 1) == ["Model 24 Turbo"]
    expect(page.get_by_role("cell", name="up 2").first).to_be_visible()


def test_model_page_explains_the_score_and_shows_its_history(explained, open_page):
    page = open_page(color_scheme="dark", viewport={"width": 1200, "height": 900})
    page.goto("/rankings/acme/best")
    picture(page, "rankings-model")
    expect(page.get_by_text("rank 1 of 101, at 1,500, as best")).to_be_visible()
    expect(page.locator("polyline:visible")).to_have_count(1)
    page.get_by_text("As a table").click()
    expect(page.get_by_role("table", name="Rank per day").get_by_role("row")).to_have_count(32)
    page.get_by_role("link", name="Coding").click()
    expect(page.get_by_role("heading", name="Why this score: Coding, by This gateway")).to_be_visible()
