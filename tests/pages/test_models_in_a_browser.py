"""The list of models and a model's page, as a buyer uses them in Chromium."""

import re

import pytest
from playwright.sync_api import expect

from completions.public import facts
from gateway_project.web import public_page
from tests import factories
from tests.browser import PHONE, fits, look, settle

NAME = "A model with a name that no column of any table can show in one line of the page"
HEIGHTS = "[...document.querySelectorAll('tbody tr')].map((row) => row.getBoundingClientRect().height)"


@pytest.fixture(autouse=True)
def _models(transactional_db):
    tiers = {"input_above_10000": "10", "output_above_10000": "50", "flex_input": "2", "flex_output": "10"}
    large = factories.make_model("acme/large", name="Large", maker="Acme", image_support=True, reasoning=True)
    large.prices.all().delete()
    factories.make_price(large, input="5", output="25", cached_input="0.0375", **tiers)
    factories.make_model("acme/small", name="Small", maker="Acme", input="4", output="20")
    factories.make_model(f"acme/{'long-' * 12}name", name=NAME, maker="Acme", input="1", output="5", function_calling=True)
    for number in range(30):
        factories.make_model(f"zed/{number}", name=f"Zed {number}", maker="Zed", input="0.1", output="0.4")
    facts.forget()
    public_page.forget()
    yield
    facts.forget()
    public_page.forget()


def test_a_row_of_the_list_is_a_line_and_its_heads_stay_in_sight(open_page):
    page = open_page(viewport={"width": 1280, "height": 800})
    page.goto("/models")
    settle(page)
    assert max(page.evaluate(HEIGHTS)) <= 38
    page.mouse.wheel(0, 900)
    page.wait_for_function("scrollY > 300")
    assert 0 <= page.get_by_role("columnheader", name="Input").bounding_box()["y"] < 20
    page.get_by_role("link", name="Input").click()
    expect(page).to_have_url(re.compile(r"sort=input$"))
    expect(page.get_by_role("columnheader", name="Input")).to_have_attribute("aria-sort", "ascending")
    expect(page.get_by_role("rowheader").first).to_have_text("Zed 0")


@pytest.mark.parametrize("width", [320, 700, 900, 1100])
def test_no_width_of_the_window_makes_the_pages_move_sideways(open_page, width):
    page = open_page(viewport={"width": width, "height": 800})
    for path in ("/models", "/models/acme/large"):
        page.goto(path)
        assert fits(page), path


def test_the_list_is_filtered_while_it_is_typed_in(open_page):
    page = open_page()
    page.goto("/models")
    page.get_by_label("Calls tools").check()
    expect(page.get_by_role("rowheader")).to_have_count(1)
    expect(page.get_by_role("button", name="Show")).to_be_hidden()  # the script has begun
    page.get_by_label("Calls tools").uncheck()
    expect(page.get_by_role("rowheader")).to_have_count(33)
    expect(page.get_by_role("button", name="Show")).to_be_hidden()
    page.get_by_label("Search").press_sequentially("small")
    expect(page.get_by_role("rowheader")).to_have_count(1)


def test_a_change_of_a_request_changes_what_it_costs(open_page):
    page = open_page()
    page.goto("/models/acme/large")
    cost = page.get_by_role("row", name="One request").get_by_role("cell").first
    expect(cost).to_have_text("$0.0175")
    page.get_by_label("Prompt tokens").fill("20000")
    expect(cost).to_have_text("$0.2250")
    page.get_by_label("Service tier").select_option("Flex tier")
    expect(cost).to_have_text("$0.0450")
    expect(page.get_by_role("status")).to_contain_text("500 output tokens, flex tier at $10.00 per million = $0.045")
    page.get_by_label("And with").focus()
    page.get_by_label("And with").select_option("Zed 7")
    expect(page.get_by_role("columnheader", name="Zed 7")).to_be_visible()
    expect(page.get_by_label("And with")).to_be_focused()
    expect(page).to_have_url(re.compile(r"prompt_tokens=20000&.*tier=flex&.*second=zed%2F7$"))
    page.get_by_label("Of these, cached").fill("20001")
    expect(page.get_by_text("The prompt has 20,000 tokens. Enter no more.")).to_be_visible()
    look(page, "model-costs")


def test_a_buyer_with_a_phone_and_without_scripts_computes_a_cost(open_page):
    page = open_page(java_script_enabled=False, **PHONE)
    page.goto("/models")
    look(page, "models-phone")
    page.get_by_role("link", name="Large").tap()
    page.get_by_label("Reply tokens").fill("1000")
    page.get_by_role("button", name="Compute").tap()
    expect(page.get_by_role("row", name="One request").get_by_role("cell").first).to_have_text("$0.030")
    page.get_by_label("Of these, cached").fill("5000")
    page.get_by_role("button", name="Compute").tap()
    expect(page.get_by_text("Correct the marked fields.")).to_be_visible()
    expect(page.get_by_label("Of these, cached")).to_have_attribute("aria-invalid", "true")
    look(page, "model-phone")
