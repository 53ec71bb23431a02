"""The public rankings: what the list and a model's page say, to whom, and how they may be kept."""

import gzip
import re
from datetime import timedelta
from urllib.parse import parse_qsl, urlencode

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from completions.models import Category, Completion, LanguageModel, Provider, RoutableAlias, Route
from gateway_project.db import pool
from rankings.api import filters
from rankings.models import DailyRank, Entry, Profile, Source, SourceState
from rankings.pages import views as pages
from rankings.publishing import publication
from tests import factories
from tests.outage import where_the_database_is_away
from tests.pages.conftest import owner_of, signed_in
from tests.rankings.entries import forget, list_model, publish
from tests.rankings.snapshots import mean, say
from tests.rankings.streams import streamed

ARENA, HUB, AA, INTERNAL = Source.LMSYS_ARENA, Source.HUGGINGFACE, Source.ARTIFICIAL_ANALYSIS, Source.INTERNAL
GENERAL, CODING = Category.GENERAL, Category.CODING
INTERVAL = {"lower": 1495, "upper": 1503.5}


@pytest.fixture(autouse=True)
def _nothing_remembered(db):
    forget()
    pages.forget()


def show():
    publish()
    pages.forget()


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
        model={"name": "Alpha", "maker": "Acme", "commercial_use": True, "input": "0.15", "output": "0.60"},
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
    list_model("lab/gamma", rank=3, overall=60.0, model={"name": "Gamma", "maker": "Étoile Lab"})
    list_model("lab/delta", rank=4, overall=None, model={"name": "Delta", "maker": "Étoile Lab"})
    list_model("lab/gamma", rank=3, board=CODING, board_rank=1, overall=81.0)
    list_model("acme/alpha", rank=1, board=CODING, board_rank=2, overall=80.0)
    show()


def get(path="/rankings", **parameters):
    return Client().get(f"{path}?{urlencode(parameters)}" if parameters else path)


def html(reply, status=200):
    assert reply.status_code == status, reply.content
    return reply.content.decode()


def text(reply, status=200):
    """What the page says, without its markup."""
    return " ".join(re.sub(r"<[^>]+>", " ", html(reply, status)).replace("&#x27;", "'").split())


def models(reply):
    """The ids in the table, in its order."""
    return re.findall(r'<code id="id-\d+">([^<]+)</code>', html(reply))


def chosen(page, name):
    """Which option of a select is chosen."""
    [select] = re.findall(rf'<select id="{name}".*?</select>', page, re.DOTALL)
    return re.findall(r'<option value="([^"]*)" selected>', select)


def heading(page, title):
    """The link of a column's heading, and how the column is sorted."""
    [(attributes, href)] = re.findall(rf'<th([^>]*)><a href="([^"]*)">{title}\b', page)
    sorted_by = re.findall(r'aria-sort="(\w+)"', attributes)
    return href.replace("&amp;", "&"), sorted_by


# --- The list -----------------------------------------------------------------------------------------------------


def test_a_row_says_everything_of_a_model(listed):
    page = text(get())
    row = page[page.index("1 ▲") : page.index("2 ▼")]
    assert row.startswith(
        "1 ▲ up 2 Alpha Acme acme/alpha Copy 90.0 88.0 70.0 40.0 1480 0.66 $0.15 in $0.60 out 20 Nov 2026, 12:00 UTC"
    )
    assert "▼ down 3 beta" in page
    assert "– no change Gamma" in page


def test_what_nobody_has_measured_is_not_known_and_never_0(listed):
    page = text(get(search="delta"))
    assert "Delta Étoile Lab lab/delta Copy " + "– not known " * 5 + "0.50" in page


def test_the_page_lists_what_the_api_lists(listed):
    queries = ["", "search=LAB", "commercialOnly=true", "sortBy=name", "sortBy=score&sortOrder=desc", "limit=2&offset=1"]
    for query in [*queries, "sortBy=change&limit=3"]:
        given = dict(parse_qsl(query))
        said = Client().get("/api/rankings", given).json()
        assert models(get(**given)) == [entry["model"]["id"] for entry in said["rankings"]], query


def test_a_category_is_listed_as_it_is_ranked_there_unless_an_order_is_asked_for(listed):
    page = get(category=CODING)
    assert models(page) == ["lab/gamma", "acme/alpha"]
    assert "In coding" in text(page)
    assert models(get(category=CODING, sortBy="rank")) == ["acme/alpha", "lab/gamma"]


def test_the_json_of_a_list_has_the_same_order(listed):
    for given in ({}, {"category": "CODING"}, {"search": "a", "sortBy": "name", "sortOrder": "desc", "limit": "3"}):
        [address] = re.findall(r'<a href="(/api/rankings[^"]*)">as JSON', html(get(**given)))
        said = Client().get(address.replace("&amp;", "&")).json()
        assert [entry["model"]["id"] for entry in said["rankings"]] == models(get(**given))


def test_a_heading_sorts_and_then_turns_round(listed):
    page = html(get(search="a"))
    assert heading(page, "Rank") == ("/rankings?search=a&sortBy=rank&sortOrder=desc", ["ascending"])
    assert [heading(page, title)[1] for title in ("Change", "Model", "Overall")] == [[], [], []]
    href, _ = heading(page, "Overall")
    assert href == "/rankings?search=a&sortBy=score&sortOrder=desc"
    page = html(get(href))
    assert heading(page, "Overall") == ("/rankings?search=a&sortBy=score&sortOrder=asc", ["descending"])
    assert models(get(href)) == ["acme/alpha", "acme/beta", "lab/gamma", "lab/delta"]


def test_the_form_leads_to_a_short_address(listed):
    blank = {"source": "INTERNAL", "category": "GENERAL", "search": "", "sortBy": "", "sortOrder": "", "limit": "50"}
    assert get(**blank).headers["Location"] == "/rankings"
    asked = get(**{**blank, "category": "CODING", "search": " a&b ", "commercialOnly": "true"})
    assert asked.headers["Location"] == "/rankings?category=CODING&search=a%26b&commercialOnly=true"


@pytest.mark.parametrize(("sort", "order"), [("score", "desc"), ("change", "desc"), ("name", "asc")])
def test_an_order_that_nobody_chose_is_the_usual_one_of_the_column(listed, sort, order):
    address = get(sortBy=sort, sortOrder="").headers["Location"]
    assert address == f"/rankings?sortBy={sort}&sortOrder={order}"
    page = html(get(address))
    assert (chosen(page, "sortBy"), chosen(page, "sortOrder")) == ([sort], [""])


def test_the_form_shows_what_was_asked_for(listed):
    page = html(
        get(
            source="LMSYS_ARENA",
            category="MATH",
            search='"><b>',
            commercialOnly="true",
            sortBy="name",
            sortOrder="desc",
            limit=7,
        )
    )
    names = ("source", "category", "sortBy", "sortOrder", "limit")
    assert [chosen(page, name) for name in names] == [["LMSYS_ARENA"], ["MATH"], ["name"], ["desc"], ["7"]]
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


def test_an_offset_behind_the_end_leads_back_to_the_last_page(listed):
    page = get(limit=3, offset=900)
    assert "There is no row 901: this list has 4." in text(page)
    assert '<a href="/rankings?limit=3&amp;offset=3">Go to its last page</a>' in html(page)


# --- What is wrong with a request -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("source", "GOOGLE"),
        ("category", "coding"),
        ("search", "x" * (filters.SEARCH_CHARACTERS_MAX + 1)),
        ("commercialOnly", "yes"),
        ("sortBy", "price"),
        ("sortOrder", "up"),
        ("limit", "0"),
    ],
)
def test_a_wrong_parameter_is_told_beside_its_field_in_the_words_of_the_api(listed, name, value):
    reply = get(**{name: value, "unknown": "x"})
    message = Client().get("/api/rankings", {name: value}).json()["error"]["message"]
    page = html(reply, 400)
    [said] = re.findall(rf'id="{name}-error" role="alert">([^<]+)<', page)
    assert said == message.replace("'", "&#x27;")
    assert page.count('role="alert"') == page.count('aria-invalid="true"') == 1
    assert f'aria-describedby="{name}-error"' in page
    assert reply["Cache-Control"] == "no-store"


def test_a_wrong_parameter_without_a_field_is_told_above_the_form(listed):
    assert "offset must be an integer between 0 and 1000000." in text(get(offset="-1"), 400)


@pytest.mark.parametrize(
    "query", ["search=%00", "limit=%FF", "source=%F0%9F", "search=%ED%A0%80", "sortBy[]=x", "=", "&&&", "offset=٣", "%"]
)
def test_no_query_is_an_error_of_ours(listed, query):
    for path in ("/rankings", "/rankings/acme/alpha", "/rankings/no/such"):
        assert Client().get(f"{path}?{query}").status_code in (200, 302, 400, 404)


def test_a_post_is_refused(listed):
    before = list(Entry.objects.order_by("pk").values())
    assert Client().post("/rankings").status_code == 405
    assert list(Entry.objects.order_by("pk").values()) == before


# --- Whose page it is ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/rankings", "/rankings/acme/alpha"])
def test_a_page_is_the_same_for_everybody_and_may_be_kept(listed, alice, path):
    mine, anybodys = signed_in(owner_of(alice)).get(path), get(path)
    assert mine.content == anybodys.content
    for reply in (mine, anybodys):
        assert not reply.cookies
        assert reply["Vary"] == "Accept-Encoding"
        assert reply["Cache-Control"] == "public, max-age=60"
    assert "default-src 'self'" in anybodys["Content-Security-Policy"]


@pytest.mark.parametrize("path", ["/rankings", "/rankings/acme/alpha"])
def test_who_has_a_page_is_told_that_it_has_not_changed(listed, path):
    tag = get(path)["ETag"]
    again = Client().get(path, headers={"If-None-Match": tag})
    assert (again.status_code, again.content, again["ETag"]) == (304, b"", tag)
    Entry.objects.filter(model_id="acme/alpha").update(elo=1481, overall=91.0)
    show()
    assert Client().get(path, headers={"If-None-Match": tag}).status_code == 200


def test_who_takes_it_packed_gets_it_packed(listed):
    packed, plain = Client().get("/rankings", headers={"Accept-Encoding": "br, gzip"}), get()
    assert packed["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed.content) == plain.content
    assert len(packed.content) < len(plain.content) / 3
    assert packed["ETag"] != plain["ETag"]
    assert Client().get("/rankings", headers={"Accept-Encoding": "gzip", "If-None-Match": packed["ETag"]}).status_code == 304


@pytest.mark.parametrize("path", ["/rankings", "/rankings/acme/alpha"])
def test_a_page_that_was_asked_for_just_now_costs_no_query(listed, path, django_assert_num_queries):
    get(path)
    with django_assert_num_queries(0):
        html(get(path))


def test_a_list_takes_as_many_queries_for_many_models_as_for_few(listed):
    def queries():
        show()
        with CaptureQueriesContext(connection) as captured:
            html(get())
        return len(captured)

    few = queries()
    for number in range(20):
        list_model(f"more/{number}", rank=5 + number, quality=50.0)
    assert queries() == few


def test_what_is_published_is_shown_at_once(listed):
    get()
    list_model("new/best", rank=1)
    publish()
    assert "new/best" in models(get())


def test_pages_need_nothing_from_elsewhere_and_nothing_inline(listed):
    for path in ("/rankings", "/rankings/acme/alpha"):
        page = html(get(path))
        assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?! src=)", page)
        assert all(
            address.startswith("/static/") for address in re.findall(r'<(?:script|link|img)[^>]* (?:src|href)="([^"]+)"', page)
        )


def test_a_list_of_fifty_models_weighs_little(db):
    for number in range(60):
        list_model(f"acme/model-{number}", rank=number + 1, quality=99.0 - number, speed=50.0, cost=50.0, elo=1400)
    show()
    assert len(get().content) < 160_000


def test_without_a_database_what_was_read_is_shown_and_else_a_page_that_says_so(listed, settings):
    reply = where_the_database_is_away(lambda: get())
    assert "The rankings cannot be read at the moment." in text(reply, 503)
    assert reply["Retry-After"]
    get()
    assert models(where_the_database_is_away(lambda: get(search="gamma"))) == ["lab/gamma"]


# --- Nothing to show ----------------------------------------------------------------------------------------------


def test_an_empty_ranking_says_what_to_do(db):
    assert "manage.py refresh_rankings" in text(get())


def test_an_empty_source_leads_back_to_the_gateways_own(listed):
    assert "Hugging Face ranks none of this gateway's models here." in text(get(source="HUGGINGFACE"))


def test_a_search_that_finds_nothing_offers_to_clear_the_filters(listed):
    assert "No model matches. Clear the filters" in text(get(search="no such model"))


def test_models_that_wait_for_a_providers_key_are_counted_and_no_others(listed):
    later = Provider.objects.create(slug="later", kind="openai", api_key_env="NO_SUCH_KEY")
    factories.make_model("later/one", provider=later)
    assert "1 more model in the catalog has no provider with an API key." in text(get())
    factories.make_model("later/two", provider=later)
    factories.make_model("later/off", provider=later, is_enabled=False)
    factories.make_model("later/unpriced", provider=later).prices.all().delete()
    Route.objects.filter(model=factories.make_model("later/unrouted")).delete()
    off = Provider.objects.create(slug="off", kind="openai", api_key_env="NO_SUCH_KEY", is_enabled=False)
    factories.make_model("later/nowhere", provider=off)
    show()
    assert "2 more models in the catalog have no provider with an API key." in text(get())


def test_without_figures_there_is_nothing_to_draw_and_it_says_why(db):
    list_model("acme/alpha", rank=1)
    show()
    page = text(get())
    assert "No model of this list has both a quality score and a price" in page
    assert "No model of this list has both a quality score and a speed." in page


# --- Plots --------------------------------------------------------------------------------------------------------


def points(page, number):
    """Of the page's plot: the title of each point, and where it is."""
    drawing = re.findall(r"<svg.*?</svg>", page, re.DOTALL)[number]
    found = re.findall(r'href="([^"]+)"[^>]*><title>([^<]+)</title><circle cx="([\d.]+)" cy="([\d.]+)"', drawing)
    return {title: (href, float(left), float(top)) for href, title, left, top in found}


def test_quality_is_drawn_against_price_on_a_logarithmic_scale(db):
    for number, (price, quality) in enumerate([("0", 50.0), ("0.10", 60.0), ("1.00", 80.0), ("10.00", 90.0)]):
        list_model(
            f"acme/m{number}", rank=number + 1, quality=quality, model={"name": f"M{number}", "input": price, "output": price}
        )
    list_model("acme/untested", rank=9)
    show()
    page = html(get())
    found = points(page, 0)
    assert list(found) == [
        "M0: quality 50.0, price $0.00",
        "M1: quality 60.0, price $0.10",
        "M2: quality 80.0, price $1.00",
        "M3: quality 90.0, price $10.00",
    ]
    (_, free, low), (_, dime, _), (href, dollar, higher), (_, ten, _) = found.values()
    assert href == "/rankings/acme/m2"
    assert free < dime < dollar < ten
    assert ten - dollar == pytest.approx(dollar - dime, abs=0.2)
    assert low > higher  # the better, the higher
    assert ">free</text>" in page
    assert "The table below has every figure and link." in page


def test_speed_is_drawn_against_quality(listed):
    assert list(points(html(get()), 1)) == ["Alpha: speed 70.0, quality 88.0"]


def test_plots_are_of_the_whole_list_and_follow_its_filters(listed):
    assert len(points(html(get(limit=1)), 0)) == 2
    assert list(points(html(get(search="beta")), 0)) == ["beta: quality 60.0, price $6.00"]


def test_no_label_lies_on_another(db):
    for number in range(40):
        list_model(f"acme/m{number}", rank=number + 1, quality=80.0 + number % 7, model={"name": f"A model called {number}"})
    show()
    drawing = re.findall(r"<svg.*?</svg>", html(get()), re.DOTALL)[0]
    shown = re.findall(r'class="point" .*?<text x="([\d.]+)" y="([\d.]+)" text-anchor="(\w+)">([^<]+)<', drawing)
    assert 0 < len(shown) < 40
    assert drawing.count("A model called") == 2 * 40  # each has its title, and its label for who points at it
    boxes = []
    for x, y, anchor, name in shown:
        width = 6 * len(name)
        left = float(x) - {"start": 0, "middle": width / 2, "end": width}[anchor]
        boxes.append((left, float(y) - 9, left + width, float(y)))
    for number, one in enumerate(boxes):
        for other in boxes[number + 1 :]:
            assert one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]


# --- Sources and method -------------------------------------------------------------------------------------------


def test_every_source_says_how_it_fares_and_why(listed):
    now = pool.database_time()
    SourceState.objects.create(source=INTERNAL, last_success_at=now)
    SourceState.objects.create(source=ARENA, last_success_at=now - timedelta(days=1), failures=5, error="timed <out>")
    pages.forget()
    page = text(get())
    assert "This gateway healthy Last computed" in page
    assert "LMArena unhealthy Failed 5 times in a row: timed &lt;out&gt;. Last read" in page
    assert "Hugging Face unhealthy Never read." in page
    assert "Artificial Analysis off GATEWAY_AA_API_KEY is not set." in page
    assert "OpenRouter off GATEWAY_OPENROUTER_API_KEY is not set." in page


def test_what_is_shown_of_a_source_is_credited_with_its_licence(listed, settings):
    say(ARENA, {GENERAL: {"best": 1500}})
    say(AA, {GENERAL: {"best": 50}})
    pages.forget()
    page = html(get())
    assert 'href="https://huggingface.co/datasets/lmarena-ai/leaderboard-dataset"' in page
    assert 'by LMSYS_ARENA <a href="https://creativecommons.org/licenses/by/4.0/" rel="license' in page
    assert "by ARTIFICIAL_ANALYSIS" not in page  # nothing of it is shown without a key
    settings.RANKINGS_AA_API_KEY = "a-key"
    show()
    page = html(get())
    assert "by ARTIFICIAL_ANALYSIS" in page
    assert 'href="https://artificialanalysis.ai"' in page
    assert "a-key" not in page


def test_the_method_is_told_with_the_weights_in_force(listed, settings):
    page = text(get())
    assert "internal-1 , with the weights below" in page
    assert "0.7 × quality + 0.15 × speed + 0.15 × cost" in page
    assert "LMArena 0.45, Artificial Analysis 0.35, Hugging Face 0.2" in page
    settings.RANKINGS_SCORE_WEIGHTS = {"quality": 0.6, "speed": 0.1, "cost": 0.3}
    show()
    page = text(get())
    assert "0.6 × quality + 0.1 × speed + 0.3 × cost" in page
    assert "internal-1, with parameters of this gateway's own" in page


def test_ids_that_follow_the_ranking_are_told_with_whom_they_stand_for(listed):
    RoutableAlias.objects.create(id="best/coding", model_ids=["gone/model", "lab/gamma", "acme/alpha"])
    RoutableAlias.objects.create(id="best/general", model_ids=["acme/alpha"])
    RoutableAlias.objects.create(id="house/favourite", model_ids=["acme/alpha"])
    show()
    page = text(get(category=CODING))
    assert "best/coding now lab/gamma" in page
    assert "best/general" not in page
    assert "house/favourite" not in page


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
        mean(source, "best", "acme/best", confidence=0.9 if source == AA else 1.0)
        facts = INTERVAL if source == ARENA else {}
        say(source, {GENERAL: {"best": (60.5 if source == HUB else 1500, facts)}}, crowd=99, age_hours=24)
    publication.publish(HUB)
    publication.publish(AA)
    publication.publish(ARENA)
    pages.forget()


def sums(reply):
    """The explanation: each step as name, sum and result."""
    steps = re.findall(
        r"<li><p><strong>([^<]+)</strong>(?: = <span class=\"sum\">([^<]+)</span>)?(?: = <strong>([^<]+)</strong>)?",
        html(reply),
    )
    return {name: (sum, result) for name, sum, result in steps}


def done(sum):
    """What a sum comes to, done again."""
    assert re.fullmatch(r"[\d.,×÷+() ]+", sum)
    return eval(sum.replace("×", "*").replace("÷", "/").replace(",", ""))  # noqa: S307  of digits and signs alone


def test_every_sum_of_an_explanation_comes_out_as_it_says(scored):
    entry = Entry.objects.get(source=INTERNAL, board=GENERAL, model="acme/best")
    told = sums(get("/rankings/acme/best"))
    assert list(told) == ["Overall", "Quality", "Coverage", "Adjusted quality", "Speed", "Cost", "Confidence"]
    for name in ("Overall", "Quality", "Coverage", "Adjusted quality", "Confidence"):
        sum, result = told[name]
        assert done(sum) == pytest.approx(float(result), abs=0.11), name
    assert told["Overall"][1] == f"{entry.overall:.1f}"
    assert told["Quality"][1] == f"{entry.quality:.1f}"
    assert told["Cost"][1] == f"{entry.cost:.1f}"
    assert told["Confidence"][1] == f"{entry.confidence:.2f}"
    assert told["Coverage"] == ("1 ÷ 1", "1.00")
    assert told["Speed"] == ("", "")


def test_an_explanation_goes_down_to_what_the_sources_said(scored):
    page = text(get("/rankings/acme/best"))
    assert "rank 1 of 100, at 1,500, as best ; percentile 99.5 confidence 1.00 × 0.92 × 0.95" in page
    assert "rank 39 of 100, at 60.5, as best ; percentile 61.5" in page
    assert "model matched: by hand" in page
    assert "by LMSYS_ARENA Counts in the quality." in page
    assert "(3 × $3.00 + $15.00) ÷ 4 = $6.00 per million tokens; the score is 100 at $0.10, 0 at $30.00" in page
    assert "Not measured yet." in page


def test_a_speed_says_who_measured_it_and_how_often(scored, alice):
    caller = alice, factories.make_key(alice)[0]
    for _ in range(2):
        streamed(caller, "acme/best", 500, 1500, 100)
    publication.publish(INTERNAL)
    show()
    reply = get("/rankings/acme/best")
    assert "50.0 tokens per second, 0.50 s to the first token; medians of 2 streams through this gateway" in text(reply).lower()
    sum, result = sums(reply)["Speed"]
    assert done(sum) == pytest.approx(float(result), abs=0.11)
    assert "100 tokens" not in text(reply)  # of single completions nothing is told
    assert Completion.objects.count() == 2


def test_a_source_that_could_say_something_and_does_not_is_told_from_one_that_could_not(scored):
    page = text(get("/rankings/acme/other"))
    assert "LMArena weight 0.45 does not rank this model It ranks such models, so this lowers the coverage." in page
    assert (
        "Hugging Face weight 0.2 does not rank this model "
        "Does not count: it ranks too few models of this category, or none of this kind." in page
    )
    assert sums(get("/rankings/acme/other"))["Adjusted quality"] == ("(0.00 × 0.0 + 0.25 × 25) ÷ (0.00 + 0.25)", "25.0")


def test_the_board_that_is_asked_for_is_explained(scored):
    page = text(get("/rankings/acme/best", source="LMSYS_ARENA"))
    assert "Why this score: General, by LMArena" in page
    assert sums(get("/rankings/acme/best", source="LMSYS_ARENA"))["Confidence"][0] == "1.00 × 0.92 × 0.95"
    assert "Why this score: Math, by This gateway" in text(get("/rankings/acme/best", category="MATH"))
    assert "OpenRouter does not rank this model in this category." in text(get("/rankings/acme/best", source="OPENROUTER"))


def test_a_wrong_board_is_refused_in_the_words_of_the_api(scored):
    assert "category must be one of GENERAL, CODING" in text(get("/rankings/acme/best", category="x"), 400)


def test_benchmarks_are_cited(db):
    factories.make_model("openai/gpt-4.1")
    publication.publish(INTERNAL)
    page = html(get("/rankings/openai/gpt-4.1"))
    assert "MMLU" in page
    assert "90.2" in page
    assert 'href="https://github.com/openai/simple-evals/' in page


def test_a_models_page_says_what_it_can_what_it_costs_and_how_to_call_it(scored, settings):
    settings.GATEWAY_API_HOST = "api.example.org"
    page = text(get("/rankings/acme/best"))
    facts = [
        "Id acme/best",
        "Provider Acme",
        "Context window 128,000 tokens",
        "Maximum output 4,096 tokens",
        "Images yes",
        "Function calling no",
        "Licence MIT",
        "Input $3.00 per million tokens",
        "Output $15.00 per million tokens",
    ]
    for fact in facts:
        assert fact in page
    assert "curl http://api.example.org/v1/chat/completions" in page
    assert '"model": "acme/best"' in page.replace("&quot;", '"')


def test_a_models_page_names_the_ids_that_stand_for_it(scored):
    page = text(get("/rankings/acme/best"))
    assert "These ids also call this model now: best/general" in page
    assert "cheapest/coding" not in page


def test_history_is_drawn_and_told_day_by_day(scored):
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


def test_a_history_of_one_day_says_that_it_begins(scored):
    assert "The history begins" in text(get("/rankings/acme/best"))
    assert "<polyline" not in html(get("/rankings/acme/best"))


def test_an_alias_leads_to_the_model_that_it_stands_for(scored):
    assert get("/rankings/best/general").headers["Location"] == "/rankings/acme/best"


@pytest.mark.parametrize(
    "path", ["/rankings/no/such", "/rankings/best/nothing", "/rankings/%3Cscript%3E", "/rankings/acme/off"]
)
def test_a_model_that_is_not_there_is_a_missing_page(listed, path):
    factories.make_model("acme/off", is_enabled=False)
    reply = get(path)
    assert "There is no model" in text(reply, 404)
    assert "<script>" not in html(reply, 404)
    assert reply["Cache-Control"] == "no-store"


def test_a_model_that_cannot_be_called_now_says_so_and_is_not_ranked(listed):
    Provider.objects.update(is_enabled=False)
    show()
    page = text(get("/rankings/acme/alpha"))
    assert "This model cannot be called now" in page
    assert "90.0" not in page
    assert LanguageModel.objects.filter(pk="acme/alpha").exists()


def test_what_a_source_or_the_catalog_says_is_text(db):
    evil = "<img src=x onerror=alert(1)>"
    list_model("acme/alpha", rank=1, quality=50.0, speed=50.0, model={"name": evil, "maker": evil, "license": evil})
    SourceState.objects.create(source=ARENA, error=evil)
    show()
    for path in ("/rankings", "/rankings/acme/alpha"):
        assert "<img" not in html(get(path))


def test_the_address_with_a_slash_leads_to_the_one_without(db):
    reply = get("/rankings/", category="CODING")
    assert (reply.status_code, reply.headers["Location"]) == (302, "/rankings?category=CODING")
