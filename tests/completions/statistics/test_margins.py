"""What providers cost, beside what was charged: by model and provider, at the price that the provider had on the day."""

import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client

from completions import tasks
from completions.facts import FACTS
from completions.models import Completion, LanguageModel, ProviderDay, ProviderPrice
from completions.pricing import meters
from completions.statistics import margins
from completions.statistics.margins import Margin
from gateway_project.db import pool
from tests import chat, factories, sessions
from tests.ledger_audit import assert_ledger_is_consistent
from tests.upstream import refusal

PAGE = "/admin/completions/providerday/"
RATES = {"input_nanos": 400_000_000, "output_nanos": 1_000_000_000}


@pytest.fixture
def root(db: None) -> Client:
    client = Client()
    sessions.sign_in(client, factories.User.objects.create_superuser("root@example.org", factories.PASSWORD))
    return client


def days(count: int = 30) -> list[Margin]:
    until = pool.database_time().date() + timedelta(days=1)
    return margins.read(until - timedelta(days=count), until)


def price(model: LanguageModel, since: Any = "2020-01-01", **nanos: int) -> ProviderPrice:
    """Write what the provider charges since a day, at RATES where nothing else is said."""
    rates = factories.rates_of(**{**RATES, **nanos})
    return ProviderPrice.objects.create(model=model, provider_id="echo", since=since, rates=rates)


def use_day(**columns: Any) -> None:
    """Write a day of a thousand tokens of input, and as many of output, on which a dollar was charged."""
    defaults = {
        "day": pool.database_time().date(),
        "provider_id": "echo",
        "model_id": "demo/echo",
        "completions": 1,
        "charged_nanos": 1_000_000_000,
        "prompt_tokens": 1_000,
        "cached_tokens": 0,
        "cache_write_tokens": 0,
        "cache_write_1h_tokens": 0,
        "completion_tokens": 1_000,
        "images": 0,
        "web_searches": 0,
    }
    ProviderDay.objects.create(**{**defaults, **columns})


def test_a_completion_is_counted_once_with_its_tokens_and_charge(api: Any, echo_model: LanguageModel) -> None:
    chat.ask(api)
    chat.ask(api)
    tasks.sum_up_usage()
    tasks.sum_up_usage()
    row: dict[str, Any] = dict(ProviderDay.objects.values().get())
    done = list(Completion.objects.all())
    assert (row["provider_id"], row["model_id"], row["service_tier"], row["completions"]) == ("echo", "demo/echo", "", 2)
    for name, column in (
        ("charged_nanos", "cost_nanos"),
        ("prompt_tokens", "prompt_tokens"),
        ("completion_tokens", "completion_tokens"),
    ):
        assert row[name] == sum(getattr(each, column) for each in done) > 0


def test_what_failed_is_not_counted(api: Any, large: LanguageModel, upstream: Any) -> None:
    upstream.will(refusal(400))
    chat.ask(api, model="acme/large")
    tasks.sum_up_usage()
    assert not ProviderDay.objects.exists()


def test_the_cost_is_that_of_the_tokens_at_the_price_of_the_day(echo_model: LanguageModel) -> None:
    today = pool.database_time().date()
    price(echo_model, today - timedelta(days=3))
    price(echo_model, today, input_nanos=1, output_nanos=0)
    use_day()
    use_day(day=today - timedelta(days=1))
    [found] = days()
    assert (found.completions, found.charged_nanos, found.priced_nanos) == (2, 2_000_000_000, 2_000_000_000)
    assert found.cost_nanos == 1 + 1_400_000  # rounded up once a day
    assert found.margin_nanos == 2_000_000_000 - 1_400_001


def test_every_part_of_a_price_counts(echo_model: LanguageModel) -> None:
    parts = {"cached_input_nanos": 10**6, "cache_write_nanos": 10**7, "cache_write_1h_nanos": 10**8, "image_nanos": 7}
    parts["web_search_nanos"] = 11
    price(echo_model, **parts)
    use_day(cached_tokens=100, cache_write_tokens=300, cache_write_1h_tokens=200, images=3, web_searches=2)
    [found] = days()
    assert found.cost_nanos == 600 * 400 + 100 * 1 + 100 * 10 + 200 * 100 + 1_000 * 1_000 + 21 + 22


def test_a_tier_without_a_price_of_its_own_is_not_known(echo_model: LanguageModel) -> None:
    standard = price(echo_model)
    use_day(service_tier="flex")
    [found] = days()
    assert (found.priced_nanos, found.cost_nanos, found.is_known) == (0, 0, False)
    standard.delete()
    price(echo_model, flex_input_nanos=2_000_000, flex_output_nanos=0)
    assert [each.cost_nanos for each in days()] == [2_000]


def test_a_day_without_a_price_is_not_in_the_margin(echo_model: LanguageModel) -> None:
    today = pool.database_time().date()
    price(echo_model, today)
    use_day()
    use_day(day=today - timedelta(days=1), charged_nanos=5)
    [found] = days()
    assert (found.charged_nanos, found.priced_nanos, found.is_known) == (1_000_000_005, 1_000_000_000, False)
    assert [each.charged_nanos for each in days(1)] == [1_000_000_000]


def test_the_page_shows_charge_cost_and_margin(echo_model: LanguageModel, root: Client) -> None:
    assert "Nothing was charged in these days." in root.get(PAGE).content.decode()
    use_day()
    shown = " ".join(re.sub(r"<[^>]+>", " ", root.get(PAGE).content.decode()).split())
    assert "demo/echo echo 1 $1.00 not known - -" in shown
    price(echo_model, input_nanos=0, output_nanos=25 * 10**10)
    shown = " ".join(re.sub(r"<[^>]+>", " ", root.get(f"{PAGE}?days=7").content.decode()).split())
    assert "demo/echo echo 1 $1.00 $0.25 $0.75 75.0" in shown
    assert "All models all 1 $1.00 $0.25 $0.75 75.0" in shown


def test_margins_add_up_across_and_down_as_they_are_shown() -> None:
    three = [Margin("demo/echo", name, "", 0, 1, 1_003_333_333, 1_003_333_333, 1_001_111_666) for name in ("a", "b", "c")]
    three[2] = replace(three[2], priced_nanos=1_002_222_222)
    shown = [(each.charged.shown, each.cost.shown, each.margin.shown) for each in margins.with_sums(three)]
    assert shown == [
        ("$1.003334", "$1.001112", "$0.002222"),
        ("$1.003333", "$1.001112", "$0.002221"),
        ("$1.003333", "$1.001111", "$0.001111"),
        ("$3.010000", "$3.003335", "$0.005554"),
        ("$3.010000", "$3.003335", "$0.005554"),
    ]
    assert replace(three[0], cost_nanos=1_003_333_334).percent == "0.0"  # and no negative zero


def test_a_model_of_several_providers_has_a_sum(echo_model: LanguageModel) -> None:
    factories.make_provider("spare", kind="openai", base_url="http://spare/v1")
    use_day()
    use_day(provider_id="spare", charged_nanos=5)
    shown = [(each.of.model_id, each.of.provider_id, each.charged.shown) for each in margins.with_sums(days())]
    assert shown == [
        ("demo/echo", "echo", "$1.000000000"),
        ("demo/echo", "spare", "$0.000000005"),
        ("demo/echo", "all", "$1.000000005"),
        ("All models", "all", "$1.000000005"),
    ]


def test_the_page_needs_its_permission(echo_model: LanguageModel) -> None:
    client = Client()
    sessions.sign_in(client, factories.User.objects.create_user("staff@example.org", is_staff=True))
    assert client.get(PAGE).status_code == 403


def test_metrics_have_the_sums_of_30_days(echo_model: LanguageModel) -> None:
    price(echo_model, input_nanos=0, output_nanos=10**9)
    use_day()
    use_day(day=pool.database_time().date() - timedelta(days=30))
    assert facts() == {
        "gateway_margin_charged_nanos": [("demo/echo", "echo", 1_000_000_000)],
        "gateway_margin_cost_nanos": [("demo/echo", "echo", 1_000_000)],
        "gateway_margin_loss_nanos": [],
    }


def facts() -> dict[str, list[Any]]:
    found = {}
    for fact in FACTS:
        if fact.name.startswith("gateway_margin_"):
            with connection.cursor() as cursor:
                cursor.execute(fact.sql)
                found[fact.name] = cursor.fetchall()
    return found


def test_a_model_that_sells_below_cost_shows_its_loss_whatever_it_earned_before(echo_model: LanguageModel) -> None:
    today = pool.database_time().date()
    price(echo_model, input_nanos=0, output_nanos=0)
    use_day(day=today - timedelta(days=2))
    use_day(day=today)
    assert facts()["gateway_margin_loss_nanos"] == []
    price(echo_model, today, input_nanos=0, output_nanos=1_001 * 10**9)  # $1.001 for the thousand tokens of a day
    assert facts()["gateway_margin_loss_nanos"] == [("demo/echo", "echo", 1_000_000)]
    use_day(day=today - timedelta(days=1))  # it earned more yesterday, at no cost
    assert facts()["gateway_margin_loss_nanos"] == []


def test_staff_enter_and_correct_what_a_provider_charges(echo_model: LanguageModel, root: Client) -> None:
    where = "/admin/completions/providerprice/"
    fields = {"model": "demo/echo", "provider": "echo", "since": "2026-01-01", "input_dollars": "0.40", "output_dollars": "1"}
    assert root.post(f"{where}add/", fields).status_code == 302
    row = ProviderPrice.objects.get()
    assert row.sheet.values == {"input": "0.40", "output": "1.00"}
    page = root.get(f"{where}{row.pk}/change/").content.decode()
    assert 'value="0.40"' in page
    assert root.post(f"{where}{row.pk}/change/", {**fields, "cached_input_dollars": "0.04"}).status_code == 302
    assert ProviderPrice.objects.get().sheet.values["cached_input"] == "0.04"
    half = root.post(f"{where}{row.pk}/change/", {**fields, "flex_input_dollars": "1"})
    assert list(half.context["adminform"].form.errors) == ["flex_input_dollars"]
    assert ProviderPrice.objects.get().sheet.tiers == ()


# --- Service tiers and long prompts -----------------------------------------------------------------------------------


def used(**figures: int) -> dict[str, int]:
    return {**dict.fromkeys(("completions", "charged_nanos", *meters.COLUMNS), 0), **figures}


def test_each_tier_and_length_has_a_line_and_they_add_up(echo_model: LanguageModel, root: Client) -> None:
    price(
        echo_model, input_above_200000_nanos=10**9, output_above_200000_nanos=2 * 10**9, flex_input_nanos=0, flex_output_nanos=0
    )
    long = used(completions=1, charged_nanos=300_000_000, prompt_tokens=250_000)
    use_day(completions=3, prompt_tokens=251_000, bands={"200000": long})
    use_day(service_tier="flex", charged_nanos=7_000_000)
    lines = {(each.of.tier, each.of.above): (each.of.completions, each.of.cost_nanos) for each in margins.with_sums(days())[:3]}
    assert lines == {("", 0): (2, 1_400_000), ("", 200_000): (1, 250_000_000), ("flex", 0): (1, 0)}
    shown = " ".join(re.sub(r"<[^>]+>", " ", root.get(PAGE).content.decode()).split())
    assert "demo/echo echo 2 $0.7000 $0.0014 $0.6986 99.8" in shown
    assert "demo/echo echo Prompts above 200,000 tokens 1 $0.3000 $0.2500 $0.0500 16.7" in shown
    assert "demo/echo echo Flex tier 1 $0.0070 $0.0000 $0.0070 100.0" in shown
    assert "demo/echo all 4 $1.0070 $0.2514 $0.7556 75.0" in shown


def test_a_length_that_sells_below_cost_is_a_loss_whatever_the_others_earn(echo_model: LanguageModel) -> None:
    price(echo_model, input_above_200000_nanos=10**9, output_above_200000_nanos=0)
    use_day(bands={"200000": used(completions=1, charged_nanos=200_000_000, prompt_tokens=250_000)})
    assert facts()["gateway_margin_loss_nanos"] == [("demo/echo", "echo", 50_000_000)]
    assert facts()["gateway_margin_charged_nanos"] == [("demo/echo", "echo", 1_000_000_000)]


def test_a_length_that_no_prompt_had_has_no_line(echo_model: LanguageModel) -> None:
    price(echo_model, flex_input_nanos=10**9, flex_output_nanos=0)
    long = used(completions=1, charged_nanos=1_000_000_000, prompt_tokens=250_000, completion_tokens=1_000)
    use_day(service_tier="flex", prompt_tokens=250_000, bands={"200000": long})
    only, total = margins.with_sums(days())
    assert [(each.of.tier, each.of.above, each.of.completions) for each in (only, total)] == [("flex", 200_000, 1), ("", 0, 1)]
    assert only.of.cost_nanos == total.of.cost_nanos == 250_000_000


def test_a_prompt_above_a_threshold_of_the_provider_is_summed_up_apart(api: Any, echo_model: LanguageModel) -> None:
    price(echo_model, input_above_20_nanos=10**9, output_above_20_nanos=2 * 10**9)
    chat.ask(api)
    chat.ask(api, messages=[{"role": "user", "content": "word " * 40}])
    tasks.sum_up_usage()
    chat.ask(api, messages=[{"role": "user", "content": "word " * 50}])
    tasks.sum_up_usage()
    _, *long = Completion.objects.order_by("id")
    bands = ProviderDay.objects.get().bands
    assert list(bands) == ["20"]
    assert bands["20"] == used(
        completions=2,
        charged_nanos=sum(each.cost_nanos or 0 for each in long),
        prompt_tokens=sum(each.prompt_tokens or 0 for each in long),
        completion_tokens=sum(each.completion_tokens or 0 for each in long),
    )
    [short, above] = days()
    assert (short.above, above.above, short.completions, above.completions) == (0, 20, 1, 2)
    assert above.cost_nanos == bands["20"]["prompt_tokens"] * 1_000 + bands["20"]["completion_tokens"] * 2_000
    assert_ledger_is_consistent()
