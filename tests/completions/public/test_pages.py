"""The public pages: the landing page, the list of models, a page for each; what they show, cost, and how they are cached."""

import gzip
import html
import re
from decimal import Decimal
from urllib.parse import urlencode
from xml.etree import ElementTree

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from billing.models import LedgerEntry
from completions.models import LanguageModel, Provider
from completions.public import facts, selection
from completions.statistics import measurements
from gateway_project.text import dollars
from gateway_project.web import public_page
from tests import chat, factories
from tests.conftest import client_for
from tests.outage import with_the_database_unavailable
from tests.rankings import entries
from tests.rankings.streams import streamed
from tests.shown_code import uncoloured

OVERLOADED = {"provider": "echo", "status": 503, "reason": "overloaded"}
REFUSED = {**OVERLOADED, "status": 400}


def forget():
    facts.forget()
    entries.forget()
    public_page.forget()


@pytest.fixture(autouse=True)
def _empty_caches():
    forget()
    yield
    forget()


@pytest.fixture
def catalog(db):
    """Four models of two makers, one of which nobody can call yet."""
    later = Provider.objects.create(slug="later", kind="openai", api_key_env="NO_SUCH_KEY")
    factories.make_model(
        "acme/large", name="Acme Large", maker="Acme", input="5", output="25", cached_input="0.5", reasoning=True
    )
    factories.make_model("acme/small", name="Acme Small", maker="Acme", input="0.1", output="0.4", context_window=8_000)
    factories.make_model("zed/vision", name="Vision", maker="Zed", image_support=True, function_calling=True, license="MIT")
    factories.make_model("zed/later", name="Later", maker="Zed", provider=later, context_window=2_000_000, commercial_use=True)
    LanguageModel.objects.create(id="zed/free", name="Without a price", maker="Zed", context_window=1_000, max_output_tokens=10)


def get(path, **headers):
    return Client().get(path, **headers)


def page(path):
    reply = get(path)
    assert reply.status_code == 200
    return html.unescape(" ".join(re.sub(r"<[^>]+>", " ", uncoloured(reply.content.decode())).split()))


def listed(**parameters):
    """Return the ids that the list shows, in its order."""
    reply = Client().get(f"/models?{urlencode(parameters)}", follow=True)
    return ids_on(reply.content.decode())


def ids_on(shown):
    return re.findall(r'aria-label="Copy ([^"]+)"', shown)


# --- The landing page -----------------------------------------------------------------------------------------------


def test_the_landing_page_shows_the_gateways_own_figures(catalog):
    text = page("/")
    assert "One API key and one prepaid balance for every language model" in text
    assert "Models 4 3 available now" in text
    assert "Providers 2 serving these models" in text
    assert "Time to first token" not in text  # nothing was measured


def test_the_landing_page_says_how_soon_streams_began(catalog, alice):
    caller = alice, factories.make_key(alice)[0]
    for first_token_ms in (100, 420, 900):
        streamed(caller, "acme/large", first_token_ms, 1_000, 50)
    assert "Time to first token 0.42 s" in page("/")


def test_the_landing_page_works_before_there_is_a_model(db):
    text = page("/")
    assert "Models 0 0 available now" in text
    assert '"model": "provider/model"' in text


def test_the_first_request_goes_to_the_address_of_the_api_and_to_a_model_that_answers(catalog, settings):
    settings.GATEWAY_API_HOST, settings.GATEWAY_BASE_HOST = "api.example.org", "example.org"
    settings.ALLOWED_HOSTS = ["api.example.org", "example.org"]
    text = html.unescape(uncoloured(get("/", HTTP_HOST="example.org").content.decode()))
    assert "curl http://api.example.org/v1/chat/completions" in text
    assert 'base_url="http://api.example.org/v1"' in text
    assert '"model": "acme/large"' in text


def test_the_landing_page_shows_what_its_request_is_charged_when_it_is_sent(db, alice):
    factories.make_model("demo/echo", name="Echo", input="0.5", output="1.5")
    shown = page("/")
    sent = {"model": "demo/echo", "messages": [{"role": "user", "content": facts.EXAMPLE_PROMPT}]}
    assert facts.EXAMPLE_PROMPT in shown
    reply = chat.ask(client_for(factories.make_key(alice)[1]), **sent).json()
    usage, entry = reply["usage"], LedgerEntry.objects.get(type="USAGE_DEBIT")
    assert f"Reply {reply['choices'][0]['message']['content']} Model Echo" in shown
    assert f"Tokens {usage['prompt_tokens']} in, {usage['completion_tokens']} out" in shown
    assert re.sub(r"\s", "", f"Cost, exactly {dollars.format_usd(-entry.amount_nanos)}") in re.sub(r"\s", "", shown)


def test_the_landing_page_makes_no_reply_of_a_model_up(db):
    provider = Provider.objects.create(slug="real", kind="openai", base_url="http://127.0.0.1:9/v1")
    factories.make_model("acme/large", input="5", output="25", provider=provider)
    shown = page("/")
    assert "Reply" not in shown.partition("A request, and what it costs")[2].partition("See the model")[0]
    assert "$0.00056" in re.sub(r"\s", "", shown)  # 12 tokens at $5, and 20 at $25


def test_the_landing_page_names_the_makers_and_leads_to_their_models(catalog):
    makers = re.search(r'<ul class="makers".*?</ul>', get("/").content.decode(), re.DOTALL)[0]
    assert re.findall(r'href="([^"]+)">(\w+) <span>(\d)', makers) == [
        ("/models?maker=Acme", "Acme", "2"),
        ("/models?maker=Zed", "Zed", "2"),
    ]


def test_the_landing_page_says_which_credit_a_new_account_gets(db, settings):
    settings.SIGN_UP, settings.SENDS_MAIL = True, True
    assert "to try" not in page("/")
    settings.TRIAL_CREDIT_CENTS = 150
    forget()
    assert "Every new account gets $1.50 to try." in page("/")


def test_examples_name_the_model_that_is_used_most(catalog, alice):
    assert "Models and prices" in page("/")
    streamed((alice, factories.make_key(alice)[0]), "zed/vision", 100, 1_000, 50)
    forget()
    shown = page("/")
    assert "Most used models" in shown
    assert '"model": "zed/vision"' in shown


@pytest.mark.parametrize(("is_open", "words"), [(True, "Open an account"), (False, "Sign in")])
def test_the_landing_page_offers_an_account_where_people_may_sign_up(db, settings, is_open, words):
    settings.SIGN_UP, settings.SENDS_MAIL = is_open, True
    text = page("/")
    assert words in text
    assert ("Open an account" in text) is is_open


def test_the_landing_page_shows_five_models_with_the_prices_that_callers_pay(catalog, alice, settings):
    for number in range(3):
        factories.make_model(f"more/{number}", name=f"More {number}", maker="More")
    factories.make_model("acme/embed", kind="embedding", name="A first name", output="0", max_output_tokens=1)
    caller = alice, factories.make_key(alice)[0]
    for _ in range(2):
        streamed(caller, "zed/vision", 100, 1_000, 50)
    streamed(caller, "more/2", 100, 1_000, 50)
    table = re.search(r'<table class="prices">.*?</table>', get("/").content.decode(), re.DOTALL)[0]
    # Those that were called, then one of each maker, then the others; none that cannot be called.
    assert re.findall(r'href="/models/([^"]+)"', table) == ["zed/vision", "more/2", "acme/large", "acme/small", "more/0"]
    assert "$5.00" in table
    assert "$25.00" in table
    settings.MARKUP_PERCENT = Decimal("5.50")  # which prices of before do not have
    forget()
    assert "You pay these prices, and nothing on top." in page("/")
    assert "5.5" not in page("/")


def test_the_foot_of_a_page_links_to_what_the_operator_has(catalog, settings):
    def links():
        forget()
        foot = re.search(r'<nav aria-label="Footer">(.*?)</nav>', get("/").content.decode(), re.DOTALL)[1]
        return dict(map(reversed, re.findall(r'<a href="([^"]+)">([^<]+)</a>', foot)))

    assert links() == {"Models": "/models", "Rankings": "/rankings", "Docs": "/docs", "Status": "/status"}
    settings.TERMS_URL, settings.PRIVACY_URL = "https://example.org/terms?a=1&b", "https://example.org/privacy"
    settings.STATUS_URL = "https://status.example.org"
    assert links() == {
        **{"Models": "/models", "Rankings": "/rankings", "Docs": "/docs", "Status": "https://status.example.org"},
        **{"Terms": "https://example.org/terms?a=1&amp;b", "Privacy": "https://example.org/privacy"},
    }


def test_each_public_page_names_its_one_address_and_stands_in_the_sitemap(catalog, settings):
    assert 'rel="canonical"' not in get("/").content.decode()  # no host is known
    settings.GATEWAY_BASE_HOST, settings.GATEWAY_DEVELOPMENT, settings.ALLOWED_HOSTS = "example.org", False, ["example.org"]
    forget()
    reply = get("/sitemap.xml", HTTP_HOST="example.org")
    assert reply["Content-Type"] == "application/xml"
    space = "{http://www.sitemaps.org/schemas/sitemap/0.9}"
    addresses = [each.text for each in ElementTree.fromstring(reply.content).iter(f"{space}loc")]
    paths = [each.removeprefix("http://example.org") for each in addresses]
    assert {"/", "/models", "/rankings", "/docs", "/docs/reference", "/status", "/models/zed/vision"} <= set(paths)
    for path in paths:
        shown = get(path, HTTP_HOST="example.org").content.decode()
        assert f'<link rel="canonical" href="https://example.org{path}">' in shown, path
    shown = get("/models?maker=Zed&sort=price", HTTP_HOST="example.org").content.decode()
    assert '<link rel="canonical" href="https://example.org/models">' in shown
    assert "Sitemap: http://example.org/sitemap.xml" in get("/robots.txt", HTTP_HOST="example.org").content.decode()


# --- The list -------------------------------------------------------------------------------------------------------


def test_the_list_shows_prices_and_limits_and_marks_what_cannot_be_called(catalog):
    text = page("/models")
    assert (
        "Acme Large acme/large Copy $5.00 $25.00 $0.50 128,000 – not measured – not measured – not measured Reasoning" in text
    )
    assert re.search(r"Later zed/later Copy \$0.50 \$1.50 – as input 2,000,000 Not available here yet", text)
    assert text.count("Not available here yet") == 1
    assert "zed/free" not in text


@pytest.mark.parametrize("path", ["/", "/docs", "/docs/reference/createMessage", "/models/acme/large"])
def test_every_block_of_code_can_be_copied(catalog, path):
    shown = get(path).content.decode()
    blocks = re.findall(r'<pre class="code"[^>]*><code id="([^"]+)"', shown)
    assert len(blocks) == shown.count("<pre") > 0
    assert sorted(re.findall(r'data-copy="([^"]+)"', shown)) == sorted({*blocks, *re.findall('data-copy="(model-id)"', shown)})


def test_the_contents_of_the_quickstart_name_its_sections(catalog):
    shown = get("/docs").content.decode()
    assert re.findall(r'<a href="#([\w-]+)">([^<]+)</a>', shown) == re.findall(r'<h2 id="([\w-]+)">([^<]+)</h2>', shown)


def test_the_list_has_pages_that_together_show_each_model_once(db, monkeypatch):
    monkeypatch.setattr(selection, "PAGE_MODELS", 3)
    for number in range(7):
        factories.make_model(f"acme/{number}", maker="Acme")
    seen, path = [], "/models?maker=Acme"
    while path:
        shown = get(path).content.decode()
        seen += ids_on(shown)
        following = re.search(r'rel="next" href="([^"]+)"', shown)
        path = html.unescape(following[1]) if following else ""
    assert seen == [f"acme/{number}" for number in range(7)]
    assert "7–7 of 7" in page("/models?page=3")
    assert 'rel="prev" href="/models?page=2"' in get("/models?page=3").content.decode()
    assert "7 models" in page("/models?page=900")  # the last one
    for wrong in ("0", "-1", "x", "1", "9999999", "%00", "٣"):
        assert get(f"/models?page={wrong}").status_code in (302, 400), wrong


def test_embeddings_have_no_price_of_output(db):
    factories.make_model("acme/embed", kind="embedding", name="Embed", input="0.02", output="0", max_output_tokens=1)
    assert "Embed acme/embed Copy $0.02 – none" in page("/models")
    assert "Output" not in page("/models/acme/embed")


@pytest.mark.parametrize(
    ("parameters", "ids"),
    [
        ({}, ["acme/large", "acme/small", "zed/vision", "zed/later"]),
        ({"search": "ZED vis"}, ["zed/vision"]),
        ({"maker": "Acme"}, ["acme/large", "acme/small"]),
        ({"images": "on"}, ["zed/vision"]),
        ({"tools": "on", "images": "on"}, ["zed/vision"]),
        ({"reasoning": "on"}, ["acme/large"]),
        ({"commercial": "on"}, ["zed/later"]),
        ({"available": "on", "maker": "Zed"}, ["zed/vision"]),
        ({"sort": "price"}, ["acme/small", "zed/later", "zed/vision", "acme/large"]),
        ({"sort": "input"}, ["acme/small", "zed/later", "zed/vision", "acme/large"]),
        ({"sort": "output", "maker": "Acme"}, ["acme/small", "acme/large"]),
        ({"sort": "context"}, ["zed/later", "acme/large", "zed/vision", "acme/small"]),
        ({"sort": "newest", "available": "on"}, ["zed/vision", "acme/small", "acme/large"]),
        ({"search": "nothing at all"}, []),
    ],
)
def test_the_list_shows_what_its_parameters_select(catalog, parameters, ids):
    if parameters.get("sort") == "newest":
        for days, model_id in enumerate(["zed/vision", "acme/small", "acme/large"]):
            LanguageModel.objects.filter(pk=model_id).update(created_at=f"2026-01-{20 - days}T00:00:00Z")
    assert listed(**parameters) == ids


def test_empty_fields_of_the_form_lead_to_the_shortest_address_of_the_list(catalog):
    reply = get("/models?search=&maker=&sort=name&images=on&unknown=1")
    assert (reply.status_code, reply["Location"]) == (302, "/models?images=on")
    assert get("/models?sort=worst")["Location"] == "/models"
    assert get("/models/?images=on")["Location"] == "/models?images=on"


def test_the_list_says_when_there_is_nothing(catalog):
    assert "No matching models. Show all 4" in page("/models?images=on&reasoning=on")
    LanguageModel.objects.update(is_enabled=False)
    forget()
    assert "No models yet." in page("/models")


def test_speed_and_uptime_are_measured(catalog, alice):
    caller = alice, factories.make_key(alice)[0]
    for _ in range(measurements.REQUESTS_MIN - 1):
        streamed(caller, "acme/large", 500, 1_500, 100)
    streamed(caller, "acme/large", None, None, 0, settlement="released", failed_attempts=[OVERLOADED])
    streamed(caller, "acme/large", None, None, 0, settlement="released", failed_attempts=[REFUSED])  # what the caller asked for
    streamed(caller, "acme/small", 200, 800, 100)
    assert "$0.50 128,000 0.50 s 50 95 %" in page("/models")
    assert listed(sort="uptime")[0] == "acme/large"
    assert "8,000 0.20 s 100 – not measured" in page("/models")  # one request says little about uptime
    text = page("/models/acme/large")
    assert "First token 0.50 s median Speed 50 tokens per second Uptime 95 % last 24 hours" in text
    assert "Requests echo 95 % 0.50 s 50 20" in text  # by provider


@pytest.mark.parametrize("sort", ["speed", "first-token"])
@pytest.mark.parametrize(("fewer", "first"), [(0, "acme/small"), (1, "acme/large")])
def test_a_model_is_fast_beside_others_only_after_enough_streams(catalog, alice, sort, fewer, first):
    caller = alice, factories.make_key(alice)[0]
    for number in range(measurements.STREAMS_MIN):
        streamed(caller, "acme/large", 500, 1_500, 100)
        if number >= fewer:
            streamed(caller, "acme/small", 200, 800, 100)
    assert listed(sort=sort)[0] == first


# --- A model --------------------------------------------------------------------------------------------------------


def test_a_models_page_shows_its_price_its_limits_and_a_first_request(catalog):
    text = page("/models/acme/large")
    assert (
        "Input per million tokens Output per million tokens Cached input per million tokens Standard $5.00 $25.00 $0.50" in text
    )
    assert "Context 128,000 tokens Maximum output 4,096 tokens" in text
    assert 'model="acme/large"' in text
    assert "Not available" not in text
    assert "License MIT" in page("/models/zed/vision")
    assert "Not available here yet: no provider that runs this model is connected." in page("/models/zed/later")


def test_a_models_page_shows_the_prices_of_an_hour_in_the_cache_of_tiers_and_of_a_search(catalog):
    tier = {"flex_input_nanos": 2_500_000_000, "flex_output_nanos": 12_500_000_000}
    others = {"cache_write_1h_nanos": 10_000_000_000, "web_search_nanos": 10_000_000}
    factories.change_prices(LanguageModel.objects.get(pk="acme/large").prices, **others, **tier)
    text = page("/models/acme/large")
    assert "Cache write for an hour per million tokens Web search each Standard $5.00 $25.00 $0.50 $10.00 $0.01" in text
    assert "Flex tier $2.50 $12.50 $2.50 – not offered $0.01" in text
    assert "Priority" not in text


def test_the_page_of_a_model_for_embeddings_asks_for_embeddings(catalog):
    factories.make_model("acme/embed", kind="embedding", output="0", max_output_tokens=1)
    text = page("/models/acme/embed")
    assert "/v1/embeddings" in text
    assert 'client.embeddings.create(model="acme/embed", input="Hello")' in text
    assert "chat" not in text
    assert '"model": "acme/large"' in page("/")  # the first request of the landing page is a chat


@pytest.mark.parametrize("model_id", ["no/such", "zed/free", "acme", "a" * 5_000])
def test_a_model_that_is_not_listed_has_no_page(catalog, model_id):
    assert get(f"/models/{model_id}", HTTP_ACCEPT="text/html").status_code == 404


# --- What they cost -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/", "/models", "/models?sort=price", "/models/acme/large"])
def test_a_page_is_the_same_for_everybody_and_may_be_stored(catalog, path):
    reply = get(path)
    assert reply["Cache-Control"] == "public, max-age=60"
    assert not reply.cookies
    assert "Cookie" not in reply.get("Vary", "")
    zipped = get(path, HTTP_ACCEPT_ENCODING="gzip")
    assert gzip.decompress(zipped.content) == reply.content
    assert get(path, HTTP_IF_NONE_MATCH=reply["ETag"]).status_code == 304


def test_everything_is_read_once_for_all_pages(catalog):
    with CaptureQueriesContext(connection) as queries:
        page("/")
    assert len(queries) <= 10
    with CaptureQueriesContext(connection) as queries:
        for path in ("/", "/models", "/models?sort=price"):
            page(path)
    assert len(queries) == 0
    with CaptureQueriesContext(connection) as queries:
        for path in ("/models/acme/large", "/models/acme/small", "/models/acme/small?requests=7"):
            page(path)
    assert len(queries) <= 16  # 10 of the rankings and of the last days; whether the rankings changed, again after a second


def test_free_text_fills_no_cache(catalog):
    for path in ("/models", "/models?maker=Acme", "/models?maker=Acme", "/models?search=large", "/models?maker=nobody"):
        page(path)
    assert len(public_page._pages) == 2


def test_the_queries_do_not_grow_with_the_models(catalog):
    with CaptureQueriesContext(connection) as few:
        page("/models")
    for number in range(20):
        factories.make_model(f"many/{number}")
    forget()
    with CaptureQueriesContext(connection) as many:
        page("/models")
    assert len(many) == len(few)


def test_the_pages_are_shown_while_the_database_is_unavailable(catalog):
    page("/models")
    assert with_the_database_unavailable(lambda: listed(maker="Acme")) == ["acme/large", "acme/small"]
    forget()
    assert with_the_database_unavailable(lambda: get("/models")).status_code == 503


def test_the_page_of_a_model_says_what_providers_promise_about_data(catalog):
    Provider.objects.filter(pk="echo").update(retention_days=30, trains=False, region="us")
    assert "Kept for 30 days, not trained on, processed in us" in get("/models/acme/large").content.decode()
    Provider.objects.filter(pk="echo").update(retention_days=None, trains=None, region="")
    forget()
    assert "trained on" not in get("/models/acme/large").content.decode()
