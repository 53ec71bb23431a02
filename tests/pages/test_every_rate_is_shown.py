"""Every rate that may be charged is on every page that shows the price of a model: each meter, tier and length of a prompt."""

import html
import re
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client

from completions.models import LanguageModel, Price, ProviderPrice
from completions.pricing import meters, rates
from completions.pricing.rates import RateSheet
from completions.public import facts
from tests import factories, sessions

pytestmark = pytest.mark.django_db

PLACES = [(tier, above) for tier in ("", *meters.TIERS) for above in (0, 128_000, 256_000)]
NAMES = [rates.rate_name(meter, *place) for place in PLACES for meter in meters.BY_NAME]
# No two amounts are the same, nor the beginning of another.
AMOUNTS = {name: f"{1 + number / 8:.3f}1" for number, name in enumerate(NAMES)}


@pytest.fixture
def model(settings: Any) -> LanguageModel:
    settings.PRICES_NEED_APPROVAL = False
    model = factories.make_model()
    model.prices.all().delete()
    factories.make_price(model, **AMOUNTS)
    return model


@pytest.fixture
def root() -> Client:
    client = Client()
    sessions.sign_in(client, factories.User.objects.create_superuser("root@example.org", factories.PASSWORD))
    return client


def missing(reply: Any) -> list[str]:
    assert reply.status_code == 200
    shown = html.unescape(re.sub(r"<(?!input|textarea)[^>]+>", " ", reply.content.decode()))
    return [name for name, amount in AMOUNTS.items() if not re.search(rf"(?<![\d.]){re.escape(amount)}(?!\d)", shown)]


def test_a_public_page_of_a_model_shows_every_rate(model: LanguageModel) -> None:
    facts.forget()
    assert missing(Client().get("/models/demo/echo", HTTP_ACCEPT="text/html")) == []


@pytest.mark.parametrize(
    "address",
    [
        "/admin/completions/languagemodel/demo_2Fecho/change/",
        "/admin/completions/languagemodel/demo_2Fecho/price/",
        "/admin/completions/price/",
    ],
)
def test_a_page_of_staff_shows_every_rate(model: LanguageModel, root: Client, address: str) -> None:
    assert missing(root.get(address)) == []


def test_the_pages_of_what_a_provider_charges_show_every_rate(model: LanguageModel, root: Client) -> None:
    price = ProviderPrice.objects.create(
        model=model, provider_id="echo", since="2026-01-01", rates=RateSheet.of_values(AMOUNTS).rows
    )
    assert missing(root.get("/admin/completions/providerprice/")) == []
    assert missing(root.get(f"/admin/completions/providerprice/{price.pk}/change/")) == []


def test_the_api_tells_every_rate(model: LanguageModel, api: Client) -> None:
    pricing = api.get("/v1/models/demo/echo").json()["pricing"]
    told = set(_amounts(pricing))
    assert told == {Decimal(AMOUNTS[rate.name]) / rate.unit.number for rate in Price.objects.get().sheet}


def _amounts(pricing: Any) -> Any:
    for name, value in pricing.items():
        if isinstance(value, str):
            yield Decimal(value)
        elif name == "above":
            for band in value:
                yield from _amounts({key: each for key, each in band.items() if key != "prompt_tokens"})
        elif isinstance(value, dict):
            for tier in value.values():
                yield from _amounts(tier)


def test_a_form_that_is_sent_as_it_opened_changes_no_rate(model: LanguageModel, root: Client) -> None:
    address = "/admin/completions/languagemodel/demo_2Fecho/price/"
    opened = root.get(address).context["form"]
    sent = {bound.name: bound.value() for bound in opened if bound.value() not in (None, "", False)}
    assert "This is already the price" in root.post(address, sent).content.decode()
    assert Price.objects.get().sheet == RateSheet.of_values(AMOUNTS)
