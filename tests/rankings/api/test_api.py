"""GET /api/rankings: every field, every parameter, alone and combined; caching and ETags."""

import itertools
import re
from datetime import UTC, datetime, timedelta

import pytest
from django.db import OperationalError, connection

from completions.models import Category, LanguageModel, Provider, Route
from rankings.api import filters, replies
from rankings.api.filters import RankingsQuery
from rankings.models import Publication, Snapshot, Source
from rankings.publishing import health, listing
from rankings.sources import registry
from tests import factories
from tests.chat import assert_error
from tests.conftest import client_for
from tests.rankings import snapshots
from tests.rankings.entries import UPDATED, forget, list_model, publish

PATH = "/api/rankings"
ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


@pytest.fixture(autouse=True)
def _empty_caches(db):
    forget()


@pytest.fixture
def listed(db):
    """Five models on the general board, four of them on the coding one, and two of another source."""
    list_model(
        "acme/alpha",
        rank=1,
        change=0,
        overall=90.04,
        quality=88.0,
        speed=70.0,
        cost=40.0,
        elo=1480,
        mmlu=86.4,
        human_eval=92.0,
        confidence=0.664,
        model={
            "name": "Alpha",
            "maker": "Acme",
            "context_window": 200_000,
            "image_support": True,
            "function_calling": True,
            "commercial_use": True,
            "license": "Proprietary",
        },
    )
    beta = {"name": "beta", "maker": "Acme", "commercial_use": True, "category": "CODING", "input": "3.00", "output": "15.00"}
    list_model("acme/beta", rank=2, change=3, overall=70.0, model=beta)
    gamma = {"name": "Gamma", "maker": "Étoile Lab", "category": "CODING"}
    list_model("lab/gamma", rank=3, change=-1, overall=70.0, model=gamma)
    list_model(
        "lab/delta",
        rank=4,
        change=-2,
        overall=None,
        model={"name": "Delta", "maker": "Étoile Lab", "input": "0.01", "output": "0.05"},
    )
    list_model("zed/epsilon", rank=5, change=0, overall=10.0, model={"name": "100% Epsilon", "maker": "Zed"})
    list_model("lab/gamma", rank=3, board="CODING", board_rank=1, overall=81.0)
    list_model("acme/alpha", rank=1, board="CODING", board_rank=2, overall=80.0)
    list_model("acme/beta", rank=2, board="CODING", board_rank=3, overall=79.0)
    list_model("zed/epsilon", rank=5, board="CODING", board_rank=4, overall=5.0)
    list_model("acme/beta", rank=17, source=Source.LMSYS_ARENA, elo=1401, overall=66.0, quality=66.0)
    list_model("lab/gamma", rank=17, source=Source.LMSYS_ARENA, elo=1401, overall=66.0, quality=66.0)
    publish()


def get(**parameters):
    return client_for(None).get(PATH, parameters)


def ids(reply):
    assert reply.status_code == 200, reply.content
    return [entry["model"]["id"] for entry in reply.json()["rankings"]]


# --- The reply ----------------------------------------------------------------------------------------------------


def test_entry_has_every_field_of_the_specification(listed):
    asked_at = datetime.now(UTC)
    body = get().json()
    answered_at = datetime.now(UTC)
    assert list(body) == ["rankings", "pagination", "sources", "timestamp"]
    first = body["rankings"][0]
    age_hours = first["metadata"].pop("dataFreshnessHours")
    assert first == {
        "rank": 1,
        "categoryRank": 1,
        "change": 0,
        "model": {
            "id": "acme/alpha",
            "name": "Alpha",
            "provider": "Acme",
            "category": "GENERAL",
            "contextWindow": 200_000,
            "imageSupport": True,
            "functionCalling": True,
            "commercialUse": True,
            "license": "Proprietary",
        },
        "scores": {
            "overall": 90.0,
            "quality": 88.0,
            "speed": 70.0,
            "cost": 40.0,
            "elo": 1480,
            "benchmarks": {"mmlu": 86.4, "hellaswag": None, "humanEval": 92.0},
        },
        "metadata": {"confidence": 0.66, "available": True, "lastUpdated": "2026-11-20T12:00:00.000Z"},
    }
    now = datetime.fromisoformat(body["timestamp"])
    assert ISO.fullmatch(body["timestamp"])
    assert asked_at - timedelta(seconds=replies.STEP_SECONDS) <= now <= answered_at
    assert age_hours == pytest.approx((now - UPDATED).total_seconds() / 3600, abs=0.06)


def test_unmeasured_scores_are_null_and_never_0(listed):
    scores = get(search="delta").json()["rankings"][0]["scores"]
    assert scores == {
        "overall": None,
        "quality": None,
        "speed": None,
        "cost": None,
        "elo": None,
        "benchmarks": {"mmlu": None, "hellaswag": None, "humanEval": None},
    }


def test_reply_always_lists_all_five_sources_in_order(listed):
    for parameters in ({}, {"source": "OPENROUTER"}, {"search": "nothing such"}):
        sources = get(**parameters).json()["sources"]
        assert [item["source"] for item in sources] == list(Source.values)
        assert all(set(item) == {"source", "isHealthy", "lastSyncAt"} for item in sources)
        assert [(item["isHealthy"], item["lastSyncAt"]) for item in sources] == [(False, None)] * 5  # none was ever read


def test_every_listed_id_can_be_called(listed, alice):
    _, secret = factories.make_key(alice)
    client = client_for(secret)
    for model_id in ids(get()):
        body = {"model": model_id, "messages": [{"role": "user", "content": "Hello"}], "max_tokens": 5}
        assert client.post("/v1/chat/completions", body).json()["model"] == model_id


@pytest.mark.parametrize("change", ["disabled", "unpriced"])
def test_model_that_is_not_offered_is_not_listed(listed, change):
    if change == "disabled":
        LanguageModel.objects.filter(pk="acme/beta").update(is_enabled=False)
    else:
        LanguageModel.objects.get(pk="acme/beta").prices.all().delete()
    publish()
    reply = get()
    assert "acme/beta" not in ids(reply)
    assert reply.json()["pagination"]["total"] == 4


UNAVAILABLE = {
    "no key": lambda: Provider.objects.filter(pk="other").update(api_key_env="NO_SUCH_KEY"),
    "provider disabled": lambda: Provider.objects.filter(pk="other").update(is_enabled=False),
    "route disabled": lambda: Route.objects.filter(model="acme/beta").update(is_enabled=False),
    "no route": lambda: Route.objects.filter(model="acme/beta").delete(),
}


@pytest.mark.parametrize("change", UNAVAILABLE)
def test_model_that_cannot_be_called_is_listed_as_such(listed, change):
    LanguageModel.objects.get(pk="acme/beta").routes.update(provider=factories.make_provider("other"))
    UNAVAILABLE[change]()
    publish()
    everything = get()
    assert len(ids(everything)) == 5
    called = {entry["model"]["id"]: entry["metadata"]["available"] for entry in everything.json()["rankings"]}
    assert [model_id for model_id, is_available in called.items() if not is_available] == ["acme/beta"]
    only = get(availableOnly="true")
    assert ids(only) == ["acme/alpha", "lab/gamma", "lab/delta", "zed/epsilon"]
    assert [entry["rank"] for entry in only.json()["rankings"]] == [1, 3, 4, 5]  # that of the whole list
    assert ids(get(availableOnly="false")) == ids(everything)


def test_model_that_can_be_called_again_is_listed_as_such_without_a_publication(listed, now, monkeypatch):
    other = factories.make_provider("other", kind="openai", base_url="http://127.0.0.1:9", api_key_env="SOME_API_KEY")
    Route.objects.filter(model="acme/beta").update(provider=other)
    assert [entry["metadata"]["available"] for entry in get(search="beta").json()["rankings"]] == [False]
    monkeypatch.setenv("SOME_API_KEY", "sk-1")
    listing._catalog.clear()  # it is read again every few seconds
    now["seconds"] += 1.1
    assert [entry["metadata"]["available"] for entry in get(search="beta").json()["rankings"]] == [True]


def test_list_is_empty_before_the_first_publication(db):
    body = get().json()
    assert (body["rankings"], body["pagination"]) == ([], {"total": 0, "limit": 50, "offset": 0, "hasMore": False})


# --- Parameters ---------------------------------------------------------------------------------------------------


def test_source_has_its_own_ranks(listed):
    entry, _ = get(source="LMSYS_ARENA").json()["rankings"]
    assert (entry["rank"], entry["model"]["id"], entry["scores"]["elo"]) == (17, "acme/beta", 1401)


def ranked(**parameters):
    """Return id, rank and rank in its category of each entry."""
    entries = get(**parameters).json()["rankings"]
    return [(entry["model"]["id"], entry["rank"], entry["categoryRank"]) for entry in entries]


def test_category_is_a_property_of_the_model(listed, api):
    listed_models = {model["id"]: model["category"] for model in api.get("/v1/models").json()["data"]}
    for parameters in ({}, {"category": "CODING"}, {"board": "CODING"}, {"source": "LMSYS_ARENA"}):
        for entry in get(**parameters).json()["rankings"]:
            assert entry["model"]["category"] == listed_models[entry["model"]["id"]]


def test_without_a_category_every_model_is_listed_with_its_rank_in_its_own(listed):
    assert ranked() == [
        ("acme/alpha", 1, 1),
        ("acme/beta", 2, 1),
        ("lab/gamma", 3, 2),
        ("lab/delta", 4, 2),
        ("zed/epsilon", 5, 3),
    ]


def test_category_filters_by_the_category_of_the_model(listed, subtests):
    everything = get().json()["rankings"]
    for category in Category.values:
        with subtests.test(category):
            of_category = [entry for entry in everything if entry["model"]["category"] == category]
            body = get(category=category).json()
            assert body["rankings"] == of_category  # with the ranks, scores and changes of the whole list
            assert body["pagination"]["total"] == len(of_category)
            assert [entry["categoryRank"] for entry in of_category] == list(range(1, len(of_category) + 1))


def test_board_is_another_leaderboard_of_all_models(listed, now):
    assert ranked(board="CODING") == [("lab/gamma", 1, 1), ("acme/alpha", 2, 1), ("acme/beta", 3, 2), ("zed/epsilon", 4, 2)]
    assert [entry["scores"]["overall"] for entry in get(board="CODING").json()["rankings"]] == [81.0, 80.0, 79.0, 5.0]
    assert get(board="GENERAL").content == get().content


def test_board_and_category_and_the_other_parameters_combine(listed):
    assert ranked(board="CODING", category="CODING") == [("lab/gamma", 1, 1), ("acme/beta", 3, 2)]
    assert ranked(board="CODING", category="CODING", commercialOnly="true") == [("acme/beta", 3, 2)]
    assert ranked(board="CODING", search="acme", sortOrder="desc") == [("acme/beta", 3, 2), ("acme/alpha", 2, 1)]
    assert ranked(board="CODING", category="MATH") == []


def test_equal_ranks_of_a_source_are_equal_in_their_category(listed):
    list_model("new/model", rank=18, source=Source.LMSYS_ARENA, model={"category": "CODING"})
    publish()
    assert ranked(source="LMSYS_ARENA") == [("acme/beta", 17, 1), ("lab/gamma", 17, 1), ("new/model", 18, 3)]
    assert ranked(source="LMSYS_ARENA", category="CODING") == ranked(source="LMSYS_ARENA")


def test_board_that_a_source_lacks_gives_an_empty_list(listed):
    body = get(source="OPENROUTER", board="MATH").json()
    assert (body["rankings"], body["pagination"]["total"]) == ([], 0)


SORTED = [
    ("rank", "asc", ["acme/alpha", "acme/beta", "lab/gamma", "lab/delta", "zed/epsilon"]),
    ("rank", "desc", ["zed/epsilon", "lab/delta", "lab/gamma", "acme/beta", "acme/alpha"]),
    ("score", "asc", ["zed/epsilon", "acme/beta", "lab/gamma", "acme/alpha", "lab/delta"]),  # without a score: last
    ("score", "desc", ["acme/alpha", "acme/beta", "lab/gamma", "zed/epsilon", "lab/delta"]),
    ("name", "asc", ["zed/epsilon", "acme/alpha", "acme/beta", "lab/delta", "lab/gamma"]),  # ignoring case
    ("name", "desc", ["lab/gamma", "lab/delta", "acme/beta", "acme/alpha", "zed/epsilon"]),
    ("change", "asc", ["lab/delta", "lab/gamma", "acme/alpha", "zed/epsilon", "acme/beta"]),  # ties by id
    ("change", "desc", ["acme/beta", "acme/alpha", "zed/epsilon", "lab/gamma", "lab/delta"]),
    ("quality", "desc", ["acme/alpha", "acme/beta", "lab/delta", "lab/gamma", "zed/epsilon"]),  # unmeasured: last
    ("speed", "asc", ["acme/alpha", "acme/beta", "lab/delta", "lab/gamma", "zed/epsilon"]),
    ("price", "asc", ["lab/delta", "acme/alpha", "lab/gamma", "zed/epsilon", "acme/beta"]),
    ("price", "desc", ["acme/beta", "acme/alpha", "lab/gamma", "zed/epsilon", "lab/delta"]),
    ("context", "desc", ["acme/alpha", "acme/beta", "lab/delta", "lab/gamma", "zed/epsilon"]),
]


def test_sort_order_is_total_and_stable(listed, subtests):
    for sort, order, expected in SORTED:
        with subtests.test(f"{sort} {order}"):
            assert ids(get(sortBy=sort, sortOrder=order)) == expected


FOUND = [
    ("ALPHA", ["acme/alpha"]),
    ("acme", ["acme/alpha", "acme/beta"]),  # the provider
    ("étoile", ["lab/gamma", "lab/delta"]),
    ("LAB/g", ["lab/gamma"]),  # the id
    ("100%", ["zed/epsilon"]),
    ("%", ["zed/epsilon"]),
    ("_", []),
    ("  beta ", ["acme/beta"]),
    ("", ["acme/alpha", "acme/beta", "lab/gamma", "lab/delta", "zed/epsilon"]),
    ("nothing such", []),
]


def test_search_matches_names_providers_and_ids_in_any_case(listed, subtests):
    for search, expected in FOUND:
        with subtests.test(search):
            assert ids(get(search=search)) == expected


def test_commercial_only_keeps_models_with_commercial_use(listed):
    assert ids(get(commercialOnly="true")) == ["acme/alpha", "acme/beta"]
    assert ids(get(commercialOnly="false")) == ids(get())


FILTERED = [
    ({"provider": "acme"}, ["acme/alpha", "acme/beta"]),
    ({"provider": "ÉTOILE LAB"}, ["lab/gamma", "lab/delta"]),
    ({"provider": "Étoile"}, []),  # the whole name
    ({"imagesOnly": "true"}, ["acme/alpha"]),
    ({"toolsOnly": "true"}, ["acme/alpha"]),
    ({"contextMin": "200000"}, ["acme/alpha"]),
    ({"contextMin": "200001"}, []),
    ({"priceMaxInCents": "2"}, ["lab/delta"]),  # (3 x $0.01 + $0.05) / 4 = $0.02
    ({"priceMaxInCents": "1"}, []),
    ({"priceMaxInCents": "599"}, ["acme/alpha", "lab/gamma", "lab/delta", "zed/epsilon"]),  # beta costs $6
    ({"priceMaxInCents": "600", "provider": "Acme", "sortBy": "price"}, ["acme/alpha", "acme/beta"]),
    ({"imagesOnly": "false", "toolsOnly": "false", "contextMin": "0", "provider": "Zed"}, ["zed/epsilon"]),
]


def test_models_are_filtered_by_what_the_catalog_says_of_them(listed, subtests):
    for parameters, expected in FILTERED:
        with subtests.test(str(parameters)):
            reply = get(**parameters)
            assert ids(reply) == expected
            assert reply.json()["pagination"]["total"] == len(expected)


def test_total_and_has_more_follow_the_filters(listed):
    body = get(search="lab", limit=1).json()
    assert body["pagination"] == {"total": 2, "limit": 1, "offset": 0, "hasMore": True}
    body = get(search="lab", limit=1, offset=1).json()
    assert body["pagination"] == {"total": 2, "limit": 1, "offset": 1, "hasMore": False}
    body = get(search="lab", limit=1, offset=2).json()
    assert (body["rankings"], body["pagination"]["hasMore"]) == ([], False)


def test_pages_partition_the_list_under_every_order_and_filter(listed):
    for sort, order, commercial, search in itertools.product(
        ("rank", "score", "name", "change"), ("asc", "desc"), ("true", "false"), ("", "a")
    ):
        given = {"sortBy": sort, "sortOrder": order, "commercialOnly": commercial, "search": search}
        pages = [ids(get(**given, limit=2, offset=offset)) for offset in range(0, 6, 2)]
        assert sum(pages, []) == ids(get(**given))


def test_filters_commute(listed):
    for search in ("a", "acme", "e"):
        both = ids(get(search=search, commercialOnly="true"))
        assert both == [each for each in ids(get(search=search)) if each in ids(get(commercialOnly="true"))]


INVALID = [
    ("source", "internal", "must be one of INTERNAL, LMSYS_ARENA"),
    ("source", "", "must not be empty"),
    ("category", "general", "must be one of GENERAL, CODING"),
    ("board", "general", "must be one of GENERAL, CODING"),
    ("board", "", "must not be empty"),
    ("availableOnly", "yes", "must be true or false"),
    ("limit", "0", "must be an integer between 1 and 100"),
    ("limit", "101", "must be an integer between 1 and 100"),
    ("limit", "-1", "must be an integer"),
    ("limit", "ten", "must be an integer"),
    ("limit", "5.0", "must be an integer"),
    ("limit", " 5", "must be an integer"),
    ("limit", "٥", "must be an integer"),
    ("limit", "", "must not be empty"),
    ("limit", "9" * 400, "must be an integer"),
    ("offset", "-1", "must be an integer between 0 and 1000000"),
    ("offset", "1000001", "must be an integer between 0 and 1000000"),
    ("sortBy", "elo", "must be one of rank, score, name, change, quality, speed, price, context"),
    ("imagesOnly", "yes", "must be true or false"),
    ("toolsOnly", "", "must not be empty"),
    ("contextMin", "128k", "must be an integer between 0 and 1000000000"),
    ("priceMaxInCents", "0.5", "must be an integer between 0 and 1000000000"),
    ("provider", "x" * 201, "at most 200 characters"),
    ("sortOrder", "ascending", "must be one of asc, desc"),
    ("search", "x" * 201, "at most 200 characters"),
    ("search", "a\x00b", "must not contain NUL characters"),
    ("commercialOnly", "yes", "must be true or false"),
    ("commercialOnly", "", "must not be empty"),
]


def test_invalid_parameter_is_named(db, subtests):
    for name, value, says in INVALID:
        with subtests.test(f"{name}={value[:20]!r}"):
            error = assert_error(get(**{name: value}), 400, "invalid_request_error", name)
            assert error["message"].startswith(name)
            assert says in error["message"]


def test_unknown_parameters_are_ignored(listed, now):
    assert get(utm_source="x").content == get().content
    assert list(cached_replies()) == [RankingsQuery()]


def test_no_key_is_required_and_an_invalid_one_is_ignored(listed, now):
    assert client_for("mgw_live_nonsense").get(PATH).content == get().content


def test_other_methods_are_refused_as_json(db):
    assert_error(client_for(None).post(PATH, {}), 405, "invalid_request_error")


def cached_replies():
    """The replies of the present step and publication, by query."""
    [entry] = replies._batches._entries.values()
    return entry.value.replies


# --- Caching ------------------------------------------------------------------------------------------------------


@pytest.fixture
def now(monkeypatch):
    """A clock that the test sets, in seconds since the epoch: of the replies and of what they are read from."""
    clock = {"seconds": 1_800_000_000.0}
    monkeypatch.setattr("rankings.api.views.time.time", lambda: clock["seconds"])
    for cache in (listing._published, listing._catalog, replies._batches):
        monkeypatch.setattr(cache, "_clock", lambda: clock["seconds"])
    return clock


def test_reply_is_publicly_cacheable_for_at_most_an_hour(listed):
    reply = get()
    cache = re.fullmatch(r"public, max-age=(\d+)", reply["Cache-Control"])
    assert cache
    assert 0 < int(cache[1]) <= 3600
    assert "Vary" not in reply
    assert "Set-Cookie" not in reply
    assert reply["Content-Type"] == "application/json"
    assert "license" in reply["Link"]


@pytest.mark.parametrize("source", ["OPENROUTER", "LMSYS_ARENA", "HUGGINGFACE"])
def test_the_source_is_cited_with_the_reply_and_with_304(listed, settings, source):
    settings.RANKINGS_OPENROUTER_API_KEY = "a-key"
    snapshot = snapshots.make_snapshot(source, {})
    Snapshot.objects.filter(pk=snapshot.pk).update(attribution='Source: "Open" Router\r\n é, as of 2026-11-26.')
    forget()
    reply = get(source=source)
    home = registry.spec(source).home_url
    cited = f'<{home}>; rel="cite-as"; title="Source: \'Open\' Router , as of 2026-11-26."'
    assert reply["Link"] == f'<https://creativecommons.org/licenses/by/4.0/>; rel="license", {cited}'
    unchanged = client_for(None).get(f"{PATH}?source={source}", HTTP_IF_NONE_MATCH=reply["ETag"])
    assert (unchanged.status_code, unchanged["Link"]) == (304, reply["Link"])
    assert (cited in get()["Link"]) == (source != "OPENROUTER")  # INTERNAL cites what it is made of


def test_a_source_whose_data_is_not_shown_is_not_cited(listed):
    snapshots.make_snapshot("OPENROUTER", {})
    forget()
    assert "cite-as" not in get(source="OPENROUTER")["Link"]


def test_same_data_gives_the_same_bytes_and_etag(listed, now):
    first, again = get(limit=3), client_for(None).get(f"{PATH}?offset=0&limit=3&sortBy=rank&nobody=knows")
    assert (first.content, first["ETag"]) == (again.content, again["ETag"])
    assert re.fullmatch(r'W/"[^"]+"', first["ETag"])  # weak: the times in the reply differ
    forget()
    assert (get(limit=3).content, get(limit=3)["ETag"]) == (first.content, first["ETag"])


def test_same_data_has_one_etag_whenever_it_is_rendered(listed, now):
    first = get()
    now["seconds"] += 1_800
    later = get()
    assert later.json()["timestamp"] > first.json()["timestamp"]
    assert later["ETag"] == first["ETag"]


def test_matching_etag_gets_304(listed, now):
    etag = get()["ETag"]
    strong = etag.removeprefix("W/")
    for given in (etag, strong, f'"x", {etag}', f'{strong}, W/"y"', f'W/"x,y" ,{etag}', "*", " * "):
        again = client_for(None).get(PATH, HTTP_IF_NONE_MATCH=given)
        assert (again.status_code, again.content) == (304, b"")
        assert again["Cache-Control"] == get()["Cache-Control"]
        assert again["ETag"] == etag
    for given in ('"x"', '"x-y"', get(limit=1)["ETag"], '"', strong.strip('"'), "", f"W/W/{strong}", f'{strong[:-1]},*"'):
        assert client_for(None).get(PATH, HTTP_IF_NONE_MATCH=given).status_code == 200


def test_304_never_names_another_body_than_the_copy_that_the_client_has(listed, now):
    copies = {}
    for _ in range(12):
        for etag in list(copies) or ['"none"']:
            reply = client_for(None).get(PATH, HTTP_IF_NONE_MATCH=etag)
            if reply.status_code == 304:
                assert reply["ETag"] == etag
            else:
                copies[reply["ETag"]] = reply.json()["rankings"]
        now["seconds"] += 700
    assert len(copies) > 1


def test_copy_cannot_be_kept_longer_than_an_hour_by_304s(listed, now):
    for start in range(0, 3_600, 450):
        now["seconds"] = 1_800_000_000.0 + start
        rendered, fresh = now["seconds"], get()
        max_age = int(re.search(r"max-age=(\d+)", fresh["Cache-Control"])[1])
        while True:
            now["seconds"] += max_age - 1  # the client asks just before its copy is stale
            again = client_for(None).get(PATH, HTTP_IF_NONE_MATCH=fresh["ETag"])
            if again.status_code == 200:
                break
            assert now["seconds"] + max_age - rendered <= replies.KEPT_SECONDS_MAX
        assert again["ETag"] != fresh["ETag"]


def test_etag_of_other_data_does_not_match(listed, now):
    etag = get()["ETag"]
    list_model("new/model", rank=6)
    publish()
    reply = client_for(None).get(PATH, HTTP_IF_NONE_MATCH=etag)
    assert (reply.status_code, len(reply.json()["rankings"])) == (200, 6)


def test_freshness_is_computed_for_the_time_of_the_reply(listed, now):
    before = get().json()
    now["seconds"] += 7_200
    after = get().json()
    ages = [body["rankings"][0]["metadata"]["dataFreshnessHours"] for body in (before, after)]
    assert ages[1] - ages[0] == pytest.approx(2, abs=0.11)
    assert after["timestamp"] > before["timestamp"]


def test_cached_rankings_take_no_query(listed, now, django_assert_num_queries):
    get(limit=2)
    with django_assert_num_queries(0):
        for limit in range(1, 20):
            get(limit=limit)


def test_new_publication_shows_without_a_restart(listed, now):
    assert len(ids(get())) == 5
    list_model("new/model", rank=6)
    Publication.objects.update(number=99)
    now["seconds"] += 1.1
    assert len(ids(get())) == 6


def test_only_valid_queries_are_cached_and_a_bounded_number(listed, monkeypatch):
    monkeypatch.setattr(replies, "_REPLIES_MAX", 10)
    for offset in range(50):
        get(offset=offset, junk=str(offset))
    assert len(cached_replies()) <= 10
    assert all(isinstance(key, RankingsQuery) for key in cached_replies())


def test_database_outage_serves_the_last_data(listed, now, monkeypatch):
    before = get().json()["rankings"]

    def fail(*args, **kwargs):
        raise OperationalError("the database is unavailable")

    monkeypatch.setattr(listing, "_refresh", fail)
    monkeypatch.setattr("rankings.api.replies.health.report_for_api", fail)
    now["seconds"] += replies.STEP_SECONDS
    reply = get(limit=10)
    assert [entry["model"] for entry in reply.json()["rankings"]] == [entry["model"] for entry in before]
    assert len(reply.json()["sources"]) == 5


@pytest.mark.parametrize(("idle_seconds", "is_previous"), [(replies.STEP_SECONDS, True), (30_000, False)])
def test_request_beside_one_that_begins_a_batch_gets_the_previous_one_unless_it_is_old(
    listed, now, monkeypatch, idle_seconds, is_previous
):
    previous = get().json()["timestamp"]
    report, meanwhile = health.report_for_api, []

    def slow_report(*args):
        monkeypatch.setattr(health, "report_for_api", report)
        meanwhile.append(get().json()["timestamp"])
        return report(*args)

    monkeypatch.setattr(health, "report_for_api", slow_report)
    now["seconds"] += idle_seconds
    current = get().json()["timestamp"]
    assert current > previous
    assert meanwhile == [previous if is_previous else current]


@pytest.mark.parametrize(("idle_seconds", "is_previous"), [(10, True), (30_000, False)])
def test_request_beside_one_that_reads_a_publication_gets_the_previous_one_unless_it_is_old(
    listed, now, monkeypatch, idle_seconds, is_previous
):
    previous = ids(get())
    read, meanwhile = listing._read_leaderboards, []

    def slow_read(models):
        monkeypatch.setattr(listing, "_read_leaderboards", read)
        meanwhile.append(ids(get()))
        return read(models)

    list_model("new/model", rank=6)
    Publication.objects.update(number=99)
    monkeypatch.setattr(listing, "_read_leaderboards", slow_read)
    now["seconds"] += idle_seconds
    current = ids(get())
    assert len(current) == len(previous) + 1
    assert meanwhile == [previous if is_previous else current]


def test_outage_before_anything_was_read_is_503_to_every_request(listed, monkeypatch):
    def fail(*args, **kwargs):
        raise OperationalError("the database is unavailable")

    monkeypatch.setattr(listing, "_refresh", fail)
    for _ in range(2):
        reply = get(limit=10)
        assert_error(reply, 503, "service_unavailable")
        assert reply["Retry-After"]


def test_five_hundred_models_are_listed(db):
    for number in range(500):
        list_model(f"lab/model-{number:03}", rank=number + 1)
    publish()
    body = get(limit=100, offset=450).json()
    assert body["pagination"] == {"total": 500, "limit": 100, "offset": 450, "hasMore": False}
    assert [entry["rank"] for entry in body["rankings"]] == list(range(451, 501))


def test_openapi_describes_the_parameters(db):
    document = client_for(None).get("/api/openapi.json").json()["paths"][PATH]["get"]
    described = {each["name"]: each["schema"] for each in document["parameters"] if each["in"] == "query"}
    assert set(described) == set(filters.RankingFilter.base_filters)
    assert described["limit"] == {"type": "integer", "minimum": 1, "maximum": 100, "default": 50}
    assert set(described["source"]["enum"]) == set(Source.values)
    assert described["board"] == {"type": "string", "enum": sorted(Category.values), "default": "GENERAL"}
    assert described["availableOnly"] == {"type": "boolean"}
    assert "security" not in document
    assert connection.vendor == "postgresql"
