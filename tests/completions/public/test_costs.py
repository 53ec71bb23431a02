"""The cost of a reader's requests on a model's page, and the models beside it."""

import html
import re
from urllib.parse import urlencode

import pytest
from django.test import Client

from completions.models import Completion, LanguageModel
from completions.public import facts
from gateway_project.web import public_page
from tests import chat, factories
from tests.conftest import client_for

BAND = {"input_above_10000": "10", "output_above_10000": "30", "flex_input": "2", "flex_output": "20"}


@pytest.fixture(autouse=True)
def _models(db):
    factories.make_model("acme/large", name="Large", maker="Acme", input="5", output="25", cached_input="0.5")
    factories.make_model("acme/small", name="Small", maker="Acme", input="4", output="20", context_window=8_000)
    factories.make_model("zed/other", name="Other", maker="Zed", input="1", output="5")
    factories.make_model("zed/cheap", name="Cheap", maker="Zed", input="0.1", output="0.4")
    factories.make_model("acme/embed", name="Embed", kind="embedding", input="0.02", output="0", max_output_tokens=1)
    forget()
    yield
    forget()


def forget():
    facts.forget()
    public_page.forget()


def shown(model_id="acme/large", **asked):
    reply = Client().get(f"/models/{model_id}?{urlencode(asked)}" if asked else f"/models/{model_id}")
    assert reply.status_code == 200
    return html.unescape(reply.content.decode())


def row(page, title):
    """Return the cells of a row of the comparison, without their markup."""
    [cells] = re.findall(rf'<th role="rowheader" scope="row">{title}.*?</th>(.*?)</tr>', page, re.DOTALL)
    return [" ".join(re.sub(r"<[^>]+>", "", cell).split()) for cell in re.findall(r"<td.*?</td>", cells, re.DOTALL)]


def sum_of(page):
    text = " ".join(re.sub(r"<[^>]+>", "", page).split())
    return re.search(r"One request: (.*?), charged to the nanodollar", text)[1]


def test_a_typical_request_is_computed_beside_the_two_models_that_are_nearest_in_price():
    page = shown()
    assert re.findall(r'<th role="columnheader" scope="col" class="number">\s*<a href="/models/([^"]+)"', page) == [
        "acme/small",
        "zed/other",
    ]
    assert row(page, "One request") == ["$0.0175", "$0.0140", "$0.0035"]
    assert row(page, "A day") == ["$17.50", "$14.00", "$3.50"]
    assert row(page, "30 days") == ["$525.00", "$420.00", "$105.00"]
    assert sum_of(page) == "1,000 input tokens at $5.00 per million + 500 output tokens at $25.00 per million = $0.0175"


def test_the_cost_is_what_a_request_with_as_many_tokens_is_charged(alice):
    assert chat.ask(client_for(factories.make_key(alice)[1]), model="zed/cheap", max_tokens=7).status_code == 200
    charged = Completion.objects.get()
    page = shown("zed/cheap", prompt_tokens=charged.prompt_tokens, reply_tokens=charged.completion_tokens)
    exact = f"${charged.cost_nanos / 10**9:.9f}".rstrip("0")
    assert sum_of(page).endswith(f"= {exact}")


def test_long_prompts_cached_tokens_and_tiers_are_computed_at_their_rates():
    model = LanguageModel.objects.get(pk="acme/large")
    model.prices.all().delete()
    factories.make_price(model, input="5", output="25", cached_input="0.5", **BAND)
    forget()
    page = shown(prompt_tokens=10_001, cached_tokens=1, reply_tokens=100)
    assert row(page, "Input") == ["$10.00", "$4.00", "$1.00"]
    assert "10,000 input tokens, prompt above 10,000 at $10.00 per million" in sum_of(page)
    assert row(page, "One request")[1] == "too long for it"
    page = shown(prompt_tokens=1_000, reply_tokens=100, tier="flex")
    assert row(page, "Input") == ["$2.00", "$4.00", "$1.00"]
    assert sum_of(page).endswith("100 output tokens, flex tier at $20.00 per million = $0.004")
    assert "A model without this service tier is computed at its standard price." in " ".join(page.split())


def test_the_reader_chooses_the_models_beside_it():
    assert row(shown(first="zed/cheap", second="zed/other"), "Input") == ["$5.00", "$0.10", "$1.00"]
    assert row(shown(first="zed/cheap", second="zed/cheap"), "Input") == ["$5.00", "$0.10"]
    assert row(shown(first="none", second="none"), "Input") == ["$5.00"]


@pytest.mark.parametrize(
    ("asked", "field", "words"),
    [
        ({"prompt_tokens": 0}, "prompt_tokens", "greater than or equal to 1"),
        ({"prompt_tokens": 128_001}, "prompt_tokens", "less than or equal to 128000"),
        ({"prompt_tokens": "many"}, "prompt_tokens", "Enter a whole number."),
        ({"requests": "1_0"}, "requests", "Enter a whole number."),
        ({"reply_tokens": "9" * 5_000}, "reply_tokens", "Enter a whole number."),
        ({"reply_tokens": 4_097}, "reply_tokens", "less than or equal to 4096"),
        ({"cached_tokens": 1_001}, "cached_tokens", "The prompt has 1,000 tokens. Enter no more."),
        ({"prompt_tokens": 127_000, "reply_tokens": 1_001}, "reply_tokens", "room for 1,000 tokens"),
        ({"requests": 10**9 + 1}, "requests", "less than or equal to 1000000000"),
        ({"tier": "flex"}, "", ""),  # of a price without tiers: an old address
        ({"first": "no/such"}, "first", "Select a valid choice."),
    ],
)
def test_a_wrong_value_is_told_at_its_field(asked, field, words):
    page = shown(**asked)
    errors = dict(re.findall(r'<ul class="errorlist" id="(\w+)_error">(.*?)</ul>', page, re.DOTALL))
    assert list(errors) == ([field] if field else [])
    assert words in errors.get(field, "")
    assert ("Correct the marked fields." in page) is bool(field)


def test_embeddings_have_no_reply_and_no_other_model_beside_them():
    page = shown("acme/embed", prompt_tokens=2_000)
    assert 'name="reply_tokens"' not in page
    assert 'name="first"' not in page
    assert row(page, "One request") == ["$0.00004"]
