"""Storing proposals: once each, outdated or dismissed ones, lists that lost most of their models, and automatic changes."""

import threading
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import pytest
from django.core.management import CommandError
from django.db import connection

from completions.catalog import lookup
from completions.catalog.sync import proposals
from completions.models import CatalogProposal, LanguageModel, Price, Provider, UpstreamList
from tests import factories
from tests.completions import rows
from tests.completions.catalog.sync.lists import OLD_PRICE, entry, make_model, priced, proposed
from tests.upstream import DONE, FINISH, ROLE, Upstream, stream, usage, words

pytestmark = pytest.mark.django_db


def test_a_second_sync_proposes_nothing_new_and_keeps_what_is_pending(large, lists, sync):
    lists.lists(priced(prompt="0.000002"), entry("acme/small"))
    sync()
    before = list(CatalogProposal.objects.values())
    assert len(before) == 2

    report = sync()

    assert (report["proposed"], report["outdated"], report["waiting"]) == ([], 0, 2)
    assert list(CatalogProposal.objects.values()) == before


def test_a_difference_that_no_longer_exists_becomes_outdated(large, lists, sync):
    lists.lists(priced(prompt="0.000002"))
    sync()
    lists.lists(entry())

    assert sync()["outdated"] == 1
    assert proposed() == []
    assert [kind for kind, *_ in proposed("superseded")] == ["price"]


def test_a_difference_that_changed_replaces_the_old_one(large, lists, sync):
    lists.lists(priced(prompt="0.000002"))
    sync()
    lists.lists(priced(prompt="0.000001"))
    sync()

    assert [new["input"] for _, _, _, new in proposed("superseded")] == ["2.00"]
    assert [new["input"] for _, _, _, new in proposed()] == ["1.00"]


def test_a_dismissed_difference_is_not_proposed_again_but_a_different_one_is(large, lists, sync):
    lists.lists(priced(prompt="0.000002"), entry("acme/small"))
    sync()
    by = factories.make_user("staff@example.org", is_staff=True)
    for each in CatalogProposal.objects.all():
        proposals.dismiss(each.pk, by=by)
    lists.lists(priced(prompt="0.000002"), priced("acme/small", prompt="0.000001"))

    assert sync()["proposed"] == []

    lists.lists(priced(prompt="0.000001"), entry("acme/small"))
    assert [change["new"]["input"] for change in sync()["proposed"]] == ["1.00"]


@pytest.mark.django_db(transaction=True)
def test_two_concurrent_syncs_propose_once(large, lists):
    lists.lists(priced(prompt="0.0000029"), entry("acme/small"))
    barn = Provider.objects.get(pk="barn")
    lists.before_reply = threading.Barrier(2).wait  # both have asked before either is answered

    def run(_: int) -> int:
        try:
            report = proposals.sync(barn, can_apply=True)
            return len(report.proposed) + len(report.applied)
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        found = sorted(pool.map(run, range(2)))

    assert found == [0, 2]
    assert sorted(kind for kind, *_ in [*proposed(), *proposed("applied")]) == ["new_model", "price"]
    assert Price.objects.count() == 2
    assert UpstreamList.objects.count() == 1


# --- Lists that lost models -----------------------------------------------------------------------------------------


def test_a_list_that_lost_most_of_its_models_is_refused_without_the_option(large, lists, sync):
    lists.lists(entry(), entry("acme/a"), entry("acme/b"), entry("acme/c"), entry("acme/d"))
    sync()
    before = list(CatalogProposal.objects.values())
    lists.lists(priced(prompt="0.000001"), entry("acme/a"))

    with pytest.raises(CommandError, match="barn sent a list without 3 of 5 models, which is not accepted"):
        sync()
    assert list(CatalogProposal.objects.values()) == before

    assert (sync("--believe")["listed"], len(proposed())) == (2, 2)
    assert sync()["listed"] == 2  # later lists are compared with this one


def test_a_list_may_lose_half_of_its_models(large, lists, sync):
    lists.lists(entry(), entry("acme/a"), entry("acme/b"), entry("acme/c"))
    sync()
    lists.lists(entry(), entry("acme/a"))

    assert sync()["outdated"] == 2


# --- Automatic changes ----------------------------------------------------------------------------------------------


def test_a_provider_that_applies_gets_small_changes_applied_and_the_rest_proposed(large, barn, lists, sync, caplog):
    caplog.set_level("INFO", "gateway.catalog")
    Provider.objects.update(sync="apply")
    shrunk = priced(prompt="0.0000025", context_length=None) | {"context_length": 64_000}
    lists.lists(shrunk, entry("acme/small"))

    report = sync()

    assert [change["kind"] for change in report["applied"]] == ["price"]
    assert [change["kind"] for change in report["proposed"]] == ["limits", "new_model"]
    assert report["waiting"] == 2
    assert [kind for kind, *_ in proposed("applied")] == ["price"]
    [applied] = CatalogProposal.objects.filter(state="applied")
    assert (applied.decided_by, applied.decided_at is None) == (None, False)
    offered = lookup.find_offer("acme/large")
    assert (offered.price.values, offered.context_window) == ({**OLD_PRICE, "input": "2.50"}, 128_000)
    assert [price.sheet.values["input"] for price in Price.objects.order_by("pk")] == ["3.00", "2.50"]
    assert LanguageModel.objects.count() == 1
    assert "applied by the rule, as barn lists it: acme/large, input $3.00 -> $2.50" in caplog.text


def test_a_pending_small_change_is_applied_with_the_option(large, lists, sync):
    lists.lists(priced(prompt="0.0000025"))
    assert sync()["applied"] == []

    assert [change["kind"] for change in sync("--apply")["applied"]] == ["price"]
    assert proposed() == []
    assert sync("--apply")["applied"] == []
    assert Price.objects.count() == 2


def test_the_largest_price_change_is_a_setting(large, lists, sync, settings):
    settings.CATALOG_SYNC_PRICE_PERCENT = 0
    lists.lists(priced(prompt="0.000002999"))
    assert sync("--apply")["applied"] == []

    settings.CATALOG_SYNC_PRICE_PERCENT = 1
    assert len(sync("--apply")["applied"]) == 1


def test_the_markup_is_added_to_prices_of_a_list(large, lists, sync, settings):
    assert sync()["proposed"] == []
    settings.MARKUP_PERCENT = Decimal("5.5")
    sync()
    [(_, _, _, new)] = proposed()
    assert (new["input"], new["output"], new["cached_input"]) == ("3.165", "15.825", "0.3165")


def test_a_price_of_a_list_that_is_too_dear_with_the_markup_is_noted(large, lists, sync, settings):
    settings.MARKUP_PERCENT = Decimal(1000)
    lists.lists(priced(prompt="0.001", completion="0.000838488366987"))
    assert sync("--apply")["notes"] == [
        "acme/large has an implausible price: input is 11000.00 with GATEWAY_MARKUP_PERCENT, more than 9223.372036854"
    ]
    assert not proposed()


def test_a_price_change_does_not_affect_a_running_request(api, alice, upstream: Upstream, lists, sync, monkeypatch):
    provider = factories.make_provider("scripted", kind="openai", base_url=upstream.url, api_key_env="SCRIPTED_UPSTREAM_KEY")
    make_model(provider, upstream_model="acme/large")
    upstream.will(stream(ROLE, words("Hello ", "you"), FINISH, usage(), DONE))
    running = rows.ask_streamed(api)  # admitted; nothing of it is read yet
    Provider.objects.update(base_url=lists.url)
    lists.lists(priced(prompt="0.0000035", completion="0.000018"))

    assert [change["kind"] for change in sync("scripted", "--apply")["applied"]] == ["price"]

    assert rows.text(rows.events(running)) == "Hello you"
    rows.assert_charged(alice, "reported", prompt=9, completion=2, nanos=9 * 3_000 + 2 * 15_000)
    Provider.objects.update(base_url=upstream.url)
    assert rows.text(rows.events(rows.ask_streamed(api))) == "Hello you"
    assert [done.cost_nanos for done in alice.completions.order_by("pk")] == [57_000, 9 * 3_500 + 2 * 18_000]
