"""Catalog files: which rows they create, what they leave alone, and every mistake that is refused."""

import json
from decimal import Decimal

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from msgspec.structs import replace

from completions import chat
from completions.catalog import file as catalog_file
from completions.catalog import lookup
from completions.chat import Promise
from completions.models import Category, LanguageModel, Price, Provider, ProviderPrice, Route
from completions.pricing import meters
from gateway_project.db import pool

pytestmark = pytest.mark.django_db

VALID = """
[catalog]
as_of = 2026-11-10

[providers.openai]
kind = "openai"
base_url = "https://api.openai.com/v1/"
api_key_env = "OPENAI_API_KEY"
connect_seconds = 3
first_byte_seconds = 30
idle_seconds = 40
total_seconds = 600
cancels = true

[providers.shed]
kind = "openai"
base_url = "http://gpu-shed:8001/v1"
passes_unknown_fields = true

[models."openai/gpt-4o-mini"]
name = "GPT-4o mini"
provider = "OpenAI"
category = "CODING"
context_window = 128000
max_output_tokens = 16384
image_support = true
image_tokens_max = 48000
function_calling = true
reasoning = false
requests_in_flight_max = 7
commercial_use = true
license = "Proprietary"
price = { input = "0.15", output = "0.60", cached_input = "0.075", image = "0.002" }
routes = [
    { provider = "openai", upstream_model = "gpt-4o-mini", priority = 2 },
    { provider = "shed", upstream_model = "mini", weight = 3, api = "responses" },
]
"""

MINIMAL = """
[providers.shed]
kind = "openai"
base_url = "http://127.0.0.1:8001/v1"

[models.m]
name = "M"
provider = "Us"
context_window = 10
max_output_tokens = 10
price = { input = "1", output = "2" }
routes = [{ provider = "shed", upstream_model = "m" }]
"""


@pytest.fixture
def load(tmp_path, capsys):
    """Load these texts as files catalog.toml, second.toml, and return what was printed."""

    def load(*texts: str, **options: bool) -> str:
        paths = []
        for name, text in zip(["catalog.toml", "second.toml"], texts, strict=False):
            path = tmp_path / name
            path.write_bytes(text.encode("utf-8", "surrogateescape"))
            paths.append(str(path))
        call_command("load_catalog", *paths, **options)
        return capsys.readouterr().out

    return load


def everything() -> list[list[tuple]]:
    return [list(rows.objects.order_by("pk").values_list()) for rows in (Provider, LanguageModel, Price, Route)]


def prices(model_id: str) -> list[dict[str, str]]:
    """The rates of each price, the oldest first."""
    return [price.sheet.values for price in Price.objects.filter(model=model_id).order_by("effective_from")]


def routes() -> list[tuple]:
    return list(Route.objects.values_list("model", "provider", "upstream_model", "priority", "is_enabled"))


# --- Rows -----------------------------------------------------------------------------------------------------------


def test_a_file_says_how_providers_and_routes_treat_data_and_a_file_without_it_takes_that_back(load):
    promising = VALID.replace("[providers.openai]", '[providers.openai]\nretention_days = 30\ntrains = false\nregion = "us"')
    load(promising.replace('provider = "openai", upstream_model', 'provider = "openai", region = "eu", upstream_model', 1))
    provider = Provider.objects.get(pk="openai")
    assert (provider.retention_days, provider.trains, provider.region) == (30, False, "us")
    [route] = Route.objects.filter(region="eu")
    assert (route.retention_days, route.trains) == (None, None)
    assert route.promise == Promise(30, False, "eu")
    load(VALID)
    assert Route.objects.get(pk=route.pk).promise == Promise()


def test_a_file_creates_exactly_its_rows(load):
    load(VALID)

    assert list(Provider.objects.order_by("pk").values_list()) == [
        (
            *(None, None, ""),
            "openai",
            "openai",
            "https://api.openai.com/v1",
            "OPENAI_API_KEY",
            "",
            {},
            True,
            3,
            30,
            40,
            600,
            True,
            False,
            "off",
            [],
            "",
            None,
            "",
        ),
        (
            *(None, None, ""),
            "shed",
            "openai",
            "http://gpu-shed:8001/v1",
            "",
            "",
            {},
            True,
            None,
            None,
            None,
            None,
            False,
            True,
            "off",
            [],
            "",
            None,
            "",
        ),
    ]
    model = LanguageModel.objects.get()
    assert (model.pk, model.name, model.maker, model.category) == ("openai/gpt-4o-mini", "GPT-4o mini", "OpenAI", "CODING")
    assert (model.context_window, model.max_output_tokens) == (128_000, 16_384)
    assert (model.image_support, model.function_calling, model.commercial_use) == (True, True, True)
    assert (model.image_tokens_max, model.reasoning, model.requests_in_flight_max) == (48_000, False, 7)
    assert (model.license, model.is_enabled) == ("Proprietary", True)
    assert prices("openai/gpt-4o-mini") == [{"input": "0.15", "output": "0.60", "cached_input": "0.075", "image": "0.002"}]
    declared = [("shed", 3, "responses"), ("openai", 1, "chat")]
    assert [(route.provider_id, route.weight, route.api) for route in Route.objects.all()] == declared
    assert routes() == [
        ("openai/gpt-4o-mini", "shed", "mini", 1, True),
        ("openai/gpt-4o-mini", "openai", "gpt-4o-mini", 2, True),
    ]


def test_an_hour_in_the_cache_service_tiers_and_searches_have_prices(load):
    given = (
        'output = "2", cache_write_1h = "3", flex_input = "0.5", flex_output = "1", priority_input = "4", priority_output = "8"'
    )
    load(MINIMAL.replace('output = "2"', f'{given}, priority_cached_input = "0.4", web_search = "0.01"'))
    assert prices("m") == [
        {
            "input": "1.00",
            "output": "2.00",
            "cache_write_1h": "3.00",
            "web_search": "0.01",
            "flex_input": "0.50",
            "flex_output": "1.00",
            "priority_input": "4.00",
            "priority_output": "8.00",
            "priority_cached_input": "0.40",
        }
    ]


def test_optional_fields_get_cautious_defaults(load):
    load(MINIMAL)

    model = LanguageModel.objects.get()
    assert (model.category, model.license, model.is_enabled) == ("GENERAL", None, True)
    assert (model.image_support, model.function_calling, model.commercial_use) == (False, False, False)
    assert (model.image_tokens_max, model.reasoning, model.requests_in_flight_max) == (6_000, None, None)
    assert [(route.priority, route.weight) for route in Route.objects.all()] == [(1, 1)]


def test_a_load_reports_what_it_did(load):
    report = json.loads(load(VALID, json=True))

    assert report["asOf"] == "2026-11-10"
    assert report["providers"] == {"created": 2, "updated": 0, "deleted": 0, "unchanged": 0}
    assert report["models"]["created"] == report["prices"]["created"] == 1
    assert report["routes"]["created"] == 2
    assert report["warnings"] == []


def test_a_second_load_writes_nothing_and_says_so(load):
    load(VALID)
    before = everything()

    with CaptureQueriesContext(
        connection,
    ) as queries:
        assert load(VALID) == "Nothing changed.\n"

    assert everything() == before
    assert not [query["sql"] for query in queries if query["sql"].startswith(("INSERT", "UPDATE", "DELETE"))]


def test_a_new_price_is_a_new_row_and_the_old_one_stays(load):
    load(VALID)
    before = Price.objects.get()

    report = json.loads(load(VALID.replace('input = "0.15"', 'input = "0.20"'), json=True))

    assert report["prices"] == {"created": 1, "updated": 0, "deleted": 0, "unchanged": 0}
    assert report["models"]["updated"] == report["routes"]["updated"] == 0
    old, new = Price.objects.order_by("effective_from")
    assert (old.pk, old.input_nanos, old.effective_from) == (before.pk, 150_000_000, before.effective_from)
    assert new.input_nanos == 200_000_000


def test_a_price_that_returns_to_an_earlier_value_is_a_third_row(load):
    load(VALID)
    load(VALID.replace('input = "0.15"', 'input = "0.20"'))
    load(VALID)

    assert [price["input"] for price in prices("openai/gpt-4o-mini")] == ["0.15", "0.20", "0.15"]


def test_removing_a_cached_price_creates_a_price_without_it(load):
    load(VALID)
    load(VALID.replace(', cached_input = "0.075"', ""))

    assert [price.get("cached_input") for price in prices("openai/gpt-4o-mini")] == ["0.075", None]


def test_a_file_without_a_price_leaves_the_price(load):
    load(VALID)
    kept = prices("openai/gpt-4o-mini")

    load("\n".join(line for line in VALID.splitlines() if not line.startswith("price")))

    assert prices("openai/gpt-4o-mini") == kept


def test_a_changed_model_is_updated_in_place(load):
    load(VALID)
    born = LanguageModel.objects.get().created_at

    report = json.loads(load(VALID.replace("16384", "20000"), json=True))

    assert report["models"] == {"created": 0, "updated": 1, "deleted": 0, "unchanged": 0}
    assert report["prices"]["created"] == 0
    model = LanguageModel.objects.get()
    assert (model.max_output_tokens, model.created_at) == (20_000, born)


def test_routes_become_exactly_those_of_the_file(load):
    load(VALID)
    changed = VALID.replace('upstream_model = "mini"', 'upstream_model = "other"').replace("priority = 2", "priority = 3")

    report = json.loads(load(changed, json=True))

    assert report["routes"] == {"created": 1, "updated": 1, "deleted": 1, "unchanged": 0}
    assert routes() == [
        ("openai/gpt-4o-mini", "shed", "other", 1, True),
        ("openai/gpt-4o-mini", "openai", "gpt-4o-mini", 3, True),
    ]


def test_rules_are_those_of_the_model_and_instead_of_them_those_of_the_route(load):
    def found() -> chat.ModelRules:
        model = LanguageModel.objects.with_price_and_routes().get()
        return lookup.offer_of(model, model.prices_in_force[0], model.enabled_routes).routes[0].rules

    claude = (
        MINIMAL.replace('"openai"', '"anthropic"')
        .replace("8001/v1", "8001")
        .replace('upstream_model = "m"', 'upstream_model = "m"%s')
    )
    load(claude % "")
    unknown = found()
    assert (unknown.forced_tools, unknown.prefill, unknown.efforts[0]) == (False, False, "low")
    stated = claude.replace('name = "M"', 'name = "M"\nrules = { forced_tools = true, prefill = true }')
    stated %= ', rules = { prefill = false, efforts = ["high", "low"] }'
    load(stated)
    assert Route.objects.get().rules == {"forced_tools": True, "prefill": False, "efforts": ["high", "low"]}
    assert found() == replace(unknown, forced_tools=True, efforts=("low", "high"))
    assert load(stated) == "Nothing changed.\n"
    load(claude % "")
    assert found() == unknown


def test_rows_that_the_file_does_not_name_stay(load):
    load(VALID)
    before = everything()

    load(MINIMAL.replace("providers.shed", "providers.other").replace('"shed"', '"other"'))

    for rows, kept in zip(everything(), before, strict=True):
        assert len(kept) < len(rows)
        assert all(row in rows for row in kept)


def test_a_later_file_replaces_a_table_of_an_earlier_one_before_anything_is_written(load):
    mine = """
    [models."openai/gpt-4o-mini"]
    name = "Ours"
    provider = "OpenAI"
    context_window = 1000
    max_output_tokens = 100
    price = { input = "9", output = "9" }
    routes = [{ provider = "openai", upstream_model = "gpt-4o-mini" }]
    """
    load(VALID, mine)

    assert LanguageModel.objects.get().name == "Ours"
    assert prices("openai/gpt-4o-mini") == [{"input": "9.00", "output": "9.00"}]
    assert load(VALID, mine) == "Nothing changed.\n"


def test_is_enabled_is_left_to_the_operator(load):
    load(VALID)
    for rows in (Provider, LanguageModel, Route):
        rows.objects.update(is_enabled=False)

    assert load(VALID) == "Nothing changed.\n"

    assert not any(rows.objects.filter(is_enabled=True).exists() for rows in (Provider, LanguageModel, Route))


def test_a_model_can_be_disabled_and_enabled_by_its_file(load):
    load(VALID + "\nenabled = false")
    assert not LanguageModel.objects.get().is_enabled

    load(VALID + "\nenabled = true")
    assert LanguageModel.objects.get().is_enabled


def test_a_stored_key_survives_a_load(load):
    load(VALID)
    Provider.objects.update(sealed_api_key="sealed")

    report = json.loads(load(VALID.replace("OPENAI_API_KEY", "OTHER_API_KEY"), json=True))

    assert list(Provider.objects.order_by("pk").values_list("api_key_env", "sealed_api_key")) == [
        ("OTHER_API_KEY", "sealed"),
        ("", "sealed"),
    ]
    assert report["warnings"] == []


def test_a_stored_key_is_forgotten_when_the_address_changes(load):
    load(VALID)
    Provider.objects.update(sealed_api_key="sealed")

    report = json.loads(load(VALID.replace("api.openai.com", "eu.api.openai.com"), json=True))

    assert list(Provider.objects.order_by("pk").values_list("base_url", "sealed_api_key")) == [
        ("https://eu.api.openai.com/v1", ""),
        ("http://gpu-shed:8001/v1", "sealed"),
    ]
    assert report["providers"] == {"created": 0, "updated": 1, "deleted": 0, "unchanged": 1}
    assert report["warnings"] == ["provider openai has a new address, so its stored key is forgotten"]


def test_a_stored_secret_of_a_cloud_is_forgotten_when_it_would_be_sent_as_it_is(load):
    cloud = VALID.replace('api_key_env = "OPENAI_API_KEY"', 'auth = { type = "google" }\nplatform = "vertex"')
    load(cloud)
    Provider.objects.update(sealed_api_key="sealed")
    assert json.loads(load(cloud + " ", json=True))["warnings"] == []

    report = json.loads(load(VALID, json=True))

    assert Provider.objects.get(pk="openai").sealed_api_key == ""
    assert report["warnings"] == ["provider openai has another type of auth, so its stored key is forgotten"]


@pytest.mark.parametrize(("kind", "host"), [("google", "*.googleapis.com"), ("azure", "x.openai.azure.com.example.org")])
def test_the_identity_of_the_host_goes_to_its_cloud_alone(load, kind, host):
    cloud = VALID.replace('api_key_env = "OPENAI_API_KEY"', f'auth = {{ type = "{kind}" }}')
    with pytest.raises(CommandError, match="auth without env is sent to hosts of"):
        load(cloud.replace("api.openai.com", host.replace("*", "example.org/")))
    assert not Provider.objects.exists()

    own = {"google": "aiplatform.googleapis.com", "azure": "x.openai.azure.com"}[kind]
    load(cloud.replace("api.openai.com", own))
    assert Provider.objects.get(pk="openai").access == {"auth": {"type": kind}}


def test_a_stored_key_survives_a_file_that_is_refused(load):
    load(VALID)
    Provider.objects.update(sealed_api_key="sealed")

    with pytest.raises(CommandError):
        load(VALID.replace("api.openai.com", "eu.api.openai.com").replace('input = "0.15"', 'input = "free"'))

    assert set(Provider.objects.values_list("sealed_api_key", flat=True)) == {"sealed"}


def test_a_route_may_name_a_provider_that_exists_already(load):
    load(VALID)
    load(MINIMAL[MINIMAL.index("[models.m]") :])

    assert ("m", "shed", "m", 1, True) in routes()


def test_callers_pay_the_price_of_a_file_with_the_markup(load, settings):
    text = MINIMAL.replace('output = "2"', 'output = "0.000000001"')
    load(text)
    assert prices("m") == [{"input": "1.00", "output": "0.000000001"}]
    settings.MARKUP_PERCENT = Decimal("5.25")
    load(text)
    load(text)  # changes nothing
    assert prices("m")[1:] == [{"input": "1.0525", "output": "0.000000002"}]  # rounded up
    settings.MARKUP_PERCENT = Decimal(0)
    load(text)
    assert prices("m")[2:] == [{"input": "1.00", "output": "0.000000001"}]


@pytest.mark.parametrize("options", [{}, {"check": True}])
@pytest.mark.parametrize(
    ("written", "rate"),
    [
        ('output = "838.488366987"', "output"),
        ('output = "2", flex = { input = "1", output = "838.488366987" }', "flex_output"),
        ('output = "2", above = [{ prompt_tokens = 9, input = "838.488366987", output = "2" }]', "input_above_9"),
    ],
)
def test_a_price_is_at_most_the_dearest_with_its_markup(load, settings, options, written, rate):
    settings.MARKUP_PERCENT = Decimal(1000)
    text = MINIMAL.replace('output = "2"', written)
    with pytest.raises(CommandError) as refused:
        load(text, **options)
    assert str(refused.value).splitlines() == [
        f"catalog.toml: {MODEL} price: {rate} is 9223.372036857 with GATEWAY_MARKUP_PERCENT, more than 9223.372036854",
        "Nothing was written.",
    ]
    assert everything() == [[], [], [], []]
    load(text.replace("838.488366987", "838.488366986"), **options)


def test_a_model_with_images_and_no_maximum_of_its_own_gets_a_warning(load):
    text = MINIMAL.replace('name = "M"', 'name = "M"\nimage_support = true')

    [warning] = json.loads(load(text, json=True))["warnings"]

    assert warning.startswith("m takes images and has no image_tokens_max: 6,000 tokens are held for each image")
    assert json.loads(load(text.replace("image_support", "image_tokens_max = 9\nimage_support"), json=True))["warnings"] == []


def test_the_built_in_catalog_says_what_an_image_costs_of_each_model_that_takes_images():
    catalog = catalog_file.read([catalog_file.BUILT_IN])
    silent = [each for each in catalog.models.values() if "image_tokens_max" not in each.model_fields_set]
    assert not any(each.image_support for each in silent)
    assert catalog.models["openai/gpt-4o-mini"].image_tokens_max == 2_833 + 8 * 5_667


@pytest.mark.parametrize(("left_out", "lack"), [("price", "price in force"), ("routes", "enabled route")])
def test_a_model_without_price_or_route_is_created_with_a_warning(load, left_out, lack):
    text = "\n".join(line for line in MINIMAL.splitlines() if not line.startswith(left_out))

    warnings = json.loads(load(text, json=True))["warnings"]

    assert LanguageModel.objects.filter(pk="m").exists()
    assert warnings == [f"m has no {lack}, so it is not served"]


def test_checking_writes_nothing(load):
    assert load(VALID, check=True) == "2 providers and 1 model are in order. Nothing was written.\n"
    assert everything() == [[], [], [], []]


# --- Mistakes -------------------------------------------------------------------------------------------------------

MODEL = "[models.m]"
SHED = "[providers.shed]"
FIVE = '{ prompt_tokens = 5, input = "1", output = "1" }'
RATES = "input, output, cached_input, cache_write, cache_write_1h, image, web_search"
REFUSED = {
    "not TOML": ("[models.m]\n", "[models.m\n", "catalog.toml: is not TOML"),
    "not UTF-8": ('"M"', '"\udcff"', "catalog.toml: is not TOML"),
    "the same table twice": ("[models.m]", "[models.m]\n[models.m]", "catalog.toml: is not TOML"),
    "unknown table": ("[models.m]", "[model.x]\n[models.m]", "catalog.toml: model: is not known here"),
    "a date that is text": (SHED, f'[catalog]\nas_of = "2026-11-10"\n{SHED}', "[catalog] as_of: must be a date, not text"),
    "a date with a time": (SHED, f"[catalog]\nas_of = 2026-11-10T00:00:00\n{SHED}", "[catalog] as_of: must be a date, not"),
    "unknown catalog field": (SHED, f"[catalog]\nsource = 1\n{SHED}", "[catalog] source: is not known here"),
    "models that are no table": (MINIMAL, "models = 1", "models: must be a table, not a whole number"),
    "a model that is no table": (MINIMAL, "models.m = 1", "models.m: must be a table"),
    "provider name": (SHED, '[providers."a shed"]', '[providers."a shed"] a provider\'s name has'),
    "unknown provider field": ('kind = "openai"', 'kind = "openai"\napi_key = "sk-1"', f"{SHED} api_key: is not known here"),
    "kind missing": ('kind = "openai"', "", f"{SHED} kind: is missing"),
    "kind unknown": ('kind = "openai"', 'kind = "cohere"', f"{SHED} kind: 'cohere' is not one of openai, anthropic,"),
    "base_url missing": ('base_url = "http://127.0.0.1:8001/v1"', "", f"{SHED} base_url: is missing"),
    "base_url empty": ('"http://127.0.0.1:8001/v1"', '""', f"{SHED} base_url: must begin with http"),
    "base_url scheme": ("http://127", "ftp://127", f"{SHED} base_url: must begin with http"),
    "base_url host": ("http://127.0.0.1:8001", "http://", f"{SHED} base_url: must begin with http"),
    "base_url port": (":8001", ":80011", f"{SHED} base_url: must begin with http:// or https:// and a host"),
    "base_url password": ("http://127", "http://me:pw@127", f"{SHED} base_url: must not carry a user name"),
    "base_url query": ("8001/v1", "8001/v1?key=1", f"{SHED} base_url: must end with its path"),
    "base_url fragment": ("8001/v1", "8001/v1#x", f"{SHED} base_url: must end with its path"),
    "base_url number": (
        "http://127.0.0.1",
        "http://2130706433",
        f"{SHED} base_url: must have a host name, or an IP address in",
    ),
    "base_url letters": (
        "http://127.0.0.1",
        "http://b\u00fccher.example",
        f"{SHED} base_url: must have a host of ASCII letters",
    ),
    "retention below zero": (SHED, f"{SHED}\nretention_days = -1", f"{SHED} retention_days: -1 is not between 0 and 36500"),
    "retention in words": (
        SHED,
        f'{SHED}\nretention_days = "none"',
        f"{SHED} retention_days: must be a whole number, not text",
    ),
    "training in words": (SHED, f'{SHED}\ntrains = "no"', f"{SHED} trains: must be true or false, not text"),
    "a region in capitals": (SHED, f'{SHED}\nregion = "EU"', f"{SHED} region: 'EU' is neither two lower-case letters"),
    "a region of a cloud": (SHED, f'{SHED}\nregion = "eu-west-1"', f"{SHED} region: 'eu-west-1' is neither two"),
    "trained on and not kept": (SHED, f"{SHED}\nretention_days = 0\ntrains = true", "trains = true contradicts retention_days"),
    "base_url of echo": ('kind = "openai"', 'kind = "echo"', f"{SHED} base_url: is not known here"),
    "a key for the name of a variable": (SHED, f'{SHED}\napi_key_env = "sk-abc"', f"{SHED} api_key_env: must be the name"),
    "our own secret": (SHED, f'{SHED}\napi_key_env = "GATEWAY_SECRET_KEY"', f"{SHED} api_key_env: names a secret of"),
    "model id with a space": (MODEL, '[models."a b"]', '[models."a b"] a model id has'),
    "model id with an empty segment": (MODEL, '[models."a//b"]', '[models."a//b"] a model id has'),
    "model id ends in a slash": (MODEL, '[models."a/"]', '[models."a/"] a model id has'),
    "model id too long": (MODEL, f'[models."{"x" * 201}"]', "a model id has at most 200"),
    "unknown model field": ('name = "M"', 'name = "M"\ncontext = 1', f"{MODEL} context: is not known here"),
    "name missing": ('name = "M"', "", f"{MODEL} name: is missing"),
    "name empty": ('name = "M"', 'name = ""', f"{MODEL} name: must have 1-200 printable characters"),
    "name with a line break": ('name = "M"', r'name = "M\nM"', f"{MODEL} name: must have 1-200 printable characters"),
    "maker missing": ('provider = "Us"', "", f"{MODEL} provider: is missing"),
    "category": ('name = "M"', 'name = "M"\ncategory = "general"', f"{MODEL} category: 'general' is not one of GENERAL,"),
    "context_window missing": ("context_window = 10", "", f"{MODEL} context_window: is missing"),
    "context_window zero": ("context_window = 10", "context_window = 0", f"{MODEL} context_window: 0 is not between 1 and"),
    "context_window too large": ("context_window = 10", f"context_window = {2**31}", f"{MODEL} context_window: {2**31} is not"),
    "context_window fraction": ("context_window = 10", "context_window = 10.0", f"{MODEL} context_window: must be a whole"),
    "context_window boolean": ("context_window = 10", "context_window = true", f"{MODEL} context_window: must be a whole"),
    "context_window text": ("context_window = 10", 'context_window = "10"', f"{MODEL} context_window: must be a whole"),
    "max_output_tokens negative": ("max_output_tokens = 10", "max_output_tokens = -1", f"{MODEL} max_output_tokens: -1 is not"),
    "more output than context": ("max_output_tokens = 10", "max_output_tokens = 11", f"{MODEL} max_output_tokens: 11 is more"),
    "a flag that is a number": ('name = "M"', 'name = "M"\nimage_support = 1', f"{MODEL} image_support: must be true or false"),
    "enabled as text": ('name = "M"', 'name = "M"\nenabled = "no"', f"{MODEL} enabled: must be true or false"),
    "license as a list": ('name = "M"', 'name = "M"\nlicense = ["MIT"]', f"{MODEL} license: must be text, not a list"),
    "price that is no table": ('{ input = "1", output = "2" }', '"1"', f"{MODEL} price: must be a table, not text"),
    "price without output": (', output = "2"', "", f"{MODEL} price.output: is missing"),
    "price without input": ('input = "1", ', "", f"{MODEL} price.input: is missing"),
    "price negative": ('input = "1"', 'input = "-1"', f"{MODEL} price.input: '-1' is not an amount of dollars"),
    "price of minus nothing": ('input = "1"', 'input = "-0"', f"{MODEL} price.input: '-0' is not an amount of dollars"),
    "price with an exponent": ('input = "1"', 'input = "1e3"', f"{MODEL} price.input: '1e3' is not an amount of dollars"),
    "price finer than nanodollars": ('input = "1"', 'input = "0.0000000001"', f"{MODEL} price.input: '0.0000000001' is not"),
    "price not a number": ('input = "1"', 'input = "free"', f"{MODEL} price.input: 'free' is not"),
    "price with an underscore": ('input = "1"', 'input = "1_0"', f"{MODEL} price.input: '1_0' is not an amount of dollars"),
    "price in other digits": ('input = "1"', 'input = "\u0661"', f"{MODEL} price.input: '\u0661' is not an amount of dollars"),
    "price NaN": ('input = "1"', 'input = "NaN"', f"{MODEL} price.input: 'NaN' is not"),
    "price as a float": ('input = "1"', "input = 0.15", f'{MODEL} price.input: write the price as text, input = "0.15"'),
    "price as a whole number": ('input = "1"', "input = 1", f'{MODEL} price.input: write the price as text, input = "1"'),
    "price boolean": ('input = "1"', "input = true", f"{MODEL} price.input: must be text, not true or false"),
    "cached price as a float": ('output = "2"', 'output = "2", cached_input = 0.1', f"{MODEL} price.cached_input: write"),
    "half a tier": ('output = "2"', 'output = "2", flex_input = "1"', f"{MODEL} price.flex_output: is missing"),
    "unknown price": ('output = "2"', 'output = "2", video = "3"', f"{MODEL} price.video: is not known here"),
    "an empty list of prices": ('{ input = "1", output = "2" }', "[]", f"{MODEL} price: has no table"),
    "one of two prices": (
        '{ input = "1", output = "2" }',
        '[{ input = "1", output = "2" }, { from = 2027-01-01, input = "1" }]',
        f"{MODEL} price[1].output: is missing",
    ),
    "two prices without a begin": (
        '{ input = "1", output = "2" }',
        '[{ input = "1", output = "2" }, { input = "1", output = "2" }]',
        f"{MODEL} price: has two tables without from",
    ),
    "two prices from one time": (
        '{ input = "1", output = "2" }',
        '[{ from = 2027-01-01, input = "1", output = "2" }, { from = 2027-01-01T01:00:00+01:00, input = "1", output = "2" }]',
        f"{MODEL} price: has two tables from 2027-01-01 00:00:00 UTC",
    ),
    "a begin without an offset": (
        'input = "1"',
        'from = 2027-01-01T00:00:00, input = "1"',
        f"{MODEL} price.from: needs an offset after its time, such as Z",
    ),
    "a begin as text": ('input = "1"', 'from = "2027-01-01", input = "1"', f"{MODEL} price.from: must be a date, not text"),
    "a begin as a time": ('input = "1"', 'from = 10:00:00, input = "1"', f"{MODEL} price.from: must be a date, not a time"),
    "a begin before all time": (
        'input = "1"',
        'from = 0001-01-01T00:00:00+01:00, input = "1"',
        f"{MODEL} price.from: 0001-01-",
    ),
    "a tier in both forms": (
        'output = "2"',
        'output = "2", flex_input = "1", flex = { input = "1", output = "2" }',
        f"{MODEL} price.flex_input: is given beside the table flex: write it in there",
    ),
    "a tier without output": ('output = "2"', 'output = "2", us = { input = "1" }', f"{MODEL} price.us.output: is missing"),
    "a tier as text": ('output = "2"', 'output = "2", flex = "1"', f"{MODEL} price.flex: must be a table, not text"),
    "a flat tier as a float": (
        'output = "2"',
        'output = "2", flex_input = 0.5, flex_output = "1"',
        f'{MODEL} price.flex_input: write the price as text, input = "0.5"',
    ),
    "unknown in a tier": (
        'output = "2"',
        'output = "2", flex = { input = "1", output = "2", from = 2027-01-01 }',
        f"{MODEL} price.flex.from: is not known here; known are {RATES}, above\n",
    ),
    "unknown in a price": (
        'output = "2"',
        'output = "2", flex_video = "1"',
        f"{MODEL} price.flex_video: is not known here; known are {RATES}, above, flex, priority, us, from\n",
    ),
    "a band without input": (
        'output = "2"',
        'output = "2", above = [{ prompt_tokens = 5, output = "1" }]',
        f"{MODEL} price.above[0].input: is missing",
    ),
    "a band without a threshold": (
        'output = "2"',
        'output = "2", above = [{ input = "1", output = "1" }]',
        f"{MODEL} price.above[0].prompt_tokens: is missing",
    ),
    "a band above nothing": (
        'output = "2"',
        'output = "2", above = [{ prompt_tokens = 0, input = "1", output = "1" }]',
        f"{MODEL} price.above[0].prompt_tokens: 0 is not between 1 and",
    ),
    "a threshold as text": (
        'output = "2"',
        'output = "2", above = [{ prompt_tokens = "5", input = "1", output = "1" }]',
        f"{MODEL} price.above[0].prompt_tokens: must be a whole number, not text",
    ),
    "bands that are no list": ('output = "2"', 'output = "2", above = { input = "1" }', f"{MODEL} price.above: must be a list"),
    "two bands above one threshold": (
        'output = "2"',
        f'output = "2", above = [{FIVE}, {FIVE}]',
        f"{MODEL} price.above: has two tables with prompt_tokens = 5",
    ),
    "unknown in a band of a tier": (
        'output = "2"',
        'output = "2", us = { input = "1", output = "1", above = [{ prompt_tokens = 5, flex_input = "1" }] }',
        f"{MODEL} price.us.above[0].flex_input: is not known here; known are {RATES}, prompt_tokens\n",
    ),
    "a cost with a begin": (
        'upstream_model = "m"',
        'upstream_model = "m", cost = { from = 2027-01-01, input = "1", output = "1" }',
        f"{MODEL} routes[0].cost.from: is not known here; known are {RATES}, above, flex, priority, us\n",
    ),
    "routes that are no list": ('[{ provider = "shed", upstream_model = "m" }]', '"shed"', f"{MODEL} routes: must be a list"),
    "a route that is no table": ('{ provider = "shed", upstream_model = "m" }', '"shed"', f"{MODEL} routes[0]: must be"),
    "route to nobody": ('provider = "shed", up', 'provider = "barn", up', f"{MODEL} routes[0].provider: 'barn' is neither"),
    "route without a model": (', upstream_model = "m"', "", f"{MODEL} routes[0].upstream_model: is missing"),
    "a deadline of no time": ('kind = "openai"', 'kind = "openai"\nidle_seconds = 0', f"{SHED} idle_seconds: 0 is not"),
    "a deadline as text": ('kind = "openai"', 'kind = "openai"\ntotal_seconds = "9"', f"{SHED} total_seconds: must be a whole"),
    "cancels as text": ('kind = "openai"', 'kind = "openai"\ncancels = "no"', f"{SHED} cancels: must be true or false"),
    "drains": ('kind = "openai"', 'kind = "openai"\ndrains = true', f"{SHED} drains: is no longer known: delete it"),
    "images of no tokens": ('name = "M"', 'name = "M"\nimage_tokens_max = 0', f"{MODEL} image_tokens_max: 0 is not"),
    "another API": ('upstream_model = "m"', 'upstream_model = "m", api = "batch"', f"{MODEL} routes[0].api: 'batch' is not"),
    "an API of another kind": (
        '[{ provider = "shed", upstream_model = "m" }]\n',
        '[{ provider = "c", upstream_model = "m", api = "responses" }]\n[providers.c]\nkind = "gemini"\nbase_url = "https://g.example"\n',
        f"{MODEL} routes: api must be chat: only providers of the kind openai have Responses",
    ),
    "an API without embeddings": (
        'routes = [{ provider = "shed", upstream_model = "m" }]',
        'kind = "embedding"\nroutes = [{ provider = "shed", upstream_model = "m", api = "responses" }]',
        f"{MODEL} routes: api must be chat: Responses makes no embeddings",
    ),
    "a rule that is unknown": (
        'name = "M"',
        'name = "M"\nrules = { forced = true }',
        f"{MODEL} rules.forced: is not known here",
    ),
    "a rule of another type": ('name = "M"', 'name = "M"\nrules = { prefill = 1 }', f"{MODEL} rules.prefill: must be true or"),
    "a rule of another value": (
        'upstream_model = "m"',
        'upstream_model = "m", rules = { sampling = "few" }',
        f"{MODEL} routes[0].rules.sampling: Input should be 'all', 'one'",
    ),
    "an effort of another name": (
        'upstream_model = "m"',
        'upstream_model = "m", rules = { efforts = ["low", "ultra"] }',
        f"{MODEL} routes[0].rules.efforts[1]: Input should be 'none',",
    ),
    "weight zero": ('upstream_model = "m"', 'upstream_model = "m", weight = 0', f"{MODEL} routes[0].weight: 0 is not"),
    "priority zero": ('upstream_model = "m"', 'upstream_model = "m", priority = 0', f"{MODEL} routes[0].priority: 0 is not"),
    "unknown route field": ('upstream_model = "m"', 'upstream_model = "m", sticky = 1', f"{MODEL} routes[0].sticky: is not"),
    "the same route twice": (
        '[{ provider = "shed", upstream_model = "m" }]',
        '[{ provider = "shed", upstream_model = "m" }, { provider = "shed", upstream_model = "m", priority = 2 }]',
        f"{MODEL} routes: declares 'shed' and 'm' twice",
    ),
}


@pytest.mark.parametrize(("old", "new", "expected"), REFUSED.values(), ids=REFUSED.keys())
def test_a_bad_file_is_refused_by_file_table_and_field_and_nothing_is_written(load, old, new, expected):
    assert old in MINIMAL

    with pytest.raises(CommandError) as refused:
        load(MINIMAL.replace(old, new))

    message = str(refused.value)
    assert expected in message
    assert all(line.startswith("catalog.toml:") for line in message.splitlines()[:-1])
    assert "pw" not in message
    assert "sk-" not in message
    assert everything() == [[], [], [], []]


def test_a_private_address_is_refused_by_its_field_unless_it_is_permitted(load, settings):
    settings.PRIVATE_UPSTREAMS = []

    with pytest.raises(CommandError) as refused:
        load(MINIMAL)

    assert f"{SHED} base_url: leads to a private address, which GATEWAY_PRIVATE_UPSTREAMS does not" in str(refused.value)
    assert everything() == [[], [], [], []]


def test_every_mistake_of_every_file_is_reported_at_once(load):
    with pytest.raises(CommandError) as refused:
        load(
            MINIMAL.replace("context_window = 10", "").replace('input = "1"', 'input = "-1"'), MINIMAL.replace('"openai"', "7")
        )

    assert str(refused.value).splitlines() == [
        "catalog.toml: [models.m] context_window: is missing",
        "catalog.toml: [models.m] price.input: '-1' is not an amount of dollars",
        "second.toml: [providers.shed] kind: must be text, not a whole number",
        "Nothing was written.",
    ]
    assert everything() == [[], [], [], []]


def test_one_invalid_model_prevents_the_whole_load(load):
    load(VALID)
    before = everything()

    with pytest.raises(CommandError, match="price.output: is missing"):
        load(VALID.replace("16384", "20000") + MINIMAL[MINIMAL.index("[models.m]") :].replace(', output = "2"', ""))

    assert everything() == before


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(CommandError, match=r"nowhere\.toml: No such file or directory"):
        call_command("load_catalog", str(tmp_path / "nowhere.toml"))


# --- The built-in catalog -------------------------------------------------------------------------------------------


def test_the_built_in_catalog_lists_real_models_of_several_makers_with_prices(load):
    report = json.loads(load(json=True))

    assert report["warnings"] == []
    assert report["asOf"] is not None
    assert LanguageModel.objects.count() >= 13
    assert LanguageModel.objects.values("maker").distinct().count() >= 6
    for price in Price.objects.filter(model__kind="embedding"):
        assert (price.input_nanos > 0, price.output_nanos) == (True, 0)
    for price in Price.objects.filter(model__kind="chat"):
        assert 0 < price.input_nanos <= price.output_nanos
        for tier, above in {(rate.tier, rate.above) for rate in price.sheet}:
            rates = {meter: price.sheet.nanos_of(meter, tier, above) for meter in meters.BY_NAME}
            assert 0 < rates["cached_input"] <= rates["input"] <= rates["output"]
            assert rates["input"] <= rates["cache_write"] <= rates["cache_write_1h"]
    assert set(Price.objects.in_force().values_list("model", flat=True)) == set(
        LanguageModel.objects.values_list("pk", flat=True)
    )
    assert set(LanguageModel.objects.values_list("pk", flat=True)) == set(Route.objects.values_list("model", flat=True))


def test_a_model_that_makes_embeddings_needs_no_words_about_its_output(load):
    load(
        """
        [providers.echo]
        kind = "echo"

        [models.embed]
        name = "Embed"
        provider = "Acme"
        kind = "embedding"
        context_window = 8192
        price = { input = "0.10" }
        routes = [{ provider = "echo", upstream_model = "embed" }]
        """
    )
    model = LanguageModel.objects.get(pk="embed")
    assert (model.kind, model.max_output_tokens, model.reasoning) == ("embedding", 1, False)
    assert prices("embed") == [{"input": "0.10", "output": "0.00"}]


def test_the_built_in_catalog_has_models_of_every_category(load):
    load()
    assert set(LanguageModel.objects.values_list("category", flat=True)) == set(Category.values)


def test_the_built_in_catalog_has_an_echo_that_needs_no_network(load):
    load()

    echo = Route.objects.get(model="demo/echo").provider
    assert (echo.kind, echo.base_url, echo.api_key_env) == ("echo", "", "")
    assert prices("demo/echo") == [{"input": "0.50", "output": "1.50", "cached_input": "0.25"}]


def test_files_are_loaded_over_the_built_in_catalog_in_one_transaction(load):
    mine = MINIMAL.replace("[models.m]", '[models."demo/echo"]').replace('input = "1"', 'input = "7"')

    load(mine, built_in=True)

    assert prices("demo/echo") == [{"input": "7.00", "output": "2.00"}]
    assert LanguageModel.objects.count() >= 13
    before = everything()
    assert load(mine, built_in=True) == "Nothing changed.\n"
    assert everything() == before


def test_loading_the_built_in_catalog_twice_changes_nothing(load):
    load()
    before = everything()

    assert load() == "Nothing changed.\n"
    assert everything() == before


# --- Tiers, bands and dates -----------------------------------------------------------------------------------------

CONTRACT = """
[[models.m.price]]
input = "2.00"
output = "12.00"
cached_input = "0.20"
flex = { input = "1.00", output = "6.00" }
above = [ { prompt_tokens = 200000, input = "4.00", output = "18.00", cached_input = "0.40" } ]
"""
LATER = """
[[models.m.price]]
from = %s
input = "%s"
output = "24.00"
"""
UNPRICED = MINIMAL.replace('price = { input = "1", output = "2" }\n', "")
SOON, LATE = "2090-01-01", "2090-02-01T12:00:00+02:00"


def scheduled() -> list[tuple[str, str]]:
    later = Price.objects.filter(effective_from__gt=pool.database_time()).order_by("effective_from")
    return [(f"{price.effective_from:%Y-%m-%d %H:%M}", price.sheet.values["input"]) for price in later]


def test_tiers_and_bands_become_rates_and_a_date_the_begin_of_a_price(load):
    report = json.loads(load(UNPRICED + CONTRACT + LATER % (SOON, "4.00"), json=True))

    now, later = Price.objects.order_by("effective_from")
    assert now.sheet.values == {
        **{"input": "2.00", "output": "12.00", "cached_input": "0.20"},
        **{"input_above_200000": "4.00", "output_above_200000": "18.00", "cached_input_above_200000": "0.40"},
        **{"flex_input": "1.00", "flex_output": "6.00"},
    }
    assert now.effective_from <= pool.database_time()
    assert (later.effective_from.isoformat(), later.sheet.values) == (
        "2090-01-01T00:00:00+00:00",
        {"input": "4.00", "output": "24.00"},
    )
    assert report["prices"] == {"created": 2, "updated": 0, "deleted": 0, "unchanged": 0}
    [said] = report["later"]
    assert said.startswith("m from 2090-01-01 00:00 UTC: input $2.00 -> $4.00 (+100 %), output $12.00 -> $24.00 (+100 %), ")


def test_a_second_load_of_dated_prices_changes_nothing(load, settings):
    settings.MARKUP_PERCENT = Decimal("5.5")
    text = UNPRICED + CONTRACT + LATER % (SOON, "4.00")
    assert "\nm from 2090-01-01 00:00 UTC: input $2.11 -> $4.22 (+100 %)" in load(text)
    before = everything()
    assert load(text) == "Nothing changed.\n"
    assert json.loads(load(text, json=True))["later"] != []
    assert everything() == before


def test_the_table_that_began_last_is_in_force_now(load):
    past = LATER % ("2026-01-01", "7.00") + LATER % ("2026-02-01", "8.00") + LATER % (LATE, "9.00")
    load(UNPRICED + CONTRACT + past)
    assert [price["input"] for price in prices("m")] == ["8.00", "9.00"]
    assert Price.objects.earliest("effective_from").effective_from.date() == pool.database_time().date()
    assert scheduled() == [("2090-02-01 10:00", "9.00")]
    assert load(UNPRICED + CONTRACT + past) == "Nothing changed.\n"


def test_a_later_price_is_replaced_and_withdrawn_as_the_file_says(load):
    load(UNPRICED + CONTRACT + LATER % (SOON, "4.00") + LATER % (LATE, "5.00"))
    report = json.loads(load(UNPRICED + CONTRACT + LATER % (SOON, "6.00"), json=True))
    assert scheduled() == [("2090-01-01 00:00", "6.00")]
    assert report["prices"] == {"created": 0, "updated": 1, "deleted": 1, "unchanged": 1}
    assert report["later"][1:] == ["m from 2090-02-01 is withdrawn"]
    assert len(prices("m")) == 2


def test_a_file_without_dates_leaves_a_later_price_and_names_it(load):
    load(UNPRICED + CONTRACT + LATER % (SOON, "4.00"))
    report = json.loads(load(UNPRICED + CONTRACT, json=True))
    assert scheduled() == [("2090-01-01 00:00", "4.00")]
    assert report["prices"]["unchanged"] == 1
    assert any(warning.startswith("m from 2090-01-01 is not in the file and stays") for warning in report["warnings"])
    assert json.loads(load(UNPRICED, json=True))["warnings"] == []  # a file without a price says nothing of it
    assert scheduled() == [("2090-01-01 00:00", "4.00")]


def test_a_model_whose_price_has_not_begun_is_not_served_yet(load):
    report = json.loads(load(UNPRICED + LATER % (SOON, "4.00"), json=True))
    assert report["warnings"] == ["m has no price in force, so it is not served"]
    assert report["later"] == ["m from 2090-01-01 00:00 UTC: input none -> $4.00, output none -> $24.00"]


LONG = MINIMAL.replace("context_window = 10\n", "context_window = 200001\n")
BASE = 'input = "2", output = "4"'


@pytest.mark.parametrize(
    ("price", "warnings"),
    [
        (BASE, ["takes up to 200,001 tokens, and its price has no rates of long prompts: state them as above"]),
        (f"{BASE}, above = []", []),
        (f'{BASE}, above = [{{ prompt_tokens = 100000, input = "3", output = "5" }}]', []),
        (
            f'{BASE}, cached_input = "1", above = [{{ prompt_tokens = 150000, input = "3", output = "5" }}]',
            ["does not state cached input above 150,000 prompt tokens: it costs as much as input there"],
        ),
        (f'{BASE}, cached_input = "2", above = [{{ prompt_tokens = 150000, input = "3", output = "5" }}]', []),
        (
            f'{BASE}, above = [{FIVE}], flex = {{ input = "1", output = "2" }}',
            ["without rates of the flex tier above 5 prompt tokens, where the standard tier has some"],
        ),
        (
            f'{BASE}, above = [{FIVE}], flex = {{ input = "1", output = "2", above = [] }}',
            [],
        ),
        (
            f'{BASE}, cached_input = "1", cache_write = "3", cache_write_1h = "5", image = "1", above = [], us_input = "3",'
            ' us_output = "6", us_cache_write = "4"',
            ["does not state cached input of the United States tier: it costs as much as input there"],
        ),
    ],
)
def test_a_price_that_probably_leaves_something_out_gets_a_warning(load, price, warnings):
    found = json.loads(load(LONG.replace('input = "1", output = "2"', price), json=True))["warnings"]
    assert len(found) == len(warnings)
    for warning, expected in zip(found, warnings, strict=True):
        assert warning.startswith("m ")
        assert expected in warning


# --- What providers charge ------------------------------------------------------------------------------------------

COST = MINIMAL.replace('upstream_model = "m" }', 'upstream_model = "m", cost = { input = "0.80", output = "1.50" } }')


def costs():
    rows = ProviderPrice.objects.order_by("pk")
    return [(row.model_id, row.provider_id, row.input_nanos, row.output_nanos) for row in rows]


def test_the_cost_of_a_route_is_what_its_provider_charges_from_today_on(load):
    report = json.loads(load(COST, json=True))
    assert report["costs"] == {"created": 1, "updated": 0, "deleted": 0, "unchanged": 0}
    assert costs() == [("m", "shed", 800_000_000, 1_500_000_000)]
    assert ProviderPrice.objects.get().since == pool.database_time().date()
    assert load(COST) == "Nothing changed.\n"
    ProviderPrice.objects.update(since="2026-01-01")
    load(COST.replace("0.80", "0.70"))
    assert [cost[2] for cost in costs()] == [800_000_000, 700_000_000]
    load(MINIMAL)
    assert len(costs()) == 2


def test_two_costs_of_one_provider_are_refused(load):
    second = '{ provider = "shed", upstream_model = "n", cost = { input = "9", output = "9" } }'
    with pytest.raises(CommandError, match="declares two costs of 'shed': a provider has one for each model"):
        load(COST.replace("}]", "}, " + second + "]"))
    assert costs() == []
