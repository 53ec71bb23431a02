"""What is shown, made of what sources said last: whose, in which order, with which scores; and what was shown before."""

import threading
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from completions.models import Category, LanguageModel, Price, Provider, RoutableAlias, Route
from gateway_project.db import pool
from rankings.models import DailyRank, Entry, Profile, Publication, Snapshot, Source, SourceState
from rankings.publishing import publication as publishing
from rankings.scoring import formula, parameters
from tests import factories
from tests.rankings.snapshots import mean, say

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
    """Three of ours: best is closed, open has open weights, and so has tiny, which costs next to nothing."""
    settings.RANKINGS_AA_API_KEY = settings.RANKINGS_OPENROUTER_API_KEY = "a-key"
    factories.make_model("acme/best", input="3.00", output="15.00")
    factories.make_model("acme/open", input="1.10", output="4.40")
    factories.make_model("acme/tiny", input="0.05", output="0.10")
    Profile.objects.create(model_id="acme/open", open_weights=True)
    Profile.objects.create(model_id="acme/tiny", open_weights=True)


def shown(source, board, *columns):
    """By id, in the order of the board: these columns."""
    rows = Entry.objects.filter(source=source, board=board).order_by("board_rank", "model_id")
    return {row.model_id: tuple(getattr(row, column) for column in columns) for row in rows}


def entry(source, board, model_id):
    return Entry.objects.get(source=source, board=board, model_id=model_id)


def known_to(source, *names):
    for name in names:
        mean(source, name, f"acme/{name}")


# --- Sources ------------------------------------------------------------------------------------------------------


def test_a_source_is_shown_with_its_ranks_in_the_whole_population():
    known_to(ARENA, "best", "open")
    say(
        ARENA,
        {GENERAL: {"theirs": 1600, "best": (1500, INTERVAL), "x": 1500, "y": 1450, "open": (1400, INTERVAL)}},
        age_hours=336,
    )
    assert publishing.publish(ARENA) == 3  # two of ours, and the one of open weights again
    assert shown(ARENA, GENERAL, "rank", "board_rank", "elo") == {"acme/best": (2, 2, 1500), "acme/open": (5, 5, 1400)}
    assert shown(ARENA, OPEN, "rank", "board_rank", "elo") == {"acme/open": (5, 1, 1400)}


def test_arena_scores_by_percentile_and_is_believed_by_interval_and_age():
    mean(ARENA, "best", "acme/best", confidence=0.9)
    snapshot = say(ARENA, {GENERAL: {"a": 1600, "best": (1500.4, INTERVAL), "b": 1300, "c": 1200}}, age_hours=336)
    publishing.publish(ARENA)
    row = entry(ARENA, GENERAL, "acme/best")
    assert (row.overall, row.quality, row.speed, row.cost, row.elo) == (62.5, 62.5, None, None, 1500)
    assert row.confidence == pytest.approx(0.9 * 0.915 * 0.5, abs=1e-4)
    assert row.last_updated == snapshot.as_of
    assert (row.mmlu, row.hellaswag, row.human_eval, row.change) == (None, None, None, 0)
    assert row.inputs["population"] == 4
    assert (row.inputs["rank"], row.inputs["value"], row.inputs["identity"]) == (2, 1500.4, 0.9)
    assert row.inputs["attribution"] == "by LMSYS_ARENA"


def test_the_hub_scores_by_its_own_value_and_a_verified_one_is_believed_more():
    known_to(HUB, "open", "tiny")
    say(HUB, {GENERAL: {"open": (86.2, {"verified": True}), "tiny": (40.0, {"verified": False})}})
    publishing.publish(HUB)
    assert shown(HUB, GENERAL, "overall", "quality", "elo") == {"acme/open": (86.2, 86.2, None), "acme/tiny": (40, 40, None)}
    confidences = shown(HUB, GENERAL, "confidence")
    assert confidences["acme/open"] == pytest.approx((0.9,), abs=1e-3)
    assert confidences["acme/tiny"] == pytest.approx((0.5,), abs=1e-3)


def test_artificial_analysis_scores_speed_and_cost_by_its_own_figures():
    known_to(AA, "best", "open")
    facts = {"tokens_per_second": 153.8, "first_token_seconds": 14.9, "input_usd": 0.15, "output_usd": 0.6}
    nothing = dict.fromkeys(facts)
    say(AA, {GENERAL: {"best": (57.1, facts), "open": (33.0, nothing)}})
    publishing.publish(AA)
    best = entry(AA, GENERAL, "acme/best")
    assert (best.overall, best.quality, round(best.speed, 1), round(best.cost, 1)) == (57.1, 57.1, 60.8, 83.1)
    assert best.confidence == pytest.approx(0.95, abs=1e-3)
    assert shown(AA, GENERAL, "speed", "cost")["acme/open"] == (None, None)


def test_openrouter_scores_by_use_and_nothing_of_its_prices_is_shown():
    known_to(OPENROUTER, "best", "open")
    facts = {"tokens": "1", "is_sampled": False, "input_usd": "0.15", "output_usd": "0.6"}
    say(
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


def test_on_another_board_the_rank_is_still_the_general_one():
    known_to(ARENA, "best", "open")
    say(ARENA, {GENERAL: {"a": 1600, "b": 1500, "best": 1400}, CODING: {"best": 1500, "open": 1400, "a": 1300}})
    publishing.publish(ARENA)
    assert shown(ARENA, CODING, "rank", "board_rank") == {"acme/best": (3, 1), "acme/open": (2, 2)}  # open: its only rank


def test_ties_of_open_weights_share_a_rank_and_no_rank_is_missing():
    factories.make_model("acme/third", category=OPEN)  # nobody wrote a profile: its category says that it is open
    known_to(ARENA, "open", "tiny", "third", "best")
    say(ARENA, {GENERAL: {"a": 1600, "open": 1500, "tiny": 1500, "best": 1450, "third": 1400}})
    publishing.publish(ARENA)
    assert shown(ARENA, OPEN, "rank", "board_rank") == {"acme/open": (2, 1), "acme/tiny": (2, 1), "acme/third": (5, 2)}


def test_what_is_not_served_is_not_shown():
    known_to(ARENA, "best", "open", "tiny")
    say(ARENA, {GENERAL: {"best": 1500, "open": 1400, "tiny": 1300}})
    LanguageModel.objects.filter(pk="acme/best").update(is_enabled=False)
    Price.objects.filter(model_id="acme/open").delete()
    publishing.publish(ARENA)
    assert shown(ARENA, GENERAL, "rank") == {"acme/tiny": (3,)}
    assert list(shown(INTERNAL, GENERAL)) == ["acme/tiny"]
    Route.objects.update(is_enabled=False)
    publishing.publish(ARENA)
    assert not Entry.objects.exists()
    assert not RoutableAlias.objects.exists()


@pytest.mark.parametrize("obstacle", [{"is_enabled": False}, {"api_key_env": "NOT_SET_HERE"}], ids=["disabled", "no key"])
def test_a_model_whose_provider_cannot_be_asked_is_not_served(obstacle):
    Route.objects.filter(model_id="acme/best").update(provider=factories.make_provider("other"))
    Provider.objects.filter(pk="other").update(**obstacle)
    publishing.publish(INTERNAL)
    assert set(shown(INTERNAL, GENERAL)) == {"acme/open", "acme/tiny"}


def test_a_model_that_is_missing_from_the_next_snapshot_goes_from_that_source_only():
    known_to(ARENA, "best", "open")
    known_to(HUB, "open")
    say(ARENA, {GENERAL: {"best": 1500, "open": 1400}})
    say(HUB, {GENERAL: {"open": 80}})
    publishing.publish(ARENA)
    publishing.publish(HUB)
    say(ARENA, {GENERAL: {"best": 1500}})
    publishing.publish(ARENA)
    assert list(shown(ARENA, GENERAL)) == ["acme/best"]
    assert list(shown(ARENA, OPEN)) == []
    assert list(shown(HUB, GENERAL)) == ["acme/open"]
    assert set(shown(INTERNAL, GENERAL)) == {"acme/best", "acme/open", "acme/tiny"}


def test_of_several_variants_the_lowest_is_shown_and_less_surely():
    for effort in ("low", "high"):
        mean(ARENA, f"best-{effort}", "acme/best", confidence=0.9)
    say(ARENA, {GENERAL: {"best-high": 1500, "a": 1450, "best-low": 1400}})
    publishing.publish(ARENA)
    row = entry(ARENA, GENERAL, "acme/best")
    assert (row.rank, row.elo, row.inputs["name"], row.inputs["identity"]) == (3, 1400, "best-low", 0.7)


def test_of_several_variants_the_one_that_somebody_named_is_shown():
    mean(ARENA, "best-high", "acme/best")
    mean(ARENA, "best-low", "acme/best", confidence=0.9)
    say(ARENA, {GENERAL: {"best-high": 1500, "a": 1450, "best-low": 1400}})
    publishing.publish(ARENA)
    assert shown(ARENA, GENERAL, "rank", "elo") == {"acme/best": (1, 1500)}


@pytest.mark.parametrize(("source", "setting"), [(AA, "RANKINGS_AA_API_KEY"), (OPENROUTER, "RANKINGS_OPENROUTER_API_KEY")])
def test_what_was_said_under_a_key_is_not_shown_without_it(settings, source, setting):
    known_to(source, "best")
    say(source, {GENERAL: {"best": 50}}, crowd=30)
    publishing.publish(source)
    assert list(shown(source, GENERAL)) == ["acme/best"]
    setattr(settings, setting, "")
    publishing.publish(source)
    assert not Entry.objects.filter(source=source).exists()
    heard = [said for said in entry(INTERNAL, GENERAL, "acme/best").inputs["sources"] if said["is_heard"]]
    assert heard == []


# --- INTERNAL -----------------------------------------------------------------------------------------------------


def test_without_any_source_models_are_ranked_by_price_and_nothing_is_believed():
    assert publishing.publish(INTERNAL) == 5 * 3 + 2
    for board in Category:
        rows = shown(INTERNAL, board, "board_rank", "quality", "elo", "confidence", "change")
        closed = {} if board == OPEN else {"acme/best": (3, None, None, 0, 0)}
        assert rows == {"acme/tiny": (1, None, None, 0, 0), "acme/open": (2, None, None, 0, 0)} | closed
    tiny = entry(INTERNAL, GENERAL, "acme/tiny")
    assert (tiny.overall, tiny.cost, tiny.speed) == (pytest.approx((0.7 * 25 + 0.15 * 100) / 0.85), 100, None)
    assert (pool.database_time() - tiny.last_updated) < timedelta(minutes=1)
    assert tiny.inputs["cost"] == {"input_usd": 0.05, "output_usd": 0.1, "blended_usd": 0.0625, "score": 100}
    assert [said["is_applicable"] for said in tiny.inputs["sources"]] == [False] * 3


def test_internal_is_the_formula_over_what_the_sources_said():
    known_to(ARENA, "best", "open")
    known_to(AA, "best")
    known_to(HUB, "open")
    arena = say(ARENA, {GENERAL: {"best": (1500, INTERVAL), "open": (5.5, {})}}, crowd=30, age_hours=336)
    facts = {"tokens_per_second": 296, "first_token_seconds": 0.65}
    say(AA, {GENERAL: {"best": (60, facts)}}, crowd=30, age_hours=1)
    say(HUB, {GENERAL: {"open": (90, {"verified": True})}}, crowd=30)
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
    # The Hub's boards are of open weights: its silence about the closed one is no loss to it, that about the open one would be.
    assert {said["source"]: said["is_applicable"] for said in row.inputs["sources"]} == {ARENA: True, AA: True, HUB: False}
    opened = entry(INTERNAL, GENERAL, "acme/open")
    assert opened.inputs["coverage"] == pytest.approx(0.65)
    assert list(shown(INTERNAL, GENERAL)) == ["acme/best", "acme/open", "acme/tiny"]


def test_the_score_can_be_made_again_from_its_inputs():
    known_to(ARENA, "best")
    known_to(AA, "best")
    say(ARENA, {GENERAL: {"best": (20.5, INTERVAL)}}, crowd=30, age_hours=100)
    say(AA, {GENERAL: {"best": (3.5, {"first_token_seconds": 2})}}, crowd=30)
    publishing.publish(INTERNAL)
    row = entry(INTERNAL, GENERAL, "acme/best")
    told = row.inputs
    heard = [said for said in told["sources"] if said["is_heard"]]
    quality = sum(said["weight"] * said["percentile"] for said in heard) / sum(said["weight"] for said in heard)
    prior = told["prior"]
    believed = (told["coverage"] * quality + prior["weight"] * prior["quality"]) / (told["coverage"] + prior["weight"])
    parts = {"quality": believed, "speed": told["speed"]["score"], "cost": told["cost"]["score"]}
    overall = sum(told["weights"][name] * part for name, part in parts.items()) / sum(told["weights"].values())
    assert (row.quality, row.overall) == (pytest.approx(quality), pytest.approx(overall))
    apart = abs(heard[0]["percentile"] - heard[1]["percentile"]) / 100
    belief = sum(said["weight"] * said["identity"] * said["precision"] * said["freshness"] for said in heard)
    assert row.confidence == pytest.approx(belief / 0.8 * (1 - apart / 2))
    assert told["version"] == "internal-1"


def test_a_board_that_is_too_small_says_nothing():
    known_to(ARENA, "best", "open")
    say(ARENA, {GENERAL: {"best": 1500, "open": 1400}, CODING: {"best": 1500}}, crowd=17)
    publishing.publish(INTERNAL)
    assert entry(INTERNAL, GENERAL, "acme/best").quality is None
    say(ARENA, {GENERAL: {"best": 1500, "open": 1400}, CODING: {"best": 1500}}, crowd=18)
    publishing.publish(INTERNAL)
    assert entry(INTERNAL, GENERAL, "acme/best").quality is not None
    assert entry(INTERNAL, CODING, "acme/best").quality is None


def test_in_a_category_the_boards_of_that_category_count_and_the_rank_stays_the_general_one():
    known_to(ARENA, "best", "open")
    say(ARENA, {GENERAL: {"best": 99, "open": 1.5}, CODING: {"best": 1.5, "open": 99}}, crowd=30)
    publishing.publish(INTERNAL)
    assert shown(INTERNAL, GENERAL, "rank", "board_rank") == {"acme/best": (1, 1), "acme/tiny": (2, 2), "acme/open": (3, 3)}
    assert shown(INTERNAL, CODING, "rank", "board_rank", "elo") == {
        "acme/open": (3, 1, 99),
        "acme/tiny": (2, 2, None),
        "acme/best": (1, 3, 2),
    }
    assert shown(INTERNAL, OPEN, "rank", "board_rank") == {"acme/tiny": (2, 1), "acme/open": (3, 2)}


def test_equals_are_ranked_by_id_and_no_two_share_a_rank():
    for name in ("b", "a", "c"):
        factories.make_model(f"twin/{name}", input="3.00", output="15.00")
    publishing.publish(INTERNAL)
    assert list(shown(INTERNAL, GENERAL)) == ["acme/tiny", "acme/open", "acme/best", "twin/a", "twin/b", "twin/c"]
    assert [rank for (rank,) in shown(INTERNAL, GENERAL, "rank").values()] == [1, 2, 3, 4, 5, 6]


def test_curated_benchmarks_are_shown_with_where_they_stand():
    factories.make_model("openai/gpt-4.1")
    publishing.publish(INTERNAL)
    row = entry(INTERNAL, CODING, "openai/gpt-4.1")
    assert (row.mmlu, row.hellaswag, row.human_eval) == (90.2, None, 94.5)
    assert {figure["benchmark"] for figure in row.inputs["benchmarks"]} == {"mmlu", "human_eval"}
    assert all(figure["source"].startswith("https://") for figure in row.inputs["benchmarks"])


def test_internal_is_computed_anew_when_a_source_is_published():
    publishing.publish(INTERNAL)
    known_to(ARENA, "best")
    say(ARENA, {GENERAL: {"best": 1500}}, crowd=30)
    publishing.publish(ARENA)
    assert entry(INTERNAL, GENERAL, "acme/best").elo == 1500


# --- History ------------------------------------------------------------------------------------------------------


def remember(days_ago, rank, *, board=GENERAL, model_id="acme/best"):
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
    ids=["new", "yesterday only", "the oldest, of a few days", "a week ago", "the last that is a week old"],
)
def test_the_change_is_since_a_week_ago_or_since_the_oldest_day(days, change):
    for days_ago, rank in days.items():
        remember(days_ago, rank)
    remember(7, 50, board=CODING)
    known_to(ARENA, "best")
    say(ARENA, {GENERAL: {"a": 1600, "best": 1500}})
    publishing.publish(ARENA)
    assert shown(ARENA, GENERAL, "rank", "change") == {"acme/best": (2, change)}


def test_of_a_day_the_last_rank_is_kept_once():
    known_to(ARENA, "best")
    for rating in (1700, 1500):
        say(ARENA, {GENERAL: {"a": 1600, "best": rating}})
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


# --- Who must know ------------------------------------------------------------------------------------------------


def test_every_publication_is_counted():
    publishing.publish(INTERNAL)
    [publication] = Publication.objects.all()
    publishing.publish(ARENA)  # and INTERNAL after it
    [again] = Publication.objects.all()
    assert again.number == publication.number + 2
    assert again.changed_at >= publication.changed_at


def test_a_publication_that_fails_changes_nothing_but_the_health_of_internal(settings):
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


def test_a_source_that_said_nothing_is_shown_with_nothing():
    assert publishing.publish(ARENA) == 0
    assert not Entry.objects.filter(source=ARENA).exists()
    assert not Snapshot.objects.exists()
    assert not SourceState.objects.filter(pk=ARENA).exists()  # how it fares is for its refresh to say


def test_more_models_take_no_more_queries():
    def queries():
        with CaptureQueriesContext(connection) as captured:
            publishing.publish(INTERNAL)
        return len(captured)

    few = queries()
    for number in range(20):
        factories.make_model(f"more/{number}")
    assert queries() == few


@pytest.mark.django_db(transaction=True)
def test_two_that_publish_at_once_do_it_one_after_the_other():
    known_to(ARENA, "best", "open")
    say(ARENA, {GENERAL: {"best": 1500, "open": 1400}}, crowd=30)
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
