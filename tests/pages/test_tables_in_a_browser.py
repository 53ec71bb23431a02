"""Tables of an owner: a row is a line, amounts stand under each other, and long names are cut in their middle."""

import pytest
from django.db import transaction
from playwright.sync_api import expect

from tests import chat, factories
from tests.browser import fits, settle, sign_in
from tests.conftest import client_for
from tests.pages.dashboard_pages import use

REQUESTS, LEDGER = "/dashboard/requests/", "/dashboard/ledger/"
PAGES = [REQUESTS, LEDGER, "/dashboard/usage/", "/dashboard/keys/", "/dashboard/"]
NAME = "the-key-of-the-nightly-batch-that-reads-all-mail-again-2026"
# Where the point of each amount is, by column.
POINTS = r"""() => {
  const columns = {};
  for (const row of document.querySelectorAll("main tbody tr")) {
    for (const cell of row.cells) {
      const amount = cell.matches(".number") && cell.querySelector(".usd");
      if (!amount?.firstChild?.data) continue;
      const range = new Range(), point = amount.firstChild.data.indexOf(".");
      range.setStart(amount.firstChild, point);
      range.setEnd(amount.firstChild, point + 1);
      const table = [...document.querySelectorAll("table")].indexOf(cell.closest("table"));
      (columns[`${table}-${cell.cellIndex}`] ??= []).push(Math.round(range.getBoundingClientRect().left * 2) / 2);
    }
  }
  return Object.values(columns);
}"""
HEIGHTS = "[...document.querySelectorAll('main tbody tr')].map((row) => row.getBoundingClientRect().height).filter(Boolean)"
GREY = "[...CSS.highlights.get('below-cent')].map((each) => each.startContainer.data.slice(each.startOffset, each.endOffset))"


@pytest.fixture
def page(open_page, transactional_db, alice, echo_model):
    key, plaintext = factories.make_key(alice, NAME)
    api = client_for(plaintext)
    for number in range(3):
        assert chat.ask(api, max_tokens=5 * number + 5).status_code == 200
    with transaction.atomic():
        use(key, cost_nanos=1_234_567_890)
    page = open_page()
    sign_in(page, "alice@example.org", REQUESTS)
    page.set_viewport_size({"width": 1280, "height": 800})
    return page


@pytest.mark.parametrize("path", PAGES)
def test_a_row_is_a_line_and_decimal_points_stand_under_each_other(page, path):
    page.goto(path)
    settle(page)
    heights, columns = page.evaluate(HEIGHTS), page.evaluate(POINTS)
    assert heights
    assert max(heights) <= 38
    assert columns
    assert [len(set(column)) for column in columns] == [1] * len(columns)


@pytest.mark.parametrize("path", PAGES)
def test_nothing_scrolls_sideways(page, path):
    page.goto(path)
    for width in (320, 390, 600, 705, 800, 961, 1100, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        assert fits(page), width


def test_what_is_below_the_cent_is_grey_in_an_amount_that_stays_one_text(page):
    page.goto(LEDGER)
    amount = page.locator("td.number .usd").first
    expect(amount).to_contain_text("exactly -$1.23456789")
    shown = amount.evaluate("amount => amount.firstChild.data")
    assert (shown, page.evaluate(GREY).count("45679") > 0) == ("-$1.2345679", True)


def test_the_head_of_a_long_table_stays_in_sight(page):
    page.set_viewport_size({"width": 1280, "height": 300})
    page.locator("tbody tr").last.scroll_into_view_if_needed()
    page.mouse.wheel(0, 400)
    expect(page.get_by_role("columnheader", name="Cost")).to_be_in_viewport()


def test_a_long_name_is_cut_in_its_middle_and_whole_in_its_title_and_with_the_focus(page):
    name = page.locator("td.where .name").first
    expect(name).to_have_attribute("title", NAME)
    expect(name).to_have_text(NAME)
    end = name.locator("span").last
    assert end.text_content() == NAME[-8:]
    assert end.bounding_box()["width"] > 0
    assert name.evaluate("name => name.firstElementChild.scrollWidth > name.firstElementChild.clientWidth")
    cell = page.locator("td.where").first.bounding_box()
    assert end.bounding_box()["x"] + end.bounding_box()["width"] <= cell["x"] + cell["width"]
    height = name.evaluate("name => name.closest('tr').offsetHeight")
    name.focus()
    assert name.evaluate("name => name.closest('tr').offsetHeight") > height
