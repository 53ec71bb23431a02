"""OPENROUTER: off without a key; tokens of seven days are summed by model; its list of models only links names."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from rankings.identity import mapping
from rankings.models import Alias, Profile, Snapshot, Source, SourceState
from rankings.publishing import health
from rankings.refresh import RefreshResult
from tests import factories
from tests.rankings.source_server import (
    OPENROUTER_KEY,
    OPENROUTER_MODELS,
    OPENROUTER_TOKENS,
    Reply,
    assert_kept,
    payload,
    refreshed,
    standings,
)

SOURCE = Source.OPENROUTER
QWEN = "qwen/qwen3.6-27b-20260422"
pytestmark = pytest.mark.django_db


@pytest.fixture
def on(sources, settings):
    settings.RANKINGS_OPENROUTER_API_KEY = OPENROUTER_KEY
    return sources


@pytest.fixture
def known(on):
    assert refreshed(SOURCE).result == RefreshResult.STORED
    return on


def test_source_is_off_without_a_key(sources):
    outcome = refreshed(SOURCE)
    assert (outcome.result, outcome.detail) == (RefreshResult.OFF, "GATEWAY_OPENROUTER_API_KEY is not set")
    assert sources.asked == []


def test_requests_are_for_seven_complete_days_and_two_samples(on):
    refreshed(SOURCE)
    yesterday = datetime.now(UTC).date() - timedelta(days=1)
    window = {"start_date": str(yesterday - timedelta(days=6)), "end_date": str(yesterday)}
    assert [asked.query for asked in on.asked if asked.path == OPENROUTER_TOKENS] == [
        {**window, "period": "day"},
        {**window, "period": "week", "category": "programming"},
        {**window, "period": "week", "category": "roleplay"},
    ]
    assert {asked.headers["authorization"] for asked in on.asked} == {f"Bearer {OPENROUTER_KEY}"}
    assert {standing.board for standing in Snapshot.objects.get().standings.all()} == {"GENERAL", "CODING", "CREATIVE"}


def test_tokens_are_summed_over_days_and_variants_and_ranked(on):
    refreshed(SOURCE)
    found = standings(SOURCE)
    assert (found[QWEN].rank, found[QWEN].facts["tokens"]) == (1, str(7 * 10**12))
    assert (found["openai/gpt-4o-mini"].rank, found["openai/gpt-4o-mini"].facts["tokens"]) == (2, str(63 * 10**11))
    assert len(found) == 49
    assert not {"other", f"{QWEN}:free"} & set(found)


def test_only_samples_are_marked_as_sampled(on):
    refreshed(SOURCE)
    assert standings(SOURCE)[QWEN].facts["is_sampled"] is False
    assert standings(SOURCE, "CODING")[QWEN].facts["is_sampled"] is True


def test_routers_are_left_out_and_aliases_are_resolved(on):
    on.tokens[None] += [
        {"date": "2026-11-20", "model_permaslug": "openrouter/auto", "total_tokens": "1"},
        {"date": "2026-11-20", "model_permaslug": "~anthropic/claude-sonnet-latest", "total_tokens": "2"},
        {"date": "2026-11-20", "model_permaslug": "~nobody/knows", "total_tokens": "4"},
        {"date": "2026-11-20", "model_permaslug": "qwen/qwen3.6-27b", "total_tokens": "8"},
    ]
    refreshed(SOURCE)
    found = standings(SOURCE)
    assert found["anthropic/claude-sonnet-4.6"].value == 2
    assert found[QWEN].facts["tokens"] == str(7 * 10**12 + 8)
    assert not {name for name in found if name.startswith(("~", "openrouter/"))}


def test_list_of_models_links_names_to_repositories_of_the_hub(on):
    refreshed(SOURCE)
    found = standings(SOURCE)
    assert {key: found[QWEN].facts[key] for key in ("id", "hf_repo")} == {
        "id": "qwen/qwen3.6-27b",
        "hf_repo": "Qwen/Qwen3.6-27B",
    }
    assert found["filler/model-3-20260101"].facts["hf_repo"] == ""


@pytest.mark.parametrize(
    ("price", "read"),
    [
        ("0.00000032", "0.32"),
        ("0.0000100", "10"),
        ("0", "0"),
        ("-1", None),
        ("free", None),
        ("NaN", None),
        (None, None),
        (1, None),
    ],
)
def test_prices_are_exact_decimals_and_minus_one_is_none(on, price, read):
    on.openrouter[1]["pricing"] = {"prompt": price, "completion": "0.000001"}
    refreshed(SOURCE)
    facts = standings(SOURCE)[QWEN].facts
    assert (facts["input_usd"], facts["output_usd"]) == (read, "1")


def test_model_without_a_variant_is_used_of_those_with_one_slug(on):
    on.openrouter.insert(0, {**on.openrouter[1], "id": "qwen/qwen3.6-27b:free", "hugging_face_id": None})
    refreshed(SOURCE)
    assert standings(SOURCE)[QWEN].facts["hf_repo"] == "Qwen/Qwen3.6-27B"


def test_list_of_models_without_links_and_with_unknown_fields_is_read(on):
    on.answer(OPENROUTER_MODELS, Reply(body={"data": [{**model, "new": 1} for model in on.openrouter]}))
    assert refreshed(SOURCE).result == RefreshResult.STORED


def test_paged_list_of_models_is_read_to_its_end(on):
    more = {"links": {"next": "/api/v1/models?offset=60&limit=1000"}}
    on.answer(OPENROUTER_MODELS, Reply(body={"data": on.openrouter[:60], **more}), Reply(body={"data": on.openrouter[60:]}))
    assert refreshed(SOURCE).result == RefreshResult.STORED
    assert [asked.query for asked in on.asked if asked.path == OPENROUTER_MODELS] == [{}, {"offset": "60", "limit": "1000"}]


def test_documented_sample_of_tokens_is_read(on):
    sample = payload("openrouter_rankings_daily")
    on.tokens[None] = [*on.tokens[None], *sample["data"]]
    refreshed(SOURCE)
    assert standings(SOURCE)["openai/gpt-4o-2024-05-13"].facts["tokens"] == "12345678"


def test_snapshot_has_date_and_attribution(on):
    refreshed(SOURCE)
    snapshot = Snapshot.objects.get()
    yesterday = datetime.now(UTC).date() - timedelta(days=1)
    assert snapshot.as_of.date() == yesterday
    assert snapshot.attribution == f"Source: OpenRouter (openrouter.ai/rankings), as of {yesterday}."
    assert snapshot.version == "v1"


def test_model_is_matched_by_its_repository(on):
    model = factories.make_model("qwen/other-name", maker="Somebody")
    Profile.objects.create(model=model, open_weights=True, hf_repo="qwen/qwen3.6-27b")
    refreshed(SOURCE)
    alias = Alias.objects.get(source=SOURCE)
    assert (alias.external_key, alias.model, alias.method, alias.confidence) == (QWEN, model, "link", 0.95)


@pytest.mark.parametrize(
    ("path", "document", "reason"),
    [
        (OPENROUTER_TOKENS, {"data": []}, "meta is missing"),
        (OPENROUTER_TOKENS, {"data": [], "meta": {}}, "as_of is missing"),
        (OPENROUTER_TOKENS, {"data": {}, "meta": {"as_of": "2026-11-20T00:00:00Z"}}, "data is {}"),
        (OPENROUTER_TOKENS, {"data": [], "meta": {"as_of": "soon"}}, "as_of is not a time"),
        (OPENROUTER_MODELS, {"data": [{"canonical_slug": "a/b"}] * 100}, "id is missing"),
        (OPENROUTER_MODELS, {"data": [{"id": "a/b"}] * 100}, "canonical_slug is missing"),
        (OPENROUTER_MODELS, {"data": [{"id": "a/b", "canonical_slug": "a/b"}] * 99}, "99 models are fewer than 100"),
        (OPENROUTER_MODELS, {"data": [], "links": {"next": "/more"}}, "is empty, but not the last one"),
        (OPENROUTER_MODELS, [], "the models is []"),
    ],
)
def test_implausible_document_fails_the_run(known, path, document, reason):
    known.answer(path, Reply(body=document))
    assert_kept(SOURCE, refreshed(SOURCE), reason)


TODAY = datetime.now(UTC).date()
BAD_ROWS: list[dict[str, Any]] = [
    *({"total_tokens": tokens} for tokens in (12, 1.5, None, "", "0", "000", "-5", "1e9", "1" * 40, "٣", ["1"], True)),
    *({"date": day} for day in (str(TODAY), str(TODAY + timedelta(days=400)), "yesterday", "2026-13-01", "", None, 20261120)),
    *({"model_permaslug": name} for name in (7, "", "  ", None, "x" * 301, "nul\x00", "\ud83d", ["a/b"])),
]
BAD_IDS = [f"{name} {value!r:.20}" for row in BAD_ROWS for name, value in row.items()]


@pytest.mark.parametrize("bad", BAD_ROWS, ids=BAD_IDS)
def test_a_bad_row_is_left_out_and_counted(known, bad):
    [name] = bad
    known.tokens["programming"][3] |= {"model_permaslug": "filler/model-0-20260101", **bad}
    said = []
    outcome = refreshed(SOURCE, say=said.append)
    assert outcome.result == RefreshResult.STORED
    rows = len(known.tokens["programming"])
    [note] = Snapshot.objects.latest("id").notes.splitlines()
    assert note.startswith(f"1 of {rows} rows of programming are left out, the first because {name} is ")
    assert note in said
    assert standings(SOURCE, "CODING")["filler/model-0-20260101"].value == 6 * 10**9
    assert standings(SOURCE)["filler/model-0-20260101"].value == 7 * 10**9


@pytest.mark.parametrize("item", [7, None, "row", []])
def test_what_is_no_row_is_left_out_and_counted(known, item):
    known.tokens["programming"][3] = item
    assert refreshed(SOURCE).result == RefreshResult.STORED
    assert "because an item of data is" in Snapshot.objects.latest("id").notes


@pytest.mark.parametrize("bad", [{"total_tokens": "0"}, {"total_tokens": 12}, {"date": str(TODAY)}, {"date": "soon"}])
@pytest.mark.parametrize("category", [None, "programming"])
def test_too_many_bad_rows_hold_the_run_back(known, bad, category):
    for row in known.tokens[category]:
        row |= bad
    before = Snapshot.objects.get()
    outcome = refreshed(SOURCE)
    assert outcome.result == RefreshResult.HELD
    assert f"rows of {category or 'everything'} are left out, the first because {next(iter(bad))} is " in outcome.detail
    assert mapping.latest_snapshot(SOURCE) == before
    [report] = [each for each in health.report() if each.source == SOURCE]
    assert report.reason == f"held back: {outcome.detail}"


@pytest.mark.parametrize(("share", "result"), [(0.1, RefreshResult.STORED), (0.11, RefreshResult.HELD)])
def test_a_tenth_of_the_rows_may_be_bad(known, share, result):
    rows = known.tokens[None]
    for row in rows[: int(share * len(rows))]:
        row["total_tokens"] = "0"
    assert refreshed(SOURCE).result == result


def test_a_first_run_of_zeros_is_held_back(on):
    for row in on.tokens[None]:
        row["total_tokens"] = "0"
    assert refreshed(SOURCE).result == RefreshResult.HELD
    assert mapping.latest_snapshot(SOURCE) is None


@pytest.mark.parametrize("status", [401, 403, 404, 410])
def test_a_refused_sample_stops_alone(known, status):
    for row in known.tokens[None]:
        row["total_tokens"] = str(int(row["total_tokens"]) + 1)
    known.answer(OPENROUTER_TOKENS, *[_reply(known, None), Reply(status)])
    before = {key: row.value for key, row in standings(SOURCE, "CODING").items()}
    assert refreshed(SOURCE).result == RefreshResult.STORED
    assert {key: row.value for key, row in standings(SOURCE, "CODING").items()} == before
    state = SourceState.objects.get(pk=SOURCE)
    assert (state.is_refused, state.failures) == (False, 0)
    assert state.error.startswith("CODING stays as it was: ")


def _reply(served, category):
    yesterday = f"{TODAY - timedelta(days=1)}T23:59:00Z"
    return Reply(body={"data": served.tokens[category], "meta": {"as_of": yesterday, "version": "v1"}})


def test_endless_pages_of_models_fail_the_run(known):
    endless = {"data": known.openrouter[:5], "links": {"next": "/more"}}
    known.answer(OPENROUTER_MODELS, *[Reply(body=endless)] * 30)
    asked = known.times_asked(OPENROUTER_MODELS)
    assert_kept(SOURCE, refreshed(SOURCE), "more than 20 pages of models")
    assert known.times_asked(OPENROUTER_MODELS) == asked + 20


def test_ranking_that_lost_half_of_its_rows_fails_the_run(known):
    known.tokens["roleplay"] = known.tokens["roleplay"][:3]
    assert_kept(SOURCE, refreshed(SOURCE), "CREATIVE has 2 rows, and had 29")


def test_rate_limit_postpones_the_next_run(known):
    known.answer(OPENROUTER_TOKENS, Reply(429, payload("openrouter_error_429"), {"Retry-After": "70000"}))
    assert_kept(SOURCE, refreshed(SOURCE), "answered 429: not before 70000 s")
    state = SourceState.objects.get(pk=SOURCE)
    assert 69_900 < (state.next_attempt_at - datetime.now(UTC)).total_seconds() <= 70_000
    assert not state.is_refused
