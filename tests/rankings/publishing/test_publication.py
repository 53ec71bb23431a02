"""What is published from the last snapshots: which models, in which order, with which scores; and the history of ranks."""

import threading
from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from completions.models import Category, LanguageModel, Price, Provider, RoutableAlias, Route
from gateway_project.db import pool
from rankings.models import DailyRank, Entry, Profile, Publication, Snapshot, Source, SourceState
from rankings.publishing import publication as publishing
from rankings.scoring import formula, parameters
from rankings.sources import huggingface, registry
from tests import factories
from tests.rankings.snapshots import make_alias, make_snapshot

ARENA, HUB, AA, OPENROUTER, INTERNAL = (
    Source.LMSYS_ARENA,
    Source.HUGGINGFACE,
    Source.ARTIFICIAL_ANALYSIS,
    Source.OPENROUTER,
    Source.INTERNAL,
)
GENERAL, CODING, OPEN = Category.GENERAL, Category.CODING, Category.OPEN_SOURCE
INTERVAL = {"lower": 1495, "upper": 1503.5}


@pytest.fixture(autouse=True)
def models(db, settings):
    """Three models: best is closed; open and tiny have open weights, and tiny costs next to nothing."""
    settings.RANKINGS_AA_API_KEY = settings.RANKINGS_OPENROUTER_API_KEY = "a-key"
    factories.make_model("acme/best", input="3.00", output="15.00")
    factories.make_model("acme/open", input="1.10", output="4.40")
    factories.make_model("acme/tiny", input="0.05", output="0.10")
    Profile.objects.create(model_id="acme/open", open_weights=True)
    Profile.objects.create(model_id="acme/tiny", open_weights=True)


def shown(source, board, *columns):
    """Return these columns of a board's entries by model id, in the order of the board."""
    rows = Entry.objects.filter(source=source, board=board).order_by("board_rank", "model_id")
    return {row.model_id: tuple(getattr(row, column) for column in columns) for row in rows}


def entry(source, board, model_id):
    return Entry.objects.get(source=source, board=board, model_id=model_id)


def map_names(source, *names):
    """Let each name at the source mean the model of that name here."""
    for name in names:
        make_alias(source, name, f"acme/{name}")


# --- Sources ------------------------------------------------------------------------------------------------------


def test_source_keeps_its_ranks_in_its_whole_population():
    map_names(ARENA, "best", "open")
    make_snapshot(
        ARENA,
        {GENERAL: {"theirs": 1600, "best": (1500, INTERVAL), "x": 1500, "y": 1450, "open": (1400, INTERVAL)}},
        age_hours=336,
    )
    publishing.publish(ARENA)
    assert Entry.objects.filter(source=ARENA).count() == 3  # two models, and the one with open weights again
    assert shown(ARENA, GENERAL, "rank", "board_rank", "elo") == {"acme/best": (2, 2, 1500), "acme/open": (5, 5, 1400)}
    assert shown(ARENA, OPEN, "rank", "board_rank", "elo") == {"acme/open": (5, 1, 1400)}


def test_arena_scores_by_percentile_and_its_confidence_depends_on_interval_and_age():
    make_alias(ARENA, "best", "acme/best", confidence=0.9)
    snapshot = make_snapshot(ARENA, {GENERAL: {"a": 1600, "best": (1500.4, INTERVAL), "b": 1300, "c": 1200}}, age_hours=336)
    publishing.publish(ARENA)
    row = entry(ARENA, GENERAL, "acme/best")
    assert (row.overall, row.quality, row.speed, row.cost, row.elo) == (62.5, 62.5, None, None, 1500)
    assert row.confidence == pytest.approx(0.9 * 0.915 * 0.5, abs=1e-4)
    assert row.last_updated == snapshot.as_of
    assert (row.mmlu, row.hellaswag, row.human_eval, row.change) == (None, None, None, 0)
    assert row.inputs["population"] == 4
    assert (row.inputs["rank"], row.inputs["value"], row.inputs["identity"]) == (2, 1500.4, 0.9)
    assert row.inputs["attribution"] == "by LMSYS_ARENA"


def test_hub_scores_by_its_own_value_with_more_confidence_if_verified():
    map_names(HUB, "open", "tiny")
    make_snapshot(HUB, {GENERAL: {"open": (86.2, {"verified": True}), "tiny": (40.0, {"verified": False})}})
    publishing.publish(HUB)
    assert shown(HUB, GENERAL, "overall", "quality", "elo") == {"acme/open": (86.2, 86.2, None), "acme/tiny": (40, 40, None)}
    confidences = shown(HUB, GENERAL, "confidence")
    assert confidences["acme/open"] == pytest.approx((0.9,), abs=1e-3)
    assert confidences["acme/tiny"] == pytest.approx((0.5,), abs=1e-3)


def test_artificial_analysis_scores_speed_and_cost_by_its_own_figures():
    map_names(AA, "best", "open")
    facts = {"tokens_per_second": 153.8, "first_token_seconds": 14.9, "input_usd": 0.15, "output_usd": 0.6}
    nothing = dict.fromkeys(facts)
    make_snapshot(AA, {GENERAL: {"best": (57.1, facts), "open": (33.0, nothing)}})
    publishing.publish(AA)
    best = entry(AA, GENERAL, "acme/best")
    assert (best.overall, best.quality, round(best.speed, 1), round(best.cost, 1)) == (57.1, 57.1, 60.8, 83.1)
    assert best.confidence == pytest.approx(0.95, abs=1e-3)
    assert shown(AA, GENERAL, "speed", "cost")["acme/open"] == (None, None)


def test_openrouter_scores_by_use_and_its_prices_are_not_shown():
    map_names(OPENROUTER, "best", "open")
    facts = {"tokens": "1", "is_sampled": False, "input_usd": "0.15", "output_usd": "0.6"}
    make_snapshot(
        OPENROUTER,
        {
            GENERAL: {"theirs": 4e12, "best": (1e12, facts)},
            CODING: {"open": (5.0, {**facts, "is_sampled": True})},
        },
    )
    publishing.publish(OPENROUTER)
    row = entry(OPENROUTER, GENERAL, "acme/best")
    assert (row.rank, row.overall, row.quality, row.speed, row.cost) == (2, 25, None, None, None)
    assert row.confidence == pytest.approx(0.9, abs=1e-3)
    coding = entry(OPENROUTER, CODING, "acme/open")
    assert (coding.overall, coding.confidence) == (100, pytest.approx(0.6, abs=1e-3))


def test_rank_on_another_board_is_the_general_rank():
    map_names(ARENA, "best", "open")
    make_snapshot(ARENA, {GENERAL: {"a": 1600, "b": 1500, "best": 1400}, CODING: {"best": 1500, "open": 1400, "a": 1300}})
    publishing.publish(ARENA)
    assert shown(ARENA, CODING, "rank", "board_rank") == {
        "acme/best": (3, 1),
        "acme/open": (2, 2),
    }  # open has one rank only


def test_tied_open_weights_share_a_rank_and_no_rank_is_skipped():
    factories.make_model("acme/third", category=OPEN)  # it has no profile: its category says that it is open
    map_names(ARENA, "open", "tiny", "third", "best")
    make_snapshot(ARENA, {GENERAL: {"a": 1600, "open": 1500, "tiny": 1500, "best": 1450, "third": 1400}})
    publishing.publish(ARENA)
    assert shown(ARENA, OPEN, "rank", "board_rank") == {"acme/open": (2, 1), "acme/tiny": (2, 1), "acme/third": (5, 2)}


def test_model_that_is_not_offered_has_no_entry():
    map_names(ARENA, "best", "open", "tiny")
    make_snapshot(ARENA, {GENERAL: {"best": 1500, "open": 1400, "tiny": 1300}})
    LanguageModel.objects.filter(pk="acme/best").update(is_enabled=False)
    Price.objects.filter(model_id="acme/open").delete()
    publishing.publish(ARENA)
    assert shown(ARENA, GENERAL, "rank") == {"acme/tiny": (3,)}
    assert list(shown(INTERNAL, GENERAL)) == ["acme/tiny"]
    LanguageModel.objects.update(is_enabled=False)
    publishing.publish(ARENA)
    assert not Entry.objects.exists()
    assert not RoutableAlias.objects.exclude(pk__contains="@").exists()


@pytest.mark.parametrize(
    "obstacle",
    [
        lambda: Provider.objects.filter(pk="other").update(is_enabled=False),
        lambda: Provider.objects.filter(pk="other").update(api_key_env="NOT_SET_HERE"),
        lambda: Route.objects.filter(model_id="acme/best").update(is_enabled=False),
    ],
    ids=["provider disabled", "no key", "no route"],
)
def test_model_that_cannot_be_called_is_ranked_as_if_it_could(obstacle):
    map_names(ARENA, "best")
    make_snapshot(ARENA, {GENERAL: {"a": 1600, "best": 1500}}, crowd=30)
    columns = ("rank", "board_rank", "overall", "elo")
    publishing.publish(ARENA)
    before = {source: shown(source, GENERAL, *columns) for source in (ARENA, INTERNAL)}
    Route.objects.filter(model_id="acme/best").update(provider=factories.make_provider("other"))
    obstacle()
    publishing.publish(ARENA)
    assert {source: shown(source, GENERAL, *columns) for source in (ARENA, INTERNAL)} == before
    assert "acme/best" in before[INTERNAL]


def test_model_missing_from_the_next_snapshot_loses_only_that_sources_entry():
    map_names(ARENA, "best", "open")
    map_names(HUB, "open")
    make_snapshot(ARENA, {GENERAL: {"best": 1500, "open": 1400}})
    make_snapshot(HUB, {GENERAL: {"open": 80}})
    publishing.publish(ARENA)
    publishing.publish(HUB)
    make_snapshot(ARENA, {GENERAL: {"best": 1500}})
    publishing.publish(ARENA)
    assert list(shown(ARENA, GENERAL)) == ["acme/best"]
    assert list(shown(ARENA, OPEN)) == []
    assert list(shown(HUB, GENERAL)) == ["acme/open"]
    assert set(shown(INTERNAL, GENERAL)) == {"acme/best", "acme/open", "acme/tiny"}


def test_lowest_of_several_variants_is_used_with_less_confidence():
    for effort in ("low", "high"):
        make_alias(ARENA, f"best-{effort}", "acme/best", confidence=0.9)
    make_snapshot(ARENA, {GENERAL: {"best-high": 1500, "a": 1450, "best-low": 1400}})
    publishing.publish(ARENA)
    row = entry(ARENA, GENERAL, "acme/best")
    assert (row.rank, row.elo, row.inputs["name"], row.inputs["identity"]) == (3, 1400, "best-low", 0.7)


def test_named_variant_is_used_instead_of_the_lowest():
    make_alias(ARENA, "best-high", "acme/best")
    make_alias(ARENA, "best-low", "acme/best", confidence=0.9)
    make_snapshot(ARENA, {GENERAL: {"best-high": 1500, "a": 1450, "best-low": 1400}})
    publishing.publish(ARENA)
    assert shown(ARENA, GENERAL, "rank", "elo") == {"acme/best": (1, 1500)}


@pytest.mark.parametrize(("source", "setting"), [(AA, "RANKINGS_AA_API_KEY"), (OPENROUTER, "RANKINGS_OPENROUTER_API_KEY")])
def test_data_read_with_a_key_is_not_shown_without_it(settings, source, setting):
    map_names(source, "best")
    make_snapshot(source, {GENERAL: {"best": 50}}, crowd=30)
    publishing.publish(source)
    assert list(shown(source, GENERAL)) == ["acme/best"]
    setattr(settings, setting, "")
    publishing.publish(source)
    assert not Entry.objects.filter(source=source).exists()
    assert not any(each["is_heard"] for each in entry(INTERNAL, GENERAL, "acme/best").inputs["sources"])


# --- INTERNAL -----------------------------------------------------------------------------------------------------


def test_models_are_ranked_by_price_with_no_confidence_when_no_source_has_data():
    publishing.publish(INTERNAL)
    assert Entry.objects.count() == 5 * 3 + 2
    for board in Category:
        rows = shown(INTERNAL, board, "board_rank", "quality", "elo", "confidence", "change")
        closed = {} if board == OPEN else {"acme/best": (3, None, None, 0, 0)}
        assert rows == {"acme/tiny": (1, None, None, 0, 0), "acme/open": (2, None, None, 0, 0)} | closed
    tiny = entry(INTERNAL, GENERAL, "acme/tiny")
    assert (tiny.overall, tiny.cost, tiny.speed) == (pytest.approx((0.7 * 25 + 0.15 * 100) / 0.85), 100, None)
    assert (pool.database_time() - tiny.last_updated) < timedelta(minutes=1)
    assert tiny.inputs["cost"] == {"input_usd": 0.05, "output_usd": 0.1, "blended_usd": 0.0625, "score": 100}
    assert [each["is_applicable"] for each in tiny.inputs["sources"]] == [False] * 3


def test_internal_applies_the_formula_to_the_sources():
    map_names(ARENA, "best", "open")
    map_names(AA, "best")
    map_names(HUB, "open")
    arena = make_snapshot(ARENA, {GENERAL: {"best": (1500, INTERVAL), "open": (5.5, {})}}, crowd=30, age_hours=336)
    facts = {"tokens_per_second": 296, "first_token_seconds": 0.65}
    make_snapshot(AA, {GENERAL: {"best": (60, facts)}}, crowd=30, age_hours=1)
    make_snapshot(HUB, {GENERAL: {"open": (90, {"verified": True})}}, crowd=30)
    publishing.publish(INTERNAL)
    row = entry(INTERNAL, GENERAL, "acme/best")
    top_of_31, top_of_32 = 100 * 30.5 / 31, 100 * 31.5 / 32
    quality = (0.45 * top_of_32 + 0.35 * top_of_31) / 0.8
    believed = (quality + 0.25 * 25) / 1.25
    assert row.quality == pytest.approx(quality)
    assert (round(row.speed, 1), round(row.cost, 1)) == (94.7, 28.2)
    assert row.overall == pytest.approx(0.7 * believed + 0.15 * row.speed + 0.15 * row.cost)
    fresh = [formula.freshness(age_hours=1, half_life_hours=168), 0.5]
    agreement = 1 - 0.5 * (top_of_32 - top_of_31) / 100
    assert row.confidence == pytest.approx((0.35 * 0.95 * fresh[0] + 0.45 * 0.915 * fresh[1]) / 0.8 * agreement, abs=1e-4)
    assert (row.elo, row.last_updated) == (1500, arena.as_of)
    assert row.inputs["speed"]["source"] == AA
    # The Hub lists open weights only: a closed model loses nothing by not being there, an open one would.
    assert {each["source"]: each["is_applicable"] for each in row.inputs["sources"]} == {ARENA: True, AA: True, HUB: False}
    opened = entry(INTERNAL, GENERAL, "acme/open")
    assert opened.inputs["coverage"] == pytest.approx(0.65)
    assert list(shown(INTERNAL, GENERAL)) == ["acme/best", "acme/open", "acme/tiny"]


def test_score_can_be_computed_again_from_its_inputs():
    map_names(ARENA, "best")
    map_names(AA, "best")
    make_snapshot(ARENA, {GENERAL: {"best": (20.5, INTERVAL)}}, crowd=30, age_hours=100)
    make_snapshot(AA, {GENERAL: {"best": (3.5, {"first_token_seconds": 2})}}, crowd=30)
    publishing.publish(INTERNAL)
    row = entry(INTERNAL, GENERAL, "acme/best")
    inputs = row.inputs
    counted = [each for each in inputs["sources"] if each["is_heard"]]
    quality = sum(each["weight"] * each["percentile"] for each in counted) / sum(each["weight"] for each in counted)
    prior = inputs["prior"]
    believed = (inputs["coverage"] * quality + prior["weight"] * prior["quality"]) / (inputs["coverage"] + prior["weight"])
    parts = {"quality": believed, "speed": inputs["speed"]["score"], "cost": inputs["cost"]["score"]}
    overall = sum(inputs["weights"][name] * part for name, part in parts.items()) / sum(inputs["weights"].values())
    assert (row.quality, row.overall) == (pytest.approx(quality), pytest.approx(overall))
    apart = abs(counted[0]["percentile"] - counted[1]["percentile"]) / 100
    confidence = sum(each["weight"] * each["identity"] * each["precision"] * each["freshness"] for each in counted)
    assert row.confidence == pytest.approx(confidence / 0.8 * (1 - apart / 2))
    assert inputs["version"] == "internal-1"


def test_too_small_a_board_does_not_count():
    map_names(ARENA, "best", "open")
    make_snapshot(ARENA, {GENERAL: {"best": 1500, "open": 1400}, CODING: {"best": 1500}}, crowd=17)
    publishing.publish(INTERNAL)
    assert entry(INTERNAL, GENERAL, "acme/best").quality is None
    make_snapshot(ARENA, {GENERAL: {"best": 1500, "open": 1400}, CODING: {"best": 1500}}, crowd=18)
    publishing.publish(INTERNAL)
    assert entry(INTERNAL, GENERAL, "acme/best").quality is not None
    assert entry(INTERNAL, CODING, "acme/best").quality is None


def test_a_board_without_weight_is_shown_and_does_not_count():
    map_names(HUB, "open", "tiny")
    make_snapshot(HUB, {CODING: {"open": 90, "tiny": 50}, GENERAL: {"open": 90}}, crowd=30)
    publishing.publish(HUB)
    assert shown(HUB, CODING, "quality") == {"acme/open": (90,), "acme/tiny": (50,)}
    assert entry(HUB, CODING, "acme/open").inputs["version"] == "1"
    assert entry(INTERNAL, GENERAL, "acme/open").quality is not None
    coding = entry(INTERNAL, CODING, "acme/open")
    assert coding.quality is None
    assert [(each["weight"], each["is_heard"]) for each in coding.inputs["sources"] if each["source"] == HUB] == [(0, False)]


def test_a_board_with_half_a_weight_counts_half(monkeypatch):
    boards = {**registry.fetched_spec(HUB).boards, GENERAL: huggingface.HubBoard(dataset="any", weight=0.5)}
    monkeypatch.setattr(huggingface, "SPEC", replace(huggingface.SPEC, boards=boards))
    map_names(HUB, "open")
    map_names(ARENA, "open")
    make_snapshot(HUB, {GENERAL: {"open": 90}}, crowd=30)
    make_snapshot(ARENA, {GENERAL: {"open": 0.5}}, crowd=30)
    publishing.publish(INTERNAL)
    high, low = 100 * 30.5 / 31, 100 * 1.5 / 31
    assert entry(INTERNAL, GENERAL, "acme/open").quality == pytest.approx((0.1 * high + 0.45 * low) / 0.55)


def test_a_board_that_stayed_as_it_was_keeps_its_date():
    map_names(HUB, "open")
    snapshot = make_snapshot(HUB, {GENERAL: {"open": (90, {"verified": True})}, "MATH": {"open": (90, {"verified": True})}})
    old = snapshot.as_of - timedelta(hours=720)
    Snapshot.objects.filter(pk=snapshot.pk).update(boards={"MATH": {"version": "2026", "as_of": old.isoformat()}})
    publishing.publish(HUB)
    general, math = (entry(HUB, board, "acme/open") for board in (GENERAL, "MATH"))
    assert (general.last_updated, math.last_updated) == (snapshot.as_of, old)
    assert (general.confidence, math.confidence) == (pytest.approx(0.9, abs=1e-3), pytest.approx(0.45, abs=1e-3))


def test_category_counts_its_own_boards_and_keeps_the_general_rank():
    map_names(ARENA, "best", "open")
    make_snapshot(ARENA, {GENERAL: {"best": 99, "open": 1.5}, CODING: {"best": 1.5, "open": 99}}, crowd=30)
    publishing.publish(INTERNAL)
    assert shown(INTERNAL, GENERAL, "rank", "board_rank") == {"acme/best": (1, 1), "acme/tiny": (2, 2), "acme/open": (3, 3)}
    assert shown(INTERNAL, CODING, "rank", "board_rank", "elo") == {
        "acme/open": (3, 1, 99),
        "acme/tiny": (2, 2, None),
        "acme/best": (1, 3, 2),
    }
    assert shown(INTERNAL, OPEN, "rank", "board_rank") == {"acme/tiny": (2, 1), "acme/open": (3, 2)}


def test_equal_models_are_ranked_by_id_without_ties():
    for name in ("b", "a", "c"):
        factories.make_model(f"twin/{name}", input="3.00", output="15.00")
    publishing.publish(INTERNAL)
    assert list(shown(INTERNAL, GENERAL)) == ["acme/tiny", "acme/open", "acme/best", "twin/a", "twin/b", "twin/c"]
    assert [rank for (rank,) in shown(INTERNAL, GENERAL, "rank").values()] == [1, 2, 3, 4, 5, 6]


def test_curated_benchmarks_are_stored_with_their_source():
    factories.make_model("openai/gpt-4.1")
    publishing.publish(INTERNAL)
    row = entry(INTERNAL, CODING, "openai/gpt-4.1")
    assert (row.mmlu, row.hellaswag, row.human_eval) == (90.2, None, 94.5)
    assert {figure["benchmark"] for figure in row.inputs["benchmarks"]} == {"mmlu", "human_eval"}
    assert all(figure["source"].startswith("https://") for figure in row.inputs["benchmarks"])


def test_publishing_a_source_computes_internal_again():
    publishing.publish(INTERNAL)
    map_names(ARENA, "best")
    make_snapshot(ARENA, {GENERAL: {"best": 1500}}, crowd=30)
    publishing.publish(ARENA)
    assert entry(INTERNAL, GENERAL, "acme/best").elo == 1500


# --- History ------------------------------------------------------------------------------------------------------


def store_rank(days_ago, rank, *, board=GENERAL, model_id="acme/best"):
    day = (pool.database_time() - timedelta(days=days_ago)).date()
    DailyRank.objects.create(source=ARENA, board=board, model_id=model_id, day=day, rank=rank)


@pytest.mark.parametrize(
    ("days", "change"),
    [
        ({}, 0),
        ({1: 5}, 3),
        ({1: 5, 3: 9}, 7),
        ({1: 5, 7: 1, 8: 9}, -1),
        ({6: 5, 8: 4, 30: 9}, 2),
    ],
    ids=["new", "yesterday only", "the oldest, of a few days", "a week ago", "the newest that is a week old"],
)
def test_change_is_since_a_week_ago_or_the_oldest_day(days, change):
    for days_ago, rank in days.items():
        store_rank(days_ago, rank)
    store_rank(7, 50, board=CODING)
    map_names(ARENA, "best")
    make_snapshot(ARENA, {GENERAL: {"a": 1600, "best": 1500}})
    publishing.publish(ARENA)
    assert shown(ARENA, GENERAL, "rank", "change") == {"acme/best": (2, change)}


@pytest.mark.parametrize(
    ("before", "now", "change"),
    [("4", "4.3", 3), ("4", "4.9", 3), ("4", "v4", 3), ("4", "5.0", 0), ("2", "3", 0), ("4", "40", 0), ("", "5.0", 3)],
    ids=["the same", "a minor version", "another spelling", "a major version", "two and three", "four and forty", "not known"],
)
def test_ranks_of_two_major_versions_are_not_compared(before, now, change):
    store_rank(8, 5)
    DailyRank.objects.update(series=before)
    map_names(ARENA, "best")
    snapshot = make_snapshot(ARENA, {GENERAL: {"a": 1600, "best": 1500}})
    Snapshot.objects.filter(pk=snapshot.pk).update(boards={GENERAL: {"version": now}})
    publishing.publish(ARENA)
    assert shown(ARENA, GENERAL, "rank", "change") == {"acme/best": (2, change)}
    today = DailyRank.objects.filter(source=ARENA).latest("day")
    assert today.series == now.strip("v").partition(".")[0]


def test_last_rank_of_a_day_is_stored_once():
    map_names(ARENA, "best")
    for rating in (1700, 1500):
        make_snapshot(ARENA, {GENERAL: {"a": 1600, "best": rating}})
        publishing.publish(ARENA)
    [day] = DailyRank.objects.filter(source=ARENA)
    assert (day.board, day.model_id, day.day, day.rank, day.overall) == (
        GENERAL,
        "acme/best",
        pool.database_time().date(),
        2,
        25,
    )
    assert shown(ARENA, GENERAL, "rank", "change") == {"acme/best": (2, 0)}
    assert DailyRank.objects.filter(source=INTERNAL, board=GENERAL).count() == 3


# --- State and publication number ---------------------------------------------------------------------------------


def test_every_publication_increments_the_number():
    publishing.publish(INTERNAL)
    [publication] = Publication.objects.all()
    publishing.publish(ARENA)  # and INTERNAL after it
    [again] = Publication.objects.all()
    assert again.number == publication.number + 2
    assert again.changed_at >= publication.changed_at


def test_failed_publication_changes_only_the_health_of_internal(settings):
    publishing.publish(INTERNAL)
    before = list(Entry.objects.order_by("pk").values()), Publication.objects.get().number, DailyRank.objects.count()
    state = SourceState.objects.get(pk=INTERNAL)
    assert (state.failures, state.error, state.last_success_at is not None) == (0, "", True)
    settings.RANKINGS_ANCHORS = {**parameters.ANCHORS.value, "prior": 1_000}
    for _ in range(2):
        with pytest.raises(ValueError, match="prior must be 0-100"):
            publishing.publish(INTERNAL)
    assert (list(Entry.objects.order_by("pk").values()), Publication.objects.get().number, DailyRank.objects.count()) == before
    failed = SourceState.objects.get(pk=INTERNAL)
    assert (failed.failures, failed.error, failed.last_success_at) == (2, "ValueError", state.last_success_at)
    settings.RANKINGS_ANCHORS = {**parameters.ANCHORS.value, "prior": 25}
    publishing.publish(INTERNAL)
    state = SourceState.objects.get(pk=INTERNAL)
    assert (state.failures, state.error) == (0, "")


def test_source_without_data_has_no_entries():
    publishing.publish(ARENA)
    assert not Entry.objects.filter(source=ARENA).exists()
    assert not Snapshot.objects.exists()
    assert not SourceState.objects.filter(pk=ARENA).exists()  # only its refresh stores its state


def test_number_of_queries_does_not_grow_with_the_models():
    def queries():
        with CaptureQueriesContext(connection) as captured:
            publishing.publish(INTERNAL)
        return len(captured)

    few = queries()
    for number in range(20):
        factories.make_model(f"more/{number}")
    assert queries() == few


@pytest.mark.django_db(transaction=True)
def test_concurrent_publications_of_a_source_are_serialized():
    map_names(ARENA, "best", "open")
    make_snapshot(ARENA, {GENERAL: {"best": 1500, "open": 1400}}, crowd=30)
    failures = []

    def go():
        try:
            publishing.publish(ARENA)
        except Exception as error:
            failures.append(error)
        finally:
            connection.close()

    threads = [threading.Thread(target=go) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert list(shown(ARENA, GENERAL)) == ["acme/best", "acme/open"]
    assert Publication.objects.get().number == 6
