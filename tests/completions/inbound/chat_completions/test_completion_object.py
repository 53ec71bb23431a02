"""GET /v1/completions/{completion_id}: what happened to a completion, for the keys of its account."""

import json
import re
from datetime import datetime, timedelta
from decimal import Decimal

import pytest
from django.db import connection
from django.db.models.functions import Now
from django.test.utils import CaptureQueriesContext

from billing.models import LedgerEntry
from completions import tasks
from completions.charging.recovery import checkpoints
from completions.models import Completion
from keys.models import ApiKey
from tests import chat, factories
from tests.chat import TIMESTAMP
from tests.completions.routes import add
from tests.completions.rows import abandon, ask, ask_streamed, begin, disconnect, events
from tests.conftest import client_for
from tests.upstream import CLOSE, ROLE, refusal, stream, streamed, usage, whole, words


def look_up(client, completion_id):
    """Return what is said of a completion, with its numbers as Decimals."""
    reply = client.get(f"/v1/completions/{completion_id}")
    assert (reply.status_code, reply["content-type"]) == (200, "application/json"), reply.content
    return json.loads(reply.content, parse_float=Decimal)


def latest(client):
    return look_up(client, Completion.objects.latest("id").pk)


def test_a_whole_reply_can_be_looked_up_as_soon_as_it_is_there(api, alice, large):
    reply = ask(api)
    told = json.loads(reply.content, parse_float=Decimal)
    timings = (found := look_up(api, told["id"])).pop("timings")
    assert found == {
        "id": told["id"],
        "object": "completion",
        "created": told["created"],
        "request_id": reply["x-request-id"],
        "user": None,
        "metadata": {},
        "key": ApiKey.objects.get(account=alice).pk,
        "model": "acme/large",
        "provider": "scripted",
        "stream": False,
        "attempts": 1,
        "own_key": False,
        "failed_attempts": [],
        "data_demanded": None,
        "data_promised": None,
        "settlement": "reported",
        "service_tier": "default",
        "usage": {
            "prompt_tokens": 9,
            "completion_tokens": 2,
            "total_tokens": 11,
            "prompt_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0, "cache_write_1h_tokens": 0},
            "web_searches": 0,
            "cost": Decimal("0.000057"),
            "cost_details": {"upstream_inference_cost": None},
        },
        "max_cost": Decimal(reply["x-gateway-max-cost"]),
        "repeats": None,
        "charged_before": 0,
    }
    assert TIMESTAMP.fullmatch(timings["started_at"])
    took = datetime.fromisoformat(timings.pop("ended_at")) - datetime.fromisoformat(timings.pop("started_at"))
    assert timings == {
        "total_ms": pytest.approx(took / timedelta(milliseconds=1), abs=1),
        "first_token_ms": None,
        "streamed_ms": None,
    }


def test_a_stream_can_be_looked_up_when_done_has_arrived(api, large, upstream):
    upstream.will(streamed())
    reply = ask_streamed(api)
    _, rest = begin(reply, "Hello you")
    running = latest(api)
    assert (running["settlement"], running["usage"], running["stream"]) == (None, None, True)
    assert (running["timings"]["ended_at"], running["timings"]["total_ms"]) == (None, None)
    assert b"".join(rest).endswith(b"data: [DONE]\n\n")
    ended = latest(api)
    assert (ended["settlement"], ended["usage"]["cost"]) == ("reported", Decimal("0.000057"))
    assert min(ended["timings"]["first_token_ms"], ended["timings"]["streamed_ms"]) >= 0


TAGS = {"team": "search \N{DROMEDARY CAMEL}", "=cmd()": "'", "Ünï": ""}


@pytest.mark.parametrize("stream", [False, True])
def test_user_and_tags_of_a_request_are_kept_with_its_completion(api, large, upstream, stream):
    upstream.will(streamed() if stream else whole())
    reply = ask(api, user="u-1", metadata=TAGS, stream=stream)
    assert reply.getvalue()
    assert reply.status_code == 200
    found = latest(api)
    assert (found["user"], found["metadata"], found["stream"]) == ("u-1", TAGS, stream)


@pytest.mark.parametrize(
    ("fields", "user"),
    [
        ({"user": "u", "safety_identifier": "s"}, "u"),
        ({"user": "", "safety_identifier": "s"}, "s"),
        ({"user": None, "metadata": None}, None),
        ({"user": "x" * 512, "metadata": {}}, "x" * 512),
    ],
)
def test_the_user_is_named_by_either_of_openais_fields(api, echo_model, fields, user):
    chat.ask(api, **fields)
    assert (latest(api)["user"], latest(api)["metadata"]) == (user, {})


def test_user_and_tags_cost_no_query(api, echo_model):
    def queries(**fields):
        with CaptureQueriesContext(connection) as captured:
            assert chat.ask(api, **fields).status_code == 200
        return len(captured)

    queries()  # what a process reads once
    assert queries(user="u", metadata=TAGS) == queries() > 0


def test_attempts_that_failed_are_listed_with_the_one_that_answered(api, large, upstream, spare):
    add(large, spare)
    upstream.will(refusal(500))
    ask(api)
    found = latest(api)
    assert (found["provider"], found["attempts"]) == ("spare", 2)
    assert found["failed_attempts"] == [{"provider": "scripted", "status": 500}]


def test_a_request_that_failed_cost_nothing(api, large, upstream):
    upstream.will(refusal(400, "secret words of a provider"))
    reply = ask(api)
    found = latest(api)
    assert (reply.status_code, found["settlement"], found["usage"]["total_tokens"], found["usage"]["cost"]) == (
        400,
        "released",
        0,
        0,
    )
    assert "secret" not in str(found)


@pytest.mark.parametrize("reported", [None, {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}])
def test_a_stream_that_broke_off_says_what_was_charged(api, large, upstream, reported):
    upstream.will(stream(ROLE, words("Hello ", "you"), *([usage(reported)] if reported else []), CLOSE))
    assert "error" in events(ask_streamed(api))[-1]
    found = latest(api)
    cost = -LedgerEntry.objects.get(type="USAGE_DEBIT").amount_nanos
    assert (found["settlement"], found["usage"]["cost"] * 10**9) == ("partial", cost)


def test_a_reply_that_the_client_left_is_looked_up_like_any_other(api, large, upstream):
    upstream.will(streamed())
    disconnect(ask_streamed(api))
    assert latest(api)["settlement"] == "reported"


def test_a_run_after_a_death_names_the_one_before_and_what_that_was_charged(api, echo_model):
    fields = {"model": "demo/echo", "messages": [{"role": "user", "content": "Hi"}], "stream": True}
    fields["echo"] = {"reply": "four bytes " * 18}
    dead = api.post(chat.PATH, fields, headers={"Idempotency-Key": "a"})
    silence = checkpoints.ABANDONED_AFTER + timedelta(seconds=1)
    Completion.objects.update(checkpointed_at=Now() - silence, relayed_bytes=16)
    assert tasks.release_expired_holds() == 1
    abandon(dead)
    first = latest(api)
    events(api.post(chat.PATH, fields, headers={"Idempotency-Key": "a"}))
    second = latest(api)
    assert (first["settlement"], first["repeats"]) == ("recovered", None)
    assert (second["repeats"], second["charged_before"]) == (first["id"], first["usage"]["cost"])


# --- Who may ask ------------------------------------------------------------------------------------------------------


def test_every_key_of_the_account_may_ask(api, alice, large):
    other = client_for(factories.make_key(alice)[1])
    assert look_up(other, ask(api).json()["id"])["id"]


@pytest.mark.parametrize("path", ["chatcmpl-0", "a b", "%00", "x" * 500, "..", "{}\u00e9"])
def test_an_id_that_does_not_exist_is_a_404(api, path):
    chat.assert_error(api.get(f"/v1/completions/{path}"), 404, "invalid_request_error")


def test_a_completion_of_another_account_is_the_same_404(api, charlie, large):
    stranger, completion_id = client_for(factories.make_key(charlie)[1]), ask(api).json()["id"]
    messages = [
        chat.assert_error(stranger.get(f"/v1/completions/{each}"), 404, "invalid_request_error")["message"]
        for each in (completion_id, "chatcmpl-0")
    ]
    assert messages[0].replace(completion_id, "chatcmpl-0") == messages[1]


def test_it_needs_a_key_and_only_reads(api, large):
    completion_id = ask(api).json()["id"]
    chat.assert_error(client_for(None).get(f"/v1/completions/{completion_id}"), 401, "invalid_api_key")
    before = chat.everything_written()
    reply = api.get(f"/v1/completions/{completion_id}")
    assert re.fullmatch(r"\d+", reply["x-ratelimit-limit-concurrent"])
    chat.assert_error(api.delete(f"/v1/completions/{completion_id}"), 405, "invalid_request_error")
    assert chat.everything_written() == before


def test_it_counts_as_a_read(api, large, settings):
    settings.KEY_READS_PER_MINUTE = 2
    path = f"/v1/completions/{ask(api).json()['id']}"
    assert [api.get(path).status_code for _ in range(3)] == [200, 200, 429]
    assert ask(api).status_code == 200
