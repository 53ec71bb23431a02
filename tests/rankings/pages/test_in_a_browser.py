"""The ranking pages, as readers use them in Chromium."""

import re
from datetime import timedelta

import pytest
from playwright.sync_api import expect

from completions.models import Category, Provider, Route
from gateway_project.db import pool
from rankings.models import DailyRank, Source
from rankings.publishing import publication
from tests import factories
from tests.browser import PHONE, fits, picture, violations
from tests.rankings.entries import forget, forget_pages, list_model, publish
from tests.rankings.snapshots import make_alias, make_snapshot

MAKERS = ["Acme", "Étoile Lab", "Zed"]


@pytest.fixture(autouse=True)
def empty_caches(transactional_db):
    forget()
    forget_pages()


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


@pytest.mark.usefixtures("listed")
def test_reader_with_a_phone_sorts_filters_and_opens_a_model(open_page):
    page = open_page(**PHONE)
    page.goto("/rankings")
    picture(page, "rankings-phone-list")
    plots = page.locator(".plot-area > svg:visible")
    expect(plots).to_have_count(1)
    assert plots.first.evaluate("svg => parseFloat(getComputedStyle(svg.querySelector('text')).fontSize)") == 12
    assert plots.first.bounding_box()["y"] < page.locator(".figures-table").bounding_box()["y"]
    assert fits(page)
    assert violations(page) == []

    page.get_by_role("columnheader", name="Price").get_by_role("link").click()
    expect(page.get_by_role("rowheader").nth(1)).to_contain_text("Model 1 Turbo")  # the free one comes before it
    expect(page.get_by_role("cell", name="up 2").first).to_be_visible()
    page.get_by_label("Leaderboard").select_option("Coding")
    expect(page.get_by_role("heading", name="Coding, sorted by price")).to_be_visible()
    page.get_by_text("More filters").click()
    page.get_by_label("Commercial use only").check()
    expect(page).to_have_url(re.compile(r"/rankings\?.*board=CODING.*commercialOnly=true"))
    expect(page.get_by_role("rowheader")).to_have_count(1)
    assert fits(page)
    page.goto("/rankings?search=model-3")
    page.get_by_role("link", name="W" * 60, exact=True).click()
    expect(page.get_by_role("heading", name="W" * 60)).to_be_visible()
    picture(page, "rankings-phone-model")
    assert fits(page)


def test_copy_button_copies_the_id(listed, open_page):
    page = open_page(permissions=["clipboard-read", "clipboard-write"])
    page.goto("/rankings")
    page.locator("summary", has_text="Details of Model 2 Turbo").click()
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
    page.locator("svg a.point[tabindex='0'], svg a.point:not([tabindex])").focus()  # the one stop
    names = set()
    for _ in range(29):
        expect(page.locator("svg a:focus .label")).to_be_visible()
        expect(page.locator("svg a:focus .words")).to_contain_text("quality")
        names.add(page.locator("svg a:focus").get_attribute("aria-label"))
        page.keyboard.press("ArrowRight")
    assert len(names) == 29  # all models but the one without a quality
    table = page.locator("#plot-table")
    table.locator("summary").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(table.get_by_role("link").first).to_be_focused()
    expect(table.get_by_role("row")).to_have_count(30)  # the heading, and all models but the one without a quality


def test_details_and_meanings_open_without_a_script(listed, open_page):
    page = open_page(java_script_enabled=False, **PHONE)
    page.goto("/rankings")
    expect(page.get_by_role("button", name="Copy")).to_have_count(0)  # it needs a script
    words = page.get_by_text("How soon a reply starts and how fast it streams.")
    expect(words).to_be_hidden()
    page.get_by_text("What the figures mean").tap()
    expect(words).to_be_visible()
    summary = page.locator("summary", has_text="Details of Model 2 Turbo")
    summary.tap()
    expect(page.get_by_text("maker-2/model-2", exact=True)).to_be_visible()
    target = summary.bounding_box()
    assert min(target["width"], target["height"]) >= 24
    picture(page, "rankings-phone-details")
    assert fits(page)


def test_model_page_explains_the_score_and_shows_its_history(explained, open_page):
    page = open_page(color_scheme="dark", viewport={"width": 1200, "height": 900})
    page.goto("/rankings/acme/best")
    picture(page, "rankings-model")
    expect(page.get_by_text("rank 1 of 101, at 1,500, as best")).to_be_visible()
    expect(page.locator("polyline:visible")).to_have_count(1)
    page.get_by_text("View as table").click()
    expect(page.get_by_role("table", name="Rank per day").get_by_role("row")).to_have_count(32)
    page.get_by_role("link", name="Coding").click()
    expect(page.get_by_role("heading", name="Why this score: Coding, This gateway")).to_be_visible()
