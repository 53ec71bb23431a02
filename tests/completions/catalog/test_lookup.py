"""GET /v1/models and /v1/models/{id}: which models are listed for a key, at which price, and whether they are available."""

import json
import time
from collections.abc import Callable
from datetime import timedelta

import gevent
import pytest
from cryptography.fernet import Fernet
from django.db import IntegrityError, connection, transaction
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext

from completions.catalog import lookup
from completions.inbound.model_lists import views
from completions.models import LanguageModel, ModelKind, Obstacle, Price, Provider, Route
from completions.providers import ADAPTERS
from gateway_project import secretbox
from gateway_project.cache import TTLCache
from keys.limits.refusal_cache import FLOOD_REFUSALS
from keys.models import ApiKey
from keys.refusal_history import collector
from tests import chat, document_server, factories, waiting
from tests.conftest import client_for

LIST = "/v1/models"


def listed(client, **parameters) -> list[str]:
    reply = client.get(LIST, parameters)
    assert reply.status_code == 200
    assert reply.json()["object"] == "list"
    return [model["id"] for model in reply.json()["data"]]


def test_a_list_is_made_once_while_it_is_fresh_and_for_each_selection_of_models(
    api, alice, monkeypatch, django_assert_num_queries
):
    now = [100.0]
    monkeypatch.setattr(views, "_rendered_lists", TTLCache(seconds=1, entries_max=10, clock=lambda: now[0]))
    provider = factories.make_provider()
    factories.make_model("demo/one", provider=provider)
    factories.make_model("demo/two", provider=provider)
    key, secret = factories.make_key(alice)
    ApiKey.objects.filter(pk=key.pk).update(allowed_models=["demo/two"])
    restricted = client_for(secret)
    assert listed(api) == ["demo/one", "demo/two"]
    LanguageModel.objects.filter(pk="demo/one").update(is_enabled=False)
    with django_assert_num_queries(1):  # of the key
        assert listed(api) == ["demo/one", "demo/two"]
    assert listed(restricted) == ["demo/two"]
    assert (listed(api, available="false"), listed(api, available="all")) == ([], ["demo/two"])
    now[0] += 1
    assert listed(api) == ["demo/two"]


def test_a_model_is_openais_object_with_our_additions(api):
    before = int(time.time())
    factories.make_model(
        "openai/gpt-4o-mini",
        input="0.15",
        output="0.60",
        cached_input="0.075",
        provider=factories.make_provider(),
        name="GPT-4o mini",
        context_window=128_000,
        max_output_tokens=16_384,
        image_support=True,
        function_calling=True,
        commercial_use=True,
        license="Proprietary",
    )
    [model] = api.get(LIST).json()["data"]
    assert type(model["created"]) is int
    assert before - 60 <= model.pop("created") <= time.time() + 60
    assert model == {
        "id": "openai/gpt-4o-mini",
        "object": "model",
        "owned_by": "Demo",
        "name": "GPT-4o mini",
        "kind": "chat",
        "available": True,
        "category": "GENERAL",
        "context_window": 128_000,
        "max_output_tokens": 16_384,
        "pricing": {
            "prompt": "0.00000015",
            "completion": "0.0000006",
            "input_cache_read": "0.000000075",
            "input_cache_write": "0.00000015",
            "image": "0.00",
            "service_tiers": {},
        },
        "architecture": {
            "modality": "text+image->text",
            "input_modalities": ["text", "image"],
            "output_modalities": ["text"],
        },
        "canonical_slug": "openai/gpt-4o-mini",
        "context_length": 128_000,
        "top_provider": {"context_length": 128_000, "max_completion_tokens": 16_384, "is_moderated": False},
        "supported_parameters": ["max_tokens", "stop", "structured_outputs", "tools", "tool_choice"],
        "default_parameters": None,
        "per_request_limits": None,
        "supported_voices": None,
        "expiration_date": None,
        "successor": None,
        "links": {"details": "/v1/models/openai/gpt-4o-mini"},
        "capabilities": {"image_support": True, "function_calling": True},
        "commercial_use": True,
        "license": "Proprietary",
    }


def test_prices_are_decimal_strings_without_an_exponent(api):
    factories.make_model("a", input="0", output="1000")
    factories.make_model("b", input="0.0375", output="0.000001")
    prices = [(model["pricing"]["prompt"], model["pricing"]["completion"]) for model in api.get(LIST).json()["data"]]
    assert prices == [("0", "0.001"), ("0.0000000375", "0.000000000001")]


def test_a_single_model_equals_its_element_of_the_list(api, echo_model):
    factories.make_model("another/one")
    [listed_model] = [model for model in api.get(LIST).json()["data"] if model["id"] == "demo/echo"]
    reply = api.get(f"{LIST}/demo/echo")
    assert (reply.status_code, reply.json()) == (200, listed_model)
    assert api.get(f"{LIST}/demo%2Fecho").json() == listed_model  # as clients quote it


def test_models_are_listed_by_id(api):
    for model_id in ("b", "a/2", "a/1"):
        factories.make_model(model_id)
    assert listed(api) == ["a/1", "a/2", "b"]


def test_without_models_the_list_is_empty(api):
    assert api.get(LIST).json() == {"object": "list", "data": [], "total_count": 0, "links": {"next": None}}


@pytest.mark.parametrize(
    "withdraw",
    [
        lambda: LanguageModel.objects.update(is_enabled=False),
        lambda: Price.objects.all().delete(),
        lambda: factories.change_prices(Price.objects, effective_from=Now() + timedelta(minutes=1)),
    ],
    ids=["disabled", "unpriced", "priced later"],
)
def test_an_unpriced_or_disabled_model_is_not_listed(api, echo_model, withdraw):
    assert listed(api) == ["demo/echo"]
    withdraw()
    assert listed(api, available="all") == []
    chat.assert_error(api.get(f"{LIST}/demo/echo"), 404, "model_not_found", "model")


@pytest.mark.parametrize(
    "withdraw",
    [
        lambda: Provider.objects.update(is_enabled=False),
        lambda: Provider.objects.update(kind="klingon"),
        lambda: Provider.objects.update(api_key_env="EXAMPLE_API_KEY"),
        lambda: Route.objects.all().delete(),
        lambda: Route.objects.update(is_enabled=False),
    ],
    ids=["provider disabled", "a kind without an adapter", "no credentials", "no route", "route disabled"],
)
def test_a_model_that_cannot_be_called_is_listed_on_request_only(api, echo_model, withdraw, monkeypatch):
    monkeypatch.delenv("EXAMPLE_API_KEY", raising=False)
    withdraw()
    factories.make_model("demo/other", provider=factories.make_provider("other"))
    assert listed(api) == listed(api, available="true") == ["demo/other"]
    assert listed(api, available="false") == ["demo/echo"]
    assert listed(api, available="all") == ["demo/echo", "demo/other"]
    assert [model["available"] for model in api.get(LIST, {"available": "all"}).json()["data"]] == [False, True]
    assert api.get(f"{LIST}/demo/echo").json()["available"] is False
    chat.assert_error(chat.ask(api), 404, "model_not_found", "model")


def test_a_blank_environment_variable_is_no_key(api, echo_model, monkeypatch):
    monkeypatch.setenv("EXAMPLE_API_KEY", " \n")
    Provider.objects.update(api_key_env="EXAMPLE_API_KEY")
    assert listed(api) == []
    chat.assert_error(chat.ask(api), 404, "model_not_found", "model")


@pytest.mark.parametrize("given", ["environment", "sealed"])
def test_a_provider_with_its_key_makes_its_models_available(api, echo_model, monkeypatch, given):
    Provider.objects.update(api_key_env="EXAMPLE_API_KEY")
    if given == "environment":
        monkeypatch.setenv("EXAMPLE_API_KEY", "sk-example")
    else:
        monkeypatch.delenv("EXAMPLE_API_KEY", raising=False)
        Provider.objects.update(sealed_api_key=secretbox.encrypt("sk-example", purpose="provider:echo"))
    reply = api.get(LIST)
    assert [model["available"] for model in reply.json()["data"]] == [True]
    assert b"sk-example" not in reply.content
    assert chat.ask(api).status_code == 200


def test_a_provider_whose_stored_key_cannot_be_decrypted_is_not_used_and_logged(api, echo_model, settings, caplog):
    lost = factories.make_provider("lost", sealed_api_key=secretbox.encrypt("sk-lost", purpose="provider:lost"))
    Route.objects.create(model=echo_model, provider=lost, upstream_model="echo", priority=0)
    settings.ENCRYPTION_KEYS = [Fernet.generate_key().decode()]

    assert [chat.ask(api).status_code for _ in range(2)] == [200, 200]
    logged = [record.getMessage() for record in caplog.records if record.name == "gateway.catalog"]
    assert logged == ["the key of provider lost cannot be read with GATEWAY_ENCRYPTION_KEYS: it is not used"]


def test_one_available_route_is_enough_and_is_used(api, echo_model):
    disabled = factories.make_provider("disabled", is_enabled=False)
    Route.objects.create(model=echo_model, provider=disabled, upstream_model="echo", priority=0)
    assert [model["available"] for model in api.get(LIST).json()["data"]] == [True]
    assert chat.ask(api).status_code == 200


def test_the_price_shown_and_charged_is_the_latest_in_force(api, echo_model):
    factories.change_prices(Price.objects, effective_from=Now() - timedelta(days=2))
    Price.objects.create(
        model=echo_model,
        effective_from=Now() - timedelta(days=1),
        rates=factories.rates_of(input_nanos=0, output_nanos=4000000000000),
    )
    Price.objects.create(
        model=echo_model, effective_from=Now() + timedelta(days=1), rates=factories.rates_of(input_nanos=0, output_nanos=0)
    )
    assert api.get(f"{LIST}/demo/echo").json()["pricing"]["completion"] == "0.004"
    chat.ask(api, max_tokens=2)
    assert api.get("/v1/usage").json()["usage"]["total"]["costInDollars"] == "0.008"


@pytest.mark.parametrize("given", ["", "yes", "TRUE", "none", "2"])
def test_an_invalid_available_is_named(api, echo_model, given):
    error = chat.assert_error(api.get(LIST, {"available": given}), 400, "invalid_request_error", "available")
    assert error["message"] == "available must be true, false or all."


@pytest.mark.parametrize("given", ["true", "True", "1", "all"])
def test_available_is_read_like_other_booleans(api, echo_model, given):
    assert listed(api, available=given) == ["demo/echo"]


# --- Keys that are limited to some models ---------------------------------------------------------------------------


def test_a_key_sees_only_the_models_it_may_use(alice, echo_model):
    factories.make_model("demo/secret")
    key, secret = factories.make_key(alice)
    client = client_for(secret)
    key.allowed_models = ["demo/echo", "not/there"]  # type: ignore[misc]
    key.save(update_fields=["allowed_models"])
    assert listed(client) == ["demo/echo"]
    assert client.get(f"{LIST}/demo/echo").status_code == 200
    refused = chat.assert_error(client.get(f"{LIST}/demo/secret"), 404, "model_not_found", "model")["message"]
    unknown = chat.assert_error(client.get(f"{LIST}/demo/nobody"), 404, "model_not_found", "model")["message"]
    assert refused.replace("secret", "nobody") == unknown  # the reply does not reveal which models exist


def test_an_empty_list_of_allowed_models_allows_all(alice, echo_model):
    key, secret = factories.make_key(alice)
    key.allowed_models = []  # type: ignore[misc]
    key.save(update_fields=["allowed_models"])
    assert listed(client_for(secret)) == ["demo/echo"]
    assert chat.ask(client_for(secret)).status_code == 200


def test_models_are_listed_without_balance_or_limit(bob, echo_model):
    client = client_for(factories.make_key(bob, limit_cents=0, type="FIXED")[1])
    assert listed(client) == ["demo/echo"]


# --- Why a model is not found -----------------------------------------------------------------------------------------

UNKNOWN = "'demo/echo' does not exist or you do not have access to it."
UNSERVED = "'demo/echo' is not available here yet: no provider is connected."
HIDDEN = "'demo/echo' is not offered at present."
# What the operator did, by cause.
HIDES: dict[str, Callable[[], object]] = {
    "disabled": lambda: LanguageModel.objects.update(is_enabled=False),
    "unpriced": lambda: Price.objects.all().delete(),
    "priced later": lambda: factories.change_prices(Price.objects, effective_from=Now() + timedelta(minutes=1)),
    "disabled and without a provider": lambda: (LanguageModel.objects.update(is_enabled=False), Route.objects.all().delete()),
}
DISCONNECTS: dict[str, Callable[[], object]] = {
    "no key of the provider": lambda: Provider.objects.update(api_key_env="NO_SUCH_API_KEY"),
    "a key that cannot be read": lambda: Provider.objects.update(sealed_api_key="sealed with a key that is lost"),
    "provider disabled": lambda: Provider.objects.update(is_enabled=False),
    "a kind without an adapter": lambda: Provider.objects.update(kind="klingon"),
    "no route": lambda: Route.objects.all().delete(),
    "route disabled": lambda: Route.objects.update(is_enabled=False),
}
NAMED, ANOTHER = ["demo/other", "demo/echo"], ["demo/other"]
# id: what was done, the models of the key, the reason that it is told, the words, the class that its list of refusals shows
NOT_FOUND: dict[str, tuple[Callable[[], object], list[str] | None, str, str, str]] = {
    **{f"{name}, any model": (act, None, "no_provider", UNSERVED, "ModelNotServed") for name, act in DISCONNECTS.items()},
    **{f"{name}, named": (act, NAMED, "no_provider", UNSERVED, "ModelNotServed") for name, act in DISCONNECTS.items()},
    **{f"{name}, another": (act, ANOTHER, "unknown", UNKNOWN, "ModelNotAllowed") for name, act in DISCONNECTS.items()},
    **{f"{name}, any model": (act, None, "unknown", UNKNOWN, "ModelUnknown") for name, act in HIDES.items()},
    **{f"{name}, an empty list": (act, [], "unknown", UNKNOWN, "ModelUnknown") for name, act in HIDES.items()},
    **{f"{name}, another": (act, ANOTHER, "unknown", UNKNOWN, "ModelUnknown") for name, act in HIDES.items()},
    **{f"{name}, named": (act, NAMED, "not_offered", HIDDEN, "ModelNotOffered") for name, act in HIDES.items()},
    "served, another": (lambda: None, ANOTHER, "unknown", UNKNOWN, "ModelNotAllowed"),
    "no such model": (lambda: forget_model(), None, "unknown", UNKNOWN, "ModelUnknown"),
    "no such model, named": (lambda: forget_model(), NAMED, "unknown", UNKNOWN, "ModelUnknown"),
}


def forget_model():
    Route.objects.filter(model="demo/echo").delete()
    Price.objects.filter(model="demo/echo").delete()
    LanguageModel.objects.filter(pk="demo/echo").delete()


def asked_for(client, path: str, **fields):
    messages = [{"role": "user", "content": "Hello"}]
    given = {"input": "Hello"} if path == "/v1/responses" else {"messages": messages, "max_tokens": 5}
    return client.post(path, {"model": "demo/echo", **given, **fields})


@pytest.mark.parametrize("case", NOT_FOUND)
def test_a_model_is_not_found_for_the_reason_that_its_key_may_know(alice, echo_model, case):
    act, allowed, reason, words, kind = NOT_FOUND[case]
    factories.make_model("demo/other", provider=factories.make_provider("other"))
    key, secret = factories.make_key(alice)
    ApiKey.objects.filter(pk=key.pk).update(allowed_models=allowed)
    act()
    before = chat.everything_written()
    replies = [
        asked_for(client_for(secret), path, **fields)
        for path in ("/v1/chat/completions", "/v1/responses", "/v1/quote")
        for fields in ({}, {"stream": True})
    ]
    for reply in replies:
        error = chat.assert_error(reply, 404, "model_not_found", "model")
        assert (error["message"], error["reason"]) == (f"The model {words}", reason)
    for path in ("/v1/messages", "/v1/messages/count_tokens"):
        error = asked_for(client_for(secret), path).json()["error"]
        assert (error["type"], error["details"]) == ("not_found_error", {"reason": reason})
    assert chat.everything_written() == before
    collector.write()
    assert set(key.refused_requests.values_list("error", "code")) == {(kind, "model_not_found")}


@pytest.mark.parametrize(
    ("act", "reason", "words"),
    [
        (DISCONNECTS["no key of the provider"], "no_provider", UNSERVED),
        (HIDES["disabled"], "unknown", UNKNOWN),
    ],
    ids=["unserved", "disabled"],
)
def test_a_fallback_is_not_found_for_its_own_reason(alice, api, echo_model, act, reason, words):
    act()
    factories.make_model("demo/other", provider=factories.make_provider("other"))
    error = chat.assert_error(chat.ask(api, model="demo/other", models=["demo/echo"]), 404, "model_not_found", "models[0]")
    assert (error["message"], error["reason"]) == (f"models[0]: the model {words}", reason)


def test_a_ranking_without_a_model_is_not_found_for_that_reason(api, echo_model):
    error = chat.assert_error(chat.ask(api, model="best/coding"), 404, "model_not_found", "model")
    assert error["reason"] == "no_ranked_model"
    assert "No model that can be called is ranked there" in error["message"]


def test_a_flood_of_requests_for_an_unserved_model_is_told_the_same(api, alice, echo_model):
    Route.objects.all().delete()
    errors = [chat.assert_error(chat.ask(api), 404, "model_not_found", "model") for _ in range(FLOOD_REFUSALS + 2)]
    assert {(error["reason"], error["message"]) for error in errors} == {("no_provider", f"The model {UNSERVED}")}


# --- Constraints of the database ------------------------------------------------------------------------------------


def test_the_database_refuses_more_output_than_the_context_window(echo_model):
    before = LanguageModel.objects.values().get()
    with pytest.raises(IntegrityError, match="a_model_writes_within_its_context_window"), transaction.atomic():
        LanguageModel.objects.update(context_window=4_095)
    assert LanguageModel.objects.values().get() == before
    LanguageModel.objects.update(context_window=4_096)


# --- Malformed ids --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model_id", ["demo", "demo/echo/", "DEMO/ECHO", "%00", "demo/echo%00", "%FF", "..", "é", "x" * 5_000])
def test_a_malformed_id_is_not_found(api, echo_model, model_id):
    chat.assert_error(api.get(f"{LIST}/{model_id}"), 404, "model_not_found", "model")


# --- Queries --------------------------------------------------------------------------------------------------------


def test_the_number_of_queries_does_not_grow_with_the_catalog(api, echo_model):
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            api.get(LIST)
        return len(captured)

    listed(api)
    few = queries()
    for number in range(20):
        factories.make_model(f"demo/{number}", provider=factories.make_provider(f"echo-{number}"))
    assert (queries(), len(listed(api))) == (few, 21)
    assert few <= 5


# --- Availability ---------------------------------------------------------------------------------------------------


def test_every_kind_of_provider_has_an_adapter():
    models = [LanguageModel(kind=kind) for kind in ModelKind]
    routes = [
        Route(model=model, provider=Provider(kind=kind), api=api)
        for model in models
        for kind in Provider.Kind
        for api in Route.Api
    ]
    of_embeddings = {f"{kind}-embeddings" for kind in Provider.Kind}
    assert set(ADAPTERS) == {route.adapter for route in routes} == {*Provider.Kind.values, "openai-responses", *of_embeddings}


@pytest.mark.parametrize(
    ("withdraw", "obstacles"),
    [
        (lambda: None, []),
        (lambda: LanguageModel.objects.update(is_enabled=False), [Obstacle.DISABLED]),
        (lambda: Price.objects.all().delete(), [Obstacle.UNPRICED]),
        (lambda: Route.objects.update(is_enabled=False), [Obstacle.UNROUTED]),
        (lambda: Provider.objects.update(kind="klingon"), [Obstacle.UNREACHABLE]),
        (lambda: (Price.objects.all().delete(), Route.objects.all().delete()), [Obstacle.UNPRICED, Obstacle.UNROUTED]),
    ],
)
def test_a_model_is_available_if_and_only_if_it_has_no_obstacle(echo_model, withdraw, obstacles):
    withdraw()
    model = LanguageModel.objects.with_price_and_routes().get()
    assert list(model.obstacles()) == obstacles
    assert model.is_available is (not obstacles)


# --- Credentials of clouds ---------------------------------------------------------------------------------------------


def test_a_worker_fetches_the_credential_of_a_cloud_before_a_request_needs_it(db, monkeypatch):
    for slug, fields in {"cloud": {}, "off": {"is_enabled": False}}.items():
        access = {"auth": {"type": "azure", "client_id": slug}}
        factories.make_provider(slug, kind="openai", base_url="https://x.openai.azure.com/openai/v1", access=access, **fields)
    with document_server.serving() as identity:  # as of App Service
        monkeypatch.setenv("IDENTITY_ENDPOINT", f"{identity.origin}/identity")
        monkeypatch.setenv("IDENTITY_HEADER", "h")
        identity.will(
            document_server.reply(
                json.dumps({"access_token": "a", "expires_on": str(int(time.time()) + 3_600), "token_type": "Bearer"})
            )
        )
        lookup.fetch_credentials_at_start()
        gevent.sleep(0.01)
        waiting.until(lambda: identity.received)
    assert ["client_id=cloud" in received.path for received in identity.received] == [True]
