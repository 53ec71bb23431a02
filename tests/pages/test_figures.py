"""Every figure that a page shows adds up as it is shown: all pages of an owner and of the admin, with volume."""

from datetime import timedelta

import pytest
from django.db import transaction
from django.utils import timezone

from billing.ledger import writer
from billing.models import LedgerEntry, User
from completions import tasks
from completions.models import Completion, ProviderPrice, Route
from keys import lifecycle
from keys.spending_limit import SpendingLimit
from tests import chat, factories, usage
from tests.conftest import client_for
from tests.pages import figures
from tests.pages.conftest import owner_of, signed_in
from tests.pages.crawl import walk

# Of three models: what a request costs has from four to nine decimals, below a cent, above one, and above a dollar.
PRICES = {"acme/tiny": ("0.0375", "0.15"), "acme/odd": ("0.123457", "7.654321"), "acme/dear": ("234.567891", "9000.123457")}


@pytest.fixture
def volume(alice):
    """Requests of two keys at models of two providers, which cost odd amounts; payments and refunds; what runs."""
    providers = [factories.make_provider(slug, kind="echo") for slug in ("echo", "echo-two")]
    for model_id, (input_price, output_price) in PRICES.items():
        model = factories.make_model(model_id, input=input_price, output=output_price)
        Route.objects.create(model=model, provider=providers[1], upstream_model="echo", priority=2)
        ProviderPrice.objects.create(
            model=model,
            provider=providers[0],
            since=timezone.now().date() - timedelta(2),
            rates=factories.rates_of(input_nanos=12_347, output_nanos=654_321),
        )
    usage.pay(alice, 3_000, "pi_1")
    keys = [factories.make_key(alice, name) for name in ("laptop", "server", "idle")]
    for key, _ in keys:
        lifecycle.set_spending_limit(key, SpendingLimit(2_000, "FIXED"))
    for number in range(18):
        client = client_for(keys[number % 2][1])
        words = " ".join(f"word{each}" for each in range(1 + number * 37 % 200))
        fields = {"model": list(PRICES)[number % 3], "messages": [{"role": "user", "content": words}], "max_tokens": 200}
        assert chat.ask(client, **fields, user=f"user {number % 4}").status_code == 200
    Completion.objects.filter(model="acme/odd", pk__in=Completion.objects.values("pk")[:12]).update(provider=providers[1])
    tasks.sum_up_usage()
    assert chat.ask(client_for(keys[0][1])).status_code == 404
    usage.place(alice, 4_012_345)
    alice.refresh_from_db()
    purchase = LedgerEntry.objects.get(type="CREDIT_PURCHASE")
    with transaction.atomic():
        writer.correct_credit(alice, purchase, amount_nanos=13_820_001, reason="odd", issued_by=None)
    return alice


def faults(client, inside, *starts):
    visits = [visit for visit in walk(client, *starts, inside=inside, of_each_max=6) if visit.is_page]
    assert len(visits) > 50
    return [f"{visit.address}: {fault}" for visit in visits for fault in figures.faults(visit.reply.content.decode())]


def test_the_figures_of_an_owners_pages_add_up(volume):
    starts = [f"/dashboard/usage/?by={by}&show={show}" for by in ("model", "key", "user") for show in ("spend", "tokens")]
    assert faults(signed_in(owner_of(volume)), "/dashboard/", "/dashboard/", "/dashboard/settings/close/", *starts) == []


def test_the_figures_of_the_admin_add_up(volume):
    root = signed_in(User.objects.create_superuser("root@example.org", factories.PASSWORD))
    assert faults(root, "/admin/", "/admin/", f"/admin/billing/account/{volume.pk}/change/") == []
