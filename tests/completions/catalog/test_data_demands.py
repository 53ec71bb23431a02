"""Demands about data: what a request, its key and its account demand, and which of two real upstreams then gets the request.

"scripted" is in the US, keeps prompts for 30 days and trains on nothing. "spare" is in the EU and keeps nothing.
"""

import csv
import json
import logging
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from billing.models import Account, Hold
from completions.models import Completion, IdempotentRequest, Provider, RoutableAlias, Route, StoredResponse
from keys.limits import refusal_cache
from keys.limits.refusal_cache import FLOOD_REFUSALS, RefusalCache
from keys.models import ApiKey
from tests import factories, waiting
from tests.chat import assert_error, everything_written
from tests.completions.inbound.embeddings.embedders import found, make_embedder
from tests.completions.inbound.messages import requests as messages
from tests.completions.inbound.responses.requests import PATH as RESPONSES
from tests.completions.routes import add
from tests.completions.rows import MESSAGES, ask, ask_streamed, events
from tests.pages.conftest import owner_of, signed_in, superuser  # noqa: F401  fixture
from tests.upstream import event, refusal, stream, streamed

US = {"retention_days": 30, "trains": False, "region": "us"}
EU = {"retention_days": 0, "trains": False, "region": "eu"}
DEMANDS = [{"zdr": True}, {"region": "eu"}, {"region": ["de", "eu"]}, {"data_collection": "deny", "zdr": True, "region": "eu"}]


@pytest.fixture
def routed(large, spare, upstream):
    """acme/large at "scripted", then at "spare"."""
    add(large, spare)
    Provider.objects.filter(pk="scripted").update(**US)
    Provider.objects.filter(pk="spare").update(**EU)
    return large


def demand_by(owner: type[ApiKey] | type[Account], policy="", regions=None):
    """Set what all accounts, or all keys, demand."""
    owner.objects.update(data_policy=policy, data_regions=regions)


def assert_served_by_spare(reply, upstream):
    assert reply.status_code == 200, reply.content
    assert reply["x-gateway-provider"] == "spare"
    assert not upstream.requests
    assert Completion.objects.latest("created_at").data_promised == EU


# --- Demands of a request ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("demand", DEMANDS)
def test_only_a_route_that_promises_it_gets_the_request(api, routed, upstream, spare, demand):
    assert_served_by_spare(ask(api, provider=demand), upstream)
    assert len(spare.requests) == 1
    [done] = Completion.objects.all()
    recorded = {**demand, "region": [demand["region"]]} if demand.get("region") == "eu" else {**demand}
    recorded.pop("data_collection", None)  # zdr contains it
    assert done.data_demanded == {"request": recorded}


def test_a_provider_that_does_not_train_may_keep_what_it_gets(api, routed, upstream):
    assert ask(api, provider={"data_collection": "deny"})["x-gateway-provider"] == "scripted"
    Provider.objects.filter(pk="scripted").update(trains=True)
    assert ask(api, provider={"data_collection": "deny"})["x-gateway-provider"] == "spare"


def test_nothing_is_recorded_where_nothing_is_demanded(api, routed):
    assert ask(api, provider={"data_collection": "allow", "zdr": False}).status_code == 200
    [done] = Completion.objects.all()
    assert (done.data_demanded, done.data_promised) == (None, None)


@pytest.mark.parametrize("unknown", [{"retention_days": None}, {"trains": None}, {"region": ""}, {"region": "global"}])
def test_what_is_not_known_meets_no_demand(api, routed, upstream, spare, unknown):
    Provider.objects.filter(pk="spare").update(**unknown)
    before = everything_written()
    error = assert_error(ask(api, provider=DEMANDS[-1]), 404, "data_demand_unmet", "provider.zdr")
    assert error["demands"] == {"request": {"zdr": True, "region": ["eu"]}}
    assert everything_written() == before
    assert not upstream.requests + spare.requests


def test_a_provider_that_may_train_lacks_the_zdr_that_was_written(api, routed, upstream, spare):
    Provider.objects.update(trains=None)
    error = assert_error(ask(api, provider={"zdr": True}), 404, "data_demand_unmet", "provider.zdr")
    assert [each["unmet"] for each in error["routes"]] == [{"request": ["zdr"]}] * 2
    assert not upstream.requests + spare.requests


def test_the_word_of_a_route_is_instead_of_its_providers(api, routed, upstream, spare):
    Route.objects.filter(provider="spare").update(region="us")
    assert_error(ask(api, provider={"region": "eu"}), 404, "data_demand_unmet", "provider.region")
    Route.objects.filter(provider="scripted").update(**EU)
    assert ask(api, provider={"region": "eu"})["x-gateway-provider"] == "scripted"


def test_the_refusal_says_which_routes_would_do_without_which_demand(api, routed, upstream):
    error = assert_error(ask(api, provider={"region": "ch"}), 404, "data_demand_unmet", "provider.region")
    assert error["routes"] == [
        {"model": "acme/large", "provider": "scripted", **US, "unmet": {"request": ["region"]}},
        {"model": "acme/large", "provider": "spare", **EU, "unmet": {"request": ["region"]}},
    ]
    assert 'the request demands {"region":["ch"]}' in error["message"]
    assert "acme/large at spare lacks region of the request" in error["message"]


def test_a_failover_stays_among_the_routes_that_promise_it(api, routed, upstream, spare):
    spare.will(*[refusal(500)] * 2)
    assert ask(api, provider={"zdr": True}).status_code == 502
    assert not upstream.requests
    assert Completion.objects.get().failed_attempts[0] == {"provider": "spare", "status": 500, "reason": ""}


def test_the_one_provider_without_fallbacks_is_one_that_promises_it(api, routed, upstream):
    assert_served_by_spare(ask(api, provider={"zdr": True, "allow_fallbacks": False}), upstream)


def test_the_other_fields_hold_beside_it(api, routed, upstream, spare):
    assert_error(ask(api, provider={"zdr": True, "only": ["scripted"]}), 404, "data_demand_unmet", "provider.zdr")
    assert_error(ask(api, provider={"zdr": True, "ignore": ["spare"]}), 404, "data_demand_unmet", "provider.zdr")
    assert not upstream.requests + spare.requests


# --- Every language ---------------------------------------------------------------------------------------------------


def test_streams_obey(api, routed, upstream, spare):
    spare.will(streamed())
    reply = ask_streamed(api, provider={"zdr": True})
    assert (events(reply)[-1], reply["x-gateway-provider"]) == ("[DONE]", "spare")
    assert not upstream.requests


def test_messages_obey(api, routed, upstream):
    assert_served_by_spare(messages.ask(api, provider={"region": "eu"}), upstream)
    refused = messages.ask(api, provider={"region": "jp"})
    messages.assert_error(refused, 404, "not_found_error", "No route meets what is demanded about data")


def test_responses_obey_and_store_nothing(api, routed, upstream):
    reply = api.post(RESPONSES, {"model": "acme/large", "input": "Hello", "provider": {"zdr": True}})
    assert_served_by_spare(reply, upstream)
    assert reply.json()["store"] is False
    assert not StoredResponse.objects.exists()


def test_without_zdr_a_response_is_stored(api, routed):
    assert api.post(RESPONSES, {"model": "acme/large", "input": "Hello", "provider": {"region": "eu"}}).json()["store"] is True
    assert StoredResponse.objects.exists()


def test_no_response_runs_in_the_background_with_zdr(api, routed, upstream, spare):
    reply = api.post(RESPONSES, {"model": "acme/large", "input": "Hello", "background": True, "provider": {"zdr": True}})
    assert_error(reply, 400, "invalid_request_error", "background")
    assert not upstream.requests + spare.requests
    assert not StoredResponse.objects.exists()


def test_embeddings_obey(api, routed, upstream, spare):
    embedder = make_embedder("scripted", "openai", upstream.url)
    add(embedder, spare)
    spare.will(found([0.5], [0.25]))
    reply = api.post("/v1/embeddings", {"model": "acme/embed", "input": ["a", "b"], "provider": {"zdr": True}})
    assert_served_by_spare(reply, upstream)


def test_a_quote_names_only_routes_that_promise_it(api, routed):
    body = {"model": "acme/large", "messages": MESSAGES, "provider": {"zdr": True}}
    assert [route["provider"] for route in api.post("/v1/quote", body).json()["routes"]] == ["spare"]
    demand_by(Account, regions=["jp"])
    assert_error(api.post("/v1/quote", body), 404, "data_demand_unmet", "model")


# --- Demands of keys and accounts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("owner", [ApiKey, Account])
@pytest.mark.parametrize("demand", [{"policy": "zdr"}, {"regions": ["eu"]}])
def test_what_its_key_or_account_demands_holds_at_the_next_request(api, alice, routed, upstream, owner, demand):
    assert ask(api)["x-gateway-provider"] == "scripted"
    upstream.requests.clear()
    demand_by(owner, **demand)
    assert_served_by_spare(ask(api), upstream)


def test_each_demand_holds_for_itself(api, alice, routed, upstream, spare):
    demand_by(ApiKey, "zdr")
    demand_by(Account, regions=["us"])
    before = everything_written()
    error = assert_error(ask(api, provider={"data_collection": "allow", "zdr": False}), 404, "data_demand_unmet", "model")
    assert [each["unmet"] for each in error["routes"]] == [{"key": ["zdr"]}, {"account": ["region"]}]
    assert everything_written() == before
    assert not upstream.requests + spare.requests


def test_a_request_loosens_no_region_of_its_key(api, alice, routed, upstream, spare):
    demand_by(ApiKey, regions=["eu"])
    assert_error(ask(api, provider={"region": ["us", "eu", "ch"], "only": ["scripted"]}), 404, "data_demand_unmet", "model")
    assert not upstream.requests + spare.requests


def test_without_fallbacks_the_one_provider_promises_what_the_key_demands(api, alice, routed, upstream):
    demand_by(ApiKey, "zdr")
    assert_served_by_spare(ask(api, provider={"allow_fallbacks": False}), upstream)


# --- Fallback models and aliases --------------------------------------------------------------------------------------


@pytest.fixture
def other(routed, spare):
    """acme/other, which is only in the EU; acme/large now only in the US."""
    Route.objects.filter(provider="spare").delete()
    return factories.make_model("acme/other", provider=Provider.objects.get(pk="spare"), upstream_model="other")


@pytest.mark.parametrize("owner", [None, ApiKey, Account])
def test_a_fallback_model_serves_where_the_first_has_no_route(api, alice, other, upstream, owner):
    if owner:
        demand_by(owner, "zdr")
    reply = ask(api, models=["acme/other"], **({} if owner else {"provider": {"zdr": True}}))
    assert_served_by_spare(reply, upstream)
    [done] = Completion.objects.all()
    assert (done.model_id, reply.json()["model"]) == ("acme/other", "acme/other")


def test_a_fallback_that_the_key_may_not_use_does_not_serve(api, alice, other, upstream, spare):
    ApiKey.objects.update(data_policy="zdr", allowed_models=["acme/large"])
    error = assert_error(ask(api, models=["acme/other"]), 404, "data_demand_unmet", "model")
    assert [each["model"] for each in error["routes"]] == ["acme/large"]
    assert not upstream.requests + spare.requests


@pytest.mark.parametrize("owner", [None, ApiKey, Account])
def test_an_alias_stands_for_a_model_that_meets_the_demands(api, alice, other, upstream, owner):
    RoutableAlias.objects.create(id="best/coding", model_ids=["acme/large", "acme/other"], qualities=[90, 80])
    if owner:
        demand_by(owner, regions=["eu"])
    reply = ask(api, model="best/coding", **({} if owner else {"provider": {"region": "eu"}}))
    assert_served_by_spare(reply, upstream)
    assert Completion.objects.get().model_id == "acme/other"
    assert Hold.objects.count() == 1


def test_in_a_flood_an_alias_whose_first_model_a_key_refuses_takes_one_admission(api, alice, other, upstream, monkeypatch):
    monkeypatch.setattr(refusal_cache, "process_cache", RefusalCache(clock=lambda: 0.0))
    RoutableAlias.objects.create(id="best/coding", model_ids=["acme/large", "acme/other"], qualities=[90, 80])
    demand_by(ApiKey, regions=["eu"])
    numbers = []
    for _ in range(FLOOD_REFUSALS + 2):
        with CaptureQueriesContext(connection) as queries:
            assert_served_by_spare(ask(api, model="best/coding"), upstream)
        numbers.append(len(queries))
    assert numbers[FLOOD_REFUSALS] == numbers[-1] < numbers[1] == numbers[FLOOD_REFUSALS - 1]


# --- What is kept, and what goes to others ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"store": True}, "store"),
        ({"prompt_cache_retention": "24h"}, "prompt_cache_retention"),
        ({"web_search_options": {}}, "web_search_options"),
    ],
)
@pytest.mark.parametrize("owner", [None, Account])
def test_a_field_that_has_the_provider_keep_or_pass_on_something_is_refused(
    api, alice, routed, upstream, spare, fields, param, owner
):
    if owner:
        demand_by(owner, "zdr")
    before = everything_written()
    reply = ask(api, **fields, **({} if owner else {"provider": {"zdr": True}}))
    assert_error(reply, 400, "invalid_request_error", param)
    assert everything_written() == before
    assert not upstream.requests + spare.requests


def test_with_zdr_the_reply_is_not_kept_for_retries(api, alice, routed, spare):
    demand_by(Account, "zdr")
    body = {"model": "acme/large", "messages": MESSAGES}
    headers = {"Idempotency-Key": "once"}
    first = api.post("/v1/chat/completions", body, headers=headers)
    assert (first.status_code, first["Idempotent-Stored"]) == (200, "false")
    assert IdempotentRequest.objects.get().sealed_reply is None
    again = api.post("/v1/chat/completions", body, headers=headers)
    error = assert_error(again, 400, "invalid_request_error", "Idempotency-Key")
    assert "zdr was demanded" in error["message"]
    assert len(spare.requests) == 1


@pytest.mark.parametrize(
    "script",
    [
        refusal(400, "The prompt my-very-prompt is odd"),
        refusal(500, "Cannot read my-very-prompt"),
        refusal(401, "Not with my-very-prompt"),
        stream(event({"error": {"message": "Cannot go on with my-very-prompt"}})),
    ],
)
def test_with_zdr_no_word_of_a_failing_provider_is_kept_or_logged(api, routed, spare, caplog, script):
    caplog.set_level(logging.DEBUG)
    spare.will(*[script] * 2)
    assert ask(api, stream=True, provider={"zdr": True}).status_code != 200
    assert "my-very-prompt" not in caplog.text + str(everything_written())
    assert "its words are not kept, as zdr is demanded" in caplog.text


def test_with_zdr_the_row_of_a_provider_that_refuses_our_key_has_none_of_its_words(api, routed, spare):
    spare.will(refusal(401, "Not with my-very-prompt"))
    for _ in range(3):
        assert ask(api, provider={"zdr": True}).status_code in (502, 503)
    waiting.until(lambda: Provider.objects.get(pk="spare").key_refusal)
    assert Provider.objects.get(pk="spare").key_refusal == "401"


def test_a_flood_of_refusals_is_no_refusal_of_other_requests(api, alice, routed, upstream):
    demand_by(ApiKey, "zdr")
    for _ in range(25):
        assert_error(ask(api, provider={"only": ["scripted"]}), 404, "data_demand_unmet", "model")
    assert_served_by_spare(ask(api), upstream)


# --- The record -------------------------------------------------------------------------------------------------------


def test_the_record_says_what_was_demanded_of_whom_and_what_was_promised(api, alice, routed):
    demand_by(Account, "deny")
    demand_by(ApiKey, regions=["eu", "ch"])
    assert ask(api, provider={"zdr": True}).status_code == 200
    done = Completion.objects.get()
    demanded = {"request": {"zdr": True}, "key": {"region": ["eu", "ch"]}, "account": {"data_collection": "deny"}}
    assert (done.data_demanded, done.data_promised) == (demanded, EU)
    reply = api.get(f"/v1/completions/{done.pk}").json()
    assert (reply["data_demanded"], reply["data_promised"]) == (demanded, EU)
    assert api.get(f"/v1/generation?id={done.pk}").json()["data"]["data_region"] == "eu"
    assert api.get("/v1/key").json()["data"]["allowed_data_regions"] == ["ch", "eu"]
    [record] = api.get("/v1/usage/export").json()["data"]
    assert (record["details"]["data_demanded"], record["details"]["data_promised"]) == (demanded, EU)


def test_owners_and_support_read_it(api, alice, routed, superuser):  # noqa: F811
    demand_by(Account, "zdr", ["eu"])
    assert ask(api).status_code == 200
    done = Completion.objects.get()
    client = signed_in(owner_of(alice))
    story = f"/admin/completions/completion/{done.pk}/change/"
    for page in (client.get(f"/dashboard/requests/{done.pk}/"), superuser.get(story)):
        shown = page.content.decode()
        assert "<dt>Data: the account demands</dt><dd>zdr, region eu</dd>" in shown
        assert "<dt>Data: the route promises</dt><dd>not kept, not trained on, processed in eu</dd>" in shown
    reply: Any = client.post("/dashboard/requests/export/")
    exported = b"".join(reply.streaming_content).decode()
    [row] = csv.DictReader(exported.splitlines())
    assert [json.loads(row[name]) for name in ("dataDemanded", "dataPromised")] == [
        {"account": {"zdr": True, "region": ["eu"]}},
        EU,
    ]
