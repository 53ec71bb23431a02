"""Reading a provider's list: what is a whole list, which fields and prices are accepted."""

import json

import pytest
from django.core.management import CommandError, call_command

from completions.catalog.sync import parse
from completions.models import CatalogProposal, LanguageModel, Price, UpstreamList
from tests import factories
from tests.completions.catalog.sync.lists import OLD_PRICE, bare, catalog, entry, make_model, priced, proposed
from tests.document_server import reply

pytestmark = pytest.mark.django_db


def test_both_shapes_are_parsed_without_a_database():
    body = json.dumps({"object": "list", "data": [bare("a"), entry("b")]}).encode()

    assert {name: each.maker for name, each in parse.parse_list(body).items()} == {"a": "acme", "b": "Acme"}


# platform.claude.com/docs/en/api/models/list and ai.google.dev/api/models#models-list.
_CLAUDE = {
    "type": "model",
    "id": "claude-opus-4-5-20251101",
    "display_name": "Claude Opus 4.5",
    "created_at": "2025-11-24T00:00:00Z",
    "max_input_tokens": 200_000,
    "max_tokens": 64_000,
    "capabilities": {"image_input": {"supported": True}, "batch": {"supported": True}},
}
_GEMINI = {
    "name": "models/gemini-3.5-flash",
    "version": "3.5",
    "displayName": "Gemini 3.5 Flash",
    "inputTokenLimit": 1_048_576,
    "outputTokenLimit": 65_536,
    "supportedGenerationMethods": ["generateContent", "countTokens"],
    "thinking": True,
}


@pytest.mark.parametrize(
    ("document", "listed"),
    [
        (
            {"data": [_CLAUDE], "has_more": False, "first_id": _CLAUDE["id"], "last_id": _CLAUDE["id"]},
            (_CLAUDE["id"], "Claude Opus 4.5", 200_000, 64_000, True, True),
        ),
        ({"models": [_GEMINI]}, ("gemini-3.5-flash", "Gemini 3.5 Flash", 1_048_576, 65_536, None, True)),
        (
            {"models": [{**_GEMINI, "supportedGenerationMethods": ["embedContent"]}]},
            ("gemini-3.5-flash", "Gemini 3.5 Flash", 1_048_576, 65_536, None, False),
        ),
    ],
    ids=("Anthropic", "Gemini", "embeddings of Gemini"),
)
def test_the_lists_of_other_kinds_have_names_and_sizes(document, listed):
    [model] = parse.parse_list(json.dumps(document).encode()).values()
    sizes = model.context_window, model.max_output_tokens
    assert (model.id, model.name, *sizes, model.image_support, model.is_chat) == listed


def test_a_name_stands_for_its_latest_date():
    names = ("claude-opus-4-5-20251101", "claude-opus-4-5-20251202", "claude-opus-4-20250514")
    listed = parse.parse_list(json.dumps({"data": [{"id": name} for name in names]}).encode())
    assert parse.find_model(listed, "claude-opus-4-5").id == "claude-opus-4-5-20251202"
    assert parse.is_listed(listed, "claude-opus-4")
    assert not parse.is_listed(listed, "claude-opus-4-1")


# --- Whole lists ----------------------------------------------------------------------------------------------------


_PART = "sent a list that is only a part of what there is"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("", "sent a list that is not one JSON object"),
        ("<html>", "sent a list that is not one JSON object"),
        ("[]", "sent a list that is not one JSON object"),
        ('{"data": [{"id": "acme/large", "context_length": NaN}]}', "sent a list that is not one JSON object"),
        ('{"data": [{"id": "acme/large", "id": "acme/small"}]}', "sent a list that is not one JSON object"),
        ("[" * 100_000, "sent a list that is not one JSON object"),
        ('{"data": [{"id": "acme/lar', "sent a list that is not one JSON object"),
        ("{}", 'sent a list that has no "data" with the models'),
        ('{"data": {}}', 'sent a list that has no "data" with the models'),
        ('{"data": [{"id": "acme/large"}], "links": {"next": "/v1/models?offset=1"}}', _PART),
        ('{"data": [{"id": "acme/large"}], "total_count": 2}', _PART),
        ('{"data": [{"id": "acme/large"}], "has_more": true}', _PART),
        ('{"models": [{"name": "models/large"}], "nextPageToken": "more"}', _PART),
        ('{"data": []}', "sent a list without a model"),
        ('{"data": [{"id": "x"}]}', "sent a list without 1 of 1 models, which is not accepted"),
    ],
)
def test_an_invalid_or_partial_list_changes_nothing_and_is_reported(large, lists, body, reason):
    lists.will(reply(body))
    before = catalog()

    with pytest.raises(CommandError) as refused:
        call_command("sync_catalog", "--apply")

    assert str(refused.value) == f"barn {reason}."
    assert (catalog(), proposed()) == (before, [])
    kept = UpstreamList.objects.get()
    assert (kept.body, kept.confirmed_at, kept.failure) == ("", None, reason)


def test_openrouters_complete_envelope_is_accepted(large, lists, sync):
    lists.will(reply(json.dumps({"data": [entry()], "links": {"next": None}, "total_count": 1})))

    assert sync()["listed"] == 1


# --- Fields ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "silent",
    [
        bare("acme/large"),
        entry(context_length=None, architecture=None, pricing=None, top_provider=None, supported_parameters=None),
        entry(context_length="many", architecture=[], pricing=[], top_provider=[], supported_parameters="tools"),
        entry(context_length=True, architecture={"input_modalities": []}, supported_parameters=[], top_provider={"n": 1}),
        entry(context_length=0, architecture={}, supported_parameters={}, top_provider={"max_completion_tokens": -1}),
        entry(context_length=2**40, architecture=1, supported_parameters=1, top_provider={"max_completion_tokens": 1.5}),
    ],
    ids=["OpenAI", "nulls", "other types", "true and empty", "zero and less", "huge and broken"],
)
def test_a_field_that_the_list_leaves_out_or_breaks_keeps_its_value(large, lists, sync, silent):
    LanguageModel.objects.update(image_support=True, function_calling=True)
    lists.lists(silent)

    assert sync()["listed"] == 1
    assert proposed() == []


def test_an_output_larger_than_the_context_window_is_only_noted(large, lists, sync):
    lists.lists(entry(top_provider={"max_completion_tokens": 128_001}))

    assert sync()["notes"] == ["acme/large lists 128001 output tokens, more than its context window of 128000"]
    assert proposed() == []


def test_a_model_that_is_listed_twice_with_differences_proposes_nothing(large, lists, sync):
    lists.lists(priced(prompt="0.000001"), priced(prompt="0.000002"), priced(prompt="0.000001"))

    assert sync()["notes"] == ["acme/large is listed twice, and not the same"]
    assert proposed() == []


def test_an_expiration_date_is_noted(large, lists, sync):
    lists.lists(entry(expiration_date="2027-01-31"))

    assert sync()["notes"] == ["acme/large is listed to end on 2027-01-31"]


def test_a_route_may_name_a_model_by_its_permanent_slug(barn, lists, sync):
    make_model(barn, upstream_model="acme/large-20260422")
    free = priced("acme/large:free", prompt="0", completion="0", input_cache_read=None)
    lists.lists({**free, "canonical_slug": "acme/large-20260422"}, priced(prompt="0.000002"))

    sync()

    assert [(kind, model, new.get("input") or new["id"]) for kind, model, _, new in proposed()] == [
        ("price", "acme/large", "2.00"),
        ("new_model", None, "acme/large:free"),
    ]


def test_an_entry_that_is_not_a_chat_model_is_not_proposed(large, lists, sync):
    factories.make_model("acme/elsewhere")
    lists.lists(
        entry(),
        entry("~acme/large-latest"),
        entry("openrouter/auto", pricing={"prompt": "-1", "completion": "-1"}),
        entry("acme/painter", architecture={"output_modalities": ["image"]}),
        entry("acme/elsewhere"),  # the catalog has it already, from another provider
        entry("acme//odd"),
        entry("two words"),
        entry("line\nbreak"),
        {"id": 7},
        {},
    )

    sync()

    assert proposed() == []


# --- Prices ---------------------------------------------------------------------------------------------------------


_IMPLAUSIBLE = "has an implausible price: "


@pytest.mark.parametrize(
    ("pricing", "note"),
    [
        ({"prompt": "-1", "completion": "-1"}, _IMPLAUSIBLE + "prompt '-1'"),
        ({"prompt": None}, _IMPLAUSIBLE + "prompt is missing"),
        ({"completion": None}, _IMPLAUSIBLE + "completion is missing"),
        ({"prompt": "NaN"}, _IMPLAUSIBLE + "prompt 'NaN'"),
        ({"prompt": "Infinity"}, _IMPLAUSIBLE + "prompt 'Infinity'"),
        ({"prompt": ""}, _IMPLAUSIBLE + "prompt ''"),
        ({"prompt": "0,000001"}, _IMPLAUSIBLE + "prompt '0,000001'"),
        ({"prompt": "\N{ARABIC-INDIC DIGIT THREE}"}, _IMPLAUSIBLE + "prompt '\N{ARABIC-INDIC DIGIT THREE}'"),
        ({"prompt": 0.000002}, _IMPLAUSIBLE + "prompt '2e-06'"),
        ({"prompt": "0.0000000000000001"}, _IMPLAUSIBLE + "prompt '0.0000000000000001'"),  # a tenth of a nanodollar
        ({"prompt": f"0.000003{'0' * 30}1"}, _IMPLAUSIBLE + f"prompt '0.000003{'0' * 30}1'"),  # what 28 digits would round
        ({"prompt": "10"}, _IMPLAUSIBLE + "prompt '10'"),  # per token: too much for a bigint
        ({"input_cache_read": "-1"}, _IMPLAUSIBLE + "input_cache_read '-1'"),
        ({"request": "0.005"}, "costs something for each request, which the catalog cannot represent"),
        ({"prompt": "0", "completion": "0"}, "is listed with a price of 0, which is not accepted"),
        ({"completion": "0.0"}, "is listed with a price of 0, which is not accepted"),
    ],
)
def test_an_implausible_price_is_noted_and_not_proposed(large, lists, sync, pricing, note):
    lists.lists(priced(**pricing))

    report = sync("--apply")

    assert report["notes"] == [f"acme/large {note}"]
    assert CatalogProposal.objects.count() == 0
    assert Price.objects.count() == 1


@pytest.mark.parametrize(
    ("pricing", "changed"),
    [
        ({"input_cache_read": None}, {}),
        ({"input_cache_read": "0", "input_cache_write": "0"}, {}),
        ({"internal_reasoning": "0.00002"}, {"output": "20.00"}),
        ({"internal_reasoning": "0.00001"}, {}),
        ({"overrides": [{"completion": "0.00001"}, {"utc_start": "01:00", "prompt": "0.000006"}]}, {"input": "6.00"}),
        (
            {"overrides": "none", "web_search": "0.01", "image": "0.004", "input_cache_write_1h": "0.000006"},
            {"web_search": "0.01", "image": "0.004", "cache_write_1h": "6.00"},
        ),
        ({"discount": 0.5, "audio": "0.000009", "image_token": "0.000009"}, {}),
        (
            {"overrides": [{"min_prompt_tokens": 200_000, "prompt": "0.000006", "completion": "0.00002"}]},
            {"input_above_200000": "6.00", "cached_input_above_200000": "0.30", "output_above_200000": "20.00"},
        ),
        (
            {
                "web_search": "0.01",
                "overrides": [
                    {"min_prompt_tokens": 200_000, "prompt": "0.000006", "web_search": "0.02"},
                    {"min_prompt_tokens": 100_000, "input_cache_read": "0.0000006"},
                    {"min_prompt_tokens": 200_000, "utc_start": "01:00", "completion": "0.00003"},
                    {"min_prompt_tokens": 400_000, "audio": "0.00001"},
                ],
            },
            {
                "web_search": "0.01",
                "input_above_100000": "3.00",
                "cached_input_above_100000": "0.60",
                "output_above_100000": "15.00",
                "input_above_200000": "6.00",
                "cached_input_above_200000": "0.60",
                "output_above_200000": "30.00",
                "web_search_above_200000": "0.02",
            },
        ),
        ({"overrides": [{"min_prompt_tokens": "200000", "prompt": "0.000006"}]}, {"input": "6.00"}),
    ],
    ids=[
        *("left out", "zeros", "dearer reasoning", "cheaper reasoning", "by the hour", "other meters"),
        *("fields that the catalog does not have", "a length band", "several bands", "a length that is no number"),
    ],
)
def test_the_rates_of_a_list_are_proposed_and_where_they_vary_the_highest(large, lists, sync, pricing, changed):
    lists.lists(priced(**pricing))

    sync()

    assert proposed() == ([("price", "acme/large", OLD_PRICE, {**OLD_PRICE, **changed})] if changed else [])
