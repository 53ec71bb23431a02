"""ARTIFICIAL_ANALYSIS: off without a key; consistent pages; a row for each effort; missing measurements are None."""

import pytest

from rankings.models import Snapshot, Source, SourceState
from rankings.refresh import RefreshResult
from tests.rankings.source_server import AA, AA_KEY, Reply, assert_kept, payload, refreshed, standings

SOURCE = Source.ARTIFICIAL_ANALYSIS
pytestmark = pytest.mark.django_db


@pytest.fixture
def on(sources, settings):
    settings.RANKINGS_AA_API_KEY = AA_KEY
    return sources


@pytest.fixture
def known(on):
    assert refreshed(SOURCE).result == RefreshResult.STORED
    return on


def test_source_is_off_without_a_key(sources):
    outcome = refreshed(SOURCE)
    assert (outcome.result, outcome.detail) == (RefreshResult.OFF, "GATEWAY_AA_API_KEY is not set")
    assert sources.asked == []
    assert not Snapshot.objects.exists()


def test_every_page_is_read_with_the_key(on):
    assert refreshed(SOURCE).result == RefreshResult.STORED
    assert [asked.query for asked in on.asked] == [{"page": "1"}, {"page": "2"}, {"page": "3"}]
    assert {asked.headers["x-api-key"] for asked in on.asked} == {AA_KEY}
    assert len(standings(SOURCE)) == 209  # one of 210 has no index
    assert Snapshot.objects.get().version == "4.3"


def test_the_documented_sample_is_read(on):
    refreshed(SOURCE)
    standing = standings(SOURCE)["2dad8957-4c16-4e74-bf2d-8b21514e0ae9"]
    assert (standing.name, standing.organization, standing.value, standing.rank) == (
        "Example Large 2 (high)",
        "Example Lab",
        62.9,
        1,
    )
    assert standing.facts == {
        "slug": "example-large-2",
        "tokens_per_second": 153.8,
        "first_token_seconds": 14.9,
        "input_usd": 1.1,
        "output_usd": 4.4,
    }
    assert standings(SOURCE, "CODING")["2dad8957-4c16-4e74-bf2d-8b21514e0ae9"].value == 55.8


def test_model_without_an_index_is_not_on_its_board(on):
    refreshed(SOURCE)
    assert "3dad8957-4c16-4e74-bf2d-8b21514e0ae9" in standings(SOURCE)
    assert "3dad8957-4c16-4e74-bf2d-8b21514e0ae9" not in standings(SOURCE, "CODING")
    assert "5dad8957-4c16-4e74-bf2d-8b21514e0ae9" not in standings(SOURCE)


def test_equal_indexes_share_a_rank_and_the_next_rank_is_skipped(on):
    for model in on.aa[4:7]:
        model["evaluations"]["artificial_analysis_intelligence_index"] = 99.0
    refreshed(SOURCE)
    ranks = {model["id"]: standings(SOURCE)[model["id"]].rank for model in [*on.aa[4:7], on.aa[0]]}
    assert list(ranks.values()) == [1, 1, 1, 4]


def test_missing_speeds_and_prices_are_none(on):
    for model, change in zip(
        on.aa[4:8],
        [
            {"pricing": None, "performance": None, "model_creator": None},
            {"performance": {"median_output_tokens_per_second": 0, "median_time_to_first_token_seconds": None}},
            {"pricing": {"price_1m_input_tokens": -1, "price_1m_output_tokens": 0}},
            {"evaluations": None},
        ],
        strict=True,
    ):
        model |= change
    refreshed(SOURCE)
    found = standings(SOURCE)
    bare, still, priced = (found[model["id"]] for model in on.aa[4:7])
    unknown = dict.fromkeys(["tokens_per_second", "first_token_seconds", "input_usd", "output_usd"])
    assert (bare.organization, bare.facts) == ("", {"slug": bare.facts["slug"], **unknown})
    assert (still.facts["tokens_per_second"], still.facts["first_token_seconds"]) == (None, None)
    assert (priced.facts["input_usd"], priced.facts["output_usd"]) == (None, 0)
    assert on.aa[7]["id"] not in found


def test_repeated_slugs_and_unknown_fields_are_accepted(on):
    for model in on.aa:
        model |= {"slug": "the-same", "gdpval_aa_elo": 1400}
    assert refreshed(SOURCE).result == RefreshResult.STORED
    assert len(standings(SOURCE)) == 209


def test_unchanged_body_makes_no_new_snapshot(known):
    first = Snapshot.objects.get()
    assert refreshed(SOURCE).result == RefreshResult.UNCHANGED
    assert Snapshot.objects.get() == first


def test_unchanged_pages_are_answered_without_a_body(on):
    on.gives_validators = True
    refreshed(SOURCE)
    on.asked.clear()
    assert refreshed(SOURCE).result == RefreshResult.UNCHANGED
    assert [asked.query["page"] for asked in on.asked] == ["1", "2", "3"]
    assert all("if-none-match" in asked.headers for asked in on.asked)


def test_row_repeated_without_a_change_is_accepted(on):
    on.aa.append(on.aa[5])
    refreshed(SOURCE)
    assert len(standings(SOURCE)) == 209


def on_page(number, change):
    def changed(path, document):
        if document.get("pagination", {}).get("page") == number:
            change(document)
        return document

    return changed


@pytest.mark.parametrize(
    ("page", "change", "reason"),
    [
        (2, lambda page: page.update(intelligence_index_version=4.4), "page 2 does not fit the pages before it"),
        (2, lambda page: page["pagination"].update(total_pages=4), "page 2 does not fit the pages before it"),
        (2, lambda page: page["pagination"].update(page=1), "page 2 does not fit the pages before it"),
        (3, lambda page: page["pagination"].update(has_more=True), "page 3 of 3 says has_more True"),
        (1, lambda page: page["pagination"].update(has_more=False), "page 1 of 3 says has_more False"),
        (1, lambda page: page["pagination"].update(has_more="yes"), "says has_more 'yes'"),
        (1, lambda page: page["pagination"].update(total_pages=21), "total_pages is 21"),
        (1, lambda page: page["pagination"].pop("total_pages"), "total_pages is missing"),
        (1, lambda page: page.pop("pagination"), "pagination is missing"),
        (1, lambda page: page.update(status=200, data={}), "data is {}"),
        (2, lambda page: page["data"].append({**page["data"][0], "name": "Other"}), "page 2 repeats a model"),
        (2, lambda page: page["data"][0].pop("id"), "id is missing"),
        (2, lambda page: page["data"][0].update(name=None), "name is missing"),
        (2, lambda page: page["data"][0].update(pricing=[7]), "pricing is [7]"),
        (2, lambda page: page["data"][0].update(evaluations=7), "evaluations is 7"),
        (2, lambda page: page["data"][0]["evaluations"].update(artificial_analysis_intelligence_index=101), "index is 101"),
        (2, lambda page: page["data"][0]["evaluations"].update(artificial_analysis_coding_index="9"), "index is '9'"),
    ],
)
def test_implausible_page_fails_the_run(known, page, change, reason):
    known.change = on_page(page, change)
    assert_kept(SOURCE, refreshed(SOURCE), reason)


def test_list_that_lost_half_of_its_rows_fails_the_run(known):
    known.aa = known.aa[:104]
    assert_kept(SOURCE, refreshed(SOURCE), "GENERAL has 103 rows, and had 209")


def test_too_few_rows_fail_the_first_run(on):
    on.aa = on.aa[:100]
    assert refreshed(SOURCE).detail == "99 rows are fewer than 100"


@pytest.mark.parametrize("status", [401, 403])
def test_refused_key_is_not_tried_again_before_it_changes(known, settings, status):
    known.answer(AA, Reply(status, payload("aa_error")))
    assert_kept(SOURCE, refreshed(SOURCE), f"127.0.0.1/aa/language/models/free answered {status}")
    state = SourceState.objects.get(pk=SOURCE)
    assert state.is_refused
    assert AA_KEY not in f"{state.error}{state.validators}"


def test_run_ends_when_few_requests_of_the_day_are_left(known):
    real = known.reply
    known.reply = lambda asked: Reply(200, real(asked).body, {"X-RateLimit-Remaining": "10", "X-RateLimit-Reset": "1795500000"})
    known.asked.clear()
    assert_kept(SOURCE, refreshed(SOURCE), "10 requests are left of today's")
    assert len(known.asked) == 1
    assert SourceState.objects.get(pk=SOURCE).next_attempt_at.timestamp() == 1_795_500_000


def test_last_page_may_use_the_last_request(on):
    on.aa, on.aa_page_size = on.aa[:150], 150
    real = on.reply
    on.reply = lambda asked: Reply(200, real(asked).body, {"X-RateLimit-Remaining": "0"})
    assert refreshed(SOURCE).result == RefreshResult.STORED


def test_failure_between_pages_keeps_the_last_snapshot(known):
    real = known.reply
    known.aa[0]["evaluations"]["artificial_analysis_intelligence_index"] = 1.0
    known.reply = lambda asked: Reply(400, payload("aa_error")) if asked.query["page"] == "3" else real(asked)
    assert_kept(SOURCE, refreshed(SOURCE), "answered 400")
    assert standings(SOURCE)["2dad8957-4c16-4e74-bf2d-8b21514e0ae9"].value == 62.9
