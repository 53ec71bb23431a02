"""Filters of lists: where scripts run, a change sends them; without scripts their button does. In a real Chromium."""

import pytest
from playwright.sync_api import expect

from tests import factories
from tests.browser import fits, sign_in

KEYS = "/dashboard/keys/"


@pytest.fixture
def keys(transactional_db, alice):
    for name in ("laptop", "production", "workshop"):
        factories.make_key(alice, name)
    return alice


@pytest.fixture
def page(open_page, keys):
    page = open_page()
    sign_in(page, "alice@example.org", KEYS)
    return page


def names(page):
    return page.get_by_role("link", name="laptop", exact=True).or_(page.get_by_role("link", name="workshop", exact=True))


def test_typing_a_search_shows_what_it_finds_and_keeps_the_caret(page):
    search = page.get_by_label("Search")
    search.press_sequentially("work")
    page.wait_for_url("**/keys/?search=work")
    expect(names(page)).to_have_count(1)
    expect(page.get_by_label("Search")).to_be_focused()
    page.keyboard.type("shop")
    page.wait_for_url("**/keys/?search=workshop")
    expect(page.get_by_role("status")).to_have_text("1 key")


def test_what_is_typed_while_a_search_is_sent_is_not_lost(page):
    page.get_by_label("Search").press_sequentially("work")
    page.evaluate("addEventListener('beforeunload', () => { document.activeElement.value += 'shop'; })")
    page.wait_for_url("**/keys/?search=workshop")
    expect(page.get_by_label("Search")).to_have_value("workshop")


def test_going_back_undoes_a_choice_and_a_search_is_one_step(page):
    page.get_by_label("Order").select_option("spent")
    page.wait_for_url("**/keys/?sort=spent")
    expect(page.get_by_label("Order")).to_be_focused()
    for typed in ("lap", "top"):
        page.get_by_label("Search").press_sequentially(typed)
        page.wait_for_url(f"**{typed}&sort=spent")
        expect(page.get_by_label("Search")).to_be_focused()
    page.go_back()
    page.wait_for_url("**/keys/?sort=spent")
    page.go_back()
    page.wait_for_url(f"**{KEYS}")
    expect(page.get_by_label("Order")).to_have_value("")
    expect(page.get_by_label("Search")).to_have_value("")


def test_the_button_of_filters_is_there_only_without_scripts(page, open_page):
    expect(page.get_by_role("button", name="Show")).to_have_count(0)
    without = open_page(java_script_enabled=False)
    sign_in(without, "alice@example.org", KEYS)
    without.get_by_label("Search").fill("laptop")
    without.get_by_role("button", name="Show").click()
    expect(names(without)).to_have_count(1)


def test_the_filters_of_requests_are_one_row_with_rare_ones_behind_more(page):
    page.goto("/dashboard/requests/")
    boxes = [field.bounding_box() for field in page.locator(".filters > .field :is(input, select)").all()[:5]]
    assert len({(box["y"], box["height"]) for box in boxes}) == 1
    expect(page.get_by_label("End user")).to_be_hidden()
    page.get_by_text("More filters").click()
    page.get_by_label("End user").fill("ada")
    page.wait_for_url("**/requests/?user=ada")
    expect(page.get_by_label("End user")).to_be_focused()
    for width in (320, 800, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        assert fits(page), width


def test_a_search_waits_until_a_word_is_composed(page):
    page.clock.install()
    page.goto(KEYS)
    page.get_by_label("Search").press_sequentially("w")
    composing = page.context.new_cdp_session(page)
    composing.send("Input.imeSetComposition", {"text": "or", "selectionStart": 2, "selectionEnd": 2})
    sent = []
    page.on("request", lambda request: sent.append(request.url))
    page.clock.run_for(5_000)
    expect(page.get_by_label("Search")).to_have_value("wor")
    assert sent == []
    composing.send("Input.insertText", {"text": "ork"})
    page.clock.run_for(5_000)
    page.wait_for_url("**/keys/?search=work")


def test_filters_work_where_the_browser_blocks_storage(page):
    page.add_init_script("Object.defineProperty(window, 'sessionStorage', { get() { throw new DOMException('blocked') } })")
    page.reload()
    page.get_by_label("Search").press_sequentially("work")
    page.wait_for_url("**/keys/?search=work")
    expect(names(page)).to_have_count(1)
