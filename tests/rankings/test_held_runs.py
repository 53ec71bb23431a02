"""A run that would change too much of what is published is held back, until staff release it or a later run replaces it."""

import pytest
from django.core.management import CommandError, call_command

from completions.models import LanguageModel, RoutableAlias
from gateway_project.activity.models import Activity
from gateway_project.monitoring import collector, facts
from rankings.models import Alias, Entry, Snapshot, Source, SourceState
from rankings.publishing import health
from rankings.refresh import RefreshResult
from tests import factories
from tests.pages.conftest import make_staff, powerless, signed_in, superuser
from tests.rankings import source_server
from tests.rankings.source_server import refreshed

__all__ = ["powerless", "superuser"]
pytestmark = pytest.mark.django_db
ARENA, HUB, AA, OPENROUTER = (
    Source.LMSYS_ARENA,
    Source.HUGGINGFACE,
    Source.ARTIFICIAL_ANALYSIS,
    Source.OPENROUTER,
)
OURS = 10
SNAPSHOTS = "/admin/rankings/snapshot/"


@pytest.fixture
def known(sources, keys):
    """Ten of our models are known to each source by an equal name. ``read_first`` reads those sources that a test is about."""
    for number in range(OURS):
        factories.make_model(f"acme/m{number}", maker="Acme", name=f"M{number}")
        place = 3 + number * 2
        for rows in sources.arena.values():
            rows[place] |= {"model_name": f"m{number}", "organization": "Acme"}
        for rows in sources.boards.values():
            rows[place] |= {"modelId": f"Acme/m{number}"}
        sources.aa[place + 10] |= {"name": f"M{number}", "slug": f"m{number}", "model_creator": {"id": "1", "name": "Acme"}}
        for rows in sources.tokens.values():
            for row in rows:
                if row["model_permaslug"] == f"filler/model-{place}-20260101":
                    row["model_permaslug"] = f"acme/m{number}"
    return sources


def read_first(served, *read):
    for source in read:
        assert refreshed(source).result == RefreshResult.STORED
    served.revision = "b" * 40


def published(source):
    return list(Entry.objects.filter(source=source).order_by("board", "model_id").values_list("board", "model_id", "rank"))


def best():
    return dict(RoutableAlias.objects.filter(pk__startswith="best/").values_list("pk", "model_ids"))


def health_of(source):
    return next(each for each in health.report() if each.source == source)


def lose_organizations(served):
    for rows in served.arena.values():
        for row in rows:
            del row["organization"]


def lose_creators(served):
    for model in served.aa:
        del model["model_creator"]


def rename_makers(served):
    for model in served.aa:
        model["model_creator"] = {"id": "1", "name": "Acme Research"}


def lose_our_names(served, count):
    for row in [row for row in served.arena["coding"] if row["model_name"].startswith("m")][:count]:
        row["model_name"] += "-renamed"


def turn_around(served):
    values = [row["rating"] for row in served.arena["math"]]
    for number, row in enumerate(served.arena["math"]):
        row |= {"rating": values[-1 - number], "rank": len(values) - number}


def shift_ranks(served):
    for row in served.arena["overall"]:
        row["rank"] = 1


def shuffle_indexes(served):
    indexes = [model["evaluations"]["artificial_analysis_intelligence_index"] for model in served.aa]
    for model, value in zip(served.aa, [*indexes[110:], *indexes[:110]], strict=True):
        model["evaluations"]["artificial_analysis_intelligence_index"] = value


def rename_repositories(served):
    for rows in served.boards.values():
        for row in rows:
            row["modelId"] = f"mirror/{row['modelId'].rpartition('/')[2]}"


def rename_slugs(served):
    for row in served.tokens[None]:
        row["model_permaslug"] = row["model_permaslug"].replace("acme/", "acme-inc/")


HELD = [
    (ARENA, lose_organizations, "GENERAL has 0 of our 10 models that it had"),
    (AA, lose_creators, "GENERAL has 0 of our 10 models that it had"),
    (AA, rename_makers, "GENERAL has 0 of our 10 models that it had"),
    (HUB, rename_repositories, "GENERAL has 0 of our 10 models that it had"),
    (OPENROUTER, rename_slugs, "GENERAL has 0 of our 10 models that it had"),
    (ARENA, lambda served: lose_our_names(served, 3), "CODING has 7 of our 10 models that it had"),
    (ARENA, turn_around, "on MATH 6 of our 10 models leap by more than 25% of the board"),
    (ARENA, shift_ranks, "on GENERAL "),
    (AA, shuffle_indexes, "leap by more than 25% of the board"),
]
HELD_IDS = [
    "no column organization",
    "no creators",
    "makers renamed",
    "repositories renamed",
    "slugs renamed",
    "more than a quarter lost on one board",
    "a scale turned around",
    "ranks of one value",
    "values of other rows",
]


def make_arena_leaps_large(served):
    """Ranks of one value leap only where a board is as long as our models are spread over it."""
    for number in range(OURS):
        row = next(row for row in served.arena["overall"] if row["model_name"] == f"m{number}")
        row["rank"] = 20 * number + 10


@pytest.mark.parametrize(("source", "spoil", "reason"), HELD, ids=HELD_IDS)
def test_a_run_that_would_change_too_much_is_held_back(known, source, spoil, reason):
    read_first(known, source)
    if spoil is shift_ranks:
        make_arena_leaps_large(known)
        refreshed(source, accepts_fewer=True)
        known.revision = "c" * 40
    before, first, last_sync = published(source), best(), health_of(source).last_sync_at
    assert before
    spoil(known)
    outcome = refreshed(source)
    assert outcome.result == RefreshResult.HELD
    assert reason in outcome.detail
    assert (published(source), best()) == (before, first)
    refreshed(Source.INTERNAL)  # neither the next computation
    assert (published(source), best()) == (before, first)
    found = health_of(source)
    assert (found.is_healthy, found.reason, found.last_sync_at) == (False, f"held back: {outcome.detail}", last_sync)
    assert "held" not in found.public_reason
    [shown] = [each for each in health.report_for_api() if each["source"] == source]
    assert shown["isHealthy"] is False
    [held] = Snapshot.objects.exclude(held_because="")
    assert (held.source, held.held_because, held.standings.exists()) == (source, outcome.detail, True)


def retire_two(served):
    lose_our_names(served, 2)


def rename_one(served):
    served.aa[13] |= {"name": "M0 (retired)", "slug": "m0-retired"}


def move_by_places(served):
    for row in served.arena["overall"]:
        if row["model_name"].startswith("m"):
            row["rating"] += 5


def let_one_leap(served):
    row = next(row for row in served.arena["math"] if row["model_name"] == "m9")
    row |= {"rating": 1_600.0, "rank": 1}


@pytest.mark.parametrize(
    ("source", "change"),
    [(ARENA, retire_two), (AA, rename_one), (ARENA, move_by_places), (ARENA, let_one_leap)],
    ids=["a fifth lost on one board", "one lost", "all move by some places", "one leaps"],
)
def test_news_of_a_few_models_are_published(known, source, change):
    read_first(known, source)
    change(known)
    assert refreshed(source).result == RefreshResult.STORED
    assert health_of(source).is_healthy
    assert not Snapshot.objects.exclude(held_because="").exists()


def test_a_model_that_left_the_catalog_is_no_loss_of_the_source(known):
    read_first(known, ARENA)
    LanguageModel.objects.filter(pk__in=[f"acme/m{number}" for number in range(5)]).update(maker="Somebody else")
    known.arena["overall"][0]["rating"] += 1
    assert refreshed(ARENA).result == RefreshResult.STORED


def test_a_run_that_is_held_back_again_is_stored_once_and_mapping_stays(known):
    read_first(known, ARENA)
    aliases = list(Alias.objects.order_by("pk").values())
    lose_organizations(known)
    refreshed(ARENA)
    first = Snapshot.objects.exclude(held_because="").get()
    assert refreshed(ARENA).result == RefreshResult.HELD
    assert Snapshot.objects.exclude(held_because="").get() == first
    known.arena["overall"][0]["rating"] += 1
    refreshed(ARENA)
    assert Snapshot.objects.exclude(held_because="").get().pk > first.pk
    assert list(Alias.objects.order_by("pk").values()) == aliases
    assert SourceState.objects.get(pk=ARENA).failures == 3


@pytest.mark.parametrize("has_news", [False, True])
def test_a_source_that_mends_its_data_is_healthy_again(known, has_news):
    read_first(known, ARENA)
    good = [dict(row) for row in known.arena["overall"]]
    lose_organizations(known)
    refreshed(ARENA)
    for rows in known.arena.values():
        for row in rows:
            row["organization"] = "Acme"
    known.arena["overall"] = good
    if has_news:
        known.arena["overall"][0]["rating"] += 1
    outcome = refreshed(ARENA)
    assert outcome.result == RefreshResult.STORED
    assert health_of(ARENA).is_healthy
    assert not Snapshot.objects.exclude(held_because="").exists()


@pytest.mark.parametrize(
    ("version", "result"), [(4.9, RefreshResult.HELD), (5.0, RefreshResult.STORED), (5.1, RefreshResult.STORED)]
)
def test_ranks_may_leap_with_a_new_major_version(known, version, result):
    read_first(known, AA)
    shuffle_indexes(known)
    known.change = lambda path, document: (
        {**document, "intelligence_index_version": version} if path == source_server.AA else document
    )
    assert refreshed(AA).result == result


def test_models_may_not_get_lost_with_a_new_version(known):
    read_first(known, AA)
    lose_creators(known)
    known.change = lambda path, document: (
        {**document, "intelligence_index_version": 5.0} if path == source_server.AA else document
    )
    assert refreshed(AA).result == RefreshResult.HELD


# --- Staff -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def held(known):
    read_first(known, AA)
    lose_creators(known)
    assert refreshed(AA).result == RefreshResult.HELD
    return Snapshot.objects.exclude(held_because="").get()


def release(client, *snapshots):
    data = {"action": "publish_held", "_selected_action": [each.pk for each in snapshots]}
    return client.post(SNAPSHOTS, data, follow=True).content.decode()


def test_a_run_that_is_held_back_is_named_on_the_desk_and_in_the_metrics(held, superuser):
    page = superuser.get("/admin/").content.decode()
    assert "held back: GENERAL has 0 of our 10 models that it had" in page
    assert f"{SNAPSHOTS}?source__exact=ARTIFICIAL_ANALYSIS&amp;held_because__isempty=0" in page
    listed = superuser.get(SNAPSHOTS, {"source__exact": AA, "held_because__isempty": "0"}).content.decode()
    assert "1 snapshot" in listed
    [fact] = [each for each in facts.declared(facts.Fact) if each.name == "gateway_ranking_run_held"]
    [sample] = collector.read(fact).samples
    assert (sample.name, sample.labels, sample.value) == ("gateway_ranking_run_held", {"source": AA}, 1)


@pytest.mark.django_db(transaction=True)
def test_staff_publish_a_run_that_was_held_back(held, superuser):
    assert "Published ARTIFICIAL_ANALYSIS of" in release(superuser, held)
    assert published(AA) == []
    assert health_of(AA).is_healthy
    assert health_of(AA).last_sync_at == held.taken_at
    [act] = Activity.objects.filter(object_type="rankings.snapshot")
    assert (act.act, act.object_id, "GENERAL has 0 of our 10 models" in act.summary) == ("CHANGED", str(held.pk), True)
    assert refreshed(AA).result == RefreshResult.UNCHANGED  # it is what the next run is compared with


def test_only_a_run_that_is_held_back_can_be_published(held, superuser):
    refreshed(ARENA)
    good = Snapshot.objects.get(source=ARENA)
    assert "was not held back" in release(superuser, good)
    assert not Activity.objects.filter(object_type="rankings.snapshot").exists()


def test_publishing_a_held_run_needs_its_permission(held, powerless):
    viewer = signed_in(make_staff("viewer@example.org", ["rankings.view_snapshot"]))
    for client in (powerless, viewer):
        release(client, held)
    held.refresh_from_db()
    assert held.held_because
    assert not Activity.objects.filter(object_type="rankings.snapshot").exists()
    release(signed_in(make_staff("other@example.org", ["rankings.view_snapshot", "rankings.change_snapshot"])), held)
    held.refresh_from_db()
    assert held.held_because == ""


def test_the_command_fails_for_a_run_that_is_held_back_and_can_accept_it(held, capsys):
    with pytest.raises(CommandError, match="Not refreshed: ARTIFICIAL_ANALYSIS: GENERAL has 0 of our 10 models"):
        call_command("refresh_rankings", "ARTIFICIAL_ANALYSIS")
    call_command("refresh_rankings", "ARTIFICIAL_ANALYSIS", "--accept-fewer")
    assert health_of(AA).is_healthy
    assert published(AA) == []
