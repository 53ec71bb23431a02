"""Aliases for the first model of a ranking: how they are written, and how callers use them."""

from datetime import timedelta

import pytest

from billing.models import LedgerEntry
from completions.models import Category, LanguageModel, Price, RoutableAlias, Route
from gateway_project.db import pool
from rankings.models import Entry, Profile, Source
from rankings.publishing import publication, routable_aliases
from tests import chat, factories
from tests.rankings.snapshots import make_alias, make_snapshot
from tests.rankings.streams import streamed

INTERNAL, ARENA, HUB = Source.INTERNAL, Source.LMSYS_ARENA, Source.HUGGINGFACE
ORDERS = ("best", "cheapest", "fastest")


@pytest.fixture(autouse=True)
def models(db):
    factories.make_model("acme/best", input="3.00", output="15.00")
    factories.make_model("acme/open", input="1.10", output="4.40")
    factories.make_model("acme/tiny", input="0.05", output="0.10")
    factories.make_model("acme/free", input="0", output="0")
    Profile.objects.create(model_id="acme/open", open_weights=True)


def targets(alias):
    return RoutableAlias.objects.get(pk=alias).model_ids


def rate(boards):
    """Publish the ranking with what a quality source says of the models on these boards."""
    for name in ("best", "open"):
        make_alias(ARENA, name, f"acme/{name}")
    make_snapshot(ARENA, boards, crowd=30)
    publication.publish(INTERNAL)


def make_known_speeds(account, settings):
    """Let the speed of one model with open weights be known."""
    settings.RANKINGS_SPEED_STREAMS_MIN = 1
    streamed((account, factories.make_key(account)[0]), "acme/open", 500, 4_500, 1_000)


def assert_refused(reply, reason):
    error = reply.json()["error"]
    assert (reply.status_code, error["code"], error["param"]) == (404, "model_not_found", "model")
    assert reason in error["message"]


def current():
    """Return the ids of the aliases without a day."""
    return {alias for alias in RoutableAlias.objects.values_list("pk", flat=True) if "@" not in alias}


def test_each_alias_is_kept_under_the_day_of_its_ranking():
    today = pool.database_time().date()
    old, kept = (today - routable_aliases.KEPT_TIME - timedelta(days=days) for days in (1, 0))
    for day in (old, kept):
        RoutableAlias.objects.create(id=f"best/coding@{day}", model_ids=["acme/tiny"], ranked_on=day)
    publication.publish(INTERNAL)
    pinned = RoutableAlias.objects.filter(pk__contains="@")
    assert set(pinned.values_list("pk", flat=True)) == {f"{alias}@{today}" for alias in current()} | {f"best/coding@{kept}"}
    for row in pinned.filter(ranked_on=today):
        alias = RoutableAlias.objects.get(pk=row.pk.partition("@")[0])
        assert (row.model_ids, row.qualities, row.ranked_on) == (alias.model_ids, alias.qualities, alias.ranked_on)


def test_the_ranking_of_a_day_stays_when_later_ones_differ():
    yesterday = pool.database_time().date() - timedelta(days=1)
    RoutableAlias.objects.create(id=f"cheapest/coding@{yesterday}", model_ids=["acme/best"], ranked_on=yesterday)
    publication.publish(INTERNAL)
    assert targets(f"cheapest/coding@{yesterday}") == ["acme/best"]


def test_an_alias_has_the_quality_of_each_model():
    make_alias(ARENA, "best", "acme/best")
    make_snapshot(ARENA, {"CODING": {"best": 100}}, crowd=30)
    publication.publish(INTERNAL)
    row = RoutableAlias.objects.get(pk="cheapest/coding")
    qualities = dict(Entry.objects.filter(source=INTERNAL, board="CODING").values_list("model_id", "quality"))
    assert dict(zip(row.model_ids, row.qualities, strict=True)) == qualities


def test_every_board_has_three_aliases(alice, settings):
    make_known_speeds(alice, settings)
    rate({category.value: {"best": 100, "open": 50} for category in Category})
    expected = {f"{order}/{category.lower()}" for order in ORDERS for category in Category}
    assert current() == expected == set(routable_aliases.names())
    assert "best/open_source" in expected
    assert targets("best/open_source") == targets("fastest/open_source") == ["acme/open"]


def test_what_nobody_tested_is_never_the_best(api):
    publication.publish(INTERNAL)
    assert {alias for alias in current() if alias.startswith("best/")} == set()
    assert_refused(chat.ask(api, model="best/general"), "enough evidence of its quality")
    rate({"CODING": {"open": 50}})
    assert {alias for alias in current() if alias.startswith("best/")} == {"best/coding"}
    assert targets("best/coding") == ["acme/open"]
    LanguageModel.objects.filter(pk="acme/open").update(is_enabled=False)
    assert chat.ask(api, model="best/coding").status_code == 404


def test_best_alias_follows_the_board():
    rate({"GENERAL": {"best": 100}, "CODING": {"open": 100}})
    for board in ("GENERAL", "CODING"):
        tested = Entry.objects.filter(source=INTERNAL, board=board, quality__isnull=False)
        assert targets(f"best/{board.lower()}") == list(tested.order_by("board_rank").values_list("model_id", flat=True))
    assert targets("best/general")[0] == "acme/best"
    assert targets("best/coding")[0] == "acme/open"


def test_cheapest_alias_goes_by_price_beyond_the_range_of_scores():
    publication.publish(INTERNAL)
    assert set(Entry.objects.filter(model_id__in=["acme/tiny", "acme/free"]).values_list("cost", flat=True)) == {100}
    assert targets("cheapest/general") == ["acme/free", "acme/tiny", "acme/open", "acme/best"]


def test_cheapest_alias_prefers_models_tested_in_the_category():
    rate({"CODING": {"best": 100, "open": 50}})
    assert targets("cheapest/coding") == ["acme/open", "acme/best", "acme/free", "acme/tiny"]
    assert targets("cheapest/math")[0] == "acme/free"


def test_fastest_alias_prefers_measured_models_and_then_follows_the_board(alice, settings):
    settings.RANKINGS_SPEED_STREAMS_MIN = 1
    caller = alice, factories.make_key(alice)[0]
    streamed(caller, "acme/best", 2_000, 8_000, 500)
    streamed(caller, "acme/tiny", 500, 4_500, 1_000)
    publication.publish(INTERNAL)
    assert targets("fastest/general") == ["acme/tiny", "acme/best"]


def test_what_nobody_timed_is_never_the_fastest(api, alice, settings):
    publication.publish(INTERNAL)
    assert not {alias for alias in current() if alias.startswith("fastest/")}
    for alias in ("fastest/general", "fastest/coding@2026-11-22"):
        assert_refused(chat.ask(api, model=alias), "a measured speed")
    assert not LedgerEntry.objects.filter(type=LedgerEntry.Type.USAGE_DEBIT).exists()
    make_known_speeds(alice, settings)
    publication.publish(INTERNAL)
    assert chat.ask(api, model="fastest/general").json()["model"] == "acme/open"


@pytest.mark.parametrize("id", ["best/nothing", "best/General", "other/general", "best", "best/"])
def test_only_ids_of_the_rankings_are_refused_with_their_reason(api, id):
    refused = chat.ask(api, model=id).json()["error"]
    assert refused["message"] == f"The model {id!r} does not exist or you do not have access to it."


WEAK = {"verified": False}
CLOSE, FAR = {"lower": 49, "upper": 51}, {"lower": 1, "upper": 99}


@pytest.mark.parametrize(
    ("said", "is_best"),
    [
        ({HUB: WEAK}, False),
        ({HUB: {"verified": True}}, True),
        ({ARENA: CLOSE}, True),
        ({ARENA: {}}, True),
        ({HUB: WEAK, ARENA: FAR}, True),
        ({}, False),
    ],
    ids=["unverified alone", "verified alone", "a rating", "a rating without interval", "two that are weak", "nothing"],
)
@pytest.mark.parametrize("age_hours", [0, 2_000])
def test_best_needs_a_minimum_of_evidence_however_old(said, is_best, age_hours):
    for source in (ARENA, HUB):
        facts = said.get(source)
        make_alias(source, "open", "acme/open")
        make_snapshot(source, {"GENERAL": {} if facts is None else {"open": (50, facts)}}, crowd=30, age_hours=age_hours)
    publication.publish(INTERNAL)
    assert ("best/general" in current()) == is_best


def test_what_has_too_little_evidence_does_not_lead_the_best():
    make_alias(HUB, "open", "acme/open")
    make_alias(ARENA, "best", "acme/best")
    make_snapshot(HUB, {"GENERAL": {"open": (99, WEAK)}}, crowd=30)
    make_snapshot(ARENA, {"GENERAL": {"best": 10}}, crowd=30)
    publication.publish(INTERNAL)
    first = Entry.objects.filter(source=INTERNAL, board="GENERAL", quality__isnull=False).order_by("board_rank")[0]
    assert (first.model_id, first.confidence < 0.2) == ("acme/open", True)
    assert targets("best/general") == ["acme/best"]


def test_outdated_aliases_are_deleted_and_foreign_ones_stay(alice, settings):
    RoutableAlias.objects.create(id="best/mine", model_ids=["acme/tiny"])
    rate({category.value: {"best": 100, "open": 50} for category in Category})
    make_known_speeds(alice, settings)
    Profile.objects.update(open_weights=False)
    publication.publish(INTERNAL)
    assert current() == set(routable_aliases.names()) - {f"{order}/open_source" for order in ORDERS} | {"best/mine"}
    assert targets("best/mine") == ["acme/tiny"]


def test_disabled_model_leaves_the_aliases():
    publication.publish(INTERNAL)
    LanguageModel.objects.filter(pk="acme/free").update(is_enabled=False)
    publication.publish(INTERNAL)
    assert targets("cheapest/general") == ["acme/tiny", "acme/open", "acme/best"]


def test_completion_for_an_alias_is_answered_and_charged_as_the_first_model(api):
    make_alias(ARENA, "best", "acme/best")
    make_snapshot(ARENA, {"CODING": {"best": 100}}, crowd=30)
    publication.publish(INTERNAL)
    reply = chat.ask(api, model="best/coding").json()
    assert reply["model"] == "acme/best"
    [entry] = LedgerEntry.objects.filter(type=LedgerEntry.Type.USAGE_DEBIT)
    price = Price.objects.get(model="acme/best")
    usage = reply["usage"]
    nanos = price.input_nanos * usage["prompt_tokens"] + price.output_nanos * usage["completion_tokens"]
    assert (entry.metadata["model"], entry.amount_nanos) == ("acme/best", -nanos // 1_000_000)


def test_alias_works_on_a_new_installation_without_provider_keys(api):
    elsewhere = factories.make_provider("elsewhere", kind="openai", base_url="https://example.org", api_key_env="NOT_SET_HERE")
    Route.objects.exclude(model_id="acme/best").update(provider=elsewhere)
    rate({"GENERAL": {"best": 50, "open": 100}})
    assert targets("best/general")[0] != "acme/best"
    for alias in ("best/general", "cheapest/coding"):
        assert chat.ask(api, model=alias).json()["model"] == "acme/best"
        assert api.get(f"/v1/models/{alias}").json()["alias_of"] == "acme/best"


def test_alias_resolves_although_many_better_models_cannot_be_called(api, monkeypatch):
    monkeypatch.setattr(routable_aliases, "MODELS_MAX", 2)
    elsewhere = factories.make_provider("elsewhere", kind="openai", base_url="https://example.org", api_key_env="NOT_SET_HERE")
    for number in range(4):
        factories.make_model(f"far/{number}", provider=elsewhere, input="0", output="0")
    publication.publish(INTERNAL)
    assert targets("cheapest/math") == ["acme/free", "far/0", "far/1", "acme/tiny"]  # two of each, in their order
    LanguageModel.objects.filter(pk="acme/free").update(is_enabled=False)
    assert chat.ask(api, model="cheapest/math").json()["model"] == "acme/tiny"


def test_alias_skips_models_that_became_unavailable(api):
    rate({"GENERAL": {"best": 50, "open": 100}})
    [first, second] = targets("best/general")
    LanguageModel.objects.filter(pk=first).update(is_enabled=False)
    assert chat.ask(api, model="best/general").json()["model"] == second
