"""The rankings in the admin: one click maps a name; sources are refreshed by Celery, not in the request."""

import re
import threading
from datetime import UTC, date, datetime

import pytest

from gateway_project.activity.models import Activity
from rankings.identity import mapping
from rankings.models import Alias, DailyRank, Entry, Profile, Publication, Snapshot, Source, SourceState, Standing
from tests import factories
from tests.pages.conftest import make_staff, powerless, signed_in, superuser
from tests.rankings import snapshots
from tests.rankings.source_server import HUB_DATASET, Reply, refreshed

__all__ = ["powerless", "superuser"]
pytestmark = pytest.mark.django_db
QUEUE, ALIASES = "/admin/rankings/alias/queue/", "/admin/rankings/alias/"


@pytest.fixture
def opus(db):
    return factories.make_model("anthropic/claude-opus-4-6", name="Claude Opus 4.6", maker="Anthropic")


@pytest.fixture
def snapshot(opus):
    """A snapshot of twenty names, of which one is ours in an effort."""
    values = {"claude-opus-4-6-thinking": 1499.0} | {f"other-{number}": 1400.0 - number for number in range(19)}
    made = snapshots.make_snapshot(Source.LMSYS_ARENA, {"GENERAL": values})
    made.standings.filter(external_key__startswith="claude").update(organization="anthropic")
    return made


def decision(name="claude-opus-4-6-thinking", **chosen):
    return {"source": "LMSYS_ARENA", "key_kind": "model_name", "external_key": name, **chosen}


def text(reply):
    assert reply.status_code == 200
    return " ".join(re.sub(r"<[^>]+>", " ", reply.content.decode()).split())


def post(client, data, path=QUEUE):
    return text(client.post(path, data, follow=True))


# --- The queue -------------------------------------------------------------------------------------------------------


def test_queue_shows_unmapped_names_with_suggestions(superuser, snapshot, opus):
    page = superuser.get(QUEUE).content.decode()
    assert "20 names." in page
    rows = page.partition('id="result_list"')[2].split("<tr>")[2:]
    assert "claude-opus-4-6-thinking" in rows[0]  # with a suggestion, so first
    assert f'name="model" value="{opus.pk}"' in rows[0]
    assert 'name="model" value=' not in rows[1]


def test_one_click_maps_a_name_to_the_suggested_model_and_publishes_it(superuser, snapshot, opus):
    assert "“claude-opus-4-6-thinking” means anthropic/claude-opus-4-6." in post(superuser, decision(model=opus.pk))
    [alias] = Alias.objects.all()
    assert (alias.model, alias.method, alias.confidence) == (opus, "staff", 1.0)
    assert Activity.objects.get().object_id == str(alias.pk)
    assert "19 names." in superuser.get(QUEUE).content.decode()


@pytest.mark.django_db(transaction=True)
def test_mapping_is_published_after_commit(superuser, snapshot, opus):
    assert not Entry.objects.exists()
    post(superuser, decision(model=opus.pk))
    entry = Entry.objects.get(source=Source.LMSYS_ARENA, board="GENERAL")
    assert (entry.model, entry.elo, entry.confidence > 0) == (opus, 1499, True)


def test_one_click_maps_a_name_to_none_of_ours(superuser, snapshot):
    assert "“other-3” means none of ours." in post(superuser, decision("other-3", is_none_of_ours="1"))
    [alias] = Alias.objects.all()
    assert (alias.external_key, alias.model, alias.method) == ("other-3", None, "staff")
    assert mapping.chosen_standings(snapshot) == {}
    assert "19 names." in superuser.get(QUEUE).content.decode()


def test_second_click_changes_the_alias(superuser, snapshot, opus):
    post(superuser, decision(is_none_of_ours="1"))
    post(superuser, decision(model=opus.pk))
    assert list(Alias.objects.values_list("model", flat=True)) == [opus.pk]


def test_the_filters_of_the_queue_stay_after_a_click(superuser, snapshot):
    path = f"{QUEUE}?source=LMSYS_ARENA&q=other-1"
    assert "10 names." in superuser.get(path).content.decode()
    assert superuser.post(path, decision("other-3", is_none_of_ours="1")).headers["Location"] == path


def test_the_queue_has_pages(superuser, snapshot):
    row = snapshot.standings.first()
    Standing.objects.bulk_create(
        Standing(
            snapshot=snapshot,
            board="GENERAL",
            external_key=f"more-{number}",
            key_kind=row.key_kind,
            name="more",
            rank=100 + number,
            value=1,
        )
        for number in range(60)
    )
    page = superuser.get(QUEUE, {"p": "2"}).content.decode()
    assert page.count('class="button" name="is_none_of_ours"') == 30
    assert "page 2 of 2" in page


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (decision(), "Choose a model or select “none of ours”."),
        (decision(model="anthropic/absent"), "Select a valid choice."),
        (decision("not-listed", is_none_of_ours="1"), "The source no longer lists this name."),
        (decision(is_none_of_ours="1") | {"source": "INTERNAL"}, "INTERNAL is not one of the available choices."),
        (decision(is_none_of_ours="1") | {"key_kind": "aa_id"}, "The source no longer lists this name."),
        ({}, "This field is required."),
    ],
)
def test_invalid_click_changes_nothing(superuser, snapshot, data, complaint):
    assert complaint in post(superuser, data)
    assert not Alias.objects.exists()
    assert not Activity.objects.exists()


def test_names_are_escaped(superuser, snapshot):
    snapshot.standings.filter(external_key="other-0").update(name="<script>alert(1)</script>")
    page = superuser.get(QUEUE).content.decode()
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page


def test_an_unknown_source_is_not_found(superuser, snapshot):
    assert superuser.get(QUEUE, {"source": "MINE"}).status_code == 404


def test_queue_is_refused_without_the_permission_to_add_aliases(powerless, snapshot, opus):
    assert powerless.get(QUEUE).status_code == 403
    assert powerless.post(QUEUE, decision(model=opus.pk)).status_code == 403
    viewer = signed_in(make_staff("viewer@example.org", ["rankings.view_alias"]))
    assert viewer.get(ALIASES).status_code == 200
    assert viewer.post(QUEUE, decision(model=opus.pk)).status_code == 403
    assert not Alias.objects.exists()


def test_permission_to_add_aliases_opens_the_queue(snapshot, opus):
    staff = signed_in(make_staff("mapper@example.org", ["rankings.add_alias", "rankings.view_alias"]))
    assert "Names without a model" in text(staff.get(ALIASES))
    post(staff, decision(model=opus.pk))
    assert Alias.objects.get().model == opus


# --- Aliases ---------------------------------------------------------------------------------------------------------


def test_alias_changed_by_staff_gets_their_method(superuser, snapshot, opus):
    alias = snapshots.make_alias(Source.LMSYS_ARENA, "claude-opus-4-6-thinking", opus.pk, confidence=0.9)
    assert alias.method == "rule"
    superuser.post(f"{ALIASES}{alias.pk}/change/", {"model": opus.pk, "note": "looked at it"})
    alias.refresh_from_db()
    assert (alias.method, alias.confidence, alias.note) == ("staff", 1.0, "looked at it")


def test_alias_may_be_added_before_the_source_lists_the_name(superuser, opus):
    superuser.post(f"{ALIASES}add/", decision("claude-opus-4-6-20260101", model=opus.pk, note=""))
    assert Alias.objects.get().method == "staff"


def test_only_profiles_outside_the_file_can_be_changed(superuser, opus):
    curated = factories.make_model("openai/gpt-oss-120b", maker="OpenAI")
    mapping.load_curated()
    Profile.objects.create(model=opus)
    superuser.post(f"/admin/rankings/profile/{opus.pk.replace('/', '_2F').replace('.', '_2E')}/change/", {"effort": "high"})
    address = f"/admin/rankings/profile/{curated.pk.replace('/', '_2F')}/change/"
    assert superuser.post(address, {"effort": "high"}).status_code == 403
    assert dict(Profile.objects.values_list("pk", "effort")) == {opus.pk: "high", curated.pk: "medium"}


# --- Sources ---------------------------------------------------------------------------------------------------------


def refresh_now(client, *sources):
    return post(client, {"action": "refresh_now", "_selected_action": sources}, "/admin/rankings/sourcestate/")


def test_source_states_show_health(superuser, sources):
    refreshed(Source.LMSYS_ARENA)
    sources.answer(HUB_DATASET, Reply(403))
    refreshed(Source.LMSYS_ARENA)
    refreshed(Source.INTERNAL)
    page = text(superuser.get("/admin/rankings/sourcestate/"))
    assert "refused: 127.0.0.1/hub/api/datasets/lmarena-ai/leaderboard-dataset answered 403" in page
    assert "off: GATEWAY_AA_API_KEY is not set" in page
    assert "healthy" in page


@pytest.mark.django_db(transaction=True)
def test_refresh_now_does_not_keep_the_page_waiting(superuser, sources):
    SourceState.objects.create(source=Source.LMSYS_ARENA)
    hold = threading.Event()
    sources.answer(HUB_DATASET, Reply(body={"sha": sources.revision}, hold=hold))
    page = refresh_now(superuser, "LMSYS_ARENA")
    assert "LMSYS_ARENA is being refreshed." in page
    assert not Snapshot.objects.exists()
    hold.set()
    [run] = [thread for thread in threading.enumerate() if thread.name == "refresh LMSYS_ARENA"]
    run.join(60)
    assert Snapshot.objects.get().source == Source.LMSYS_ARENA


def test_refresh_now_of_a_source_that_is_off_names_the_reason(superuser, sources):
    SourceState.objects.create(source=Source.OPENROUTER)
    assert "OPENROUTER is off: GATEWAY_OPENROUTER_API_KEY is not set." in refresh_now(superuser, "OPENROUTER")
    assert sources.asked == []


def test_refresh_now_needs_the_permission_to_change(sources):
    SourceState.objects.create(source=Source.HUGGINGFACE)
    viewer = signed_in(make_staff("viewer@example.org", ["rankings.view_sourcestate"]))
    assert "Refresh now" not in text(viewer.get("/admin/rankings/sourcestate/"))
    refresh_now(viewer, "HUGGINGFACE")
    assert sources.asked == []


@pytest.mark.parametrize("model", ["snapshot", "standing", "sourcestate"])
def test_snapshots_and_standings_are_read_only(superuser, snapshot, model):
    assert superuser.get(f"/admin/rankings/{model}/").status_code == 200
    assert superuser.get(f"/admin/rankings/{model}/add/").status_code == 403
    if model == "snapshot":
        assert superuser.get(f"/admin/rankings/snapshot/{snapshot.pk}/change/").status_code == 200
        assert superuser.post(f"/admin/rankings/snapshot/{snapshot.pk}/delete/", {"post": "yes"}).status_code == 403
        assert Snapshot.objects.exists()


def test_a_snapshot_leads_to_its_standings(superuser, snapshot):
    address = f"/admin/rankings/standing/?snapshot__id__exact={snapshot.pk}"
    assert address in superuser.get("/admin/rankings/snapshot/").content.decode()
    assert "20 standings" in text(superuser.get(address))


@pytest.mark.parametrize(("table", "shown"), [("entry", "73.5"), ("dailyrank", "73.5"), ("publication", "41")])
def test_published_rows_are_read_only(superuser, opus, table, shown):
    board = {"source": Source.INTERNAL, "board": "GENERAL", "model": opus, "rank": 7, "overall": 73.5}
    rows = {
        "entry": Entry(**board, board_rank=7, confidence=0.5, last_updated=datetime(2026, 11, 20, tzinfo=UTC)),
        "dailyrank": DailyRank(**board, day=date(2026, 11, 20)),
        "publication": Publication(number=41),
    }
    row = rows[table]
    row.save()
    assert shown in text(superuser.get(f"/admin/rankings/{table}/"))
    page = f"/admin/rankings/{table}/{row.pk}/change/"
    assert shown in text(superuser.get(page))
    assert superuser.post(page, {"number": 1, "overall": 1}).status_code == 403
    assert superuser.get(f"/admin/rankings/{table}/add/").status_code == 403
    assert superuser.post(f"/admin/rankings/{table}/{row.pk}/delete/", {"post": "yes"}).status_code == 403
    assert shown in str(type(row)._default_manager.values().get())
