"""LMSYS_ARENA: five boards of several pages; a run stores all of them or nothing."""

from datetime import UTC, datetime

import pytest

from rankings.models import Snapshot, Source, SourceState
from rankings.refresh import RefreshResult
from tests.rankings.source_server import (
    ARENA,
    HF_TOKEN,
    HUB_DATASET,
    PUBLISHED,
    Reply,
    assert_kept,
    payload,
    refreshed,
    standings,
)

SOURCE = Source.LMSYS_ARENA
pytestmark = pytest.mark.django_db


@pytest.fixture
def known(sources):
    """A good snapshot, and then another revision of the data."""
    assert refreshed(SOURCE).result == RefreshResult.STORED
    sources.revision = "b" * 40
    return sources


def rows_of(category, change):
    """Return a change of the source's replies that applies ``change`` to every row of a category."""

    def on(path, document):
        for item in document.get("rows", []) if path == ARENA else []:
            if item["row"]["category"] == category:
                change(item)
        return document

    return on


def test_every_board_is_read_to_its_last_page(sources):
    outcome = refreshed(SOURCE)
    assert (outcome.result, outcome.standings) == (RefreshResult.STORED, 230 + 4 * 30)
    asked = [asked.query for asked in sources.asked if asked.path == ARENA]
    assert [(query["where"], query["offset"]) for query in asked[:4]] == [
        ("\"category\"='overall'", "0"),
        ("\"category\"='overall'", "100"),
        ("\"category\"='overall'", "200"),
        ("\"category\"='coding'", "0"),
    ]
    assert {query["config"] for query in asked} == {"text_style_control"}
    assert len(asked) == 7
    boards = {standing.board for standing in Snapshot.objects.get().standings.all()}
    assert boards == {"GENERAL", "CODING", "MATH", "REASONING", "CREATIVE"}


def test_row_is_stored_with_the_values_of_the_source(sources):
    refreshed(SOURCE)
    standing = standings(SOURCE)["claude-opus-4-6-thinking"]
    assert (standing.rank, standing.value, standing.organization, standing.key_kind) == (1, 1499.3, "anthropic", "model_name")
    assert standing.facts == {"lower": 1495.0, "upper": 1503.5, "votes": 34186}
    snapshot = Snapshot.objects.get()
    assert snapshot.as_of == datetime.fromisoformat(PUBLISHED).replace(tzinfo=UTC)
    assert "CC BY 4.0" in snapshot.attribution


def test_float_counts_null_bounds_and_unknown_fields_are_accepted(sources):
    def change(item):
        item["row"] |= {"vote_count": 19038.0, "rank": 10.0, "rating_lower": None, "rating_upper": None, "new": {"x": 1}}

    sources.change = rows_of("overall", change)
    refreshed(SOURCE)
    standing = standings(SOURCE)["filler-3"]
    assert (standing.rank, standing.facts) == (10, {"lower": None, "upper": None, "votes": 19038})


def test_documented_sample_is_read_row_by_row(sources):
    sample = [
        {**item["row"], "leaderboard_publish_date": PUBLISHED}
        for item in payload("arena_filter_text_style_control_overall")["rows"]
    ]
    names = {row["model_name"] for row in sample}
    sources.arena["overall"] = [row for row in sources.arena["overall"] if row["model_name"] not in names] + sample
    refreshed(SOURCE)
    read = standings(SOURCE)
    assert {name: (read[name].rank, read[name].value) for name in names} == {
        row["model_name"]: (row["rank"], row["rating"]) for row in sample
    }


def test_only_the_newest_of_several_days_is_read(sources):
    for row in sources.arena["overall"][200:]:
        row["leaderboard_publish_date"] = "2026-11-03"
    said = []
    refreshed(SOURCE, say=said.append)
    assert len(standings(SOURCE)) == 200
    assert "30 rows of overall are of an earlier day" in said


def test_worse_row_of_a_repeated_model_stays(sources):
    sources.arena["overall"].append({**sources.arena["overall"][5], "rating": 1200.0, "rank": 180})
    said = []
    refreshed(SOURCE, say=said.append)
    standing = standings(SOURCE)[sources.arena["overall"][5]["model_name"]]
    assert (standing.value, standing.rank) == (1200.0, 180)
    assert "1 rows repeat a model" in said


def test_unchanged_revision_costs_one_request(sources):
    refreshed(SOURCE)
    before = SourceState.objects.get(pk=SOURCE).last_success_at
    sources.asked.clear()
    assert refreshed(SOURCE).result == RefreshResult.UNCHANGED
    assert [asked.path for asked in sources.asked] == [HUB_DATASET]
    assert Snapshot.objects.count() == 1
    assert SourceState.objects.get(pk=SOURCE).last_success_at > before


def test_new_revision_with_the_same_rows_makes_no_new_snapshot(known):
    assert refreshed(SOURCE).result == RefreshResult.UNCHANGED
    assert Snapshot.objects.count() == 1
    known.asked.clear()
    refreshed(SOURCE)
    assert [asked.path for asked in known.asked] == [HUB_DATASET]


def test_data_older_than_the_newest_revision_is_read_again(sources):
    sources.answer(HUB_DATASET, Reply(body={"sha": "c" * 40}))
    refreshed(SOURCE)
    sources.answer(HUB_DATASET, Reply(body={"sha": "c" * 40}))
    sources.asked.clear()
    refreshed(SOURCE)
    assert sources.times_asked(ARENA) == 7


def test_newest_revision_is_stored_when_the_header_has_none(sources):
    sources.says_revision = False
    refreshed(SOURCE)
    assert refreshed(SOURCE).result == RefreshResult.UNCHANGED
    assert SourceState.objects.get(pk=SOURCE).validators["revision"] == sources.revision


def test_new_rows_make_a_new_snapshot_and_keep_the_old_one(known):
    for row in known.arena["overall"]:
        row["rating"] += 1
    assert refreshed(SOURCE).result == RefreshResult.STORED
    assert Snapshot.objects.count() == 2
    assert standings(SOURCE)["claude-opus-4-6-thinking"].value == 1500.3


def test_token_is_sent_to_both_hosts(sources, settings):
    settings.RANKINGS_HF_TOKEN = HF_TOKEN
    refreshed(SOURCE)
    assert {asked.headers["authorization"] for asked in sources.asked} == {f"Bearer {HF_TOKEN}"}


def test_dataset_that_changes_during_the_run_fails_the_run(known):
    page = {**payload("arena_filter_text_style_control_overall"), "rows": [], "num_rows_total": 0}
    known.answer(ARENA, Reply(body=page, headers={"X-Revision": "c" * 40}))
    assert_kept(SOURCE, refreshed(SOURCE), "changed while it was read")


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("model_name", None, "model_name is missing"),
        ("model_name", "", "model_name is ''"),
        ("model_name", 7, "model_name is 7"),
        ("model_name", "nul\x00", "model_name is"),
        ("rating", None, "rating is missing"),
        ("rating", "1400", "rating is '1400'"),
        ("rating", -1.0, "rating is -1.0"),
        ("rating", 1e9, "rating is 1000000000.0"),
        ("rating", 10**400, "rating is 1000"),
        ("rank", 0, "rank is 0"),
        ("rank", True, "rank is True"),
        ("vote_count", -3, "vote_count is -3"),
        ("category", "coding", "is of another category"),
        ("leaderboard_publish_date", "yesterday", "is not a date"),
    ],
)
def test_implausible_row_fails_the_run(known, field, value, reason):
    rows = 230

    def change(item):
        nonlocal rows
        rows -= 1
        if rows == 0:  # the last row of the last page
            item["row"][field] = value

    known.change = rows_of("overall", change)
    assert_kept(SOURCE, refreshed(SOURCE), reason)


def test_truncated_cells_fail_the_run(known):
    known.change = rows_of("math", lambda item: item.update(truncated_cells=["model_name"]))
    assert_kept(SOURCE, refreshed(SOURCE), "a row of math has truncated cells")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda document: document.pop("rows"), "rows is missing"),
        (lambda document: document.update(rows={}), "rows is {}"),
        (lambda document: document.update(rows=[7]), "an item of rows is 7"),
        (lambda document: document.pop("num_rows_total"), "num_rows_total is missing"),
        (lambda document: document.update(partial=True), "says that it is partial"),
        (lambda document: document.update(rows=document["rows"][:-1]), "creative_writing has 29 rows, and says 30"),
    ],
)
def test_incomplete_page_fails_the_run(known, change, reason):
    def on(path, document):
        if path == ARENA and document["rows"] and document["rows"][0]["row"]["category"] == "creative_writing":
            change(document)
        return document

    known.change = on
    assert_kept(SOURCE, refreshed(SOURCE), reason)


def test_pages_with_different_row_counts_fail_the_run(known):
    totals = iter([230, 231])

    def on(path, document):
        if path == ARENA:
            document["num_rows_total"] = next(totals, 231)
        return document

    known.change = on
    assert_kept(SOURCE, refreshed(SOURCE), "the pages of overall disagree")


def test_category_of_more_than_twenty_pages_fails_the_run(known):
    known.arena["overall"] = known.arena["overall"] * 10
    assert_kept(SOURCE, refreshed(SOURCE), "overall has 2000 rows, and says 2300")
    assert known.times_asked(ARENA) == 7 + 20


@pytest.mark.parametrize("reply", [Reply(404, payload("datasets_server_error_404")), Reply(body=b"{"), Reply(401)])
def test_failure_between_pages_keeps_the_last_snapshot(known, reply):
    known.arena["overall"][0]["rating"] = 1.0  # the first page has news, the second one fails
    real, pages = known.reply, []

    def second_fails(asked):
        pages.append(asked)
        return reply if len([page for page in pages if page.path == ARENA]) == 2 else real(asked)

    known.reply = second_fails
    assert_kept(SOURCE, refreshed(SOURCE), "127.0.0.1/datasets-server/filter")
    assert standings(SOURCE)["claude-opus-4-6-thinking"].value == 1499.3


def test_dataset_that_is_not_ready_is_requested_again(sources):
    not_ready = Reply(500, {"error": "The server is busier than usual"}, {"X-Error-Code": "ResponseNotReady"})
    sources.answer(ARENA, not_ready, not_ready)
    assert refreshed(SOURCE).result == RefreshResult.STORED
    assert sources.times_asked(ARENA) == 9


def test_too_few_rows_fail_the_first_run(sources):
    sources.arena["overall"] = sources.arena["overall"][:149]
    outcome = refreshed(SOURCE)
    assert (outcome.result, outcome.detail) == (RefreshResult.FAILED, "149 rows are fewer than 150")
    assert not Snapshot.objects.exists()


def test_board_that_lost_half_of_its_rows_fails_the_run_unless_accepted(known):
    known.arena["math"] = known.arena["math"][:14]
    assert_kept(SOURCE, refreshed(SOURCE), "MATH has 14 rows, and had 30")
    assert refreshed(SOURCE, accepts_fewer=True).result == RefreshResult.STORED
    assert len(standings(SOURCE, "MATH")) == 14


@pytest.mark.parametrize(
    ("day", "reason"), [("2031-01-01", "which is in the future"), ("2026-10-01", "older than what we have")]
)
def test_implausible_day_fails_the_run(known, day, reason):
    for rows in known.arena.values():
        for row in rows:
            row["leaderboard_publish_date"] = day
    assert_kept(SOURCE, refreshed(SOURCE), f"it is of {day}, {reason}")


def test_board_with_half_of_its_rows_is_stored(known):
    known.arena["math"] = known.arena["math"][:15]
    assert refreshed(SOURCE).result == RefreshResult.STORED
