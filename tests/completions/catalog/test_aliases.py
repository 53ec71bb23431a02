"""Ids that stand for another model: the reply names the model that answered, and its price is charged."""

from datetime import date

import pytest

from billing.models import LedgerEntry
from completions.catalog import lookup
from completions.models import Completion, LanguageModel, Price, RoutableAlias
from gateway_project.cache import StaleWhileRefresh
from keys.models import ApiKey
from tests import factories
from tests.chat import assert_error, everything_written
from tests.completions.rows import MESSAGES
from tests.conftest import client_for

ASKED = "best/coding"


@pytest.fixture(autouse=True)
def models(db):
    factories.make_model("acme/good", input="1.00", output="2.00")
    factories.make_model("acme/better", input="10.00", output="20.00")
    RoutableAlias.objects.create(id=ASKED, model_ids=["acme/gone", "acme/better", "acme/good"])


def ask(api, model=ASKED, **fields):
    return api.post("/v1/chat/completions", {"model": model, "messages": MESSAGES, "max_tokens": 50, **fields})


def limited_key(account, allowed):
    key, secret = factories.make_key(account)
    ApiKey.objects.filter(pk=key.pk).update(allowed_models=allowed)
    return secret


def cost(nanos_in, nanos_out, usage):
    return usage["prompt_tokens"] * nanos_in + usage["completion_tokens"] * nanos_out


def test_an_alias_is_served_by_its_first_available_model(api, alice):
    reply = ask(api).json()
    assert reply["model"] == "acme/better"
    [completion] = Completion.objects.all()
    assert (completion.model_id, completion.cost_nanos) == ("acme/better", cost(10_000, 20_000, reply["usage"]))
    [entry] = LedgerEntry.objects.filter(type=LedgerEntry.Type.USAGE_DEBIT)
    assert (entry.metadata["model"], entry.amount_nanos) == ("acme/better", -completion.cost_nanos)


def test_an_alias_skips_a_disabled_model_at_once(api):
    LanguageModel.objects.filter(pk="acme/better").update(is_enabled=False)
    reply = ask(api).json()
    assert reply["model"] == "acme/good"
    assert Completion.objects.get().cost_nanos == cost(1_000, 2_000, reply["usage"])


def test_an_alias_without_an_available_model_is_not_found(api):
    LanguageModel.objects.update(is_enabled=False)
    before = everything_written()
    assert_error(ask(api), 404, "model_not_found", "model")
    assert everything_written() == before


def test_a_model_takes_precedence_over_an_alias_of_the_same_id(api):
    factories.make_model(ASKED)
    assert ask(api).json()["model"] == ASKED


@pytest.mark.parametrize(("allowed", "status"), [([ASKED], 200), (["acme/better"], 200), (["acme/good"], 404)])
def test_a_key_may_use_an_alias_if_the_alias_or_its_model_is_allowed(alice, allowed, status):
    secret = limited_key(alice, allowed)
    assert ask(client_for(secret)).status_code == status


def test_aliases_are_listed_with_the_models_they_stand_for(api):
    listed = {model["id"]: model for model in api.get("/v1/models").json()["data"]}
    assert set(listed) == {"acme/better", "acme/good", ASKED}
    assert listed[ASKED] == {**listed["acme/better"], "id": ASKED, "alias_of": "acme/better"}
    assert api.get(f"/v1/models/{ASKED}").json() == listed[ASKED]


def test_a_key_that_is_allowed_only_an_alias_sees_only_the_alias(alice):
    secret = limited_key(alice, [ASKED])
    listed = client_for(secret).get("/v1/models").json()["data"]
    assert [(model["id"], model["alias_of"]) for model in listed] == [(ASKED, "acme/better")]


def test_the_speed_of_a_stream_is_recorded(api):
    reply = ask(api, stream=True, echo={"reply": "one two three", "delay_seconds": 0.02})
    b"".join(reply.streaming_content)
    [completion] = Completion.objects.all()
    assert completion.first_token_ms >= 20  # the first word is thought about, too
    assert completion.streamed_ms >= 40


def test_a_reply_that_is_not_streamed_has_no_speed(api):
    ask(api)
    [completion] = Completion.objects.all()
    assert (completion.first_token_ms, completion.streamed_ms) == (None, None)


# --- Bounds and days ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("bounds", "chosen"),
    [
        ({"min_quality": 60}, "acme/better"),
        ({"min_quality": 60, "max_price": {"prompt": 5}}, "acme/good"),
        ({"max_price": {"completion": "2.00"}}, "acme/good"),
    ],
)
def test_an_alias_stands_for_the_first_model_within_the_callers_bounds(api, bounds, chosen):
    RoutableAlias.objects.update(qualities=[99, 80, 60])
    reply = ask(api, provider=bounds)
    assert (reply.status_code, reply.json()["model"]) == (200, chosen)
    assert Completion.objects.get().model_id == chosen


@pytest.mark.parametrize("bounds", [{"min_quality": 90}, {"min_quality": 70, "max_price": {"prompt": 5}}])
def test_an_alias_without_a_model_within_the_bounds_is_refused(api, bounds):
    """The one of quality 99 is gone, and a model that was never tested has no quality."""
    RoutableAlias.objects.update(qualities=[99, 80, None])
    before = everything_written()
    assert_error(ask(api, provider=bounds), 400, "invalid_request_error", "provider")
    assert everything_written() == before


def test_a_price_that_was_raised_after_the_alias_was_read_is_not_within_the_bounds(api, monkeypatch):
    monkeypatch.setattr(lookup, "_offers", StaleWhileRefresh(seconds=60, entries_max=10))
    assert ask(api).json()["model"] == "acme/better"  # the alias is cached with the prices of its models
    factories.change_prices(Price.objects.filter(model="acme/good"), input_nanos=9_000_000_000)
    before = everything_written()
    assert_error(ask(api, provider={"max_price": {"prompt": 5}}), 400, "invalid_request_error", "provider")
    assert everything_written() == before


def test_a_reply_names_the_ranking_that_chose_and_its_id_chooses_alike(api):
    RoutableAlias.objects.update(ranked_on=date(2026, 11, 22))
    RoutableAlias.objects.create(id=f"{ASKED}@2026-11-22", model_ids=["acme/good"], ranked_on=date(2026, 11, 22))
    assert ask(api)["x-gateway-ranking"] == "best/coding@2026-11-22"
    reply = ask(api, model="best/coding@2026-11-22")
    assert (reply.json()["model"], reply["x-gateway-ranking"]) == ("acme/good", "best/coding@2026-11-22")
    assert "x-gateway-ranking" not in ask(api, model="acme/good")


def test_rankings_of_days_are_not_listed(api):
    RoutableAlias.objects.create(id=f"{ASKED}@2026-11-22", model_ids=["acme/good"])
    assert {model["id"] for model in api.get("/v1/models").json()["data"]} == {"acme/good", "acme/better", ASKED}


def test_a_key_that_may_use_an_alias_may_use_it_as_of_any_day(alice):
    RoutableAlias.objects.create(id=f"{ASKED}@2026-11-22", model_ids=["acme/good"], ranked_on=date(2026, 11, 22))
    client = client_for(limited_key(alice, [ASKED]))
    assert ask(client, model=f"{ASKED}@2026-11-22").json()["model"] == "acme/good"
    assert_error(ask(client, model="acme/good"), 404, "model_not_found", "model")
