"""``provider`` in a request: which providers may answer, and in which order they are tried."""

import json

import pytest

from completions.catalog import eligibility
from completions.models import LanguageModel
from tests import factories
from tests.chat import assert_error, everything_written
from tests.completions.routes import add
from tests.completions.rows import MESSAGES, ask, ask_streamed, events
from tests.rankings.streams import streamed as streamed_before
from tests.upstream import refusal, streamed


@pytest.fixture(autouse=True)
def _routes(large, spare):
    """acme/large at "scripted", then at "spare"."""
    add(large, spare)


def provider_of(reply):
    assert reply.status_code == 200, reply.content
    return reply["x-gateway-provider"]


def test_the_order_moves_providers_to_the_front(api, upstream, spare):
    assert provider_of(ask(api, provider={"order": ["spare"]})) == "spare"
    assert provider_of(ask(api, provider={"order": ["scripted", "spare"]})) == "scripted"
    assert provider_of(ask(api)) == "scripted"


def test_the_others_are_tried_after_those_of_the_order(api, spare):
    spare.will(refusal(500))
    reply = ask(api, provider={"order": ["spare", "spare"]})
    assert (provider_of(reply), reply["x-gateway-attempts"]) == ("scripted", "2")


@pytest.mark.parametrize("preference", [{"only": ["spare"]}, {"ignore": ["scripted"]}], ids=["only", "ignore"])
def test_a_provider_that_is_excluded_is_not_asked(api, upstream, spare, preference):
    spare.will(refusal(500))
    assert ask(api, provider=preference).status_code == 502
    assert not upstream.requests


def test_without_fallbacks_one_provider_is_asked(api, upstream, spare):
    upstream.will(refusal(500))
    reply = ask(api, provider={"allow_fallbacks": False})
    assert (reply.status_code, reply["x-gateway-provider"]) == (502, "scripted")
    assert not spare.requests


def test_without_fallbacks_those_of_the_order_are_asked_and_no_others(api, upstream, spare):
    spare.will(refusal(500))
    assert ask(api, provider={"order": ["spare"], "allow_fallbacks": False}).status_code == 502
    assert not upstream.requests
    assert provider_of(ask(api, provider={"order": ["spare", "scripted"], "allow_fallbacks": False})) == "scripted"


def test_without_fallbacks_providers_of_one_priority_share_the_requests(api, large, upstream, spare):
    large.routes.update(priority=1, weight=1)
    upstream.will(refusal(400))
    spare.will(refusal(400))
    for _ in range(20):
        assert ask(api, provider={"allow_fallbacks": False})["x-gateway-attempts"] == "1"
    assert upstream.requests
    assert spare.requests


def test_a_quote_shows_the_providers_that_may_be_the_only_one(api):
    body = {"model": "acme/large", "messages": MESSAGES, "provider": {"allow_fallbacks": False}}
    assert [route["provider"] for route in api.post("/v1/quote", body).json()["routes"]] == ["scripted"]


def test_a_provider_that_is_not_sent_a_field_is_not_asked_where_all_are_required(api, large, upstream, spare):
    large.routes.get(provider="spare").provider.__class__.objects.filter(pk="spare").update(passes_unknown_fields=True)
    asked = {"invented": 1, "user": "u", "metadata": {"team": "x"}, "provider": {"require_parameters": True}}
    assert provider_of(ask(api, **asked)) == "spare"
    assert provider_of(ask(api, **{**asked, "invented": None})) == "scripted"


def test_where_no_provider_is_sent_every_field_the_request_is_refused_with_its_name(api, upstream, spare):
    before = everything_written()
    reply = ask(api, invented=1, provider={"require_parameters": True})
    error = assert_error(reply, 400, "invalid_request_error", "provider.require_parameters")
    assert error["message"].endswith("scripted is not sent invented.")
    assert everything_written() == before


def test_a_stream_obeys_too(api, spare):
    spare.will(streamed())
    reply = ask_streamed(api, provider={"only": ["spare"]})
    assert (events(reply)[-1], reply["x-gateway-provider"]) == ("[DONE]", "spare")


def test_the_field_itself_is_not_sent_and_not_called_ignored(api, upstream, large):
    large.routes.get(provider="scripted").provider.__class__.objects.update(passes_unknown_fields=True)
    reply = ask(api, provider={"order": ["scripted"], "only": None, "ignore": []})
    assert "x-gateway-ignored-fields" not in reply
    assert "provider" not in upstream.requests[0].body


NOTHING_ASKED = {"allow_fallbacks": True, "require_parameters": False, "data_collection": "allow", "zdr": False, "sort": None}


@pytest.mark.parametrize("provider", [None, {}, {"only": []}, {"order": None}, NOTHING_ASKED, dict.fromkeys(NOTHING_ASKED)])
def test_no_preference_is_no_preference(api, provider):
    assert provider_of(ask(api, provider=provider)) == "scripted"


@pytest.mark.parametrize(
    ("provider", "param"),
    [
        ("spare", "provider"),
        ({"sort": "cheapest"}, "provider.sort"),
        ({"sort": ["price"]}, "provider.sort"),
        ({"max_price": 1}, "provider.max_price"),
        ({"max_price": {"image": 1}}, "provider.max_price.image"),
        ({"max_price": {"prompt": -1}}, "provider.max_price.prompt"),
        ({"max_price": {"prompt": True}}, "provider.max_price.prompt"),
        ({"max_price": {"completion": "1e9"}}, "provider.max_price.completion"),
        ({"max_price": {"completion": 1e300}}, "provider.max_price.completion"),
        ({"max_price": {"prompt": 2.99}}, "provider.max_price"),
        ({"min_quality": 101}, "provider.min_quality"),
        ({"min_quality": "90"}, "provider.min_quality"),
        ({"min_quality": 50}, "provider.min_quality"),
        ({"allow_fallbacks": "no"}, "provider.allow_fallbacks"),
        ({"require_parameters": 1}, "provider.require_parameters"),
        ({"data_collection": "no"}, "provider.data_collection"),
        ({"zdr": "yes"}, "provider.zdr"),
        ({"region": "EU"}, "provider.region"),
        ({"region": []}, "provider.region"),
        ({"region": ["eu", "eu\n"]}, "provider.region"),
        ({"region": ["eu"] * 11}, "provider.region"),
        ({"region": {"eu": True}}, "provider.region"),
        ({"enforce_distillable_text": True}, "provider.enforce_distillable_text"),
        ({"quantizations": []}, "provider.quantizations"),
        ({"allow_fallbacks": False, "order": ["spare"], "only": ["scripted"]}, "provider"),
        ({"only": "spare"}, "provider.only"),
        ({"order": ["spare"] * 21}, "provider.order"),
        ({"ignore": ["spare", 1]}, "provider.ignore[1]"),
        ({"only": ["spare", "nobody"]}, "provider.only[1]"),
        ({"order": ["SPARE"]}, "provider.order[0]"),
        ({"ignore": ["spar\u00e9"]}, "provider.ignore[0]"),
        ({"ignore": ["spare", "scripted"]}, "provider"),
        ({"only": ["spare"], "ignore": ["spare"]}, "provider"),
    ],
)
def test_what_cannot_be_heeded_is_refused_with_the_name_of_the_field(api, upstream, spare, provider, param):
    before = everything_written()
    error = assert_error(ask(api, provider=provider), 400, "invalid_request_error", param)
    assert error["message"].startswith(param)
    assert everything_written() == before
    assert not upstream.requests + spare.requests


def test_a_fallback_model_without_an_allowed_provider_is_skipped(api, large, upstream, spare):
    factories.make_model("acme/elsewhere", provider=factories.make_provider("elsewhere"))
    factories.make_model("acme/also", provider=LanguageModel.objects.get(pk="acme/large").routes.get(provider="spare").provider)
    body = {"model": "acme/large", "messages": MESSAGES, "models": ["acme/elsewhere", "acme/also"]}
    reply = api.post("/v1/quote", {**body, "provider": {"only": ["spare"]}})
    assert [route["model"] for route in json.loads(reply.content)["routes"]] == ["acme/large", "acme/also"]


def test_a_quote_shows_the_order_that_is_wanted(api):
    body = {"model": "acme/large", "messages": MESSAGES, "provider": {"order": ["spare"]}}
    routes = api.post("/v1/quote", body).json()["routes"]
    assert [(route["provider"], route["priority"]) for route in routes] == [("spare", 0), ("scripted", 2)]


# --- Sorting ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def measured(large, alice):
    """ "spare" begins sooner, and "scripted" generates more tokens a second."""
    eligibility._measured.clear()
    caller = alice, factories.make_key(alice)[0]
    streamed_before(caller, "acme/large", 900, 1_100, 1_000, provider_id="scripted")
    streamed_before(caller, "acme/large", 100, 9_900, 1_000, provider_id="spare")


@pytest.mark.parametrize(("sort", "first"), [("latency", "spare"), ("throughput", "scripted"), ("price", "scripted")])
def test_providers_are_sorted_by_what_was_measured(api, measured, large, sort, first):
    large.routes.filter(provider=first).update(priority=1 if sort == "price" else 5)  # else the last
    assert provider_of(ask(api, provider={"sort": sort})) == first


def test_a_suffix_of_the_model_sorts(api, measured, large):
    large.routes.filter(provider="scripted").update(priority=5)
    assert provider_of(ask(api, model="acme/large")) == "spare"
    reply = ask(api, model="acme/large:nitro")
    assert (provider_of(reply), reply.json()["model"]) == ("scripted", "acme/large")
    assert provider_of(ask(api, model="acme/large:nitro", provider={"sort": "latency"})) == "spare"
    assert provider_of(ask(api, model="acme/large:floor")) == "spare"


def test_providers_that_were_not_measured_keep_their_order_behind_the_others(api, large):
    eligibility._measured.clear()
    assert provider_of(ask(api, provider={"sort": "throughput"})) == "scripted"


def test_the_order_goes_before_the_sorting(api, measured):
    assert provider_of(ask(api, provider={"order": ["scripted"], "sort": "latency"})) == "scripted"


def test_another_suffix_is_part_of_the_id(api):
    assert_error(ask(api, model="acme/large:fast"), 404, "model_not_found", "model")


# --- Prices -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("maximum", [{"prompt": 3, "completion": 15}, {"prompt": "3.00"}, {"completion": 15.5}, {}])
def test_a_model_within_the_maximum_answers(api, maximum):
    assert provider_of(ask(api, provider={"max_price": maximum})) == "scripted"


def test_a_fallback_above_the_maximum_is_not_asked(api, upstream, spare):
    factories.make_model("demo/dear", input="100", output="100")
    upstream.will(refusal(500))
    spare.will(refusal(500))
    assert ask(api, models=["demo/dear"], provider={"max_price": {"prompt": 50}}).status_code == 502
