"""The playground, as owners use it in Chromium."""

import re
import threading
from decimal import Decimal

import pytest
from playwright.sync_api import expect

from billing.models import LedgerEntry
from gateway_project.text import dollars
from keys.models import ApiKey
from tests import factories
from tests.browser import PHONE, fits, picture, sign_in, violations
from tests.upstream import DONE, FINISH, ROLE, running, stream, usage, words

PATH = "/dashboard/playground/"


@pytest.fixture
def gate():
    """Lets the slow model go on."""
    return threading.Event()


@pytest.fixture
def _models(transactional_db, gate):
    factories.make_model("demo/echo", name="Echo")
    with running() as upstream:
        slow = factories.make_provider("slow", kind="openai", base_url=upstream.url)
        factories.make_model("acme/slow", name="Slow", provider=slow, input="3.00", output="15.00")
        upstream.will(stream(ROLE, words("Hello "), gate, words("you"), FINISH, usage(), DONE))
        yield


def charged():
    return LedgerEntry.objects.filter(type="USAGE_DEBIT").order_by("pk")


def nanos_shown(page, cost):
    return Decimal(page.locator(cost).text_content().removeprefix("$")) * 10**9


@pytest.mark.usefixtures("_models")
def test_owner_streams_a_reply_sees_its_cost_and_stops_another(open_page, alice, gate):
    page = open_page(viewport={"width": 1280, "height": 900})
    sign_in(page, "alice@example.org", PATH)
    page.get_by_label("Model", exact=True).fill("demo/echo")
    expect(page.locator("#price")).to_have_text("$0.50 in, $1.50 out per 1M tokens")
    page.get_by_role("link", name="Write a haiku").click()
    expect(page.get_by_label("Prompt", exact=True)).to_have_value("Write a haiku about a Monday morning.")
    page.get_by_label("Prompt", exact=True).fill("Say <b>this</b> & that")
    expect(page.locator("#curl")).to_contain_text('"content": "Say <b>this</b> & that"')
    page.get_by_label("Prompt", exact=True).press("Control+Enter")
    expect(page.locator("#state")).to_have_text("Done.")
    expect(page.get_by_label("Prompt", exact=True)).to_have_value("")
    assert page.locator("#reply").text_content() == "Say <b>this</b> & that"
    expect(page.locator("#cost-kind")).to_have_text("charged")
    expect(page.locator("#first-token")).to_have_text(re.compile(r"^\d+\.\d\d s$"))
    assert nanos_shown(page, "#cost") == nanos_shown(page, "#whole-cost") == -charged().get().amount_nanos
    picture(page, "playground-light")
    assert violations(page) == []

    page.get_by_label("Model", exact=True).fill("acme/slow")
    page.get_by_label("Prompt", exact=True).fill("And now?")
    page.get_by_text("Show code").click()
    expect(page.locator("#curl")).to_have_text(re.compile(r"(Say <b>this</b> & that.*){2}And now\?", re.DOTALL))
    page.get_by_role("button", name="Send").click()
    expect(page.locator("#reply")).to_have_text("Hello ")
    assert page.locator(".turn:visible").count() == 4
    earlier = dollars.format_usd(-charged().first().amount_nanos)
    expect(page.locator(".spent:visible").first).to_have_text(re.compile(rf"^{re.escape(earlier)}, \d+ tokens in, \d+ out$"))
    expect(page.locator("#cost-kind")).to_have_text("so far")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#state")).to_have_text(
        "Stopped. The provider finishes the reply, and all of it is charged. The charge is being settled."
    )
    expect(page.locator("#cost-kind")).to_have_text("being settled")
    expect(page.locator("#cost")).to_have_text(re.compile(r"^at most \$\d"))
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    picture(page, "playground-stopped")
    gate.set()
    expect(page.locator("#state")).to_have_text("Stopped. What was generated is charged.")
    expect(page.locator("#cost-kind")).to_have_text("charged")
    expect(page.locator("#cost")).to_have_text(re.compile(r"^\$0\.0000570*$"))
    assert nanos_shown(page, "#whole-cost") == -sum(entry.amount_nanos for entry in charged())
    expect(page.locator("#tokens")).to_have_text("9 in, 2 out")
    assert [entry.amount_nanos for entry in charged()][1:] == [-57_000]
    page.get_by_role("link", name="View cost details").click()
    expect(page).to_have_url(re.compile(rf"/dashboard/requests/{charged().last().reference}/$"))
    assert ApiKey.objects.get().name == "Playground"


@pytest.mark.usefixtures("_models")
def test_two_models_reply_side_by_side_and_each_keeps_its_conversation(open_page, alice, gate):
    gate.set()
    page = open_page(viewport={"width": 1280, "height": 900})
    sign_in(page, "alice@example.org", PATH)
    page.get_by_label("Model", exact=True).fill("demo/echo")
    page.get_by_label("Compare with").fill("acme/slow")
    for prompt in ("one", "two"):
        if prompt == "two":  # the scripted provider answers once
            page.get_by_label("Compare with").fill("demo/echo")
        page.get_by_label("Prompt", exact=True).fill(prompt)
        page.get_by_role("button", name="Send").click()
        expect(page.locator("#state")).to_have_text("Done.")
        expect(page.locator("#state-2")).to_have_text("Done.")
        expect(page.get_by_role("button", name="Stop")).to_be_hidden()
        expect(page.locator("#reply")).to_have_text(prompt)
        expect(page.locator("#reply-2")).to_have_text("Hello you" if prompt == "one" else prompt)
    assert page.locator("#turns-2 .turn").all_text_contents() == ["You: one", "Model: Hello you", "You: two", "two"]
    nanos = [-entry.amount_nanos for entry in charged()]
    assert nanos_shown(page, "#whole-cost") == sum(nanos)
    assert {nanos_shown(page, cost) for cost in ("#cost", "#cost-2")} <= set(nanos)
    assert len({len(page.locator(cost).text_content()) for cost in ("#cost", "#cost-2", "#whole-cost")}) == 1
    picture(page, "playground-two")
    assert violations(page) == []
    assert charged().count() == 4


@pytest.mark.usefixtures("_models")
def test_owner_with_a_phone_and_without_scripts_gets_the_whole_reply(open_page, alice):
    page = open_page(java_script_enabled=False, color_scheme="dark", **PHONE)
    sign_in(page, "alice@example.org", PATH)
    page.get_by_label("Model", exact=True).fill("demo/echo")
    page.get_by_label("Prompt", exact=True).fill("Good morning")
    page.get_by_role("button", name="Send").click()
    expect(page.locator("#reply")).to_have_text("Good morning")
    expect(page.get_by_role("button", name="Stop")).to_have_count(0)
    picture(page, "playground-phone-dark")
    assert fits(page)
    assert charged().count() == 1
