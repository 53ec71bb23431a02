"""Staff set prices on a page that opens with today's, shows what changes in percent, and asks again about large changes."""

import re
from datetime import timedelta
from typing import Any

import pytest
from django.db.models.functions import Now
from django.test import Client
from django.utils import timezone

from billing import money
from completions.catalog import lookup
from completions.models import LanguageModel, Price, ProviderPrice
from gateway_project.activity.models import Activity
from tests import factories, sessions

pytestmark = pytest.mark.django_db

PAGE = "/admin/completions/languagemodel/demo_2Fecho/price/"


@pytest.fixture(autouse=True)
def alone(settings: Any) -> None:
    """``test_price_requests`` has those of two people."""
    settings.PRICES_NEED_APPROVAL = False


@pytest.fixture
def root() -> Client:
    client = Client()
    sessions.sign_in(client, factories.User.objects.create_superuser("root@example.org", factories.PASSWORD))
    return client


def text(reply: Any) -> str:
    assert reply.status_code == 200
    return " ".join(re.sub(r"<[^>]+>", " ", reply.content.decode()).replace("&gt;", ">").split())


def fields_of(reply: Any) -> dict[str, Any]:
    """Return what the page sends when nothing is typed. A box that is not ticked is not sent."""
    form = reply.context["form"]
    values = {bound.name: bound.value() for bound in form}
    return {name: value for name, value in values.items() if value not in (None, "", False)}


def send(client: Client, **typed: str) -> Any:
    """Type into the page as it opens, and send it."""
    return client.post(PAGE, {**fields_of(client.get(PAGE)), **typed})


def confirm(client: Client, reply: Any, **typed: str) -> Any:
    """Send what the page shows once more."""
    return client.post(PAGE, {**fields_of(reply), **typed})


def prices() -> list[tuple[int, int]]:
    return [(price.input_nanos, price.output_nanos) for price in Price.objects.order_by("effective_from")]


BEFORE = (500_000_000, 1_500_000_000)


def test_the_form_opens_with_todays_prices(echo_model: LanguageModel, root: Client) -> None:
    assert fields_of(root.get(PAGE)) == {"input": "0.50", "output": "1.50", "seen": str(Price.objects.get().pk)}


def test_a_price_is_set_after_its_change_was_shown_in_percent(echo_model: LanguageModel, root: Client) -> None:
    shown = send(root, input="0.60", cached_input="0.06", image="0.002")
    assert "input $0.50 -> $0.60 (+20 %), cached input none -> $0.06 (-88 %)" in text(shown)
    assert prices() == [BEFORE]
    shown = send(root, input="0.60", image="")
    assert "Review the change: input $0.50 -> $0.60 (+20 %), at once. Send the form again to set it." in text(shown)
    assert confirm(root, shown).status_code == 302
    assert prices() == [BEFORE, (600_000_000, 1_500_000_000)]
    assert lookup.find_offer("demo/echo").price.rate("input") == 600_000_000
    log = Activity.objects.get()
    assert (log.act, log.object_id) == ("PRICED", "demo/echo")
    assert log.summary == "Set the price: input $0.50 -> $0.60 (+20 %), at once."
    assert (log.before["input"], log.after["input"]) == ("0.50", "0.60")


@pytest.mark.parametrize(("typed", "percent"), [("0.626", "+25.2"), ("0.374", "-25.2"), ("500", "+99,900")])
def test_a_large_change_is_asked_about_again(echo_model: LanguageModel, root: Client, typed: str, percent: str) -> None:
    shown = send(root, input=typed)
    assert f"({percent} %)" in text(shown)
    assert "It is more than 25 % up or down." in text(shown)
    asked = confirm(root, shown)
    assert list(asked.context["form"].errors) == ["is_large"]
    assert prices() == [BEFORE]
    assert confirm(root, asked, is_large="on").status_code == 302
    assert prices()[1:] == [(money.price_nanos(typed), 1_500_000_000)]


@pytest.mark.parametrize("typed", ["0.625", "0.375"])
def test_the_rule_is_the_one_of_providers_lists(echo_model: LanguageModel, root: Client, settings: Any, typed: str) -> None:
    assert "is_large" not in send(root, input=typed).context["form"].fields
    settings.CATALOG_SYNC_PRICE_PERCENT = 24
    assert "is_large" in send(root, input=typed).context["form"].fields


def test_another_change_than_the_one_shown_is_shown_first(echo_model: LanguageModel, root: Client) -> None:
    shown = send(root, input="0.60")
    again = confirm(root, shown, input="6.00")
    assert "input $0.50 -> $6.00 (+1,100 %)" in text(again)
    assert prices() == [BEFORE]


def test_a_form_sent_twice_sets_one_price(echo_model: LanguageModel, root: Client) -> None:
    shown = send(root, input="0.60")
    assert [confirm(root, shown).status_code for _ in range(2)] == [302, 200]
    assert len(prices()) == 2


def test_an_outdated_page_says_what_changed_and_sets_nothing(echo_model: LanguageModel, root: Client) -> None:
    shown = send(root, input="0.60")
    factories.Price.objects.create(model=echo_model, rates=factories.rates_of(input_nanos=550000000, output_nanos=1500000000))
    reply = confirm(root, shown)
    assert "The price was changed since you opened this page: input $0.50 -> $0.55 (+10 %)." in text(reply)
    assert len(prices()) == 2
    shown = confirm(root, reply)
    assert "input $0.55 -> $0.60 (+9.1 %)" in text(shown)
    assert confirm(root, shown).status_code == 302


def test_a_price_begins_later_and_can_be_withdrawn_until_then(echo_model: LanguageModel, root: Client) -> None:
    start = (timezone.now() + timedelta(days=2)).replace(second=0, microsecond=0)
    shown = send(root, input="0.60", starts_at=f"{start:%Y-%m-%dT%H:%M}")
    assert f"input $0.50 -> $0.60 (+20 %), from {start:%Y-%m-%d %H:%M} UTC" in text(shown)
    assert confirm(root, shown).status_code == 302
    later = Price.objects.get(effective_from=start)
    assert later.input_nanos == 600_000_000
    assert lookup.find_offer("demo/echo").price.rate("input") == 500_000_000
    assert f"From {start:%Y-%m-%d %H:%M} UTC another price applies." in text(root.get(PAGE))
    assert "deleted, and the price before it stays in force" in text(root.get(f"{PAGE}{later.pk}/"))
    assert root.post(f"{PAGE}{later.pk}/").status_code == 302
    assert prices() == [BEFORE]
    assert [log.summary for log in Activity.objects.order_by("pk")][1] == (
        f"Withdrew the price from {start:%Y-%m-%d %H:%M} UTC."
    )


def test_a_price_that_has_begun_stays(echo_model: LanguageModel, root: Client) -> None:
    price = Price.objects.get()
    assert root.post(f"{PAGE}{price.pk}/").status_code == 302
    assert prices() == [BEFORE]


@pytest.mark.parametrize(
    ("typed", "field", "message"),
    [
        ({"input": "-1"}, "input", ""),
        ({"input": "free"}, "input", ""),
        ({"input": "1e3"}, "input", ""),
        ({"input": "-0"}, "input", ""),
        ({"more_rates": "us_input = 1E0\nus_output = 1"}, "more_rates", ""),
        ({"output": "0.0000000001"}, "output", ""),
        ({"input": ""}, "input", ""),
        ({"starts_at": "2020-01-01T00:00"}, "starts_at", "This is in the past."),
        ({"starts_at": "soon"}, "starts_at", ""),
        ({"starts_at": "209\N{ARABIC-INDIC DIGIT THREE}-01-01T00:00"}, "starts_at", ""),
        ({}, "__all__", "This is already the price. Nothing was changed."),
    ],
)
def test_an_impossible_price_is_refused_at_its_field(
    echo_model: LanguageModel, root: Client, typed: dict[str, str], field: str, message: str
) -> None:
    reply = send(root, **typed)
    assert list(reply.context["form"].errors) == [field]
    assert message in text(reply)
    assert prices() == [BEFORE]


def test_a_model_without_a_price_gets_its_first_one(echo_model: LanguageModel, root: Client) -> None:
    factories.change_prices(Price.objects, effective_from=Now() + timedelta(days=1))
    shown = send(root, input="1", output="2")
    assert "input none -> $1.00, output none -> $2.00, at once" in text(shown)
    assert confirm(root, shown).status_code == 302


def test_the_page_of_a_model_adds_no_price(echo_model: LanguageModel, root: Client) -> None:
    page = root.get(PAGE.removesuffix("price/") + "change/").content.decode()
    assert f'href="{PAGE}"' in page
    assert "prices-0-input_dollars" not in page


def test_the_price_of_an_hour_and_those_of_tiers_are_set_and_stay(echo_model: LanguageModel, root: Client) -> None:
    typed = {"cache_write_1h": "1.00", "flex_input": "0.25", "flex_output": "0.75"}
    shown = send(root, **typed)
    change = (
        "cache write for an hour none -> $1.00 (+100 %),"
        " input of the flex tier none -> $0.25 (-50 %), output of the flex tier none -> $0.75 (-50 %)"
    )
    assert change in text(shown)
    assert confirm(root, shown, is_large="on").status_code == 302
    assert confirm(root, send(root, input="0.60")).status_code == 302
    assert Price.objects.latest("effective_from").sheet.values == {**typed, "input": "0.60", "output": "1.50"}
    assert "flex tier, input 0.25, flex tier, output 0.75" in text(root.get("/admin/completions/price/"))


def test_half_a_tier_is_not_set(echo_model: LanguageModel, root: Client) -> None:
    shown = send(root, priority_input="1.00")
    assert list(shown.context["form"].errors) == ["priority_input"]
    assert prices() == [BEFORE]


def test_a_mark_up_fills_in_the_prices_from_what_the_provider_charges(echo_model: LanguageModel, root: Client) -> None:
    assert "markup" not in root.get(PAGE).context["form"].fields
    cost = {"input_nanos": 400_000_001, "output_nanos": 1_000_000_000, "cached_input_nanos": 40_000_000}
    ProviderPrice.objects.create(model=echo_model, provider_id="echo", since="2020-01-01", rates=factories.rates_of(**cost))
    shown = send(root, markup="12.5")
    assert fields_of(shown)["input"] == "0.450000002"
    assert "output $1.50 -> $1.125 (-25 %), cached input none -> $0.045 (-91 %)" in text(shown)
    assert prices() == [BEFORE]
    assert confirm(root, shown, is_large="on").status_code == 302
    assert prices() == [BEFORE, (450_000_002, 1_125_000_000)]


@pytest.mark.parametrize("typed", ["-1", "1001", "1.234", "much"])
def test_a_mark_up_that_is_not_possible_is_refused(echo_model: LanguageModel, root: Client, typed: str) -> None:
    ProviderPrice.objects.create(
        model=echo_model, provider_id="echo", since="2020-01-01", rates=factories.rates_of(input_nanos=1, output_nanos=1)
    )
    assert "markup" in send(root, markup=typed).context["form"].errors
    assert prices() == [BEFORE]
