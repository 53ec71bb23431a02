"""Comparing a list with the catalog: what is proposed, and which changes apply without approval."""

from typing import Any

import pytest

from completions.catalog.sync import diff
from completions.models import Price, Route
from tests import factories
from tests.completions.catalog.sync.lists import OLD_PRICE, bare, catalog, entry, make_model, priced, proposed

pytestmark = pytest.mark.django_db


def test_a_list_that_agrees_with_the_catalog_proposes_nothing(large, sync):
    before = catalog()

    report = sync()

    assert report == {
        "provider": "barn",
        "listed": 1,
        "isUnchanged": False,
        "proposed": [],
        "applied": [],
        "outdated": 0,
        "waiting": 0,
        "notes": [],
    }
    assert proposed() == []
    assert catalog() == before


def test_a_different_price_is_proposed_exactly_and_not_written(large, lists, sync):
    lists.lists(priced(prompt="0.00000015", completion="6e-7", input_cache_read="0.0000000375", input_cache_write="0.0000002"))
    before = catalog()

    report = sync()

    new = {"input": "0.15", "output": "0.60", "cached_input": "0.0375", "cache_write": "0.20"}
    assert proposed() == [("price", "acme/large", OLD_PRICE, new)]
    assert [(change["kind"], change["new"]) for change in report["proposed"]] == [("price", new)]
    assert report["waiting"] == 1
    assert catalog() == before


def test_different_limits_and_capabilities_are_proposed(large, lists, sync):
    changed: dict[str, Any] = {
        "context_length": 200_000,
        "top_provider": {"max_completion_tokens": 64_000},
        "architecture": {"input_modalities": ["text", "image"], "output_modalities": ["text"]},
        "supported_parameters": ["tools", "tool_choice"],
    }
    lists.lists(entry(**changed))

    sync()

    assert proposed() == [
        (
            "limits",
            "acme/large",
            {"context_window": 128_000, "max_output_tokens": 4_096},
            {"context_window": 200_000, "max_output_tokens": 64_000},
        ),
        (
            "capabilities",
            "acme/large",
            {"image_support": False, "function_calling": False},
            {"image_support": True, "function_calling": True},
        ),
    ]


def test_a_smaller_context_window_also_limits_the_output(large, lists, sync):
    lists.lists(entry(context_length=2_000, top_provider={}))

    sync()

    [(kind, _, _, new)] = proposed()
    assert (kind, new) == ("limits", {"context_window": 2_000, "max_output_tokens": 2_000})


def test_a_price_of_zero_on_both_sides_is_no_difference(barn, lists, sync):
    make_model(barn, input="0", output="0", cached_input=None)
    lists.lists(priced(prompt="0", completion="0", input_cache_read=None))

    assert sync()["notes"] == []
    assert proposed() == []


def test_our_prices_that_no_list_has_are_kept(large, lists, sync):
    kept = {"cache_write_1h_nanos": 6_000_000_000, "web_search_nanos": 10_000_000}
    factories.change_prices(Price.objects, image_nanos=4_000_000, **kept)
    lists.lists(priced(prompt="0.000002"))

    sync()

    [(_, _, old, new)] = proposed()
    assert (old["image"], new["image"], new["input"]) == ("0.004", "0.004", "2.00")
    assert (old["cache_write_1h"], old["web_search"]) == (new["cache_write_1h"], new["web_search"]) == ("6.00", "0.01")


def test_the_bands_of_a_list_replace_ours_and_ours_stay_where_it_has_none(large, lists, sync):
    bands = {"input_above_100000_nanos": 4_000_000_000, "output_above_100000_nanos": 20_000_000_000}
    flex = {"flex_input_nanos": 1_000_000_000, "flex_output_nanos": 9_000_000_000}
    factories.change_prices(Price.objects, **bands, **flex)
    sync()
    assert proposed() == []
    lists.lists(priced(overrides=[{"min_prompt_tokens": 200_000, "prompt": "0.000006"}]))
    sync()
    [(_, _, _, new)] = proposed()
    assert {name for name in new if "above" in name} == {f"{name}_above_200000" for name in ("input", "output", "cached_input")}
    assert (new["flex_input"], new["flex_output"]) == ("1.00", "9.00")


def test_a_band_of_nothing_is_noted_and_not_proposed(large, lists, sync):
    lists.lists(priced(overrides=[{"min_prompt_tokens": 200_000, "prompt": "0"}]))
    assert sync()["notes"] == ["acme/large is listed with a price of 0, which is not accepted"]
    assert proposed() == []


# --- Which list decides ---------------------------------------------------------------------------------------------


def test_only_the_provider_of_the_first_route_can_change_a_model(large, barn, lists, sync):
    first = factories.make_provider("first", kind="openai", base_url="http://127.0.0.1:9")
    Route.objects.update(priority=2)
    Route.objects.create(model=large, provider=first, upstream_model="acme/large", priority=1)
    lists.lists(priced(prompt="0.000001"))

    sync()
    assert proposed() == []

    Route.objects.filter(provider=first).update(is_enabled=False)
    sync()
    assert [kind for kind, *_ in proposed()] == ["price"]


# --- New models, and models that are gone ---------------------------------------------------------------------------


def test_a_new_model_is_proposed_with_the_values_of_the_list(large, lists, sync):
    lists.lists(entry(), entry("acme/small", name="Acme: Small", top_provider={"max_completion_tokens": None}))

    sync()

    assert proposed() == [
        (
            "new_model",
            None,
            {},
            {
                "id": "acme/small",
                "name": "Small",
                "maker": "Acme",
                "context_window": 128_000,
                "max_output_tokens": 128_000,
                "image_support": False,
                "function_calling": False,
                "price": OLD_PRICE,
            },
        ),
    ]


def test_a_new_model_of_openais_shape_is_named_after_its_provider(large, lists, sync):
    lists.lists(bare("acme/large"), bare("large-2"), bare("text-embedding-3-large"), bare("whisper-1"))

    sync()

    [(_, _, _, new)] = proposed()
    assert (new["id"], new["maker"], new["context_window"], new["price"]) == ("barn/large-2", "acme", None, None)


def test_a_model_that_is_no_longer_listed_is_proposed_as_gone(large, barn, lists, sync):
    make_model(barn, "acme/small")
    make_model(barn, "acme/large:nitro")  # a variant of a listed model
    lists.lists(entry())
    before = catalog()

    sync("--apply")

    assert proposed() == [("gone", "acme/small", {"upstream_model": "acme/small"}, {})]
    assert catalog() == before


def test_a_model_with_a_disabled_route_is_neither_gone_nor_new(large, barn, lists, sync):
    make_model(barn, "acme/small", upstream_model="small")
    make_model(barn, "acme/tiny", upstream_model="tiny")
    Route.objects.exclude(model=large).update(is_enabled=False)
    lists.lists(entry(), bare("tiny"))

    sync()

    assert proposed() == []


# --- The rule -------------------------------------------------------------------------------------------------------


BAND = {"input_above_200000": "3.30", "output_above_200000": "16.50"}


def prices(**changed: str | None) -> dict[str, str | None]:
    return {**OLD_PRICE, **changed}


@pytest.mark.parametrize(
    ("more", "described"),
    [
        (
            {**BAND, "cached_input_above_200000": "0.30"},
            "input above 200,000 prompt tokens none -> $3.30 (+10 %),"
            " output above 200,000 prompt tokens none -> $16.50 (+10 %),"
            " cached input above 200,000 prompt tokens none -> $0.30 (+0 %)",
        ),
        (
            BAND,
            "input above 200,000 prompt tokens none -> $3.30 (+10 %),"
            " output above 200,000 prompt tokens none -> $16.50 (+10 %),"
            " cached input above 200,000 prompt tokens $0.30 -> $3.30 (+1,000 %)",
        ),
        (
            {"flex_input": "1.50", "flex_output": "7.50"},
            "input of the flex tier none -> $1.50 (-50 %), output of the flex tier none -> $7.50 (-50 %),"
            " cached input of the flex tier none -> $1.50 (+400 %)",
        ),
    ],
)
def test_a_change_of_tiers_and_bands_is_described_with_what_it_leaves_out(more, described):
    assert diff.describe_price_change(prices(), {**prices(), **more}) == described


@pytest.mark.parametrize(
    ("kind", "old", "new", "is_automatic"),
    [
        ("price", prices(), prices(input="3.75"), True),
        ("price", prices(), prices(input="3.750000001"), False),
        ("price", prices(), prices(input="2.25"), True),
        ("price", prices(), prices(input="2.249999999"), False),
        ("price", prices(), prices(output="0.015"), False),
        ("price", prices(), prices(cached_input="0.38"), False),
        ("price", prices(), prices(cache_write="3.75"), True),  # without one it costs as input
        ("price", prices(), prices(cache_write="6.00"), False),
        ("price", prices(), prices(cached_input=None), False),
        ("price", prices(), prices(image="0.01"), False),
        ("price", prices(), prices(cache_write_1h="0.01"), False),  # without one it is refused
        ("price", prices(input="0.00"), prices(input="0.01"), False),
        ("price", prices(), {**prices(), **BAND, "cached_input_above_200000": "0.30"}, True),
        ("price", prices(), {**prices(), **BAND}, False),  # cached input of long prompts costs as input then
        ("price", prices(), {**prices(), **BAND, "output_above_200000": "22.50"}, False),
        ("price", prices(), {**prices(), "flex_input": "1.50", "flex_output": "7.50"}, False),
        ("price", {}, prices(), False),
        ("limits", {"context_window": 10, "max_output_tokens": 5}, {"context_window": 11, "max_output_tokens": 5}, True),
        ("limits", {"context_window": 10, "max_output_tokens": 5}, {"context_window": 11, "max_output_tokens": 4}, False),
        ("capabilities", {"image_support": False}, {"image_support": True}, True),
        ("capabilities", {"image_support": True}, {"image_support": False}, False),
        ("gone", {"upstream_model": "m"}, {}, False),
        ("new_model", {}, {"id": "m"}, False),
    ],
)
def test_only_a_small_change_that_takes_nothing_away_applies_automatically(kind, old, new, is_automatic):
    assert diff.can_apply_automatically(kind, old, new, percent=25) is is_automatic
