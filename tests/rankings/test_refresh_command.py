"""manage.py refresh_rankings: its progress, its output, and when its exit status is 1."""

import io
import json

import pytest
from django.core.management import CommandError, call_command

from rankings.models import Snapshot, Source, SourceState
from tests import factories
from tests.rankings.source_server import AA, AA_KEY, HUB_DATASET, Reply

pytestmark = pytest.mark.django_db


def run(*arguments):
    """Return the output and the progress."""
    printed, progress = io.StringIO(), io.StringIO()
    call_command("refresh_rankings", *arguments, stdout=printed, stderr=progress)
    return printed.getvalue(), progress.getvalue().splitlines()


def fail(*arguments):
    printed = io.StringIO()
    with pytest.raises(CommandError) as error:
        call_command("refresh_rankings", *arguments, stdout=printed, stderr=io.StringIO())
    return str(error.value), printed.getvalue()


def test_progress_is_reported_page_by_page(sources):
    factories.make_model("anthropic/claude-opus-4-6-thinking", maker="Anthropic")
    printed, progress = run("LMSYS_ARENA")
    assert printed == "LMSYS_ARENA: 350 standings, of which 1 models are ours.\n"
    assert progress[:4] == [
        "LMSYS_ARENA: overall: 100 of 230 rows",
        "LMSYS_ARENA: overall: 200 of 230 rows",
        "LMSYS_ARENA: overall: 230 of 230 rows",
        "LMSYS_ARENA: coding: 30 of 30 rows",
    ]
    assert list(Snapshot.objects.values_list("source", flat=True)) == ["LMSYS_ARENA"]


def test_all_sources_that_are_on_are_refreshed_and_internal_last(sources, settings):
    settings.RANKINGS_AA_API_KEY = AA_KEY
    printed, _ = run()
    assert [line.split(":")[0] for line in printed.splitlines()] == [
        "LMSYS_ARENA",
        "HUGGINGFACE",
        "ARTIFICIAL_ANALYSIS",
        "OPENROUTER",
        "INTERNAL",
    ]
    assert "OPENROUTER: off (GATEWAY_OPENROUTER_API_KEY is not set)." in printed
    assert set(SourceState.objects.exclude(last_success_at=None).values_list("pk", flat=True)) == {
        "LMSYS_ARENA",
        "HUGGINGFACE",
        "ARTIFICIAL_ANALYSIS",
        "INTERNAL",
    }


def test_json_output_is_one_object(sources):
    printed, _ = run("lmsys_arena", "--json")
    assert json.loads(printed) == {
        "sources": [{"source": "LMSYS_ARENA", "result": "stored", "detail": "", "standings": 350, "models": 0}]
    }


def test_unchanged_source_is_reported(sources):
    run("HUGGINGFACE")
    assert run("HUGGINGFACE")[0] == "HUGGINGFACE: unchanged.\n"


def test_failed_source_does_not_stop_the_others_and_fails_the_command(sources):
    sources.answer(HUB_DATASET, Reply(404))
    error, printed = fail()
    assert error == ("Not refreshed: LMSYS_ARENA: 127.0.0.1/hub/api/datasets/lmarena-ai/leaderboard-dataset answered 404")
    assert "HUGGINGFACE: 240 standings" in printed
    assert "INTERNAL: stored." in printed


def test_named_source_that_is_off_fails_the_command(sources):
    error, printed = fail("ARTIFICIAL_ANALYSIS")
    assert error == "Not refreshed: ARTIFICIAL_ANALYSIS: GATEWAY_AA_API_KEY is not set"
    assert sources.asked == []


def test_an_unknown_source_is_an_error_that_names_the_argument(sources):
    error, _ = fail("MINE")
    assert error == ("SOURCE: 'MINE' is not one of INTERNAL, LMSYS_ARENA, HUGGINGFACE, ARTIFICIAL_ANALYSIS, OPENROUTER.")


def test_option_accepts_a_list_that_shrank(sources, settings):
    settings.RANKINGS_AA_API_KEY = AA_KEY
    sources.aa = sources.aa + [{**model, "id": f"again-{model['id']}"} for model in sources.aa]
    run("ARTIFICIAL_ANALYSIS")
    sources.aa = sources.aa[:150]
    error, _ = fail("ARTIFICIAL_ANALYSIS")
    assert "GENERAL has 149 rows, and had 418" in error
    run("ARTIFICIAL_ANALYSIS", "--accept-fewer")
    assert Snapshot.objects.latest("id").standings.filter(board="GENERAL").count() == 149


def test_internal_makes_no_request(sources):
    factories.make_model("openai/gpt-5")
    assert run("INTERNAL") == ("INTERNAL: stored.\n", [])
    assert sources.asked == []


def test_no_key_is_printed(sources, settings):
    settings.RANKINGS_AA_API_KEY = AA_KEY
    sources.answer(AA, Reply(403, {"error": AA_KEY}))
    error, printed = fail("ARTIFICIAL_ANALYSIS")
    assert "answered 403" in error
    assert AA_KEY not in error + printed + SourceState.objects.get(pk=Source.ARTIFICIAL_ANALYSIS).error
