"""The ranking pages: what the list and a model's page show, and how they are cached."""

import gzip
import re
from datetime import timedelta
from itertools import pairwise, product
from math import fsum
from urllib.parse import parse_qsl, urlencode

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from completions.models import Category, Completion, LanguageModel, Provider, RoutableAlias, Route
from completions.public import facts
from gateway_project.db import pool
from gateway_project.web import public_page
from rankings.api import filters
from rankings.models import DailyRank, Entry, Profile, Source, SourceState
from rankings.pages import plots
from rankings.pages import rows as page_rows
from rankings.pages import views as pages
from rankings.publishing import listing, publication
from tests import factories
from tests.outage import with_the_database_unavailable
from tests.pages.conftest import owner_of, signed_in
from tests.rankings.entries import forget, forget_pages, list_model, publish
from tests.rankings.snapshots import make_alias, make_snapshot
from tests.rankings.streams import streamed

ARENA, HUB, AA, INTERNAL = Source.LMSYS_ARENA, Source.HUGGINGFACE, Source.ARTIFICIAL_ANALYSIS, Source.INTERNAL
GENERAL, CODING = Category.GENERAL, Category.CODING
INTERVAL = {"lower": 1495, "upper": 1503.5}


@pytest.fixture(autouse=True)
def _empty_caches(db):
    forget()
    forget_pages()


def show():
    publish()
    forget_pages()


@pytest.fixture
def listed(db):
    """Four models on the general board, two of them on the coding one."""
    list_model(
        "acme/alpha",
        rank=1,
        change=2,
        overall=90.04,
        quality=88.0,
        speed=70.0,
        cost=40.0,
        elo=1480,
        confidence=0.664,
        inputs={"speed": {"tokens_per_second": 111.6, "first_token_seconds": 0.412}},
        model={
            "name": "Alpha",
            "maker": "Acme",
            "commercial_use": True,
            "function_calling": True,
            "input": "0.15",
            "output": "0.60",
        },
    )
    list_model(
        "acme/beta",
        rank=2,
        change=-3,
        overall=70.0,
        quality=60.0,
        cost=20.0,
        model={"name": "beta", "maker": "Acme", "commercial_use": True, "input": "3.00", "output": "15.00"},
    )
    list_model("lab/gamma", rank=3, overall=60.0, model={"name": "Gamma", "maker": "Étoile Lab", "category": CODING})
    list_model("lab/delta", rank=4, overall=None, model={"name": "Delta", "maker": "Étoile Lab"})
    list_model("lab/gamma", rank=3, board=CODING, board_rank=1, overall=81.0, quality=82.0)
    list_model("acme/alpha", rank=1, board=CODING, board_rank=2, overall=80.0)
    show()


def get(path="/rankings", **parameters):
    return Client().get(f"{path}?{urlencode(parameters)}" if parameters else path)


def html(reply, status=200):
    assert reply.status_code == status, reply.content
    return reply.content.decode()


def text(reply, status=200):
    """Return the text of the page, without its markup."""
    return " ".join(re.sub(r"<[^>]+>", " ", html(reply, status)).replace("&#x27;", "'").split())


def models(reply):
    """Return the model ids of the table, in its order."""
    return re.findall(r'<code id="id-\d+">([^<]+)</code>', html(reply))


def chosen(page, name):
    """Return the selected options of a select."""
    [select] = re.findall(rf'<select id="{name}".*?</select>', page, re.DOTALL)
    return re.findall(r'<option value="([^"]*)" selected>', select)


def heading(page, title):
    """Return the link of a column's heading, and how the column is sorted."""
    [(attributes, href)] = re.findall(rf'<th([^>]*)><a href="([^"]*)">{title}\b', page)
    sorted_by = re.findall(r'aria-sort="(\w+)"', attributes)
    return href.replace("&amp;", "&"), sorted_by


# --- The list -----------------------------------------------------------------------------------------------------


def test_row_shows_every_field_of_a_model(listed):
    page = text(get())
    row = page[page.index("1 ▲") : page.index("2 ▼")]
    assert row.strip() == (
        "1 ▲ up 2 Alpha Acme Details of Alpha ID acme/alpha Copy Maker Acme Price $0.15 in, $0.60 out "
        "Speed 112 tokens per second, first token after 0.41 s Context 128,000 tokens; tools Category General, number 1 "
        "Change in a week up 2 Cost 40.0 Elo 1480 Confidence 0.66 Updated 20 Nov 2026, 12:00 UTC "
        "90.0 88.0 70.0 112 0.66 128K $0.26 exactly $0.2625 $0.15 / $0.60"
    )
    assert "▼ down 3 beta" in page
    assert "3 Gamma" in page


def test_unmeasured_scores_show_as_not_known_and_never_as_0(listed):
    page = text(get(search="delta"))
    assert "Speed not measured Context" in page
    assert "Change in a week none Cost not known Elo not known Confidence" in page
    assert "UTC – not known – not known – not known – not known 0.50 128K $" in page


def test_page_lists_the_same_models_as_the_api(listed):
    queries = [
        "",
        "board=CODING",
        "category=CODING",
        "availableOnly=true",
        "search=LAB",
        "commercialOnly=true",
        "sortBy=name",
        "sortBy=score&sortOrder=desc",
        "limit=2&offset=1",
        "provider=Acme&toolsOnly=true",
        "imagesOnly=true",
        "priceMaxInCents=100",
        "contextMin=128000&sortBy=price&sortOrder=desc",
        "sortBy=quality&sortOrder=desc",
    ]
    for query in [*queries, "sortBy=change&limit=3"]:
        given = dict(parse_qsl(query))
        body = Client().get("/api/rankings", given).json()
        assert models(get(**given)) == [entry["model"]["id"] for entry in body["rankings"]], query


def test_leaderboard_lists_models_by_their_rank_on_it(listed):
    page = get(board=CODING)
    assert models(page) == ["lab/gamma", "acme/alpha"]
    assert "Coding, by overall score" in text(page)
    assert re.search(
        r"1 Gamma Étoile Lab Details of Gamma ID lab/gamma Copy .*? Category Coding, number 1 .*? UTC 81.0 ", text(page)
    )
    assert f'href="/rankings/lab/gamma?board={CODING}"' in html(page)  # where this score is explained


def test_category_keeps_the_models_of_the_category_and_their_ranks(listed):
    page = get(category=CODING)
    assert models(page) == ["lab/gamma"]
    assert re.search(
        r"3 Gamma Étoile Lab Details of Gamma ID lab/gamma Copy .*? Category Coding, number 1 .*? UTC 60.0 ", text(page)
    )
    assert chosen(html(page), "category") == ["CODING"]
    assert models(get(category="MATH")) == []


def test_unavailable_model_is_marked_and_can_be_left_out(listed):
    Route.objects.filter(model="acme/beta").update(provider=factories.make_provider("later", api_key_env="NO_SUCH_KEY"))
    show()
    page = text(get())
    assert "beta Acme Not available Details of beta ID acme/beta Copy Available Not available here yet" in page
    assert page.count("Not available here yet") == 1
    assert "1 model on this leaderboard is not available." in page
    assert '<a href="/rankings?availableOnly=true">Show available models only</a>' in html(get())
    only = get(availableOnly="true")
    assert models(only) == ["acme/alpha", "lab/gamma", "lab/delta"]
    assert re.search(r'name="availableOnly"[^>]* checked', html(only))


def test_json_link_gives_the_same_order(listed):
    for given in (
        {},
        {"board": "CODING"},
        {"category": "CODING", "availableOnly": "true"},
        {"search": "a", "sortBy": "name", "sortOrder": "desc", "limit": "3"},
    ):
        [address] = re.findall(r'<a href="(/api/rankings[^"]*)">as JSON', html(get(**given)))
        body = Client().get(address.replace("&amp;", "&")).json()
        assert [entry["model"]["id"] for entry in body["rankings"]] == models(get(**given))


def test_heading_sorts_and_then_reverses_the_order(listed):
    page = html(get(search="a"))
    assert heading(page, "Rank") == ("/rankings?search=a&sortBy=rank&sortOrder=desc", ["ascending"])
    assert [heading(page, title)[1] for title in ("Model", "Quality", "Speed")] == [[], [], []]
    href, _ = heading(page, "Quality")
    assert href == "/rankings?search=a&sortBy=quality&sortOrder=desc"
    page = html(get(href))
    assert heading(page, "Quality") == ("/rankings?search=a&sortBy=quality&sortOrder=asc", ["descending"])
    assert models(get(href)) == ["acme/alpha", "acme/beta", "lab/delta", "lab/gamma"]


def test_form_redirects_to_a_short_address(listed):
    blank = {
        "source": "INTERNAL",
        "board": "GENERAL",
        "category": "",
        "search": "",
        "sortBy": "",
        "sortOrder": "",
        "limit": "50",
    }
    assert get(**blank).headers["Location"] == "/rankings"
    asked = get(**{**blank, "board": "CODING", "category": "MATH", "search": " a&b ", "commercialOnly": "true"})
    assert asked.headers["Location"] == "/rankings?board=CODING&category=MATH&search=a%26b&commercialOnly=true"


def test_an_address_has_every_parameter_in_the_same_order(listed):
    asked = {
        **{"limit": "25", "offset": "50", "sortBy": "rank", "sortOrder": "desc", "priceMaxInCents": "100"},
        **{"contextMin": "32000", "toolsOnly": "1", "imagesOnly": "true", "provider": "acme", "availableOnly": "True"},
        **{"commercialOnly": "true", "search": "a b", "category": "MATH", "board": "CODING", "source": "LMSYS_ARENA"},
        "blank": "",
    }
    assert get(**asked).headers["Location"] == (
        "/rankings?source=LMSYS_ARENA&board=CODING&category=MATH&search=a+b&commercialOnly=true&availableOnly=true"
        "&provider=acme&imagesOnly=true&toolsOnly=true&contextMin=32000&priceMaxInCents=100"
        "&sortBy=rank&sortOrder=desc&limit=25&offset=50"
    )


def test_form_shows_the_parameters_of_the_query(listed):
    page = html(
        get(
            source="LMSYS_ARENA",
            board="CODING",
            category="MATH",
            search='"><b>',
            commercialOnly="true",
            sortBy="name",
            sortOrder="desc",
            limit=7,
        )
    )
    assert [chosen(page, name) for name in ("source", "board", "category")] == [["LMSYS_ARENA"], ["CODING"], ["MATH"]]
    kept = re.findall(r'<input type="hidden" name="(\w+)" value="(\w+)">', page)
    assert kept == [("sortBy", "name"), ("sortOrder", "desc"), ("limit", "7")]
    assert 'value="&quot;&gt;&lt;b&gt;"' in page
    assert re.search(r'name="commercialOnly"[^>]* checked', page)


def test_pages_partition_the_list(listed):
    page, seen, visited = get(limit=3), [], 0
    while True:
        seen += models(page)
        visited += 1
        following = re.findall(r'rel="next" href="([^"]+)"', html(page))
        if not following:
            break
        page = get(following[0].replace("&amp;", "&"))
    assert (visited, seen) == (2, ["acme/alpha", "acme/beta", "lab/gamma", "lab/delta"])
    assert re.findall(r'rel="prev" href="([^"]+)"', html(page)) == ["/rankings?limit=3"]


def test_offset_beyond_the_end_links_to_the_last_page(listed):
    page = get(limit=3, offset=900)
    assert "There is no row 901: this list has 4." in text(page)
    assert '<a href="/rankings?limit=3&amp;offset=3">Go to its last page</a>' in html(page)


def test_form_offers_every_maker_and_keeps_the_filters(listed):
    page = html(get(provider="acme", contextMin=5000, priceMaxInCents=77, imagesOnly="true", sortBy="price"))
    [makers] = re.findall(r'<select id="provider".*?</select>', page, re.DOTALL)
    assert re.findall(r'<option value="([^"]*)"', makers) == ["", "Acme", "Étoile Lab"]
    assert [chosen(page, name) for name in ("provider", "contextMin", "priceMaxInCents")] == [["Acme"], ["5000"], ["77"]]
    assert "5,000 tokens or more" in page
    assert "up to $0.77" in page
    assert re.search(r'name="imagesOnly"[^>]* checked', page)
    assert not re.search(r'name="toolsOnly"[^>]* checked', page)


def test_the_list_has_the_figure_that_it_is_ordered_by_and_says_what_every_figure_means(listed):
    page = html(get())
    headings = re.findall(r'<table class="figures-table".*?</thead>', page, re.DOTALL)[0]
    assert re.findall(r"<a[^>]*>(\w+)", headings) == ["Rank", "Model", "Overall", "Quality", "Speed", "Context", "Price"]
    assert "Confidence" in headings
    meanings = dict(re.findall(r"<dt>(\w+)</dt><dd>([^<]{20,})</dd>", page[page.index("What the figures mean") :]))
    shown = {"Rank", "Quality", "Speed", "Price", "Overall", "Cost", "Elo", "Confidence", "Context", "Updated"}
    assert shown <= set(meanings)
    of_source = html(get(source=ARENA))
    assert "figures-table" not in of_source  # which ranks none of them
    list_model("acme/alpha", rank=7, source=ARENA, overall=1480.0)
    show()
    headings = re.findall(r'<table class="figures-table".*?</thead>', html(get(source=ARENA)), re.DOTALL)[0]
    assert re.findall(r"<a[^>]*>(\w+)", headings) == ["Rank", "Model", "Score", "Context", "Price"]


def test_the_filters_in_use_are_counted_and_not_folded_away(listed):
    page = html(get())
    assert '<details class="more">' in page
    page = html(get(board="CODING", search="a", priceMaxInCents=100, sortBy="price"))  # which stand elsewhere
    assert '<details class="more">' in page
    page = html(get(category="CODING", toolsOnly="true", sortBy="name", limit=25))
    assert '<details class="more" open>' in page
    assert "More filters 2 in use" in text(get(category="CODING", toolsOnly="true", sortBy="name", limit=25))
    assert '<details class="more" open>' in html(get(toolsOnly="perhaps"), 400)


SORTED_TITLES = {"score": "Overall", "quality": "Quality", "speed": "Speed", "price": "Price", "context": "Context"}
FILTERS: list[dict[str, object]] = [
    {},
    {"priceMaxInCents": 200},
    {"provider": "Acme"},
    {"availableOnly": "true"},
    {"search": "M1"},
    {"limit": 7},
]


@pytest.fixture
def many(db, settings):
    """Fourteen models as the formula and four sources rank them, on every leaderboard, some of them without this or that."""
    settings.RANKINGS_AA_API_KEY = settings.RANKINGS_OPENROUTER_API_KEY = "a-key"
    rated: dict[str, float] = {}
    for number in range(14):
        name, price = f"m{number}", f"{0.1 + (number * 5) % 13:.2f}"
        factories.make_model(
            f"acme/{name}",
            name=f"M{number}",
            maker=("Acme", "Lab")[number % 2],
            context_window=16_000 * (1 + number * 3 % 7),
            input=price,
            output=price,
        )
        Profile.objects.create(model_id=f"acme/{name}", open_weights=number % 3 > 0)
        for source in (ARENA, HUB, AA, Source.OPENROUTER):
            make_alias(source, name, f"acme/{name}")
        rated |= {name: 40 + number * 7 % 23} if number % 5 else {}
    for source in (ARENA, HUB, AA, Source.OPENROUTER):
        make_snapshot(source, {board: rated for board in Category.values}, crowd=30)
    publication.publish(ARENA, HUB, AA, Source.OPENROUTER)
    forget_pages()


def column(page, title):
    """Return the figures of a column as they are shown, None where there is none."""
    cells = re.findall(rf'data-label="{title}">(.*?)</td>', page, re.DOTALL)
    figures = [re.search(r"(?:>|^|\s)\$?([\d.]+)([KM]?)", re.sub(r"<meter.*?</meter>", "", cell)) for cell in cells]
    return [found and float(found[1]) * {"": 1, "K": 1e3, "M": 1e6}[found[2]] for found in figures]


def is_in_order(figures, order):
    known = [figure for figure in figures if figure is not None]
    return figures == [*sorted(known, reverse=order == "desc"), *[None] * (len(figures) - len(known))]


def test_neighbours_are_in_the_order_of_the_column_that_is_sorted_by(many, subtests):
    """On each leaderboard, in each order, under each filter in turn. By rank the overall score falls."""
    combinations = product(Category.values, ["rank", *SORTED_TITLES], ["asc", "desc"])
    for number, (board, sort, order) in enumerate(combinations):
        for source in (INTERNAL, (ARENA, HUB, AA, Source.OPENROUTER)[number % 4]):
            filters = FILTERS[number % len(FILTERS)]
            given = {"source": source, "board": board, "sortBy": sort, "sortOrder": order, **filters}
            page = html(get(**given))
            titles = SORTED_TITLES if source == INTERNAL else SORTED_TITLES | {"score": "Score", "quality": "Score"}
            title = titles.get(sort, titles["score"])
            if f'data-label="{title}"' not in page:
                continue  # no such model, or no such column of the source
            with subtests.test(**given):
                falls = order == "desc" if sort != "rank" else order == "asc"
                assert is_in_order(column(page, title), "desc" if falls else "asc"), column(page, title)


# --- Invalid requests ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("source", "GOOGLE"),
        ("category", "coding"),
        ("board", "coding"),
        ("availableOnly", "yes"),
        ("search", "x" * (filters.SEARCH_CHARACTERS_MAX + 1)),
        ("commercialOnly", "yes"),
        ("provider", "x" * (filters.SEARCH_CHARACTERS_MAX + 1)),
        ("contextMin", "many"),
        ("priceMaxInCents", "-1"),
        ("imagesOnly", "yes"),
        ("toolsOnly", "yes"),
    ],
)
def test_invalid_parameter_shows_the_api_message_beside_its_field(listed, name, value):
    reply = get(**{name: value, "unknown": "x"})
    message = Client().get("/api/rankings", {name: value}).json()["error"]["message"]
    page = html(reply, 400)
    [shown] = re.findall(rf'id="{name}-error" role="alert">([^<]+)<', page)
    assert shown == message.replace("'", "&#x27;")
    assert page.count('role="alert"') == page.count('aria-invalid="true"') == 1
    assert f'aria-describedby="{name}-error"' in page
    assert reply["Cache-Control"] == "no-store"


@pytest.mark.parametrize(("name", "value"), [("offset", "-1"), ("sortBy", "elo"), ("sortOrder", "up"), ("limit", "0")])
def test_invalid_parameter_without_a_field_is_shown_above_the_form(listed, name, value):
    message = Client().get("/api/rankings", {name: value}).json()["error"]["message"]
    assert f'role="alert">{message}<' in html(get(**{name: value}), 400)


@pytest.mark.parametrize(
    "query", ["search=%00", "limit=%FF", "source=%F0%9F", "search=%ED%A0%80", "sortBy[]=x", "=", "&&&", "offset=٣", "%"]
)
def test_no_query_causes_a_server_error(listed, query):
    for path in ("/rankings", "/rankings/acme/alpha", "/rankings/no/such"):
        assert Client().get(f"{path}?{query}").status_code in (200, 302, 400, 404)


def test_a_post_is_refused(listed):
    before = list(Entry.objects.order_by("pk").values())
    assert Client().post("/rankings").status_code == 405
    assert list(Entry.objects.order_by("pk").values()) == before


# --- Caching and size ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/rankings", "/rankings/acme/alpha"])
def test_page_is_the_same_for_everybody_and_cacheable(listed, alice, path):
    signed_in_page, anonymous_page = signed_in(owner_of(alice)).get(path), get(path)
    assert signed_in_page.content == anonymous_page.content
    for reply in (signed_in_page, anonymous_page):
        assert not reply.cookies
        assert reply["Vary"] == "Accept-Encoding"
        assert reply["Cache-Control"] == "public, max-age=60"
    assert "default-src 'self'" in anonymous_page["Content-Security-Policy"]


@pytest.mark.parametrize("path", ["/rankings", "/rankings/acme/alpha"])
def test_matching_etag_gets_304_until_the_page_changes(listed, path):
    tag = get(path)["ETag"]
    again = Client().get(path, headers={"If-None-Match": tag})
    assert (again.status_code, again.content, again["ETag"]) == (304, b"", tag)
    Entry.objects.filter(model_id="acme/alpha").update(elo=1481, overall=91.0)
    show()
    assert Client().get(path, headers={"If-None-Match": tag}).status_code == 200


def test_client_that_accepts_gzip_gets_gzip(listed):
    gzipped, plain = Client().get("/rankings", headers={"Accept-Encoding": "br, gzip"}), get()
    assert gzipped["Content-Encoding"] == "gzip"
    assert gzip.decompress(gzipped.content) == plain.content
    assert len(gzipped.content) < len(plain.content) / 3
    assert gzipped["ETag"] != plain["ETag"]
    assert Client().get("/rankings", headers={"Accept-Encoding": "gzip", "If-None-Match": gzipped["ETag"]}).status_code == 304


@pytest.mark.parametrize("path", ["/rankings", "/rankings/acme/alpha"])
def test_cached_page_takes_no_query(listed, path, django_assert_num_queries, monkeypatch):
    for cache in (public_page._pages, pages._facts, listing._published, listing._catalog):
        monkeypatch.setattr(cache, "_clock", lambda: 0.0)
    get(path)
    with django_assert_num_queries(0):
        html(get(path))


@pytest.mark.parametrize(
    ("query", "same"),
    [
        ("", "unknown=1&another=2"),
        ("", "limit=50&offset=0&sortBy=rank"),
        ("provider=Acme&toolsOnly=true", "toolsOnly=1&provider=ACME"),
        ("contextMin=128000", "contextMin=0128000"),
    ],
)
def test_parameters_that_mean_the_same_share_a_page(listed, query, same):
    page = get(f"/rankings?{query}")
    assert get(f"/rankings?{same}").content == page.content
    assert len(public_page._pages) == 1


@pytest.mark.parametrize(
    "query",
    ["search=alpha", "provider=nobody", "contextMin=7", "priceMaxInCents=7", "limit=7", "offset=7", "offset=1000000"],
)
def test_words_and_numbers_without_end_fill_no_cache(listed, query):
    assert html(get(f"/rankings?{query}"))
    assert len(public_page._pages) == 0


def test_number_of_queries_does_not_grow_with_the_list(listed):
    def queries():
        show()
        with CaptureQueriesContext(connection) as captured:
            html(get())
        return len(captured)

    few = queries()
    for number in range(20):
        list_model(f"more/{number}", rank=5 + number, quality=50.0)
    assert queries() == few


def test_new_publication_is_shown_at_once(listed):
    get()
    list_model("new/best", rank=1)
    publish()
    assert "new/best" in models(get())


def test_pages_load_nothing_from_other_hosts_and_nothing_inline(listed):
    for path in ("/rankings", "/rankings/acme/alpha"):
        page = html(get(path))
        assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?! src=)", page)
        assert all(
            address.startswith("/static/") for address in re.findall(r'<(?:script|link|img)[^>]* (?:src|href)="([^"]+)"', page)
        )


def test_list_of_fifty_models_is_small(db):
    for number in range(60):
        list_model(f"acme/model-{number}", rank=number + 1, quality=99.0 - number, speed=50.0, cost=50.0, elo=1400)
    show()
    assert len(get().content) < 200_000
    assert len(Client().get("/rankings", headers={"Accept-Encoding": "gzip"}).content) < 20_000


def test_database_outage_shows_the_last_data_or_an_error_page(listed, settings):
    reply = with_the_database_unavailable(lambda: get())
    assert "The rankings are unavailable right now. Please try again." in text(reply, 503)
    assert reply["Retry-After"]
    get()
    assert models(with_the_database_unavailable(lambda: get(search="gamma"))) == ["lab/gamma"]


# --- Empty lists --------------------------------------------------------------------------------------------------


def test_empty_ranking_says_what_to_do(db):
    page = text(get())
    assert "No ranking yet. The gateway computes it at start and every hour." in page
    assert "manage.py" not in page


def test_empty_source_links_to_the_gateways_own_ranking(listed):
    assert "Hugging Face ranks none of our models here." in text(get(source="HUGGINGFACE"))


def test_search_without_matches_offers_to_clear_the_filters(listed):
    assert "No matching models. Clear the filters" in text(get(search="no such model"))


def test_before_a_source_is_read_the_list_ranks_by_speed_and_price_and_says_so(db):
    list_model("acme/slow", rank=2, overall=30.0, speed=10.0, cost=90.0, inputs=measured(20.0), model={"input": "0.10"})
    list_model("acme/fast", rank=1, overall=40.0, speed=90.0, cost=20.0, inputs=measured(200.0), model={"input": "9.00"})
    show()
    page = get()
    assert models(page) == ["acme/fast", "acme/slow"]
    assert "General, by speed and price" in text(page)
    assert "Prices and measured speeds so far. Nothing here says which model answers better" in text(page)
    assert "IDs such as best/general are refused" in text(page)
    table = re.findall(r'<table class="figures-table".*?</table>', html(page), re.DOTALL)[0]
    assert re.findall(r"<a[^>]*>(\w+)", table[: table.index("</thead>")]) == [
        "Rank",
        "Model",
        "Overall",
        "Speed",
        "Context",
        "Price",
    ]
    assert "Confidence" not in table[: table.index("</thead>")]
    list_model("acme/beta", rank=3, quality=50.0)
    show()
    assert models(get()) == ["acme/fast", "acme/slow", "acme/beta"]
    assert "so far" not in text(get())
    assert "No model in this list has a quality score yet." in text(get(search="slow"))


def test_before_a_source_is_read_the_chart_shows_measured_speed_against_price(db):
    list_model("acme/slow", rank=2, speed=10.0, inputs=measured(20.4), model={"name": "Slow", "input": "1", "output": "1"})
    list_model("acme/fast", rank=1, speed=90.0, inputs=measured(200.0), model={"name": "Fast", "input": "9", "output": "9"})
    list_model("acme/idle", rank=3, model={"name": "Idle"})
    show()
    found = points(html(get()))
    assert sorted(found) == ["Fast: 200 tokens per second, price $9.00", "Slow: 20 tokens per second, price $1.00"]
    (_, left, top), (_, cheaper_left, slower_top) = (found[name] for name in sorted(found))
    assert (left > cheaper_left, top < slower_top) == (True, True)
    assert "Speed for the price" in text(get())
    assert "1 of the 3 models has no speed yet and is in the list only." in text(get())


def test_before_anything_is_measured_the_chart_shows_what_context_a_price_buys(db):
    list_model("acme/alpha", rank=1, model={"name": "Alpha", "context_window": 200_000, "input": "1", "output": "1"})
    show()
    assert list(points(html(get()))) == ["Alpha: context 200K, price $1.00"]
    assert "Prices so far." in text(get())
    assert "General, by price 1" in text(get())
    assert "Speeds come once some replies of a model were streamed." in text(get())
    headings = re.findall(r'<table class="figures-table".*?</thead>', html(get()), re.DOTALL)[0]
    assert re.findall(r"<a[^>]*>(\w+)", headings) == ["Rank", "Model", "Overall", "Context", "Price"]


# --- Charts -------------------------------------------------------------------------------------------------------


def drawing(page):
    """Return the chart."""
    [chart] = re.findall(r'<div class="plot-area">(.*?)</div>', page, re.DOTALL)
    return chart


def measured(tokens_per_second):
    """Return the inputs of an entry whose speed was measured."""
    return {"speed": {"tokens_per_second": tokens_per_second, "first_token_seconds": 0.5}}


def points(page):
    """Return the link and the place of each point of the chart, by the point's name."""
    found = re.findall(r'href="([^"]+)"\s+aria-label="([^"]+)"><circle cx="([\d.]+)%" cy="([\d.]+)%"', drawing(page))
    return {name: (href, float(left), float(top)) for href, name, left, top in found}


def test_quality_is_drawn_against_price_on_a_logarithmic_scale(db):
    for number, (price, quality) in enumerate([("0", 50.0), ("0.10", 60.0), ("1.00", 80.0), ("10.00", 90.0)]):
        list_model(
            f"acme/m{number}", rank=number + 1, quality=quality, model={"name": f"M{number}", "input": price, "output": price}
        )
    list_model("acme/untested", rank=9)
    show()
    page = html(get())
    found = points(page)
    names = ["M0: quality 50.0, price $0.00", "M1: quality 60.0, price $0.10", "M2: quality 80.0, price $1.00"]
    names += ["M3: quality 90.0, price $10.00"]
    assert sorted(found) == names
    (_, free, low), (_, dime, _), (href, dollar, higher), (_, ten, _) = (found[name] for name in names)
    assert href == "/rankings/acme/m2"
    assert free < dime < dollar < ten
    assert ten - dollar == pytest.approx(dollar - dime, abs=0.2)
    assert low > higher  # the better, the higher
    assert ">free</text>" in page
    assert "The table below has every figure." in text(get())


def test_the_faster_a_model_the_larger_its_point_and_small_ones_lie_above(db):
    for name, rate in (("slow", 20.0), ("fast", 180.0), ("unknown", None)):
        list_model(f"acme/{name}", rank=1, quality=50.0, inputs=measured(rate), model={"name": name})
    list_model("acme/good", rank=1, quality=90.0, inputs=measured(80.0), model={"name": "good", "input": "0.01"})
    show()
    page = html(get())
    drawn = re.findall(r'aria-label="(\w+):[^"]*"><circle [^>]*r="([\d.]+)"', drawing(page))
    assert [name for name, _ in drawn] == ["fast", "slow", "unknown", "good"]  # the last one is on the line
    radius = {name: float(each) for name, each in drawn}
    assert radius["fast"] / radius["slow"] == pytest.approx(3, abs=0.1)  # nine times the area
    assert radius["slow"] < radius["good"] < radius["fast"]
    assert "fast: quality 50.0, price $0.75, 180 tokens per second" in page
    legend = re.findall(r'r="([\d.]+)"/></svg> (\d+)', page[page.index("plot-legend") :])
    assert [int(size) for _, size in legend] == [10, 50, 100]
    assert (float(legend[-1][0]) / radius["fast"]) ** 2 == pytest.approx(100 / 180, abs=0.02)


def test_charts_show_the_whole_filtered_list(listed):
    assert len(points(html(get(limit=1)))) == 2
    assert list(points(html(get(search="beta")))) == ["beta: quality 60.0, price $6.00"]


def test_price_filter_filters_the_list_and_the_chart_and_is_counted_in_words(listed):
    page = get(priceMaxInCents=100)
    assert models(page) == ["acme/alpha", "lab/gamma", "lab/delta"]
    assert list(points(html(page))) == ["Alpha: quality 88.0, price $0.2625, 112 tokens per second"]
    assert "3 of 4 models up to $1.00 per million tokens" in text(page)
    assert "2 of the 3 models have no quality yet and are in the list only." in text(page)
    assert "4 models" in text(get())
    assert "of 4 models up to" not in text(get())


def test_frontier_joins_the_best_models_for_their_price(db):
    worth = {
        "cheap": ("0.10", 50.0),
        "beaten": ("0.50", 45.0),
        "good": ("1.00", 80.0),
        "near": ("1.00", 80.0),
        "dear": ("9.00", 79.0),
    }
    for rank, (name, (price, quality)) in enumerate(worth.items(), start=1):
        list_model(f"acme/{name}", rank=rank, quality=quality, model={"name": name, "input": price, "output": price})
    show()
    chart = drawing(html(get()))
    assert sorted(re.findall(r'class="point[^"]* best"[^>]* aria-label="(\w+)', chart)) == ["cheap", "good"]
    [line] = re.findall(r'<polyline points="([^"]+)"', chart)
    corners = [tuple(map(float, pair.split(","))) for pair in line.split()]
    assert corners == sorted(corners, key=lambda corner: (corner[0], -corner[1]))  # only to the right and up


def test_a_free_model_stays_on_the_line_when_a_hundred_are_better(db):
    list_model("acme/free", rank=200, quality=3.0, model={"name": "free one", "input": "0", "output": "0"})
    for number in range(page_rows.PLOTTED_MAX + 5):
        list_model(f"acme/m{number}", rank=number + 1, quality=50.0 + number / 10, model={"name": f"M{number}"})
    show()
    page = html(get(limit=25))
    drawn = points(page)
    assert len(drawn) == page_rows.PLOTTED_MAX
    assert "free one: quality 3.0, price $0.00" in drawn
    assert "free one" in re.findall(r'class="point[^"]* best"[^>]* aria-label="([^:]+)', drawing(page))
    assert "omits the 6 models of lowest quality that are not on the line" in text(get(limit=25))


def test_models_that_cannot_be_called_are_drawn_hollow_and_say_so(listed):
    Provider.objects.update(is_enabled=False)
    show()
    chart = drawing(html(get()))
    assert chart.count(" waiting") == chart.count(', not available now">') == 2


def label_boxes(chart, name):
    """Return left, top, right and bottom of each label that is shown on a chart of a width, in pixels."""
    boxes, width = [], plots.LABEL_WIDTHS[name]
    shown = "|".join(list(plots.LABEL_WIDTHS)[: list(plots.LABEL_WIDTHS).index(name) + 1])
    for x, y, across, down, anchor, words in re.findall(
        rf'class="point (?:{shown})[" ].*?<text class="label" x="([\d.]+)%" y="([\d.]+)%" dx="([-\d.]+)" dy="([-\d.]+)"\s+'
        r'text-anchor="(\w+)">([^<]+)<',
        chart,
        re.DOTALL,
    ):
        left, bottom = float(x) / 100 * width + float(across), float(y) / 100 * plots.HEIGHT + float(down)
        letters = 6 * len(words)
        left -= letters if anchor == "end" else 0
        boxes.append((left, bottom - 9, left + letters, bottom))
    return boxes


@pytest.mark.parametrize("name", plots.LABEL_WIDTHS)
def test_the_line_crosses_no_label(db, name):
    for number, (price, quality) in enumerate([("1", 60.0), ("5", 90.0), ("7", 90.4), ("10", 90.8), ("6", 90.2), ("8", 90.5)]):
        model = {"name": f"A model {number}", "input": price, "output": price}
        list_model(f"acme/m{number}", rank=number + 1, quality=quality, model=model)
    show()
    chart = drawing(html(get()))
    [line] = re.findall(r'<polyline points="([^"]+)"', chart)
    width, height = plots.LABEL_WIDTHS[name] / 100, plots.HEIGHT / 100
    corners = [(float(left) * width, float(top) * height) for left, top in (pair.split(",") for pair in line.split())]
    labels = label_boxes(chart, name)
    assert len(labels) >= 2
    for (left, low), (right, high) in pairwise(corners):
        assert not any(box[0] < right and left < box[2] and box[1] < low and high < box[3] for box in labels)


@pytest.mark.parametrize("name", plots.LABEL_WIDTHS)
def test_chart_labels_do_not_overlap(db, name):
    for number in range(40):
        list_model(f"acme/m{number}", rank=number + 1, quality=80.0 + number % 7, model={"name": f"A model called {number}"})
    show()
    chart = drawing(html(get()))
    boxes = label_boxes(chart, name)
    assert 0 < len(boxes) < 40
    assert chart.count("A model called") == 2 * 40  # each has its name, and its label for hovering
    for number, one in enumerate(boxes):
        for other in boxes[number + 1 :]:
            assert one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]


# --- Sources and method -------------------------------------------------------------------------------------------


def test_every_source_shows_its_health_and_the_reason(listed):
    now = pool.database_time()
    SourceState.objects.create(source=INTERNAL, last_success_at=now)
    SourceState.objects.create(source=ARENA, last_success_at=now - timedelta(days=1), failures=5, error="not.this.host refused")
    forget_pages()
    page = text(get())
    assert "This gateway up to date Last computed" in page
    assert "LMArena not up to date It could not be read the last few times. Last read" in page
    assert "Hugging Face not up to date It has not been read yet." in page
    assert "Artificial Analysis not available This gateway does not read it." in page
    assert "OpenRouter not available This gateway does not read it." in page
    for secret in ("GATEWAY_", "not.this.host", "refused"):
        assert secret not in page


def test_shown_source_is_credited_with_its_licence(listed, settings):
    make_snapshot(ARENA, {GENERAL: {"best": 1500}})
    make_snapshot(AA, {GENERAL: {"best": 50}})
    forget_pages()
    page = html(get())
    assert 'href="https://huggingface.co/datasets/lmarena-ai/leaderboard-dataset"' in page
    assert 'by LMSYS_ARENA <a href="https://creativecommons.org/licenses/by/4.0/" rel="license' in page
    assert "by ARTIFICIAL_ANALYSIS" not in page  # its data is not shown without a key
    settings.RANKINGS_AA_API_KEY = "a-key"
    show()
    page = html(get())
    assert "by ARTIFICIAL_ANALYSIS" in page
    assert 'href="https://artificialanalysis.ai"' in page
    assert "a-key" not in page


def test_the_method_names_no_file(listed):
    assert "docs/" not in text(get())


def test_method_shows_the_weights_in_force(listed, settings):
    page = text(get())
    assert "internal-1 , with the weights below" in page
    assert "0.7 × adjusted quality + 0.15 × speed + 0.15 × cost" in page
    assert "LMArena 0.45, Artificial Analysis 0.35, Hugging Face 0.2" in page
    settings.RANKINGS_SCORE_WEIGHTS = {"quality": 0.6, "speed": 0.1, "cost": 0.3}
    show()
    page = text(get())
    assert "0.6 × adjusted quality + 0.1 × speed + 0.3 × cost" in page
    assert "internal-1, with parameters of this gateway's own" in page


def test_aliases_of_the_board_are_shown_with_their_models(listed):
    RoutableAlias.objects.create(id="best/coding", model_ids=["gone/model", "lab/gamma", "acme/alpha"])
    RoutableAlias.objects.create(id="best/general", model_ids=["acme/alpha"])
    RoutableAlias.objects.create(id="acme/favourite", model_ids=["acme/alpha"])
    show()
    page = text(get(board=CODING))
    assert "best/coding now lab/gamma" in page
    assert "best/general" not in page
    assert "acme/favourite" not in page


# --- A model ------------------------------------------------------------------------------------------------------


@pytest.fixture
def scored(db, settings):
    """Two models as the formula scores them, from three sources and this gateway's own streams."""
    settings.RANKINGS_AA_API_KEY = "a-key"
    settings.RANKINGS_SPEED_STREAMS_MIN = 2
    factories.make_model(
        "acme/best", input="3.00", output="15.00", name="Best", maker="Acme", image_support=True, license="MIT"
    )
    factories.make_model("acme/other", input="1.10", output="4.40")
    Profile.objects.create(model_id="acme/best", open_weights=True)
    for source in (ARENA, HUB, AA):
        make_alias(source, "best", "acme/best", confidence=0.9 if source == AA else 1.0)
        facts = INTERVAL if source == ARENA else {}
        make_snapshot(source, {GENERAL: {"best": (60.5 if source == HUB else 1500, facts)}}, crowd=99, age_hours=24)
    publication.publish(HUB)
    publication.publish(AA)
    publication.publish(ARENA)
    forget_pages()


def sums(reply):
    """Return the steps of the explanation: sum and result, by name."""
    steps = re.findall(
        r"<li><p><strong>([^<]+)</strong>(?: = <span class=\"sum\">([^<]+)</span>)?(?: = <strong>([^<]+)</strong>)?",
        html(reply),
    )
    return {name: (sum, result) for name, sum, result in steps}


def evaluate(sum):
    """Compute a sum that the page shows."""
    assert re.fullmatch(r"[\d.,×÷+() ]+", sum)
    return eval(sum.replace("×", "*").replace("÷", "/").replace(",", ""))  # noqa: S307  of digits and signs alone


def test_every_sum_of_an_explanation_gives_its_result(scored):
    entry = Entry.objects.get(source=INTERNAL, board=GENERAL, model="acme/best")
    steps = sums(get("/rankings/acme/best"))
    assert list(steps) == ["Overall", "Quality", "Coverage", "Adjusted quality", "Speed", "Cost", "Confidence"]
    words = re.search(r"<dt>Overall</dt>\s*<dd>([^,<]+×[^,<]+),", html(get()))[1]
    terms = {term: float(weight) for weight, term in re.findall(r"([\d.]+) × ([a-z ]+?)(?: \+|$)", words)}
    known = {term: float(result) for term in terms if (result := steps[term.capitalize()][1])}
    by_the_words = fsum(terms[term] * known[term] for term in known) / fsum(terms[term] for term in known)
    assert by_the_words == pytest.approx(entry.overall, abs=0.1)  # what the page of all models says of the formula
    for name in ("Overall", "Quality", "Coverage", "Adjusted quality", "Confidence"):
        sum, result = steps[name]
        assert evaluate(sum) == pytest.approx(float(result), abs=0.11), name
    assert steps["Overall"][1] == f"{entry.overall:.1f}"
    assert steps["Quality"][1] == f"{entry.quality:.1f}"
    assert steps["Cost"][1] == f"{entry.cost:.1f}"
    assert steps["Confidence"][1] == f"{entry.confidence:.2f}"
    assert steps["Coverage"] == ("1 ÷ 1", "1.00")
    assert steps["Speed"] == ("", "")


def test_each_landmark_of_a_model_has_a_name_of_its_own(scored):
    names = re.findall(r'<(?:section|nav|div)[^>]* aria-label(?:ledby)?="([^"]+)"', html(get("/rankings/acme/best")))
    assert "scores" in names
    assert len(names) == len(set(names))


def test_explanation_shows_what_each_source_says(scored):
    page = text(get("/rankings/acme/best"))
    assert "rank 1 of 100, at 1,500, as best ; percentile 99.5 confidence 1.00 × 0.92 × 0.95" in page
    assert "rank 39 of 100, at 60.5, as best ; percentile 61.5" in page
    assert "model matched: by hand" in page
    assert "by LMSYS_ARENA Counts in the quality." in page
    assert "(3 × $3.00 + $15.00) ÷ 4 = $6.00 per million tokens; the score is 100 at $0.10, 0 at $30.00" in page
    assert "Not measured yet." in page


def test_speed_names_its_source_and_number_of_streams(scored, alice):
    caller = alice, factories.make_key(alice)[0]
    for _ in range(2):
        streamed(caller, "acme/best", 500, 1500, 100)
    publication.publish(INTERNAL)
    show()
    reply = get("/rankings/acme/best")
    assert "50.0 tokens per second, 0.50 s to the first token; medians of 2 streams through this gateway" in text(reply).lower()
    sum, result = sums(reply)["Speed"]
    assert evaluate(sum) == pytest.approx(float(result), abs=0.11)
    assert "100 tokens" not in text(reply)  # no single completion is shown
    assert Completion.objects.count() == 2


def test_explanation_tells_a_missing_ranking_from_an_inapplicable_source(scored):
    page = text(get("/rankings/acme/other"))
    assert "LMArena weight 0.45 does not rank this model It ranks such models, so this lowers the coverage." in page
    assert (
        "Hugging Face weight 0.2 does not rank this model "
        "Does not count: it ranks too few models on this leaderboard, or none of this kind." in page
    )
    assert sums(get("/rankings/acme/other"))["Adjusted quality"] == ("(0.00 × 0.0 + 0.25 × 25) ÷ (0.00 + 0.25)", "25.0")


def test_the_page_of_a_model_begins_with_its_rank_among_how_many(scored):
    Entry.objects.filter(model="acme/best", source="INTERNAL", board="GENERAL").update(change=-2)
    show()
    assert "Rank on General 1 of 2, down 2 in a week Overall" in text(get("/rankings/acme/best"))
    assert re.search(r"Rank on General \d+ unchanged in a week", text(get("/rankings/acme/best", source="LMSYS_ARENA")))


def test_chosen_board_is_explained(scored):
    page = text(get("/rankings/acme/best", source="LMSYS_ARENA"))
    assert "Why this score: General, LMArena" in page
    assert sums(get("/rankings/acme/best", source="LMSYS_ARENA"))["Confidence"][0] == "1.00 × 0.92 × 0.95"
    assert "Why this score: Math, This gateway" in text(get("/rankings/acme/best", board="MATH"))
    assert "OpenRouter does not rank this model on this leaderboard." in text(get("/rankings/acme/best", source="OPENROUTER"))


def test_invalid_board_gets_the_api_message(scored):
    assert "board must be one of GENERAL, CODING" in text(get("/rankings/acme/best", board="x"), 400)


def test_benchmarks_are_cited(db):
    factories.make_model("openai/gpt-4.1")
    publication.publish(INTERNAL)
    page = html(get("/rankings/openai/gpt-4.1"))
    assert "MMLU" in page
    assert "90.2" in page
    assert 'href="https://github.com/openai/simple-evals/' in page


def test_model_page_leads_to_the_one_with_prices_and_back(scored):
    facts.forget()
    assert 'href="/models/acme/best"' in html(get("/rankings/acme/best"))
    assert 'href="/rankings/acme/best"' in html(get("/models/acme/best"))


def test_model_page_lists_its_current_aliases(scored):
    page = text(get("/rankings/acme/best"))
    assert "These IDs also call this model now: best/general" in page
    assert "cheapest/coding" not in page


def test_history_is_drawn_and_listed_by_day(scored):
    today = pool.database_time().date()
    place = {"source": INTERNAL, "board": GENERAL, "model_id": "acme/best"}
    rows = [(1, 4, 61.25), (2, 2, 70.0), (9, 8, None)]
    DailyRank.objects.filter(model="acme/best").delete()
    for ago, rank, overall in rows:
        DailyRank.objects.create(**place, day=today - timedelta(days=ago), rank=rank, overall=overall)
    DailyRank.objects.create(**{**place, "source": ARENA}, day=today - timedelta(days=3), rank=77)
    reply = get("/rankings/acme/best")
    [line] = re.findall(r'<polyline points="([^"]+)"', html(reply))
    (left, old), (middle, best), (right, last) = [tuple(map(float, pair.split(","))) for pair in line.split()]
    assert left < middle < right
    assert middle - left == pytest.approx(7 * (right - middle), abs=1)
    assert best < last < old  # the better the rank, the higher the point
    assert re.search(r"4 61\.\d .* 2 70\.0 .* 8 –", text(reply))
    assert "rank 77" not in text(reply)


def test_history_of_one_day_is_not_drawn(scored):
    assert "The history begins" in text(get("/rankings/acme/best"))
    assert "<polyline" not in html(get("/rankings/acme/best"))


def test_alias_redirects_to_its_current_model(scored):
    assert get("/rankings/best/general").headers["Location"] == "/rankings/acme/best"


@pytest.mark.parametrize(
    "path", ["/rankings/no/such", "/rankings/best/nothing", "/rankings/%3Cscript%3E", "/rankings/acme/off"]
)
def test_unknown_model_gives_404(listed, path):
    factories.make_model("acme/off", is_enabled=False)
    reply = get(path)
    assert "There is no model" in text(reply, 404)
    assert "<script>" not in html(reply, 404)
    assert reply["Cache-Control"] == "no-store"


MADE_UP = [
    "no/such",
    "x",
    "best/nothing",
    "best/general@2020-01-01",
    "a" * 2_000,
    "a/" * 99,
    "%F0%9F%98%80",
    "é",
    "ACME/ALPHA",
    " ",
]


def test_ids_without_end_cost_no_query_no_page_and_no_room(listed, django_assert_num_queries, monkeypatch):
    """Whoever makes them up must cost less than who reads."""
    for cache in (pages._facts, listing._published, listing._catalog):
        monkeypatch.setattr(cache, "_clock", lambda: 0.0)
    get("/rankings/no/such")
    with django_assert_num_queries(0):
        replies = [get(f"/rankings/{model_id}", board=CODING) for model_id in MADE_UP]
    assert [(reply.status_code, reply.templates) for reply in replies] == [(404, [])] * len(MADE_UP)
    assert len(public_page._pages) == 0


def test_model_that_is_added_is_shown_within_seconds(listed, monkeypatch):
    now = [0.0]
    for cache in (listing._published, listing._catalog):
        monkeypatch.setattr(cache, "_clock", lambda: now[0])
    forget()
    html(get("/rankings/new/one"), 404)
    factories.make_model("new/one")
    factories.make_model("new/unpriced").prices.all().delete()
    now[0] = 6.0
    assert [get(f"/rankings/{model_id}").status_code for model_id in ("new/one", "new/unpriced")] == [200, 200]


def test_model_without_a_provider_in_use_is_not_said_to_wait_for_a_key(listed):
    Provider.objects.update(is_enabled=False)
    show()
    page = text(get())
    assert "beta Acme Not available Details of beta ID acme/beta Copy Available Not available now" in page
    assert "Not available here yet" not in page


def test_page_of_a_model_that_cannot_be_called_says_so_beside_its_scores(listed):
    Provider.objects.update(is_enabled=False)
    show()
    page = text(get("/rankings/acme/alpha"))
    assert "Not available now: no provider of this model is available." in page
    assert "90.0" in page


def test_page_of_a_model_without_a_price_says_that_it_is_not_ranked(listed):
    LanguageModel.objects.get(pk="acme/alpha").prices.all().delete()
    show()
    page = text(get("/rankings/acme/alpha"))
    assert "Not available here yet: this model has no price, so it is not ranked either." in page
    assert "90.0" not in page


def test_markup_from_sources_and_catalog_is_escaped(db):
    evil = "<img src=x onerror=alert(1)>"
    list_model("acme/alpha", rank=1, quality=50.0, speed=50.0, model={"name": evil, "maker": evil, "license": evil})
    SourceState.objects.create(source=ARENA, error=evil)
    show()
    for path in ("/rankings", "/rankings/acme/alpha"):
        assert "<img src=x" not in html(get(path))


def test_address_with_a_slash_redirects_to_the_one_without(db):
    reply = get("/rankings/", category="CODING")
    assert (reply.status_code, reply.headers["Location"]) == (302, "/rankings?category=CODING")
